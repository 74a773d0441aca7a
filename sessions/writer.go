package sessions

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Bounds of the writer.
const (
	maxBatch   = 128                    // ops in one Apply
	maxPending = 16384                  // ops that may wait; who brings more progress waits too
	retryFor   = 30 * time.Second       // how long progress is kept for a store that does not answer
	retryEvery = 200 * time.Millisecond // how often such a store is tried
	// linger is how long progress that nobody waits for may wait for company: a
	// call that ends is often followed by one that begins, and both together
	// cost the store little more than one.
	linger = 2 * time.Millisecond
)

// job is an op on its way through the writer.
type job struct {
	op    Op
	until time.Time     // progress: when it is given up
	done  chan struct{} // do, and sync, which has no op: closed when all up to here is done

	// Guarded by writer.mu.
	finished  bool
	abandoned func(Grant) *Progress // the caller has gone; tells what becomes of a grant that came too late
}

// writer brings every op of this sidecar to the store in the order in which
// they came, as many at a time as have gathered while the last batch was under
// way. The order is what lets a caller that has seen one call end start the
// next at once: its place is free before the next admission is looked at.
//
// While the store does not answer, admissions fail at once, and progress is
// kept and tried again.
type writer struct {
	store   Store
	timeout time.Duration
	patient func() bool      // nobody waits for what progress may free
	applied func([]*Op)      // told of every batch that was carried out
	dropped func(int, error) // told of progress that was given up

	mu      sync.Mutex // guards the fields below
	room    *sync.Cond // pending has become shorter, or closed
	pending []*job
	closed  bool
	hasty   bool  // somebody waits for something in pending
	stopped bool  // run has returned, or is about to
	down    error // what the last Apply said; nil while the store answers

	wake chan struct{} // capacity 1: pending has become longer, or hasty, or closed
	gone chan struct{} // closed when run has returned
}

func newWriter(store Store, timeout time.Duration, patient func() bool, applied func([]*Op), dropped func(int, error)) *writer {
	w := &writer{
		store: store, timeout: timeout, patient: patient, applied: applied, dropped: dropped,
		wake: make(chan struct{}, 1), gone: make(chan struct{}),
	}
	w.room = sync.NewCond(&w.mu)
	return w
}

// errClosed is what becomes of ops that come after close.
var errClosed = fmt.Errorf("%w: shutting down", ErrUnavailable)

// do has op carried out and waits for the outcome. When ctx ends first, late
// gets the grant, if there will be one, and returns what is to be posted, or
// nil. late may be nil: whatever comes of op stands.
func (w *writer) do(ctx context.Context, op Op, late func(Grant) *Progress) (Grant, error) {
	if err := ctx.Err(); err != nil {
		return Grant{}, err // nobody is there to use a place
	}
	j := &job{op: op, done: make(chan struct{})}
	w.mu.Lock()
	if err := w.down; err != nil || w.closed {
		w.mu.Unlock()
		if err == nil {
			err = errClosed
		}
		return Grant{}, err
	}
	w.pending, w.hasty = append(w.pending, j), true
	w.mu.Unlock()
	w.signal()

	select {
	case <-j.done:
		return j.op.Grant, j.op.Err
	case <-ctx.Done():
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if j.finished {
		return j.op.Grant, j.op.Err
	}
	j.abandoned = late
	return Grant{}, ctx.Err()
}

// sync waits until all that was posted before it is carried out, or held for a
// store that does not answer.
func (w *writer) sync(ctx context.Context) error {
	j := &job{done: make(chan struct{})}
	w.mu.Lock()
	if w.stopped || w.down != nil {
		w.mu.Unlock()
		return nil
	}
	w.pending, w.hasty = append(w.pending, j), true
	w.mu.Unlock()
	w.signal()
	select {
	case <-j.done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// post has p carried out after all that was posted before it. While maxPending
// is reached it waits for a store that answers, and gives p up for one that does not:
// calls must go on.
func (w *writer) post(p *Progress) { w.add(p, true) }

// push is post without the waiting, for run itself, which alone makes room.
func (w *writer) push(p *Progress) { w.add(p, false) }

func (w *writer) add(p *Progress, waits bool) {
	w.mu.Lock()
	for waits && len(w.pending) >= maxPending && !w.closed && w.down == nil {
		w.room.Wait()
	}
	reason := w.down
	stopped := w.stopped || waits && len(w.pending) >= maxPending && w.down != nil
	if w.stopped {
		reason = errClosed
	}
	if !stopped {
		w.pending = append(w.pending, &job{op: Op{Progress: p}, until: time.Now().Add(retryFor)})
	}
	w.mu.Unlock()
	if stopped {
		w.dropped(1, reason)
		return
	}
	w.signal()
}

func (w *writer) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// unavailable returns what is wrong with the store, nil while it answers.
func (w *writer) unavailable() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.down
}

// close has what is pending carried out, if the store answers, and waits for
// that until ctx ends.
func (w *writer) close(ctx context.Context) error {
	w.mu.Lock()
	w.closed = true
	w.room.Broadcast()
	w.mu.Unlock()
	w.signal()
	select {
	case <-w.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("writing the last of the record: %w", ctx.Err())
	}
}

// run carries out what is pending until close, and then what is left. ctx is
// the parent of every call to the store.
func (w *writer) run(ctx context.Context) {
	defer close(w.gone)
	retry := time.NewTicker(retryEvery)
	defer retry.Stop()
	for {
		w.gather()
		w.mu.Lock()
		n := min(len(w.pending), maxBatch)
		batch := w.pending[:n:n]
		w.pending = w.pending[n:]
		w.hasty = w.hasty && len(w.pending) > 0
		closed, down := w.closed, w.down != nil
		w.stopped = closed && n == 0
		w.room.Broadcast()
		w.mu.Unlock()

		switch {
		case n > 0:
			if undone, err := w.apply(ctx, batch); err != nil {
				w.hold(undone, err, closed)
			}
		case closed:
			return
		case down:
			w.probe(ctx)
		}
		if w.unavailable() != nil {
			if !closed {
				<-retry.C
			}
		} else if n == 0 {
			<-w.wake
		}
	}
}

// gather waits a little for company while there is nothing but progress that
// nobody waits for.
func (w *writer) gather() {
	if !w.idle() || !w.patient() {
		return
	}
	enough := time.NewTimer(linger)
	defer enough.Stop()
	for w.idle() {
		select {
		case <-w.wake:
		case <-enough.C:
			return
		}
	}
}

// idle reports whether what is pending may wait.
func (w *writer) idle() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.pending)
	return n > 0 && n < maxBatch/2 && !w.hasty && !w.closed && w.down == nil
}

// apply carries out one batch. It returns what is wrong with the store, if
// anything, and the progress that is therefore still to be told.
func (w *writer) apply(ctx context.Context, batch []*job) (undone []*job, down error) {
	ops := make([]*Op, 0, len(batch))
	for _, j := range batch {
		if j.op.Admit != nil || j.op.Progress != nil || j.op.Change != nil {
			ops = append(ops, &j.op)
		}
	}
	if len(ops) > 0 {
		ctx, cancel := context.WithTimeout(ctx, w.timeout)
		defer cancel()
		w.store.Apply(ctx, ops)
		w.applied(ops)
	}

	for _, j := range batch {
		if errors.Is(j.op.Err, ErrUnavailable) {
			down = j.op.Err
			if j.op.Progress != nil {
				undone = append(undone, j)
			}
		}
	}
	w.setDown(down) // before the outcomes are known: who hears of one finds it so
	for _, j := range batch {
		if j.op.Progress == nil {
			w.finish(j)
		}
	}
	return undone, down
}

// hold keeps progress for a store that does not answer, undone before what
// came later, and lets go of what cannot wait: what somebody waits for, and progress
// whose time is over. Nothing waits for a try that will not come (last).
func (w *writer) hold(undone []*job, down error, last bool) {
	now := time.Now()
	var kept, refused []*job
	lost := 0
	w.mu.Lock()
	for _, j := range slices.Concat(undone, w.pending) {
		switch {
		case j.op.Progress == nil:
			refused = append(refused, j)
		case last || !now.Before(j.until):
			lost++
		default:
			j.op.Err = nil
			kept = append(kept, j)
		}
	}
	w.pending = kept
	w.room.Broadcast()
	w.mu.Unlock()
	for _, j := range refused {
		j.op.Err = down
		w.finish(j)
	}
	if lost > 0 {
		w.dropped(lost, down)
	}
}

// finish tells the outcome of an op or a sync to who waits for it.
func (w *writer) finish(j *job) {
	w.mu.Lock()
	j.finished = true
	late := j.abandoned
	w.mu.Unlock()
	close(j.done)
	if late == nil || j.op.Err != nil {
		return
	}
	if p := late(j.op.Grant); p != nil {
		w.push(p)
	}
}

// probe asks a store that did not answer whether it does now.
func (w *writer) probe(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()
	if err := w.store.Ping(ctx); err != nil {
		w.setDown(fmt.Errorf("%w: %w", ErrUnavailable, err))
		return
	}
	w.setDown(nil)
}

func (w *writer) setDown(err error) {
	w.mu.Lock()
	w.down = err
	w.room.Broadcast()
	w.mu.Unlock()
}

// suspect takes note that the store failed somebody else with err, and has it
// probed until it answers.
func (w *writer) suspect(err error) {
	w.mu.Lock()
	if w.down == nil {
		w.down = err
	}
	w.room.Broadcast()
	w.mu.Unlock()
	w.signal()
}
