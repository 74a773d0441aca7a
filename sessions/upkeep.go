package sessions

import (
	"context"
	"fmt"
	"time"
)

// beginUpkeep starts what the record does in the background until Close: it
// renews leases, settles what is overdue in the store (its own and other
// sidecars' alike), hears the store's notices, and asks for tasks that nobody
// listens to.
func (r *Record) beginUpkeep() error {
	r.every(r.opts.Lease/3, r.beats, func(time.Time) { r.renew() })
	r.every(r.opts.Settle, nil, func(time.Time) { r.settle() })
	r.every(r.opts.Settle, r.asks, r.askDue)
	return r.opts.Store.Watch(r.life, r.noticed)
}

// every runs do at an interval, and when called for, until Close.
func (r *Record) every(interval time.Duration, called <-chan struct{}, do func(now time.Time)) {
	r.beat.Go(func() {
		tick := time.NewTicker(interval)
		defer tick.Stop()
		for {
			select {
			case <-r.life.Done():
				return
			case <-called:
			case <-tick.C:
			}
			do(time.Now())
		}
	})
}

// renew keeps the leases of this sidecar's open runs alive.
func (r *Record) renew() {
	r.mu.Lock()
	refs := make([]RunRef, 0, len(r.open))
	for _, h := range r.open {
		refs = append(refs, h.ref)
	}
	r.mu.Unlock()
	if len(refs) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(r.life, r.opts.Timeout)
	defer cancel()
	if err := r.opts.Store.Renew(ctx, refs, r.opts.Lease); err != nil && r.life.Err() == nil {
		r.opts.Logger.Warn("renewing leases failed", "runs", len(refs), "error", err)
	}
}

// settle settles what is overdue in the store. A store that does not answer is
// the writer's business.
func (r *Record) settle() {
	if r.writer.unavailable() != nil {
		return
	}
	if err := r.settleAll(r.life); err != nil && r.life.Err() == nil {
		r.opts.Logger.Warn("settling what is overdue failed", "error", err)
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
