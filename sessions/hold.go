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
	last  lineage.State // of the run, as its calls have told it; empty: nothing yet
	place *localPlace   // in the sidecar's own books
	stop  *stop         // its session is being ended; nil: it is not
	let   chan struct{} // closed when the last call has let go
}

// take adds a call to those that hold its run. It asks the agent to stop if the
// run is one that is to end.
func (r *Record) take(run *Run, gen int, of hold) {
	r.mu.Lock()
	h := r.open[run.id]
	if h == nil {
		h = &of
		h.ref = RunRef{Root: run.session.Tree, Run: run.id, Agent: run.agent.Name}
		h.calls, h.let = map[*Run]struct{}{}, make(chan struct{})
		r.open[run.id] = h
		h.place.enter()
	}
	h.calls[run] = struct{}{}
	h.ref.Gen = max(h.ref.Gen, gen)
	h.waits = false
	task := r.stopEarly(h)
	r.mu.Unlock()
	if task.ID != "" {
		r.cancelTask(task)
	}
}

// release takes a call away from those that hold its run. It returns the hold as
// it then stands, and whether others still hold the run. If none does, the place
// is the caller's to give back.
func (r *Record) release(run *Run) (h hold, held bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	of := r.open[run.id]
	if of == nil {
		return hold{}, false // a call that follows holds nothing
	}
	if delete(of.calls, run); len(of.calls) == 0 {
		delete(r.open, run.id)
		close(of.let)
	}
	return *of, len(of.calls) > 0
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
	if h != nil && state != "" {
		h.last = state
	}
	switch {
	case h == nil:
	case state == lineage.Suspended:
		h.waits = true
	case state == lineage.Active && h.waits:
		h.waits = false
		h.ref.Gen++
	}
}
