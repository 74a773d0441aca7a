package sqlite

import (
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// lapseBatch is how many runs, and how many sessions, one admission settles.
const lapseBatch = 100

// lapse settles what is due in t: first the runs nobody renewed, then the
// sessions past their deadline, each in the order in which they came due.
func (b *batch) lapse(t *treeRow) error {
	if t.due.IsZero() || t.due.After(b.now) {
		return nil
	}
	runs, err := b.lapsedRuns(t)
	if err != nil {
		return err
	}
	for _, r := range runs {
		s, err := b.session(t, r.session)
		if err != nil {
			return err
		}
		err = b.tell(t, s, r, &sessions.Progress{Gen: r.gen, State: lineage.Failed, Reason: lineage.ReasonLost})
		if err != nil {
			return err
		}
	}
	due, err := b.dueSessions(t)
	if err != nil {
		return err
	}
	for _, s := range due {
		end := sessions.EndPayload{State: lineage.Expired}
		if err := b.endSession(t, s, nil, lineage.EventExpired, end, origin{turn: s.Turn}); err != nil {
			return err
		}
	}
	return b.lookAhead(t)
}

// lapsedRuns returns the active runs of t whose lease is over.
func (b *batch) lapsedRuns(t *treeRow) ([]*runRow, error) {
	places, err := b.places(`SELECT session, n FROM runs WHERE tree = ? AND lease <= ? ORDER BY lease, id LIMIT ?`,
		t.no, b.now.UnixNano(), lapseBatch)
	if err != nil {
		return nil, fmt.Errorf("looking for lapsed runs of tree %s: %w", t.Root, err)
	}
	return b.runsAt(t, places)
}

// waitingRuns returns the suspended runs of s.
func (b *batch) waitingRuns(t *treeRow, s *sessionRow) ([]*runRow, error) {
	if s.waiting == 0 {
		return nil, nil
	}
	places, err := b.places(`SELECT session, n FROM runs WHERE tree = ? AND session = ? AND state = 'suspended' ORDER BY n`, t.no, s.n)
	if err != nil {
		return nil, fmt.Errorf("looking for waiting runs of session %s: %w", s.ID, err)
	}
	return b.runsAt(t, places)
}

// dueSessions returns the idle sessions of t that are past their deadline.
func (b *batch) dueSessions(t *treeRow) ([]*sessionRow, error) {
	places, err := b.places(`SELECT n, 0 FROM sessions WHERE tree = ? AND due <= ? ORDER BY due, id LIMIT ?`,
		t.no, b.now.UnixNano(), lapseBatch)
	if err != nil {
		return nil, fmt.Errorf("looking for expired sessions of tree %s: %w", t.Root, err)
	}
	due := make([]*sessionRow, len(places))
	for i, at := range places {
		if due[i], err = b.session(t, at[0]); err != nil {
			return nil, err
		}
	}
	return due, nil
}

// lookAhead finds when something in t may lapse next.
func (b *batch) lookAhead(t *treeRow) error {
	if err := b.flush(); err != nil {
		return err
	}
	next, err := one(b, func(row scanner) (*int64, error) {
		var next int64
		return &next, row.Scan(&next)
	}, `SELECT ifnull(min(at), 0) FROM (
			SELECT min(lease) AS at FROM runs WHERE tree = ?1 AND lease IS NOT NULL
			UNION ALL SELECT min(due) FROM sessions WHERE tree = ?1 AND due IS NOT NULL)`, t.no)
	if err != nil {
		return fmt.Errorf("looking for what lapses next in tree %s: %w", t.Root, err)
	}
	t.due = time.Time{}
	if *next != 0 {
		t.due = fromNanos(*next)
	}
	b.touchTree(t)
	return nil
}

// places lists pairs of numbers. It writes what has changed first, since the
// file alone can be searched.
func (b *batch) places(query string, args ...any) ([][2]int, error) {
	if err := b.flush(); err != nil {
		return nil, err
	}
	st, err := b.stmt(b.ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(b.ctx, args...)
	if err != nil {
		return nil, err
	}
	var found [][2]int
	err = each(rows, func() error {
		var at [2]int
		if err := rows.Scan(&at[0], &at[1]); err != nil {
			return err
		}
		found = append(found, at)
		return nil
	})
	return found, err
}

func (b *batch) runsAt(t *treeRow, places [][2]int) ([]*runRow, error) {
	runs := make([]*runRow, len(places))
	for i, at := range places {
		var err error
		if runs[i], err = b.run(t, runPlace{t.no, at[0], at[1]}); err != nil {
			return nil, err
		}
	}
	return runs, nil
}
