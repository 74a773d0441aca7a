package sqlite

import (
	"context"
	"errors"
	"fmt"
)

// sweepChunk is how many rows of a kind one transaction of a sweep touches, so
// that calls wait for a sweep no longer than for a busy batch.
const sweepChunk = 500

// Sweep tidies up, and is to be called now and then. It settles what is due, and
// drops the trees whose last event is longer ago than Options.Retain, but none
// in which a run is under way. It returns how many trees it dropped.
func (s *Store) Sweep(ctx context.Context) (dropped int, err error) {
	for more := true; more; {
		var err error
		if more, err = s.Settle(ctx); err != nil {
			return 0, err
		}
	}
	if s.retain > 0 {
		for more := true; more && err == nil; {
			var n int
			n, more, err = s.dropIdle(ctx)
			dropped += n
		}
		if err == nil {
			err = s.dropClaims(ctx)
		}
	}
	if dropped > 0 {
		s.log.InfoContext(ctx, "old trees dropped", "trees", dropped)
	}
	// What an earlier sweep did not get to is removed now, too.
	return dropped, errors.Join(err, s.clear(ctx))
}

// idleTree finds a tree that may go.
const idleTree = `SELECT root FROM trees WHERE hour <= ? AND last_event <= ?
	AND NOT EXISTS (SELECT 1 FROM runs INDEXED BY runs_going WHERE tree = no AND ended IS NULL AND lease IS NOT NULL) LIMIT ?`

// dropIdle takes some trees that may go out of sight. Their rows go later.
func (s *Store) dropIdle(ctx context.Context) (dropped int, more bool, err error) {
	const chunk = 50
	err = s.transact(ctx, "dropping old trees", func(b *batch) error {
		limit := b.now.Add(-s.retain)
		roots, err := texts(b, idleTree, limit.Unix()/3600, limit.UnixNano(), chunk)
		if err != nil {
			return err
		}
		for _, root := range roots {
			if err := b.drop(root); err != nil {
				return fmt.Errorf("tree %s: %w", root, err)
			}
		}
		dropped, more = len(roots), len(roots) == chunk
		return nil
	})
	return dropped, more, err
}

// drop takes a tree out of sight, and lets go of what was claimed for it.
func (b *batch) drop(root string) error {
	t, err := b.tree(root)
	if err != nil {
		return err
	}
	if err := b.exec(`DELETE FROM bindings WHERE root = ? AND claimed IS NOT NULL`, root); err != nil {
		return err
	}
	if err := b.exec(`DELETE FROM trees WHERE no = ?`, t.no); err != nil {
		return err
	}
	if err := b.exec(`INSERT INTO dropped (no) VALUES (?)`, t.no); err != nil {
		return err
	}
	b.trees.drop(root)
	b.agenda.forget(t.no)
	return nil
}

// dropClaims lets go of old claims whose tree never came to be. It looks at a
// chunk of all claims and goes on from there the next time.
func (s *Store) dropClaims(ctx context.Context) error {
	return s.transact(ctx, "dropping old claims", func(b *batch) error {
		roots, err := texts(b, `SELECT DISTINCT root FROM bindings WHERE claimed IS NOT NULL AND root > ? ORDER BY root LIMIT ?`,
			s.swept, sweepChunk)
		if err != nil {
			return err
		}
		s.swept = ""
		if len(roots) == sweepChunk {
			s.swept = roots[len(roots)-1]
		}
		for _, root := range roots {
			t, err := b.tree(root)
			if err != nil {
				return err
			}
			if t != nil {
				continue
			}
			err = b.exec(`DELETE FROM bindings WHERE root = ? AND claimed IS NOT NULL AND claimed <= ?`,
				root, b.now.Add(-s.retain).UnixNano())
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// clear removes the rows of trees that are out of sight, a chunk at a time.
func (s *Store) clear(ctx context.Context) error {
	for {
		done := false
		err := s.transact(ctx, "removing old trees", func(b *batch) error {
			no, err := one(b, func(row scanner) (*int64, error) {
				var no int64
				return &no, row.Scan(&no)
			}, `SELECT no FROM dropped LIMIT 1`)
			if err != nil {
				return err
			}
			if no == nil {
				done = true
				b.forget()
				return nil
			}
			return b.clearChunk(*no)
		})
		if err != nil || done {
			return err
		}
	}
}

// clearChunk removes some rows of a tree, and its number with the last of them.
func (b *batch) clearChunk(no int64) error {
	for _, step := range [...][]string{
		{ // Runs and sessions lead to bindings, which have no index of their own.
			`DELETE FROM bindings WHERE tree = ?1 AND (kind, id, agent) IN (
				SELECT '` + keyTask + `', r.task, s.agent
				FROM (SELECT session, task FROM runs WHERE tree = ?1 ORDER BY session, n LIMIT ?2) r
				JOIN sessions s ON s.tree = ?1 AND s.n = r.session)`,
			`DELETE FROM runs WHERE tree = ?1 AND (session, n) IN (SELECT session, n FROM runs WHERE tree = ?1 ORDER BY session, n LIMIT ?2)`,
		},
		{
			`DELETE FROM bindings WHERE tree = ?1 AND (kind, id, agent) IN (
				SELECT '` + keyContext + `', context, agent FROM sessions WHERE tree = ?1 ORDER BY n LIMIT ?2)`,
			`DELETE FROM sessions WHERE tree = ?1 AND n IN (SELECT n FROM sessions WHERE tree = ?1 ORDER BY n LIMIT ?2)`,
		},
		{ // So do the keys of what the tree had under ids of others.
			`DELETE FROM bindings WHERE tree = ?1 AND (kind, id, agent) IN (
				SELECT kind, id, agent FROM keys WHERE tree = ?1 ORDER BY kind, agent, id LIMIT ?2)`,
			`DELETE FROM keys WHERE tree = ?1 AND (kind, agent, id) IN (
				SELECT kind, agent, id FROM keys WHERE tree = ?1 ORDER BY kind, agent, id LIMIT ?2)`,
		},
		{`DELETE FROM events WHERE key IN (SELECT key FROM events WHERE key > ?1 << 32 AND key < (?1 + 1) << 32 LIMIT ?2)`},
		{`DELETE FROM turns WHERE tree = ?1 AND turn IN (SELECT turn FROM turns WHERE tree = ?1 LIMIT ?2)`},
	} {
		left := int64(0)
		for _, query := range step {
			var err error
			if left, err = b.change(query, no, sweepChunk); err != nil {
				return err
			}
		}
		if left > 0 {
			return nil // the next step once this one is done
		}
	}
	if err := b.exec(`DELETE FROM cascades WHERE tree = ?`, no); err != nil {
		return err
	}
	return b.exec(`DELETE FROM dropped WHERE no = ?`, no)
}

// texts lists a column.
func texts(b *batch, query string, args ...any) ([]string, error) {
	st, err := b.stmt(b.ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(b.ctx, args...)
	if err != nil {
		return nil, err
	}
	var all []string
	err = each(rows, func() error {
		var text string
		if err := rows.Scan(&text); err != nil {
			return err
		}
		all = append(all, text)
		return nil
	})
	return all, err
}
