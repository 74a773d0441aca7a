package sessions

import "github.com/a2a-sidecar/a2a-sidecar/lineage"

// hold is a run that calls of this sidecar keep open: one call as a rule, more
// when a message is sent again, or to a task at work. What becomes of one of
// these calls says nothing of the run while another goes on.
type hold struct {
	ref   RunRef // with the newest Gen that is known
	calls map[*Run]struct{}
	waits bool          // the agent said last that it waits
	task  string        // empty: not known yet
	place *localPlace   // in the sidecar's own books
	stop  *stop         // its session is being ended; nil: it is not
	let   chan struct{} // closed when the last call has let go
}

// take adds a call to those that hold its run.
func (r *Record) take(run *Run, gen int, place *localPlace) {
	if task := r.hold(run, gen, place); task.ID != "" {
		r.cancelTask(task)
	}
}

// hold is take under the lock. It returns the task of a run that is to end, if
// its agent is to be asked to stop.
func (r *Record) hold(run *Run, gen int, place *localPlace) Task {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.open[run.id]
	if h == nil {
		h = &hold{
			ref:   RunRef{Root: run.session.Tree, Run: run.id, Agent: run.agent.Name},
			calls: map[*Run]struct{}{}, let: make(chan struct{}), place: place, task: run.task,
		}
		r.open[run.id] = h
		place.enter()
	}
	h.calls[run] = struct{}{}
	h.ref.Gen = max(h.ref.Gen, gen)
	h.waits = false
	return r.stopEarly(h)
}

// release takes a call away from those that hold its run. It returns the Gen
// under which the call may speak for the run, and whether others still hold it.
func (r *Record) release(run *Run) (gen int, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.open[run.id]
	if h == nil {
		return 0, false // a call that follows holds nothing
	}
	if delete(h.calls, run); len(h.calls) == 0 {
		delete(r.open, run.id)
		close(h.let)
		h.place.leave()
	}
	return h.ref.Gen, len(h.calls) > 0
}

// shared reports whether other calls hold run's run too.
func (r *Record) shared(run *Run) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.open[run.id]
	return h != nil && len(h.calls) > 1
}

// heard keeps up with what the store makes of state: a run that waited and
// goes on by itself is granted anew, under the next Gen.
func (r *Record) heard(run *Run, state lineage.State) {
	r.mu.Lock()
	defer r.mu.Unlock()
	h := r.open[run.id]
	switch {
	case h == nil:
	case state == lineage.Suspended:
		h.waits = true
	case state == lineage.Active && h.waits:
		h.waits = false
		h.ref.Gen++
	}
}
