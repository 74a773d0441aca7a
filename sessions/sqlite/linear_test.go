package sqlite_test

import (
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
)

// One process has the file, and one handle on it: what is told to many clients
// at once could have been told to them one by one.
func TestLinearizable(t *testing.T) {
	t.Parallel()
	storetest.Linearizable(t, openFile(t, time.Now))
}
