package sqlite

import (
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// How much of cascades one operation does: so many sessions are asked to stop
// or ended, and so many looked at. The next settling goes on with the rest.
const (
	cascadeActs  = 200
	cascadeLooks = 1000
)

// cascade goes down from a session that has ended, depth first, in spawn order:
// what runs there is asked to stop, what is idle ends at once, and what was
// given leave to go on is spared with all below it. Below what has ended before
// it does not go, whose own end did.
type cascade struct {
	tree  *treeRow
	asked string // trace of whoever asked for the end
	last  int    // session that it came to, from which a later one goes on; 0: none
	cut   bool   // there is more than one operation does
}

// descent is how much of cascades an operation has done.
type descent struct{ acts, looks int }

func (d *descent) full() bool { return d.acts >= cascadeActs || d.looks >= cascadeLooks }

func scanCascade(row scanner) (*cascade, error) {
	var c cascade
	return &c, row.Scan(&c.last, &c.asked)
}

// cascade does what the end of s means to those below it.
func (b *batch) cascade(t *treeRow, s *sessionRow, asked string) error {
	c := &cascade{tree: t, asked: asked}
	if err := b.below(c, s, 0); err != nil || !c.cut {
		return err
	}
	b.agenda.set(t.no, t.Root, item{kind: aCascade, session: s.n}, s.ID, b.now)
	return b.keepCascade(c, s)
}

// goOn does some more of the cascade of s.
func (b *batch) goOn(t *treeRow, s *sessionRow) error {
	c, err := one(b, scanCascade, `SELECT last, trace FROM cascades WHERE tree = ? AND session = ?`, t.no, s.n)
	if err != nil {
		return fmt.Errorf("reading the cascade of session %s: %w", s.ID, err)
	}
	if c != nil {
		c.tree = t
		if err := b.beyond(c, s); err != nil {
			return err
		}
		if c.cut {
			return b.keepCascade(c, s)
		}
	}
	b.agenda.set(t.no, t.Root, item{kind: aCascade, session: s.n}, s.ID, time.Time{})
	if err := b.exec(`DELETE FROM cascades WHERE tree = ? AND session = ?`, t.no, s.n); err != nil {
		return fmt.Errorf("ending the cascade of session %s: %w", s.ID, err)
	}
	return nil
}

func (b *batch) keepCascade(c *cascade, s *sessionRow) error {
	err := b.exec(`INSERT INTO cascades (tree, session, last, trace) VALUES (?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET last = excluded.last, trace = excluded.trace`, c.tree.no, s.n, c.last, c.asked)
	if err != nil {
		return fmt.Errorf("keeping the cascade of session %s: %w", s.ID, err)
	}
	return nil
}

// beyond goes on below s from where c came to: below that session, then beside
// and above it. Nothing new has grown before it, as nothing grows below what
// has ended or is being ended.
func (b *batch) beyond(c *cascade, s *sessionRow) error {
	if c.last == 0 {
		return b.below(c, s, 0)
	}
	at, err := b.session(c.tree, c.last)
	if err != nil {
		return err
	}
	if !at.Abandon && (!at.State.Terminal() || at.Reason == lineage.ReasonParentEnded) {
		err = b.below(c, at, 0)
	}
	for at.n != s.n && !c.cut && err == nil {
		n := at.n
		if at, err = b.session(c.tree, at.parent); err == nil {
			err = b.below(c, at, n)
		}
	}
	return err
}

// below visits what hangs below s, leaving out its children up to the one
// numbered after.
func (b *batch) below(c *cascade, s *sessionRow, after int) error {
	for s.going > 0 {
		children, err := b.goingChildren(c.tree, s, after)
		if err != nil || len(children) == 0 {
			return err
		}
		for _, after = range children {
			if b.descent.full() {
				c.cut = true
				return nil
			}
			child, err := b.session(c.tree, after)
			if err != nil {
				return err
			}
			c.last = child.n
			b.descent.looks++
			if child.Abandon {
				continue
			}
			over := child.State.Terminal()
			if err := b.orphan(c, child); err != nil {
				return err
			}
			if over {
				continue
			}
			if err := b.below(c, child, 0); err != nil || c.cut {
				return err
			}
		}
	}
	return nil
}

// orphan is what the end of its parent means to a session.
func (b *batch) orphan(c *cascade, s *sessionRow) error {
	by := origin{s.Turn, c.asked}
	if s.busy() {
		if s.Ending == "" {
			b.descent.acts++
		}
		return b.askToStop(c.tree, s, lineage.ReasonOrphaned, by)
	}
	b.descent.acts++
	return b.finish(c.tree, s, nil, sessions.EndPayload{State: lineage.Expired, Reason: lineage.ReasonParentEnded}, by)
}

// goingChildren returns the numbers of some children of s that are unfinished,
// from after on, in spawn order: none when there are no more.
func (b *batch) goingChildren(t *treeRow, s *sessionRow, after int) ([]int, error) {
	// Left alone, SQLite would go through all sessions of the tree.
	places, err := b.places(`SELECT n, 0 FROM sessions INDEXED BY sessions_going
		WHERE tree = ? AND parent = ? AND n > ? AND (ended IS NULL OR open > 0) AND n > 1 ORDER BY n LIMIT ?`, t.no, s.n, after, cascadeActs+1)
	if err != nil {
		return nil, fmt.Errorf("looking for the children of session %s: %w", s.ID, err)
	}
	children := make([]int, len(places))
	for i, at := range places {
		children[i] = at[0]
	}
	return children, nil
}
