package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// A session that is completed takes its runs with it, at once: their places
// come free, and nobody is asked to stop.
func completeOpen(w *world) {
	l := w.listen()
	one := lineage.Limits{MaxChildren: 1, MaxFanOut: 1, MaxConcurrent: 1}
	two := lineage.Limits{MaxFanOut: 2}
	g1 := w.call("x").in("ctx-x").max(one).ok()
	g2 := w.call("x").in("ctx-x").max(two).ok()
	g3 := w.call("x").in("ctx-x").ok()
	w.suspends(g3)
	w.call("x").isolated().max(one).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))
	w.step(lineage.VerbComplete, g1).with(func(c *sessions.Change) {
		c.Result = json.RawMessage(`{"status":"completed","summary":"by hand"}`)
	}).ok()
	for _, g := range []sessions.Grant{g1, g2, g3} {
		w.stands(g, "completed", "completed")
	}
	w.live(0)
	w.equal("result", &lineage.Result{Status: lineage.Completed, Summary: "by hand"}, w.session(g1).Result)
	w.equal("how it ended", []string{
		"ended/" + g1.Session.ID + "/completed", "result/" + g1.Session.ID + "/completed",
	}, w.logged()[len(w.logged())-2:])
	w.equal("cancels", nil, l.of(w.root))
	w.completes(g1) // its agent's own answer comes late
	w.loses(g2)
	w.stands(g1, "completed", "completed")
	w.call("x").isolated().max(one).ok()
}

func failByHand(w *world) {
	g := w.call("a").in("ctx-a").ok()
	waits := w.call("a").in("ctx-a").ok()
	w.suspends(waits)
	w.step(lineage.VerbFail, g).with(func(c *sessions.Change) {
		c.Reason, c.Result = "gave_up", json.RawMessage(`{"status":"failed","summary":"no use"}`)
	}).ok()
	w.stands(g, "failed/gave_up", "failed/gave_up")
	w.stands(waits, "failed/gave_up", "failed/gave_up")
	w.equal("errors", 2, w.tree().Errors)
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventFailed}})
	if len(e) != 1 || e[0].ID != "ended/"+g.Session.ID+"/failed/gave_up" || e[0].TraceID != "trace-step" {
		w.Fatalf("session.failed events %+v, want one, of trace-step", e)
	}
	w.equal("what it says", sessions.EndPayload{
		State: lineage.Failed, Reason: "gave_up", Result: json.RawMessage(`{"status":"failed","summary":"no use"}`),
	}, meaning(e[0]))
	// A reason says why something failed: what is complete has none.
	g = w.call("a").in("ctx-b").ok()
	w.step(lineage.VerbComplete, g).with(func(c *sessions.Change) { c.Reason = "whatever" }).ok()
	w.stands(g, "completed", "completed")
	w.live(0)
}

// Who parks a session gives back the places of its calls, and keeps its own.
func parkYields(w *world) {
	one := lineage.Limits{MaxFanOut: 1, MaxConcurrent: 1}
	g := w.call("y").in("ctx-y").max(one).ok()
	more := w.call("y").in("ctx-y").ok()
	s := w.step(lineage.VerbSuspend, g).ok()
	w.stands(g, "suspended", "suspended/requested")
	w.stands(more, "suspended", "suspended/requested")
	w.live(1)
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventSuspended}})
	w.equal("events", []string{
		fmt.Sprintf("suspended/%s/1/%d", g.RunID, e[0].Seq), fmt.Sprintf("suspended/%s/1/%d", more.RunID, e[0].Seq+1),
	}, w.logged()[len(w.logged())-2:])
	w.equal("what they say", sessions.RunPayload{Run: g.RunID, Reason: lineage.ReasonRequested}, meaning(e[0]))
	w.equal("version", s.Version, e[1].Seq)
	w.call("z").isolated().max(lineage.Limits{MaxChildren: 1}).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))
	other := w.call("y").isolated().max(one).ok() // a place out of main, and one at the agent

	// What goes on asks for no place, though none is free.
	s = w.step(lineage.VerbResume, g).ok()
	w.stands(g, "active", "active")
	w.stands(more, "active", "active")
	w.equal("events of the resumption", []string{
		fmt.Sprintf("resumed/%s/1/%d", g.RunID, s.Version-1), fmt.Sprintf("resumed/%s/1/%d", more.RunID, s.Version),
	}, w.logged(lineage.EventResumed))
	w.completes(other)
	w.call("y").isolated().max(lineage.Limits{MaxFanOut: 2}).refused(refusal(lineage.FanOutLimit, "maxFanOut", 2, 2, w.main()))
	w.live(1)
}

// The lease of a run that was parked begins again, as long as it was.
func parkedLease(w *world) {
	g := w.call("a").in("ctx-a").with(func(a *sessions.Admission) { a.Lease = 2 * lease }).ok()
	w.step(lineage.VerbSuspend, g).ok()
	w.clock.advance(10 * lease)
	w.settle()
	w.stands(g, "suspended", "suspended/requested")
	w.renew(hour, g) // holds no lease
	w.step(lineage.VerbResume, g).ok()
	w.clock.advance(2*lease - tick)
	w.settle()
	w.stands(g, "active", "active")
	w.clock.advance(2 * tick)
	w.settle()
	w.stands(g, "failed/lost", "failed/lost")

	// One that no call holds stays so.
	g = w.call("a").in("ctx-b").ok()
	w.about(g).with(func(p *sessions.Progress) { p.Detach = time.Minute }).tell()
	w.step(lineage.VerbSuspend, g).ok()
	w.clock.advance(time.Minute)
	w.step(lineage.VerbResume, g).ok()
	w.renew(hour, g)
	w.clock.advance(time.Minute - tick)
	w.settle()
	w.stands(g, "active", "active")
	w.clock.advance(2 * tick)
	w.settle()
	w.stands(g, "failed/lost", "failed/lost")
}

// Who holds a run hears of no step: what it says of the run with the grant that
// it has is as good after one as before.
func parkedGrant(w *world) {
	detach := func(g sessions.Grant) {
		w.about(g).with(func(p *sessions.Progress) { p.Detach = 5 * time.Minute }).tell()
	}
	early := w.call("a").in("ctx-a").ok()
	w.step(lineage.VerbSuspend, early).ok()
	detach(early)
	w.stands(early, "suspended", "suspended/requested")
	w.clock.advance(6 * time.Minute) // its time begins when it goes on
	w.settle()
	lost, dropped := w.call("a").in("ctx-b").ok(), w.call("a").in("ctx-c").ok()
	for _, g := range []sessions.Grant{lost, dropped} {
		w.step(lineage.VerbSuspend, g).ok()
		w.step(lineage.VerbResume, g).ok()
		w.step(lineage.VerbSuspend, g).ok()
		w.step(lineage.VerbResume, g).ok()
	}
	w.step(lineage.VerbResume, early).ok()
	w.loses(lost)
	detach(dropped)
	w.stands(lost, "active", "failed/lost")
	w.renew(hour, dropped, early) // nobody holds them: there is nobody to renew
	w.clock.advance(5*time.Minute - tick)
	w.settle()
	w.stands(dropped, "active", "active")
	w.stands(early, "active", "active")
	w.clock.advance(2 * tick)
	w.settle()
	w.stands(dropped, "failed/lost", "failed/lost")
	w.stands(early, "failed/lost", "failed/lost")

	// A call that takes the run up holds it, with a grant of its own; what the
	// one before it says is stale.
	c := w.call("a").in("ctx-d")
	stale := c.ok()
	w.step(lineage.VerbSuspend, stale).ok()
	held := c.again().ok()
	w.step(lineage.VerbSuspend, stale).ok()
	detach(stale)
	w.step(lineage.VerbResume, stale).ok()
	w.loses(stale)
	w.hold(held)
	w.clock.advance(6 * time.Minute)
	w.settle()
	w.stands(held, "active", "active")
}

// A session with nothing in it may be parked too. It takes no place, and a call
// that comes to it makes it go on.
func parkIdle(w *world) {
	g := w.call("a").in("ctx-a").ok()
	w.completes(g)
	s := w.step(lineage.VerbSuspend, g).ok()
	w.equal("events of the suspension", []string{fmt.Sprintf("suspended/%s/%d", s.ID, s.Version)}, w.logged(lineage.EventSuspended))
	w.equal("state", lineage.Suspended, s.State)
	w.live(0)
	w.equal("state of the tree", lineage.TreeIdle, w.tree().State)
	one := lineage.Limits{MaxChildren: 1}
	other := w.call("b").isolated().max(one).ok()
	w.call("a").in("ctx-a").max(one).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))

	s = w.step(lineage.VerbResume, g).ok()
	w.equal("events of the resumption", []string{fmt.Sprintf("resumed/%s/%d", s.ID, s.Version)}, w.logged(lineage.EventResumed))
	w.step(lineage.VerbSuspend, g).ok()
	w.completes(other)
	next := w.call("a").in("ctx-a").max(one).with(func(a *sessions.Admission) { a.Crossed = "ctx-x" }).ok()
	w.equal("session of the call", s.ID, next.Session.ID)
	w.equal("state in the grant", lineage.Active, next.Session.State)
	w.stands(next, "active", "active")
	w.equal("events of the call", []string{
		"crossed/" + next.RunID, "resumed/" + next.RunID + "/1", "sent/a/" + w.run(next).MessageID,
	}, w.logged()[len(w.logged())-3:])
	w.completes(next)
	w.stands(next, "active", "completed")
}

// A call into a session whose runs are parked runs beside them.
func callParked(w *world) {
	g := w.call("a").in("ctx-a").ok()
	w.step(lineage.VerbSuspend, g).ok()
	beside := w.call("a").in("ctx-a").ok()
	w.stands(beside, "suspended", "active")
	w.equal("resumptions", 0, len(w.logged(lineage.EventResumed)))
	w.completes(beside)
	w.stands(g, "suspended", "suspended/requested")
	w.step(lineage.VerbResume, g).ok()
	w.stands(g, "active", "active")

	// A message of its task makes a parked run go on.
	task := w.id("task")
	w.about(g).task(task).tell()
	w.step(lineage.VerbSuspend, g).ok()
	g2 := w.call("a").task(task).ok()
	if g2.RunID != g.RunID || !g2.Waited || g2.Gen != 2 {
		w.Errorf("a message of a parked run's task got %+v, want run %s with gen 2", g2, g.RunID)
	}
	w.stands(g, "active", "active")
}

// What the agent says of a parked run: that it works changes nothing; that it
// waits makes it wait for an answer, not for a step; its end is its end.
func parkedNews(w *world) {
	works, waits, ends := w.call("a").in("ctx-a").ok(), w.call("a").in("ctx-b").ok(), w.call("a").in("ctx-c").ok()
	for _, g := range []sessions.Grant{works, waits, ends} {
		w.step(lineage.VerbSuspend, g).ok()
	}
	w.about(works).is(lineage.Active, "").tell()
	w.stands(works, "suspended", "suspended/requested")
	w.equal("resumptions", 0, len(w.logged(lineage.EventResumed)))

	w.suspends(waits)
	w.stands(waits, "suspended", "suspended")
	log := w.logged()
	w.equal("event of the wait", "suspended/"+waits.RunID+"/1/waits", log[len(log)-1])
	w.suspends(waits)
	w.equal("a second time", log, w.logged())
	w.step(lineage.VerbResume, waits).conflicts(true)
	w.about(waits).is(lineage.Active, "").tell()
	w.stands(waits, "active", "active")

	w.completes(ends)
	w.stands(ends, "active", "completed")
	w.live(2)
}

// A step looks at what is due first, as a call does.
func stepSettles(w *world) {
	gone := w.call("a").in("ctx-a").ok()
	late := w.call("a").in("ctx-b").ttl(time.Minute).ok()
	w.completes(late)
	w.clock.advance(2 * time.Minute)
	for _, g := range []sessions.Grant{gone, late} {
		if _, err := w.step(lineage.VerbComplete, g).apply(); err == nil {
			w.Errorf("Apply(complete of a session whose time is over) succeeded")
		}
	}
	w.stands(gone, "failed/lost", "failed/lost")
	w.stands(late, "expired", "completed")
}

// Who ends the conversation ends all of it.
func completeMain(w *world) {
	l := w.listen()
	g1 := w.call("a").isolated().ok()
	g2 := w.call("b").isolated().from(g1).ok()
	idle := w.call("c").in("ctx-c").ok()
	w.completes(idle)
	w.mainStep(lineage.VerbComplete).with(func(c *sessions.Change) {
		c.Result = json.RawMessage(`{"status":"completed","summary":"all"}`)
	}).ok()
	w.ending(g1, lineage.ReasonOrphaned)
	w.ending(g2, lineage.ReasonOrphaned)
	w.stands(idle, "expired/parent_ended", "completed")
	w.equal("who is to stop", []string{g1.RunID, g2.RunID}, runsOf(l.of(w.root)))
	w.call("a").isolated().refused(refusal(lineage.ParentEnded, "", 0, 0, w.main()))
	w.call("b").isolated().from(g1).refused(refusal(lineage.ParentEnded, "", 0, 0, g1.Session))
	w.completes(g1)
	w.stands(g1, "completed", "completed")
	w.hold(g2)
	w.passGrace()
	w.stands(g2, "failed/orphaned", "failed/orphaned")
	w.live(0)
	w.equal("errors", 1, w.tree().Errors)
}

// A cancellation is one, however often it is asked for.
func cancelTwice(w *world) {
	l := w.listen()
	g := w.call("a").in("ctx-a").ok()
	w.hold(g)
	w.step(lineage.VerbCancel, g).ok()
	before := w.dump(w.root)
	w.clock.advance(tick)
	w.step(lineage.VerbCancel, g).ok()
	w.equal("what a second cancellation changes", before, w.dump(w.root))
	w.equal("cancels", []string{g.RunID}, runsOf(l.of(w.root)))
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventCancel}})
	if len(e) != 1 || e[0].ID != "cancel/"+g.Session.ID || e[0].Session != g.Session.ID || e[0].TraceID != "trace-step" {
		w.Fatalf("session.cancel_requested events %+v, want one, of trace-step", e)
	}
	w.equal("what it says", sessions.CancelPayload{Reason: lineage.ReasonCanceled, GraceMS: 30_000}, meaning(e[0]))
	w.passGrace()
	w.stands(g, "failed/canceled", "failed/canceled")

	idle := w.call("a").in("ctx-b").ok()
	w.completes(idle)
	w.step(lineage.VerbCancel, idle).ok()
	w.stands(idle, "failed/canceled", "completed")
	w.equal("cancels of an idle session", 1, len(l.of(w.root)))
	w.equal("errors: the session's is none of a run", 1, w.tree().Errors)
}

// Steps stand in batches, and see what came before them there.
func stepsInBatch(w *world) {
	c := w.call("a").in("ctx-a")
	step := func(verb lineage.Verb) *sessions.Change {
		return &sessions.Change{Root: w.root, Session: c.SessionID, Verb: verb}
	}
	ops := []*sessions.Op{
		{Change: step(lineage.VerbSuspend)}, // not there yet
		{Admit: &c.Admission},
		{Change: step(lineage.VerbSuspend)},
		{Change: step(lineage.VerbSuspend)},
		{Change: step(lineage.VerbResume)},
		{Progress: &sessions.Progress{Root: w.root, Session: c.SessionID, Run: c.RunID, Gen: 1, Agent: "a", State: lineage.Completed}},
		{Change: step(lineage.VerbComplete)},
		{Change: step(lineage.VerbCancel)},
	}
	w.store.Apply(w.Context(), ops)
	for i, ok := range []bool{false, true, true, false, true, true, true, false} {
		if got := ops[i].Err == nil; got != ok {
			w.Errorf("op %d of the batch: Err = %v, want success: %t", i, ops[i].Err, ok)
		}
	}
	w.equal("state", lineage.Completed, ops[6].Grant.Session.State)
	w.live(0)
}
