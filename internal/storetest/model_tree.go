package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// modelTree is one tree, with its log and the indexes of its ids.
type modelTree struct {
	root, principal string
	catchAll        bool
	nodes           []*node // in spawn order; the first is main
	log             []lineage.Event
	nextToken       lineage.Token

	messages map[agentID]*modelRun // the run that a message opened last
	tasks    map[agentID]*modelRun // the run that goes on with a task
	contexts map[agentID]*node     // the session with a context at an agent
	callers  map[string]*node      // the session with a context, at whatever agent
	shared   map[string]*node      // the one shared session of an agent
	requests map[string]*node      // the session that a request made ahead of its calls
}

// agentID is an id as one agent knows it.
type agentID struct{ agent, id string }

// node is a session. The Runs of the embedded one stay empty: see runs. While it
// is being ended, its Deadline is the end of the grace.
type node struct {
	lineage.Session
	parent   *node // nil for main
	children int   // ordinals given to its children
	ttl      time.Duration
	runs     []*modelRun
}

// modelRun is a run and the place it holds.
type modelRun struct {
	lineage.Run
	in     *node // the session it runs in
	caller *node // the session the call came out of

	gen      int
	lease    time.Time
	length   time.Duration // of the lease, when it was last given
	detached bool          // no call holds it: its lease is not renewed
	turn     string        // of the call that holds it
}

func (r *modelRun) lapsed(now time.Time) bool { return !r.lease.After(now) }

// open counts the runs that are open in n.
func (n *node) open() int {
	open := 0
	for _, r := range n.runs {
		if r.State == lineage.Active {
			open++
		}
	}
	return open
}

// waits reports whether a run of n is suspended, whoever suspended it.
func (n *node) waits() bool {
	return slices.ContainsFunc(n.runs, func(r *modelRun) bool { return r.State == lineage.Suspended })
}

// busy reports whether a run of n is open or waits.
func (n *node) busy() bool { return n.open() > 0 || n.waits() }

func (n *node) live() bool { return n.busy() || n.Reserved }

// unfinished reports whether n is to end yet, or a run that was opened in it
// after its end.
func (n *node) unfinished() bool { return !n.State.Terminal() || n.open() > 0 }

// over reports whether n has ended, or is about to: no call finds it by its
// context any more, and a new session may take that.
func (n *node) over() bool { return n.State.Terminal() || n.Ending != "" }

// path returns the sessions from the root down to n.
func (n *node) path() []*node {
	if n == nil {
		return nil
	}
	return append(n.parent.path(), n)
}

// snapshot is n with its newest runs, sharing nothing that changes.
func (n *node) snapshot() lineage.Session {
	s := n.Session
	for _, r := range n.runs[max(0, len(n.runs)-sessions.MaxRuns):] {
		s.Runs = append(s.Runs, r.Run)
	}
	return s
}

func (t *modelTree) main() *node { return t.nodes[0] }

func (t *modelTree) node(id string) *node {
	for _, n := range t.nodes {
		if n.ID == id {
			return n
		}
	}
	return nil
}

func (t *modelTree) run(id string) *modelRun {
	for _, n := range t.nodes {
		for _, r := range n.runs {
			if r.ID == id {
				return r
			}
		}
	}
	return nil
}

// liveChildren counts the places taken under parent.
func (t *modelTree) liveChildren(parent *node) int {
	live := 0
	for _, n := range t.nodes {
		if n.parent == parent && n.parent != nil && n.live() {
			live++
		}
	}
	return live
}

// out counts the open runs that came out of caller.
func (t *modelTree) out(caller *node) int {
	out := 0
	for _, n := range t.nodes {
		for _, r := range n.runs {
			if r.caller == caller && r.State == lineage.Active {
				out++
			}
		}
	}
	return out
}

// held counts the open runs in n whose lease is not over. One whose lease is
// holds no agent's place, even before an admission in its own tree settles it:
// else the runs of a sidecar that died would block an agent for ever.
func (n *node) held(now time.Time) int {
	held := 0
	for _, r := range n.runs {
		if r.State == lineage.Active && !r.lapsed(now) {
			held++
		}
	}
	return held
}

// agentRuns counts the places held at agent, over all trees.
func (m *Model) agentRuns(agent string, now time.Time) int {
	runs := 0
	for _, t := range m.trees {
		for _, n := range t.nodes {
			if n.Agent == agent {
				runs += n.held(now)
			}
		}
	}
	return runs
}

// origin is what an event bears of the call that caused it.
type origin struct{ turn, traceID string }

// next is the number of the event that is logged next.
func (t *modelTree) next() int { return len(t.log) + 1 }

// logged reports whether the log has an event.
func (t *modelTree) logged(id string) bool {
	return slices.ContainsFunc(t.log, func(e lineage.Event) bool { return e.ID == id })
}

// append logs an event of n at time at, unless the log has its id, and returns
// the time it was given: times never go backwards in a log.
func (t *modelTree) append(at time.Time, n *node, by origin, id, typ string, payload any) time.Time {
	if len(t.log) > 0 {
		if last := t.log[len(t.log)-1].Time; at.Before(last) {
			at = last
		}
	}
	if t.logged(id) {
		return at
	}
	e := lineage.Event{
		Seq: uint64(t.next()), ID: id, Time: at, Type: typ, Session: n.ID, Branch: n.Branch,
		Tokens: n.Tokens, Turn: by.turn, TraceID: by.traceID, Payload: encode(payload),
	}
	t.log = append(t.log, e)
	n.Version, n.UpdatedAt = e.Seq, at
	return at
}

// encode is payload as JSON. Raw JSON keeps its bytes.
func encode(payload any) json.RawMessage {
	if raw, ok := payload.(json.RawMessage); ok {
		return slices.Clone(raw)
	}
	b, err := json.Marshal(payload)
	if err != nil {
		panic(fmt.Sprintf("storetest: encoding %T: %v", payload, err)) // plain structs and valid raw JSON
	}
	return b
}

// name makes n the session that a context id at its agent means: the first
// stays, unless it is over and a shared session takes over from it.
func (m *Model) name(t *modelTree, n *node, contextID string, takeOver bool) {
	if contextID == "" {
		return
	}
	free := func(holder *node) bool { return holder == nil || takeOver && holder.over() }
	if at := (agentID{n.Agent, contextID}); free(t.contexts[at]) {
		t.contexts[at] = n
	}
	if free(t.callers[contextID]) {
		t.callers[contextID] = n
	}
	m.bind(sessions.BindingKey{Kind: sessions.BindContext, Agent: n.Agent, ID: contextID}, t.binding())
}

func (t *modelTree) binding() sessions.Binding {
	return sessions.Binding{Root: t.root, Principal: t.principal}
}
