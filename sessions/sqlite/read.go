package sqlite

import (
	"context"
	"database/sql"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// querier is a connection or a transaction, to read with.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// look calls do with a view of the record that does not change meanwhile.
func (s *Store) look(ctx context.Context, doing string, do func(querier) error) error {
	if s.reads == nil {
		// In memory there is one connection for all.
		if err := s.takeTurn(ctx); err != nil {
			return unavailable(doing, err)
		}
		defer s.passTurn()
		return unavailable(doing, do(s.writer.conn))
	}
	tx, err := s.reads.BeginTx(ctx, nil)
	if err != nil {
		return unavailable(doing, err)
	}
	if err := do(tx); err != nil {
		return unavailable(doing, rolledBack(tx, err))
	}
	return unavailable(doing, tx.Commit())
}

// Trees implements [sessions.Reader].
func (s *Store) Trees(ctx context.Context, q sessions.TreeQuery) (page sessions.TreePage, err error) {
	const doing = "listing trees"
	where, args, err := treeFilter(q)
	if err != nil {
		return page, fmt.Errorf("%s: %w", doing, err)
	}
	limit := pageSize(q.Limit)
	err = s.look(ctx, doing, func(view querier) error {
		rows, err := view.QueryContext(ctx, `SELECT `+treeColumns+` FROM trees WHERE `+where+
			` ORDER BY started DESC, root DESC LIMIT ?`, append(args, limit+1)...)
		if err != nil {
			return err
		}
		return each(rows, func() error {
			t, err := scanTree(rows)
			if err != nil {
				return err
			}
			page.Trees = append(page.Trees, t.summary())
			return nil
		})
	})
	if err != nil {
		return sessions.TreePage{}, err
	}
	if len(page.Trees) > limit {
		page.Trees = page.Trees[:limit]
		page.Next = encodeCursor(&page.Trees[limit-1])
	}
	return page, nil
}

func treeFilter(q sessions.TreeQuery) (where string, args []any, err error) {
	where = "1"
	add := func(cond string, values ...any) {
		where += " AND " + cond
		args = append(args, values...)
	}
	switch q.State {
	case "":
	case lineage.TreeActive:
		add("live > 0")
	case lineage.TreeIdle:
		add("live = 0")
	default:
		add("0")
	}
	if q.Agent != "" {
		add("instr(? || agents || ?, ?) > 0", agentSep, agentSep, agentSep+q.Agent+agentSep)
	}
	if q.Text != "" {
		add("instr(root, ?) > 0", q.Text)
	}
	if q.Cursor != "" {
		started, root, err := decodeCursor(q.Cursor)
		if err != nil {
			return "", nil, err
		}
		add("(started, root) < (?, ?)", started, root)
	}
	return where, args, nil
}

// A cursor names the last tree of the page before, so that trees which come
// and go meanwhile shift nothing.
func encodeCursor(t *lineage.Tree) string {
	return base64.RawURLEncoding.EncodeToString([]byte(strconv.FormatInt(t.StartedAt.UnixNano(), 36) + " " + t.Root))
}

func decodeCursor(cursor string) (started int64, root string, err error) {
	raw, err := base64.RawURLEncoding.DecodeString(cursor)
	if err != nil {
		return 0, "", fmt.Errorf("%w %q: %w", sessions.ErrBadCursor, cursor, err)
	}
	at, root, found := strings.Cut(string(raw), " ")
	if !found {
		return 0, "", fmt.Errorf("%w %q", sessions.ErrBadCursor, cursor)
	}
	if started, err = strconv.ParseInt(at, 36, 64); err != nil {
		return 0, "", fmt.Errorf("%w %q: %w", sessions.ErrBadCursor, cursor, err)
	}
	return started, root, nil
}

func pageSize(limit int) int {
	if limit <= 0 {
		limit = sessions.DefaultPage
	}
	return min(limit, sessions.MaxPage)
}

// lookInto is look at one tree.
func (s *Store) lookInto(ctx context.Context, root string, do func(querier, *treeRow) error) error {
	doing := "reading tree " + root
	return s.look(ctx, doing, func(q querier) error {
		t, err := scanTree(q.QueryRowContext(ctx, `SELECT `+treeColumns+` FROM trees WHERE root = ?`, root))
		if errors.Is(err, sql.ErrNoRows) {
			return fmt.Errorf("tree %s: %w", root, sessions.ErrNotFound)
		}
		if err != nil {
			return err
		}
		return do(q, t)
	})
}

// Tree implements [sessions.Reader].
func (s *Store) Tree(ctx context.Context, root string) (tree lineage.Tree, err error) {
	err = s.lookInto(ctx, root, func(_ querier, t *treeRow) error {
		tree = t.summary()
		return nil
	})
	return tree, err
}
