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

// TestProperty lets simulated sidecars live over the store. For a long run:
//
//	go test ./sessions/redis -run TestProperty -rapid.checks=10000 -rapid.steps=100
func TestProperty(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	var opened atomic.Int64
	storetest.Property(t, func(tb testing.TB, now func() time.Time) sessions.Store {
		tb.Helper()
		return open(tb, srv, redis.Options{Now: now, Prefix: fmt.Sprintf("life-%d:", opened.Add(1))})
	})
}
