package sqlite_test

import (
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
)

// TestProperty lets simulated sidecars live over the store. For a long run:
//
//	go test ./sessions/sqlite -run TestProperty -rapid.checks=10000 -rapid.steps=100
func TestProperty(t *testing.T) {
	t.Parallel()
	storetest.Property(t, openMemory)
}
