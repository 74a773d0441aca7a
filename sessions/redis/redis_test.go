package redis_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// admit applies a and returns its outcome.
func admit(tb testing.TB, s sessions.Store, a *sessions.Admission) (sessions.Grant, error) {
	tb.Helper()
	op := &sessions.Op{Admit: a}
	s.Apply(tb.Context(), []*sessions.Op{op})
	return op.Grant, op.Err
}

func mustAdmit(tb testing.TB, s sessions.Store, a *sessions.Admission) sessions.Grant {
	tb.Helper()
	g, err := admit(tb, s, a)
	if err != nil {
		tb.Fatalf("Apply(admission of session %s in tree %q) = %v, want a grant", a.SessionID, a.Root, err)
	}
	return g
}

func tell(tb testing.TB, s sessions.Store, p *sessions.Progress) {
	tb.Helper()
	op := &sessions.Op{Progress: p}
	s.Apply(tb.Context(), []*sessions.Op{op})
	if op.Err != nil {
		tb.Fatalf("Apply(progress of run %s) = %v", p.Run, op.Err)
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		opts redis.Options
		says string
	}{
		{"a URL that is none", redis.Options{URL: "http://u:hunter2@host"}, "scheme"},
		{"a prefix with braces", redis.Options{URL: "redis://127.0.0.1", Prefix: "{a}"}, "braces"},
		{"a negative time", redis.Options{URL: "redis://127.0.0.1", Retain: -1}, "negative"},
		{"an old server", redis.Options{URL: "redis://" + oldServer(t)}, "6.2.14"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			_, err := redis.Open(t.Context(), tt.opts)
			if err == nil || !strings.Contains(err.Error(), tt.says) || strings.Contains(err.Error(), "hunter2") {
				t.Errorf("Open(%+v) = %v, want an error with %q and without the password", tt.opts, err, tt.says)
			}
			if errors.Is(err, sessions.ErrUnavailable) {
				t.Errorf("Open(%+v) = %v, want no ErrUnavailable: trying again does not help", tt.opts, err)
			}
		})
	}
}

// oldServer answers INFO as Redis 6 does, and knows no other command.
func oldServer(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return // closed
			}
			go func() {
				defer func() { _ = c.Close() }()
				lines := bufio.NewScanner(c)
				for lines.Scan() {
					if !strings.HasPrefix(lines.Text(), "*") {
						continue
					}
					answer := "-ERR unknown command\r\n"
					lines.Scan()
					if lines.Scan(); strings.EqualFold(lines.Text(), "info") {
						const info = "# Server\r\nredis_version:6.2.14\r\n"
						answer = fmt.Sprintf("$%d\r\n%s\r\n", len(info), info)
					}
					if _, err := io.WriteString(c, answer); err != nil {
						return
					}
				}
			}()
		}
	}()
	return l.Addr().String()
}

func TestSilentServer(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0") // takes connections and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	_, err = redis.Open(t.Context(), redis.Options{URL: "redis://" + l.Addr().String(), Timeout: 50 * time.Millisecond})
	if !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Open(a silent server) = %v, want ErrUnavailable", err)
	}
}

// TestKeys holds keys.go to what is in the server after one call of an unknown
// caller at a capped agent, its task, and everything else that writes a key.
func TestKeys(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, rdb := open(t, srv, redis.Options{Retain: time.Hour}), srv.Client(t)

	a := call("root.1", 1)
	a.Caller.ContextID, a.Limits.MaxConcurrent = "far away", 3
	mustAdmit(t, s, a)
	tell(t, s, &sessions.Progress{Root: a.Root, Session: a.SessionID, Run: a.RunID, Agent: a.Agent, TaskID: "task-1", State: "suspended"})
	full := call("root.1", 3)
	full.Limits = lineage.Limits{MaxConcurrent: 1, QueueTimeout: time.Minute}
	place := call("root.1", 4)
	place.Limits.MaxConcurrent = 1
	mustAdmit(t, s, place)
	if _, err := admit(t, s, full); err == nil {
		t.Fatal("Apply(second call of 1) = nil, want a refusal")
	}
	mustAdmit(t, s, call("{a}\x00ß", 2))
	if _, err := s.Secret(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := s.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}

	keys, err := rdb.Keys(t.Context(), "*").Result()
	if err != nil {
		t.Fatal(err)
	}
	const abroad = 75 * time.Minute
	lives := map[string]time.Duration{"a2a:secret": 0, "a2a:ping": time.Minute, "a2a:a:{worker}:runs": time.Hour, "a2a:a:{worker}:wanted": 2 * time.Minute}
	var got []string
	for _, key := range keys {
		typ, err := rdb.Type(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, key+" "+typ)
		want, ok := lives[key]
		switch {
		case strings.HasPrefix(key, "a2a:t:"):
			want = time.Hour
		case !ok:
			want = abroad
		}
		ttl, err := rdb.PTTL(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		if want == 0 && ttl != -1 || want > 0 && (ttl > want || ttl < want-30*time.Second) {
			t.Errorf("PTTL %s = %v, want %v", key, ttl, want)
		}
	}
	slices.Sort(got)
	want := []string{
		"a2a:a:{worker}:runs zset",
		"a2a:a:{worker}:wanted string",
		"a2a:b:context:coordinator/x:HASH string", // far away
		"a2a:b:context:coordinator/x:HASH string", // {a}…
		"a2a:b:context:root/root.1 string",
		"a2a:b:context:worker/context-root.1-1 string",
		"a2a:b:context:worker/context-root.1-4 string",
		"a2a:b:context:worker/x:HASH string",
		"a2a:b:task:worker/task-1 string",
		"a2a:due zset",
		"a2a:ping string",
		"a2a:secret string",
		"a2a:sid:main-root.1 string",
		"a2a:sid:remote-root.11 string",
		"a2a:sid:session-root.1-1 string",
		"a2a:sid:session-root.1-4 string",
		"a2a:sid:x:HASH string", // main
		"a2a:sid:x:HASH string",
		"a2a:t:{root.1}:log stream",
		"a2a:t:{root.1}:order zset",
		"a2a:t:{root.1}:state hash",
		"a2a:t:{x:HASH}:log stream",
		"a2a:t:{x:HASH}:order zset",
		"a2a:t:{x:HASH}:state hash",
		"a2a:trees zset",
	}
	for i, key := range got {
		if at := strings.Index(key, "x:"); at >= 0 && len(key) >= at+66 {
			got[i] = key[:at] + "x:HASH" + key[at+66:]
		}
	}
	slices.Sort(got)
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("keys (-want +got):\n%s", d)
	}
}

// TestRefusedLeavesNoKey: what an admission sets before it is known whether it
// may is taken back.
func TestRefusedLeavesNoKey(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, rdb := open(t, srv, redis.Options{}), srv.Client(t)
	mustAdmit(t, s, call("r", 1))
	before, err := rdb.DBSize(t.Context()).Result()
	if err != nil {
		t.Fatal(err)
	}
	a := call("r", 2)
	a.TaskID, a.Limits = "task", lineage.Limits{MaxChildren: 1, MaxConcurrent: 9}
	if _, err := admit(t, s, a); err == nil {
		t.Fatal("Apply(a second child of 1) = nil, want a refusal")
	}
	if after, err := rdb.DBSize(t.Context()).Result(); err != nil || after != before {
		t.Errorf("keys after a refusal = %d, %v, want %d", after, err, before)
	}
}

// TestRace: 64 calls at once over two stores find 8 places.
func TestRace(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	stores := []*redis.Store{open(t, srv, redis.Options{}), open(t, srv, redis.Options{})}
	ops := make([]*sessions.Op, 64)
	var done sync.WaitGroup
	for i := range ops {
		a := call("r", i)
		a.Limits.MaxChildren = 8
		ops[i] = &sessions.Op{Admit: a}
		done.Go(func() { stores[i%2].Apply(t.Context(), ops[i:i+1]) })
	}
	done.Wait()
	granted := 0
	for _, op := range ops {
		var over *lineage.Refusal
		switch {
		case op.Err == nil:
			granted++
		case !errors.As(op.Err, &over) || over.Reason != lineage.ChildrenLimit || over.Count != 8:
			t.Errorf("Apply() = %v, want a refusal of 8 of 8 children", op.Err)
		}
	}
	if granted != 8 {
		t.Errorf("granted = %d of 64, want 8", granted)
	}
}

// TestScriptsLost: a server forgets its scripts when it restarts or fails
// over, in the middle of anything.
func TestScriptsLost(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s, rdb := open(t, srv, redis.Options{}), srv.Client(t)
	for n := range 5 {
		if err := rdb.FunctionFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		a, b := call("r", 2*n), call("r", 2*n+1)
		a.Limits.MaxConcurrent = 1
		ops := []*sessions.Op{{Admit: a}, {Progress: end(a)}, {Admit: b}, {Progress: end(b)}}
		s.Apply(t.Context(), ops)
		for i, op := range ops {
			if op.Err != nil {
				t.Fatalf("op %d after FUNCTION FLUSH: %v", i, op.Err)
			}
		}
	}
	all, err := sessions.AllSessions(t.Context(), s, "r")
	if err != nil || len(all) != 11 {
		t.Errorf("Sessions(r) = %d sessions, %v, want 11", len(all), err)
	}
}

func TestOutage(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--appendonly", "yes", "--appendfsync", "always")
	s := open(t, srv, redis.Options{})
	mustAdmit(t, s, call("r", 1))
	srv.Stop()

	began := time.Now()
	a := call("r", 2)
	a.Limits.MaxConcurrent = 5
	ops := []*sessions.Op{{Admit: call("r", 2)}, {Progress: end(call("r", 1))}, {Admit: a}}
	s.Apply(t.Context(), ops)
	for i, op := range ops {
		if !errors.Is(op.Err, sessions.ErrUnavailable) {
			t.Errorf("op %d without a server: %v, want ErrUnavailable", i, op.Err)
		}
	}
	check := func(what string, err error) {
		t.Helper()
		if !errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("%s without a server = %v, want ErrUnavailable", what, err)
		}
	}
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "worker", ID: "c"}
	check("Ping", s.Ping(t.Context()))
	_, err := s.Find(t.Context(), key)
	check("Find", err)
	_, err = s.Claim(t.Context(), key, sessions.Binding{Root: "r"})
	check("Claim", err)
	check("Unclaim", s.Unclaim(t.Context(), key, sessions.Binding{Root: "r"}))
	check("Renew", s.Renew(t.Context(), []sessions.RunRef{{Root: "r", Run: "x"}}, time.Second))
	_, err = s.Secret(t.Context())
	check("Secret", err)
	_, err = s.Trees(t.Context(), sessions.TreeQuery{})
	check("Trees", err)
	_, err = s.Tree(t.Context(), "r")
	check("Tree", err)
	_, err = s.Sessions(t.Context(), "r", sessions.SessionQuery{})
	check("Sessions", err)
	_, err = s.Session(t.Context(), "x")
	check("Session", err)
	_, err = s.Events(t.Context(), "r", sessions.EventQuery{All: true})
	check("Events", err)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("finding out that there is no server took %v", took)
	}

	srv.Restart(t)
	mustAdmit(t, s, call("r", 2))
	tell(t, s, end(call("r", 1)))
	if tree, err := s.Tree(t.Context(), "r"); err != nil || tree.Sessions != 3 || tree.Live != 1 {
		t.Errorf("Tree(r) after the restart = %+v, %v, want 3 sessions, 1 live", tree, err)
	}
}

// TestAnyBytes: ids are whatever callers send.
func TestAnyBytes(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	s := open(t, srv, redis.Options{})
	roots := []string{
		"", "{}", "{a}b", "a}{b", "nul\x00inside", "ü€😀", "x:abc", "sp ace\r\n", strings.Repeat("long", 100), "a*b?[c]", "\xff\xfe",
	}
	for n, root := range roots {
		a := call(root, n)
		a.Agent = "agent"
		a.TaskID = "task" + root
		g := mustAdmit(t, s, a)
		if g.Session.Tree != root || g.ParentContextID != root || g.Session.ContextID != a.ContextID {
			t.Errorf("Apply(tree %q) = %+v, want its bytes unchanged", root, g)
		}
		got, err := s.Session(t.Context(), a.SessionID)
		if err != nil || got.ContextID != a.ContextID || got.Tree != root || got.Runs[0].TaskID != a.TaskID {
			t.Errorf("Session(%q) = %+v, %v, want that of tree %q", a.SessionID, got, err, root)
		}
		for _, key := range []sessions.BindingKey{
			{Kind: sessions.BindContext, Agent: "agent", ID: a.ContextID}, {Kind: sessions.BindTask, Agent: "agent", ID: a.TaskID},
		} {
			if b, err := s.Find(t.Context(), key); err != nil || b.Root != root {
				t.Errorf("Find(%q) = %q, %v, want tree %q", key, b, err, root)
			}
		}
		if page, err := s.Events(t.Context(), root, sessions.EventQuery{All: true}); err != nil || len(page.Events) != 3 {
			t.Errorf("Events(%q) = %d events, %v, want 3", root, len(page.Events), err)
		}
	}
	page, err := s.Trees(t.Context(), sessions.TreeQuery{})
	if err != nil || len(page.Trees) != len(roots) {
		t.Fatalf("Trees() = %d, %v, want %d", len(page.Trees), err, len(roots))
	}
	for i, tree := range page.Trees {
		if want := roots[len(roots)-1-i]; tree.Root != want {
			t.Errorf("Trees()[%d] = %q, want %q", i, tree.Root, want)
		}
	}
}

// TestCluster: against a cluster node every script that touched two slots
// would be refused.
func TestCluster(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t, "--cluster-enabled", "yes")
	rdb := srv.Client(t)
	if err := rdb.ClusterAddSlotsRange(t.Context(), 0, 16383).Err(); err != nil {
		t.Fatal(err)
	}
	up := func() bool {
		info, err := rdb.ClusterInfo(t.Context()).Result()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Contains(info, "cluster_state:ok")
	}
	for deadline := time.Now().Add(10 * time.Second); !up(); {
		if time.Now().After(deadline) {
			t.Fatal("the cluster does not come up")
		}
	}
	s := open(t, srv, redis.Options{})
	a, b := call("r", 1), call("r", 2)
	a.Limits.MaxConcurrent, b.Limits.MaxConcurrent = 1, 1
	g := mustAdmit(t, s, a)
	if _, err := admit(t, s, b); err == nil {
		t.Error("Apply(second call of 1) = nil, want a refusal")
	}
	run := sessions.RunRef{Root: "r", Run: g.RunID, Agent: "worker", Gen: g.Gen}
	if err := s.Renew(t.Context(), []sessions.RunRef{run, {Root: "other", Run: "x"}}, time.Minute); err != nil {
		t.Errorf("Renew() = %v", err)
	}
	tell(t, s, end(a))
	b.Limits.QueueTimeout = time.Minute
	mustAdmit(t, s, b)
	apply(t, s, cancel(b))
	if _, err := s.Settle(t.Context()); err != nil {
		t.Errorf("Settle() = %v", err)
	}
	if _, err := s.Sweep(t.Context()); err != nil {
		t.Errorf("Sweep() = %v", err)
	}
	if got, err := s.Session(t.Context(), b.SessionID); err != nil || got.Ending != lineage.ReasonCanceled {
		t.Errorf("Session() = %+v, %v, want it to be canceled", got, err)
	}
	if page, err := s.Trees(t.Context(), sessions.TreeQuery{}); err != nil || len(page.Trees) != 1 {
		t.Errorf("Trees() = %+v, %v, want one", page, err)
	}
}
