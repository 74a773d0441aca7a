package redis_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// settle settles all that is due.
func settle(tb testing.TB, s *redis.Store) {
	tb.Helper()
	for {
		more, err := s.Settle(tb.Context())
		if err != nil {
			tb.Fatalf("Settle() = %v", err)
		}
		if !more {
			return
		}
	}
}

// due returns the list of what is due: tree → when.
func due(tb testing.TB, rdb *goredis.Client) map[string]time.Time {
	tb.Helper()
	all, err := rdb.ZRangeWithScores(tb.Context(), "a2a:due", 0, -1).Result()
	if err != nil {
		tb.Fatal(err)
	}
	list := map[string]time.Time{}
	for _, z := range all {
		list[z.Member.(string)] = time.UnixMicro(int64(z.Score))
	}
	return list
}

// TestSettle: whatever falls due in any tree is settled though no call goes
// there, whichever sidecars settle, and then nothing is left on the list.
func TestSettle(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c, rdb := newClock(), srv.Client(t)
	dead := open(t, srv, redis.Options{Now: c.now})
	others := []*redis.Store{open(t, srv, redis.Options{Now: c.now}), open(t, srv, redis.Options{Now: c.now})}
	const trees = 250 // more than are claimed at once
	var ops []*sessions.Op
	for n := range trees {
		a := call(fmt.Sprintf("r%03d", n), n)
		a.Limits.MaxConcurrent = trees
		ops = append(ops, &sessions.Op{Admit: a})
	}
	apply(t, dead, ops...)
	if n := len(due(t, rdb)); n != trees {
		t.Fatalf("trees on the list of what is due = %d, want %d", n, trees)
	}
	settle(t, others[0])
	if n := len(due(t, rdb)); n != trees {
		t.Errorf("trees on the list after Settle() before anything is due = %d, want %d", n, trees)
	}

	c.advance(31 * time.Second)
	var both sync.WaitGroup
	for _, s := range others {
		both.Go(func() { settle(t, s) })
	}
	both.Wait()
	for _, op := range ops {
		id := op.Admit.SessionID
		if s, err := others[0].Session(t.Context(), id); err != nil || s.Reason != lineage.ReasonLost {
			t.Errorf("Session(%s) = %s/%s, %v, want failed/lost", id, s.State, s.Reason, err)
		}
	}
	if left := due(t, rdb); len(left) != 0 {
		t.Errorf("the list when all is settled = %v, want nothing", left)
	}
	if n, err := rdb.ZCard(t.Context(), "a2a:a:{worker}:runs").Result(); err != nil || n != 0 {
		t.Errorf("places held at the agent = %d, %v, want none", n, err)
	}
	if err := storetest.Consistent(t.Context(), others[1]); err != nil {
		t.Error(err)
	}
}

// TestDueList follows the place of one tree on the list.
func TestDueList(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c, rdb := newClock(), srv.Client(t)
	s := open(t, srv, redis.Options{Now: c.now})
	began := c.now()
	at := func(when string, want time.Duration) {
		t.Helper()
		got, ok := due(t, rdb)["r"]
		if !ok || got.Sub(began).Round(time.Millisecond) != want {
			t.Errorf("the tree is on the list %s at %v (%v), want %v", when, got.Sub(began), ok, want)
		}
	}
	a := call("r", 1)
	mustAdmit(t, s, a)
	at("after a call with a lease of 30 s", 30*time.Second)

	short := call("r", 2)
	short.Lease = 5 * time.Second
	mustAdmit(t, s, short)
	at("after one with 5 s", 5*time.Second)

	c.advance(4 * time.Second)
	mustAdmit(t, s, call("r", 3))
	at("after one that is due later", 5*time.Second)

	c.advance(2 * time.Second)
	settle(t, s)
	at("when what was due is settled", 30*time.Second)

	ahead := call("r", 4)
	ahead.Ahead, ahead.TTL = true, 3*time.Second
	mustAdmit(t, s, ahead)
	at("after a session ahead of its call", 9*time.Second)

	// As if it had been lost.
	if err := rdb.ZRem(t.Context(), "a2a:due", "r").Err(); err != nil {
		t.Fatal(err)
	}
	c.advance(4 * time.Second)
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Session(t.Context(), ahead.SessionID); err != nil || got.State != lineage.Expired {
		t.Errorf("Session(whose tree is not on the list) after Sweep() = %s, %v, want expired", got.State, err)
	}
	at("after Sweep()", 30*time.Second)
}

// TestSweepRestoresList: the list of what is due comes back when it was lost, and
// trees go on to rely on it.
func TestSweepRestoresList(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c, rdb := newClock(), srv.Client(t)
	s := open(t, srv, redis.Options{Now: c.now, Retain: time.Hour})
	began := c.now()
	list := func(when string, want map[string]time.Duration) {
		t.Helper()
		got := map[string]time.Duration{}
		for root, at := range due(t, rdb) {
			got[root] = at.Sub(began).Round(time.Millisecond)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("the list %s (-want +got):\n%s", when, d)
		}
	}
	detached, timeless := call("detached", 1), call("timeless", 1)
	timeless.TTL = 0
	mustAdmit(t, s, detached)
	mustAdmit(t, s, timeless)
	wait := end(timeless)
	wait.State = lineage.Suspended
	tell(t, s, wait)
	settle(t, s)
	list("after two calls", map[string]time.Duration{"detached": 30 * time.Second, "timeless": 30 * time.Second})
	tell(t, s, &sessions.Progress{
		Root: detached.Root, Session: detached.SessionID, Run: detached.RunID, Gen: 1, Agent: "worker", TaskID: "task", Detach: 4 * time.Minute,
	})
	c.advance(30 * time.Second)
	settle(t, s)
	list("when one of them waits, and nobody holds the other", map[string]time.Duration{"detached": 4 * time.Minute})

	if err := rdb.Del(t.Context(), "a2a:due").Err(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	list("after Sweep()", map[string]time.Duration{"detached": 4 * time.Minute})
	if ttl, err := rdb.PTTL(t.Context(), "a2a:due").Result(); err != nil || ttl < 74*time.Minute {
		t.Errorf("TTL of the list after Sweep() = %v, %v, want 75 minutes", ttl, err)
	}
	mustAdmit(t, s, call("detached", 2))
	list("after a call that is due earlier", map[string]time.Duration{"detached": time.Minute})
	c.advance(4 * time.Minute)
	settle(t, s)
	if got, err := s.Session(t.Context(), detached.SessionID); err != nil || got.Reason != lineage.ReasonLost {
		t.Errorf("Session(that nobody holds) = %s/%s, %v, want failed/lost", got.State, got.Reason, err)
	}
}

// TestClaimLapses: a tree that was claimed by one who died is settled by another.
func TestClaimLapses(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c, rdb := newClock(), srv.Client(t)
	s := open(t, srv, redis.Options{Now: c.now})
	a := call("r", 1)
	mustAdmit(t, s, a)
	c.advance(31 * time.Second)
	// What claimdue.lua does, and then nothing.
	again := float64(c.now().Add(5 * time.Second).UnixMicro())
	if err := rdb.ZAdd(t.Context(), "a2a:due", goredis.Z{Score: again, Member: "r"}).Err(); err != nil {
		t.Fatal(err)
	}
	settle(t, s)
	if got, err := s.Session(t.Context(), a.SessionID); err != nil || got.State != lineage.Active {
		t.Errorf("Session(in a tree that another has claimed) = %s, %v, want active", got.State, err)
	}
	c.advance(5 * time.Second)
	settle(t, s)
	if got, err := s.Session(t.Context(), a.SessionID); err != nil || got.State != lineage.Failed {
		t.Errorf("Session(in a tree whose claim has lapsed) = %s, %v, want failed", got.State, err)
	}
}

// TestCallSpoilsClaim: whoever settles a tree leaves it on the list when a call
// came in between that it may not have seen.
func TestCallSpoilsClaim(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c, rdb := newClock(), srv.Client(t)
	claimed := float64(c.now().Add(5 * time.Second).UnixMicro())
	if err := rdb.ZAdd(t.Context(), "a2a:due", goredis.Z{Score: claimed, Member: "r"}).Err(); err != nil {
		t.Fatal(err)
	}
	for n := range 2 {
		mustAdmit(t, open(t, srv, redis.Options{Now: c.now}), call("r", n)) // by a sidecar that has just come up
		claimed++
		if got, err := rdb.ZScore(t.Context(), "a2a:due", "r").Result(); err != nil || got != claimed {
			t.Errorf("a claimed tree is on the list at %.0f, %v after call %d, want %.0f", got, err, n+1, claimed)
		}
	}
}

// TestCascadeInPieces: the end of a session with very many below it reaches them
// all in the end.
func TestCascadeInPieces(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := newClock()
	s := open(t, srv, redis.Options{Now: c.now})
	const children, working = 450, 120
	var ops []*sessions.Op
	for n := range children {
		a := call("r", n)
		a.Isolated = false
		ops = append(ops, &sessions.Op{Admit: a})
	}
	apply(t, s, ops...)
	for n := range children - working {
		apply(t, s, &sessions.Op{Progress: end(ops[working+n].Admit)})
	}
	apply(t, s, &sessions.Op{Change: &sessions.Change{Root: "r", Session: "main-r", Verb: lineage.VerbComplete}})

	count := func() (ending, ended int) {
		t.Helper()
		all, err := sessions.AllSessions(t.Context(), s, "r")
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range all[1:] {
			switch {
			case one.Ending == lineage.ReasonOrphaned:
				ending++
			case one.State == lineage.Expired && one.Reason == lineage.ReasonParentEnded:
				ended++
			}
		}
		return ending, ended
	}
	if ending, ended := count(); ending+ended != 200 {
		t.Errorf("reached at once: %d asked, %d ended, want 200 of %d", ending, ended, children)
	}
	settle(t, s)
	if ending, ended := count(); ending != working || ended != children-working {
		t.Errorf("reached in the end: %d asked, %d ended, want %d, %d", ending, ended, working, children-working)
	}
	if err := storetest.Consistent(t.Context(), s); err != nil {
		t.Error(err)
	}
}

// TestLateRunLeavesOrder: a session that has ended is among those below its
// parent for as long as a run is open in it, and due no longer.
func TestLateRunLeavesOrder(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, rdb := open(t, srv, redis.Options{}), srv.Client(t)
	a := call("r", 1)
	order := func(when string, want ...string) {
		t.Helper()
		got, err := rdb.ZRange(t.Context(), "a2a:t:{r}:order", 0, -1).Result()
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(append(want, ""), got); d != "" {
			t.Errorf("the order %s (-want +got):\n%s", when, d)
		}
	}
	child, atWork, lease := "c0000000001"+a.SessionID, "s"+a.SessionID, "rlate"
	mustAdmit(t, s, a)
	order("with a call", child, atWork, "r"+a.RunID)
	tell(t, s, end(a))
	order("after its end")
	late := call("r", 2)
	late.RunID, late.MessageID = "late", a.MessageID
	mustAdmit(t, s, late)
	order("when it comes again", child, atWork, lease)
	tell(t, s, &sessions.Progress{Root: "r", Session: a.SessionID, Run: "late", Gen: 1, Agent: "worker", State: lineage.Completed})
	order("after the second end")
}
