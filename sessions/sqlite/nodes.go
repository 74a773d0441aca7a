package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Sessions implements [sessions.Reader].
func (s *Store) Sessions(ctx context.Context, root string, q sessions.SessionQuery) (page sessions.SessionPage, err error) {
	limit := sessions.MaxPage
	if q.Limit > 0 {
		limit = min(q.Limit, sessions.MaxPage)
	}
	err = s.lookInto(ctx, root, func(view querier, t *treeRow) error {
		// Sessions are numbered in spawn order, without gaps.
		from := min(max(q.After, 0), t.Sessions)
		to := min(from+limit, t.Sessions)
		page.Sessions, err = readSessions(ctx, view, t.no, root, from, to)
		if to < t.Sessions {
			page.Next = to
		}
		return err
	})
	if err != nil {
		return sessions.SessionPage{}, err
	}
	return page, nil
}

// Session implements [sessions.Reader].
func (s *Store) Session(ctx context.Context, id string) (found lineage.Session, err error) {
	doing := "reading session " + id
	err = s.look(ctx, doing, func(q querier) error {
		var tree int64
		var n int
		var root string
		row := q.QueryRowContext(ctx, `SELECT s.tree, s.n, t.root FROM sessions s JOIN trees t ON t.no = s.tree WHERE s.id = ?`, id)
		if err := row.Scan(&tree, &n, &root); errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("session %s: %w", id, sessions.ErrNotFound)
		} else if err != nil {
			return err
		}
		all, err := readSessions(ctx, q, tree, root, n-1, n)
		if err == nil {
			found = all[0]
		}
		return err
	})
	return found, err
}

// SessionOf implements [sessions.Reader].
func (s *Store) SessionOf(ctx context.Context, root string, key sessions.BindingKey) (found lineage.Session, err error) {
	err = s.lookInto(ctx, root, func(q querier, t *treeRow) error {
		n, err := leadsTo(ctx, q, t, key)
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("session of %s %s of agent %s in tree %s: %w", key.Kind, key.ID, key.Agent, root, sessions.ErrNotFound)
		}
		if err != nil {
			return err
		}
		row, err := scanSession(q.QueryRowContext(ctx, `SELECT `+sessionColumns+` FROM `+sessionTables+` WHERE s.tree = ? AND s.n = ?`, t.no, n))
		if err != nil {
			return err
		}
		found = row.Session
		found.Tree = root
		return nil
	})
	return found, err
}

// leadsTo returns the number of the session that an id leads to in t, as lookUp
// does for the writer. The error is sql.ErrNoRows if it leads to none.
func leadsTo(ctx context.Context, q querier, t *treeRow, key sessions.BindingKey) (n int, err error) {
	if key.Kind != sessions.BindContext && key.Kind != sessions.BindTask {
		return 0, sql.ErrNoRows
	}
	kind := bindingKind(key.Kind)
	if t.shadowed {
		row := q.QueryRowContext(ctx, `SELECT session FROM keys WHERE tree = ? AND kind = ? AND agent = ? AND id = ?`, t.no, kind, key.Agent, key.ID)
		if err := row.Scan(&n); !errors.Is(err, sql.ErrNoRows) {
			return n, err
		}
	}
	row := q.QueryRowContext(ctx, `SELECT session FROM bindings WHERE kind = ? AND id = ? AND agent = ? AND tree = ? AND session > 0`,
		kind, key.ID, key.Agent, t.no)
	return n, row.Scan(&n)
}

// newestRuns are the runs of some sessions that are shown, oldest first. A
// session counts its runs, and so knows where the newest begin.
const newestRuns = `SELECT ` + runColumns + `
	FROM sessions s CROSS JOIN runs r ON r.tree = s.tree AND r.session = s.n AND r.n > s.runs - ?
	JOIN sessions c ON c.tree = r.tree AND c.n = r.caller
	WHERE s.tree = ? AND s.n > ? AND s.n <= ? ORDER BY s.n, r.n`

// readSessions reads the sessions of a tree after one number up to another,
// with their runs.
func readSessions(ctx context.Context, q querier, tree int64, root string, after, to int) ([]lineage.Session, error) {
	rows, err := q.QueryContext(ctx, `SELECT `+sessionColumns+` FROM `+sessionTables+` WHERE s.tree = ? AND s.n > ? AND s.n <= ? ORDER BY s.n`,
		tree, after, to)
	if err != nil {
		return nil, err
	}
	var all []lineage.Session
	err = each(rows, func() error {
		s, err := scanSession(rows)
		if err != nil {
			return err
		}
		s.Tree = root
		all = append(all, s.Session)
		return nil
	})
	if err != nil {
		return nil, err
	}
	if rows, err = q.QueryContext(ctx, newestRuns, sessions.MaxRuns, tree, after, to); err != nil {
		return nil, err
	}
	return all, each(rows, func() error {
		r, err := scanRun(rows)
		if err != nil {
			return err
		}
		s := &all[r.session-after-1]
		s.Runs = append(s.Runs, r.Run)
		return nil
	})
}
