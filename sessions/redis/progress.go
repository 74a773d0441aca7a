package redis

import (
	"context"
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

// Renew prolongs the leases of runs, and their places at capped agents. It is
// a change of the trees: while a run is open its tree is kept.
func (s *Store) Renew(ctx context.Context, runs []sessions.RunRef, lease time.Duration) error {
	ctx, cancel := s.limit(ctx)
	defer cancel()

	byRoot := map[string][]any{}
	var roots []string
	for _, ref := range runs {
		if byRoot[ref.Root] == nil {
			roots = append(roots, ref.Root)
			byRoot[ref.Root] = []any{s.clock(), millis(s.retain), lease.Microseconds()}
		}
		byRoot[ref.Root] = append(byRoot[ref.Root], ref.Run, ref.Gen)
	}
	f := s.flight()
	calls := make([]*call, len(roots))
	for i, root := range roots {
		calls[i] = f.call(ctx, renewScript, s.keys.tree(root), byRoot[root])
	}
	f.send(ctx)

	b := &batch{store: s}
	op := &sessions.Op{} // bears what the writes to other slots run into
	for i, root := range roots {
		r, err := calls[i].reply()
		if err != nil {
			op.Err = fault("renewing the leases of tree "+root, err)
			continue
		}
		b.move(op, r)
		b.upkeep(op, root, r)
	}
	b.finish(ctx)
	return op.Err
}
