package sqlite

import (
	"database/sql"
	"fmt"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
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

// Kinds of key (see schema).
const (
	keyMessage = "m"
	keyTask    = "t"
	keyContext = "c"
	keyCaller  = "o"
	keyShared  = "s"
)

// key is what an id leads to: a session, and of a message or task a run of it.
type key struct{ session, run int }

// lookUp returns what an id leads to in t, nil if to nothing.
func (b *batch) lookUp(t *treeRow, kind, agent, id string) (*key, error) {
	k, err := one(b, func(row scanner) (*key, error) {
		var k key
		return &k, row.Scan(&k.session, &k.run)
	}, `SELECT session, run FROM keys WHERE tree = ? AND kind = ? AND agent = ? AND id = ?`, t.no, kind, agent, id)
	if err != nil {
		return nil, fmt.Errorf("looking up %s %s of agent %s: %w", kind, id, agent, err)
	}
	return k, nil
}

// point makes an id lead to k, whatever it led to.
func (b *batch) point(t *treeRow, kind, agent, id string, k key) error {
	err := b.exec(`INSERT INTO keys (tree, kind, agent, id, session, run) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET session = excluded.session, run = excluded.run`, t.no, kind, agent, id, k.session, k.run)
	if err != nil {
		return fmt.Errorf("keeping %s %s of agent %s: %w", kind, id, agent, err)
	}
	return nil
}

// pointFirst makes an id lead to k unless it leads anywhere.
func (b *batch) pointFirst(t *treeRow, kind, agent, id string, k key) error {
	err := b.exec(`INSERT INTO keys (tree, kind, agent, id, session, run) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO NOTHING`, t.no, kind, agent, id, k.session, k.run)
	if err != nil {
		return fmt.Errorf("keeping %s %s of agent %s: %w", kind, id, agent, err)
	}
	return nil
}

// bind makes an id of an agent belong to t unless it belongs to a tree that is there.
func (b *batch) bind(t *treeRow, kind sessions.BindingKind, agent, id string) error {
	err := b.exec(bindFirst, string(kind), agent, id, t.Root, t.principal, t.no, nil)
	if err != nil {
		return fmt.Errorf("binding %s %s of agent %s: %w", kind, id, agent, err)
	}
	return nil
}

// name makes s the session that a context id means: the first one stays,
// unless takeOver is set and it has ended.
func (b *batch) name(t *treeRow, s *sessionRow, contextID string, takeOver bool) error {
	if contextID == "" {
		return nil
	}
	for _, as := range [...]struct{ kind, agent string }{{keyContext, s.Agent}, {keyCaller, ""}} {
		put := b.pointFirst
		if takeOver {
			ended, err := b.holderEnded(t, as.kind, as.agent, contextID)
			if err != nil {
				return err
			}
			if ended {
				put = b.point
			}
		}
		if err := put(t, as.kind, as.agent, contextID, key{session: s.n}); err != nil {
			return err
		}
	}
	return b.bind(t, sessions.BindContext, s.Agent, contextID)
}

func (b *batch) holderEnded(t *treeRow, kind, agent, id string) (bool, error) {
	k, err := b.lookUp(t, kind, agent, id)
	if err != nil || k == nil {
		return false, err
	}
	holder, err := b.session(t, k.session)
	return err == nil && holder.State.Terminal(), err
}
