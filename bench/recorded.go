package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// recorded is how many whole calls a store takes down, and the processor time of
// one in this process, which tells more where the machine has other work; zero
// where the system does not tell.
type recorded struct {
	How       string  `json:"how"`
	PerSecond float64 `json:"perSecond"`
	CPU       float64 `json:"cpuMicros"`
}

// measureRecorded records calls in SQLite files: straight in batches, and
// through the record by callers that wait for their admissions.
func measureRecorded(ctx context.Context, short bool) (all []recorded, err error) {
	dir, err := os.MkdirTemp("", "a2a-bench-")
	if err != nil {
		return nil, fmt.Errorf("making a directory: %w", err)
	}
	defer closing(&err, func() error { return os.RemoveAll(dir) })
	length := 5 * time.Second
	if short {
		length = 1500 * time.Millisecond
	}
	for _, m := range []struct {
		how string
		do  func(ctx context.Context, s sessions.Store, until time.Time) (int, error)
	}{
		{"the store, batches of 16", batches(8)},
		{"the store, batches of 128", batches(64)},
		{"the record over it, 64 callers", callers(64)},
	} {
		r, err := inSQLite(ctx, filepath.Join(dir, fmt.Sprintf("%d.db", len(all))), length, m.do)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.how, err)
		}
		r.How = m.how
		all = append(all, r)
	}
	return all, nil
}

func inSQLite(ctx context.Context, file string, length time.Duration, do func(context.Context, sessions.Store, time.Time) (int, error)) (r recorded, err error) {
	s, err := sqlite.Open(ctx, sqlite.Options{Path: file})
	if err != nil {
		return r, err
	}
	defer closing(&err, s.Close)
	before, berr := cpuTime(os.Getpid())
	began := time.Now()
	n, err := do(ctx, s, began.Add(length))
	r.PerSecond = float64(n) / time.Since(began).Seconds()
	if after, aerr := cpuTime(os.Getpid()); aerr == nil && berr == nil {
		r.CPU = float64((after - before).Microseconds()) / float64(n)
	}
	return r, err
}

// treeSize is how many calls share a root context: the fan-out of one conversation.
const treeSize = 11

// batches applies calls as the record's writer does under load: the ends of n
// calls beside the admissions of the next n.
func batches(n int) func(context.Context, sessions.Store, time.Time) (int, error) {
	return func(ctx context.Context, s sessions.Store, until time.Time) (made int, err error) {
		var last []*sessions.Op
		for time.Now().Before(until) {
			next := make([]*sessions.Op, n)
			for i := range next {
				next[i] = admit(fmt.Sprintf("recorded-%d", (made+i)/treeSize), 0)
			}
			if err := apply(ctx, s, append(ends(last), next...)); err != nil {
				return made, err
			}
			last = next
			made += n
		}
		return made, apply(ctx, s, ends(last))
	}
}

// callers has n callers make calls without pause.
func callers(n int) func(context.Context, sessions.Store, time.Time) (int, error) {
	return func(ctx context.Context, s sessions.Store, until time.Time) (made int, err error) {
		rec, err := newRecord(ctx, s)
		if err != nil {
			return 0, err
		}
		var done atomic.Int64
		errs := make([]error, n)
		var all sync.WaitGroup
		for i := range n {
			all.Go(func() {
				for k := 0; time.Now().Before(until) && errs[i] == nil; k++ {
					if errs[i] = record(ctx, rec, fmt.Sprintf("recorded-%d-%d", i, k/treeSize)); errs[i] == nil {
						done.Add(1)
					}
				}
			})
		}
		all.Wait()
		errs = append(errs, rec.Close(ctx)) // writes what is pending
		return int(done.Load()), errors.Join(errs...)
	}
}
