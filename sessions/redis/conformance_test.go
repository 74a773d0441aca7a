package redis_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var opened atomic.Int64
	storetest.Run(t, func(tb testing.TB, now func() time.Time) sessions.Store {
		tb.Helper()
		return open(tb, srv, redis.Options{Now: now, Prefix: fmt.Sprintf("case-%d:", opened.Add(1))})
	})
}

// TestDifferential plays random steps on the store and on the reference model.
func TestDifferential(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var opened atomic.Int64
	fresh := func(tb testing.TB, now func() time.Time) sessions.Store {
		tb.Helper()
		// Every play has a store of its own; a prefix parts those of one server.
		return open(tb, srv, redis.Options{Now: now, Prefix: fmt.Sprintf("play-%d:", opened.Add(1))})
	}
	for _, seed := range []uint64{0, 1, 139, 180, 191, 217} {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			t.Parallel()
			storetest.Differential(t, fresh, seed, 200)
		})
	}
}

// open opens a store on srv, which is closed when tb ends.
func open(tb testing.TB, srv *redistest.Server, opts redis.Options) *redis.Store {
	tb.Helper()
	opts.URL = srv.URL()
	s, err := redis.Open(tb.Context(), opts)
	if err != nil {
		tb.Fatalf("Open(%+v): %v", opts, err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close() = %v", err)
		}
	})
	return s
}
