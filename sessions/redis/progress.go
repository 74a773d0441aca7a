package redis

import (
	"context"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// progressArgs are the ARGV of progress.lua, in the order in which it names them.
func (s *Store) progressArgs(p *sessions.Progress) []any {
	args := make([]any, 0, 14+3*len(p.Events))
	args = append(args,
		s.clock(), millis(s.retain),
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

// Renew prolongs the leases of runs, and their places at capped agents. It is
// a change of the trees: while a run is open its tree is kept.
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
			args := []any{s.clock(), millis(s.retain), lease.Microseconds()}
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
		b.move(op, r)
		b.upkeep(op, c.root, r)
	}
	b.finish(ctx)
	return op.Err
}
