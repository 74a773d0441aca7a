package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// progressArgs are the ARGV of progress.lua, in the order in which it names them.
func (s *Store) progressArgs(p *sessions.Progress) []any {
	args := append(s.treeArgs(p.Root),
		p.Session, p.Run, p.Gen, p.Agent, p.TraceID, p.TaskID, p.ContextID, string(p.State), p.Reason,
		[]byte(p.Result), []byte(p.Usage), p.Detach.Microseconds())
	for _, d := range p.Events {
		payload := []byte(d.Payload)
		if len(payload) == 0 {
			payload = []byte("{}")
		}
		args = append(args, d.ID, d.Type, payload)
	}
	return args
}

// renewBatch is how many leases one call of the script prolongs.
const renewBatch = 1000

// Renew prolongs the leases of runs, and their places at capped agents, and
// tells those whose session is being ended again to stop, also the ones that
// wait. It is a change of the trees: while a run is open its tree is kept.
func (s *Store) Renew(ctx context.Context, runs []sessions.RunRef, lease time.Duration) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()

	byRoot := map[string][]sessions.RunRef{}
	for _, ref := range runs {
		byRoot[ref.Root] = append(byRoot[ref.Root], ref)
	}
	type renewal struct {
		*call
		root string
	}
	var renewals []renewal
	f := s.flight()
	for root, refs := range byRoot {
		for part := range slices.Chunk(refs, renewBatch) {
			args := append(s.treeArgs(root), lease.Microseconds())
			for _, ref := range part {
				args = append(args, ref.Run, ref.Gen)
			}
			renewals = append(renewals, renewal{f.call(ctx, renewScript, s.keys.tree(root), args), root})
		}
	}
	f.send(ctx)

	b := &batch{store: s}
	op := &sessions.Op{} // bears what the writes to other slots run into
	for _, c := range renewals {
		r, err := c.reply()
		if err != nil {
			op.Err = fault("renewing the leases of tree "+c.root, err)
			continue
		}
		b.after(op, c.root, r)
	}
	b.finish(ctx)
	return op.Err
}

// changeArgs are the ARGV of change.lua, in the order in which it names them.
func (s *Store) changeArgs(c *sessions.Change) []any {
	return append(s.treeArgs(c.Root), c.Session, string(c.Verb), c.Reason, []byte(c.Result), c.TraceID)
}

// changed reads the outcome of change.lua.
func changed(c *sessions.Change, r *reply) (sessions.Grant, error) {
	if r.status == "missing" {
		return sessions.Grant{}, missing(c.Root, r)
	}
	node, err := session(c.Root, r.text(0), r.text(1), r.text(2), r.text(3), r.text(4))
	if err := errors.Join(err, r.err); err != nil {
		return sessions.Grant{}, fmt.Errorf("reading a session that was to %s: %w", c.Verb, err)
	}
	if r.status == "conflict" {
		if conflict := c.Verb.Check(&node, r.number(5) == 1); conflict != nil {
			return sessions.Grant{}, conflict
		}
		return sessions.Grant{}, fmt.Errorf("session %s was refused to %s: %w", c.Session, c.Verb, errDamaged)
	}
	return sessions.Grant{Session: node}, nil
}
