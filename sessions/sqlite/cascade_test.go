package sqlite_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// below is a call out of the session parent: the session stays when the call ends.
func below(parent string) *sessions.Admission {
	a := call("root")
	a.Isolated, a.Caller.Session, a.Limits, a.Lease = false, parent, lineage.Limits{}, time.Hour
	return a
}

// ahead is a session under parent that waits for its first call.
func ahead(parent string) *sessions.Admission {
	a := below(parent)
	a.Ahead = true
	return a
}

// family is the ops that make a session with more below it than one operation
// gets to: 60 children, 6 of which are to be spared, with 4 each. Half of them
// are made by other.
func family(top *sessions.Admission, other func(string) *sessions.Admission) []*sessions.Op {
	ops := []*sessions.Op{{Admit: top}}
	for i := range 60 {
		child := ahead(top.SessionID)
		if i%2 == 0 {
			child = other(top.SessionID)
		}
		child.Abandon = i%10 == 3
		ops = append(ops, &sessions.Op{Admit: child})
		for j := range 4 {
			grandchild := other(child.SessionID)
			if j%2 == 0 {
				grandchild = ahead(child.SessionID)
			}
			ops = append(ops, &sessions.Op{Admit: grandchild})
		}
	}
	return ops
}

// again is the same call sent once more: what the sidecar makes up is new.
func again(a *sessions.Admission) *sessions.Admission {
	next, fresh := *a, call(a.Root)
	next.MainID, next.RemoteID, next.SessionID, next.RunID = fresh.MainID, fresh.RemoteID, fresh.SessionID, fresh.RunID
	return &next
}

func copied(ops []*sessions.Op) []*sessions.Op {
	all := make([]*sessions.Op, len(ops))
	for i, op := range ops {
		all[i] = &sessions.Op{Admit: op.Admit, Change: op.Change}
	}
	return all
}

// A cascade that is too large for one operation is carried on, by another
// process if need be, and leaves nothing out.
func TestLongCascade(t *testing.T) {
	t.Parallel()
	path := file(t)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	top := ahead("")
	ops := append(family(top, ahead), &sessions.Op{Change: &sessions.Change{
		Root: "root", Session: top.SessionID, Verb: lineage.VerbComplete, TraceID: "trace",
	}})
	s.Apply(t.Context(), ops)
	for i, op := range ops {
		if op.Err != nil {
			t.Fatalf("op %d = %v", i, op.Err)
		}
	}
	if got := touched(t, s); got != 200 {
		t.Errorf("the end of a session has touched %d below it, want the 200 of one operation", got)
	}
	closeStore(t, s)
	s = open(t, sqlite.Options{Path: path})
	for range 2 {
		settle(t, s)
		if got := touched(t, s); got != 54*5 {
			t.Errorf("%d sessions touched in the end, want %d", got, 54*5)
		}
	}
}

// touched counts the sessions that a cascade has come to.
func touched(tb testing.TB, s sessions.Reader) int {
	tb.Helper()
	log := readLog(tb, s)
	ids := map[string]bool{}
	for _, e := range log {
		if e.Type == lineage.EventCancel || e.ID == "ended/"+e.Session+"/expired/parent_ended" {
			if e.TraceID != "trace" {
				tb.Errorf("event %s bears trace %q, want that of whoever asked", e.ID, e.TraceID)
			}
			ids[e.Session] = true
		}
	}
	return len(ids)
}

func readLog(tb testing.TB, s sessions.Reader) []lineage.Event {
	tb.Helper()
	var log []lineage.Event
	q := sessions.EventQuery{All: true, Limit: sessions.MaxPage}
	for {
		page, err := s.Events(tb.Context(), "root", q)
		if err != nil {
			tb.Fatalf("Events() = %v", err)
		}
		if page.Next <= q.After {
			return log
		}
		log, q.After = append(log, page.Events...), page.Next
	}
}

// Pieces of a cascade come in the order in which all of it would.
func TestCascadeInPieces(t *testing.T) {
	t.Parallel()
	clock := newClock()
	model, s := storetest.NewModel(clock.now), open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now})
	top, late := below(""), below("")
	fail := func(a *sessions.Admission) *sessions.Op {
		return &sessions.Op{Change: &sessions.Change{Root: "root", Session: a.SessionID, Verb: lineage.VerbFail, Reason: "why"}}
	}
	ops := append(family(top, below), fail(top), &sessions.Op{Admit: late})
	// Calls after the end of their sessions: those out of late end with it, those
	// below them are calls of the root session, and do not.
	for range 250 {
		child := below(late.SessionID)
		grandchild := below(child.SessionID)
		ops = append(ops, &sessions.Op{Admit: child}, &sessions.Op{Admit: grandchild}, fail(grandchild), fail(child))
		child, grandchild = again(child), again(grandchild)
		grandchild.Caller.Session = ""
		ops = append(ops, &sessions.Op{Admit: child}, &sessions.Op{Admit: grandchild})
	}
	ops = append(ops, fail(late))
	for _, store := range []sessions.Store{model, s} {
		store.Apply(t.Context(), copied(ops))
		for more := true; more; {
			var err error
			if more, err = store.Settle(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
	}
	if d := cmp.Diff(readLog(t, model), readLog(t, s)); d != "" {
		t.Errorf("the log (-all at once +in pieces):\n%s", d)
	}
	if d := cmp.Diff(readSessions(t, model, "root"), readSessions(t, s, "root"), cmp.Transformer("same", func(s lineage.Tokens) string { return s.String() })); d != "" {
		t.Errorf("Sessions(root) (-all at once +in pieces):\n%s", d)
	}
}

// What is spared costs time, too: a cascade looks at so much and no more.
func TestCascadePastMany(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now})
	top := below("")
	ops := []*sessions.Op{{Admit: top}}
	var below []string
	for i := range 1500 {
		spared := ahead(top.SessionID)
		spared.Abandon = true
		ops = append(ops, &sessions.Op{Admit: spared})
		if i > 990 && i < 1010 { // about where the first operation stops
			child := ahead(spared.SessionID)
			below = append(below, child.SessionID)
			ops = append(ops, &sessions.Op{Admit: child})
		}
	}
	last := ahead(top.SessionID)
	complete := &sessions.Op{Change: &sessions.Change{Root: "root", Session: top.SessionID, Verb: lineage.VerbComplete}}
	ops = append(ops, &sessions.Op{Admit: last}, complete)
	s.Apply(t.Context(), ops)
	if complete.Err != nil {
		t.Fatal(complete.Err)
	}
	if got := stands(t, s, last.SessionID); got != "active//" {
		t.Errorf("one operation has come past 1500 sessions to one that is now %s", got)
	}
	settle(t, s)
	if got := stands(t, s, last.SessionID); got != "expired/parent_ended/" {
		t.Errorf("the last child of a session that has ended is %s, want expired", got)
	}
	for _, id := range below {
		if got := stands(t, s, id); got != "active//" {
			t.Errorf("a session below one that is spared is %s, want active", got)
		}
	}
}

// A session whose end is corrected has ended once, as far as its parent counts.
func TestCascadeAfterCorrection(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now})
	top := ahead("")
	admit(t, s, top)
	lost := below(top.SessionID)
	lost.Lease = time.Minute
	g := admit(t, s, lost)
	other := admit(t, s, below(top.SessionID))
	clock.advance(time.Minute)
	settle(t, s)
	end(t, s, g)
	if got := stands(t, s, g.Session.ID); got != "completed//" {
		t.Errorf("the session that was lost is %s, want completed: it said so", got)
	}
	op := &sessions.Op{Change: &sessions.Change{Root: "root", Session: top.SessionID, Verb: lineage.VerbComplete}}
	if s.Apply(t.Context(), []*sessions.Op{op}); op.Err != nil {
		t.Fatal(op.Err)
	}
	if got := stands(t, s, other.Session.ID); got != "active//orphaned" {
		t.Errorf("the other child is %s, want it asked to stop", got)
	}
}

// A cascade that is not done goes with its tree.
func TestDropWithCascade(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now, Retain: time.Hour})
	top := ahead("")
	ops := []*sessions.Op{{Admit: top}}
	for i := range 250 {
		child := ahead(top.SessionID)
		child.RequestID = fmt.Sprint(i)
		ops = append(ops, &sessions.Op{Admit: child})
	}
	ops = append(ops, &sessions.Op{Change: &sessions.Change{Root: "root", Session: top.SessionID, Verb: lineage.VerbComplete}})
	s.Apply(t.Context(), ops)
	clock.advance(time.Hour)
	if n, err := s.DropIdle(t.Context()); err != nil || n != 1 {
		t.Fatalf("DropIdle() = %d, %v, want 1", n, err)
	}
	settle(t, s)
	sweep(t, s, 0)
}
