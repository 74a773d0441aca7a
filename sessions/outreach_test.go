package sessions_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

func TestUnheardTasksAreAskedFor(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.isolating()
		w.agent.Reconcile = time.Minute
		run, _ := w.aborting(message{root: "root"}, "ann")
		w.working(run, "t1")
		w.end(run, sessions.Answered)
		time.Sleep(50 * time.Second)
		if _, asked := o.told(); len(asked) != 0 {
			t.Errorf("asked = %v before its time", asked)
		}
		time.Sleep(2*time.Minute + 15*time.Second)
		_, asked := o.told()
		same(t, "asked", asked, []string{"t1 as ann", "t1 as ann", "t1 as ann"})

		// The answer comes by the door of any call.
		o.mu.Lock()
		o.get = func(sessions.Task) error {
			f := w.follow("")
			w.say(f, `{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"}}`)
			f.End(sessions.Answered)
			return nil
		}
		o.mu.Unlock()
		time.Sleep(time.Minute)
		w.stands(run, lineage.Completed, lineage.Completed, "")
		time.Sleep(10 * time.Minute)
		if _, asked = o.told(); len(asked) != 4 {
			t.Errorf("asked %d times, want no more once it has ended", len(asked))
		}
	})
}

func TestWaitingTasksAreNotAskedFor(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.agent.Reconcile = time.Minute
		run, _ := w.aborting(message{root: "root"}, "ann")
		w.say(run, task(asks))
		w.end(run, sessions.Answered)
		time.Sleep(10 * time.Minute)
		if _, asked := o.told(); len(asked) != 0 {
			t.Errorf("asked = %v for a task that waits for its caller", asked)
		}
	})
}

// What an agent that broke off has left of a task is asked for once, at once.
func TestBrokenConnectionIsAskedAbout(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		err           error
		session, last lineage.State
		reason        string
	}{
		"gone":          {fmt.Errorf("asking: %w", sessions.ErrTaskGone), lineage.Failed, lineage.Failed, lineage.ReasonLost},
		"not told":      {errors.New("the agent is busy"), lineage.Active, lineage.Active, ""},
		"still at work": {nil, lineage.Active, lineage.Active, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				o := w.reaching()
				o.get = func(sessions.Task) error { return tc.err }
				w.isolating()
				run, _ := w.aborting(message{root: "root"}, "ann")
				w.working(run, "t1")
				w.end(run, sessions.BrokenOff)
				w.stands(run, tc.session, tc.last, tc.reason)
				time.Sleep(10 * time.Minute)
				_, asked := o.told()
				same(t, "asked", asked, []string{"t1 as ann"})
				synctest.Wait()
				w.stands(run, tc.session, tc.last, tc.reason)
			})
		})
	}
}

// A caller that takes up the task again is the one to hear of it.
func TestTaskThatIsHeldAgainIsNotAskedFor(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.agent.Reconcile = time.Minute
		run, _ := w.aborting(message{root: "root"}, "ann")
		w.working(run, "t1")
		w.end(run, sessions.Answered)
		again := w.begin(message{root: "root", task: "t1"})
		time.Sleep(10 * time.Minute)
		if _, asked := o.told(); len(asked) != 0 {
			t.Errorf("asked = %v for a task that a call holds", asked)
		}
		w.say(again, task(completed))
		w.end(again, sessions.Answered)
	})
}

func TestTaskThatBeginsToWaitIsNotAskedForAnyMore(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.agent.Reconcile = time.Minute
		run, _ := w.aborting(message{root: "root"}, "ann")
		w.working(run, "t1")
		w.end(run, sessions.Answered)
		f := w.follow("")
		w.say(f, `{"id":"t1","status":{"state":"`+asks+`"}}`)
		w.end(f, sessions.Answered)
		time.Sleep(10 * time.Minute)
		if _, asked := o.told(); len(asked) != 0 {
			t.Errorf("asked = %v for a task that waits for its caller", asked)
		}
	})
}

// What died with a sidecar is settled before the next one admits anything.
func TestReconcileBeforeAdmitting(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.store.set(true) // as good as dead
		time.Sleep(2 * sessions.DefaultLease)
		w.store.set(false)
		next := newWorld(t, w.store, nil)
		s, err := w.store.Session(t.Context(), run.Lineage().Session)
		if err != nil || s.State != lineage.Failed || s.Reason != lineage.ReasonLost {
			t.Errorf("session is %s %q, %v, want failed lost", s.State, s.Reason, err)
		}
		next.settle()
		w.end(run, sessions.CallerGone)
	})
}
