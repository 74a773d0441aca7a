package sessions

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// beginUpkeep starts what the record does in the background until ctx ends: it
// renews leases, settles what is overdue in the store (its own and other
// sidecars' alike), hears the store's notices, and asks for tasks that nobody
// listens to.
func (r *Record) beginUpkeep(ctx context.Context) error {
	r.every(ctx, r.opts.Lease/3, r.beats, r.renew)
	r.every(ctx, r.opts.Settle, nil, r.settle)
	r.every(ctx, r.opts.Settle, r.asks, func(context.Context) { r.askDue(time.Now()) })
	r.beat.Go(func() { r.doJobs(ctx) })
	return r.opts.Store.Watch(ctx, r.noticed)
}

// every runs do at an interval, and when called for, until ctx ends.
func (r *Record) every(ctx context.Context, interval time.Duration, called <-chan struct{}, do func(context.Context)) {
	r.beat.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-called:
			case <-tick.C:
			}
			do(ctx)
		}
	})
}

// nudge fills a channel of capacity 1.
func nudge(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is full already
	}
}

// later has do run in the background, at once, unless the record is being
// closed. It may be called by whoever must not wait, and under any lock but
// that of the jobs.
func (r *Record) later(do func(context.Context)) {
	r.jobs.mu.Lock()
	r.jobs.all = append(r.jobs.all, do)
	r.jobs.mu.Unlock()
	nudge(r.jobs.ready)
}

// jobs are what is to be done in the background beside the upkeep.
type jobs struct {
	ready chan struct{} // capacity 1: there are some

	mu  sync.Mutex // guards all
	all []func(context.Context)
}

// doJobs runs jobs as they come, each by itself, until ctx ends, and returns
// when they have ended.
func (r *Record) doJobs(ctx context.Context) {
	var work sync.WaitGroup
	defer work.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-r.jobs.ready:
		}
		r.jobs.mu.Lock()
		all := r.jobs.all
		r.jobs.all = nil
		r.jobs.mu.Unlock()
		for _, do := range all {
			work.Go(func() { do(ctx) })
		}
	}
}

// renew keeps the leases of this sidecar's open runs alive. The runs that no
// call holds have none to renew, but are told again that they are to stop.
func (r *Record) renew(ctx context.Context) {
	r.mu.Lock()
	refs := r.unheardRefs()
	for _, h := range r.open {
		refs = append(refs, h.ref)
	}
	r.mu.Unlock()
	if len(refs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	if err := r.opts.Store.Renew(ctx, refs, r.opts.Lease); err != nil && !errors.Is(ctx.Err(), context.Canceled) {
		r.opts.Logger.WarnContext(ctx, "renewing leases failed", "runs", len(refs), "error", err)
	}
}

// settle settles what is overdue in the store. When that has not answered for a
// while, the leases come first: some have missed their beats, and are not over.
func (r *Record) settle(ctx context.Context) {
	if r.writer.unavailable() != nil {
		r.outage.Store(true)
		return
	}
	if r.outage.Swap(false) {
		r.renew(ctx)
	}
	if err := r.settleAll(ctx); err != nil && ctx.Err() == nil {
		r.outage.Store(errors.Is(err, ErrUnavailable))
		r.opts.Logger.WarnContext(ctx, "settling what is overdue failed", "error", err)
	}
	if r.opts.Alone {
		r.lines.freedAny() // no other sidecar, and so no notice, tells of places that came free
	}
}

// settleAll goes on until nothing is overdue.
func (r *Record) settleAll(ctx context.Context) error {
	for more := true; more; {
		piece, cancel := context.WithTimeout(ctx, r.opts.Timeout)
		var err error
		more, err = r.opts.Store.Settle(piece)
		cancel()
		if err != nil {
			return fmt.Errorf("settling what is overdue: %w", err)
		}
	}
	return nil
}
