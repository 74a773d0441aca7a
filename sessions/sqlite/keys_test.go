package sqlite_test

import (
	"database/sql"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// Ids that several trees have lead, in each, to what is its own, and belong to
// the first as long as that is there. Nothing of it outlives the trees.
func TestSameIDsInTrees(t *testing.T) {
	t.Parallel()
	clock, path := newClock(), file(t)
	opts := sqlite.Options{Path: path, Now: clock.now, Retain: time.Hour}
	s, err := sqlite.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	shared := func(root, contextID string) *sessions.Admission {
		a := call(root)
		a.Isolated, a.Resolve, a.ContextID = false, sessions.ResolveContext, contextID
		return a
	}
	first := map[string]string{} // root → session
	for _, root := range []string{"one", "two"} {
		g := admit(t, s, shared(root, "same"))
		first[root] = g.Session.ID
		op := ended(g)
		op.Progress.TaskID, op.Progress.ContextID = "same", "alias of "+root
		if s.Apply(t.Context(), []*sessions.Op{op}); op.Err != nil {
			t.Fatal(op.Err)
		}
	}
	leads := func(root string) {
		t.Helper()
		byTask := call(root)
		byTask.TaskID = "same"
		byCaller := call(root)
		byCaller.Caller.ContextID = "same"
		for what, a := range map[string]*sessions.Admission{
			"context": shared(root, "same"), "alias": shared(root, "alias of "+root), "task": byTask, "caller": byCaller,
		} {
			g := admit(t, s, a)
			got := g.Session.ID
			if what == "caller" {
				got = g.Session.Parent
			}
			if got != first[root] {
				t.Errorf("call by %s in tree %s leads to %s, want %s", what, root, got, first[root])
			}
			end(t, s, g)
		}
	}
	belongs := func(kind sessions.BindingKind, id, want string) {
		t.Helper()
		got, err := s.Find(t.Context(), sessions.BindingKey{Kind: kind, Agent: "worker", ID: id})
		if err != nil || got.Root != want {
			t.Errorf("Find(%s %s) = %v, %v, want tree %s", kind, id, got, err, want)
		}
	}
	check := func() {
		t.Helper()
		belongs(sessions.BindContext, "same", "one")
		belongs(sessions.BindTask, "same", "one")
		belongs(sessions.BindContext, "alias of two", "two")
		leads("one")
		leads("two")
	}
	check()
	closeStore(t, s)
	if s, err = sqlite.Open(t.Context(), opts); err != nil {
		t.Fatal(err)
	}
	check()

	clock.advance(30 * time.Minute)
	leads("two")
	clock.advance(30 * time.Minute)
	if n, err := s.DropIdle(t.Context()); err != nil || n != 1 {
		t.Fatalf("DropIdle() = %d, %v, want 1", n, err)
	}
	another := call("two") // not the one that the context leads to
	another.ContextID = "same"
	end(t, s, admit(t, s, another))
	leads("two")
	belongs(sessions.BindContext, "same", "two")
	belongs(sessions.BindTask, "same", "two")
	sweep(t, s, 0)
	leads("two")
	belongs(sessions.BindContext, "same", "two")
	clock.advance(2 * time.Hour)
	sweep(t, s, 1)
	closeStore(t, s)

	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, table := range []string{"keys", "bindings", "runs", "sessions"} {
		var got int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&got); err != nil || got != 0 {
			t.Errorf("rows left in %s = %d, %v, want 0", table, got, err)
		}
	}
}

// A context that stands in keys is taken over there, even when nobody else has
// it any more.
func TestTakeOverOfSharedID(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now, Retain: time.Hour})
	shared := func(root string) *sessions.Admission {
		a := call(root)
		a.Isolated, a.Resolve, a.ContextID, a.TTL = false, sessions.ResolveContext, "same", 30*time.Minute
		return a
	}
	end(t, s, admit(t, s, shared("one")))
	clock.advance(30 * time.Minute)
	old := admit(t, s, shared("two"))
	end(t, s, old)
	clock.advance(30 * time.Minute) // too long for both: the tree one, the session in two
	if n, err := s.DropIdle(t.Context()); err != nil || n != 1 {
		t.Fatalf("DropIdle() = %d, %v, want 1", n, err)
	}
	heir := admit(t, s, shared("two"))
	if !heir.New {
		t.Fatalf("Apply(call after the session's end) found %s, want a new session", heir.Session.ID)
	}
	if got := admit(t, s, shared("two")); got.Session.ID != heir.Session.ID {
		t.Errorf("Apply(next call) found %s, want %s (%s has ended)", got.Session.ID, heir.Session.ID, old.Session.ID)
	}
}
