package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

func aheadHolds(w *world) {
	one := lineage.Limits{MaxChildren: 1}
	c := w.ahead("a", "").max(one).ttl(time.Minute).turn("turn-1").with(func(a *sessions.Admission) {
		a.Abandon, a.Inherit, a.Summary, a.TraceID = true, lineage.InheritSummary, json.RawMessage(`{"text":"so far"}`), "trace-1"
	})
	g := c.ok()
	now, deadline := w.clock.now(), w.clock.now().Add(time.Minute)
	want := lineage.Session{
		ID: c.SessionID, Tree: w.root, Parent: c.MainID, Edge: lineage.EdgeSpawn, Kind: lineage.Branch, Agent: "a",
		ContextID: c.ContextID, State: lineage.Active, Depth: 1, Branch: "coordinator.a@1", Ordinal: 1,
		Tokens: lineage.Tokens{1}, Read: lineage.Tokens{1}, Isolated: true, Inherit: lineage.InheritSummary,
		Turn: "turn-1", ParentSource: lineage.FromAPI, CreatedAt: now, UpdatedAt: now, Deadline: &deadline,
		Reserved: true, Abandon: true, Owner: "sidecar-1", Version: 3, TraceID: "trace-1",
	}
	w.equal("the grant", sessions.Grant{Session: want, ParentContextID: w.root, New: true}, g)
	w.equal("the session", want, w.session(g))
	w.belongs(sessions.BindContext, "a", c.ContextID, w.mine())
	w.live(1)
	w.equal("state of the tree", lineage.TreeActive, w.tree().State)
	w.equal("the log", []string{"spawned/" + c.MainID, "spawned/" + c.SessionID, "summary/" + c.SessionID}, w.logged())
	e := w.dump(w.root).Log[2]
	w.equal("the summary", []string{lineage.EventSummary, c.SessionID, `{"text":"so far"}`, "turn-1", "trace-1"},
		[]string{e.Type, e.Session, string(e.Payload), e.Turn, e.TraceID})
	w.equal("who reads it", []uint64{1, 2, 3}, seqs(w.events(w.root, sessions.EventQuery{Read: g.Session.Read})))
	w.call("b").isolated().max(one).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))
	w.ahead("b", "").max(one).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))
}

// The first call that names the context runs in the session, whatever context
// it would have had otherwise. It takes no further place.
func aheadIsTakenOver(w *world) {
	one := lineage.Limits{MaxChildren: 1, MaxFanOut: 1, MaxConcurrent: 1, MaxSessions: 1, MaxDepth: 1}
	c := w.ahead("v", "").max(one)
	s := c.ok()
	first := w.call("v").isolated().naming(c.ContextID).max(one).ttl(time.Minute)
	g := first.ok()
	if g.New || g.Retry || g.Resumed || g.Session.ID != s.Session.ID || g.RunID != first.RunID || g.Gen != 1 || g.Session.Reserved {
		w.Errorf("the first call got %+v, want its own run in session %s", g, s.Session.ID)
	}
	w.live(1)
	log := w.logged()
	w.equal("its event", "sent/v/"+first.MessageID, log[len(log)-1])
	w.belongs(sessions.BindContext, "v", first.ContextID, sessions.Binding{})
	// It is taken: the next call that names it gets what it would have had.
	if next := w.call("v").isolated().naming(c.ContextID).ok(); !next.New {
		w.Errorf("the second call got session %s, which was taken", next.Session.ID)
	}
	w.completes(g)
	w.stands(g, "completed", "completed")

	// Its own agent only, and by its name only.
	c = w.ahead("v", "")
	s = c.ok()
	if g := w.call("b").isolated().naming(c.ContextID).ok(); !g.New {
		w.Errorf("another agent's call got session %s", g.Session.ID)
	}
	if g := w.call("v").isolated().ok(); !g.New {
		w.Errorf("a call that names no context got session %s", g.Session.ID)
	}
	if g := w.call("v").shared().ok(); !g.New {
		w.Errorf("a shared call got session %s", g.Session.ID)
	}
	if !w.session(s).Reserved {
		w.Errorf("session %s is reserved no more, and no call named it", s.Session.ID)
	}
}

// One that is not isolated serves all calls that name it, as any shared one.
func aheadIsShared(w *world) {
	c := w.ahead("a", "").with(func(a *sessions.Admission) { a.Isolated = false })
	s := c.ok()
	g1 := w.call("a").in(c.ContextID).naming(c.ContextID).max(lineage.Limits{MaxChildren: 1}).ok()
	g2 := w.call("a").in(c.ContextID).naming(c.ContextID).ok()
	w.equal("sessions of the calls", []string{s.Session.ID, s.Session.ID}, []string{g1.Session.ID, g2.Session.ID})
	w.completes(g1)
	w.completes(g2)
	w.stands(g1, "active", "completed")
	w.live(0)
	// It may be found by its context alone.
	c = w.ahead("a", "").with(func(a *sessions.Admission) { a.Isolated = false })
	s = c.ok()
	w.equal("session found", s.Session.ID, w.call("a").in(c.ContextID).ok().Session.ID)
	if w.session(s).Reserved {
		w.Errorf("session %s is reserved still, and a call runs in it", s.Session.ID)
	}
	// It may be the caller as soon as it is there.
	below := w.call("b").isolated().from(s).ok()
	w.equal("parent of its call", s.Session.ID, below.Session.Parent)
}

// A place that nobody takes comes free when the session's time is over.
func aheadExpires(w *world) {
	one := lineage.Limits{MaxChildren: 1}
	c := w.ahead("a", "").max(one).ttl(time.Minute)
	s := c.ok()
	w.clock.advance(time.Minute + tick)
	w.call("b").isolated().max(one).ok()
	got := w.session(s)
	if got.State != lineage.Expired || got.Reason != "" || got.Reserved {
		w.Errorf("session %s is %s/%s, reserved: %t, want it to have expired", got.ID, got.State, got.Reason, got.Reserved)
	}
	w.live(1)
	if g := w.call("a").isolated().naming(c.ContextID).ok(); !g.New {
		w.Errorf("a call that names an expired session's context got that, %s", g.Session.ID)
	}
	w.equal("errors", 0, w.tree().Errors)
	for _, verb := range []lineage.Verb{lineage.VerbCancel, lineage.VerbComplete} {
		live := w.tree().Live
		s = w.ahead("a", "").ok()
		w.live(live + 1)
		if after := w.step(verb, s).ok(); after.Reserved {
			w.Errorf("session %s is reserved after %s", after.ID, verb)
		}
		w.live(live)
	}
}

// A request is one, however often it is made: the session it made is found
// again, whatever became of that, and no cap is asked.
func aheadOnce(w *world) {
	one := lineage.Limits{MaxChildren: 1, MaxSessions: 1}
	c := w.ahead("a", "request-1").max(one)
	g1 := c.ok()
	before := w.dump(w.root)
	g2 := c.again().with(func(a *sessions.Admission) { a.ContextID = w.id("context") }).ok()
	w.equal("the second grant", sessions.Grant{Session: g1.Session, ParentContextID: w.root, Retry: true}, g2)
	other := w.ahead("b", "request-1").with(func(a *sessions.Admission) { a.Kind = lineage.Worker }).ok()
	w.equal("session of the request for another agent", g1.Session.ID, other.Session.ID)
	w.equal("what the request changes when it comes again", before, w.dump(w.root))
	w.completes(w.call("a").isolated().naming(c.ContextID).max(one).ok())
	g3 := c.again().ok()
	if g3.New || g3.Session.ID != g1.Session.ID || g3.Session.State != lineage.Completed {
		w.Errorf("the request after the session's end got %+v, want session %s as it ended", g3, g1.Session.ID)
	}
	c.again().with(func(a *sessions.Admission) { a.RequestID = "request-2" }).
		refused(refusal(lineage.SessionsLimit, "maxSessions", 1, 1, w.main()))
	if g := c.again().to(w.root + "-other").ok(); !g.New {
		w.Errorf("the same request in another tree found session %s", g.Session.ID)
	}
	for range 2 {
		if g := w.ahead("a", "").ok(); !g.New {
			w.Errorf("a request without an id found session %s", g.Session.ID)
		}
	}
}

// Whoever may use the API may use any tree; a tree that it makes is the named
// principal's. What is bound to a tree is bound to its principal.
func aheadPrincipal(w *world) {
	bob := func(a *sessions.Admission) { a.Principal = "bob" }
	w.call("a").isolated().ok()
	c := w.ahead("a", "").with(bob)
	c.ok()
	w.belongs(sessions.BindContext, "a", c.ContextID, w.mine())
	w.call("a").isolated().naming(c.ContextID).with(bob).refused(lineage.Refusal{Reason: lineage.ContextForbidden})
	if g := w.call("a").isolated().naming(c.ContextID).ok(); g.New {
		w.Errorf("the tree's own principal got session %s, want the one made ahead", g.Session.ID)
	}
	fresh := w.ahead("a", "").with(bob).to(w.root + "-fresh")
	fresh.ok()
	w.belongs(sessions.BindContext, "a", fresh.ContextID, sessions.Binding{Root: w.root + "-fresh", Principal: "bob"})
	w.call("a").isolated().to(w.root + "-fresh").refused(lineage.Refusal{Reason: lineage.ContextForbidden})
}

// The caps of sessions hold, those of runs do not.
func aheadCaps(w *world) {
	runs := lineage.Limits{MaxFanOut: 1, MaxConcurrent: 1}
	busy := w.call("w").isolated().max(runs).ok()
	w.ahead("w", "").max(runs).ok()
	w.equal("agents of the tree", []string{"coordinator", "w"}, w.tree().Agents)
	w.call("b").isolated().max(lineage.Limits{MaxFanOut: 2}).ok() // it is no run

	g1 := w.ahead("a", "").under(busy.Session.ID).ok()
	w.equal("depth", 2, g1.Session.Depth)
	g2 := w.ahead("b", "").under(g1.Session.ID).ok()
	w.ahead("c", "").under(g2.Session.ID).refused(refusal(lineage.DepthLimit, "maxDepth", 3, 4, g2.Session))
	leaf := w.ahead("c", "").worker().under(g2.Session.ID).ok()
	w.ahead("c", "").under(leaf.Session.ID).refused(refusal(lineage.LeafSession, "", 0, 0, leaf.Session))
	w.ahead("a", "").under(g1.Session.ID).max(lineage.Limits{MaxVisits: 1}).
		refused(refusal(lineage.LoopLimit, "maxVisits", 1, 2, g1.Session))
	w.ahead("d", "").under(g1.Session.ID).max(lineage.Limits{MaxChildren: 1}).
		refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, g1.Session))
	w.ahead("d", "").turn("turn-1").max(lineage.Limits{MaxSessions: 1}).ok()
	w.ahead("d", "").turn("turn-1").max(lineage.Limits{MaxSessions: 1}).
		refused(refusal(lineage.SessionsLimit, "maxSessions", 1, 1, w.main()))
	w.call("d").isolated().turn("turn-1").max(lineage.Limits{MaxSessions: 1}).
		refused(refusal(lineage.SessionsLimit, "maxSessions", 1, 1, w.main()))
}

// A caller may be named by its id: any session of the tree.
func callerByID(w *world) {
	parent := w.call("a").ok() // has no context yet
	w.equal("parent", parent.Session.ID, w.call("b").isolated().under(parent.Session.ID).ok().Session.Parent)
	w.equal("parent", parent.Session.ID, w.ahead("b", "").under(parent.Session.ID).ok().Session.Parent)
	w.equal("parent", w.main().ID, w.call("b").isolated().under(w.main().ID).ok().Session.Parent)
	both := w.call("b").isolated().under(parent.Session.ID).with(func(a *sessions.Admission) {
		a.Caller.ContextID, a.Caller.SiblingOf, a.Caller.Depth = "ctx-far", "ctx-x", 3
	}).ok()
	w.equal("parent, whatever else is said", parent.Session.ID, both.Session.Parent)

	leaf, ended := w.call("c").isolated().worker().ok(), w.call("c").isolated().ok()
	w.completes(ended)
	w.call("b").isolated().under(leaf.Session.ID).refused(refusal(lineage.LeafSession, "", 0, 0, leaf.Session))
	w.call("b").isolated().under(ended.Session.ID).refused(refusal(lineage.ParentEnded, "", 0, 0, ended.Session))
	w.ahead("b", "").under(ended.Session.ID).refused(refusal(lineage.ParentEnded, "", 0, 0, ended.Session))

	elsewhere := w.call("a").isolated().to(w.root + "-other").ok()
	for _, id := range []string{"no-session", elsewhere.Session.ID} {
		w.call("b").isolated().under(id).notFound()
		w.ahead("b", w.id("request")).under(id).notFound()
	}
	fresh := w.call("b").isolated().to(w.root + "-fresh")
	fresh.under(fresh.MainID).notFound()
	w.ahead("b", "").to(w.root + "-fresh").under(parent.Session.ID).notFound()

	// A run that goes on has its caller.
	task := w.id("task")
	waits := w.waiting(w.call("d").isolated().under(parent.Session.ID), task)
	w.call("d").task(task).under("no-session").ok()
	w.equal("caller of the run", parent.Session.ID, w.run(waits).Caller)
}

func raceRequest(w *world) {
	first := w.ahead("a", "request-1").max(lineage.Limits{MaxChildren: 8})
	calls := []*call{first}
	for range racers - 1 {
		calls = append(calls, first.again())
	}
	made := 0
	ids := map[string]bool{}
	for _, g := range w.admitAll(calls, "") {
		ids[g.Session.ID] = true
		if g.New {
			made++
		}
		if g.New == g.Retry {
			w.Errorf("racing request got New %t and Retry %t", g.New, g.Retry)
		}
	}
	w.equal("sessions made, told of, there", []int{1, 1, 2}, []int{made, len(ids), w.tree().Sessions})
}

func raceAhead(w *world) {
	var calls []*call
	for i := range racers {
		calls = append(calls, w.ahead("a", fmt.Sprint("request-", i)).max(lineage.Limits{MaxChildren: 8}))
	}
	w.equal("grants", 8, len(w.admitAll(calls, lineage.ChildrenLimit)))
	w.live(8)
	w.equal("sessions", 9, w.tree().Sessions)
}

// Of many first calls one takes the session over.
func raceTakeover(w *world) {
	c := w.ahead("a", "")
	s := c.ok()
	var calls []*call
	for range racers {
		calls = append(calls, w.call("a").isolated().naming(c.ContextID))
	}
	taken := 0
	for _, g := range w.admitAll(calls, "") {
		if g.Session.ID == s.Session.ID {
			taken++
		}
	}
	w.equal("calls in the session made ahead", 1, taken)
	w.live(racers)
}
