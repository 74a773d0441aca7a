package sqlite_test

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

func openFile(tb testing.TB, now func() time.Time) sessions.Store {
	tb.Helper()
	return open(tb, sqlite.Options{Path: filepath.Join(tb.TempDir(), "sidecar.db"), Now: now})
}

func openMemory(tb testing.TB, now func() time.Time) sessions.Store {
	tb.Helper()
	return open(tb, sqlite.Options{Path: sqlite.Memory, Now: now})
}

func TestConformance(t *testing.T) {
	t.Parallel()
	t.Run("file", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, openFile)
	})
	t.Run("memory", func(t *testing.T) {
		t.Parallel()
		storetest.Run(t, openMemory)
	})
}

func TestDifferential(t *testing.T) {
	t.Parallel()
	seeds := uint64(4)
	if testing.Short() {
		seeds = 1
	}
	for seed := range seeds {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			open := openMemory
			if seed == 0 {
				open = openFile // the rules are the same; only reading differs
			}
			storetest.Differential(t, open, seed, 150)
		})
	}
}
