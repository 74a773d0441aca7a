package sqlite

import (
	"context"
	"slices"
	"strings"

	"modernc.org/sqlite"
)

// Plans returns, for each statement that the writer has run so far, the steps
// of its plan that read a whole table or index.
func (s *Store) Plans(ctx context.Context) (scans map[string][]string, err error) {
	<-s.turn
	defer s.passTurn()
	scans = map[string][]string{}
	for query := range s.writer.stmts {
		if slices.Contains([]string{"BEGIN", "COMMI", "ROLLB"}, query[:5]) {
			continue
		}
		args := make([]any, strings.Count(query, "?"))
		rows, err := s.writer.conn.QueryContext(ctx, "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			return nil, err
		}
		scans[query] = nil
		err = each(rows, func() error {
			var id, parent, unused int
			var step string
			if err := rows.Scan(&id, &parent, &unused, &step); err != nil {
				return err
			}
			if strings.HasPrefix(step, "SCAN ") {
				scans[query] = append(scans[query], step)
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return scans, nil
}

// DropIdle is the first half of a sweep: trees go out of sight, their rows stay.
func (s *Store) DropIdle(ctx context.Context) (int, error) {
	n, _, err := s.dropIdle(ctx)
	return n, err
}

// Hurried returns o for a store that moves its log all the time.
func Hurried(o Options) Options {
	o.pace = &pace{every: 8, rewind: 64, most: 128}
	return o
}

// PagesWritten is how many pages the writer has written to the log so far.
func (s *Store) PagesWritten() (int64, error) {
	<-s.turn
	defer s.passTurn()
	return pagesWritten(s.writer.conn)
}

// PagesTouched is how many pages the writer's connection has looked at so far:
// what an operation costs, without the noise of a clock. A store in memory
// reads over that connection, too.
func (s *Store) PagesTouched() (pages int, err error) {
	<-s.turn
	defer s.passTurn()
	err = s.writer.conn.Raw(func(raw any) error {
		for _, op := range []sqlite.DBStatusOp{sqlite.DBStatusCacheHit, sqlite.DBStatusCacheMiss} {
			n, _, err := raw.(sqlite.DBStatus).Status(op, false)
			if err != nil {
				return err
			}
			pages += n
		}
		return nil
	})
	return pages, err
}

// Forget makes the writer forget the rows that it remembers.
func (s *Store) Forget() {
	<-s.turn
	defer s.passTurn()
	s.writer.forget()
}

// Watchers is how many watch the store.
func (s *Store) Watchers() int {
	s.watchers.mu.Lock()
	defer s.watchers.mu.Unlock()
	return len(s.watchers.all)
}
