package sqlite

import (
	"fmt"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Kinds of key (see schema). Contexts and tasks are looked for in two tables:
// an id nearly always belongs to the one tree that has it, and then one row of
// bindings serves for all that is asked of it. keys is for the rest.
const (
	keyMessage = "m"
	keyTask    = "t"
	keyContext = "c"
	keyCaller  = "o"
	keyShared  = "s"
	keyRequest = "q"
)

// bindingKind is the kind of key as bindings know it.
func bindingKind(kind sessions.BindingKind) string {
	if kind == sessions.BindTask {
		return keyTask
	}
	return keyContext
}

// key is what an id leads to: a session, and of a message or task a run of it.
type key struct{ session, run int }

func scanKey(row scanner) (*key, error) {
	var k key
	return &k, row.Scan(&k.session, &k.run)
}

// lookUp returns what an id leads to in t, nil if to nothing.
func (b *batch) lookUp(t *treeRow, kind, agent, id string) (k *key, err error) {
	if !t.ids.mayHave(kind, agent, id) {
		return nil, nil
	}
	own := kind == keyMessage || kind == keyShared || kind == keyRequest
	if own || t.shadowed {
		k, err = one(b, scanKey, `SELECT session, run FROM keys WHERE tree = ? AND kind = ? AND agent = ? AND id = ?`, t.no, kind, agent, id)
	}
	if err == nil && k == nil && !own {
		if kind == keyCaller {
			k, err = one(b, scanKey, `SELECT caller, 0 FROM bindings WHERE kind = '`+keyContext+`' AND id = ? AND tree = ? AND caller > 0`, id, t.no)
		} else {
			k, err = one(b, scanKey, `SELECT session, run FROM bindings WHERE kind = ? AND id = ? AND agent = ? AND tree = ? AND session > 0`,
				kind, id, agent, t.no)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("looking up %s %s of agent %s: %w", kind, id, agent, err)
	}
	return k, nil
}

// point makes an id lead to k, whatever it led to, in keys.
func (b *batch) point(t *treeRow, kind, agent, id string, k key) error {
	t.ids.add(kind, agent, id)
	err := b.exec(`INSERT INTO keys (tree, kind, agent, id, session, run) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT DO UPDATE SET session = excluded.session, run = excluded.run`, t.no, kind, agent, id, k.session, k.run)
	if err != nil {
		return fmt.Errorf("keeping %s %s of agent %s: %w", kind, id, agent, err)
	}
	return nil
}

// lead is a context or task of an agent that is to lead to something in a tree.
type lead struct {
	kind, agent, id string
	to              key
	again           bool // even if it leads to something else
	aside           bool // neither the session nor the run has the id in its row
}

// follow makes the id of l lead where it says in t, and belong to t unless it
// belongs to another tree that is there, or is claimed for one. If it is a
// context that means no caller in t yet, caller is the session that it means.
func (b *batch) follow(t *treeRow, l lead, caller int) error {
	if !t.shadowed && !l.aside {
		// What is new, which nearly everything is, needs no more than this.
		means := caller
		if caller != 0 {
			k, err := b.lookUp(t, keyCaller, "", l.id)
			if err != nil {
				return err
			}
			if k != nil {
				means = 0
			}
		}
		n, err := b.change(`INSERT INTO bindings (kind, id, agent, tree, session, run, caller) VALUES (?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT DO NOTHING`, l.kind, l.id, l.agent, t.no, l.to.session, l.to.run, means)
		if err != nil || n == 1 {
			l.noted(t, caller)
			return l.wrap(err)
		}
	}
	defer l.noted(t, caller)
	if err := b.followKnown(t, l); err != nil || caller == 0 {
		return l.wrap(err)
	}
	return l.wrap(b.meanCaller(t, l, caller))
}

// noted: what l leads to can be found now.
func (l *lead) noted(t *treeRow, caller int) {
	t.ids.add(l.kind, l.agent, l.id)
	if caller != 0 {
		t.ids.add(keyCaller, "", l.id)
	}
}

func (l *lead) wrap(err error) error {
	if err != nil {
		return fmt.Errorf("keeping %s %s of agent %s: %w", l.kind, l.id, l.agent, err)
	}
	return nil
}

// followKnown is follow for an id that may be there already.
func (b *batch) followKnown(t *treeRow, l lead) error {
	at, err := b.lookUp(t, l.kind, l.agent, l.id)
	if err != nil {
		return err
	}
	to := l.to
	if at != nil && !l.again {
		to = *at
	}
	// Where it leads can stand in the binding, unless it stands in keys.
	inKeys := l.aside
	if at != nil {
		n, err := b.change(`UPDATE bindings SET session = ?, run = ? WHERE kind = ? AND id = ? AND agent = ? AND tree = ? AND session > 0`,
			to.session, to.run, l.kind, l.id, l.agent, t.no)
		if err != nil || n == 1 {
			return err
		}
		inKeys = true
	}
	bound := to
	if inKeys {
		bound = key{}
	}
	n, err := b.change(`INSERT INTO bindings (kind, id, agent, tree, session, run, caller) VALUES (?, ?, ?, ?, ?, ?, 0)
		ON CONFLICT DO UPDATE SET tree = excluded.tree, session = excluded.session, run = excluded.run, caller = 0,
			root = NULL, principal = NULL, claimed = NULL
		WHERE bindings.tree IN (SELECT no FROM dropped) OR bindings.claimed IS NOT NULL AND bindings.root = ? AND bindings.principal = ?`,
		l.kind, l.id, l.agent, t.no, bound.session, bound.run, t.Root, t.principal)
	if err != nil || n == 1 && !inKeys {
		return err
	}
	b.shadow(t)
	return b.point(t, l.kind, l.agent, l.id, to)
}

// shadow notes that keys has contexts or tasks of t.
func (b *batch) shadow(t *treeRow) {
	if !t.shadowed {
		t.shadowed = true
		b.touchTree(t)
	}
}

// meanCaller makes the context of l mean a caller in t, unless it does.
func (b *batch) meanCaller(t *treeRow, l lead, caller int) error {
	k, err := b.lookUp(t, keyCaller, "", l.id)
	if err != nil || k != nil {
		return err
	}
	n, err := b.change(`UPDATE bindings SET caller = ? WHERE kind = ? AND id = ? AND agent = ? AND tree = ?`,
		caller, l.kind, l.id, l.agent, t.no)
	if err != nil || n == 1 {
		return err
	}
	b.shadow(t)
	return b.point(t, keyCaller, "", l.id, key{session: caller})
}

// meanAnother makes a context that means a caller in t mean another one.
func (b *batch) meanAnother(t *treeRow, id string, caller int) error {
	n, err := b.change(`UPDATE bindings SET caller = ? WHERE kind = '`+keyContext+`' AND id = ? AND tree = ? AND caller > 0`, caller, id, t.no)
	if err != nil || n == 1 {
		return err
	}
	return b.point(t, keyCaller, "", id, key{session: caller})
}

// name makes s the session that a context id means: the first one stays,
// unless takeOver is set and it has ended, or is to. alias says that it is not the
// session's own.
func (b *batch) name(t *treeRow, s *sessionRow, contextID string, takeOver, alias bool) error {
	if contextID == "" {
		return nil
	}
	l := lead{kind: keyContext, agent: s.Agent, id: contextID, to: key{session: s.n}, aside: alias}
	if takeOver {
		over, err := b.holderOver(t, keyCaller, "", contextID)
		if err == nil && over {
			err = b.meanAnother(t, contextID, s.n)
		}
		if err == nil {
			l.again, err = b.holderOver(t, keyContext, s.Agent, contextID)
		}
		if err != nil {
			return l.wrap(err)
		}
	}
	return b.follow(t, l, s.n)
}

func (b *batch) holderOver(t *treeRow, kind, agent, id string) (bool, error) {
	k, err := b.lookUp(t, kind, agent, id)
	if err != nil || k == nil {
		return false, err
	}
	holder, err := b.session(t, k.session)
	return err == nil && holder.over(), err
}
