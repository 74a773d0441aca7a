package sqlite_test

import (
	"database/sql"
	"errors"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

func sweep(t *testing.T, s *sqlite.Store, want int) {
	t.Helper()
	if got, err := s.Sweep(t.Context()); err != nil || got != want {
		t.Errorf("Sweep() = %d, %v, want %d", got, err, want)
	}
}

func TestSweepDropsOldTrees(t *testing.T) {
	t.Parallel()
	const day = 24 * time.Hour
	clock, path := newClock(), file(t)
	s := open(t, sqlite.Options{Path: path, Retain: 7 * day, Now: clock.now})
	old := call("old")
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "worker", ID: old.ContextID}
	g := admit(t, s, old)
	ends := []*sessions.Op{ended(g)}
	for _, g := range admitAll(t, s, "old", 600) { // more than a chunk
		ends = append(ends, ended(g))
	}
	s.Apply(t.Context(), ends)
	clock.advance(day)
	end(t, s, admit(t, s, call("young")))

	clock.advance(6*day - time.Nanosecond)
	sweep(t, s, 0)
	clock.advance(time.Nanosecond)
	sweep(t, s, 1)
	sweep(t, s, 0)

	if _, err := s.Tree(t.Context(), "old"); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Tree(old) = %v, want ErrNotFound", err)
	}
	if _, err := s.Session(t.Context(), g.Session.ID); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Session(of old) = %v, want ErrNotFound", err)
	}
	if b, err := s.Find(t.Context(), key); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Find(context of old) = %v, %v, want ErrNotFound", b, err)
	}
	op := ended(g)
	if s.Apply(t.Context(), []*sessions.Op{op}); !errors.Is(op.Err, sessions.ErrNotFound) {
		t.Errorf("Apply(progress in old) = %v, want ErrNotFound", op.Err)
	}
	if _, err := s.Tree(t.Context(), "young"); err != nil {
		t.Errorf("Tree(young) = %v", err)
	}
	// The same root may begin anew.
	admit(t, s, old)
	if got := len(readSessions(t, s, "old")); got != 2 {
		t.Errorf("Sessions(old) made anew = %d sessions, want 2", got)
	}

	// Nothing of the old tree is left in the file.
	db, err := sql.Open("sqlite", "file:"+path+"?mode=ro")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	for table, want := range map[string]int{
		"trees": 2, "sessions": 4, "runs": 2, "bindings": 4, "turns": 2, "dropped": 0, "events": 8,
		"keys": 2, // of each tree: the message
	} {
		var got int
		if err := db.QueryRowContext(t.Context(), "SELECT count(*) FROM "+table).Scan(&got); err != nil || got != want {
			t.Errorf("rows in %s = %d, %v, want %d", table, got, err, want)
		}
	}
}

func TestSweepKeepsForEver(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now})
	end(t, s, admit(t, s, call("root")))
	clock.advance(10000 * time.Hour)
	sweep(t, s, 0)
	readSessions(t, s, "root")
}

// Runs that nobody asks about any more are settled all the same, and a tree is
// not dropped while one is under way.
func TestSweepSettlesOverdue(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now, Retain: time.Minute})
	lost := admitAll(t, s, "root", 250) // more than one admission settles
	busy := call("busy")
	busy.Lease = time.Hour
	kept := admit(t, s, busy)
	clock.advance(2 * time.Minute)
	sweep(t, s, 0)

	for i, got := range readSessions(t, s, "root")[1:] {
		if got.ID != lost[i].Session.ID || got.State != lineage.Failed || got.Reason != lineage.ReasonLost {
			t.Fatalf("session %s is %s/%s, want failed/lost", got.ID, got.State, got.Reason)
		}
	}
	clock.advance(time.Minute)
	sweep(t, s, 1) // root: its last event was the loss of its runs
	if got, err := s.Session(t.Context(), kept.Session.ID); err != nil || got.State != lineage.Active {
		t.Errorf("Session(of busy) = %s, %v, want active", got.State, err)
	}
}

func TestSweepDropsOldClaims(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now, Retain: time.Hour})
	claim := func(id, root string) sessions.BindingKey {
		key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "worker", ID: id}
		mine := sessions.Binding{Root: root, Principal: "alice"}
		if got, err := s.Claim(t.Context(), key, mine); err != nil || got != mine {
			t.Fatalf("Claim(%s, %s) = %v, %v", id, root, got, err)
		}
		return key
	}
	found := func(key sessions.BindingKey, want bool) {
		t.Helper()
		if _, err := s.Find(t.Context(), key); (err == nil) != want {
			t.Errorf("Find(%s) = %v, want found: %t", key.ID, err, want)
		}
	}
	idle := claim("idle", "never")
	used := claim("used", "root")
	for range 3 {
		clock.advance(25 * time.Minute)
		end(t, s, admit(t, s, call("root")))
	}
	young := claim("young", "not-yet")
	sweep(t, s, 0)
	found(idle, false)
	found(used, true)
	found(young, true)
	clock.advance(2 * time.Hour)
	sweep(t, s, 1)
	found(used, false)
	found(young, false)
}

// A sweep that was interrupted leaves rows behind, which nobody sees and a
// later sweep removes.
func TestSweepInterrupted(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now, Retain: time.Hour})
	old := call("old")
	g := admit(t, s, old)
	end(t, s, g)
	clock.advance(time.Hour)
	if n, err := s.DropIdle(t.Context()); err != nil || n != 1 {
		t.Fatalf("DropIdle() = %d, %v, want 1", n, err)
	}
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "worker", ID: old.ContextID}
	if b, err := s.Find(t.Context(), key); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Find(context of old) = %v, %v, want ErrNotFound", b, err)
	}
	if _, err := s.Session(t.Context(), g.Session.ID); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Session(of old) = %v, want ErrNotFound", err)
	}
	// Another user's tree takes over root and context.
	anew := call("old")
	anew.Principal, anew.ContextID, anew.MessageID = "bob", old.ContextID, old.MessageID
	if g := admit(t, s, anew); !g.New || g.Retry {
		t.Errorf("Apply(same message, anew) = %+v, want a new session", g)
	}
	sweep(t, s, 0)
	want := sessions.Binding{Root: "old", Principal: "bob"}
	if got, err := s.Find(t.Context(), key); err != nil || got != want {
		t.Errorf("Find(context of old) = %v, %v, want %v", got, err, want)
	}
	if got := len(readSessions(t, s, "old")); got != 2 {
		t.Errorf("Sessions(old) = %d sessions, want 2", got)
	}
}
