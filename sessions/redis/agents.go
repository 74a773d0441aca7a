package redis

import (
	"context"
	"errors"
	"fmt"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// The open runs of an agent that has a cap (lineage.Limits.MaxConcurrent) are
// a sorted set in the agent's own slot, so that all trees and all sidecars
// count together. A place is taken there before the tree is asked, given back
// if the tree says no, and given back when the run closes. A place whose
// sidecar died lapses with its lease. Runs that were admitted without a cap
// are not counted.

// seat is the outcome of take.
type seat struct {
	count int  // places that count against the cap
	added bool // a place was taken
}

// take takes a place for a, if there is one. The tree is asked in any case:
// it may refuse for a reason that comes first, and a run that goes on needs no
// new place.
//
// f goes with it.
func (s *Store) take(ctx context.Context, f *flight, a *sessions.Admission) (seat, error) {
	taken, err := s.tryTake(ctx, f, a, nil)
	if err != nil || taken.added || taken.count < a.Limits.MaxConcurrent {
		return taken, err
	}
	// Full: but a place held by an ancestor never blocks its own descendants.
	above, err := s.above(ctx, a)
	if err != nil || len(above) == 0 {
		return taken, err
	}
	return s.tryTake(ctx, s.flight(), a, above)
}

func (s *Store) tryTake(ctx context.Context, f *flight, a *sessions.Admission, above []string) (seat, error) {
	args := []any{
		s.clock(), millis(s.placesLife(a.Lease)), a.Limits.MaxConcurrent, pack(a.RunID, a.SessionID), a.Lease.Microseconds(),
	}
	for _, id := range above {
		args = append(args, id)
	}
	c := f.call(ctx, takeScript, []string{s.keys.agent(a.Agent)}, args)
	f.send(ctx)
	out, err := c.Int64Slice()
	if err != nil {
		return seat{}, fault("taking a place at agent "+a.Agent, err)
	}
	if len(out) != 2 {
		return seat{}, fmt.Errorf("taking a place at agent %s: %w", a.Agent, errDamaged)
	}
	return seat{count: int(out[0]), added: out[1] == 1}, nil
}

// above returns the sessions at a's agent on the path from the root down to
// a's caller.
func (s *Store) above(ctx context.Context, a *sessions.Admission) ([]string, error) {
	f := s.flight()
	c := f.call(ctx, pathScript, s.keys.tree(a.Root), []any{
		s.clock(), millis(s.retain), a.Root, a.Agent, a.Caller.ContextID, a.Caller.SiblingOf, a.MessageID, a.TaskID,
	})
	f.send(ctx)
	doing := "finding the path to a call in tree " + a.Root
	r, err := c.reply()
	if err != nil {
		return nil, fault(doing, err)
	}
	path := unpack(r.text(0))
	var ids []string
	for path.more() {
		if id, agent := path.str(), path.str(); agent == a.Agent {
			ids = append(ids, id)
		}
	}
	if err := errors.Join(r.err, path.err); err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	return ids, nil
}

// leave gives back the place of an admission that was not granted.
func (b *batch) leave(st *step) {
	if !st.seat.added {
		return
	}
	a := st.op.Admit
	b.release(st.op, a.Agent, pack(a.RunID, a.SessionID))
}

// sit gives the place of a granted admission to the run and session that it
// found, which may be others than it brought.
func (b *batch) sit(st *step, r *reply) {
	a := st.op.Admit
	if a.Limits.MaxConcurrent <= 0 {
		return
	}
	brought, found := pack(a.RunID, a.SessionID), pack(st.op.Grant.RunID, st.op.Grant.Session.ID)
	if st.seat.added && brought != found {
		b.release(st.op, a.Agent, brought)
	}
	if !st.seat.added || brought != found {
		b.hold(st.op, a.Agent, found, r.number(10), false)
	}
}

// move does at the agents what the tree's runs did: give back places, take
// them again, keep them for longer.
func (b *batch) move(op *sessions.Op, r *reply) {
	for _, p := range r.places {
		member := pack(p.run, p.session)
		switch p.op {
		case "-":
			b.release(op, p.agent, member)
		case "+":
			b.hold(op, p.agent, member, p.till, false)
		case ">":
			b.hold(op, p.agent, member, p.till, true) // a renewal must not bring back what was given back meanwhile
		}
	}
}

func (b *batch) release(op *sessions.Op, agent, member string) {
	b.owe(op, nil, func(ctx context.Context, f *flight) outcome {
		return f.pipe.ZRem(ctx, b.store.keys.agent(agent), member)
	})
}

func (b *batch) hold(op *sessions.Op, agent, member string, till int64, onlyIfHeld bool) {
	key := b.store.keys.agent(agent)
	b.owe(op, nil, func(ctx context.Context, f *flight) outcome {
		return f.pipe.ZAddArgs(ctx, key, goredis.ZAddArgs{
			XX: onlyIfHeld, Members: []goredis.Z{{Score: float64(till), Member: member}},
		})
	})
	b.owe(op, nil, func(ctx context.Context, f *flight) outcome {
		return f.pipe.PExpire(ctx, key, b.store.placesLife(0))
	})
}

// placesLife is the TTL of an agent's places: longer than any lease in it that
// is still renewed.
func (s *Store) placesLife(lease time.Duration) time.Duration { return max(s.retain, 2*lease) }
