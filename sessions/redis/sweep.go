package redis

import (
	"context"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// sweepChunk is how many trees a sweep looks at: the newest, which a sidecar
// that died is likeliest to have left calls in, and as many of the others, by
// turns.
const sweepChunk = 500

// Sweep settles what is overdue in trees that no call goes to any more: the runs
// of a sidecar that died, and sessions past their time. Trees that have outlived
// Retain the server drops by itself, so dropped is always 0. Any number of
// sidecars may sweep at once.
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
	f := s.flight()
	calls := make([]*call, len(roots))
	for i, root := range roots {
		calls[i] = f.call(ctx, lapseScript, s.keys.tree(root), []any{s.clock(), millis(s.retain)})
	}
	f.send(ctx)

	b := &batch{store: s}
	op := &sessions.Op{} // bears what the writes to other slots run into
	for i, c := range calls {
		r, err := c.reply()
		if err != nil {
			op.Err = fault("settling what is overdue in tree "+roots[i], err)
			continue
		}
		b.move(op, r)
		b.upkeep(op, roots[i], r)
	}
	b.finish(ctx)
	return op.Err
}
