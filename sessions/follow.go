package sessions

import (
	"context"
	"errors"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Follow watches a call that asks about a task without sending to it (get,
// cancel, subscribe, push configuration): what the agent answers may be how a
// run ended that nobody held any more. It takes no place and is held to no cap.
//
// The error is ErrNotFound for a task that no recorded run made, and a
// *lineage.Refusal for another principal's: to know a task's id is not to own
// it. The run must be ended with End.
func (r *Record) Follow(ctx context.Context, agent *Agent, principal, traceID, taskID string) (*Run, error) {
	b, err := r.find(ctx, BindTask, agent.Name, taskID)
	if errors.Is(err, ErrUnavailable) {
		return nil, ErrNotFound // nothing can be looked up now; the agent is the judge
	}
	if err != nil {
		return nil, err
	}
	if b.Principal != principal {
		return nil, &lineage.Refusal{Reason: lineage.ContextForbidden, Agent: agent.Name}
	}
	run := &Run{record: r, agent: agent, trace: traceID, whose: principal, task: taskID, follows: true, settled: true}
	run.session.Kind = agent.Kind // unless more is known
	if s, ok := r.sessionOf(ctx, b.Root, BindingKey{BindTask, agent.Name, taskID}); ok {
		run.session, run.contextID = s, s.ContextID
		run.lineage = lineage.Values{Session: s.ID, Branch: s.Branch, Depth: s.Depth}
	}
	run.session.Tree = b.Root
	run.lineage.Root = b.Root
	return run, nil
}

// sessionOf returns the session that a task runs in. What this sidecar did not
// see itself, since it has started anew or another one did, the store knows.
func (r *Record) sessionOf(ctx context.Context, root string, task BindingKey) (lineage.Session, bool) {
	if s, ok := r.known.Get(task); ok {
		return s, true
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	s, err := r.opts.Store.SessionOf(ctx, root, task)
	if err != nil {
		return lineage.Session{}, false // a help to the caller, and no more
	}
	r.known.Add(task, s)
	return s, true
}
