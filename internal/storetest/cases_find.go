package storetest

import (
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

func firstCall(w *world) {
	c := w.call("a").isolated().ttl(time.Minute).turn("turn-1").with(func(a *sessions.Admission) {
		a.TraceID, a.Source, a.Inherit = "trace-1", lineage.FromSoleTurn, lineage.InheritSummary
	})
	g := c.ok()
	now, deadline := w.clock.now(), w.clock.now().Add(time.Minute)
	main := lineage.Session{
		ID: c.MainID, Tree: w.root, Edge: lineage.EdgeRoot, Kind: lineage.Main, Agent: "coordinator",
		ContextID: w.root, State: lineage.Active, Branch: "coordinator", Inherit: lineage.InheritFull,
		Turn: "turn-1", ParentSource: lineage.FromSoleTurn, CreatedAt: now, UpdatedAt: now, Version: 1, TraceID: "trace-1",
	}
	session := lineage.Session{
		ID: c.SessionID, Tree: w.root, Parent: c.MainID, Edge: lineage.EdgeSpawn, Kind: lineage.Branch, Agent: "a",
		ContextID: c.ContextID, State: lineage.Active, Depth: 1, Branch: "coordinator.a@1", Ordinal: 1,
		Tokens: lineage.Tokens{1}, Read: lineage.Tokens{1}, Isolated: true, Inherit: lineage.InheritSummary,
		Turn: "turn-1", ParentSource: lineage.FromSoleTurn, CreatedAt: now, UpdatedAt: now, Deadline: &deadline,
		Owner: "sidecar-1", Version: 3, TraceID: "trace-1",
	}
	w.equal("the grant", sessions.Grant{
		Session: session, ParentContextID: w.root, RunID: c.RunID, Gen: 1, New: true,
	}, g)
	session.Runs = []lineage.Run{{
		ID: c.RunID, Caller: c.MainID, MessageID: c.MessageID, State: lineage.Active, StartedAt: now,
	}}
	w.equal("the sessions", []lineage.Session{main, session}, w.dump(w.root).Sessions)
	w.equal("the tree", lineage.Tree{
		Root: w.root, StartedAt: now, LastEventAt: now, State: lineage.TreeActive,
		Sessions: 2, Live: 1, Depth: 1, Agents: []string{"a", "coordinator"},
	}, w.tree())
}

func placeholder(w *world) {
	w.call("a").isolated().ok()
	c := w.call("b").isolated().turn("turn-1").with(func(a *sessions.Admission) {
		a.Local, a.Caller = "far", sessions.Caller{ContextID: "ctx-far", Depth: 2}
	})
	g := c.ok()
	if g.Session.Parent != c.RemoteID || g.ParentContextID != "ctx-far" || g.Session.Depth != 3 {
		w.Errorf("grant %+v, want depth 3 under %s of context ctx-far", g, c.RemoteID)
	}
	got, err := w.store.Session(w.Context(), c.RemoteID)
	if err != nil {
		w.Fatalf("Session(%s): %v", c.RemoteID, err)
	}
	now := w.clock.now()
	w.equal("the placeholder", lineage.Session{
		ID: c.RemoteID, Tree: w.root, Parent: w.main().ID, Edge: lineage.EdgeSpawn, Kind: lineage.Branch,
		Agent: "far", ContextID: "ctx-far", State: lineage.Active, Depth: 2, Branch: "coordinator.far@2", Ordinal: 2,
		Tokens: lineage.Tokens{2}, Read: lineage.Tokens{2}, Inherit: lineage.InheritFull, Remote: true,
		Turn: "turn-1", ParentSource: lineage.FromHeader, CreatedAt: now, UpdatedAt: now, Version: 4,
	}, got)
	w.equal("tokens under the placeholder", lineage.Tokens{2, 3}, g.Session.Tokens)
	w.live(2)
	// The second call of the same stranger finds the first one's placeholder.
	next := w.call("b").isolated().with(func(a *sessions.Admission) { a.Local, a.Caller.ContextID = "far", "ctx-far" }).ok()
	if next.Session.Parent != c.RemoteID || next.Session.Ordinal != 2 {
		w.Errorf("the next call stands as %d under %s, want 2 under %s", next.Session.Ordinal, next.Session.Parent, c.RemoteID)
	}
	w.belongs(sessions.BindContext, "far", "ctx-far", w.mine())
}

func remoteRoot(w *world) {
	c := w.call("a").isolated().with(func(a *sessions.Admission) { a.Caller.ContextID = "ctx-mine" })
	c.ok()
	main := w.main()
	if main.Agent != "root" || main.Branch != "root" || !main.Remote || main.ContextID != w.root {
		w.Errorf("root session %+v, want the remote agent root", main)
	}
	remote, err := w.store.Session(w.Context(), c.RemoteID)
	if err != nil {
		w.Fatalf("Session(%s): %v", c.RemoteID, err)
	}
	if remote.Branch != "root.coordinator@1" || remote.Depth != 1 {
		w.Errorf("placeholder %s at depth %d, want root.coordinator@1 at 1", remote.Branch, remote.Depth)
	}
	// A caller that names the root is the root session.
	w.call("a").isolated().with(func(a *sessions.Admission) { a.Caller.ContextID = w.root }).ok()
	w.equal("sessions of the tree", 4, w.tree().Sessions)
}

func callerByContext(w *world) {
	g1 := w.call("a").isolated().ok()
	g2 := w.call("b").in("ctx-b").from(g1).ok()
	if g2.Session.Parent != g1.Session.ID || g2.ParentContextID != g1.Session.ContextID || g2.Session.Depth != 2 {
		w.Errorf("call out of %s stands under %s at %d", g1.Session.ID, g2.Session.Parent, g2.Session.Depth)
	}
	w.equal("caller of the run", g1.Session.ID, w.run(g2).Caller)
	// A session found keeps its parent, whoever calls it.
	g3 := w.call("b").in("ctx-b").ok()
	w.equal("parent of the session found", g1.Session.ID, g3.Session.Parent)
	w.equal("caller of its second run", w.main().ID, w.run(g3).Caller)
	w.equal("context of its parent", g1.Session.ContextID, g3.ParentContextID)
	w.equal("sessions of the tree", 3, w.tree().Sessions)
}

func callerBySibling(w *world) {
	g1 := w.call("a").isolated().ok()
	g2 := w.call("b").in("ctx-b").from(g1).ok()
	sibling := func(agent, contextID string) sessions.Grant {
		return w.call(agent).isolated().with(func(a *sessions.Admission) { a.Caller.SiblingOf = contextID }).ok()
	}
	w.equal("parent of b's sibling", g1.Session.ID, sibling("b", "ctx-b").Session.Parent)
	w.equal("parent of another agent's", w.main().ID, sibling("a", "ctx-b").Session.Parent)
	w.equal("parent of a stranger's", w.main().ID, sibling("b", "ctx-unknown").Session.Parent)
	w.equal("caller of the sibling's run", g2.Session.Parent, w.run(sibling("b", "ctx-b")).Caller)
}

func foundByContext(w *world) {
	g1 := w.call("a").in("ctx-a").ok()
	g2 := w.call("a").in("ctx-a").ok()
	if !g1.New || g2.New || g2.Session.ID != g1.Session.ID || g2.RunID == g1.RunID || g2.Retry || g2.Resumed {
		w.Errorf("grants %+v and %+v, want two runs of one session", g1, g2)
	}
	w.completes(g1)
	w.completes(g2)
	if g := w.call("a").in("ctx-a").ok(); g.Session.ID != g1.Session.ID {
		w.Errorf("an idle session is not found: got %s, want %s", g.Session.ID, g1.Session.ID)
	}
	if g := w.call("a").in("ctx-b").ok(); !g.New {
		w.Errorf("another context found session %s, want a new one", g.Session.ID)
	}
	if g := w.call("a").in("").ok(); !g.New {
		w.Errorf("no context found session %s, want a new one", g.Session.ID)
	}
}

func foundAtItsAgent(w *world) {
	g := w.call("a").in("ctx").ok()
	other := w.call("b").in("ctx").ok()
	if !other.New || other.Session.ID == g.Session.ID {
		w.Errorf("agent b's call found agent a's session %s", g.Session.ID)
	}
	// Calls out of that context come from the session that had it first.
	w.equal("caller", g.Session.ID, w.call("c").isolated().from(other).ok().Session.Parent)
}

func foundByAgent(w *world) {
	isolated := w.call("a").isolated().ok()
	named := w.call("a").in("ctx-a").ok()
	g1 := w.call("a").shared().ok()
	g2 := w.call("a").shared().with(func(a *sessions.Admission) { a.ContextID = "ctx-whatever" }).ok()
	if !g1.New || g1.Session.ID == isolated.Session.ID || g1.Session.ID == named.Session.ID {
		w.Errorf("the first shared call got %+v, want a new session", g1)
	}
	if g2.New || g2.Session.ID != g1.Session.ID {
		w.Errorf("the second shared call got %s, want %s", g2.Session.ID, g1.Session.ID)
	}
	if g := w.call("b").shared().ok(); !g.New {
		w.Errorf("another agent's shared call got %s, want a new session", g.Session.ID)
	}
}

// A conversation goes on after its session's time was up: in a new session of
// the same context, which is from then on meant by it, as callee and as caller.
func endedIsReplaced(w *world) {
	g1 := w.call("a").in("ctx-a").ttl(time.Minute).ok()
	s1 := w.call("b").shared().ttl(time.Minute).ok()
	w.completes(g1)
	w.completes(s1)
	w.clock.advance(2 * time.Minute)

	g2 := w.call("a").in("ctx-a").ok()
	if !g2.New || g2.Session.ContextID != "ctx-a" {
		w.Fatalf("a call in an expired session's context got %+v, want a new session in it", g2)
	}
	w.stands(g1, "expired", "completed")
	w.equal("session of the next call", g2.Session.ID, w.call("a").in("ctx-a").ok().Session.ID)
	w.equal("parent of a call out of the context", g2.Session.ID, w.call("c").isolated().from(g2).ok().Session.Parent)

	s2 := w.call("b").shared().ok()
	if !s2.New {
		w.Fatalf("a shared call after expiry got %+v, want a new session", s2)
	}
	w.equal("shared session of the next call", s2.Session.ID, w.call("b").shared().ok().Session.ID)
}

func retryOpen(w *world) {
	one := lineage.Limits{MaxChildren: 1, MaxFanOut: 1, MaxConcurrent: 1, MaxSessions: 1}
	c := w.call("a").isolated().max(one).turn("turn-1")
	g1 := c.ok()
	before := w.dump(w.root)
	g2 := c.again().ok()
	if !g2.Retry || !g2.Resumed || g2.New || g2.RunID != g1.RunID || g2.Gen != g1.Gen+1 || g2.Session.ID != g1.Session.ID {
		w.Errorf("the retry got %+v, want the run of %+v with the next gen", g2, g1)
	}
	w.equal("what a retry of an open run changes", before, w.dump(w.root))
	w.completes(g2)
	w.stands(g1, "completed", "completed")
}

func retrySuspended(w *world) {
	c := w.call("a").isolated()
	g1 := c.ok()
	w.suspends(g1)
	g2 := c.again().ok()
	if !g2.Retry || !g2.Resumed || g2.RunID != g1.RunID || g2.Gen != 2 {
		w.Errorf("the retry got %+v, want run %s with gen 2", g2, g1.RunID)
	}
	w.stands(g1, "active", "active")
	w.equal("its events", []string{"resumed/" + g1.RunID + "/2", "sent/" + g1.RunID + "/2"}, w.logged()[4:])
}

func retryEnded(w *world) {
	c := w.call("a").isolated()
	g1 := c.ok()
	w.completes(g1)
	next := c.again()
	g2 := next.ok()
	if !g2.Retry || g2.Resumed || g2.New || g2.RunID != next.RunID || g2.Gen != 1 || g2.Session.ID != g1.Session.ID {
		w.Errorf("the retry got %+v, want a new run of session %s", g2, g1.Session.ID)
	}
	w.stands(g2, "completed", "active")
	w.live(1)
	w.completes(g2)
	w.stands(g2, "completed", "completed")
	w.live(0)
	w.equal("how the two were sent and ended", []string{
		"sent/a/" + c.MessageID, "ended/" + g1.Session.ID + "/completed", "result/" + g1.Session.ID + "/completed",
		"sent/" + g2.RunID + "/1", "run/" + g2.RunID + "/completed",
	}, w.logged()[2:])
}

func retryTwice(w *world) {
	c := w.call("a").in("ctx-a")
	w.loses(c.ok())
	g2 := c.again().ok()
	g3 := c.again().ok()
	if g3.RunID != g2.RunID || g3.Gen != 2 {
		w.Errorf("the retry of a retry got %+v, want run %s with gen 2", g3, g2.RunID)
	}
	w.equal("runs of the session", 2, len(w.session(g3).Runs))
}

func retryElsewhere(w *world) {
	g1 := w.call("a").isolated().message("m").ok()
	g2 := w.call("b").isolated().message("m").ok()
	g3 := w.call("a").isolated().message("m").to(w.root + "-other").ok()
	if !g2.New || g2.Retry || !g3.New || g3.Retry || g2.Session.ID == g1.Session.ID {
		w.Errorf("grants %+v and %+v, want new sessions", g2, g3)
	}
}

// waiting makes a run of agent a that waits for input on task.
func (w *world) waiting(c *call, task string) sessions.Grant {
	w.Helper()
	g := c.ok()
	w.about(g).task(task).is(lineage.Suspended, "").tell()
	w.stands(g, "suspended", "suspended")
	return g
}

func resumeTask(w *world) {
	for name, c := range map[string]*call{
		"isolated": w.call("a").isolated(),
		"shared":   w.call("b").in("ctx-b"),
	} {
		task := "task-" + name
		g1 := w.waiting(c, task)
		answer := w.call(c.Agent).isolated().task(task) // isolation makes no second session of a resume
		g2 := answer.ok()
		if g2.New || !g2.Resumed || !g2.Waited || g2.Retry || g2.RunID != g1.RunID || g2.Gen != g1.Gen+1 || g2.Session.ID != g1.Session.ID {
			w.Errorf("%s: the answer got %+v, want run %s of session %s", name, g2, g1.RunID, g1.Session.ID)
		}
		if g2.Session.ContextID != c.ContextID {
			w.Errorf("%s: the answer got context %s, want %s", name, g2.Session.ContextID, c.ContextID)
		}
		w.stands(g1, "active", "active")
		w.equal(name+": message of the run", c.MessageID, w.run(g1).MessageID)
		w.completes(g2)
	}
	w.live(0)
}

func resumeOpenTask(w *world) {
	one := lineage.Limits{MaxChildren: 1, MaxFanOut: 1, MaxConcurrent: 1}
	g1 := w.call("a").in("ctx-a").max(one).task("task-open").ok()
	more := w.call("a").max(one).task("task-open")
	g2 := more.ok()
	if g2.RunID != g1.RunID || !g2.Resumed || g2.Waited || g2.Gen != 2 {
		w.Errorf("the second message of an open task got %+v, want run %s", g2, g1.RunID)
	}
	w.live(1)
	log := w.logged()
	w.equal("its event", "sent/a/"+more.MessageID, log[len(log)-1])
	w.equal("collapses", 0, len(w.logged(lineage.EventCollapsed)))
}

func resumeEndedTask(w *world) {
	g1 := w.call("a").in("ctx-a").ok()
	w.about(g1).task("task-ended").is(lineage.Completed, "").tell()
	g2 := w.call("a").isolated().task("task-ended").ok()
	if g2.New || g2.Resumed || g2.Session.ID != g1.Session.ID || g2.RunID == g1.RunID {
		w.Errorf("a message of an ended task got %+v, want a new run of session %s", g2, g1.Session.ID)
	}
	w.equal("task of the new run", "task-ended", w.run(g2).TaskID)
	// What is heard of the task now is about the new run.
	w.about(g2).with(func(p *sessions.Progress) { p.Session, p.Run, p.TaskID = "", "", "task-ended" }).is(lineage.Failed, "").tell()
	w.stands(g2, "active", "failed")
	w.stands(g1, "active", "completed")
}

func resumeKeepsCaller(w *world) {
	one := lineage.Limits{MaxFanOut: 1}
	parent := w.call("a").isolated().ok()
	g := w.waiting(w.call("b").isolated().from(parent), "task-b")
	busy := w.call("c").isolated().from(parent).ok()
	// Whoever answers, the place is one out of the session that made the call.
	w.call("b").task("task-b").max(one).refused(refusal(lineage.FanOutLimit, "maxFanOut", 1, 1, parent.Session))
	w.completes(busy)
	w.call("b").task("task-b").max(one).with(func(a *sessions.Admission) { a.Caller.ContextID = "ctx-stranger" }).ok()
	w.equal("caller of the run", parent.Session.ID, w.run(g).Caller)
	w.equal("sessions: no placeholder for the stranger", 4, w.tree().Sessions)
	w.call("c").isolated().from(parent).max(one).refused(refusal(lineage.FanOutLimit, "maxFanOut", 1, 1, parent.Session))
	w.call("c").isolated().max(lineage.Limits{MaxFanOut: 2}).ok() // main has one run out: parent's
}

func resumeNeedsPlace(w *world) {
	w.waiting(w.call("a").isolated(), "task-a")
	w.call("b").isolated().ok()
	w.call("a").task("task-a").max(lineage.Limits{MaxFanOut: 1}).refused(refusal(lineage.FanOutLimit, "maxFanOut", 1, 1, w.main()))
	w.call("a").task("task-a").max(lineage.Limits{MaxChildren: 1, MaxFanOut: 2}).ok() // it is a child already
}

func tokensAndLabels(w *world) {
	var labels, tokens, reads []string
	note := func(g sessions.Grant) sessions.Grant {
		labels = append(labels, g.Session.Branch)
		tokens = append(tokens, g.Session.Tokens.String())
		reads = append(reads, g.Session.Read.String())
		return g
	}
	inherit := func(i lineage.Inherit) func(*sessions.Admission) {
		return func(a *sessions.Admission) { a.Inherit = i }
	}
	full := note(w.call("a").isolated().ok())
	none := note(w.call("a").isolated().with(inherit(lineage.InheritNone)).ok())
	note(w.call("b").isolated().from(full).ok())
	note(w.call("b").isolated().from(full).with(inherit(lineage.InheritSummary)).ok())
	note(w.call("b").isolated().from(none).ok())
	w.equal("labels", []string{
		"coordinator.a@1", "coordinator.a@2", "coordinator.a@1.b@1", "coordinator.a@1.b@2", "coordinator.a@2.b@1",
	}, labels)
	w.equal("tokens", []string{"1", "2", "1,3", "4", "2,5"}, tokens)
	w.equal("read sets", []string{"1", "2", "1,3", "4", "2,5"}, reads)
}
