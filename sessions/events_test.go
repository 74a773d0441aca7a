package sessions_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// story is a log in the writing: one event a line, a second apart.
type story []lineage.Event

var dawn = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// at is the time of the n-th event.
func at(n int) time.Time { return dawn.Add(time.Duration(n) * time.Second) }

func (s story) then(session, typ, payload string) story {
	n := len(s) + 1
	return append(s, lineage.Event{
		Seq: uint64(n), ID: fmt.Sprint("e", n), Time: at(n), Type: typ, Session: session,
		Branch: "branch-" + session, Tokens: lineage.Tokens{7}, Turn: "turn", TraceID: "trace", Payload: json.RawMessage(payload),
	})
}

func (s story) spawned(session, payload string) story {
	return s.then(session, lineage.EventSpawned, payload)
}

func (s story) sent(session, run string) story {
	return s.then(session, lineage.EventSent, fmt.Sprintf(`{"run":%q,"caller":"main","messageId":%q,"parts":[]}`, run, "m-"+run))
}

// one begins a story with session s and its open run r: events 1 and 2.
func one() story { return story{}.spawned("s", `{"kind":"branch"}`).sent("s", "r") }

func TestProjectSpawn(t *testing.T) {
	t.Parallel()
	log := story{}.
		spawned("main", `{"parent":"","edge":"root","kind":"main","agent":"coordinator","contextId":"root","depth":0,"ordinal":0,
			"read":[],"isolated":false,"inherit":"full","remote":false,"parentSource":"none"}`).
		spawned("s", `{"parent":"main","edge":"spawn","kind":"worker","agent":"a","contextId":"ctx","depth":1,"ordinal":2,
			"read":[3,7],"isolated":true,"inherit":"none","remote":true,"parentSource":"header"}`).
		sent("s", "r")
	want := []lineage.Session{
		{
			ID: "main", Tree: "root", Edge: lineage.EdgeRoot, Kind: lineage.Main, Agent: "coordinator", ContextID: "root",
			State: lineage.Active, Branch: "branch-main", Tokens: lineage.Tokens{7}, Read: lineage.Tokens{}, Inherit: lineage.InheritFull,
			Turn: "turn", ParentSource: lineage.FromNone, CreatedAt: at(1), Version: 1, TraceID: "trace",
		},
		{
			ID: "s", Tree: "root", Parent: "main", Edge: lineage.EdgeSpawn, Kind: lineage.Worker, Agent: "a", ContextID: "ctx",
			State: lineage.Active, Depth: 1, Branch: "branch-s", Ordinal: 2, Tokens: lineage.Tokens{7}, Read: lineage.Tokens{3, 7},
			Isolated: true, Inherit: lineage.InheritNone, Remote: true,
			Turn: "turn", ParentSource: lineage.FromHeader, CreatedAt: at(2), Version: 3, TraceID: "trace",
			Runs: []lineage.Run{{ID: "r", Caller: "main", MessageID: "m-r", State: lineage.Active, StartedAt: at(3)}},
		},
	}
	if diff := cmp.Diff(want, sessions.Project("root", log)); diff != "" {
		t.Errorf("Project (-want +got):\n%s", diff)
	}
	if got := sessions.Project("root", nil); len(got) != 0 {
		t.Errorf("Project(no log) = %+v, want none", got)
	}
}

// spelled is a session and its runs in short: "state[/reason][@end] run:state[/reason][@end]…".
func spelled(s lineage.Session) string {
	spell := func(state lineage.State, reason string, end *time.Time) string {
		text := string(state)
		if reason != "" {
			text += "/" + reason
		}
		if end != nil {
			text += fmt.Sprintf("@%d", int(end.Sub(dawn).Seconds()))
		}
		return text
	}
	text := spell(s.State, s.Reason, s.EndedAt)
	for _, r := range s.Runs {
		text += " " + r.ID + ":" + spell(r.State, r.Reason, r.EndedAt)
	}
	return text
}

func TestProjectStates(t *testing.T) {
	t.Parallel()
	const (
		suspended, resumed, runEnded       = lineage.EventSuspended, lineage.EventResumed, lineage.EventRunEnded
		completed, failed, expired, status = lineage.EventCompleted, lineage.EventFailed, lineage.EventExpired, lineage.EventStatus
	)
	for _, tt := range []struct {
		name string
		log  story
		want string
	}{
		{"sent", one(), "active r:active"},
		{"the same run goes on", one().sent("s", "r"), "active r:active"},
		{"a second run", one().sent("s", "r2"), "active r:active r2:active"},
		{"seen working", one().then("s", status, `{"run":"r","state":"working"}`), "active r:active"},

		{"suspended", one().then("s", suspended, `{"run":"r"}`), "suspended r:suspended"},
		{"a message alone resumes nothing", one().then("s", suspended, `{"run":"r"}`).sent("s", "r"), "suspended r:suspended"},
		{"resumed", one().then("s", suspended, `{"run":"r"}`).then("s", resumed, `{"run":"r"}`), "active r:active"},
		{"one of two suspended", one().sent("s", "r2").then("s", suspended, `{"run":"r2"}`), "suspended r:active r2:suspended"},
		{
			"one of two resumed",
			one().sent("s", "r2").then("s", suspended, `{"run":"r"}`).then("s", suspended, `{"run":"r2"}`).then("s", resumed, `{"run":"r"}`),
			"active r:active r2:suspended",
		},

		{"a run ends", one().then("s", runEnded, `{"run":"r","state":"completed"}`), "active r:completed@3"},
		{"a run fails", one().then("s", runEnded, `{"run":"r","state":"failed","reason":"lost"}`), "active r:failed/lost@3"},
		{"the last run that waits ends", one().then("s", suspended, `{"run":"r"}`).then("s", runEnded, `{"run":"r","state":"completed"}`), "active r:completed@4"},
		{
			"one of two that wait ends",
			one().sent("s", "r2").then("s", suspended, `{"run":"r"}`).then("s", suspended, `{"run":"r2"}`).then("s", runEnded, `{"run":"r","state":"failed"}`),
			"suspended r:failed@6 r2:suspended",
		},
		{"a lost run is corrected", one().then("s", runEnded, `{"run":"r","state":"failed","reason":"lost"}`).then("s", runEnded, `{"run":"r","state":"completed"}`), "active r:completed@4"},

		{"the session completes", one().then("s", completed, `{"run":"r","state":"completed"}`), "completed@3 r:completed@3"},
		{"the session fails", one().then("s", failed, `{"run":"r","state":"failed","reason":"canceled"}`), "failed/canceled@3 r:failed/canceled@3"},
		{
			"its end ends what waits, and leaves what has ended",
			one().then("s", runEnded, `{"run":"r","state":"completed"}`).sent("s", "r2").then("s", suspended, `{"run":"r2"}`).sent("s", "r3").
				then("s", failed, `{"run":"r3","state":"failed"}`),
			"failed@7 r:completed@3 r2:failed@7 r3:failed@7",
		},
		{"it expires", one().then("s", runEnded, `{"run":"r","state":"completed"}`).then("s", expired, `{"state":"expired"}`), "expired@4 r:completed@3"},
		{"it expires waiting", one().then("s", suspended, `{"run":"r"}`).then("s", expired, `{"state":"expired"}`), "expired@4 r:expired@4"},
		{
			"a lost session is corrected",
			one().then("s", failed, `{"run":"r","state":"failed","reason":"lost"}`).then("s", completed, `{"run":"r","state":"completed"}`),
			"completed@4 r:completed@4",
		},
		{
			"a retry in a session that has ended",
			one().then("s", completed, `{"run":"r","state":"completed"}`).sent("s", "r2").then("s", runEnded, `{"run":"r2","state":"failed"}`),
			"completed@3 r:completed@3 r2:failed@5",
		},

		{"news of no run", one().then("s", runEnded, `{"run":"other","state":"failed"}`).then("s", lineage.EventRefused, `{}`), "active r:active"},
		{"news of another session", one().then("other", completed, `{"run":"r","state":"completed"}`), "active r:active"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := sessions.Project("root", tt.log)
			if len(got) != 1 {
				t.Fatalf("Project = %d sessions, want 1", len(got))
			}
			if s := spelled(got[0]); s != tt.want {
				t.Errorf("Project = %s, want %s", s, tt.want)
			}
			version := uint64(0)
			for _, e := range tt.log {
				if e.Session == "s" {
					version = e.Seq
				}
			}
			if got[0].Version != version {
				t.Errorf("Project: Version = %d, want that of its last event, %d", got[0].Version, version)
			}
		})
	}
}

func TestProjectContext(t *testing.T) {
	t.Parallel()
	log := one()
	for _, step := range []struct{ payload, want string }{
		{`{"contextId":"alias","alias":true}`, ""},
		{`{"contextId":"own"}`, "own"},
		{`{"contextId":"alias","alias":true}`, "own"},
	} {
		log = log.then("s", lineage.EventBound, step.payload)
		if got := sessions.Project("root", log)[0].ContextID; got != step.want {
			t.Errorf("after context.bound %s the context is %q, want %q", step.payload, got, step.want)
		}
	}
}

func TestProjectTask(t *testing.T) {
	t.Parallel()
	for _, typ := range []string{lineage.EventStatus, lineage.EventArtifact, lineage.EventReceived} {
		log := one().sent("s", "r2").
			then("s", typ, `{"run":"r"}`).
			then("s", typ, `{"run":"r","taskId":"first"}`).
			then("s", typ, `{"run":"r","taskId":"second"}`).
			then("s", typ, `{"run":"other","taskId":"third"}`)
		runs := sessions.Project("root", log)[0].Runs
		if runs[0].TaskID != "first" || runs[1].TaskID != "" {
			t.Errorf("%s: tasks %q and %q, want first and none", typ, runs[0].TaskID, runs[1].TaskID)
		}
	}
	log := story{}.spawned("s", `{}`).then("s", lineage.EventSent, `{"run":"r","messageId":"m","taskId":"sent"}`).
		then("s", lineage.EventStatus, `{"run":"r","taskId":"told"}`)
	if got := sessions.Project("root", log)[0].Runs[0].TaskID; got != "sent" {
		t.Errorf("a run sent with a task has task %q, want sent", got)
	}
}

func TestProjectResult(t *testing.T) {
	t.Parallel()
	result := &lineage.Result{
		Status: lineage.Completed, Summary: "done",
		Artifacts: []lineage.Artifact{{ID: "x", Bytes: 3}}, MemoryIDs: []string{"m"},
	}
	log := one().then("s", lineage.EventRunEnded, `{"run":"r","state":"completed",
		"result":{"status":"completed","summary":"done","artifacts":[{"id":"x","bytes":3}],"memoryIds":["m"]},"usage":{"n":12345678901234567890}}`)
	check := func(when string) {
		t.Helper()
		s := sessions.Project("root", log)[0]
		if diff := cmp.Diff(result, s.Result); diff != "" {
			t.Errorf("%s: result (-want +got):\n%s", when, diff)
		}
		if want := `{"n":12345678901234567890}`; string(s.Usage) != want {
			t.Errorf("%s: usage %s, want %s", when, s.Usage, want)
		}
	}
	check("after the run that told them")
	log = log.sent("s", "r2").then("s", lineage.EventCompleted, `{"run":"r2","state":"completed"}`)
	check("after an end that tells none")
	log = log.then("s", lineage.EventRunEnded, `{"run":"r2","state":"failed","result":{"status":"failed"},"usage":7}`)
	if s := sessions.Project("root", log)[0]; s.Result.Status != lineage.Failed || string(s.Usage) != "7" {
		t.Errorf("a later result is not the one that stands: %+v, usage %s", s.Result, s.Usage)
	}
}

// The state is the caller's own: it neither changes with the log nor keeps it
// in memory.
func TestProjectSharesNothing(t *testing.T) {
	t.Parallel()
	log := one().then("s", lineage.EventCompleted, `{"run":"r","state":"completed","usage":{"n":1}}`)
	before, after := sessions.Project("root", log), sessions.Project("root", log)
	for i := range log {
		log[i].Time = time.Time{}
		clear(log[i].Payload)
	}
	if diff := cmp.Diff(before, after); diff != "" {
		t.Errorf("Project is not deterministic:\n%s", diff)
	}
	if got := *after[0].EndedAt; !got.Equal(at(3)) {
		t.Errorf("EndedAt = %s after the log was overwritten, want %s", got, at(3))
	}
	if got := *after[0].Runs[0].EndedAt; !got.Equal(at(3)) {
		t.Errorf("Runs[0].EndedAt = %s after the log was overwritten, want %s", got, at(3))
	}
	if got := string(after[0].Usage); got != `{"n":1}` {
		t.Errorf("Usage = %q after the log was overwritten", got)
	}
}

// A payload that cannot be read says nothing; the events around it still do.
func FuzzProject(f *testing.F) {
	for _, payload := range []string{
		``, `null`, `[]`, `7`, `{`, `{"run":"r"}`, `{"run":7}`, `{"run":"r","state":"completed","result":7}`,
		`{"run":"r","taskId":"t"}`, `{"contextId":"c"}`, `{"contextId":"c","alias":true}`, `{"run":"r2","messageId":"m"}`,
		`{"state":"expired"}`, `{"kind":"main","read":[3,1]}`, `{"read":{}}`,
	} {
		f.Add([]byte(payload))
	}
	types := []string{
		lineage.EventSpawned, lineage.EventSuspended, lineage.EventResumed, lineage.EventCompleted, lineage.EventFailed,
		lineage.EventExpired, lineage.EventRunEnded, lineage.EventSent, lineage.EventReceived, lineage.EventStatus,
		lineage.EventArtifact, lineage.EventBound, lineage.EventCrossed, lineage.EventCollapsed, lineage.EventQueued, "unknown",
	}
	f.Fuzz(func(t *testing.T, payload []byte) {
		for _, typ := range types {
			for _, session := range []string{"s", "new"} {
				if typ == lineage.EventSpawned && session == "s" {
					continue // a log spawns a session once
				}
				log := one().then(session, typ, string(payload)).sent("s", "after")
				got := sessions.Project("root", log)
				if len(got) == 0 || got[0].ID != "s" {
					t.Fatalf("Project(%s %q) = %+v, want session s first", typ, payload, got)
				}
				runs := got[0].Runs
				if last := runs[len(runs)-1]; last.ID != "after" || got[0].Version != 4 {
					t.Errorf("Project(%s %q): the event after it is lost: %+v", typ, payload, got[0])
				}
			}
		}
	})
}

func TestEventQuerySelects(t *testing.T) {
	t.Parallel()
	e := lineage.Event{Session: "s", Type: lineage.EventSent, Tokens: lineage.Tokens{1, 2}}
	rooted := lineage.Event{Session: "main", Type: lineage.EventSent}
	for _, tt := range []struct {
		name string
		q    sessions.EventQuery
		e    lineage.Event
		want bool
	}{
		{"no viewer", sessions.EventQuery{}, e, false},
		{"no viewer, root's event", sessions.EventQuery{}, rooted, true},
		{"privileged", sessions.EventQuery{All: true}, e, true},
		{"itself", sessions.EventQuery{Read: lineage.Tokens{1, 2}}, e, true},
		{"descendant", sessions.EventQuery{Read: lineage.Tokens{1, 2, 3}}, e, true},
		{"ancestor", sessions.EventQuery{Read: lineage.Tokens{1}}, e, false},
		{"session", sessions.EventQuery{All: true, Session: "s"}, e, true},
		{"other session", sessions.EventQuery{All: true, Session: "t"}, e, false},
		{"type", sessions.EventQuery{All: true, Types: []string{lineage.EventStatus, lineage.EventSent}}, e, true},
		{"other type", sessions.EventQuery{All: true, Types: []string{lineage.EventStatus}}, e, false},
		{"other session of the type", sessions.EventQuery{All: true, Session: "t", Types: []string{lineage.EventSent}}, e, false},
		{"type, unseen", sessions.EventQuery{Types: []string{lineage.EventSent}}, e, false},
		{"paging aside", sessions.EventQuery{All: true, After: 99, LastN: 1}, e, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := tt.q.Selects(&tt.e); got != tt.want {
				t.Errorf("%+v.Selects(%+v) = %t, want %t", tt.q, tt.e, got, tt.want)
			}
		})
	}
}
