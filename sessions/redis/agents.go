package redis

import (
	"context"
	"fmt"
	"slices"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// The open runs of an agent that has a cap (lineage.Limits.MaxConcurrent) are
// a sorted set in the agent's own slot, so that all trees and all sidecars
// count together. A place is taken there before the tree is asked, given back
// if the tree says no, and given back when the run closes. A place whose
// sidecar died lapses with its lease. Runs that were admitted without a cap
// are not counted.

// seat is the outcome of take.lua.
type seat struct {
	count int  // places that count against the cap
	added bool // a place was taken
	err   error
}

// full reports whether there was no place for a.
func (t seat) full(a *sessions.Admission) bool {
	return t.err == nil && !t.added && t.count >= a.Limits.MaxConcurrent
}

// capped reports whether op needs a place.
func capped(op *sessions.Op) bool {
	return op.Admit != nil && !op.Admit.Ahead && op.Admit.Limits.MaxConcurrent > 0
}

// seats takes places for the admissions of ops that need one, all in one
// flight, and returns how many of ops may go on: all, or those before the first
// (but never the very first) that found none, since one of them may give back a
// place. Whoever has none goes on as the first of what is left.
//
// The tree is asked even if there is no place: it may refuse for a reason that
// comes first, and a run that goes on needs no new place.
func (b *batch) seats(ctx context.Context, ops []*sessions.Op) ([]seat, int) {
	s := b.store
	seats := make([]seat, len(ops))
	if !slices.ContainsFunc(ops, capped) {
		return seats, len(ops)
	}
	f := s.flight()
	b.load(ctx, f) // first of all, places that came free
	calls := make([]*call, len(ops))
	for i, op := range ops {
		if capped(op) {
			calls[i] = s.take(ctx, f, op.Admit, nil)
		}
	}
	f.send(ctx)
	n := len(ops)
	for i, c := range calls {
		if c == nil {
			continue
		}
		a := ops[i].Admit
		s.capped.add(a.Agent, "")
		seats[i] = taken(a, c)
		switch {
		case i > n:
			b.leave(&step{op: ops[i], seat: seats[i]}) // the one before counts without it
		case !seats[i].full(a):
		case i > 0:
			n, b.full = i, true
		default:
			seats[i] = s.takeBelow(ctx, a, seats[i])
		}
	}
	return seats[:n], n
}

// takeBelow takes a place at a full agent for a if ancestors of its session
// hold some: these never block their own descendants.
func (s *Store) takeBelow(ctx context.Context, a *sessions.Admission, none seat) seat {
	above, err := s.above(ctx, a)
	if err != nil || len(above) == 0 {
		none.err = err
		return none
	}
	f := s.flight()
	c := s.take(ctx, f, a, above)
	f.send(ctx)
	return taken(a, c)
}

// take adds a call of take.lua to f.
func (s *Store) take(ctx context.Context, f *flight, a *sessions.Admission, above []string) *call {
	args := []any{
		s.clock(), millis(s.placesLife(a.Lease)), a.Limits.MaxConcurrent, pack(a.RunID, a.SessionID), a.Lease.Microseconds(),
		millis(waits(a.Limits.QueueTimeout)),
	}
	for _, id := range above {
		args = append(args, id)
	}
	return f.call(ctx, takeScript, s.keys.agent(a.Agent), args)
}

// taken reads the outcome of take.
func taken(a *sessions.Admission, c *call) seat {
	out, err := c.Int64Slice()
	if err != nil {
		return seat{err: fault("taking a place at agent "+a.Agent, err)}
	}
	if len(out) != 2 {
		return seat{err: fmt.Errorf("taking a place at agent %s: %w", a.Agent, errDamaged)}
	}
	return seat{count: int(out[0]), added: out[1] == 1}
}

// above returns the sessions at a's agent on the path from the root down to
// a's caller.
func (s *Store) above(ctx context.Context, a *sessions.Admission) ([]string, error) {
	f := s.flight()
	c := f.call(ctx, pathScript, s.keys.tree(a.Root), append(s.treeArgs(a.Root),
		a.Agent, a.Caller.ContextID, a.Caller.SiblingOf, a.Caller.Session, a.MessageID, a.TaskID))
	f.send(ctx)
	doing := "finding the path to a call in tree " + a.Root
	raw, err := c.Text()
	if err != nil {
		return nil, fault(doing, err)
	}
	path := values(raw)
	var ids []string
	for path.more() {
		if id, agent := path.str(), path.str(); agent == a.Agent {
			ids = append(ids, id)
		}
	}
	if path.err != nil {
		return nil, fmt.Errorf("%s: %w", doing, path.err)
	}
	return ids, nil
}

// free gives back the place of a run that p ends, if its agent has been seen
// with a cap, right after the tree is told: that the run is not open then is
// certain, and that it had a place need not be. It returns nil if it is for the
// tree to say.
func (s *Store) free(ctx context.Context, f *flight, p *sessions.Progress) *call {
	ended := p.State == lineage.Completed || p.State == lineage.Failed && p.Reason != lineage.ReasonLost
	if !ended || p.Run == "" || p.Session == "" || !s.capped.has(p.Agent, "") {
		return nil
	}
	return s.leave(ctx, f, p.Agent, pack(p.Run, p.Session))
}

// leave adds a call of leave.lua to f, and tells of it if it gives back a place
// that somebody waits for.
func (s *Store) leave(ctx context.Context, f *flight, agent, member string) *call {
	c := f.call(ctx, leaveScript, s.keys.agent(agent), []any{member, s.keys.notices(), s.placeAt(agent)})
	f.then = append(f.then, func() {
		if told, err := c.Int(); err == nil && told == 1 {
			s.watchers.tell([]sessions.Notice{{Agent: agent}})
		}
	})
	return c
}

// freed reports whether the flight of st has given back the place p.
func (st *step) freed(p place) bool {
	if st.left == nil || st.left.Err() != nil {
		return false
	}
	of := st.op.Progress
	return p.op == "-" && p.agent == of.Agent && p.run == of.Run && p.session == of.Session
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
	if !capped(st.op) {
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
		return b.store.leave(ctx, f, agent, member)
	})
}

func (b *batch) hold(op *sessions.Op, agent, member string, till int64, onlyIfHeld bool) {
	key := b.store.keys.agent(agent)[0]
	if b.taking == nil {
		b.taking = map[string]bool{}
	}
	b.taking[member] = true
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
