package storetest

import (
	"errors"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// ahead is a session of agent that is made before its first call, in a context
// of its own, on request.
func (w *world) ahead(agent, request string) *call {
	return w.call(agent).isolated().with(func(a *sessions.Admission) {
		a.Ahead, a.RequestID, a.Source = true, request, lineage.FromAPI
		a.MessageID, a.RunID, a.Sent = "", "", nil
	})
}

// naming: the message names a context, whichever the call is to run in.
func (c *call) naming(contextID string) *call {
	c.Named = contextID
	return c
}

// under: out of the session with this id.
func (c *call) under(id string) *call {
	c.Caller = sessions.Caller{Session: id}
	return c
}

func (c *call) abandon() *call { return c.with(func(a *sessions.Admission) { a.Abandon = true }) }

// notFound makes the call, which must find no caller and leave no trace.
func (c *call) notFound() {
	c.w.Helper()
	before := c.traces()
	if g, err := c.apply(); !errors.Is(err, sessions.ErrNotFound) {
		c.w.Errorf("Apply(call of %s out of %+v) = %+v, %v, want ErrNotFound", c.Agent, c.Caller, g, err)
	}
	if d := diff(before, c.traces()); d != "" {
		c.w.Errorf("Apply(call of %s), not found, changed the store (-before +after):\n%s", c.Agent, d)
	}
}

// change is a step in the making.
type change struct {
	w *world
	sessions.Change
}

// step is a step of the session of g.
func (w *world) step(verb lineage.Verb, g sessions.Grant) *change {
	return &change{w, sessions.Change{Root: g.Session.Tree, Session: g.Session.ID, Verb: verb, TraceID: "trace-step"}}
}

// mainStep is a step of the root session.
func (w *world) mainStep(verb lineage.Verb) *change {
	w.Helper()
	return w.step(verb, sessions.Grant{Session: w.main()})
}

func (c *change) with(f func(*sessions.Change)) *change { f(&c.Change); return c }

func (c *change) apply() (sessions.Grant, error) {
	change := c.Change
	op := sessions.Op{Change: &change}
	c.w.store.Apply(c.w.Context(), []*sessions.Op{&op})
	return op.Grant, op.Err
}

// ok takes the step, which must be allowed, and returns the session after it.
func (c *change) ok() lineage.Session {
	c.w.Helper()
	g, err := c.apply()
	if err != nil {
		c.w.Fatalf("Apply(%s of %s) = %v, want success", c.Verb, c.Session, err)
	}
	s, err := c.w.store.Session(c.w.Context(), c.Session)
	if err != nil {
		c.w.Fatalf("Session(%s): %v", c.Session, err)
	}
	s.Runs = nil
	c.w.equal("what the "+string(c.Verb)+" grants", sessions.Grant{Session: s}, g)
	return s
}

// conflicts takes the step, which must be refused and change nothing. waits is
// as in [lineage.Verb.Check].
func (c *change) conflicts(waits bool) {
	c.w.Helper()
	before := c.w.dump(c.Root)
	want := c.Verb.Check(before.session(c.Session), waits)
	g, err := c.apply()
	got, ok := errors.AsType[*lineage.Conflict](err)
	if !ok {
		c.w.Errorf("Apply(%s of %s) = %+v, %v, want a conflict", c.Verb, c.Session, g, err)
	} else if d := cmp.Diff(want, got); d != "" {
		c.w.Errorf("Apply(%s of %s): conflict (-want +got):\n%s", c.Verb, c.Session, d)
	}
	c.w.equal("what a refused "+string(c.Verb)+" changes", before, c.w.dump(c.Root))
}

// ending checks why the session of g was asked to stop ("": it was not), and
// that what is left of its grace is its deadline.
func (w *world) ending(g sessions.Grant, reason string) {
	w.Helper()
	s := w.session(g)
	if s.Ending != reason {
		w.Errorf("session %s is ending because of %q, want %q", s.ID, s.Ending, reason)
	}
	if reason != "" && (s.Deadline == nil || s.Deadline.After(w.clock.now().Add(lineage.DefaultGrace))) {
		w.Errorf("session %s is ending and has until %v, it is %s", s.ID, s.Deadline, w.clock.now())
	}
}

// settle settles all that is due, in all trees.
func (w *world) settle() {
	w.Helper()
	if err := settleAll(w.Context(), w.store); err != nil {
		w.Fatalf("Settle: %v", err)
	}
}

// passGrace goes past the end of a grace that began just now, and settles.
func (w *world) passGrace() {
	w.Helper()
	w.clock.advance(lineage.DefaultGrace + tick)
	w.settle()
}

// hold keeps runs from being lost for the next hour.
func (w *world) hold(grants ...sessions.Grant) { w.Helper(); w.renew(hour, grants...) }
