package storetest_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

func openModel(_ testing.TB, now func() time.Time) sessions.Store { return storetest.NewModel(now) }

func TestModel(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openModel)
}

// The model against itself: what it does is consistent at every step of many
// random lives, and the steps are played twice alike.
func TestDifferential(t *testing.T) {
	t.Parallel()
	for seed := range uint64(10) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			storetest.Differential(t, openModel, seed, 120)
		})
	}
}

func TestProperty(t *testing.T) {
	t.Parallel()
	storetest.Property(t, openModel)
}

func TestLinearizable(t *testing.T) {
	t.Parallel()
	storetest.Linearizable(t, storetest.NewModel(time.Now))
}
