package storetest

import (
	"encoding/json"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

func isolatedEnds(w *world) {
	for state, reason := range map[lineage.State]string{
		lineage.Completed: "",
		lineage.Failed:    lineage.ReasonCanceled,
	} {
		g := w.call("a").isolated().ok()
		w.live(1)
		w.about(g).is(state, reason).tell()
		want := string(state)
		if reason != "" {
			want += "/" + reason
		}
		w.stands(g, want, want)
		w.live(0)
		log := w.logged()
		w.equal("how it ended", []string{
			"ended/" + g.Session.ID + "/" + want, "result/" + g.Session.ID + "/" + want,
		}, log[len(log)-2:])
	}
}

func workerEndsWithLastRun(w *world) {
	g1 := w.call("a").in("ctx-a").worker().ok()
	g2 := w.call("a").in("ctx-a").worker().ok()
	w.completes(g1)
	w.stands(g1, "active", "completed")
	w.live(1)
	w.about(g2).is(lineage.Failed, "").tell()
	w.stands(g2, "failed", "failed")
	w.stands(g1, "failed", "completed")
	w.live(0)
}

func sharedOutlives(w *world) {
	g := w.call("a").in("ctx-a").ok()
	w.completes(g)
	w.stands(g, "active", "completed")
	w.live(0)
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventRunEnded}})
	if len(e) != 1 || e[0].ID != "run/"+g.RunID+"/completed" {
		w.Fatalf("run.ended events %+v, want one", e)
	}
	w.equal("what it says", sessions.EndPayload{Run: g.RunID, State: lineage.Completed}, meaning(e[0]))
	next := w.call("a").in("ctx-a").ok()
	w.about(next).is(lineage.Failed, "").tell()
	w.stands(next, "active", "failed")
}

func failureCounts(w *world) {
	shared := w.call("a").in("ctx-a").ok()
	w.about(shared).is(lineage.Failed, "").tell()
	w.about(w.call("a").isolated().ok()).is(lineage.Failed, lineage.ReasonRejected).tell()
	w.completes(w.call("a").isolated().ok())
	w.equal("errors", 2, w.tree().Errors)
	w.stands(shared, "active", "failed")
}

func endIsFinal(w *world) {
	for _, c := range []*call{w.call("a").isolated(), w.call("a").in("ctx-a")} {
		for _, end := range []lineage.State{lineage.Completed, lineage.Failed} {
			g := c.again().message(w.id("message")).with(func(a *sessions.Admission) {
				if a.Isolated {
					a.ContextID = w.id("context")
				}
			}).ok()
			w.about(g).is(end, "").tell()
			before := w.dump(w.root)
			for _, late := range []lineage.State{lineage.Active, lineage.Suspended, lineage.Completed, lineage.Failed} {
				w.about(g).is(late, "").with(func(p *sessions.Progress) {
					p.Result, p.Usage = json.RawMessage(`{"status":"failed"}`), json.RawMessage(`{"tokens":1}`)
				}).tell()
			}
			w.about(g).is(lineage.Failed, lineage.ReasonCanceled).tell()
			w.loses(g)
			w.equal("what news after the end changes", before, w.dump(w.root))
			w.about(g).event("late/"+g.RunID, lineage.EventArtifact, `{"name":"late"}`).is(lineage.Active, "").tell()
			w.equal("events: a late one is logged", len(before.Log)+1, len(w.logged()))
		}
	}
}

func suspendAndResume(w *world) {
	g := w.call("a").isolated().ok()
	id := g.RunID
	w.about(g).is(lineage.Active, "").tell() // seen working: nothing new
	w.suspends(g)
	w.stands(g, "suspended", "suspended")
	w.suspends(g)
	w.live(1)
	w.about(g).is(lineage.Active, "").tell()
	w.stands(g, "active", "active")
	w.suspends(g)
	w.stands(g, "suspended", "suspended")
	w.about(g).is(lineage.Active, "").tell()
	w.completes(g)
	w.stands(g, "completed", "completed")
	w.equal("its events", []string{
		"suspended/" + id + "/1", "resumed/" + id + "/2", "suspended/" + id + "/2", "resumed/" + id + "/3",
		"ended/" + g.Session.ID + "/completed", "result/" + g.Session.ID + "/completed",
	}, w.logged()[3:])
	// A place is one place, however often it was given back.
	w.live(0)
	one := lineage.Limits{MaxChildren: 1, MaxFanOut: 1}
	w.call("a").isolated().max(one).ok()
	w.call("a").isolated().max(one).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))
}

func suspendedRunEnds(w *world) {
	alone := w.call("a").isolated().ok()
	w.suspends(alone)
	w.about(alone).is(lineage.Failed, lineage.ReasonCanceled).tell()
	w.stands(alone, "failed/canceled", "failed/canceled")
	shared := w.call("a").in("ctx-a").ok()
	w.suspends(shared)
	w.live(1)
	w.completes(shared)
	w.stands(shared, "active", "completed")
	w.live(0)
}

func twoRunsWait(w *world) {
	g1, g2 := w.call("a").in("ctx-a").ok(), w.call("a").in("ctx-a").ok()
	w.suspends(g1)
	w.stands(g1, "suspended", "suspended")
	w.stands(g2, "suspended", "active")
	w.suspends(g2)
	w.stands(g2, "suspended", "suspended")
	w.equal("suspensions", 2, len(w.logged(lineage.EventSuspended)))
	w.completes(g1)
	w.stands(g1, "suspended", "completed")
	w.live(1)
	w.completes(g2)
	w.stands(g2, "active", "completed")
	w.live(0)
}

func endTakesWaiting(w *world) {
	g1, g2 := w.call("a").in("ctx-a").worker().ok(), w.call("a").in("ctx-a").worker().ok()
	w.suspends(g1)
	w.about(g2).is(lineage.Failed, lineage.ReasonAgentError).tell()
	w.stands(g1, "failed/agent_error", "failed/agent_error")
	w.stands(g2, "failed/agent_error", "failed/agent_error")
	w.live(0)
	w.equal("errors", 2, w.tree().Errors)
}

func noWaitingInEnded(w *world) {
	c := w.call("a").isolated()
	w.completes(c.ok())
	g := c.again().ok()
	w.live(1)
	w.suspends(g)
	w.stands(g, "completed", "failed/input_required")
	w.live(0)
	g = c.again().ok()
	w.about(g).is(lineage.Suspended, "auth_required").tell()
	w.stands(g, "completed", "failed/auth_required")
	w.equal("errors", 2, w.tree().Errors)
}

func lostIsCorrected(w *world) {
	for _, end := range []struct{ state, reason string }{{"completed", ""}, {"failed", ""}, {"failed", "canceled"}} {
		want := end.state
		if end.reason != "" {
			want += "/" + end.reason
		}
		for name, c := range map[string]*call{"isolated": w.call("a").isolated(), "shared": w.call("a").shared()} {
			errors := w.errors()
			g := c.ok()
			w.loses(g)
			if name == "isolated" {
				w.stands(g, "failed/lost", "failed/lost")
			} else {
				w.stands(g, "active", "failed/lost")
			}
			w.equal("errors", errors+1, w.errors())
			w.live(0)
			before := w.dump(w.root)
			w.loses(g)
			w.suspends(g)
			w.about(g).is(lineage.Active, "").tell()
			w.equal("what no end changes in a loss", before, w.dump(w.root))

			w.about(g).is(lineage.State(end.state), end.reason).with(func(p *sessions.Progress) { p.Gen = 0 }).tell()
			if name == "isolated" {
				w.stands(g, want, want)
			} else {
				w.stands(g, "active", want)
			}
			if end.state == "failed" {
				errors++
			}
			w.equal("errors after the correction", errors, w.errors())
			w.live(0)
			before = w.dump(w.root)
			w.completes(g)
			w.loses(g)
			w.equal("what comes after the correction", before, w.dump(w.root))
		}
	}
}

// errors is how many the tree has, 0 while there is none.
func (w *world) errors() int {
	t, err := w.store.Tree(w.Context(), w.root)
	if err != nil {
		return 0
	}
	return t.Errors
}

// A session lost with one run, tried again, and lost with the next: the
// session's end is one fact, and so one event.
func lostTwice(w *world) {
	c := w.call("a").isolated()
	g1 := c.ok()
	w.loses(g1)
	g2 := c.again().ok()
	w.stands(g2, "failed/lost", "active")
	w.loses(g2)
	w.stands(g2, "failed/lost", "failed/lost")
	w.equal("how they ended", []string{
		"ended/" + g1.Session.ID + "/failed/lost", "run/" + g2.RunID + "/failed/lost",
	}, w.logged(lineage.EventFailed, lineage.EventRunEnded))
	w.equal("errors", 2, w.tree().Errors)
	w.completes(g2)
	w.stands(g2, "completed", "completed")
	w.equal("errors", 1, w.tree().Errors)
	w.completes(g1)
	w.stands(g1, "completed", "completed")
	w.equal("errors", 0, w.tree().Errors)
}

func staleLoss(w *world) {
	c := w.call("a").isolated()
	first := c.ok()
	second := c.again().ok()
	before := w.dump(w.root)
	w.loses(first)
	w.equal("what a stale loss changes", before, w.dump(w.root))
	w.about(first).event("seen/1", lineage.EventArtifact, `{}`).is(lineage.Failed, lineage.ReasonLost).tell()
	w.stands(second, "active", "active")
	w.equal("events: its own are logged", len(before.Log)+1, len(w.logged()))
	w.loses(second)
	w.stands(second, "failed/lost", "failed/lost")

	// Any other end is a fact, whoever saw it.
	c = w.call("a").isolated()
	first = c.ok()
	c.again().ok()
	w.completes(first)
	w.stands(first, "completed", "completed")
}

func newsByTask(w *world) {
	task := w.id("task")
	g := w.waiting(w.call("a").isolated(), task)
	byTask := func(p *sessions.Progress) { p.Session, p.Run, p.Gen, p.TaskID = "", "", 0, task }
	w.about(g).with(byTask).event("seen/"+task, lineage.EventStatus, `{"state":"working"}`).is(lineage.Active, "").tell()
	w.stands(g, "active", "active")
	w.about(g).with(byTask).is(lineage.Completed, "").tell()
	w.stands(g, "completed", "completed")
}

func newsWithoutRun(w *world) {
	g := w.call("a").isolated().ok()
	before := w.session(g)
	w.about(g).with(func(p *sessions.Progress) { p.Run, p.Detach = "", lease }).
		event("refused/1", lineage.EventRefused, `{"reason":"CHILDREN_LIMIT"}`).is(lineage.Completed, "").tell()
	w.stands(g, "active", "active")
	after := w.session(g)
	w.equal("version", before.Version+1, after.Version)
	w.about(g).with(func(p *sessions.Progress) { p.Run, p.Session = "", w.main().ID }).
		event("queued/1", lineage.EventQueued, `{}`).tell()
	w.equal("version of the root session", after.Version+1, w.main().Version)
}

func resultIsKept(w *world) {
	result := `{"status":"completed","summary":"done \u003c1\u003e","artifacts":[{"id":"x","bytes":7,"sha256":"ff"}],"memoryIds":["m"]}`
	want := &lineage.Result{
		Status: lineage.Completed, Summary: "done <1>",
		Artifacts: []lineage.Artifact{{ID: "x", Bytes: 7, SHA256: "ff"}}, MemoryIDs: []string{"m"},
	}
	usage := json.RawMessage(`{"totalTokenCount":12345678901234567890}`)
	for _, c := range []*call{w.call("a").isolated(), w.call("a").in("ctx-a")} {
		g := c.ok()
		w.about(g).is(lineage.Completed, "").with(func(p *sessions.Progress) {
			p.Result, p.Usage = json.RawMessage(result), usage
		}).tell()
		s := w.session(g)
		w.equal("result", want, s.Result)
		w.equal("usage", usage, s.Usage)
	}
	// A later run without either takes nothing away.
	g := w.call("a").in("ctx-a").ok()
	w.completes(g)
	w.equal("result", want, w.session(g).Result)
	w.equal("usage", usage, w.session(g).Usage)
}
