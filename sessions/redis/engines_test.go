package redis_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// rules holds stores at url to every rule, and to the model.
func rules(t *testing.T, url string, seed uint64) {
	t.Helper()
	var opened atomic.Int64
	fresh := func(tb testing.TB, now func() time.Time) sessions.Store {
		tb.Helper()
		return openURL(tb, url, redis.Options{Now: now, Prefix: fmt.Sprintf("store-%d:", opened.Add(1))})
	}
	t.Run("rules", func(t *testing.T) { storetest.Run(t, fresh) })
	t.Run("model", func(t *testing.T) { storetest.Differential(t, fresh, seed, 100) })
}

// openURL opens a store, which is closed when tb ends.
func openURL(tb testing.TB, url string, opts redis.Options) *redis.Store {
	tb.Helper()
	opts.URL = url
	s, err := redis.Open(tb.Context(), opts)
	if err != nil {
		tb.Fatalf("Open(%+v): %v", opts, err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close() = %v", err)
		}
	})
	return s
}

// TestRulesOnCluster runs over one cluster, which loses a slot and then a master
// for good.
func TestRulesOnCluster(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 0)
	s := openURL(t, c.URL(), redis.Options{})
	t.Run("a slot moves", func(t *testing.T) {
		first := mustAdmit(t, s, call("moving", 1))
		key := redis.DefaultPrefix + "t:{moving}:state"
		from, err := c.Master(key)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Move(key, (from+1)%c.Size()); err != nil {
			t.Fatal(err)
		}
		if again := mustAdmit(t, s, call("moving", 1)); again.RunID != first.RunID || !again.Retry {
			t.Errorf("Apply(call 1 again) = %+v, want the run of %+v", again, first)
		}
		mustAdmit(t, s, call("moving", 2))
		if tree, err := s.Tree(t.Context(), "moving"); err != nil || tree.Sessions != 3 {
			t.Errorf("Tree(moving) = %+v, %v, want 3 sessions", tree, err)
		}
	})
	rules(t, c.URL(), 139)
	t.Run("a master is gone", func(t *testing.T) {
		if err := s.Ping(t.Context()); err != nil {
			t.Errorf("Ping() = %v, want nil", err)
		}
		gone, err := c.Master(redis.DefaultPrefix + "ping")
		if err != nil {
			t.Fatal(err)
		}
		c.Kill((gone + 1) % c.Size()) // another than the one that Ping writes to
		if err := s.Ping(t.Context()); !errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("Ping() without a master = %v, want ErrUnavailable", err)
		}
		if _, err := redis.Open(t.Context(), redis.Options{URL: c.URL()}); !errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("Open() without a master = %v, want ErrUnavailable", err)
		}
	})
}

func TestRulesOnValkey(t *testing.T) {
	t.Parallel()
	rules(t, redistest.Valkey.Start(t).URL(), 2)
}

// TestClusterFailover kills the master that holds a tree.
func TestClusterFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartCluster(t, 3, 1)
	var lost int
	failover{
		url:      c.URL(),
		settle:   c.AwaitReplicas,
		takeOver: func() error { return c.AwaitFailover(lost) },
		kill: func() (err error) {
			if lost, err = c.Master(redis.DefaultPrefix + "t:{" + failoverRoot + "}:state"); err == nil {
				c.Kill(lost)
			}
			return err
		},
	}.run(t)
}

// TestSentinelFailover kills the master that sentinels watch over.
func TestSentinelFailover(t *testing.T) {
	t.Parallel()
	c := redistest.StartSentinel(t)
	var lost *redistest.Server
	failover{
		url:      c.URL(),
		settle:   c.AwaitReplicas,
		takeOver: func() error { return c.AwaitFailover(lost) },
		kill:     func() (err error) { lost, err = c.KillMaster(); return err },
	}.run(t)
}

const (
	failoverRoot     = "root.1"
	failoverChildren = 5
)

// failover is how to lose a master.
type failover struct {
	url      string
	settle   func() error // replicas have all that was written
	kill     func() error // the master with the tree of failoverRoot is gone
	takeOver func() error // its replica serves
}

// run loses a master under a store that has a tree with calls under way, while
// more are made, and looks at what became of them.
func (f failover) run(t *testing.T) {
	t.Helper()
	s := openURL(t, f.url, redis.Options{})
	told := watch(t, s)
	var granted []sessions.Grant
	for n := 1; n <= 3; n++ {
		granted = append(granted, mustAdmit(t, s, cappedCall(n)))
	}
	if err := f.settle(); err != nil {
		t.Fatal(err)
	}

	if err := f.kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := admit(t, s, cappedCall(1)); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Apply() without the master = %v, want ErrUnavailable", err)
	}
	if err := s.Ping(t.Context()); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Ping() without the master = %v, want ErrUnavailable", err)
	}

	// Many call meanwhile, and go on until they are told something: two find room.
	outcomes := make([]error, 8)
	var callers sync.WaitGroup
	for i := range outcomes {
		callers.Go(func() {
			outcomes[i] = untilServed(t.Context(), func() error {
				op := &sessions.Op{Admit: cappedCall(4 + i)}
				s.Apply(t.Context(), []*sessions.Op{op})
				return op.Err
			})
		})
	}
	if err := f.takeOver(); err != nil {
		t.Fatal(err)
	}
	served := time.Now()
	callers.Wait()
	// Connections of another kind than those of Apply: they are tried once a second.
	if err := untilServed(t.Context(), func() error { return s.Ping(t.Context()) }); err != nil {
		t.Errorf("Ping() after the fail-over = %v", err)
	}
	if took := time.Since(served); took > 5*time.Second {
		t.Errorf("the new master was found after %v", took)
	}
	f.look(t, s, granted, outcomes)
	f.tell(t, granted[0], told)
}

// look checks the record after the calls that were granted before the master
// was lost, and those that were made afterwards.
func (f failover) look(t *testing.T, s *redis.Store, granted []sessions.Grant, outcomes []error) {
	t.Helper()
	want := []string{"main-" + failoverRoot}
	for _, g := range granted {
		want = append(want, g.Session.ID)
	}
	for i, err := range outcomes {
		var refusal *lineage.Refusal
		switch {
		case err == nil:
			want = append(want, cappedCall(4+i).SessionID)
		case !errors.As(err, &refusal) || refusal.Reason != lineage.ChildrenLimit:
			t.Errorf("Apply(call %d) after the fail-over = %v, want a grant or CHILDREN_LIMIT", 4+i, err)
		}
	}
	if len(want) != 1+failoverChildren {
		t.Errorf("%d calls were granted, want %d", len(want)-1, failoverChildren)
	}

	again := mustAdmit(t, s, cappedCall(1))
	if first := granted[0]; !again.Retry || again.RunID != first.RunID || again.Session.ID != first.Session.ID {
		t.Errorf("Apply(call 1 again) = %+v, want the run of %+v", again, first)
	}
	if err := s.Renew(t.Context(), []sessions.RunRef{{Root: failoverRoot, Run: again.RunID, Agent: "worker", Gen: again.Gen}}, time.Minute); err != nil {
		t.Errorf("Renew() after the fail-over = %v", err)
	}

	all, err := sessions.AllSessions(t.Context(), s, failoverRoot)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for i := range all {
		got = append(got, all[i].ID)
		for _, r := range all[i].Runs {
			if r.State != lineage.Active {
				t.Errorf("run %s is %s %s, want active: its lease holds", r.ID, r.State, r.Reason)
			}
		}
	}
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(slices.Values(got))); diff != "" {
		t.Errorf("sessions after the fail-over (-want +got):\n%s", diff)
	}
	for i := range all[1:] {
		key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "worker", ID: all[1+i].ContextID}
		if b, err := s.Find(t.Context(), key); err != nil || b.Root != failoverRoot {
			t.Errorf("Find(%+v) = %+v, %v, want tree %s", key, b, err, failoverRoot)
		}
	}
	events, err := s.Events(t.Context(), failoverRoot, sessions.EventQuery{All: true, Types: []string{lineage.EventSent}})
	if err != nil || len(events.Events) != failoverChildren {
		t.Errorf("%d messages were sent, %v, want %d: none twice", len(events.Events), err, failoverChildren)
	}
}

// tell checks that a watcher hears, over the new master, what another sidecar
// has to say.
func (f failover) tell(t *testing.T, g sessions.Grant, told <-chan sessions.Notice) {
	t.Helper()
	other := openURL(t, f.url, redis.Options{})
	op := &sessions.Op{Change: &sessions.Change{Root: failoverRoot, Session: g.Session.ID, Verb: lineage.VerbCancel}}
	other.Apply(t.Context(), []*sessions.Op{op})
	if op.Err != nil {
		t.Fatalf("Apply(cancel of %s) = %v", g.Session.ID, op.Err)
	}
	awaitCancel(t, told, other, g)
}

// awaitCancel waits until a watcher is told that the run of g is to stop, which
// other says again at each beat: the subscription may be newer than the request.
func awaitCancel(t *testing.T, told <-chan sessions.Notice, other sessions.Store, g sessions.Grant) {
	t.Helper()
	run := sessions.RunRef{Root: g.Session.Tree, Run: g.RunID, Agent: g.Session.Agent, Gen: g.Gen}
	tick, late := time.NewTicker(50*time.Millisecond), time.NewTimer(10*time.Second)
	defer tick.Stop()
	defer late.Stop()
	for {
		select {
		case n := <-told:
			if slices.ContainsFunc(n.Cancels, func(c sessions.Cancel) bool { return c.Run == g.RunID }) {
				return
			}
		case <-tick.C:
			if err := other.Renew(t.Context(), []sessions.RunRef{run}, time.Minute); err != nil {
				t.Errorf("Renew() = %v", err)
			}
		case <-late.C:
			t.Fatal("the watcher is told nothing")
		}
	}
}

// watch returns what s is told until t ends.
func watch(t *testing.T, s sessions.Store) <-chan sessions.Notice {
	t.Helper()
	told := make(chan sessions.Notice, 1000)
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	err := s.Watch(ctx, func(n sessions.Notice) {
		select {
		case told <- n:
		default: // the test has stopped reading
		}
	})
	if err != nil {
		t.Fatalf("Watch() = %v", err)
	}
	return told
}

// cappedCall is the n-th call in the tree that loses its server.
func cappedCall(n int) *sessions.Admission {
	a := call(failoverRoot, n)
	a.Limits.MaxChildren = failoverChildren
	return a
}

// untilServed does fn again until the store serves.
func untilServed(ctx context.Context, fn func() error) error {
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := fn()
		if !errors.Is(err, sessions.ErrUnavailable) {
			return err
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w; last: %w", ctx.Err(), err)
		case <-tick.C:
		}
	}
}
