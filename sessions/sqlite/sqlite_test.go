package sqlite_test

import (
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// open opens a store that is closed when the test ends.
func open(tb testing.TB, opts sqlite.Options) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), opts)
	if err != nil {
		tb.Fatalf("Open(%s): %v", opts.Path, err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("Close(): %v", err)
		}
	})
	return s
}
