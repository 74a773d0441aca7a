package storetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

func TestZZ(t *testing.T) {
	for name, open := range map[string]storetest.Open{
		"sqlite": func(tb testing.TB, now func() time.Time) sessions.Store {
			s, err := sqlite.Open(tb.Context(), sqlite.Options{Path: sqlite.Memory, Now: now})
			if err != nil { tb.Fatal(err) }
			tb.Cleanup(func() { s.Close() })
			return s
		},
		"redis": func(tb testing.TB, now func() time.Time) sessions.Store {
			s, err := redis.Open(tb.Context(), redis.Options{URL: redistest.Start(tb).URL(), Now: now})
			if err != nil { tb.Fatal(err) }
			tb.Cleanup(func() { s.Close() })
			return s
		},
	} {
		for seed := range 80 {
			t.Run(fmt.Sprint(name, seed), func(t *testing.T) { storetest.Differential(t, open, uint64(seed), 200) })
		}
	}
}
