package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// claimFirst claims an id for a tree, unless it belongs to one that is still
// there, or is claimed.
const claimFirst = `INSERT INTO bindings (kind, id, agent, tree, session, run, caller, root, principal, claimed)
	VALUES (?, ?, ?, 0, 0, 0, 0, ?, ?, ?)
	ON CONFLICT DO UPDATE SET tree = 0, session = 0, run = 0, caller = 0,
		root = excluded.root, principal = excluded.principal, claimed = excluded.claimed
	WHERE bindings.tree IN (SELECT no FROM dropped)`

const findBinding = `SELECT ifnull(b.root, t.root), ifnull(b.principal, t.principal) FROM bindings b LEFT JOIN trees t ON t.no = b.tree
	WHERE b.kind = ? AND b.id = ? AND b.agent = ? AND (b.claimed IS NOT NULL OR t.no IS NOT NULL)`

func scanBinding(row scanner) (*sessions.Binding, error) {
	var b sessions.Binding
	return &b, row.Scan(&b.Root, &b.Principal)
}

// Find implements [sessions.Store].
func (s *Store) Find(ctx context.Context, key sessions.BindingKey) (found sessions.Binding, err error) {
	doing := fmt.Sprintf("finding %s %s of agent %s", key.Kind, key.ID, key.Agent)
	err = s.look(ctx, doing, func(q querier) error {
		b, err := scanBinding(q.QueryRowContext(ctx, findBinding, bindingKind(key.Kind), key.ID, key.Agent))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("%s: %w", doing, sessions.ErrNotFound)
		}
		found = *b
		return err
	})
	return found, err
}

// Claim implements [sessions.Store].
func (s *Store) Claim(ctx context.Context, key sessions.BindingKey, mine sessions.Binding) (held sessions.Binding, err error) {
	doing := fmt.Sprintf("claiming %s %s of agent %s", key.Kind, key.ID, key.Agent)
	err = s.transact(ctx, doing, func(b *batch) error {
		err := b.exec(claimFirst, bindingKind(key.Kind), key.ID, key.Agent, mine.Root, mine.Principal, b.now.UnixNano())
		if err != nil {
			return err
		}
		holder, err := one(b, scanBinding, findBinding, bindingKind(key.Kind), key.ID, key.Agent)
		if err == nil && holder == nil {
			err = sql.ErrNoRows
		}
		if err == nil {
			held = *holder
		}
		return err
	})
	return held, err
}

// Unclaim implements [sessions.Store].
func (s *Store) Unclaim(ctx context.Context, key sessions.BindingKey, mine sessions.Binding) error {
	doing := fmt.Sprintf("giving back %s %s of agent %s", key.Kind, key.ID, key.Agent)
	return s.transact(ctx, doing, func(b *batch) error {
		t, err := b.tree(mine.Root)
		if err != nil {
			return err
		}
		if t != nil {
			if k, err := b.lookUp(t, bindingKind(key.Kind), key.Agent, key.ID); err != nil || k != nil {
				return err
			}
		}
		return b.exec(`DELETE FROM bindings WHERE kind = ? AND id = ? AND agent = ? AND claimed IS NOT NULL AND root = ? AND principal = ?`,
			bindingKind(key.Kind), key.ID, key.Agent, mine.Root, mine.Principal)
	})
}

// Secret implements [sessions.Store].
func (s *Store) Secret(ctx context.Context) (secret []byte, err error) {
	const doing, query = "reading the key of context ids", `SELECT value FROM meta WHERE name = 'secret'`
	err = s.look(ctx, doing, func(q querier) error {
		err := q.QueryRowContext(ctx, query).Scan(&secret)
		if errors.Is(err, sql.ErrNoRows) {
			return nil
		}
		return err
	})
	if err != nil || secret != nil {
		return secret, err
	}
	fresh := make([]byte, contextid.KeySize)
	rand.Read(fresh) // never fails (crypto/rand)
	err = s.transact(ctx, doing, func(b *batch) error {
		if err := b.exec(`INSERT INTO meta (name, value) VALUES ('secret', ?) ON CONFLICT DO NOTHING`, fresh); err != nil {
			return err
		}
		kept, err := one(b, func(row scanner) (*[]byte, error) { return &secret, row.Scan(&secret) }, query)
		if err == nil && kept == nil {
			err = sql.ErrNoRows
		}
		return err
	})
	return secret, err
}

// Renew implements [sessions.Store].
func (s *Store) Renew(ctx context.Context, runs []sessions.RunRef, lease time.Duration) error {
	return s.transact(ctx, "renewing leases", func(b *batch) error {
		for _, ref := range runs {
			t, err := b.tree(ref.Root)
			if err != nil {
				return err
			}
			if t == nil {
				continue
			}
			r, err := b.runByID(t, ref.Run)
			if err != nil {
				return err
			}
			if r == nil || r.State.Terminal() {
				continue
			}
			s, err := b.session(t, r.session)
			if err != nil {
				return err
			}
			if s.Ending != "" {
				b.noticeCancels(t, s, r) // whoever holds it may have missed that
			}
			if r.State == lineage.Active && !r.detached && ref.Gen <= r.gen && r.lease.After(b.now) {
				b.holdFor(t, s, r, lease)
			}
		}
		return nil
	})
}
