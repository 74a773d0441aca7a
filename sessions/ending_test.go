package sessions_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// outreach is what a record does of its own accord.
type outreach struct {
	mu       sync.Mutex
	canceled []string // task, as whom
	asked    []string
	get      func(t sessions.Task) error // what is behind GetTask; nil: nothing new
	busy     int
	most     int // calls under way at once
}

func (o *outreach) CancelTask(ctx context.Context, t sessions.Task) error {
	o.mu.Lock()
	o.canceled = append(o.canceled, as(t))
	o.busy++
	o.most = max(o.most, o.busy)
	o.mu.Unlock()
	select { // so that calls meet
	case <-time.After(time.Second):
	case <-ctx.Done():
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	o.busy--
	return nil
}

func (o *outreach) GetTask(_ context.Context, t sessions.Task) error {
	o.mu.Lock()
	o.asked = append(o.asked, as(t))
	get := o.get
	o.mu.Unlock()
	if get == nil {
		return nil
	}
	return get(t)
}

func as(t sessions.Task) string {
	who, _ := t.As.(string)
	return t.ID + " as " + who
}

func (o *outreach) told() (canceled, asked []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	slices.Sort(o.canceled)
	return slices.Clone(o.canceled), slices.Clone(o.asked)
}

// reaching gives the record of w an outreach.
func (w *world) reaching() *outreach {
	o := &outreach{}
	w.record.Reach(o)
	return o
}

// repeatNotices tells all notices of the store's again.
func (w *world) repeatNotices() {
	w.store.mu.Lock()
	all := w.store.notices
	w.store.notices = nil
	w.store.mu.Unlock()
	for _, again := range all {
		again()
	}
	synctest.Wait()
}

// aborting makes a call that can be cut off; the returned func says by what it
// was. The store must have ended its run by then.
func (w *world) aborting(m message, as any) (run *sessions.Run, cutBy func() error) {
	w.Helper()
	c := w.call(m)
	var mu sync.Mutex
	var cut error
	c.As = as
	c.Abort = func(cause error) {
		if s, err := w.store.Session(context.Background(), run.Lineage().Session); err != nil || !s.State.Terminal() {
			w.Errorf("a call is cut off while its session is %s, %v", s.State, err)
		}
		mu.Lock()
		defer mu.Unlock()
		cut = cause
	}
	var err error
	if run, err = w.record.Begin(w.Context(), c); err != nil {
		w.Fatalf("Begin(%+v) = %v, want a run", m, err)
	}
	return run, func() error {
		mu.Lock()
		defer mu.Unlock()
		return cut
	}
}

// working is what an agent says of a task at work.
func (w *world) working(run *sessions.Run, id string) {
	w.Helper()
	w.say(run, strings.ReplaceAll(task(working), "t1", id))
	run.Flush()
	w.settle()
}

func (w *world) step(run *sessions.Run, v lineage.Verb) {
	w.Helper()
	if _, err := w.record.Step(w.Context(), sessions.Step{Session: run.Lineage().Session, Verb: v}); err != nil {
		w.Fatalf("Step(%s) = %v, want nil", v, err)
	}
	w.settle()
}

// family is a parent at work and two calls out of it, each with its task.
func (w *world) family() (parent, one, two *sessions.Run, cutOne, cutTwo func() error) {
	w.Helper()
	w.isolating()
	parent = w.begin(message{root: "root"})
	w.working(parent, "t-parent")
	of := contextOf(parent)
	one, cutOne = w.aborting(message{root: "root", parent: of}, "ann")
	w.working(one, "t-one")
	two, cutTwo = w.aborting(message{root: "root", parent: of}, "bob")
	w.working(two, "t-two")
	return parent, one, two, cutOne, cutTwo
}

func TestParentsEndCancelsAtOnceAndInParallel(t *testing.T) {
	t.Parallel()
	inWorld(t, byContext, func(t *testing.T, w *world) {
		o := w.reaching()
		parent, one, two, cutOne, cutTwo := w.family()
		w.say(parent, strings.ReplaceAll(task(completed), "t1", "t-parent"))
		w.end(parent, sessions.Answered)
		canceled, _ := o.told()
		same(t, "canceled at once", canceled, []string{"t-one as ann", "t-two as bob"})
		time.Sleep(2 * time.Second)
		if o.most != 2 {
			t.Errorf("%d cancellations under way at once, want 2", o.most)
		}
		w.stands(one, lineage.Active, lineage.Active, "")
		if got := w.session(one).Ending; got != lineage.ReasonOrphaned {
			t.Errorf("Ending = %q, want %q", got, lineage.ReasonOrphaned)
		}

		// A result counts up to the end of the grace.
		time.Sleep(lineage.DefaultGrace - 3*time.Second)
		w.say(one, strings.ReplaceAll(task(completed), "t1", "t-one"))
		w.end(one, sessions.Answered)
		w.stands(one, lineage.Completed, lineage.Completed, "")

		time.Sleep(3 * time.Second)
		w.stands(two, lineage.Failed, lineage.Failed, lineage.ReasonOrphaned)
		var ended *sessions.Ended
		if err := cutTwo(); !errors.As(err, &ended) || ended.Reason != lineage.ReasonOrphaned || ended.Session != two.Lineage().Session {
			t.Errorf("the second call was cut off with %v, want an Ended by orphaned", err)
		}
		if err := cutOne(); err != nil {
			t.Errorf("the first call was cut off with %v, want it left alone", err)
		}
		w.end(two, sessions.CallerGone)
		w.stands(two, lineage.Failed, lineage.Failed, lineage.ReasonOrphaned)
		if canceled, _ = o.told(); len(canceled) != 2 {
			t.Errorf("canceled = %v, want each task once", canceled)
		}
		same(t, "calls cut off", w.hooks.ended, []string{"worker orphaned"})
	})
}

// byContext lets calls name the session that they come out of.
func byContext(o *sessions.Options) { o.Local = "worker" }

func TestTaskThatIsKnownLateIsCanceledThen(t *testing.T) {
	t.Parallel()
	inWorld(t, byContext, func(t *testing.T, w *world) {
		o := w.reaching()
		w.isolating()
		parent := w.begin(message{root: "root"})
		child, _ := w.aborting(message{root: "root", parent: contextOf(parent)}, "ann")
		w.step(parent, lineage.VerbComplete)
		if canceled, _ := o.told(); len(canceled) != 0 {
			t.Errorf("canceled = %v, want nothing: no task is known", canceled)
		}
		w.working(child, "t-late")
		canceled, _ := o.told()
		same(t, "canceled", canceled, []string{"t-late as ann"})
		w.end(child, sessions.CallerGone)
		time.Sleep(lineage.DefaultGrace + 2*time.Second)
		w.stands(child, lineage.Failed, lineage.Failed, lineage.ReasonOrphaned)
	})
}

// A task that waits for an answer, or works on unheard, has no call that could
// be cut off, but its agent can be asked to stop.
func TestUnheardTasksAreCanceledToo(t *testing.T) {
	t.Parallel()
	inWorld(t, byContext, func(t *testing.T, w *world) {
		o := w.reaching()
		parent, one, two, _, _ := w.family()
		w.end(one, sessions.Answered) // not waiting for the end
		w.say(two, strings.ReplaceAll(task(asks), "t1", "t-two"))
		w.end(two, sessions.Answered)
		w.step(parent, lineage.VerbFail)
		w.repeatNotices()
		canceled, _ := o.told()
		same(t, "canceled", canceled, []string{"t-one as ann", "t-two as bob"})
		time.Sleep(lineage.DefaultGrace + 2*time.Second)
		w.stands(one, lineage.Failed, lineage.Failed, lineage.ReasonOrphaned)
		w.stands(two, lineage.Failed, lineage.Failed, lineage.ReasonOrphaned)
		w.end(parent, sessions.CallerGone)
	})
}

// After a restart nothing is known of a waiting task but its id. Where no other
// sidecar can know more, that must do.
func TestTaskOfAnEarlierProcessIsCanceled(t *testing.T) {
	t.Parallel()
	for name, alone := range map[string]bool{"alone": true, "shared": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.isolating()
				run, _ := w.aborting(message{root: "root"}, "ann")
				w.say(run, task(asks))
				w.end(run, sessions.Answered)
				next := newWorld(t, w.store, func(o *sessions.Options) {
					o.Alone, o.Agents = alone, []sessions.Agent{*w.agent}
				})
				o := next.reaching()
				next.step(run, lineage.VerbCancel)
				canceled, _ := o.told()
				var want []string
				if alone {
					want = []string{"t1 as "}
				}
				same(t, "canceled", canceled, want)
			})
		})
	}
}

func TestTimeIsOverWhileACallIsUnderWay(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.isolating()
		w.agent.TTL = 5 * time.Minute
		run, cut := w.aborting(message{root: "root"}, "ann")
		w.working(run, "t1")
		time.Sleep(5*time.Minute + 2*time.Second)
		canceled, _ := o.told()
		same(t, "canceled", canceled, []string{"t1 as ann"})
		w.stands(run, lineage.Active, lineage.Active, "")
		time.Sleep(lineage.DefaultGrace + 2*time.Second)
		w.stands(run, lineage.Expired, lineage.Expired, "")
		var ended *sessions.Ended
		if err := cut(); !errors.As(err, &ended) || ended.Reason != lineage.ReasonExpired {
			t.Errorf("the call was cut off with %v, want an Ended by expired", err)
		}
		w.end(run, sessions.CallerGone)
	})
}

// A run that somebody else ended while this sidecar could not be told is told
// with the next beat of its leases.
func TestStopIsHeardByTheHeartbeat(t *testing.T) {
	t.Parallel()
	inWorld(t, byContext, func(t *testing.T, w *world) {
		o := w.reaching()
		w.store.loseNotices(true)
		parent, one, two, _, _ := w.family()
		w.step(parent, lineage.VerbComplete)
		if canceled, _ := o.told(); len(canceled) != 0 {
			t.Fatalf("canceled = %v though the store's notices are lost", canceled)
		}
		w.store.loseNotices(false)
		time.Sleep(sessions.DefaultLease / 3)
		synctest.Wait()
		canceled, _ := o.told()
		same(t, "canceled", canceled, []string{"t-one as ann", "t-two as bob"})
		time.Sleep(sessions.DefaultLease / 3) // told again, and heeded once
		if canceled, _ = o.told(); len(canceled) != 2 {
			t.Errorf("canceled = %v, want each task once", canceled)
		}
		for _, run := range []*sessions.Run{parent, one, two} {
			run.End(sessions.CallerGone)
		}
		time.Sleep(lineage.DefaultGrace)
		w.settle()
	})
}

// The time of a task that nobody listens to is over like any other's: its agent
// is asked to stop first. And once its call was cut off, nobody asks for it.
func TestTimeIsOverOfAnUnheardTask(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.isolating()
		w.agent.TTL = 5 * time.Minute
		run, _ := w.aborting(message{root: "root"}, "ann")
		w.working(run, "t1")
		w.end(run, sessions.Answered)
		time.Sleep(5*time.Minute + 2*time.Second)
		canceled, _ := o.told()
		same(t, "canceled", canceled, []string{"t1 as ann"})
		w.stands(run, lineage.Active, lineage.Active, "")
		time.Sleep(lineage.DefaultGrace + 2*time.Second)
		w.stands(run, lineage.Expired, lineage.Expired, "")
	})
}

func TestCutCallLeavesNoTaskToAskFor(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.isolating()
		w.agent.Reconcile = 20 * time.Second
		run, cut := w.aborting(message{root: "root"}, "ann")
		w.working(run, "t1")
		w.step(run, lineage.VerbCancel)
		time.Sleep(lineage.DefaultGrace + time.Second)
		if cut() == nil {
			t.Fatal("the call was not cut off")
		}
		w.end(run, sessions.BrokenOff)
		time.Sleep(10 * time.Minute)
		if _, asked := o.told(); len(asked) != 0 {
			t.Errorf("asked = %v for a task that has ended", asked)
		}
		w.stands(run, lineage.Failed, lineage.Failed, lineage.ReasonCanceled)
	})
}

// A notice may come before the grant that it is about.
func TestStopOvertakesTheGrant(t *testing.T) {
	t.Parallel()
	inWorld(t, byContext, func(t *testing.T, w *world) {
		o := w.reaching()
		w.isolating()
		parent := w.begin(message{root: "root"})
		w.store.mu.Lock()
		w.store.after = func(op *sessions.Op) {
			if op.Admit != nil {
				w.store.Model.Apply(t.Context(), []*sessions.Op{{Change: &sessions.Change{
					Root: "root", Session: parent.Lineage().Session, Verb: lineage.VerbComplete,
				}}})
			}
		}
		w.store.mu.Unlock()
		child, cut := w.aborting(message{root: "root", parent: contextOf(parent)}, "ann")
		w.working(child, "t-child")
		canceled, _ := o.told()
		same(t, "canceled at once", canceled, []string{"t-child as ann"})
		time.Sleep(lineage.DefaultGrace + time.Second)
		if cut() == nil {
			t.Error("the call was not cut off when the grace was over")
		}
		w.end(child, sessions.CallerGone)
		w.end(parent, sessions.CallerGone)
	})
}

// A call that goes on in a session which is being ended hears of it at once.
func TestCallIntoAnEndingSession(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		o := w.reaching()
		w.isolating()
		first, _ := w.aborting(message{root: "root"}, "ann")
		w.say(first, task(asks))
		w.end(first, sessions.Answered)
		w.store.loseNotices(true)
		w.step(first, lineage.VerbCancel)
		w.store.loseNotices(false)
		second, _ := w.aborting(message{root: "root", task: "t1"}, "bob")
		w.working(second, "t1")
		canceled, _ := o.told()
		same(t, "canceled", canceled, []string{"t1 as bob"})
		w.end(second, sessions.CallerGone)
		time.Sleep(lineage.DefaultGrace)
		w.settle()
	})
}
