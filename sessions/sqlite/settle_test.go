package sqlite_test

import (
	"database/sql"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

func settle(tb testing.TB, s sessions.Store) {
	tb.Helper()
	if more, err := s.Settle(tb.Context()); err != nil || more {
		tb.Fatalf("Settle() = %t, %v, want false", more, err)
	}
}

// stands is what became of a session: its state and reason, and why it is to end.
func stands(tb testing.TB, s sessions.Reader, id string) string {
	tb.Helper()
	got, err := s.Session(tb.Context(), id)
	if err != nil {
		tb.Fatalf("Session(%s) = %v", id, err)
	}
	return fmt.Sprintf("%s/%s/%s", got.State, got.Reason, got.Ending)
}

// What a process leaves behind is settled by the next: what ran in it is lost,
// what waits or has a time of its own keeps it.
func TestSettleAfterRestart(t *testing.T) {
	t.Parallel()
	clock, path := newClock(), file(t)
	opts := sqlite.Options{Path: path, Now: clock.now}
	s, err := sqlite.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	tell := func(g sessions.Grant, p sessions.Progress) {
		t.Helper()
		p.Root, p.Session, p.Run, p.Gen, p.Agent = "root", g.Session.ID, g.RunID, g.Gen, "worker"
		op := &sessions.Op{Progress: &p}
		if s.Apply(t.Context(), []*sessions.Op{op}); op.Err != nil {
			t.Fatal(op.Err)
		}
	}
	step := func(g sessions.Grant, verb lineage.Verb) {
		t.Helper()
		op := &sessions.Op{Change: &sessions.Change{Root: "root", Session: g.Session.ID, Verb: verb}}
		if s.Apply(t.Context(), []*sessions.Op{op}); op.Err != nil {
			t.Fatal(op.Err)
		}
	}
	made := map[string]sessions.Grant{}
	for _, name := range []string{"shared", "isolated", "waiting", "parked", "detached", "ending", "ending, detached"} {
		a := below("")
		a.Isolated = name == "isolated"
		made[name] = admit(t, s, a)
	}
	tell(made["waiting"], sessions.Progress{State: lineage.Suspended})
	step(made["parked"], lineage.VerbSuspend)
	tell(made["detached"], sessions.Progress{Detach: time.Hour})
	tell(made["ending, detached"], sessions.Progress{Detach: time.Hour})
	step(made["ending"], lineage.VerbCancel)
	step(made["ending, detached"], lineage.VerbCancel)
	reserved := ahead("")
	reserved.TTL = 10 * time.Minute
	made["reserved"] = admit(t, s, reserved)
	back := below("")
	back.Agent, back.Resolve, back.ContextID = "coordinator", sessions.ResolveContext, "root"
	made["main"] = admit(t, s, back)
	over := below("")
	over.TTL = 20 * time.Minute
	step(admit(t, s, over), lineage.VerbComplete)
	made["over, detached"] = admit(t, s, again(over))
	tell(made["over, detached"], sessions.Progress{Detach: time.Hour})
	closeStore(t, s)
	s = open(t, opts)
	settle(t, s)
	check := func(want map[string]string) {
		t.Helper()
		got := map[string]string{}
		for name, g := range made {
			got[name] = stands(t, s, g.Session.ID)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s later (-want +got):\n%s", clock.now().Sub(newClock().now()), d)
		}
	}
	want := map[string]string{
		"shared": "failed/lost/", "isolated": "failed/lost/", "waiting": "suspended//", "parked": "suspended//", "detached": "active//",
		"ending": "failed/lost/", "ending, detached": "active//canceled", "reserved": "active//", "main": "active//",
		"over, detached": "completed//",
	}
	check(want)
	for _, next := range []struct {
		after      time.Duration
		name, want string
	}{
		{lineage.DefaultGrace, "ending, detached", "failed/canceled/"},
		{10*time.Minute - lineage.DefaultGrace, "reserved", "expired//"},
		{10 * time.Minute, "over, detached", "completed//expired"},
		{lineage.DefaultGrace, "over, detached", "completed//"},
		{40*time.Minute - lineage.DefaultGrace, "detached", "failed/lost/"},
	} {
		clock.advance(next.after - time.Nanosecond)
		settle(t, s)
		check(want)
		clock.advance(time.Nanosecond)
		want[next.name] = next.want
		settle(t, s)
		check(want)
	}
}

// A root session that was asked to stop is made to, whoever is there by then.
func TestRootEndsAfterRestart(t *testing.T) {
	t.Parallel()
	clock, path := newClock(), file(t)
	opts := sqlite.Options{Path: path, Now: clock.now}
	s, err := sqlite.Open(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	admit(t, s, ahead(""))
	back := below("")
	back.Agent, back.Resolve, back.ContextID = "coordinator", sessions.ResolveContext, "root"
	g := admit(t, s, back)
	detach := ended(g) // else the loss of the run would bring the session to mind
	detach.Progress.State, detach.Progress.Detach = "", time.Hour
	op := cancel(g)
	if s.Apply(t.Context(), []*sessions.Op{detach, op}); detach.Err != nil || op.Err != nil {
		t.Fatal(detach.Err, op.Err)
	}
	closeStore(t, s)
	s = open(t, opts)
	settle(t, s)
	if got := stands(t, s, g.Session.ID); got != "active//canceled" {
		t.Errorf("in its grace the root session is %s, want active", got)
	}
	clock.advance(lineage.DefaultGrace)
	settle(t, s)
	if got := stands(t, s, g.Session.ID); got != "failed/canceled/" {
		t.Errorf("after its grace the root session is %s, want failed/canceled", got)
	}
}

// One Settle does a piece of what is due, and says that there is more.
func TestSettleInPieces(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now})
	const trees, each = 50, 60
	var ops []*sessions.Op
	for i := range trees {
		for range each {
			ops = append(ops, &sessions.Op{Admit: call(fmt.Sprint("tree-", i))})
		}
	}
	s.Apply(t.Context(), ops)
	clock.advance(time.Hour)
	live := func() (live int) {
		t.Helper()
		for i := range trees {
			tree, err := s.Tree(t.Context(), fmt.Sprint("tree-", i))
			if err != nil {
				t.Fatal(err)
			}
			live += tree.Live
		}
		return live
	}
	for left := trees * each; ; {
		more, err := s.Settle(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		now := live()
		if done := left - now; done == 0 || done > 2500 || more != (now > 0) {
			t.Fatalf("Settle() = %t, and has settled %d of %d", more, done, left)
		}
		if !more {
			return
		}
		left = now
	}
}

// A transaction that failed takes nothing off the agenda, nor puts it there.
func TestSettleAfterFailure(t *testing.T) {
	t.Parallel()
	clock, path := newClock(), file(t)
	s := open(t, sqlite.Options{Path: path, Now: clock.now})
	lost := call("root")
	admit(t, s, lost)
	kept := below("")
	kept.TTL = time.Minute
	admit(t, s, kept)
	clock.advance(lost.Lease)

	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Settle(t.Context()); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Settle() = %v, want ErrUnavailable", err)
	}
	if err := errors.Join(conn.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}
	// One that fails half way: the second op brings an id that is in use.
	bad := call("root")
	bad.SessionID = kept.SessionID
	ops := []*sessions.Op{{Admit: bad}}
	if s.Apply(t.Context(), ops); ops[0].Err == nil {
		t.Fatal("Apply(used session id) succeeded")
	}
	if got := stands(t, s, lost.SessionID); got != "active//" {
		t.Errorf("after failures the session is %s, want active", got)
	}
	settle(t, s)
	if got := stands(t, s, lost.SessionID); got != "failed/lost/" {
		t.Errorf("after Settle() the session is %s, want failed/lost", got)
	}
	clock.advance(time.Minute - lost.Lease)
	settle(t, s)
	if got := stands(t, s, kept.SessionID); got != "active//expired" {
		t.Errorf("past its time the session is %s, want it asked to stop", got)
	}
}

// The time of a session counts from its last call on, and its lease from the
// last renewal.
func TestSettleAfterRenewal(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now})
	shared := func() *sessions.Admission {
		a := below("")
		a.Resolve, a.ContextID, a.TTL, a.Lease = sessions.ResolveContext, "shared", time.Hour, time.Minute
		return a
	}
	g := admit(t, s, shared())
	end(t, s, g)
	clock.advance(50 * time.Minute)
	g = admit(t, s, shared())
	clock.advance(50 * time.Second)
	if err := s.Renew(t.Context(), []sessions.RunRef{{Root: "root", Run: g.RunID, Gen: g.Gen}}, time.Minute); err != nil {
		t.Fatal(err)
	}
	clock.advance(time.Minute - time.Nanosecond)
	settle(t, s)
	end(t, s, g)
	clock.advance(55 * time.Minute)
	settle(t, s)
	if got := stands(t, s, g.Session.ID); got != "active//" {
		t.Errorf("in its time the session is %s, want active", got)
	}
	clock.advance(5 * time.Minute)
	settle(t, s)
	if got := stands(t, s, g.Session.ID); got != "expired//" {
		t.Errorf("past its time the session is %s, want expired", got)
	}
}
