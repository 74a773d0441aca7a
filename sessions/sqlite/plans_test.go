package sqlite_test

import (
	"strings"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// What a call costs must not grow with the record: nothing reads a whole table.
func TestNoScans(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: file(t), Now: clock.now})
	shared := func() *sessions.Admission {
		a := call("root")
		a.Isolated, a.Resolve, a.ContextID, a.TTL, a.Turn = false, sessions.ResolveContext, "shared", time.Hour, ""
		a.Limits = lineage.Limits{MaxSessions: 1, MaxChildren: 8, MaxFanOut: 8, MaxVisits: 8, MaxConcurrent: 8}
		return a
	}
	g := admit(t, s, shared())
	told := ended(g)
	told.Progress.State, told.Progress.TaskID, told.Progress.ContextID = lineage.Suspended, "task", "alias"
	told.Progress.Events = []sessions.Draft{{ID: "status/1", Type: lineage.EventStatus}}
	s.Apply(t.Context(), []*sessions.Op{told})
	again := shared()
	again.TaskID, again.Caller = "task", sessions.Caller{SiblingOf: "shared"}
	admit(t, s, again)
	clock.advance(2 * time.Hour)
	late := call("root")
	late.Limits.MaxSessions, late.Resolve, late.Caller.ContextID = 1, sessions.ResolveAgent, "elsewhere"
	admit(t, s, late)
	spawned := ahead(late.SessionID)
	spawned.RequestID = "request"
	admit(t, s, spawned)
	first := below(late.SessionID)
	first.Named = spawned.ContextID
	if g := admit(t, s, first); g.Session.ID != spawned.SessionID {
		t.Errorf("Apply(first call of %s) = %s", spawned.SessionID, g.Session.ID)
	}
	for _, verb := range []lineage.Verb{lineage.VerbSuspend, lineage.VerbResume, lineage.VerbComplete} {
		op := &sessions.Op{Change: &sessions.Change{Root: "root", Session: late.SessionID, Verb: verb}}
		if s.Apply(t.Context(), []*sessions.Op{op}); op.Err != nil {
			t.Fatal(op.Err)
		}
	}
	clock.advance(2 * time.Hour)
	settle(t, s)
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "worker", ID: "claimed"}
	if _, err := s.Claim(t.Context(), key, sessions.Binding{Root: "root"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Unclaim(t.Context(), key, sessions.Binding{Root: "root"}); err != nil {
		t.Fatal(err)
	}

	plans, err := s.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(plans) < 15 {
		t.Errorf("only %d statements were run", len(plans))
	}
	for query, scans := range plans {
		for _, step := range scans {
			// Trees that are being dropped: a handful, if any.
			if !strings.Contains(step, "dropped") && !strings.Contains(step, "CONSTANT ROW") && !strings.Contains(step, "subquery") {
				t.Errorf("%s: %s", step, query)
			}
		}
	}
}
