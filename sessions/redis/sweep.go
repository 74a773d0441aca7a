package redis

import (
	"context"
)

// sweepChunk is how many trees a sweep looks at: the newest, which a sidecar
// that died is likeliest to have left calls in, and as many of the others, by
// turns.
const sweepChunk = 500

// Sweep looks at some of the trees for what is overdue in them, and puts those in
// which something will be on the list that Settle goes by: a crash or a fail-over
// may have kept them off it. Trees that have outlived Retain the server
// drops by itself, so dropped is always 0. Any number of sidecars may sweep at
// once.
func (s *Store) Sweep(ctx context.Context) (dropped int, err error) {
	if err := s.sweep(ctx, 0); err != nil {
		return 0, err
	}
	total, err := s.client.ZCard(ctx, s.keys.trees()).Result()
	if err != nil {
		return 0, fault("counting the trees", err)
	}
	from := s.swept.Add(sweepChunk)
	if from >= total {
		s.swept.Store(0)
		return 0, nil
	}
	return 0, s.sweep(ctx, from)
}

// sweep settles what is overdue in a piece of the list of trees, newest first.
func (s *Store) sweep(ctx context.Context, from int64) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	roots, err := s.client.ZRevRange(ctx, s.keys.trees(), from, from+sweepChunk-1).Result()
	if err != nil {
		return fault("reading the list of trees", err)
	}
	_, err = s.lapse(ctx, roots, false)
	return err
}
