package redis

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Trees in which something will be due are on one list, in the order in which
// it will be (due.lua):
//
//	an admission ─▶ the tree, and in the same flight the list, unless this
//	                store had it put there lately
//	any change   ─▶ the tree says (upkeep "d") if something is due before the
//	                time at which the list has it ─▶ the list, in the next flight
//	Settle       ─▶ claims what is due, settles it, puts each tree where it is
//	                due next, or off the list
//	Sweep        ─▶ has any tree put there (upkeep "d") in which something will be due
//
// So a tree knows when the list has it at the latest (meta.listed), what is
// claimed by one that dies comes again, and what the list has lost comes back.

const (
	settleTrees = 100                    // claimed at once
	settleTime  = 100 * time.Millisecond // until then Settle goes on claiming
	claimLasts  = 5 * time.Second        // what was claimed comes again, unless it was settled by then
)

// Settle settles what is overdue in any tree, a bounded piece of it. Any number
// of sidecars may do so at once.
func (s *Store) Settle(ctx context.Context) (more bool, err error) {
	ctx, cancel := s.limit(ctx)
	defer cancel()
	for began := time.Now(); ; {
		more, err = s.settle(ctx)
		if err != nil || !more || time.Since(began) > settleTime {
			return more, err
		}
	}
}

// settle claims some trees and settles them.
func (s *Store) settle(ctx context.Context) (more bool, err error) {
	f := s.flight()
	c := f.call(ctx, claimDueScript, []string{s.keys.due()}, []any{s.clock(), settleTrees, claimLasts.Microseconds()})
	f.send(ctx)
	claimed, err := c.StringSlice()
	if err != nil {
		return false, fault("claiming trees in which something is due", err)
	}
	if len(claimed) == 0 {
		return false, fmt.Errorf("claiming trees in which something is due: %w", errDamaged)
	}
	score, roots := claimed[0], claimed[1:]
	if len(roots) == 0 {
		return false, nil
	}
	replies, err := s.lapse(ctx, roots, true)
	args := []any{score}
	for i, r := range replies {
		if r == nil {
			continue // it comes again
		}
		next := ""
		if r.due < never {
			next = strconv.FormatInt(r.due, 10)
		}
		args = append(args, roots[i], next)
		more = more || r.more
	}
	f = s.flight()
	c = f.call(ctx, settledScript, []string{s.keys.due()}, args)
	f.send(ctx)
	if err == nil {
		err = fault("putting settled trees back on the list", c.Err())
	}
	return more || len(roots) == settleTrees, err
}

// never is the scripts' NEVER.
const never = 1<<53 - 1

// lapse settles what is overdue in trees. A reply that is nil had an error.
// claimed says that their places on the list of what is due are the caller's;
// else they are put on it.
func (s *Store) lapse(ctx context.Context, roots []string, claimed bool) ([]*reply, error) {
	f := s.flight()
	calls := make([]*call, len(roots))
	for i, root := range roots {
		calls[i] = f.call(ctx, lapseScript, s.keys.tree(root), append(s.treeArgs(root), flag(claimed)))
	}
	f.send(ctx)
	b := &batch{store: s}
	op := &sessions.Op{} // bears what the writes to other slots run into
	replies := make([]*reply, len(roots))
	for i, c := range calls {
		r, err := c.reply()
		if err != nil {
			op.Err = fault("settling what is overdue in tree "+roots[i], err)
			continue
		}
		r.more = len(r.own) == 1 && r.number(0) == 1
		replies[i] = r
		b.after(op, roots[i], r)
	}
	b.finish(ctx)
	return replies, op.Err
}

// register puts the tree of an admission on the list of what is due, unless this
// store had it put there lately. It returns nil if there is no need.
func (s *Store) register(ctx context.Context, f *flight, root string, in time.Duration) *call {
	if in <= 0 || s.listed.has(root) {
		return nil
	}
	return f.call(ctx, dueScript, []string{s.keys.due()},
		[]any{s.clock(), root, "", in.Microseconds(), millis(s.abroad())})
}

// registered looks at what became of that. The tree relies on it: an admission
// without it is one whose outcome is not known.
func (b *batch) registered(st *step) {
	if st.due == nil {
		return
	}
	if err := st.due.Err(); err != nil {
		st.op.Err = fault("putting tree "+st.root+" on the list of what is due", err)
		return
	}
	b.store.listed.add(st.root, soon(st.op.Admit))
}

// soon is how soon something may be due that an admission makes.
func soon(a *sessions.Admission) time.Duration {
	if a.Ahead {
		return a.TTL
	}
	if a.TTL > 0 {
		return min(a.TTL, a.Lease)
	}
	return a.Lease
}

// relist puts a tree on the list of what is due when it says that it must be.
func (b *batch) relist(op *sessions.Op, root string, r *reply) {
	if !strings.Contains(r.upkeep, "d") {
		return
	}
	s := b.store
	b.owe(op, nil, func(ctx context.Context, f *flight) outcome {
		return f.call(ctx, dueScript, []string{s.keys.due()}, []any{s.clock(), root, r.due, "", millis(s.abroad())})
	})
}

// lately are trees that this store had put on the list of what is due, and until
// when they are sure to be there: by the clock of this machine, which need not be
// the server's.
type lately struct{ until *lru.Cache[string, time.Time] }

func newLately() (*lately, error) {
	until, err := lru.New[string, time.Time](rememberedIDs)
	if err != nil {
		return nil, fmt.Errorf("making a cache of trees: %w", err)
	}
	return &lately{until}, nil
}

func (l *lately) has(root string) bool {
	until, ok := l.until.Get(root)
	return ok && time.Now().Before(until)
}

// add notes that root is listed no later than in so long.
func (l *lately) add(root string, in time.Duration) {
	// A good part before it is due: what is listed again meanwhile stays listed.
	l.until.Add(root, time.Now().Add(in*3/4))
}
