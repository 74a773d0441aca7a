package sqlite

import (
	"database/sql"
	"fmt"
)

// tree returns the tree of root, nil if there is none.
func (b *batch) tree(root string) (*treeRow, error) {
	if t, ok := b.trees.get(root); ok {
		return t, nil
	}
	t, err := one(b, scanTree, `SELECT `+treeColumns+` FROM trees WHERE root = ?`, root)
	if err != nil {
		return nil, fmt.Errorf("reading tree %s: %w", root, err)
	}
	if t != nil {
		b.trees.put(root, t)
	}
	return t, nil
}

// session returns a session that is there.
func (b *batch) session(t *treeRow, n int) (*sessionRow, error) {
	if s, ok := b.sessions.get(place{t.no, n}); ok {
		return s, nil
	}
	s, err := one(b, scanSession, `SELECT `+sessionColumns+` FROM `+sessionTables+` WHERE s.tree = ? AND s.n = ?`, t.no, n)
	if err == nil && s == nil {
		err = sql.ErrNoRows
	}
	if err != nil {
		return nil, fmt.Errorf("reading session %d of tree %s: %w", n, t.Root, err)
	}
	s.Tree = t.Root
	b.remember(s)
	return s, nil
}

// sessionByID returns the session of t with this id, nil if there is none.
func (b *batch) sessionByID(t *treeRow, id string) (*sessionRow, error) {
	at, ok := b.sessionIDs.get(id)
	if !ok {
		found, err := one(b, func(row scanner) (*place, error) {
			return &at, row.Scan(&at.tree, &at.n)
		}, `SELECT tree, n FROM sessions WHERE id = ?`, id)
		if err != nil {
			return nil, fmt.Errorf("looking up session %s: %w", id, err)
		}
		ok = found != nil
	}
	if !ok || at.tree != t.no {
		return nil, nil
	}
	return b.session(t, at.n)
}

func (b *batch) remember(s *sessionRow) {
	b.sessions.put(place{s.tree, s.n}, s)
	b.sessionIDs.put(s.ID, place{s.tree, s.n})
}

// run returns a run that is there.
func (b *batch) run(t *treeRow, at runPlace) (*runRow, error) {
	if r, ok := b.runs.get(at); ok {
		return r, nil
	}
	r, err := one(b, scanRun, `SELECT `+runColumns+` FROM `+runTables+` WHERE r.tree = ? AND r.session = ? AND r.n = ?`, at.tree, at.session, at.n)
	if err == nil && r == nil {
		err = sql.ErrNoRows
	}
	if err != nil {
		return nil, fmt.Errorf("reading run %d of session %d of tree %s: %w", at.n, at.session, t.Root, err)
	}
	b.rememberRun(r)
	return r, nil
}

// runByID returns the run of t with this id, nil if there is none.
func (b *batch) runByID(t *treeRow, id string) (*runRow, error) {
	at, ok := b.runIDs.get(treeID{t.no, id})
	if !ok {
		at.tree = t.no
		found, err := one(b, func(row scanner) (*runPlace, error) {
			return &at, row.Scan(&at.session, &at.n)
		}, `SELECT session, n FROM runs WHERE tree = ? AND id = ?`, t.no, id)
		if err != nil {
			return nil, fmt.Errorf("looking up run %s: %w", id, err)
		}
		if found == nil {
			return nil, nil
		}
	}
	return b.run(t, at)
}

func (b *batch) rememberRun(r *runRow) {
	at := runPlace{r.tree, r.session, r.n}
	b.runs.put(at, r)
	b.runIDs.put(treeID{r.tree, r.ID}, at)
}
