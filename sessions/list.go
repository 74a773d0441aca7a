package sessions

import (
	"context"
	"errors"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Listing watches a call for a list of tasks. What the agent says of tasks that
// the record knows is taken note of as if each had been asked for. A task that
// is not known, in a context that is, belongs to the context's tree from then on.
// Its methods are called by one goroutine.
type Listing struct {
	record    *Record
	ctx       context.Context // of the call: bounds what the store is asked
	agent     *Agent
	principal string
	traceID   string
}

// maxListed bounds how many tasks of one answer are looked at.
const maxListed = 1000

// List watches a call for the tasks of a context, or of all where contextID is
// empty. It returns a *lineage.Refusal if the context belongs to another
// principal's tree. One that nothing is known of may be asked about: the agent
// is the judge.
func (r *Record) List(ctx context.Context, agent *Agent, principal, traceID, contextID string) (*Listing, error) {
	l := &Listing{record: r, ctx: ctx, agent: agent, principal: principal, traceID: traceID}
	if contextID == "" {
		return l, nil
	}
	b, err := r.find(ctx, BindContext, agent.Name, contextID)
	switch {
	case err == nil && b.Principal != principal:
		return nil, &lineage.Refusal{Reason: lineage.ContextForbidden, Agent: agent.Name}
	case err == nil, errors.Is(err, ErrNotFound), errors.Is(err, ErrUnavailable):
		return l, nil
	default:
		return nil, err
	}
}

// Saw takes note of an answer.
func (l *Listing) Saw(u wire.Update) {
	for i, task := range u.Tasks {
		if i == maxListed || l.ctx.Err() != nil {
			return
		}
		if wire.CheckID("id", task.TaskID) != nil {
			continue
		}
		l.claim(task)
		run, err := l.record.Follow(l.ctx, l.agent, l.principal, l.traceID, task.TaskID)
		if err != nil {
			continue // nobody's that we know, or another's
		}
		run.Saw(task)
		run.End(Answered)
	}
}

// Flush does nothing: what was seen is on its way to the store.
func (*Listing) Flush() {}

// End does nothing: a list holds no run open.
func (*Listing) End(Outcome) {}

// claim makes a task that nothing is known of belong to the tree of its context.
func (l *Listing) claim(task wire.Update) {
	if wire.CheckID("contextId", task.ContextID) != nil {
		return
	}
	if _, err := l.record.find(l.ctx, BindTask, l.agent.Name, task.TaskID); !errors.Is(err, ErrNotFound) {
		return
	}
	owner, err := l.record.find(l.ctx, BindContext, l.agent.Name, task.ContextID)
	if err != nil || owner.Principal != l.principal {
		return
	}
	ctx, cancel := context.WithTimeout(l.ctx, l.record.opts.Timeout)
	defer cancel()
	key := BindingKey{BindTask, l.agent.Name, task.TaskID}
	if _, err := l.record.opts.Store.Claim(ctx, key, owner); err != nil {
		l.record.opts.Logger.WarnContext(ctx, "task of a list is not remembered", "agent", l.agent.Name, "error", err)
	}
}
