package sqlite_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// large is a tree with many sessions: shared ones, idle, each with a deadline
// and the log of one call, but that every eighth call goes to the first one.
type large struct {
	tb     testing.TB
	store  *sqlite.Store
	clock  *clock
	grants []sessions.Grant
	events int // of each call
	others int // calls besides those of grants
}

func newLarge(tb testing.TB, opts sqlite.Options) *large {
	tb.Helper()
	c := newClock()
	opts.Now = c.now
	return &large{tb: tb, store: open(tb, opts), clock: c, events: 10}
}

// call is one to a session of its own that outlives it.
func (l *large) call(n int) *sessions.Admission {
	a := call("root")
	a.Isolated, a.Resolve, a.ContextID, a.TTL = false, sessions.ResolveContext, fmt.Sprint("shared-", n), 30*24*time.Hour
	a.Limits, a.Lease = lineage.Limits{MaxChildren: 1 << 20, MaxFanOut: 1 << 20, MaxConcurrent: 1 << 20}, 1000*time.Hour
	return a
}

func (l *large) end(g sessions.Grant) *sessions.Op {
	op := ended(g)
	op.Progress.TaskID = "task-" + g.RunID
	for i := range l.events - 3 { // besides spawned, sent and ended
		op.Progress.Events = append(op.Progress.Events, sessions.Draft{ID: fmt.Sprint("status/", g.RunID, "/", i), Type: lineage.EventStatus})
	}
	return op
}

// grow makes the tree have so many sessions.
func (l *large) grow(to int) {
	l.tb.Helper()
	for len(l.grants) < to {
		var ops []*sessions.Op
		for range 8 {
			ops = append(ops, &sessions.Op{Admit: l.call(len(l.grants) + len(ops))})
		}
		l.apply(ops...)
		for i, op := range ops {
			l.grants = append(l.grants, op.Grant)
			ops[i] = l.end(op.Grant)
		}
		again := &sessions.Op{Admit: l.call(0)}
		l.apply(append(ops, again)...)
		l.apply(ended(again.Grant))
		l.clock.advance(time.Millisecond)
	}
}

func (l *large) apply(ops ...*sessions.Op) {
	l.tb.Helper()
	l.store.Apply(l.tb.Context(), ops)
	for _, op := range ops {
		if op.Err != nil {
			l.tb.Fatalf("Apply() = %v", op.Err)
		}
	}
}

// costs are things that are done with a large tree, by name.
func (l *large) costs() map[string]func() error {
	some := func() sessions.Grant { return l.grants[len(l.grants)/3] }
	other := func() *sessions.Admission { // in a session of its own
		l.others++
		return l.call(-l.others)
	}
	return map[string]func() error{
		"a call in a new session": func() error {
			op := &sessions.Op{Admit: other()}
			l.apply(op)
			l.apply(l.end(op.Grant))
			return nil
		},
		"a call in an old session": func() error {
			op := &sessions.Op{Admit: l.call(len(l.grants) / 3)}
			l.apply(op)
			l.apply(l.end(op.Grant))
			return nil
		},
		"a change of a session with many runs": func() error {
			op := &sessions.Op{Admit: l.call(0)}
			l.apply(op)
			for _, verb := range []lineage.Verb{lineage.VerbSuspend, lineage.VerbResume} {
				l.apply(&sessions.Op{Change: &sessions.Change{Root: "root", Session: op.Grant.Session.ID, Verb: verb}})
			}
			l.apply(ended(op.Grant))
			return nil
		},
		"the end of a parent": func() error {
			parent := other()
			child := other()
			child.Caller.Session = parent.SessionID
			l.apply(&sessions.Op{Admit: parent}, &sessions.Op{Admit: child}, &sessions.Op{Change: &sessions.Change{
				Root: "root", Session: parent.SessionID, Verb: lineage.VerbComplete,
			}})
			if got := stands(l.tb, l.store, child.SessionID); got != "active//orphaned" {
				l.tb.Errorf("the child of a session that has ended is %s, want it asked to stop", got)
			}
			return nil
		},
		"settling one thing": func() error {
			a := other()
			a.TTL, a.Ahead = time.Second, true
			l.apply(&sessions.Op{Admit: a})
			l.clock.advance(time.Second)
			_, err := l.store.Settle(l.tb.Context())
			return err
		},
		"a page of sessions": func() error {
			page, err := l.store.Sessions(l.tb.Context(), "root", sessions.SessionQuery{After: len(l.grants) / 2, Limit: 100})
			if len(page.Sessions) != 100 {
				l.tb.Errorf("Sessions(page of 100) = %d", len(page.Sessions))
			}
			return err
		},
		"a session": func() error {
			_, err := l.store.Session(l.tb.Context(), l.grants[len(l.grants)/4].Session.ID)
			return err
		},
		"the session of a task": func() error {
			_, err := l.store.SessionOf(l.tb.Context(), "root", sessions.BindingKey{Kind: sessions.BindTask, Agent: "worker", ID: "task-" + some().RunID})
			return err
		},
		"a page of events": func() error {
			page, err := l.store.Events(l.tb.Context(), "root", sessions.EventQuery{All: true, After: uint64(len(l.grants) * l.events / 2), Limit: 100})
			if len(page.Events) != 100 {
				l.tb.Errorf("Events(page of 100) = %d", len(page.Events))
			}
			return err
		},
		"the last events": func() error {
			_, err := l.store.Events(l.tb.Context(), "root", sessions.EventQuery{All: true, LastN: 100})
			return err
		},
		"events of one session": func() error {
			_, err := l.store.Events(l.tb.Context(), "root", sessions.EventQuery{All: true, Session: some().Session.ID})
			return err
		},
		"the tree": func() error {
			_, err := l.store.Tree(l.tb.Context(), "root")
			return err
		},
	}
}

// What a call, a page or a settling costs does not grow with its tree.
func TestCostIsConstant(t *testing.T) {
	t.Parallel()
	// With both sizes, the file's own trees are as deep.
	const small, big = 2000, 7000
	l := newLarge(t, sqlite.Options{Path: sqlite.Memory})
	l.events = 6
	measure := func() map[string]int {
		costs := map[string]int{}
		for name, do := range l.costs() {
			if name == "events of one session" {
				continue // has a bound of its own: see TestPageOfFewEvents
			}
			l.store.Forget() // else what was just made were cheaper than what is old
			before := l.touched()
			if err := do(); err != nil {
				t.Fatalf("%s: %v", name, err)
			}
			costs[name] = l.touched() - before
		}
		return costs
	}
	l.grow(small)
	before := measure()
	l.grow(big)
	for name, got := range measure() {
		limit := before[name]*9/8 + 5
		if name == "the last events" {
			limit += 100 // their sessions may stand side by side or not
		}
		if got > limit {
			t.Errorf("%s touches %d pages with %d sessions and %d with %d, want at most %d", name, before[name], small, got, big, limit)
		}
	}
}

func (l *large) touched() int {
	l.tb.Helper()
	n, err := l.store.PagesTouched()
	if err != nil {
		l.tb.Fatal(err)
	}
	return n
}

// What a settling costs does not grow with what is not due.
func TestSettleCostsWhatIsDue(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: sqlite.Memory, Now: clock.now})
	l := &large{tb: t, store: s}
	costs := map[int]int{}
	const few, many = 50, 2000
	for _, trees := range []int{few, many} {
		var ops []*sessions.Op
		for i := range trees {
			a := call(fmt.Sprint("tree-", trees, "-", i))
			a.Lease, a.TTL = 1000*time.Hour, 2000*time.Hour
			ops = append(ops, &sessions.Op{Admit: a})
		}
		due := call(fmt.Sprint("due-", trees))
		l.apply(append(ops, &sessions.Op{Admit: due})...)
		clock.advance(due.Lease)
		s.Forget()
		before := l.touched()
		if more, err := s.Settle(t.Context()); err != nil || more {
			t.Fatalf("Settle() = %t, %v, want false", more, err)
		}
		costs[trees] = l.touched() - before
		if got, err := s.Session(t.Context(), due.SessionID); err != nil || got.Reason != lineage.ReasonLost {
			t.Errorf("Session(%s) = %s %s, %v, want it lost", due.SessionID, got.State, got.Reason, err)
		}
	}
	if limit := costs[few]*3/2 + 5; costs[many] > limit {
		t.Errorf("settling one of %d costs %d pages, and one of %d %d, want at most %d", few, costs[few], many, costs[many], limit)
	}
}

// A page of which little is selected is looked for in a piece of the log. Its
// Next leads on.
func TestPageOfFewEvents(t *testing.T) {
	t.Parallel()
	l := newLarge(t, sqlite.Options{Path: sqlite.Memory})
	l.events = 1000
	l.grow(48)
	first, last := l.grants[1].Session.ID, l.grants[len(l.grants)-1].Session.ID
	q := sessions.EventQuery{All: true, Session: last, Limit: sessions.MaxPage}
	var pages, events int
	for {
		page, err := l.store.Events(t.Context(), "root", q)
		if err != nil {
			t.Fatal(err)
		}
		if page.Next <= q.After {
			break
		}
		pages, events, q.After = pages+1, events+len(page.Events), page.Next
	}
	if pages < 2 || events != l.events {
		t.Errorf("Events(of %s) = %d events on %d pages, want %d on several", last, events, pages, l.events)
	}
	page, err := l.store.Events(t.Context(), "root", sessions.EventQuery{All: true, Session: first, LastN: 3})
	if err != nil || len(page.Events) != 3 {
		t.Errorf("Events(last 3 of %s) = %d events, %v, want 3, however far back", first, len(page.Events), err)
	}
}

// BenchmarkLargeTree does one thing in trees of several sizes, up to 100,000
// sessions and a log of 1,000,000 events. It takes a minute to make them.
func BenchmarkLargeTree(b *testing.B) {
	l := newLarge(b, sqlite.Options{Path: file(b)})
	for _, size := range []int{1000, 100_000} {
		b.Run(fmt.Sprint("sessions=", size), func(b *testing.B) {
			l.tb = b
			l.grow(size)
			costs := l.costs()
			for _, name := range slices.Sorted(maps.Keys(costs)) {
				b.Run(name, func(b *testing.B) {
					l.tb = b
					for b.Loop() {
						if err := costs[name](); err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		})
	}
}
