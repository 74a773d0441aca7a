package sessions_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// A second call to a task at work that comes to nothing leaves what was known
// of the task: it is asked for as before.
func TestFailedCallForgetsNoTask(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]sessions.Outcome{
		"unreachable": sessions.Unreachable, "caller gone": sessions.CallerGone, "HTTP error": sessions.HTTPError,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				o := w.reaching()
				w.agent.Reconcile, w.agent.TTL = time.Minute, time.Hour
				run, _ := w.aborting(message{root: "root"}, "ann")
				w.working(run, "t1")
				w.end(run, sessions.Answered)
				again, _ := w.aborting(message{root: "root", task: "t1"}, "ann")
				w.end(again, outcome)
				time.Sleep(90 * time.Second)
				_, asked := o.told()
				same(t, "asked", asked, []string{"t1 as ann"})
				w.stands(run, lineage.Active, lineage.Active, "")
			})
		})
	}
}

func TestFailedAnswerLeavesTheTaskCancelable(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		run, _ := w.aborting(message{root: "root"}, "ann")
		w.say(run, task(asks))
		w.end(run, sessions.Answered)
		again, _ := w.aborting(message{root: "root", task: "t1"}, "ann")
		w.end(again, sessions.Unreachable)
		w.step(run, lineage.VerbCancel)
		canceled, _ := o.told()
		same(t, "canceled", canceled, []string{"t1 as ann"})
		time.Sleep(time.Minute)
	})
}

// Of two tries of one message the second does not reach the agent, and ends last.
func TestRetryThatFailsSaysNothingOfTheTask(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		first := w.begin(message{root: "root", id: "m"})
		w.working(first, "t1")
		second := w.begin(message{root: "root", id: "m"})
		w.end(first, sessions.BrokenOff)
		w.end(second, sessions.Unreachable)
		w.stands(first, lineage.Active, lineage.Active, "")
		f := w.follow("")
		w.say(f, `{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"}}`)
		w.end(f, sessions.Answered)
		w.stands(first, lineage.Active, lineage.Completed, "")
	})
}

// The heartbeat also tells of tasks that no call holds.
func TestStopOfAnUnheardTaskIsHeardByTheHeartbeat(t *testing.T) {
	t.Parallel()
	for _, state := range []string{working, asks} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				o := w.reaching()
				w.isolating()
				run, _ := w.aborting(message{root: "root"}, "ann")
				w.say(run, task(state))
				w.end(run, sessions.Answered)
				w.store.loseNotices(true)
				w.step(run, lineage.VerbCancel)
				w.store.loseNotices(false)
				time.Sleep(sessions.DefaultLease/3 + time.Second)
				canceled, _ := o.told()
				same(t, "canceled", canceled, []string{"t1 as ann"})
				time.Sleep(time.Minute)
			})
		})
	}
}

// Who says that a session has completed while it is being ended is believed:
// its agent is about to answer.
func TestCompletedCallIsNotCut(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.reaching()
		w.isolating()
		run, cut := w.aborting(message{root: "root"}, "ann")
		w.working(run, "t1")
		w.step(run, lineage.VerbCancel)
		w.step(run, lineage.VerbComplete)
		time.Sleep(time.Minute)
		if err := cut(); err != nil {
			t.Errorf("the call was cut off: %v", err)
		}
		w.end(run, sessions.CallerGone)
		w.stands(run, lineage.Completed, lineage.Completed, "")
	})
}

// hanging is an agent that answers no question, and refuses the first so many
// cancellations.
type hanging struct {
	refuses  int32
	canceled atomic.Int32
}

func (h *hanging) CancelTask(context.Context, sessions.Task) error {
	if h.canceled.Add(1) <= h.refuses {
		return errors.New("busy")
	}
	return nil
}

func (*hanging) GetTask(ctx context.Context, _ sessions.Task) error {
	<-ctx.Done()
	return ctx.Err()
}

func TestCancelWaitsBehindNoQuestion(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		h := &hanging{}
		w.record.Reach(h)
		w.isolating()
		w.agent.Reconcile, w.agent.TTL = time.Second, time.Hour
		for i := range 100 {
			run := w.begin(message{root: "root"})
			w.working(run, fmt.Sprint("t", i))
			w.end(run, sessions.Answered)
		}
		time.Sleep(time.Minute)
		run := w.begin(message{root: "root"})
		w.working(run, "urgent")
		w.step(run, lineage.VerbCancel)
		if got := h.canceled.Load(); got != 1 {
			t.Errorf("canceled %d times at once, want 1", got)
		}
		w.end(run, sessions.CallerGone)
	})
}

func TestCancelIsTriedAgain(t *testing.T) {
	t.Parallel()
	for refuses, want := range map[int32]int32{0: 1, 1: 2, 9: 3} {
		inWorld(t, nil, func(t *testing.T, w *world) {
			h := &hanging{refuses: refuses}
			w.record.Reach(h)
			w.isolating()
			run := w.begin(message{root: "root"})
			w.working(run, "t1")
			w.step(run, lineage.VerbCancel)
			time.Sleep(20 * time.Second)
			if got := h.canceled.Load(); got != want {
				t.Errorf("of an agent that refuses %d: tried %d times, want %d", refuses, got, want)
			}
			w.end(run, sessions.CallerGone)
		})
	}
}

// What is known of how to ask for a task is kept no longer than it may be open.
func TestUnheardTasksAreForgotten(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.isolating()
		w.agent.Reconcile, w.agent.TTL = time.Minute, 5*time.Minute
		run, _ := w.aborting(message{root: "root"}, "ann")
		w.working(run, "t1")
		w.end(run, sessions.Answered)
		time.Sleep(10 * time.Minute)
		w.stands(run, lineage.Expired, lineage.Expired, "")
		_, before := o.told()
		time.Sleep(24 * time.Hour)
		if _, asked := o.told(); len(asked) != len(before) {
			t.Errorf("asked %d times more in the day after its session's time was over", len(asked)-len(before))
		}
	})
}

// A task that works on holds its place in the sidecar's own books as well.
func TestUnheardTasksCountWithoutTheStore(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.reaching()
		w.isolating()
		w.agent.Limits = lineage.Limits{MaxChildren: 2}
		for i := range 2 {
			run := w.begin(message{root: "root"})
			w.working(run, fmt.Sprint("t", i+1))
			w.end(run, sessions.Answered)
		}
		f := w.follow("")
		w.store.set(true)
		w.refused(message{root: "root"}, lineage.ChildrenLimit)
		w.say(f, `{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"}}`)
		f.End(sessions.Answered)
		w.begin(message{root: "root"}).End(sessions.Answered)
		w.store.set(false)
		time.Sleep(time.Second)
	})
}
