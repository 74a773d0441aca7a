package redis_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// listen returns what s tells a watcher, who hears also what others do. The
// watch has ended when tb ends.
func listen(tb testing.TB, srv *redistest.Server, s *redis.Store) <-chan sessions.Notice {
	tb.Helper()
	heard := make(chan sessions.Notice, 1000)
	ctx, stop := context.WithCancel(tb.Context())
	rdb := srv.Client(tb)
	before := subscribers(tb, rdb)
	if err := s.Watch(ctx, func(n sessions.Notice) { heard <- n }); err != nil {
		tb.Fatalf("Watch() = %v", err)
	}
	if got := subscribers(tb, rdb); got != before+1 {
		tb.Errorf("%d subscriptions once Watch has returned, want %d", got, before+1)
	}
	tb.Cleanup(func() {
		stop()
		await(tb, rdb, 0) // the contexts of all watches have ended by now
	})
	return heard
}

// await waits until so many watches hear of what others do.
func await(tb testing.TB, rdb *goredis.Client, watches int64) {
	tb.Helper()
	for give := time.Now().Add(10 * time.Second); subscribers(tb, rdb) != watches; {
		if time.Now().After(give) {
			tb.Fatalf("there are not %d subscriptions to notices", watches)
		}
	}
}

func subscribers(tb testing.TB, rdb *goredis.Client) int64 {
	tb.Helper()
	n, err := rdb.PubSubNumSub(context.WithoutCancel(tb.Context()), "a2a:notices").Result()
	if err != nil {
		tb.Fatal(err)
	}
	return n["a2a:notices"]
}

// next returns the next notice.
func next(tb testing.TB, heard <-chan sessions.Notice) sessions.Notice {
	tb.Helper()
	select {
	case n := <-heard:
		return n
	case <-time.After(10 * time.Second):
		tb.Fatal("no notice came")
		return sessions.Notice{}
	}
}

func cancel(a *sessions.Admission) *sessions.Op {
	return &sessions.Op{Change: &sessions.Change{Root: a.Root, Session: a.SessionID, Verb: lineage.VerbCancel}}
}

// TestWatch: every sidecar hears which runs are to stop, once each.
func TestWatch(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	mine, others := open(t, srv, redis.Options{Grace: 7 * time.Second}), open(t, srv, redis.Options{})
	here, there := listen(t, srv, mine), listen(t, srv, others)

	a := call("r\x00ß", 1)
	a.TaskID = "task"
	mustAdmit(t, mine, a)
	apply(t, mine, cancel(a))
	want := sessions.Notice{Cancels: []sessions.Cancel{{
		Root: a.Root, Session: a.SessionID, Run: a.RunID, Agent: "worker", TaskID: "task", Reason: "canceled", Grace: 7 * time.Second,
	}}}
	for who, heard := range map[string]<-chan sessions.Notice{"who did it": here, "another": there} {
		if d := cmp.Diff(want, next(t, heard)); d != "" {
			t.Errorf("the notice of a cancellation for %s (-want +got):\n%s", who, d)
		}
	}

	// Asked about again, by whoever holds the run.
	if err := others.Renew(t.Context(), []sessions.RunRef{{Root: a.Root, Run: a.RunID, Agent: "worker", Gen: 1}}, time.Minute); err != nil {
		t.Fatal(err)
	}
	for _, heard := range []<-chan sessions.Notice{here, there} {
		n := next(t, heard)
		if len(n.Cancels) != 1 || n.Cancels[0].Run != a.RunID || n.Cancels[0].Grace >= 7*time.Second || n.Cancels[0].Grace < time.Second {
			t.Errorf("the notice after Renew() = %+v, want run %s with what is left of 7 s", n, a.RunID)
		}
	}
}

// TestFreedPlaces: that a place came free is told where somebody waits for one,
// and nowhere else.
func TestFreedPlaces(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, others := open(t, srv, redis.Options{}), open(t, srv, redis.Options{})
	here, there := listen(t, srv, s), listen(t, srv, others)
	heard := func(when string, want sessions.Notice) {
		t.Helper()
		for _, of := range []<-chan sessions.Notice{here, there} {
			if d := cmp.Diff(want, next(t, of)); d != "" {
				t.Errorf("the notice %s (-want +got):\n%s", when, d)
			}
		}
	}
	one := func(n int, l lineage.Limits) *sessions.Admission {
		a := call("r", n)
		a.Limits = l
		return a
	}
	refused := func(a *sessions.Admission, want lineage.Reason) {
		t.Helper()
		_, err := admit(t, s, a)
		if over, ok := errors.AsType[*lineage.Refusal](err); !ok || over.Reason != want {
			t.Fatalf("Apply() = %v, want %s", err, want)
		}
	}
	child := lineage.Limits{MaxChildren: 1}
	a := one(1, child)
	mustAdmit(t, s, a)
	refused(one(2, child), lineage.ChildrenLimit)
	tell(t, s, end(a)) // nobody hears of it

	b := one(3, child)
	mustAdmit(t, s, b)
	child.QueueTimeout = time.Minute
	refused(one(4, child), lineage.ChildrenLimit)
	tell(t, s, end(b))
	heard("of a place in the tree", sessions.Notice{Root: "r"})

	place := lineage.Limits{MaxConcurrent: 1}
	at := func(root string, l lineage.Limits) *sessions.Admission {
		x := call(root, 5)
		x.Limits = l
		return x
	}
	x := at("q", place)
	mustAdmit(t, s, x)
	refused(at("p", place), lineage.ConcurrencyLimit)
	tell(t, s, end(x)) // nobody hears of it
	y := at("o", place)
	mustAdmit(t, s, y)
	place.QueueTimeout = time.Minute
	refused(at("p", place), lineage.ConcurrencyLimit)
	tell(t, s, end(y))
	heard("of a place at an agent", sessions.Notice{Agent: "worker"})
	select {
	case n := <-there:
		t.Errorf("a notice more: %+v", n)
	default:
	}
}

// TestSlowWatcher: nobody waits for a watcher that does not come back.
func TestSlowWatcher(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, redis.Options{})
	ctx, stop := context.WithCancel(t.Context())
	told, release := make(chan struct{}, 1000), make(chan struct{})
	err := s.Watch(ctx, func(sessions.Notice) {
		told <- struct{}{}
		<-release
	})
	if err != nil {
		t.Fatalf("Watch() = %v", err)
	}
	for n := range 300 {
		a := call("r", n)
		mustAdmit(t, s, a)
		apply(t, s, cancel(a))
	}
	<-told
	close(release)
	for range 299 {
		<-told
	}
	stop()
	await(t, srv.Client(t), 0)
}

func TestWatchWithoutServer(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, redis.Options{Timeout: time.Second})
	heard := listen(t, srv, s)
	srv.Stop()
	if err := s.Watch(t.Context(), func(sessions.Notice) {}); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Watch() without a server = %v, want ErrUnavailable", err)
	}
	srv.Restart(t)
	// A watch that had begun goes on, with others' notices.
	await(t, srv.Client(t), 1)
	other := open(t, srv, redis.Options{})
	a := call("r", 1)
	mustAdmit(t, other, a)
	apply(t, other, cancel(a))
	if n := next(t, heard); len(n.Cancels) != 1 || n.Cancels[0].Run != a.RunID {
		t.Errorf("the notice after the server came back = %+v, want run %s", n, a.RunID)
	}
}
