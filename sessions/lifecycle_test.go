package sessions_test

import (
	"errors"
	"fmt"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// configured lets sessions be spawned for the agents of a world.
func configured(o *sessions.Options) {
	o.Agents = []sessions.Agent{
		{Name: "worker", Kind: lineage.Branch, Inherit: lineage.InheritFull, TTL: lineage.DefaultBranchTTL, Limits: lineage.Limits{MaxChildren: 8, MaxFanOut: 1, MaxConcurrent: 1, QueueTimeout: time.Minute}},
		{Name: "apart", Kind: lineage.Worker, Isolate: true, Inherit: lineage.InheritNone, TTL: time.Minute},
		{Name: "stubborn", Kind: lineage.Branch, ContextIDs: contextid.Agent},
	}
	o.Content.Redact = []*regexp.Regexp{regexp.MustCompile("secret")}
}

func (w *world) spawn(s sessions.Spawn) lineage.Session {
	w.Helper()
	got, _, err := w.record.Spawn(w.Context(), s)
	if err != nil {
		w.Fatalf("Spawn(%+v) = %v, want a session", s, err)
	}
	return got
}

func TestSpawnTakesWhatTheAgentSays(t *testing.T) {
	t.Parallel()
	inWorld(t, configured, func(t *testing.T, w *world) {
		branch := w.spawn(sessions.Spawn{Root: "root", Agent: "worker"})
		worker := w.spawn(sessions.Spawn{Root: "root", Agent: "apart"})
		other := w.spawn(sessions.Spawn{Root: "root", Parent: branch.ID, Agent: "worker", Kind: lineage.Worker, Isolate: new(true)})
		short := w.spawn(sessions.Spawn{Root: "root", Agent: "worker", TTL: time.Second, Inherit: lineage.InheritNone})
		type shape struct {
			Kind              lineage.Kind
			Inherit           lineage.Inherit
			Isolated, Reserve bool
			Depth             int
			TTL               time.Duration
			Source            lineage.ParentSource
		}
		var got []shape
		for _, s := range []lineage.Session{branch, worker, other, short} {
			got = append(got, shape{s.Kind, s.Inherit, s.Isolated, s.Reserved, s.Depth, s.Deadline.Sub(s.CreatedAt), s.ParentSource})
		}
		same(t, "spawned", got, []shape{
			{lineage.Branch, lineage.InheritFull, false, true, 1, lineage.DefaultBranchTTL, lineage.FromAPI},
			{lineage.Worker, lineage.InheritNone, true, true, 1, time.Minute, lineage.FromAPI},
			{lineage.Worker, lineage.InheritNone, true, true, 2, lineage.DefaultWorkerTTL, lineage.FromAPI},
			{lineage.Branch, lineage.InheritNone, false, true, 1, time.Second, lineage.FromAPI},
		})
		if branch.ContextID == "" || other.Parent != branch.ID {
			t.Errorf("context id %q, parent %q, want one, and %q", branch.ContextID, other.Parent, branch.ID)
		}
		time.Sleep(3 * time.Second) // nobody looks, and yet
		synctest.Wait()
		if s, err := w.record.Reader().Session(t.Context(), short.ID); err != nil || s.State != lineage.Expired {
			t.Errorf("after its time: %s, %v, want expired", s.State, err)
		}
	})
}

// The first call that names the session's context runs in it, whatever the
// agent's way with contexts.
func TestSpawnedAheadIsFoundByItsCall(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"worker", "apart"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var agents []sessions.Agent
			inWorld(t, func(o *sessions.Options) { configured(o); agents = o.Agents }, func(t *testing.T, w *world) {
				for i := range agents {
					if agents[i].Name == name {
						w.agent = &agents[i]
					}
				}
				s := w.spawn(sessions.Spawn{Root: "root", Agent: name, TTL: 2 * time.Hour})
				time.Sleep(time.Hour)
				run := w.begin(message{root: "root", context: s.ContextID})
				if got := run.Lineage().Session; got != s.ID {
					t.Errorf("the call runs in session %s, want %s", got, s.ID)
				}
				if got := contextOf(run); got != s.ContextID {
					t.Errorf("the call goes out with context %s, want %s", got, s.ContextID)
				}
				if got := time.Until(*w.session(run).Deadline); got != 2*time.Hour {
					t.Errorf("the call has %v, want the session's own time anew", got)
				}
				w.complete(run)
				if got := w.session(run); got.Reserved || got.State.Terminal() != s.Isolated {
					t.Errorf("afterwards: reserved %v, %s; isolated %v", got.Reserved, got.State, s.Isolated)
				}
				again := w.begin(message{root: "root", context: s.ContextID})
				if same := again.Lineage().Session == s.ID; same == s.Isolated {
					t.Errorf("the next call runs in the same session: %v; isolated %v", same, s.Isolated)
				}
				w.complete(again)
			})
		})
	}
}

func TestSpawnIsIdempotent(t *testing.T) {
	t.Parallel()
	inWorld(t, configured, func(t *testing.T, w *world) {
		var mu sync.Mutex
		ids, made := map[string]int{}, 0
		var wg sync.WaitGroup
		for range 20 {
			wg.Go(func() {
				s, isNew, err := w.record.Spawn(t.Context(), sessions.Spawn{Root: "root", Agent: "worker", RequestID: "once"})
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					t.Errorf("Spawn() = %v", err)
				}
				ids[s.ID]++
				if isNew {
					made++
				}
			})
		}
		wg.Wait()
		if len(ids) != 1 || made != 1 {
			t.Errorf("%d sessions, %d made, want 1", len(ids), made)
		}
		for name, other := range map[string]sessions.Spawn{
			"another agent":  {Agent: "apart"},
			"another kind":   {Agent: "worker", Kind: lineage.Worker},
			"another parent": {Agent: "worker", Parent: "somebody"},
		} {
			other.Root, other.RequestID = "root", "once"
			if _, _, err := w.record.Spawn(t.Context(), other); !errors.Is(err, sessions.ErrRequestReused) && !errors.Is(err, sessions.ErrNotFound) {
				t.Errorf("%s under the same id: %v, want it refused", name, err)
			}
		}
	})
}

func TestSpawnsAreCapped(t *testing.T) {
	t.Parallel()
	inWorld(t, configured, func(t *testing.T, w *world) {
		var first lineage.Session
		for i := range 8 { // more than the caps of runs allow: none is open
			s := w.spawn(sessions.Spawn{Root: "root", Agent: "worker", RequestID: fmt.Sprint(i)})
			if i == 0 {
				first = s
			}
		}
		_, _, err := w.record.Spawn(t.Context(), sessions.Spawn{Root: "root", Agent: "worker"})
		if r, ok := errors.AsType[*lineage.Refusal](err); !ok || r.Reason != lineage.ChildrenLimit || r.Count != 8 {
			t.Errorf("the ninth: %v, want CHILDREN_LIMIT at once", err)
		}
		if got := len(w.events("root", lineage.EventRefused)); got != 1 {
			t.Errorf("%d run.refused events, want 1", got)
		}
		if _, err := w.record.Step(t.Context(), sessions.Step{Session: first.ID, Verb: lineage.VerbComplete}); err != nil {
			t.Fatal(err)
		}
		w.spawn(sessions.Spawn{Root: "root", Agent: "worker"})
	})
}

func TestSpawnThatCannotBe(t *testing.T) {
	t.Parallel()
	inWorld(t, configured, func(t *testing.T, w *world) {
		for name, tc := range map[string]struct {
			spawn sessions.Spawn
			want  error
		}{
			"unknown agent":        {sessions.Spawn{Root: "root", Agent: "nobody"}, sessions.ErrUnknownAgent},
			"agent names contexts": {sessions.Spawn{Root: "root", Agent: "stubborn"}, sessions.ErrAgentNames},
			"unknown parent":       {sessions.Spawn{Root: "root", Agent: "worker", Parent: "nobody"}, sessions.ErrNotFound},
		} {
			if _, _, err := w.record.Spawn(t.Context(), tc.spawn); !errors.Is(err, tc.want) {
				t.Errorf("%s: Spawn() = %v, want %v", name, err, tc.want)
			}
		}
		if _, err := w.record.Reader().Tree(t.Context(), "root"); !errors.Is(err, sessions.ErrNotFound) {
			t.Errorf("Tree() = %v, want none made", err)
		}
		w.store.set(true)
		if _, _, err := w.record.Spawn(t.Context(), sessions.Spawn{Root: "root", Agent: "worker"}); !errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("Spawn() without a store = %v, want ErrUnavailable", err)
		}
		w.store.set(false)
		time.Sleep(time.Second)
	})
}

func TestSummaryIsTheChildsFirstEvent(t *testing.T) {
	t.Parallel()
	inWorld(t, configured, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.complete(run)
		s := w.spawn(sessions.Spawn{Root: "root", Agent: "worker", Summary: "we look for a secret"})
		page, err := w.record.Reader().Events(t.Context(), "root", sessions.EventQuery{Read: s.Read})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "what the child may read", types(page.Events), []string{lineage.EventSpawned, lineage.EventSpawned, lineage.EventSummary})
		if got := payload(t, page.Events[2])["text"]; got != "we look for a [redacted]" {
			t.Errorf("summary = %q, want it redacted", got)
		}
	})
}

func TestStepLeavesAResult(t *testing.T) {
	t.Parallel()
	inWorld(t, configured, func(t *testing.T, w *world) {
		s := w.spawn(sessions.Spawn{Root: "root", Agent: "worker"})
		got, err := w.record.Step(t.Context(), sessions.Step{Session: s.ID, Verb: lineage.VerbComplete, Result: &lineage.Result{
			Summary: "found the secret", MemoryIDs: []string{"m-secret"}, Artifacts: []lineage.Artifact{{ID: "secret", Name: "a secret", Bytes: 3}},
		}})
		if err != nil {
			t.Fatal(err)
		}
		same(t, "result", got.Result, &lineage.Result{
			Status: lineage.Completed, Summary: "found the [redacted]", MemoryIDs: []string{"m-[redacted]"},
			Artifacts: []lineage.Artifact{{ID: "[redacted]", Name: "a [redacted]", Bytes: 3}},
		})
		told := w.events("root", lineage.EventResult)
		if len(told) != 1 || told[0].Session != s.Parent || payload(t, told[0])["session"] != s.ID {
			t.Errorf("told to the parent: %+v, want one event", told)
		}
		_, err = w.record.Step(t.Context(), sessions.Step{Session: s.ID, Verb: lineage.VerbCancel})
		if c, ok := errors.AsType[*lineage.Conflict](err); !ok || c.State != lineage.Completed {
			t.Errorf("Step(cancel) of a completed session = %v, want a conflict", err)
		}
		if _, err = w.record.Step(t.Context(), sessions.Step{Session: "nobody", Verb: lineage.VerbCancel}); !errors.Is(err, sessions.ErrNotFound) {
			t.Errorf("Step(cancel) of nobody = %v, want ErrNotFound", err)
		}
	})
}

// Who waits for a place hears of one that a step gives back.
func TestStepWakesTheQueue(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		w.agent.Limits.MaxChildren = 1
		first := w.begin(message{root: "root"})
		next := w.start(t.Context(), message{root: "root"})
		synctest.Wait()
		began := time.Now()
		w.step(first, lineage.VerbFail)
		b := <-next
		if b.err != nil || time.Since(began) > 10*time.Millisecond {
			t.Errorf("the next call: %v after %v, want the place at once", b.err, time.Since(began))
		}
		w.complete(b.run)
		w.end(first, sessions.CallerGone)
	})
}

// Nobody tells of a place that a session gave back because its time was over.
func TestPlaceOfAnExpiredSessionIsFound(t *testing.T) {
	t.Parallel()
	inWorld(t, func(o *sessions.Options) { configured(o); o.Alone = true }, func(t *testing.T, w *world) {
		w.isolating()
		w.agent.Limits.MaxChildren = 1
		w.spawn(sessions.Spawn{Root: "root", Agent: "worker", TTL: 10 * time.Millisecond})
		began := time.Now()
		b := <-w.start(t.Context(), message{root: "root"})
		if took := time.Since(began); b.err != nil || took > sessions.DefaultSettle+10*time.Millisecond {
			t.Fatalf("the call: %v after %v, want the place once the session is settled", b.err, took)
		}
		w.complete(b.run)
	})
}

// What is damaged in a store keeps nobody from what is not.
func TestDamageKeepsNoSidecarFromStarting(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.store.mu.Lock()
		w.store.damaged = errFaulty
		w.store.mu.Unlock()
		next := newWorld(t, w.store, nil)
		next.complete(next.begin(message{root: "root"}))
	})
}
