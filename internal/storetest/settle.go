package storetest

import (
	"context"
	"errors"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// maxSettles is how often a store may say that there is more to settle: far
// more often than anything here needs.
const maxSettles = 10_000

// settleAll settles until there is no more.
func settleAll(ctx context.Context, s sessions.Store) error {
	for range maxSettles {
		more, err := s.Settle(ctx)
		if err != nil || !more {
			return err
		}
	}
	return errors.New("there is more to settle, however often it is done")
}
