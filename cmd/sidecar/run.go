package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

const (
	drainTime = 10 * time.Second // that calls under way get once the sidecar is told to stop
	sweepTime = time.Minute      // between looks for trees past retain; what is due within one is the record's concern
)

// errStopping is the cause of the end of calls that were still under way when
// the drain time had passed.
var errStopping = errors.New("the sidecar is stopping")

// Run serves until ctx ends or a listener fails, then lets calls that are
// under way go on for a while, cuts what is left of them, and releases
// everything. That calls had to be cut is no error.
func (a *app) Run(ctx context.Context) error {
	ctx, told := context.WithoutCancel(ctx), ctx.Done()
	calls, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	var g errgroup.Group
	ports := a.callPorts()
	failed := make(chan struct{}, len(ports)+1)
	serve := func(e *endpoint, base context.Context) {
		e.server.BaseContext = func(net.Listener) context.Context { return base }
		g.Go(func() error {
			err := e.server.Serve(e.listener)
			if errors.Is(err, http.ErrServerClosed) {
				return nil
			}
			failed <- struct{}{}
			return err
		})
	}
	for _, port := range ports {
		serve(port, calls)
	}
	serve(a.admin, ctx)
	sweeping, stopSweeping := context.WithCancel(ctx)
	defer stopSweeping()
	if s, ok := a.store.(sweeper); ok {
		g.Go(func() error { a.sweep(sweeping, s); return nil })
	}
	select {
	case <-told:
	case <-failed:
	}
	a.stopping.Store(true)
	a.log.Info("stopping", "open_runs", a.record.Open(), "calls", a.calls.count(), "drain", a.drain.String())
	stopSweeping()
	// The admin port goes last: until then /readyz says that this one is stopping.
	errs := []error{a.drainCalls(ctx, abort), a.closeAdmin(ctx)}
	errs = append(errs, g.Wait(), a.release(ctx))
	return errors.Join(errs...)
}

// drainCalls closes the ports that calls come by, and returns when none is under
// way any more and the record has been told of the ends of all.
func (a *app) drainCalls(ctx context.Context, abort context.CancelCauseFunc) error {
	drain, cancel := context.WithTimeout(ctx, a.drain)
	defer cancel()
	ports := a.callPorts()
	var g errgroup.Group
	for _, port := range ports {
		g.Go(func() error { return port.server.Shutdown(drain) })
	}
	err := g.Wait()
	if err == nil {
		err = a.calls.wait(drain) // upgraded connections are not the server's
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	if cut := a.calls.count(); cut > 0 {
		a.log.Warn("calls cut: they were still under way when the drain time had passed", "calls", cut)
	}
	abort(errStopping)
	var errs []error
	for _, port := range ports {
		errs = append(errs, port.server.Close())
	}
	err = errors.Join(errs...)
	flush, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	if stuck := a.calls.wait(flush); stuck != nil {
		err = errors.Join(err, fmt.Errorf("cutting calls: %d do not end: %w", a.calls.count(), stuck))
	}
	return err
}

func (a *app) closeAdmin(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, flushTime)
	defer cancel()
	err := a.admin.server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		return a.admin.server.Close()
	}
	return err
}

// underWay knows how many requests some handlers are working on. A
// [sync.WaitGroup] would not do: requests may come while somebody waits.
type underWay struct {
	mu   sync.Mutex // guards the fields below
	n    int
	none chan struct{} // closed when n falls to 0; nil if nobody waits for that
}

// of returns h with its requests counted.
func (u *underWay) of(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u.mu.Lock()
		u.n++
		u.mu.Unlock()
		defer func() {
			u.mu.Lock()
			defer u.mu.Unlock()
			u.n--
			if u.n == 0 && u.none != nil {
				close(u.none)
				u.none = nil
			}
		}()
		h.ServeHTTP(w, r)
	})
}

func (u *underWay) count() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.n
}

// wait returns nil once no request is under way, or what ended ctx.
func (u *underWay) wait(ctx context.Context) error {
	u.mu.Lock()
	if u.n == 0 {
		u.mu.Unlock()
		return nil
	}
	if u.none == nil {
		u.none = make(chan struct{})
	}
	none := u.none
	u.mu.Unlock()
	select {
	case <-none:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// sweeper is a store that must be told to drop what has outlived its time.
type sweeper interface {
	Sweep(ctx context.Context) (dropped int, err error)
}

func (a *app) sweep(ctx context.Context, s sweeper) {
	tick := time.NewTicker(sweepTime)
	defer tick.Stop()
	for {
		if n, err := s.Sweep(ctx); err != nil && ctx.Err() == nil {
			a.log.Warn("dropping old trees failed", "error", err)
		} else if n > 0 {
			a.log.Info("old trees dropped", "trees", n)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
