package sqlite

import (
	"context"
	"slices"
	"strings"
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
