package redis_test

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// clock is a clock that goes when it is told to.
type clock struct{ us atomic.Int64 }

func newClock() *clock {
	c := new(clock)
	c.us.Store(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).UnixMicro())
	return c
}

func (c *clock) now() time.Time          { return time.UnixMicro(c.us.Load()) }
func (c *clock) advance(d time.Duration) { c.us.Add(d.Microseconds()) }

// TestTreeIsKeptWhileItChanges: keys of the tree live for Retain after its
// last change, to 1 %; a change within that leaves the TTLs alone.
func TestTreeIsKeptWhileItChanges(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c, rdb := newClock(), srv.Client(t)
	s := open(t, srv, redis.Options{Now: c.now, Retain: 100 * time.Hour})
	mustAdmit(t, s, call("r", 0))
	age := func() {
		t.Helper()
		keys, err := rdb.Keys(t.Context(), "a2a:t:*").Result()
		if err != nil || len(keys) != 3 {
			t.Fatalf("keys of the tree = %v, %v, want 3", keys, err)
		}
		for _, key := range append(keys, "a2a:trees") {
			if err := rdb.PExpire(t.Context(), key, time.Hour).Err(); err != nil {
				t.Fatal(err)
			}
		}
	}
	left := func(key string) time.Duration {
		t.Helper()
		ttl, err := rdb.PTTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		return ttl.Round(time.Hour)
	}
	all := []string{"state", "log", "order"}

	age()
	c.advance(59 * time.Minute)
	mustAdmit(t, s, call("r", 1))
	for _, key := range all {
		if ttl := left("a2a:t:{r}:" + key); ttl != time.Hour {
			t.Errorf("TTL of %s after a change within 1 %% = %v, want the hour it had", key, ttl)
		}
	}
	for _, change := range []struct {
		what string
		make func()
	}{
		{"an admission", func() { mustAdmit(t, s, call("r", 2)) }},
		{"progress", func() { tell(t, s, end(call("r", 2))) }},
		{"a renewal", func() {
			if err := s.Renew(t.Context(), []sessions.RunRef{{Root: "r", Run: "run-r-1", Gen: 1}}, time.Hour); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		what := change.what
		age()
		c.advance(61 * time.Minute)
		change.make()
		for _, key := range all {
			if ttl := left("a2a:t:{r}:" + key); ttl != 100*time.Hour {
				t.Errorf("TTL of %s after %s = %v, want 100 h", key, what, ttl)
			}
		}
		if ttl := left("a2a:trees"); ttl != 125*time.Hour {
			t.Errorf("TTL of the list of trees after %s = %v, want 125 h", what, ttl)
		}
	}
}

// TestIDsAreKeptWithTheirTree: keys in other slots are prolonged, and those
// that a crash left out are written, while their tree changes.
func TestIDsAreKeptWithTheirTree(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c, rdb := newClock(), srv.Client(t)
	s := open(t, srv, redis.Options{Now: c.now, Retain: 100 * time.Hour})
	a := call("r", 0)
	a.TaskID = "task"
	mustAdmit(t, s, a)
	abroad := []string{
		"a2a:b:context:worker/context-r-0", "a2a:b:context:coordinator/r", "a2a:b:task:worker/task",
		"a2a:sid:main-r", "a2a:sid:session-r-0",
	}
	for i, key := range abroad {
		if i%2 == 0 {
			if err := rdb.Del(t.Context(), key).Err(); err != nil {
				t.Fatal(err)
			}
		} else if err := rdb.PExpire(t.Context(), key, time.Hour).Err(); err != nil {
			t.Fatal(err)
		}
	}
	lives := func() (ttls []time.Duration) {
		for _, key := range abroad {
			ttl, err := rdb.PTTL(t.Context(), key).Result()
			if err != nil {
				t.Fatal(err)
			}
			ttls = append(ttls, ttl.Round(time.Hour))
		}
		return ttls
	}
	const gone = 0 // -2 ns, rounded
	want := fmt.Sprint([]time.Duration{gone, time.Hour, gone, time.Hour, gone})
	c.advance(24 * time.Hour)
	mustAdmit(t, s, call("r", 1))
	if got := fmt.Sprint(lives()); got != want {
		t.Errorf("TTLs abroad before a quarter of the retention = %v, want %v", got, want)
	}
	c.advance(2 * time.Hour)
	mustAdmit(t, s, call("r", 2))
	const full = 125 * time.Hour
	want = fmt.Sprint([]time.Duration{full, full, full, full, full})
	if got := fmt.Sprint(lives()); got != want {
		t.Errorf("TTLs abroad after a quarter of the retention = %v, want %v", got, want)
	}
	if got, err := s.Find(t.Context(), sessions.BindingKey{Kind: sessions.BindTask, Agent: "worker", ID: "task"}); err != nil ||
		got != (sessions.Binding{Root: "r", Principal: "alice"}) {
		t.Errorf("Find(task) = %v, %v, want it in tree r again", got, err)
	}
}

// TestForgottenTree: a tree whose keys are gone is off the list, and its
// sessions are not found.
func TestForgottenTree(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, rdb := open(t, srv, redis.Options{}), srv.Client(t)
	mustAdmit(t, s, call("old", 0))
	mustAdmit(t, s, call("new", 0))
	keys, err := rdb.Keys(t.Context(), "a2a:t:{old}:*").Result()
	if err != nil {
		t.Fatal(err)
	}
	if err := rdb.Del(t.Context(), keys...).Err(); err != nil {
		t.Fatal(err)
	}
	if page, err := s.Trees(t.Context(), sessions.TreeQuery{}); err != nil || len(page.Trees) != 1 || page.Trees[0].Root != "new" {
		t.Errorf("Trees() = %+v, %v, want new alone", page, err)
	}
	if n, err := rdb.ZCard(t.Context(), "a2a:trees").Result(); err != nil || n != 1 {
		t.Errorf("the list of trees holds %d, %v, want 1", n, err)
	}
	if _, err := s.Session(t.Context(), "session-old-0"); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Session(of a forgotten tree) = %v, want ErrNotFound", err)
	}
}

// TestTreesStops: a page looks at a bounded number of trees.
func TestTreesStops(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, rdb := open(t, srv, redis.Options{}), srv.Client(t)
	mustAdmit(t, s, call("wanted", 0))
	var others []goredis.Z
	for i := range 12000 {
		others = append(others, goredis.Z{Score: 1e16 + float64(i), Member: fmt.Sprint("other", i)})
	}
	if err := rdb.ZAdd(t.Context(), "a2a:trees", others...).Err(); err != nil {
		t.Fatal(err)
	}
	q := sessions.TreeQuery{Text: "wanted"}
	for pages := 1; ; pages++ {
		page, err := s.Trees(t.Context(), q)
		if err != nil {
			t.Fatal(err)
		}
		if len(page.Trees) == 1 {
			if pages < 3 || page.Next != "" {
				t.Errorf("found after %d pages, next %q, want 3 pages of at most 5000, and no next", pages, page.Next)
			}
			return
		}
		if page.Next == "" || page.Next == q.Cursor {
			t.Fatalf("page %d is empty with next %q, want one to go on from", pages, page.Next)
		}
		q.Cursor = page.Next
	}
}

func TestBadCursor(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t), redis.Options{})
	for _, cursor := range []string{"!", "bm8", "eCB5"} {
		if _, err := s.Trees(t.Context(), sessions.TreeQuery{Cursor: cursor}); !errors.Is(err, sessions.ErrBadCursor) {
			t.Errorf("Trees(cursor %q) = %v, want ErrBadCursor", cursor, err)
		}
	}
}

// TestCrashedSidecar: what a dead sidecar held is free at the next admission
// by any other.
func TestCrashedSidecar(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := newClock()
	dead, other := open(t, srv, redis.Options{Now: c.now}), open(t, srv, redis.Options{Now: c.now})
	one := lineage.Limits{MaxChildren: 1, MaxConcurrent: 1}
	a, b := call("r", 1), call("r", 2)
	a.Limits, b.Limits = one, one
	mustAdmit(t, dead, a)
	c.advance(a.Lease - time.Millisecond)
	if _, err := admit(t, other, b); err == nil {
		t.Error("Apply(before the lease has lapsed) = nil, want a refusal")
	}
	c.advance(time.Millisecond)
	mustAdmit(t, other, b)
	lost, err := other.Session(t.Context(), a.SessionID)
	if err != nil || lost.State != lineage.Failed || lost.Reason != lineage.ReasonLost {
		t.Errorf("Session(of the dead sidecar) = %s/%s, %v, want failed/lost", lost.State, lost.Reason, err)
	}
}

// TestSweep: what a dead sidecar held is settled though no call goes to its
// trees any more, whichever sidecars sweep.
func TestSweep(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	c := newClock()
	dead, other := open(t, srv, redis.Options{Now: c.now}), open(t, srv, redis.Options{Now: c.now})
	var held []string
	for n := range 3 {
		a := call(fmt.Sprintf("r%d", n), n)
		a.Limits = lineage.Limits{MaxConcurrent: 9}
		mustAdmit(t, dead, a)
		held = append(held, a.SessionID)
		c.advance(time.Millisecond)
	}
	sweep := func(want lineage.State) {
		t.Helper()
		var both sync.WaitGroup
		for range 2 {
			both.Go(func() {
				if _, err := other.Sweep(t.Context()); err != nil {
					t.Errorf("Sweep() = %v", err)
				}
			})
		}
		both.Wait()
		for _, id := range held {
			if s, err := other.Session(t.Context(), id); err != nil || s.State != want {
				t.Errorf("Session(%s) after Sweep() = %s, %v, want %s", id, s.State, err, want)
			}
		}
	}
	sweep(lineage.Active)
	c.advance(time.Hour)
	sweep(lineage.Failed)
	if n, err := srv.Client(t).ZCard(t.Context(), "a2a:a:{worker}:runs").Result(); err != nil || n != 0 {
		t.Errorf("places held at the agent after Sweep() = %d, %v, want none", n, err)
	}
	if err := storetest.Consistent(t.Context(), other); err != nil {
		t.Error(err)
	}
}

// TestPlacesAtAgent follows the set of a capped agent through everything that
// takes places and gives them back.
func TestPlacesAtAgent(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, rdb := open(t, srv, redis.Options{}), srv.Client(t)
	held := func(when string, want int64) {
		t.Helper()
		if n, err := rdb.ZCard(t.Context(), "a2a:a:{worker}:runs").Result(); err != nil || n != want {
			t.Errorf("places held %s = %d, %v, want %d", when, n, err, want)
		}
	}
	capped := func(root string, n int) *sessions.Admission {
		a := call(root, n)
		a.Limits.MaxConcurrent = 2
		return a
	}
	a := capped("r", 1)
	g := mustAdmit(t, s, a)
	held("by one call", 1)

	full := capped("r", 2)
	full.Limits.MaxChildren = 1
	if _, err := admit(t, s, full); err == nil {
		t.Fatal("Apply(second child of 1) = nil, want a refusal")
	}
	held("after the tree has refused", 1)

	if g2 := mustAdmit(t, s, a); !g2.Retry || g2.RunID != g.RunID {
		t.Errorf("Apply(again) = %+v, want the run that is there", g2)
	}
	held("after a retry with the same ids", 1)
	again := *a
	again.RunID, again.SessionID = "another-run", "another-session"
	if g2 := mustAdmit(t, s, &again); !g2.Retry || g2.RunID != g.RunID {
		t.Errorf("Apply(again) = %+v, want the run that is there", g2)
	}
	held("after a retry with new ids", 1)

	suspend := end(a)
	suspend.State = lineage.Suspended
	tell(t, s, suspend)
	held("while the run waits", 0)
	resume := end(a)
	resume.State = lineage.Active
	tell(t, s, resume)
	held("when it goes on", 1)
	mustAdmit(t, s, capped("elsewhere", 1))
	held("by two trees", 2)
	if _, err := admit(t, s, capped("r", 3)); err == nil {
		t.Error("Apply(third of 2) = nil, want a refusal")
	}
	held("after a refusal for want of a place", 2)
	done := end(a)
	done.Gen = 3
	tell(t, s, done)
	held("after the end", 1)
}

// TestPlaceTakenAndGivenBack: a call that goes on, its end and another call in
// one batch.
func TestPlaceTakenAndGivenBack(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, redis.Options{})
	capped := func(n int) *sessions.Admission {
		a := call("r", n)
		a.Limits.MaxConcurrent = 1
		return a
	}
	a := capped(1)
	mustAdmit(t, s, a)
	retry := capped(2)
	retry.MessageID = a.MessageID
	ops := []*sessions.Op{{Admit: retry}, {Progress: end(a)}, {Admit: capped(3)}}
	s.Apply(t.Context(), ops)
	for i, op := range ops {
		if op.Err != nil {
			t.Errorf("op %d: %v, want no error", i, op.Err)
		}
	}
}

// TestPlacesOfABatch: admissions of one batch take their places together, and
// still find what those before them have given back, and no more than that.
func TestPlacesOfABatch(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, rdb := open(t, srv, redis.Options{}), srv.Client(t)
	capped := func(root string, n, most int) *sessions.Admission {
		a := call(root, n)
		a.Limits.MaxConcurrent = most
		return a
	}
	childless := capped("r", 6, 3)
	childless.Limits.MaxChildren = 1
	steps := []struct {
		op      sessions.Op
		refused lineage.Reason
		count   int
	}{
		{op: sessions.Op{Admit: capped("r", 1, 2)}},
		{op: sessions.Op{Admit: capped("q", 2, 2)}},
		{op: sessions.Op{Progress: end(call("r", 1))}},
		{op: sessions.Op{Admit: capped("r", 3, 2)}}, // in the place of the first
		{op: sessions.Op{Admit: capped("r", 4, 2)}, refused: lineage.ConcurrencyLimit, count: 2},
		{op: sessions.Op{Admit: capped("r", 5, 2)}, refused: lineage.ConcurrencyLimit, count: 2},
		{op: sessions.Op{Admit: childless}, refused: lineage.ChildrenLimit, count: 1},
		{op: sessions.Op{Admit: capped("q", 7, 3)}}, // the refused one has left its place
	}
	ops := make([]*sessions.Op, len(steps))
	for i := range steps {
		ops[i] = &steps[i].op
	}
	s.Apply(t.Context(), ops)
	for i, step := range steps {
		var over *lineage.Refusal
		switch errors.As(ops[i].Err, &over); {
		case step.refused == "" && ops[i].Err != nil:
			t.Errorf("op %d: %v, want no error", i, ops[i].Err)
		case step.refused != "" && (over == nil || over.Reason != step.refused || over.Count != step.count):
			t.Errorf("op %d: %v, want %s with %d", i, ops[i].Err, step.refused, step.count)
		}
	}
	if n, err := rdb.ZCard(t.Context(), "a2a:a:{worker}:runs").Result(); err != nil || n != 3 {
		t.Errorf("places taken = %d, %v, want 3", n, err)
	}
}
