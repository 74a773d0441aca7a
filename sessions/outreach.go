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
	maxKept    = 4096             // tasks that no call holds, of which it remembers how to ask
	atOnce     = 16               // own calls under way
	ownTimeout = 10 * time.Second // of one
)

// Reach tells the record how to call agents. Until then it calls none.
func (r *Record) Reach(o Outreach) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.outreach = o
}

// own runs do, a call of the sidecar's own accord, unless the record is closed
// or cannot reach agents. It does not wait for it.
func (r *Record) own(do func(ctx context.Context, o Outreach)) {
	r.mu.Lock()
	o := r.outreach
	r.mu.Unlock()
	if o == nil {
		return
	}
	r.later(func(ctx context.Context) {
		select {
		case r.slots <- struct{}{}:
		case <-ctx.Done():
			return
		}
		defer func() { <-r.slots }()
		ctx, cancel := context.WithTimeout(ctx, ownTimeout)
		defer cancel()
		do(ctx, o)
	})
}

// cancelTask asks an agent to stop.
func (r *Record) cancelTask(t Task) {
	r.own(func(ctx context.Context, o Outreach) {
		err := o.CancelTask(ctx, t)
		if err != nil {
			r.opts.Logger.WarnContext(ctx, "canceling a task failed", "agent", t.Agent, "task_id", t.ID, "error", err)
		}
		if r.opts.Hooks.Canceled != nil {
			r.opts.Hooks.Canceled(t.Agent, err)
		}
	})
}

// unheard is a task that no call of this sidecar holds any more and whose end
// has not been seen: it waits for an answer, or works on without a listener.
// Record.mu guards its fields.
type unheard struct {
	agent    *Agent
	ref      RunRef
	session  string
	as       any
	works    bool      // as against waiting
	ask      time.Time // when to ask for it; zero: never
	asking   bool      // the answer to a question is still to come
	canceled bool      // its agent has been asked to stop
}

// leave remembers the task of a run that its last call has let go of. A task
// whose connection the agent broke is asked for at once: what is left of it may
// be nothing.
func (r *Record) leave(run *Run, works, broken bool) {
	task := BindingKey{BindTask, run.agent.Name, run.task}
	u := &unheard{
		agent: run.agent, session: run.session.ID, as: run.as, works: works,
		ref: RunRef{Root: run.session.Tree, Run: run.id, Agent: run.agent.Name, Gen: run.gen},
	}
	switch {
	case broken:
		u.ask = time.Now()
	case run.agent.Reconcile > 0:
		u.ask = time.Now().Add(run.agent.Reconcile)
	}
	r.mu.Lock()
	_, u.canceled = r.early.Get(run.id) // heard between the run's last call and now
	r.early.Remove(run.id)
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

// askDue asks for the tasks that are at work, unheard, and due at now.
func (r *Record) askDue(now time.Time) {
	for _, task := range r.unheard.Keys() {
		u, ok := r.unheard.Peek(task)
		if !ok || !r.takeAsk(u, now) {
			continue
		}
		r.own(func(ctx context.Context, o Outreach) {
			err := o.GetTask(ctx, Task{Agent: task.Agent, ID: task.ID, As: u.as})
			r.mu.Lock()
			u.asking = false
			r.mu.Unlock()
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
		})
	}
}

// takeAsk reports whether u is to be asked for, and sets when again.
func (r *Record) takeAsk(u *unheard, now time.Time) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !u.works || u.asking || u.ask.IsZero() || u.ask.After(now) {
		return false
	}
	u.ask, u.asking = time.Time{}, true
	if every := u.agent.Reconcile; every > 0 {
		u.ask = now.Add(every)
	}
	return true
}
