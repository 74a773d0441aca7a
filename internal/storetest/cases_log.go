package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// lines spells a log to be read: one event a line.
func lines(log []lineage.Event) []string {
	var all []string
	for _, e := range log {
		payload, err := json.Marshal(meaning(e))
		if err != nil {
			payload = []byte(err.Error())
		}
		all = append(all, fmt.Sprintf("%d %s %s by %s %s [%s] turn=%s trace=%s %s",
			e.Seq, e.Type, e.ID, e.Session, e.Branch, e.Tokens, e.Turn, e.TraceID, payload))
	}
	return all
}

func plainLog(w *world) {
	g := w.call("worker").turn("t1").with(func(a *sessions.Admission) {
		a.MainID, a.SessionID, a.RunID, a.MessageID, a.TraceID = "plain-main", "plain-s", "plain-r", "plain-m", "x1"
		a.ContextID, a.Isolated, a.Kind, a.Inherit = "plain-c", true, lineage.Worker, lineage.InheritNone
		a.Sent = json.RawMessage(`{"method":"SendMessage","parts":[{"text":"hi"}]}`)
	}).ok()
	w.about(g).with(func(p *sessions.Progress) { p.TaskID, p.TraceID = "plain-t", "x2" }).
		event("status/worker/plain-t/working", lineage.EventStatus, `{"run":"plain-r","taskId":"plain-t","state":"working"}`).
		is(lineage.Active, "").tell()
	w.about(g).with(func(p *sessions.Progress) {
		p.TraceID, p.Result = "x2", json.RawMessage(`{"status":"completed","summary":"bye"}`)
	}).
		event("received/worker/plain-t", lineage.EventReceived, `{"run":"plain-r","parts":[]}`).
		is(lineage.Completed, "").tell()
	w.equal("the log", []string{
		`1 session.spawned spawned/plain-main by plain-main coordinator [] turn=t1 trace=x1 {"parent":"","edge":"root","kind":"main","agent":"coordinator","contextId":"` + w.root + `","depth":0,"ordinal":0,"read":[],"isolated":false,"inherit":"full","remote":false,"parentSource":"header"}`,
		`2 session.spawned spawned/plain-s by plain-s coordinator.worker@1 [1] turn=t1 trace=x1 {"parent":"plain-main","edge":"spawn","kind":"worker","agent":"worker","contextId":"plain-c","depth":1,"ordinal":1,"read":[1],"isolated":true,"inherit":"none","remote":false,"parentSource":"header"}`,
		`3 message.sent sent/worker/plain-m by plain-s coordinator.worker@1 [1] turn=t1 trace=x1 {"caller":"plain-main","messageId":"plain-m","method":"SendMessage","parts":[{"text":"hi"}],"run":"plain-r"}`,
		`4 task.status status/worker/plain-t/working by plain-s coordinator.worker@1 [1] turn=t1 trace=x2 {"run":"plain-r","state":"working","taskId":"plain-t"}`,
		`5 message.received received/worker/plain-t by plain-s coordinator.worker@1 [1] turn=t1 trace=x2 {"parts":[],"run":"plain-r"}`,
		`6 session.completed ended/plain-s/completed by plain-s coordinator.worker@1 [1] turn=t1 trace=x2 {"run":"plain-r","state":"completed","result":{"status":"completed","summary":"bye"}}`,
		`7 session.result result/plain-s/completed by plain-main coordinator [] turn=t1 trace=x2 {"session":"plain-s","agent":"worker","state":"completed","reason":"","result":{"status":"completed","summary":"bye"}}`,
	}, lines(w.dump(w.root).Log))
}

func crossedIsLogged(w *world) {
	cross := func(a *sessions.Admission) { a.Crossed = "ctx-theirs" }
	c := w.call("a").in("ctx-mine").with(cross)
	g := c.ok()
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventCrossed}})
	if len(e) != 1 || e[0].ID != "crossed/"+g.RunID || e[0].Session != g.Session.ID {
		w.Fatalf("context.crossed events %+v, want one of run %s", e, g.RunID)
	}
	w.equal("what it says", map[string]any{"run": g.RunID, "contextId": "ctx-theirs"}, meaning(e[0]))
	w.equal("context of the session", "ctx-mine", g.Session.ContextID)
	c.again().ok()
	w.suspends(g)
	c.again().ok() // the same fact
	w.equal("context.crossed events", 1, len(w.logged(lineage.EventCrossed)))
}

func collapsedIsLogged(w *world) {
	g1 := w.call("a").in("ctx-a").ok()
	w.equal("with one run", 0, len(w.logged(lineage.EventCollapsed)))
	g2 := w.call("a").in("ctx-a").ok()
	g3 := w.call("a").in("ctx-a").ok()
	w.completes(g1)
	w.completes(g3)
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventCollapsed}})
	if len(e) != 2 {
		w.Fatalf("context.collapsed events %+v, want two", e)
	}
	for i, g := range []sessions.Grant{g2, g3} {
		w.equal("id", "collapsed/"+g.RunID+"/1", e[i].ID)
		w.equal("what it says", map[string]any{
			"run": g.RunID, "contextId": "ctx-a", "open": json.Number(fmt.Sprint(i + 2)),
		}, meaning(e[i]))
	}
	// A run that goes on beside another collapses just so.
	w.suspends(g2)
	g4 := w.call("a").in("ctx-a").ok()
	w.equal("beside a waiting one", 2, len(w.logged(lineage.EventCollapsed)))
	w.call("a").message(w.run(g2).MessageID).ok()
	log := w.logged(lineage.EventCollapsed)
	w.equal("beside a resumed one", "collapsed/"+g2.RunID+"/2", log[len(log)-1])
	// A message to a run that is open already opens nothing.
	w.about(g4).task(w.id("task")).tell()
	w.call("a").task(w.run(g4).TaskID).ok()
	w.equal("for a message to an open task", 3, len(w.logged(lineage.EventCollapsed)))
}

func admissionOrder(w *world) {
	c := w.call("a").in("ctx-a").with(func(a *sessions.Admission) { a.Crossed, a.Caller.ContextID = "ctx-x", "ctx-far" })
	g1 := c.ok()
	g2 := w.call("a").in("ctx-a").ok()
	w.suspends(g2)
	w.call("a").message(w.run(g2).MessageID).with(func(a *sessions.Admission) { a.Crossed = "ctx-y" }).ok()
	w.equal("the log", []string{
		"spawned/" + c.MainID, "spawned/" + c.RemoteID, "spawned/" + c.SessionID,
		"crossed/" + g1.RunID, "sent/a/" + c.MessageID,
		"sent/a/" + w.run(g2).MessageID, "collapsed/" + g2.RunID + "/1",
		"suspended/" + g2.RunID + "/1",
		"crossed/" + g2.RunID, "resumed/" + g2.RunID + "/2", "sent/" + g2.RunID + "/2", "collapsed/" + g2.RunID + "/2",
	}, w.logged())
}

func draftsOnce(w *world) {
	g := w.call("a").isolated().ok()
	other := w.call("a").isolated().ok()
	tell := func(g sessions.Grant, ids ...string) {
		n := w.about(g)
		for _, id := range ids {
			n.event(id, lineage.EventArtifact, `{"name":"`+id+`"}`)
		}
		n.tell()
	}
	tell(g, "x", "y", "x")
	tell(g, "x", "z")
	tell(other, "z", "w", "sent/a/"+w.run(g).MessageID)
	w.equal("artifacts", []string{"x", "y", "z", "w"}, w.logged(lineage.EventArtifact))
	before := w.session(g)
	tell(g, "y")
	w.equal("a session told nothing new", before, w.session(g))
}

func payloadBytes(w *world) {
	const payload = `{"z":1,"a":12345678901234567890,"f":1.0,"e":1e400,"s":"\u003c\ud83d\ude00é\"\\","n":null,"l":[],"o":{}}`
	c := w.call("a").isolated().with(func(a *sessions.Admission) { a.Sent = json.RawMessage(payload) })
	g := c.ok()
	w.about(g).event("kept", lineage.EventArtifact, payload).tell()
	log := w.dump(w.root).Log
	w.equal("payload of a draft", payload, string(log[3].Payload))
	want := decode([]byte(payload)).(map[string]any)
	want["run"], want["caller"], want["messageId"] = g.RunID, w.main().ID, c.MessageID
	w.equal("payload of message.sent", want, meaning(log[2]))

	// An empty object is no fault, and a task that is named is told.
	c = w.call("a").isolated().task(w.id("task")).with(func(a *sessions.Admission) {
		a.Sent = json.RawMessage(`{}`)
	})
	g = c.ok()
	w.equal("payload for an empty object", map[string]any{
		"run": g.RunID, "caller": w.main().ID, "messageId": c.MessageID, "taskId": c.TaskID,
	}, meaning(w.dump(w.root).Log[5]))
}

// An event belongs to the turn that caused it: a shared session lives through
// many, and what a run does is of the turn whose call holds the run.
func originOfEvents(w *world) {
	call := func(turn, trace string) *call {
		return w.call("a").in("ctx-a").turn(turn).with(func(a *sessions.Admission) { a.TraceID = trace })
	}
	g1 := call("t1", "x1").ok()
	w.completes(g1)
	c := call("t2", "x2")
	g2 := c.ok()
	w.suspends(g2)
	c.again().turn("t3").ok()
	w.about(g2).event("seen", lineage.EventArtifact, `{}`).tell()
	w.about(g2).with(func(p *sessions.Progress) { p.Run = "" }).event("of-no-run", lineage.EventQueued, `{}`).tell()
	w.completes(g2)
	var got []string
	for _, e := range w.dump(w.root).Log {
		got = append(got, e.Type+" "+e.Turn+" "+e.TraceID)
	}
	w.equal("origins", []string{
		"session.spawned t1 x1", "session.spawned t1 x1", "message.sent t1 x1", "run.ended t1 trace-news",
		"message.sent t2 x2", "session.suspended t2 trace-news",
		"session.resumed t3 x2", "message.sent t3 x2", "task.artifact t3 trace-news",
		"run.queued t1 trace-news", "run.ended t3 trace-news",
	}, got)
}

func batch(w *world) {
	good1, good2 := w.call("a").isolated().Admission, w.call("b").isolated().to(w.root+"-other").Admission
	deep := w.call("c").isolated().with(func(a *sessions.Admission) { a.Caller = sessions.Caller{ContextID: "far", Depth: 9} }).Admission
	ops := []*sessions.Op{
		{Admit: &good1},
		{Admit: &deep},
		{Progress: &sessions.Progress{Root: "no-tree", Session: "no-session"}},
		{Admit: &good2},
	}
	w.store.Apply(w.Context(), ops)
	for i, ok := range []bool{true, false, false, true} {
		if got := ops[i].Err == nil; got != ok {
			w.Errorf("op %d of the batch: Err = %v, want success: %t", i, ops[i].Err, ok)
		}
	}
	w.equal("first grant", good1.RunID, ops[0].Grant.RunID)
	w.equal("second grant", good2.RunID, ops[3].Grant.RunID)
	w.equal("events of the two trees", []int{3, 3}, []int{len(w.logged()), len(w.dump(w.root + "-other").Log)})
	w.store.Apply(w.Context(), nil)
}

func batchInOrder(w *world) {
	one := lineage.Limits{MaxChildren: 1}
	first, second, third := w.call("a").isolated().max(one), w.call("a").isolated().max(one), w.call("a").isolated().max(one)
	ops := []*sessions.Op{
		{Admit: &first.Admission},
		{Admit: &second.Admission},
		{Progress: &sessions.Progress{Root: w.root, Session: first.SessionID, Run: first.RunID, Gen: 1, Agent: "a", State: lineage.Completed}},
		{Admit: &third.Admission},
		{Progress: &sessions.Progress{Root: w.root, Session: third.SessionID, Run: third.RunID, Gen: 1, Agent: "a", Detach: time.Minute}},
	}
	w.store.Apply(w.Context(), ops)
	for i, ok := range []bool{true, false, true, true, true} {
		if got := ops[i].Err == nil; got != ok {
			w.Errorf("op %d of the batch: Err = %v, want success: %t", i, ops[i].Err, ok)
		}
	}
	w.live(1)
}
