package sessions

import (
	"context"
	"errors"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Outreach makes calls to agents of the sidecar's own accord, as the caller of
// the task did: with the same credentials, in the same protocol. What the agent
// answers reaches the record as the answer to anybody's call does.
type Outreach interface {
	// CancelTask asks the agent to stop (A2A CancelTask). Nil: it has answered,
	// if only that there is nothing to cancel.
	CancelTask(ctx context.Context, t Task) error
	// GetTask asks how a task stands (A2A GetTask). The error wraps ErrTaskGone
	// if the agent does not know it, or cannot be connected to any more.
	GetTask(ctx context.Context, t Task) error
}

// Task is a task as the sidecar may ask about it.
type Task struct {
	Agent string
	ID    string
	As    any // Call.As of the call that it belongs to; nil: not known, as after a restart
}

// ErrTaskGone says that the agent does not know the task, or is not there any more.
var ErrTaskGone = errors.New("the agent has no such task")

// Bounds of what the sidecar does of its own accord.
const (
	maxUnheard  = 4096             // tasks that no call holds, of which it remembers how to ask
	maxAsking   = 16               // questions under way
	ownTimeout  = 10 * time.Second // of one call
	cancelTries = 3                // of a CancelTask
	cancelPause = 2 * time.Second  // between them
)

// Reach tells the record how to call agents. Until then it calls none.
func (r *Record) Reach(o Outreach) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outreach = o
}

// cancelTask has an agent asked to stop, at once, and again if that fails.
func (r *Record) cancelTask(t Task) {
	o := r.reach()
	if o == nil {
		return
	}
	r.later(func(ctx context.Context) {
		err := r.tryCancel(ctx, o, t)
		for try := 1; err != nil && try < cancelTries && ctx.Err() == nil; try++ {
			r.opts.Logger.WarnContext(ctx, "canceling a task failed", "agent", t.Agent, "task_id", t.ID, "error", err)
			pause := time.NewTimer(cancelPause)
			select {
			case <-pause.C:
				err = r.tryCancel(ctx, o, t)
			case <-ctx.Done():
				pause.Stop()
			}
		}
		if r.opts.Hooks.Canceled != nil {
			r.opts.Hooks.Canceled(t.Agent, err)
		}
	})
}

func (r *Record) tryCancel(ctx context.Context, o Outreach, t Task) error {
	ctx, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	return o.CancelTask(ctx, t)
}

func (r *Record) reach() Outreach {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.outreach
}

// unheard is a task that no call of this sidecar holds any more and whose end
// has not been seen: it waits for an answer, or works on without a listener.
// Record.mu guards its fields.
type unheard struct {
	agent    *Agent
	ref      RunRef
	session  string
	as       any
	place    *localPlace // in the sidecar's own books
	until    time.Time   // its session's time is over by then, and the grace
	works    bool        // as against waiting
	ask      time.Time   // when to ask for it; zero: never
	asking   bool        // the answer to a question is still to come
	canceled bool        // its agent has been asked to stop
}

// leave remembers the task of a run that its last call has let go of. A task
// whose connection the agent broke is asked for at once: what is left of it may
// be nothing.
func (r *Record) leave(run *Run, id string, place *localPlace, works, broken bool) {
	task := BindingKey{BindTask, run.agent.Name, id}
	now := time.Now()
	u := &unheard{
		agent: run.agent, session: run.session.ID, as: run.as, works: works, place: place, until: now.Add(run.detachFor()),
		ref: RunRef{Root: run.session.Tree, Run: run.id, Agent: run.agent.Name, Gen: run.gen},
	}
	switch {
	case broken:
		u.ask = now
	case run.agent.Reconcile > 0:
		u.ask = now.Add(run.agent.Reconcile)
	}
	r.mu.Lock()
	_, u.canceled = r.stops.Get(run.id) // heard between the run's last call and now
	r.stops.Remove(run.id)
	r.unheard.Remove(task) // gives back the place of the one before
	r.unheard.Add(task, u)
	r.mu.Unlock()
	if u.canceled {
		r.cancelTask(Task{Agent: task.Agent, ID: task.ID, As: u.as})
	}
	if broken {
		nudge(r.asks)
	}
}

// heardOfTask keeps up with what the agent says of a task, whoever asked.
func (r *Record) heardOfTask(task BindingKey, state lineage.State) {
	if state == "" {
		return
	}
	if state.Terminal() {
		r.unheard.Remove(task)
		return
	}
	if u, ok := r.unheard.Peek(task); ok {
		r.mu.Lock()
		defer r.mu.Unlock()
		u.works = state == lineage.Active
	}
}

// askDue asks for the tasks that are at work, unheard, and due at now, and
// forgets those whose time is over. What finds no free slot is asked for later.
func (r *Record) askDue(now time.Time) {
	o := r.reach()
	for _, task := range r.unheard.Keys() {
		u, ok := r.unheard.Peek(task)
		if !ok {
			continue
		}
		if r.isOver(u, now) {
			r.unheard.Remove(task)
			continue
		}
		if o == nil || !r.takeAsk(u, now) {
			continue
		}
		r.later(func(ctx context.Context) {
			defer func() { <-r.slots }()
			r.askFor(ctx, o, task, u)
			r.mu.Lock()
			defer r.mu.Unlock()
			u.asking = false
		})
	}
}

func (r *Record) isOver(u *unheard, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return now.After(u.until)
}

// takeAsk takes a slot if u is to be asked for and one is free, and sets when
// it is to be asked for again.
func (r *Record) takeAsk(u *unheard, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !u.works || u.asking || u.ask.IsZero() || u.ask.After(now) {
		return false
	}
	select {
	case r.slots <- struct{}{}:
	default:
		return false
	}
	u.ask, u.asking = time.Time{}, true
	if every := u.agent.Reconcile; every > 0 {
		u.ask = now.Add(every)
	}
	return true
}

// askFor asks for one task. What the agent says of it comes by the front door;
// that there is no such task any more is told here.
func (r *Record) askFor(ctx context.Context, o Outreach, task BindingKey, u *unheard) {
	ctx, cancel := context.WithTimeout(ctx, ownTimeout)
	defer cancel()
	err := o.GetTask(ctx, Task{Agent: task.Agent, ID: task.ID, As: u.as})
	switch {
	case errors.Is(err, ErrTaskGone):
		r.unheard.Remove(task)
		r.writer.post(&Progress{
			Root: u.ref.Root, Session: u.session, Run: u.ref.Run, Gen: u.ref.Gen, Agent: task.Agent,
			State: lineage.Failed, Reason: lineage.ReasonLost,
		})
	case err != nil:
		r.opts.Logger.WarnContext(ctx, "asking for a task failed", "agent", task.Agent, "task_id", task.ID, "error", err)
	}
	if r.opts.Hooks.Asked != nil {
		r.opts.Hooks.Asked(task.Agent, err)
	}
}

// unheardRefs are the runs of the unheard tasks.
func (r *Record) unheardRefs() []RunRef {
	var refs []RunRef
	for _, u := range r.unheard.Values() {
		refs = append(refs, u.ref)
	}
	return refs
}
