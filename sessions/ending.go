package sessions

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Ended is the cause with which a call is aborted whose session was ended
// before it.
type Ended struct {
	Session string // id
	Reason  string // lineage.Session.Ending
}

// Error says in words what ended the session.
func (e *Ended) Error() string {
	why := "it was canceled"
	switch e.Reason {
	case lineage.ReasonOrphaned:
		why = "its parent has ended"
	case lineage.ReasonExpired:
		why = "its time is over"
	}
	return fmt.Sprintf("session %s was ended: %s", e.Session, why)
}

// stop is what is known of a run whose session is being ended. Record.mu
// guards it.
type stop struct {
	reason   string
	canceled bool // the agent has been asked to stop
}

// earlyStop is a Cancel of a run that this sidecar holds no call of. It may have
// overtaken the grant: the call that gets it asks for it then.
type earlyStop struct {
	Cancel
	at time.Time
}

// noticed takes note of news from the store. It must not block: what there is
// to do is done by others.
func (r *Record) noticed(n Notice) {
	if n.Root != "" || n.Agent != "" {
		r.lines.freed(n.Root, n.Agent)
	}
	for _, c := range n.Cancels {
		r.stop(c)
	}
}

// stop has a run end that is to end: its agent is asked to, once, and when the
// grace is over, its calls are cut off. A run that this sidecar knows nothing
// of is for others, if there are any.
func (r *Record) stop(c Cancel) {
	key := BindingKey{BindTask, c.Agent, c.TaskID}
	r.mu.Lock()
	h := r.open[c.Run]
	var task Task
	switch u, left := r.unheard.Peek(key); {
	case h != nil:
		if h.stop == nil {
			h.stop = &stop{reason: c.Reason}
			r.endLater(h, c)
		}
		if c.TaskID != "" {
			h.task = c.TaskID
		}
		task = h.cancelable()
	case left && !u.canceled:
		u.canceled, u.until = true, time.Now().Add(c.Grace)
		task = Task{Agent: c.Agent, ID: c.TaskID, As: u.as}
	case !left:
		r.stops.Add(c.Run, earlyStop{c, time.Now()})
		if !r.opts.Alone || c.TaskID == "" || r.agents[c.Agent] == nil {
			break
		}
		// Nobody else can know more. Should this be told again, it is asked again.
		task = Task{Agent: c.Agent, ID: c.TaskID}
	}
	r.mu.Unlock()
	if task.ID != "" {
		r.cancelTask(task)
	}
}

// stopEarly has h end if it is known already that it must. Record.mu is held.
func (r *Record) stopEarly(h *hold) Task {
	early, ok := r.stops.Get(h.ref.Run)
	if !ok || h.stop != nil {
		return Task{}
	}
	r.stops.Remove(h.ref.Run)
	early.Grace = max(0, early.Grace-time.Since(early.at))
	h.stop = &stop{reason: early.Reason}
	r.endLater(h, early.Cancel)
	if early.TaskID != "" {
		h.task = early.TaskID
	}
	return h.cancelable()
}

// cancelable returns the task of h if its agent is to be asked to stop, and
// has not been. Record.mu is held.
func (h *hold) cancelable() Task {
	if h.stop == nil || h.stop.canceled || h.task == "" {
		return Task{}
	}
	h.stop.canceled = true
	t := Task{Agent: h.ref.Agent, ID: h.task}
	for run := range h.calls {
		t.As = run.as // any of them: they are of one principal
	}
	return t
}

// learnt takes note of the task of a run that is under way. One that is to end
// may have been waiting for it.
func (r *Record) learnt(run *Run) {
	r.mu.Lock()
	var task Task
	if h := r.open[run.id]; h != nil {
		h.task = run.task
		task = h.cancelable()
	}
	r.mu.Unlock()
	if task.ID != "" {
		r.cancelTask(task)
	}
}

// endLater cuts off the calls of h when the grace is over, unless they end
// before.
func (r *Record) endLater(h *hold, c Cancel) {
	r.later(func(ctx context.Context) {
		over := time.NewTimer(c.Grace)
		defer over.Stop()
		select {
		case <-over.C:
		case <-h.let:
			return
		case <-ctx.Done():
			return
		}
		r.settle(ctx) // the store says how the run ended, before its connection does
		if s, err := r.opts.Store.Session(ctx, c.Session); err == nil && completed(s, c.Run) {
			return // on somebody's word: its agent is about to answer
		}
		r.mu.Lock()
		var calls []*Run
		for run := range h.calls {
			calls = append(calls, run)
		}
		r.mu.Unlock()
		for _, run := range calls {
			run.cut(&Ended{Session: c.Session, Reason: c.Reason})
		}
		if r.opts.Hooks.Ended != nil {
			r.opts.Hooks.Ended(c.Agent, c.Reason)
		}
	})
}

// cut ends the call of a run from outside. How the run ended is for the store
// to say.
func (r *Run) cut(why *Ended) {
	r.mu.Lock()
	r.severed = true
	r.mu.Unlock()
	if r.abort != nil {
		r.abort(why)
	}
}

func completed(s lineage.Session, run string) bool {
	return slices.ContainsFunc(s.Runs, func(r lineage.Run) bool { return r.ID == run && r.State == lineage.Completed })
}
