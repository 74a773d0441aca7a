package sqlite

import (
	"context"
	"errors"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

const (
	// settleBatch is how many things of a kind one admission settles in its tree.
	settleBatch = 100
	// settleTurn is how many things one transaction of Settle settles before it
	// gives way to calls, or somewhat more: trees are settled one by one.
	settleTurn = 200
	// settleTurns is how many transactions one Settle makes.
	settleTurns = 10
)

// Settle implements [sessions.Store].
func (s *Store) Settle(ctx context.Context) (more bool, err error) {
	for range settleTurns {
		err := s.transact(ctx, "settling what is due", func(b *batch) (err error) {
			more, err = b.settleSome()
			return err
		})
		if err != nil || !more {
			return false, err
		}
	}
	return true, nil
}

// settleSome settles what is due in any tree, up to settleTurn things. more
// says that there is more.
func (b *batch) settleSome() (more bool, err error) {
	for settled := 0; settled < settleTurn; {
		root, found := b.agenda.dueTree(b.now)
		if !found {
			return false, nil
		}
		t, err := b.tree(root)
		if err != nil {
			return false, err
		}
		if t == nil {
			return false, errors.New("the agenda has a tree that is not there: " + root)
		}
		b.descent = descent{}
		n, err := b.settle(t)
		if err != nil {
			return false, err
		}
		settled += n
	}
	_, more = b.agenda.dueTree(b.now)
	return more, nil
}

// settle settles what is due in t: first the runs that nobody renewed, then the
// sessions whose time is over, each in the order in which they came due, then
// the cascades that are to go on. It returns how many things those were.
func (b *batch) settle(t *treeRow) (settled int, err error) {
	for kind, settle := range [kinds]func(*treeRow, item) error{b.lose, b.endDue, b.continueCascade} {
		for range settleBatch {
			what, found := b.agenda.due(t.no, kind, b.now)
			if !found || kind == aCascade && b.descent.full() {
				break
			}
			if err := settle(t, what); err != nil {
				return settled, err
			}
			settled++
		}
	}
	return settled + b.descent.acts, nil
}

// lose ends a run that nobody holds any more, and with the last one its
// session: the sidecar that had it is gone. What waits outlives that.
func (b *batch) lose(t *treeRow, what item) error {
	s, err := b.session(t, what.session)
	if err != nil {
		return err
	}
	r, err := b.run(t, runPlace{t.no, what.session, what.n})
	if err != nil {
		return err
	}
	by := origin{turn: r.turn}
	end := sessions.EndPayload{Run: r.ID, State: lineage.Failed, Reason: lineage.ReasonLost}
	if s.n == rootN || s.State.Terminal() || s.open > 1 || s.waiting > 0 {
		return b.endRun(t, s, r, end, by)
	}
	return b.endSession(t, s, r, end, by, "")
}

func (b *batch) endDue(t *treeRow, what item) error {
	s, err := b.session(t, what.session)
	if err != nil {
		return err
	}
	return b.timeIsUp(t, s)
}

func (b *batch) continueCascade(t *treeRow, what item) error {
	s, err := b.session(t, what.session)
	if err != nil {
		return err
	}
	return b.goOn(t, s)
}
