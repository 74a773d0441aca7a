package redistest

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// final is an error that waiting does not mend.
type final struct{ error }

// await asks again and again whether what is waited for is so, until holds
// returns nil, a final error, or has had its time.
func await(what string, every time.Duration, holds func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		err := holds(ctx)
		if err == nil {
			return nil
		}
		if end, ok := errors.AsType[final](err); ok {
			return end.error
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting until %s for %s: %w", what, startTimeout, err)
		case <-tick.C:
		}
	}
}
