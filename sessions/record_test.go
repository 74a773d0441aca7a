package sessions_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// beginning is a call that has been made and may have to wait.
type beginning struct {
	run   *sessions.Run
	err   error
	after time.Duration
}

// start makes a call and goes on when it has its outcome or waits for it.
func (w *world) start(ctx context.Context, m message) <-chan beginning {
	w.Helper()
	c, call, began := make(chan beginning, 1), w.call(m), time.Now()
	go func() {
		run, err := w.record.Begin(ctx, call)
		c <- beginning{run, err, time.Since(began)}
	}()
	synctest.Wait()
	return c
}

func TestCallWaitsForAPlace(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		w.agent.Limits.MaxChildren = 1
		first := w.begin(message{root: "root"})
		second, third := w.start(t.Context(), message{root: "root"}), w.start(t.Context(), message{root: "root"})
		if got := w.record.Waiting(); got != 2 {
			t.Errorf("Waiting() = %d, want 2", got)
		}
		queued := w.events("root", lineage.EventQueued)
		if len(queued) != 2 {
			t.Fatalf("run.queued events = %v, want 2", queued)
		}
		same(t, "run.queued", payload(t, queued[0]), map[string]any{
			"agent": "worker", "messageId": "m2", "reason": "CHILDREN_LIMIT", "limit": "maxChildren", "value": 1.0, "count": 1.0,
		})
		time.Sleep(10 * time.Second)
		w.complete(first)
		b := <-second
		if b.err != nil || b.after != 10*time.Second {
			t.Fatalf("the second got %v after %v, want its place after 10s", b.err, b.after)
		}
		w.hooks.mu.Lock()
		same(t, "told of the wait", w.hooks.queued, []time.Duration{10 * time.Second})
		w.hooks.mu.Unlock()

		b = <-third
		var r *lineage.Refusal
		if !errors.As(b.err, &r) || r.Reason != lineage.ChildrenLimit || b.after != time.Minute {
			t.Errorf("the third got %v after %v, want CHILDREN_LIMIT after 1m", b.err, b.after)
		}
		refused := w.events("root", lineage.EventRefused)
		if len(refused) != 1 || refused[0].Session != w.tree("root")[0].ID || payload(t, refused[0])["messageId"] != "m3" {
			t.Errorf("run.refused = %v, want one, of the third, with the parent", refused)
		}
	})
}

// Of many calls at once never more than the cap are under way, all are
// carried in the end, and no place is given twice.
func TestFanOutIsHeld(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		const most, n = 3, 60
		w.agent.Limits.MaxChildren, w.agent.Limits.QueueTimeout = most, time.Hour
		var all []<-chan beginning
		for range n {
			all = append(all, w.start(t.Context(), message{root: "root"}))
		}
		for i, c := range all {
			b := <-c
			if b.err != nil {
				t.Fatalf("call %d = %v, want a place", i, b.err)
			}
			tree, err := w.store.Tree(t.Context(), "root")
			if err != nil || tree.Live > most {
				t.Fatalf("%d sessions live (%v), want at most %d", tree.Live, err, most)
			}
			w.say(b.run, strings.ReplaceAll(task(completed), "t1", b.run.Lineage().Session))
			w.end(b.run, sessions.Answered)
		}
		if tree, err := w.store.Tree(t.Context(), "root"); err != nil || tree.Live != 0 || tree.Sessions != n+1 {
			t.Errorf("tree = %+v, %v, want %d sessions and none live", tree, err, n+1)
		}
	})
}

func TestCallerWhoLeavesTheQueueLeavesNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.agent.Limits.MaxFanOut = 1
		first := w.begin(message{root: "root"})
		ctx, leave := context.WithCancel(t.Context())
		gone := w.start(ctx, message{root: "root", context: "wanted"})
		leave()
		if b := <-gone; !errors.Is(b.err, context.Canceled) {
			t.Errorf("Begin() = %v, want context.Canceled", b.err)
		}
		synctest.Wait()
		if got := w.record.Waiting(); got != 0 {
			t.Errorf("Waiting() = %d, want 0", got)
		}
		w.complete(first)
		w.sent("another tree's use of its context", w.begin(message{root: "other", context: "wanted"}), "wanted", false)
		if n := len(w.tree("root")); n != 2 {
			t.Errorf("%d sessions, want 2", n)
		}
	})
}

// hang lets the store hang until the returned func is called.
func (w *world) hang() (release func()) {
	hung := make(chan struct{})
	w.store.mu.Lock()
	w.store.hung = hung
	w.store.mu.Unlock()
	return func() {
		w.store.mu.Lock()
		w.store.hung = nil
		w.store.mu.Unlock()
		close(hung)
	}
}

func TestGrantThatComesTooLateIsGivenBack(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		w.agent.Limits.MaxChildren, w.agent.Limits.QueueTimeout = 1, 0
		release := w.hang()
		ctx, leave := context.WithCancel(t.Context())
		gone := w.start(ctx, message{root: "root"})
		leave()
		<-gone
		release()
		synctest.Wait()
		if s := w.tree("root")[1]; s.State != lineage.Failed || s.Reason != lineage.ReasonLost {
			t.Errorf("session is %s %q, want failed lost", s.State, s.Reason)
		}
		if got := w.record.Open(); got != 0 {
			t.Errorf("Open() = %d, want 0", got)
		}
		w.begin(message{root: "root"}) // the place is free
	})
}

func TestTaskWaitsOnWhenItsGrantComesTooLate(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		first := w.begin(message{root: "root"})
		w.say(first, task(asks))
		w.end(first, sessions.Answered)
		release := w.hang()
		ctx, leave := context.WithCancel(t.Context())
		gone := w.start(ctx, message{root: "root", task: "t1"})
		leave()
		<-gone
		release()
		w.stands(first, lineage.Suspended, lineage.Suspended, "")
	})
}

func TestStoreDownRefuses(t *testing.T) {
	t.Parallel()
	inWorld(t, func(o *sessions.Options) { o.OnStoreDown = sessions.StoreDownRefuse }, func(t *testing.T, w *world) {
		w.store.set(true)
		w.refused(message{root: "root"}, lineage.StoreUnavailable)
		if err := w.record.Unavailable(); !errors.Is(err, sessions.ErrUnavailable) {
			t.Errorf("Unavailable() = %v, want ErrUnavailable", err)
		}
		w.refused(message{context: "named"}, lineage.StoreUnavailable)
		w.refused(message{root: "root", context: "named"}, lineage.StoreUnavailable)
		w.store.set(false)
		time.Sleep(time.Second)
		if err := w.record.Unavailable(); err != nil {
			t.Errorf("Unavailable() = %v, want nil", err)
		}
		w.begin(message{root: "root"})
		if n := len(w.tree("root")); n != 2 {
			t.Errorf("%d sessions, want 2: none of the refused calls'", n)
		}
	})
}

func TestStoreDownGoesOnWhereItWouldHave(t *testing.T) {
	t.Parallel()
	isolated := &sessions.Agent{Name: "isolated", Isolate: true, ContextIDs: contextid.Sidecar}
	bound := &sessions.Agent{Name: "bound", ContextIDs: contextid.Agent}
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.complete(w.begin(message{root: "anns", principal: "ann", context: "hers"}))
		stable := contextOf(w.begin(message{root: "root"}))
		caller := &sessions.Agent{Name: self, Kind: lineage.Branch, ContextIDs: contextid.Sidecar}
		w.complete(w.begin(message{agent: caller, root: "root", context: "own"}))
		w.store.set(true)

		for _, seen := range []string{"at once", "found down"} {
			for what, tc := range map[string]struct {
				m     message
				id    string // "fresh": any new one
				edit  bool
				root  string
				other bool // another than the one named, not known which
			}{
				"stable":                  {message{root: "root"}, stable, true, "root", false},
				"by the sender's session": {message{sender: "root"}, stable, true, "root", false},
				"by a known parent":       {message{parent: "own"}, stable, true, "root", false},
				"kept":                    {message{root: "root", context: "new"}, "new", false, "root", false},
				"kept in its known tree":  {message{principal: "ann", context: "hers"}, "hers", false, "anns", false},
				"task":                    {message{root: "root", task: "t", context: "c"}, "c", false, "root", false},
				"another user's context":  {message{principal: "bob", context: "hers"}, "", true, "", true},
				"another tree's context":  {message{principal: "ann", root: "root9", context: "hers"}, "", true, "root9", true},
				"isolated":                {message{agent: isolated, root: "root", context: "new"}, "", true, "root", true},
				"the agent's to make":     {message{agent: bound, root: "root"}, "", true, "root", false},
				"nothing known":           {message{}, "", true, "", false},
				"unknown parent":          {message{parent: "p", context: "new"}, "new", false, "p", false},
				"and another's context":   {message{parent: "p", context: "hers"}, "", true, "p", true},
				"sender, unknown context": {message{sender: "s", context: "new"}, "new", false, "s", false},
				"unknown task alone":      {message{task: "t9"}, "", false, "", false},
			} {
				run := w.begin(tc.m)
				if run.Recorded() {
					t.Errorf("%s, %s: the call is recorded with the store down", what, seen)
				}
				id, edit := run.ContextID()
				if edit != tc.edit || !tc.other && id != tc.id || tc.other && (id == "" || id == tc.m.context) {
					t.Errorf("%s, %s: ContextID() = %q, %v, want %q, %v (another: %v)", what, seen, id, edit, tc.id, tc.edit, tc.other)
				}
				if got := run.Lineage().Root; got == "" || tc.root != "" && got != tc.root {
					t.Errorf("%s, %s: root = %q, want %q", what, seen, got, tc.root)
				}
				run.Flush() // none of these may trip over the missing record
				w.say(run, task(completed))
				w.end(run, sessions.Answered)
			}
		}
		w.hooks.mu.Lock()
		if want := 2 * 15; w.hooks.unrecorded != want {
			t.Errorf("told of %d unrecorded calls, want %d", w.hooks.unrecorded, want)
		}
		w.hooks.mu.Unlock()
	})
}

// What a call under way has to tell is kept until the store is back.
func TestOutageLosesNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		run := w.begin(message{root: "root"})
		w.store.set(true)
		w.say(run, task(working), `{"artifactUpdate":{"taskId":"t1","lastChunk":true,"artifact":{"artifactId":"a","parts":[{"text":"x"}]}}}`, task(completed))
		w.end(run, sessions.Answered)
		time.Sleep(10 * time.Second)
		w.store.set(false)
		time.Sleep(time.Second)
		w.stands(run, lineage.Completed, lineage.Completed, "")
		same(t, "events", types(w.events("root")), []string{
			lineage.EventSpawned, lineage.EventSpawned, lineage.EventSent,
			lineage.EventStatus, lineage.EventArtifact, lineage.EventStatus, lineage.EventCompleted, lineage.EventResult,
		})
	})
}

func TestLongOutageIsCounted(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.store.set(true)
		w.say(run, task(completed))
		w.end(run, sessions.Answered)
		time.Sleep(time.Minute)
		w.hooks.mu.Lock()
		defer w.hooks.mu.Unlock()
		if w.hooks.dropped != 1 || !strings.Contains(w.logs.String(), "record incomplete") {
			t.Errorf("told of %d dropped, want 1, and a line in the log:\n%s", w.hooks.dropped, w.logs)
		}
	})
}

// A store that is slow to say so must not hold up a call for longer than one timeout.
func TestHungStoreHoldsNobodyUp(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		release := w.hang()
		for i, want := range []time.Duration{sessions.DefaultTimeout, 0} {
			began := time.Now()
			if run := w.begin(message{root: "root"}); run.Recorded() {
				t.Errorf("call %d is recorded", i)
			}
			if took := time.Since(began); took != want {
				t.Errorf("call %d took %v, want %v", i, took, want)
			}
		}
		release()
	})
}

// A store that hangs in a look-up is known to be down from then on, too.
func TestStoreThatHangsInALookUp(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		release := w.hang()
		for i, want := range []time.Duration{sessions.DefaultTimeout, 0, 0} {
			began := time.Now()
			w.begin(message{context: fmt.Sprint("named-", i)})
			if took := time.Since(began); took != want {
				t.Errorf("call %d took %v, want %v", i, took, want)
			}
			if w.record.Unavailable() == nil {
				t.Errorf("after call %d the store counts as available", i)
			}
		}
		release()
		time.Sleep(time.Second)
		synctest.Wait()
		if err := w.record.Unavailable(); err != nil {
			t.Errorf("a store that answers again counts as unavailable: %v", err)
		}
	})
}

func TestKnownTasksAreNotLookedUpAgain(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root", context: "mine"})
		w.say(run, task(asks))
		w.end(run, sessions.Answered)
		w.begin(message{root: "root", context: "mine", task: "t1"}) // whose the task is the store says, once
		w.store.mu.Lock()
		w.store.finds = 0
		w.store.mu.Unlock()
		w.begin(message{root: "root", context: "mine", task: "t1"})
		w.begin(message{root: "root", context: "mine"})
		if _, err := w.record.Follow(t.Context(), w.agent, "", "", "t1"); err != nil {
			t.Errorf("Follow() = %v", err)
		}
		w.store.mu.Lock()
		defer w.store.mu.Unlock()
		if w.store.finds != 0 {
			t.Errorf("the store was asked %d times for what is known, want none", w.store.finds)
		}
	})
}

// noSecret is a store whose key cannot be read.
type noSecret struct{ *storetest.Model }

func (noSecret) Secret(context.Context) ([]byte, error) { return nil, errDown }

func TestNewNeedsTheSecret(t *testing.T) {
	t.Parallel()
	_, err := sessions.New(t.Context(), sessions.Options{
		Store: noSecret{storetest.NewModel(time.Now)}, Logger: slog.New(slog.DiscardHandler),
	})
	if !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("New() = %v, want ErrUnavailable", err)
	}
}

func TestCloseWritesWhatIsPending(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &shaky{Model: storetest.NewModel(time.Now)}
		w := newWorld(t, store, nil)
		run := w.begin(message{root: "root"})
		w.say(run, task(completed))
		run.End(sessions.Answered)
		if err := w.record.Close(t.Context()); err != nil {
			t.Errorf("Close() = %v", err)
		}
		w.stands(run, lineage.Active, lineage.Completed, "")
		if run := w.begin(message{root: "root"}); run.Recorded() {
			t.Error("a call after Close is recorded")
		}
	})
}

// At any moment the state equals what the log tells.
func TestStateIsWhatTheLogTells(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root", turn: "turn"})
		w.say(run, task(working), task(asks))
		w.end(run, sessions.Answered)
		w.complete(w.begin(message{root: "root", task: "t1"}))
		w.isolating()
		lost := w.begin(message{root: "root"})
		w.say(lost, strings.ReplaceAll(task(working), "t1", "t2"))
		w.end(lost, sessions.CallerGone)
		follow, err := w.record.Follow(t.Context(), w.agent, "", "", "t2")
		if err != nil {
			t.Fatal(err)
		}
		w.say(follow, strings.ReplaceAll(task(completed), "t1", "t2"))
		w.end(follow, sessions.Answered)
		want := w.tree("root")
		for i := range want {
			want[i].Owner, want[i].Deadline, want[i].UpdatedAt = "", nil, time.Time{}
		}
		a, _ := json.Marshal(sessions.Project("root", w.events("root")))
		b, _ := json.Marshal(want)
		same(t, "projection", string(a), string(b))
	})
}

func TestStoreDownOpensNobodysTask(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root", principal: "ann"})
		w.say(run, task(asks))
		w.end(run, sessions.Answered)
		w.store.set(true)
		w.refused(message{root: "bobs", principal: "bob", task: "t1"}, lineage.ContextForbidden)
	})
}

func TestHungLookUpEndsWithItsCaller(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		release := w.hang()
		ctx, leave := context.WithCancel(t.Context())
		gone := w.start(ctx, message{root: "root", context: "mine"})
		leave()
		if b := <-gone; !errors.Is(b.err, context.Canceled) || b.after != 0 {
			t.Errorf("Begin() = %v after %v, want context.Canceled at once", b.err, b.after)
		}
		stays := <-w.start(t.Context(), message{root: "root", context: "mine"})
		if stays.err != nil || stays.run.Recorded() || stays.after != sessions.DefaultTimeout {
			t.Errorf("Begin() = %v, %v after %v, want an unrecorded call after %v", stays.run, stays.err, stays.after, sessions.DefaultTimeout)
		}
		release()
	})
}

// What the store cannot take, though it is there, is not tried again.
func TestBrokenProgressIsLogged(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.store.mu.Lock()
		w.store.faulty = errFaulty
		w.store.mu.Unlock()
		w.say(run, task(completed))
		w.end(run, sessions.Answered)
		time.Sleep(time.Minute)
		if got := strings.Count(w.logs.String(), "recording failed"); got != 1 || !strings.Contains(w.logs.String(), run.Lineage().Session) {
			t.Errorf("logged %d times, want once, with the session:\n%s", got, w.logs)
		}
		if err := w.record.Unavailable(); err != nil {
			t.Errorf("Unavailable() = %v, want nil", err)
		}
	})
}
