package storetest

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// generous is a store that now and then has a place more than it should.
type generous struct {
	*Model
	asked atomic.Int64
}

func (g *generous) Apply(ctx context.Context, ops []*sessions.Op) {
	for _, op := range ops {
		if op.Admit != nil && op.Admit.Limits.MaxChildren > 0 && g.asked.Add(1)%3 == 0 {
			op.Admit.Limits.MaxChildren++
		}
	}
	g.Model.Apply(ctx, ops)
}

// The test of the test: a store that is wrong once in a while is found out.
func TestLinearizableFindsOneTooMany(t *testing.T) {
	t.Parallel()
	for round := range 50 {
		broken := &generous{Model: NewModel(time.Now)}
		history, err := record(t.Context(), []sessions.Store{broken}, "root")
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		if porcupine.CheckOperationsTimeout(places, history, linearTime) == porcupine.Illegal {
			return
		}
	}
	t.Error("50 histories of a store that admits one too many look as if it did not")
}
