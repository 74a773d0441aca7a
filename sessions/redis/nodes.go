package redis

import (
	"cmp"
	"context"
	"fmt"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Sessions returns a page of the sessions of a tree with their runs, in spawn
// order. It ends early where they have very many.
func (s *Store) Sessions(ctx context.Context, root string, q sessions.SessionQuery) (sessions.SessionPage, error) {
	limit := q.Limit
	if limit <= 0 || limit > sessions.MaxPage {
		limit = sessions.MaxPage
	}
	found, next, err := s.read(ctx, root, "page", max(q.After, 0), limit, sessions.MaxRuns)
	if err != nil {
		return sessions.SessionPage{}, fault("reading the sessions of tree "+root, err)
	}
	return sessions.SessionPage{Sessions: found, Next: next}, nil
}

// Session returns one session with its runs.
func (s *Store) Session(ctx context.Context, id string) (lineage.Session, error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	root, err := s.client.Get(ctx, s.keys.session(id)).Result()
	if err != nil {
		return lineage.Session{}, fault("finding the tree of session "+id, err)
	}
	return s.readOne(ctx, "reading session "+id, root, "session", id, sessions.MaxRuns)
}

// SessionOf returns the session of a tree that an id at an agent leads to.
func (s *Store) SessionOf(ctx context.Context, root string, key sessions.BindingKey) (lineage.Session, error) {
	doing := fmt.Sprintf("finding the session of %s %s of agent %s in tree %s", key.Kind, key.ID, key.Agent, root)
	return s.readOne(ctx, doing, root, "field", idsField(key))
}

func (s *Store) readOne(ctx context.Context, doing, root string, args ...any) (lineage.Session, error) {
	found, _, err := s.read(ctx, root, args...)
	if err == nil && len(found) != 1 {
		err = errDamaged
	}
	if err != nil {
		return lineage.Session{}, fault(doing, err)
	}
	return found[0], nil
}

// read calls read.lua. Its errors are go-redis's.
func (s *Store) read(ctx context.Context, root string, args ...any) (found []lineage.Session, next int, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	f := s.flight()
	c := f.call(ctx, readScript, s.keys.tree(root), append(s.treeArgs(root), args...))
	f.send(ctx)
	values, err := c.Slice()
	if err != nil {
		return nil, 0, err
	}
	r := &reply{own: values}
	next = int(r.number(0))
	for i := 1; i < len(values); i++ {
		row, ok := values[i].([]any)
		if !ok {
			return nil, 0, errDamaged
		}
		one, err := readSession(root, row)
		if err != nil {
			return nil, 0, err
		}
		found = append(found, one)
	}
	return found, next, r.err
}

// readSession reads a session as read.lua returns it.
func readSession(root string, row []any) (lineage.Session, error) {
	if len(row) != 6 {
		return lineage.Session{}, errDamaged
	}
	r := &reply{own: row}
	result, _ := row[3].(string) // nil: there is none
	usage, _ := row[4].(string)
	one, err := session(root, r.text(0), r.text(1), r.text(2), result, usage)
	runs, ok := row[5].([]any)
	if err != nil || r.err != nil || !ok {
		return one, cmp.Or(err, errDamaged)
	}
	of := &reply{own: runs}
	for i := 0; i+1 < len(runs); i += 2 {
		run, err := run(of.text(i), of.text(i+1))
		if err != nil {
			return one, err
		}
		one.Runs = append(one.Runs, run)
	}
	return one, of.err
}
