package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Events implements [sessions.Reader].
func (s *Store) Events(ctx context.Context, root string, q sessions.EventQuery) (page sessions.EventPage, err error) {
	err = s.lookInto(ctx, root, func(view querier, t *treeRow) error {
		page, err = readEvents(ctx, view, t, q)
		return err
	})
	if err != nil {
		return sessions.EventPage{}, err
	}
	return page, nil
}

// eventsRead is how much of a log one page is looked for in, however little of
// it is selected: what a page costs does not grow with the log.
const eventsRead = 20 * sessions.MaxPage

func readEvents(ctx context.Context, view querier, t *treeRow, q sessions.EventQuery) (page sessions.EventPage, err error) {
	to := t.seq
	if q.LastN == 0 {
		to = min(to, q.After+eventsRead)
	}
	page.Next = max(q.After, to)
	if q.After >= t.seq {
		return page, nil
	}
	query, args := `SELECT e.key, e.id, e.time, e.type, s.id, s.branch, e.tokens, e.turn, e.trace, e.payload
		FROM events e CROSS JOIN sessions s ON s.tree = ? AND s.n = e.session WHERE e.key > ? AND e.key <= ?`,
		[]any{t.no, eventKey(t.no, q.After), eventKey(t.no, to)}
	if q.Session != "" {
		var n int
		row := view.QueryRowContext(ctx, `SELECT n FROM sessions WHERE id = ? AND tree = ?`, q.Session, t.no)
		if err := row.Scan(&n); errors.Is(err, sql.ErrNoRows) {
			return page, nil
		} else if err != nil {
			return page, err
		}
		query += ` AND e.session = ?`
		args = append(args, n)
	}
	if len(q.Types) > 0 {
		query += ` AND e.type IN (?` + strings.Repeat(", ?", len(q.Types)-1) + `)`
		for _, typ := range q.Types {
			args = append(args, typ)
		}
	}
	limit, order := pageSize(q.Limit), ` ORDER BY e.key`
	if q.LastN > 0 {
		limit, order = q.LastN, ` ORDER BY e.key DESC`
	}
	rows, err := view.QueryContext(ctx, query+order, args...)
	if err != nil {
		return page, err
	}
	err = each(rows, func() error {
		e, err := scanEvent(rows)
		if err != nil || !q.Selects(&e) {
			return err
		}
		if page.Events = append(page.Events, e); len(page.Events) == limit {
			return errEnough
		}
		return nil
	})
	if err != nil && !errors.Is(err, errEnough) {
		return page, err
	}
	switch {
	case q.LastN > 0:
		slices.Reverse(page.Events)
	case err != nil: // the page is full
		page.Next = page.Events[limit-1].Seq
	}
	return page, nil
}

// errEnough ends a reading.
var errEnough = errors.New("enough")

func scanEvent(row scanner) (e lineage.Event, err error) {
	var key, at int64
	var tokens, payload string
	if err := row.Scan(&key, &e.ID, &at, &e.Type, &e.Session, &e.Branch, &tokens, &e.Turn, &e.TraceID, &payload); err != nil {
		return e, err
	}
	e.Seq, e.Time, e.Tokens = seqOf(key), fromNanos(at), lineage.ParseTokens(tokens)
	if payload != "" {
		e.Payload = json.RawMessage(payload)
	}
	return e, nil
}
