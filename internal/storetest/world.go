package storetest

import (
	"encoding/json"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

const (
	alice = "alice" // the principal of a call unless it says otherwise
	lease = 10 * time.Second
)

// world is one case's view of a store: a tree of its own, and words to say
// what happens in it.
type world struct {
	*testing.T
	store sessions.Store
	clock *clock
	root  string // of the tree that calls go to unless they say otherwise
	last  atomic.Int64
	extra []string // roots of the case's other trees
}

// id returns an id that no other call has had, in ascending order.
func (w *world) id(what string) string { return fmt.Sprintf("%s-%s-%04d", w.root, what, w.last.Add(1)) }

// call is an admission in the making.
type call struct {
	w *world
	sessions.Admission
}

// call is a call of the root session to agent, in a session of its own that
// the reply will name.
func (w *world) call(agent string) *call {
	return &call{w, sessions.Admission{
		Root: w.root, Principal: alice, Local: "coordinator",
		MainID: w.id("main"), RemoteID: w.id("remote"),
		Agent: agent, Kind: lineage.Branch, Inherit: lineage.InheritFull, Source: lineage.FromHeader,
		SessionID: w.id("session"), RunID: w.id("run"), MessageID: w.id("message"),
		Owner: "sidecar-1", Lease: lease, Sent: json.RawMessage(`{"method":"SendMessage"}`),
	}}
}

// isolated: in a fresh context, for this call only.
func (c *call) isolated() *call {
	c.Isolated, c.ContextID = true, c.w.id("context")
	return c
}

// in: in a shared session, found by its context.
func (c *call) in(contextID string) *call {
	c.Resolve, c.ContextID = sessions.ResolveContext, contextID
	return c
}

// shared: in the one shared session of the agent.
func (c *call) shared() *call {
	c.Resolve = sessions.ResolveAgent
	return c
}

func (c *call) worker() *call {
	c.Kind, c.Inherit = lineage.Worker, lineage.InheritNone
	return c
}

// from: out of the session of g, known by its context.
func (c *call) from(g sessions.Grant) *call {
	c.Caller.ContextID, c.Local = g.Session.ContextID, g.Session.Agent
	return c
}

func (c *call) to(root string) *call {
	c.Root = root
	c.w.extra = append(c.w.extra, root)
	return c
}

func (c *call) max(l lineage.Limits) *call             { c.Limits = l; return c }
func (c *call) turn(turn string) *call                 { c.Turn = turn; return c }
func (c *call) message(id string) *call                { c.MessageID = id; return c }
func (c *call) task(id string) *call                   { c.TaskID = id; return c }
func (c *call) ttl(d time.Duration) *call              { c.TTL = d; return c }
func (c *call) with(f func(*sessions.Admission)) *call { f(&c.Admission); return c }

// again is the same call sent once more: what the sidecar makes up is new.
func (c *call) again() *call {
	next := *c
	next.MainID, next.RemoteID = c.w.id("main"), c.w.id("remote")
	next.SessionID, next.RunID = c.w.id("session"), c.w.id("run")
	return &next
}

func (c *call) apply() (sessions.Grant, error) {
	a := c.Admission
	op := sessions.Op{Admit: &a}
	c.w.store.Apply(c.w.Context(), []*sessions.Op{&op})
	return op.Grant, op.Err
}

// ok makes the call, which must be admitted.
func (c *call) ok() sessions.Grant {
	c.w.Helper()
	g, err := c.apply()
	if err != nil {
		c.w.Fatalf("Apply(call of %s) = %v, want a grant", c.Agent, err)
	}
	return g
}

// refused makes the call, which must be refused in just these words, and must
// leave no trace.
func (c *call) refused(want lineage.Refusal) {
	c.w.Helper()
	want.Agent = c.Agent
	before := c.traces()
	g, err := c.apply()
	var got *lineage.Refusal
	if !errors.As(err, &got) {
		c.w.Fatalf("Apply(call of %s) = %+v, %v, want refusal %s", c.Agent, g, err, want.Reason)
	}
	if d := cmp.Diff(want, *got); d != "" {
		c.w.Errorf("Apply(call of %s): refusal (-want +got):\n%s", c.Agent, d)
	}
	if d := diff(before, c.traces()); d != "" {
		c.w.Errorf("Apply(call of %s), refused, changed the store (-before +after):\n%s", c.Agent, d)
	}
}

// traces is everything that a call could leave behind.
type traces struct {
	Tree     *dump
	Sessions []bool
	Bindings []sessions.Binding
}

func (c *call) traces() traces {
	c.w.Helper()
	var tr traces
	_, err := c.w.store.Tree(c.w.Context(), c.Root)
	switch {
	case err == nil:
		tr.Tree = c.w.dump(c.Root)
	case !errors.Is(err, sessions.ErrNotFound):
		c.w.Fatalf("Tree(%s): %v", c.Root, err)
	}
	for _, id := range []string{c.MainID, c.RemoteID, c.SessionID} {
		_, err := c.w.store.Session(c.w.Context(), id)
		tr.Sessions = append(tr.Sessions, err == nil)
	}
	for _, key := range []sessions.BindingKey{
		{Kind: sessions.BindContext, Agent: c.Agent, ID: c.ContextID},
		{Kind: sessions.BindTask, Agent: c.Agent, ID: c.TaskID},
		{Kind: sessions.BindContext, Agent: c.Local, ID: c.Caller.ContextID},
		{Kind: sessions.BindContext, Agent: c.Local, ID: c.Root},
	} {
		b, err := c.w.store.Find(c.w.Context(), key)
		if err != nil && !errors.Is(err, sessions.ErrNotFound) {
			c.w.Fatalf("Find(%v): %v", key, err)
		}
		tr.Bindings = append(tr.Bindings, b)
	}
	return tr
}

// news is progress in the making.
type news struct {
	w *world
	sessions.Progress
}

// about is news of the run of g.
func (w *world) about(g sessions.Grant) *news {
	return &news{w, sessions.Progress{
		Root: g.Session.Tree, Session: g.Session.ID, Run: g.RunID, Gen: g.Gen, Agent: g.Session.Agent, TraceID: "trace-news",
	}}
}

// task: the reply told the run's task.
func (n *news) task(id string) *news {
	n.TaskID = id
	return n.event("status/"+n.Agent+"/"+id+"/"+n.w.id("seen"), lineage.EventStatus,
		fmt.Sprintf(`{"run":%q,"taskId":%q}`, n.Run, id))
}

func (n *news) event(id, typ, payload string) *news {
	n.Events = append(n.Events, sessions.Draft{ID: id, Type: typ, Payload: json.RawMessage(payload)})
	return n
}

func (n *news) with(f func(*sessions.Progress)) *news { f(&n.Progress); return n }

// is: the run is now in this state.
func (n *news) is(s lineage.State, reason string) *news {
	n.State, n.Reason = s, reason
	return n
}

func (n *news) apply() error {
	p := n.Progress
	op := sessions.Op{Progress: &p}
	n.w.store.Apply(n.w.Context(), []*sessions.Op{&op})
	return op.Err
}

// tell tells the store, which must take it.
func (n *news) tell() {
	n.w.Helper()
	if err := n.apply(); err != nil {
		n.w.Fatalf("Apply(news of run %s) = %v", n.Run, err)
	}
}

func (w *world) completes(g sessions.Grant) { w.Helper(); w.about(g).is(lineage.Completed, "").tell() }

func (w *world) suspends(g sessions.Grant) { w.Helper(); w.about(g).is(lineage.Suspended, "").tell() }

func (w *world) loses(g sessions.Grant) {
	w.Helper()
	w.about(g).is(lineage.Failed, lineage.ReasonLost).tell()
}

// session reads the session of g.
func (w *world) session(g sessions.Grant) lineage.Session {
	w.Helper()
	s, err := w.store.Session(w.Context(), g.Session.ID)
	if err != nil {
		w.Fatalf("Session(%s): %v", g.Session.ID, err)
	}
	return s
}

// run reads the run of g.
func (w *world) run(g sessions.Grant) lineage.Run {
	w.Helper()
	for _, r := range w.session(g).Runs {
		if r.ID == g.RunID {
			return r
		}
	}
	w.Fatalf("Session(%s) has no run %s", g.Session.ID, g.RunID)
	return lineage.Run{}
}

func spellState(s lineage.State, reason string) string {
	if reason == "" {
		return string(s)
	}
	return string(s) + "/" + reason
}

// stands checks the states of the session and the run of g, spelled "state" or
// "state/reason".
func (w *world) stands(g sessions.Grant, session, run string) {
	w.Helper()
	s, r := w.session(g), w.run(g)
	if got := spellState(s.State, s.Reason); got != session {
		w.Errorf("session %s is %s, want %s", s.ID, got, session)
	}
	if got := spellState(r.State, r.Reason); got != run {
		w.Errorf("run %s is %s, want %s", r.ID, got, run)
	}
	if ended := s.EndedAt != nil; ended != s.State.Terminal() {
		w.Errorf("session %s is %s, and has ended: %t", s.ID, s.State, ended)
	}
	if ended := r.EndedAt != nil; ended != r.State.Terminal() {
		w.Errorf("run %s is %s, and has ended: %t", r.ID, r.State, ended)
	}
}

func (w *world) tree() lineage.Tree {
	w.Helper()
	t, err := w.store.Tree(w.Context(), w.root)
	if err != nil {
		w.Fatalf("Tree(%s): %v", w.root, err)
	}
	return t
}

// live checks how many sessions of the tree are live.
func (w *world) live(want int) {
	w.Helper()
	if got := w.tree().Live; got != want {
		w.Errorf("Tree(%s).Live = %d, want %d", w.root, got, want)
	}
}

// logged returns the ids of the tree's events of some types (none: of all).
func (w *world) logged(types ...string) []string {
	w.Helper()
	var ids []string
	for _, e := range w.events(w.root, sessions.EventQuery{All: true, Types: types}) {
		ids = append(ids, e.ID)
	}
	return ids
}

// events reads all that q selects, page by page.
func (w *world) events(root string, q sessions.EventQuery) []lineage.Event {
	w.Helper()
	var all []lineage.Event
	for {
		page, err := w.store.Events(w.Context(), root, q)
		if err != nil {
			w.Fatalf("Events(%s, %+v): %v", root, q, err)
		}
		all = append(all, page.Events...)
		if page.Next <= q.After {
			return all
		}
		q.After = page.Next
	}
}

// belongs checks what key belongs to; the zero binding: to nothing.
func (w *world) belongs(kind sessions.BindingKind, agent, id string, want sessions.Binding) {
	w.Helper()
	key := sessions.BindingKey{Kind: kind, Agent: agent, ID: id}
	got, err := w.store.Find(w.Context(), key)
	if want == (sessions.Binding{}) {
		if !errors.Is(err, sessions.ErrNotFound) {
			w.Errorf("Find(%v) = %v, %v, want ErrNotFound", key, got, err)
		}
		return
	}
	if err != nil || got != want {
		w.Errorf("Find(%v) = %v, %v, want %v", key, got, err, want)
	}
}

// mine is the binding of this case's tree.
func (w *world) mine() sessions.Binding { return sessions.Binding{Root: w.root, Principal: alice} }

// equal checks that got is want, empty and nil slices being the same.
func (w *world) equal(what string, want, got any) {
	w.Helper()
	if d := diff(want, got); d != "" {
		w.Errorf("%s (-want +got):\n%s", what, d)
	}
}
