package storetest

import (
	"encoding/json"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// orphan makes a parent with a child at work, and ends the parent.
func (w *world) orphan(c *call) (parent, child sessions.Grant) {
	w.Helper()
	parent = w.call("p").isolated().ok()
	child = c.from(parent).ok()
	w.hold(child)
	w.completes(parent)
	return parent, child
}

// What comes within the grace counts, as if nobody had asked.
func graceCounts(w *world) {
	parent, child := w.orphan(w.call("a").isolated())
	w.ending(child, lineage.ReasonOrphaned)
	w.stands(child, "active", "active")
	w.live(1)
	w.clock.advance(29 * time.Second)
	w.settle()
	w.stands(child, "active", "active")
	w.about(child).is(lineage.Completed, "").with(func(p *sessions.Progress) {
		p.Result = json.RawMessage(`{"status":"completed","summary":"just in time"}`)
	}).tell()
	w.stands(child, "completed", "completed")
	w.ending(child, "")
	w.equal("result", "just in time", w.session(child).Result.Summary)
	w.equal("what the parent is told", []string{"result/" + child.Session.ID + "/completed"}, w.told(parent))
	w.equal("errors", 0, w.tree().Errors)
	w.passGrace()
	w.stands(child, "completed", "completed")
}

// told is what the session of g was told of its children, as ids of events.
func (w *world) told(g sessions.Grant) []string {
	w.Helper()
	var ids []string
	for _, e := range w.events(w.root, sessions.EventQuery{All: true, Session: g.Session.ID, Types: []string{lineage.EventResult}}) {
		ids = append(ids, e.ID)
	}
	return ids
}

// What has not ended when the grace is over is ended, whatever runs or waits.
func graceEnds(w *world) {
	parent, child := w.orphan(w.call("a").in("ctx-a"))
	second := w.call("a").message(w.run(child).MessageID + "-2").with(func(a *sessions.Admission) {
		a.TaskID = "" // finds nothing: a session that is ending is not found by its context
	}).in("ctx-a").ok()
	if !second.New {
		w.Fatalf("a call found session %s, which is being ended", second.Session.ID)
	}
	w.hold(second)
	w.clock.advance(lineage.DefaultGrace - time.Millisecond)
	w.settle()
	w.stands(child, "active", "active")
	w.clock.advance(2 * time.Millisecond)
	w.settle()
	w.stands(child, "failed/orphaned", "failed/orphaned")
	w.stands(second, "active", "active")
	w.ending(child, "")
	w.equal("errors", 1, w.tree().Errors)
	w.live(1)
	w.equal("what the parent is told", []string{"result/" + child.Session.ID + "/failed/orphaned"}, w.told(parent))
	w.completes(child) // too late
	w.stands(child, "failed/orphaned", "failed/orphaned")

	// The forced end takes all runs of the session.
	open := w.call("b").in("ctx-b").ok()
	waits := w.call("b").in("ctx-b").ok()
	w.suspends(waits)
	w.hold(open)
	w.step(lineage.VerbCancel, open).ok()
	w.passGrace()
	w.stands(open, "failed/canceled", "failed/canceled")
	w.stands(waits, "failed/canceled", "failed/canceled")
}

// The end of a session reaches all below it at once, however deep.
func cascadeIsDeep(w *world) {
	l := w.listen()
	top := w.call("a").isolated().turn("turn-top").ok()
	below := w.call("b").in("ctx-b").from(top).turn("turn-b").ok()
	waits := w.call("b").in("ctx-b").from(top).ok()
	w.suspends(waits)
	bottom := w.call("c").isolated().from(below).turn("turn-c").ok()
	leaf := w.call("d").isolated().worker().from(bottom).ok()
	aside := w.call("e").isolated().ok()
	w.completes(top)
	w.equal("the log of it", []string{
		"ended/" + top.Session.ID + "/completed", "result/" + top.Session.ID + "/completed",
		"cancel/" + below.Session.ID, "cancel/" + bottom.Session.ID, "cancel/" + leaf.Session.ID,
	}, w.logged()[len(w.logged())-5:])
	var origins []string
	for _, e := range w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventCancel}}) {
		origins = append(origins, e.Turn+" "+e.TraceID)
	}
	w.equal("origins", []string{"turn-b ", "turn-c ", " "}, origins)
	w.equal("who is to stop", []string{below.RunID, waits.RunID, bottom.RunID, leaf.RunID}, runsOf(l.of(w.root)))
	w.ending(aside, "")
	// The end of one that was asked asks nobody a second time.
	w.completes(leaf)
	w.completes(bottom)
	w.stands(leaf, "completed", "completed")
	w.stands(bottom, "completed", "completed")
	w.equal("requests", 3, len(w.logged(lineage.EventCancel)))
	w.hold(aside, below)
	w.passGrace()
	w.stands(below, "failed/orphaned", "failed/orphaned")
	w.stands(waits, "failed/orphaned", "failed/orphaned")
	w.live(1)
}

// An idle session ends with its parent; what runs below it is asked to stop.
func cascadeThroughIdle(w *world) {
	top := w.call("a").isolated().ok()
	idle := w.call("b").in("ctx-b").from(top).ok()
	parked := w.call("b").in("ctx-p").from(top).ok()
	below := w.call("c").isolated().from(idle).ok()
	held := w.ahead("d", "").under(parked.Session.ID).ok()
	w.completes(idle)
	w.completes(parked)
	w.step(lineage.VerbSuspend, parked).ok()
	w.live(3)
	w.completes(top)
	w.stands(idle, "expired/parent_ended", "completed")
	w.stands(parked, "expired/parent_ended", "completed")
	s := w.session(held)
	w.equal("what was held ahead", "expired/parent_ended", spellState(s.State, s.Reason))
	w.ending(below, lineage.ReasonOrphaned)
	w.live(1)
	w.equal("the log of it", []string{
		"ended/" + top.Session.ID + "/completed", "result/" + top.Session.ID + "/completed",
		"ended/" + idle.Session.ID + "/expired/parent_ended", "result/" + idle.Session.ID + "/expired/parent_ended",
		"cancel/" + below.Session.ID,
		"ended/" + parked.Session.ID + "/expired/parent_ended", "result/" + parked.Session.ID + "/expired/parent_ended",
		"ended/" + held.Session.ID + "/expired/parent_ended", "result/" + held.Session.ID + "/expired/parent_ended",
	}, w.logged()[len(w.logged())-9:])
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventExpired}})
	w.equal("what it says", sessions.EndPayload{State: lineage.Expired, Reason: lineage.ReasonParentEnded}, meaning(e[0]))
	w.equal("errors", 0, w.tree().Errors)
	w.completes(below)
	w.stands(below, "completed", "completed")
	w.equal("what its parent, long ended, is told", []string{"result/" + below.Session.ID + "/completed"}, w.told(idle))
}

// Every kind of end cascades: a loss, a deadline, a step, a forced end.
func everyEndCascades(w *world) {
	for name, end := range map[string]func(parent sessions.Grant){
		"a failure":    func(p sessions.Grant) { w.about(p).is(lineage.Failed, "").tell() },
		"a loss":       w.loses,
		"a step":       func(p sessions.Grant) { w.step(lineage.VerbFail, p).ok() },
		"a lapse":      func(sessions.Grant) { w.clock.advance(lease + tick); w.settle() },
		"a forced end": func(p sessions.Grant) { w.hold(p); w.step(lineage.VerbCancel, p).ok(); w.passGrace() },
	} {
		parent := w.call("a").isolated().ok()
		child := w.call("b").isolated().from(parent).ok()
		w.hold(child)
		end(parent)
		if !w.session(parent).State.Terminal() {
			w.Errorf("the parent goes on after %s", name)
		}
		w.ending(child, lineage.ReasonOrphaned)
		w.completes(child)
	}
	parent := w.call("a").in("ctx-a").ttl(time.Minute).ok()
	child := w.call("b").isolated().from(parent).ok()
	w.completes(parent)
	w.hold(child)
	w.clock.advance(time.Minute + tick)
	w.settle()
	w.stands(parent, "expired", "completed")
	w.ending(child, lineage.ReasonOrphaned)
}

// What may go on goes on, with all below it, until it ends itself.
func abandoned(w *world) {
	top := w.call("a").isolated().ok()
	free := w.call("b").in("ctx-b").from(top).abandon().ok()
	below := w.call("c").isolated().from(free).ok()
	idle := w.call("d").in("ctx-d").from(free).ok()
	w.completes(idle)
	bound := w.call("b").isolated().from(top).ok()
	if !free.Session.Abandon || bound.Session.Abandon {
		w.Errorf("Grant.Session.Abandon = %t and %t, want true and false", free.Session.Abandon, bound.Session.Abandon)
	}
	w.hold(free, below)
	w.completes(top)
	w.ending(bound, lineage.ReasonOrphaned)
	w.ending(free, "")
	w.ending(below, "")
	w.stands(idle, "active", "completed")
	w.call("e").isolated().from(free).ok() // it calls agents as before
	w.completes(w.call("b").in("ctx-b").ok())
	w.stands(free, "active", "active")

	w.step(lineage.VerbComplete, free).ok()
	w.ending(below, lineage.ReasonOrphaned)
	w.stands(idle, "expired/parent_ended", "completed")
}

func endingCallsNobody(w *world) {
	g := w.call("a").in("ctx-a").ok()
	w.step(lineage.VerbCancel, g).ok()
	w.call("b").isolated().from(g).refused(refusal(lineage.ParentEnded, "", 0, 0, g.Session))
	w.call("b").isolated().under(g.Session.ID).refused(refusal(lineage.ParentEnded, "", 0, 0, g.Session))
	w.ahead("b", "").under(g.Session.ID).refused(refusal(lineage.ParentEnded, "", 0, 0, g.Session))
	if g.Session.ContextID != "ctx-a" {
		w.Errorf("session %s has context %s", g.Session.ID, g.Session.ContextID)
	}
}

// A session that is being ended is as good as ended to whoever looks for one:
// the next call in its context gets a new one, which has the context from then on.
func endingIsReplaced(w *world) {
	g1, s1 := w.call("a").in("ctx-a").ok(), w.call("b").shared().ok()
	w.step(lineage.VerbCancel, g1).ok()
	w.step(lineage.VerbCancel, s1).ok()
	g2, s2 := w.call("a").in("ctx-a").ok(), w.call("b").shared().ok()
	if !g2.New || !s2.New {
		w.Fatalf("calls found sessions %s and %s, which are being ended", g2.Session.ID, s2.Session.ID)
	}
	w.equal("sessions of the next calls", []string{g2.Session.ID, s2.Session.ID},
		[]string{w.call("a").in("ctx-a").ok().Session.ID, w.call("b").shared().ok().Session.ID})
	w.equal("parent of a call out of the context", g2.Session.ID, w.call("c").isolated().from(g1).ok().Session.Parent)
	found, err := w.store.SessionOf(w.Context(), w.root, sessions.BindingKey{Kind: sessions.BindContext, Agent: "a", ID: "ctx-a"})
	if err != nil || found.ID != g2.Session.ID {
		w.Errorf("SessionOf(ctx-a) = %s, %v, want %s", found.ID, err, g2.Session.ID)
	}
}

// A message of a known task, or one sent again, goes on in its session though
// that is being ended. It gives it no more time.
func endingGoesOn(w *world) {
	task := w.id("task")
	c := w.call("a").in("ctx-a").ttl(hour)
	g := c.ok()
	w.about(g).task(task).tell()
	w.step(lineage.VerbCancel, g).ok()
	until := *w.session(g).Deadline
	w.equal("end of the grace", w.clock.now().Add(lineage.DefaultGrace).UTC().String(), until.UTC().String())
	w.suspends(g)
	w.clock.advance(10 * tick)
	again := w.call("a").task(task).ttl(hour).ok()
	if again.RunID != g.RunID || !again.Waited {
		w.Errorf("a message of the task got %+v, want run %s", again, g.RunID)
	}
	w.ending(g, lineage.ReasonCanceled)
	if d := w.session(g).Deadline; d == nil || !d.Equal(until) {
		w.Errorf("after a message of its task, session %s has until %v, want %s", g.Session.ID, d, until)
	}
	retry := c.again().ok()
	if retry.RunID != g.RunID || !retry.Retry {
		w.Errorf("a retry got %+v, want run %s", retry, g.RunID)
	}
	w.hold(retry)
	w.clock.advance(lineage.DefaultGrace - 10*tick + time.Millisecond)
	w.settle()
	w.stands(g, "failed/canceled", "failed/canceled")
	// After it, too: in a run of its own.
	late := c.again().ok()
	if late.New || late.Session.ID != g.Session.ID || late.RunID == g.RunID {
		w.Errorf("a retry after the end got %+v, want a new run of session %s", late, g.Session.ID)
	}
	w.completes(late)
	w.stands(late, "failed/canceled", "completed")
}

// A session that is being ended ends with its last run, whatever it is, and as
// that run did.
func endingEndsWithLastRun(w *world) {
	g1, g2, g3 := w.call("a").in("ctx-a").ok(), w.call("a").in("ctx-a").ok(), w.call("a").in("ctx-a").ok()
	w.step(lineage.VerbCancel, g1).ok()
	w.completes(g1)
	w.suspends(g2)
	w.stands(g2, "suspended", "suspended")
	w.ending(g2, lineage.ReasonCanceled)
	w.about(g3).is(lineage.Failed, lineage.ReasonAgentError).tell()
	w.stands(g3, "suspended", "failed/agent_error")
	w.live(1)
	w.about(g2).is(lineage.Failed, lineage.ReasonCanceled).tell()
	w.stands(g2, "failed/canceled", "failed/canceled")
	w.stands(g1, "failed/canceled", "completed")
	w.ending(g2, "")
	w.live(0)

	// A loss is an end too, told or settled.
	told, lapsed := w.call("a").in("ctx-b").ok(), w.call("a").in("ctx-c").ok()
	w.step(lineage.VerbCancel, told).ok()
	w.step(lineage.VerbCancel, lapsed).ok()
	w.loses(told)
	w.stands(told, "failed/lost", "failed/lost")
	w.clock.advance(lease + tick)
	w.settle()
	w.stands(lapsed, "failed/lost", "failed/lost")
}

// The sidecar that died may have held one run of several: the session goes on
// with what others hold, and what waits needs nobody to hold it.
func lossSparesOthers(w *world) {
	lost, kept := w.call("a").in("ctx-a").ok(), w.call("a").in("ctx-a").ok()
	w.hold(kept)
	beside, waits := w.call("a").isolated(), w.call("b").in("ctx-b").ok()
	alone := beside.ok()
	w.suspends(waits)
	gone := w.call("b").in("ctx-b").ok()
	w.clock.advance(lease + tick)
	w.settle()
	w.stands(lost, "active", "failed/lost")
	w.stands(kept, "active", "active")
	w.stands(gone, "suspended", "failed/lost")
	w.stands(waits, "suspended", "suspended")
	w.stands(alone, "failed/lost", "failed/lost")
	w.live(2)
	// A loss that a living sidecar tells ends no session that goes on without it.
	told := w.call("c").in("ctx-c").ok()
	w.loses(told)
	w.stands(told, "active", "failed/lost")
}

// An isolated session, too, survives the loss of a run while another waits.
func lossSparesWaiting(w *world) {
	c := w.call("a").in("ctx-a").worker()
	waits := w.waiting(c, w.id("task"))
	lost := w.call("a").in("ctx-a").worker().ok()
	w.clock.advance(lease + tick)
	w.settle()
	w.stands(lost, "suspended", "failed/lost")
	w.completes(waits)
	w.stands(waits, "completed", "completed")
}

// A shared session that was lost with its run is corrected as a whole by the
// agent's own word: it has ended, and its parent hears of it anew.
func lostSharedIsCorrected(w *world) {
	g := w.call("a").in("ctx-a").ok()
	child := w.call("b").isolated().from(g).ok()
	w.hold(child)
	w.clock.advance(lease + tick)
	w.settle()
	w.stands(g, "failed/lost", "failed/lost")
	w.ending(child, lineage.ReasonOrphaned)
	w.about(g).is(lineage.Completed, "").with(func(p *sessions.Progress) {
		p.Gen, p.Result = 0, json.RawMessage(`{"status":"completed","summary":"here I am"}`)
	}).tell()
	w.stands(g, "completed", "completed")
	w.equal("errors", 0, w.tree().Errors)
	w.equal("what the parent is told", []string{
		"result/" + g.Session.ID + "/failed/lost", "result/" + g.Session.ID + "/completed",
	}, w.logged(lineage.EventResult))
	w.ending(child, lineage.ReasonOrphaned) // asked is asked
	w.equal("requests", 1, len(w.logged(lineage.EventCancel)))
	next := w.call("a").in("ctx-a").ok()
	if !next.New {
		w.Errorf("a call in the context of a lost session found it, %s", next.Session.ID)
	}
}

// The parent's log tells what its children left, in the order in which they
// ended, with its own stamp: it may read that, and nothing else of them.
func resultsAreTold(w *world) {
	parent := w.call("p").in("ctx-p").turn("turn-p").ok()
	call := func(c *call) sessions.Grant { return c.from(parent).turn("turn-c").ok() }
	first, second := call(w.call("a").isolated()), call(w.call("b").isolated())
	shared, none := call(w.call("c").in("ctx-c")), call(w.call("d").isolated())
	result := func(summary string) func(*sessions.Progress) {
		return func(p *sessions.Progress) {
			p.Result = json.RawMessage(`{"status":"completed","summary":"` + summary + `"}`)
		}
	}
	before := w.session(parent)
	w.about(second).is(lineage.Completed, "").with(result("two")).tell()
	w.about(first).is(lineage.Failed, lineage.ReasonRejected).with(result("one")).tell()
	w.about(shared).is(lineage.Completed, "").with(result("three")).tell()
	w.equal("results while the shared session goes on", 2, len(w.told(parent)))
	w.step(lineage.VerbFail, shared).ok() // leaves what its run left
	w.about(none).is(lineage.Completed, "").tell()
	log := w.events(w.root, sessions.EventQuery{Read: parent.Session.Read, Types: []string{lineage.EventResult}})
	var got []any
	for _, e := range log {
		got = append(got, meaning(e))
		if e.Session != parent.Session.ID || e.Branch != parent.Session.Branch || e.Tokens.String() != parent.Session.Tokens.String() {
			w.Errorf("event %s is of %s %s [%s], want the parent's", e.ID, e.Session, e.Branch, e.Tokens)
		}
		trace := "trace-news"
		if e.ID == "result/"+shared.Session.ID+"/failed" {
			trace = "trace-step"
		}
		if e.Turn != "turn-c" || e.TraceID != trace {
			w.Errorf("event %s is of turn %s and trace %s, want turn-c and %s", e.ID, e.Turn, e.TraceID, trace)
		}
	}
	left := func(g sessions.Grant, state lineage.State, reason, summary string) any {
		p := resultPayload{Session: g.Session.ID, Agent: g.Session.Agent, State: state, Reason: reason}
		if summary != "" {
			p.Result = &lineage.Result{Status: lineage.Completed, Summary: summary}
		}
		return p
	}
	w.equal("what the parent is told", []any{
		left(second, lineage.Completed, "", "two"), left(first, lineage.Failed, lineage.ReasonRejected, "one"),
		left(shared, lineage.Failed, "", "three"), left(none, lineage.Completed, "", ""),
	}, got)
	after := w.session(parent)
	w.equal("version of the parent", log[3].Seq, after.Version)
	w.equal("state of the parent", before.State, after.State)
	// Nobody stands above the root session.
	w.completes(parent)
	w.mainStep(lineage.VerbComplete).ok()
	w.equal("results told to main", 1, len(w.told(sessions.Grant{Session: w.main()})))
}

// A placeholder is told as any parent is, and ends with the root as any idle
// session does.
func placeholderIsTold(w *world) {
	far := sessions.Caller{ContextID: "ctx-far"}
	c := w.call("a").isolated().with(func(a *sessions.Admission) { a.Caller = far })
	g := c.ok()
	w.completes(g)
	w.equal("what it is told", []string{"result/" + g.Session.ID + "/completed"},
		w.told(sessions.Grant{Session: lineage.Session{ID: c.RemoteID}}))
	w.mainStep(lineage.VerbComplete).ok()
	s, err := w.store.Session(w.Context(), c.RemoteID)
	if err != nil || spellState(s.State, s.Reason) != "expired/parent_ended" {
		w.Errorf("Session(placeholder) = %s/%s, %v, want expired/parent_ended", s.State, s.Reason, err)
	}
	w.call("a").isolated().with(func(a *sessions.Admission) { a.Caller = far }).refused(refusal(lineage.ParentEnded, "", 0, 0, s))
}
