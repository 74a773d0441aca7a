package redis

import (
	"context"
	"errors"
	"fmt"
	"slices"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Apply carries out ops in one flight, and a second one when there is
// something to write in other slots that could not be foreseen (a tree was
// made, a reply told a context, a capped agent's place came free). Calls at
// capped agents take their places first, all in a flight before the others.
//
// The error of an op whose outcome is not known wraps
// [sessions.ErrUnavailable]; applying it again is safe.
func (s *Store) Apply(ctx context.Context, ops []*sessions.Op) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	b := &batch{store: s}
	for len(ops) > 0 {
		ops = ops[b.carryOut(ctx, ops[:b.segment(ops)]):]
	}
	b.finish(ctx)
}

// batch is one Apply under way.
type batch struct {
	store  *Store
	owed   []write           // to other slots, for the next flight
	unkept map[string]string // root → principal of trees whose ids need upkeep
	taking map[string]bool   // places that what is owed takes, or holds for longer
	full   bool              // an agent had no place left
}

// write is one command to another slot, owed by an op that has taken effect in
// its tree.
type write struct {
	op   *sessions.Op
	add  func(ctx context.Context, f *flight) outcome
	done func() // called if it succeeds; may be nil
}

// outcome is a command that has been sent, or will be.
type outcome interface{ Err() error }

// step is an op in a flight.
type step struct {
	op    *sessions.Op
	root  string
	call  *call
	seat  seat
	left  *call // see free
	due   *call // see register; nil: there was no need
	early []early
	used  []early // bindings that the tree relies on: key and value
}

// early is a key that an admission sets before it is known whether it may,
// which saves most calls a second flight. It is taken back if it may not.
type early struct {
	key, value string
	binding    bool               // not the key of a session
	set        *goredis.StatusCmd // SET NX GET: what the key held; Nil: nothing
}

// segment returns how many of ops go into one flight, so that the outcome is
// as if they came one by one. An admission at a capped agent counts what all
// before it left open there: it may take its place before they are done, unless
// one of them takes a place without asking, as a run does that works again, or
// places are so few that one must come free first (see seats). An id that two
// trees name belongs to the first, which is certain only when the first is done.
func (b *batch) segment(ops []*sessions.Op) int {
	if len(ops) < 2 {
		return len(ops)
	}
	first, resumed := map[sessions.BindingKey]string{}, false
	for i, op := range ops {
		if i > 0 && capped(op) && (b.full || resumed) {
			return i
		}
		resumed = resumed || op.Progress != nil && op.Progress.State == lineage.Active ||
			op.Change != nil && op.Change.Verb == lineage.VerbResume
		root, keys := names(op)
		for _, key := range keys {
			if before, ok := first[key]; ok && before != root {
				return i
			}
			first[key] = root
		}
	}
	return len(ops)
}

// names returns the tree of op and the ids that it may bind to it.
func names(op *sessions.Op) (root string, keys []sessions.BindingKey) {
	switch {
	case op.Admit != nil:
		a := op.Admit
		keys := ids(a.Agent, a.ContextID, a.TaskID)
		keys = append(keys, ids(a.Local, a.Caller.ContextID, "")...) // of a placeholder
		keys = append(keys, ids(a.Local, a.Root, "")...)             // of the root session
		return a.Root, keys
	case op.Progress != nil:
		p := op.Progress
		return p.Root, ids(p.Agent, p.ContextID, p.TaskID)
	case op.Change != nil:
		return op.Change.Root, nil
	}
	return "", nil
}

// ids are the ids of an agent that are not empty.
func ids(agent, contextID, taskID string) (keys []sessions.BindingKey) {
	if contextID != "" {
		keys = append(keys, sessions.BindingKey{Kind: sessions.BindContext, Agent: agent, ID: contextID})
	}
	if taskID != "" {
		keys = append(keys, sessions.BindingKey{Kind: sessions.BindTask, Agent: agent, ID: taskID})
	}
	return keys
}

// carryOut applies one segment, or its beginning, and returns how many that are.
func (b *batch) carryOut(ctx context.Context, ops []*sessions.Op) int {
	s := b.store
	seats, n := b.seats(ctx, ops)
	f := s.flight()
	b.load(ctx, f)
	steps := make([]step, n)
	for i, op := range ops[:n] {
		st := &steps[i]
		st.op, st.seat = op, seats[i]
		switch {
		case st.seat.err != nil:
			op.Err = st.seat.err
		case op.Admit != nil:
			st.root = op.Admit.Root
			st.due = s.register(ctx, f, st.root, soon(op.Admit))
			st.call = f.call(ctx, admitScript, s.keys.tree(st.root), s.admitArgs(op.Admit, st.seat.count, st.due != nil))
			st.early = s.foresee(ctx, f, op.Admit)
		case op.Progress != nil:
			st.root = op.Progress.Root
			st.call = f.call(ctx, progressScript, s.keys.tree(st.root), s.progressArgs(op.Progress))
			st.left = s.free(ctx, f, op.Progress)
		case op.Change != nil:
			st.root = op.Change.Root
			st.call = f.call(ctx, changeScript, s.keys.tree(st.root), s.changeArgs(op.Change))
		default:
			op.Err = errors.New("an operation is no admission, no progress and no change")
		}
	}
	f.send(ctx)

	for i := range steps {
		if steps[i].call != nil {
			b.settle(&steps[i])
		}
	}
	b.takeBack(steps)
	return n
}

// settle reads the outcome of one op, and notes what it owes to other slots.
func (b *batch) settle(st *step) {
	r, err := st.call.reply()
	if err != nil {
		st.op.Err = fault("tree "+st.root, err)
		if !unavailable(err) {
			b.leave(st)
		}
		return
	}
	r.places = slices.DeleteFunc(r.places, func(p place) bool {
		// One that an op before it takes again afterwards must go after that.
		return st.freed(p) && !b.taking[pack(p.run, p.session)]
	})
	b.bind(st, r)
	b.after(st.op, st.root, r)
	if a := st.op.Admit; a != nil {
		st.op.Grant, st.op.Err = granted(a, r)
		if st.op.Err != nil {
			b.leave(st)
			return
		}
		b.registered(st)
		b.sit(st, r)
		b.list(st, r)
		return
	}
	if c := st.op.Change; c != nil {
		st.op.Grant, st.op.Err = changed(c, r)
		return
	}
	if r.status == "missing" {
		st.op.Err = missing(st.root, r)
	}
}

// missing is the error of an op about something that is not in its tree.
func missing(root string, r *reply) error {
	return fmt.Errorf("tree %s: no such %s: %w", root, r.text(0), sessions.ErrNotFound)
}

// after does what every change of a tree may bring with it.
func (b *batch) after(op *sessions.Op, root string, r *reply) {
	b.store.watchers.tell(r.told)
	b.move(op, r)
	b.upkeep(op, root, r)
	b.relist(op, root, r)
}

// owe notes a command for the next flight.
func (b *batch) owe(op *sessions.Op, done func(), add func(ctx context.Context, f *flight) outcome) {
	b.owed = append(b.owed, write{op: op, add: add, done: done})
}

// load puts what is owed into f.
func (b *batch) load(ctx context.Context, f *flight) {
	for _, w := range b.owed {
		cmd := w.add(ctx, f)
		f.then = append(f.then, func() {
			err := cmd.Err()
			switch {
			case err == nil || errors.Is(err, goredis.Nil): // Nil: SET NX found the key there
				if w.done != nil {
					w.done()
				}
			case w.op.Err == nil:
				// The tree has the op, the other slots have not: whoever applies
				// it again has them written again.
				w.op.Err = fault("writing what the tree's ids belong to", err)
				w.op.Grant = sessions.Grant{}
			}
		})
	}
	b.owed, b.taking = nil, nil
}

// finish writes what is owed in the end.
func (b *batch) finish(ctx context.Context) {
	f := b.store.flight()
	b.load(ctx, f)
	f.send(ctx)
	for root, principal := range b.unkept {
		if err := b.store.prolong(ctx, root, principal); err != nil {
			// Due until it succeeds: the next change of the tree tries again.
			b.store.log.WarnContext(ctx, "prolonging the ids of a tree failed", "root", root, "error", err)
		}
	}
}
