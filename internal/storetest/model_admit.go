package storetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// admit looks first and writes after: until the caps are checked nothing that
// it makes hangs in the model.
func (m *Model) admit(a *sessions.Admission) (sessions.Grant, error) {
	t := m.trees[a.Root]
	if t != nil && t.principal != a.Principal && !a.Ahead {
		return sessions.Grant{}, &lineage.Refusal{Reason: lineage.ContextForbidden, Agent: a.Agent}
	}
	fresh := t == nil
	if fresh {
		t = plant(a)
	} else {
		m.settle(t)
	}
	if a.Ahead {
		return m.admitAhead(t, fresh, a)
	}
	s, run, retry := t.lookUp(a)
	resumed := run != nil && !run.State.Terminal()
	held := resumed && run.State == lineage.Active // the run has its place already
	var caller *node
	known := true
	if resumed {
		caller = run.caller // a run that goes on stays that caller's
	} else {
		var err error
		if caller, known, err = t.callerOf(a); err != nil {
			return sessions.Grant{}, err
		}
	}

	if refusal := m.check(t, a, caller, s, held); refusal != nil {
		return sessions.Grant{}, refusal
	}

	now := m.now()
	m.establish(now, t, fresh, a, caller, known)
	made := s == nil
	if made {
		s = m.make(now, t, a, caller)
		if a.Resolve == sessions.ResolveAgent {
			t.shared[a.Agent] = s
		}
	}

	waited := resumed && run.State == lineage.Suspended
	if !resumed {
		run = &modelRun{in: s, caller: caller, Run: lineage.Run{
			ID: a.RunID, Caller: caller.ID, TaskID: a.TaskID, MessageID: a.MessageID,
		}}
	}
	run.gen++
	run.lease, run.length, run.detached, run.turn = now.Add(a.Lease), a.Lease, false, a.Turn
	if !retry || !held {
		t.logCall(now, a, s, run, waited, !resumed)
	}

	message := agentID{a.Agent, a.MessageID}
	t.messages[message] = run
	if a.TaskID != "" {
		t.tasks[agentID{a.Agent, a.TaskID}] = run
		m.bind(sessions.BindingKey{Kind: sessions.BindTask, Agent: a.Agent, ID: a.TaskID}, t.binding())
	}
	s.admitted(now, a)
	return sessions.Grant{
		Session: s.Session, ParentContextID: s.parentContext(),
		RunID: run.ID, Gen: run.gen, New: made, Retry: retry, Resumed: resumed, Waited: waited,
	}, nil
}

// admitAhead makes a session that waits for its first call, or finds the one
// that the same request made before.
func (m *Model) admitAhead(t *modelTree, fresh bool, a *sessions.Admission) (sessions.Grant, error) {
	if s := t.requests[a.RequestID]; a.RequestID != "" && s != nil {
		return sessions.Grant{Session: s.Session, ParentContextID: s.parentContext(), Retry: true}, nil
	}
	caller, known, err := t.callerOf(a)
	if err != nil {
		return sessions.Grant{}, err
	}
	if refusal := m.check(t, a, caller, nil, false); refusal != nil {
		return sessions.Grant{}, refusal
	}
	now := m.now()
	m.establish(now, t, fresh, a, caller, known)
	s := m.make(now, t, a, caller)
	if len(a.Summary) > 0 {
		t.append(now, s, origin{a.Turn, a.TraceID}, "summary/"+s.ID, lineage.EventSummary, a.Summary)
	}
	if a.RequestID != "" {
		t.requests[a.RequestID] = s
	}
	s.admitted(now, a)
	return sessions.Grant{Session: s.Session, ParentContextID: s.parentContext(), New: true}, nil
}

// establish makes the tree and the placeholder of its caller, where they are
// not there yet.
func (m *Model) establish(now time.Time, t *modelTree, fresh bool, a *sessions.Admission, caller *node, known bool) {
	by := origin{a.Turn, a.TraceID}
	if fresh {
		m.trees[a.Root] = t
		t.spawn(now, t.main(), by)
		m.name(t, t.main(), a.Root, false)
	}
	if !known {
		t.nodes = append(t.nodes, caller)
		t.spawn(now, caller, by)
		m.name(t, caller, caller.ContextID, false)
	}
}

// make makes the session that a asks for, under its caller.
func (m *Model) make(now time.Time, t *modelTree, a *sessions.Admission, caller *node) *node {
	s := t.child(caller, a.Agent)
	s.ID, s.Kind, s.ContextID = a.SessionID, a.Kind, a.ContextID
	s.Isolated, s.Inherit, s.ParentSource = a.Isolated, a.Inherit, a.Source
	s.Abandon, s.Reserved, s.ttl = a.Abandon, a.Ahead, a.TTL
	t.nodes = append(t.nodes, s)
	t.spawn(now, s, origin{a.Turn, a.TraceID})
	m.name(t, s, a.ContextID, a.Resolve != sessions.ResolveNone)
	return s
}

// admitted is what every admission into n leaves in it: its time, which the
// admission that made it set, begins anew, also where it is over. One that is
// being ended gets no more of it.
func (n *node) admitted(now time.Time, a *sessions.Admission) {
	switch deadline := now.Add(n.ttl); {
	case n.Ending != "":
	case n.ttl > 0:
		n.Deadline = &deadline
	case n.State.Terminal():
		n.Deadline = nil
	}
	n.Owner = a.Owner
}

func (n *node) parentContext() string {
	if n.parent == nil {
		return ""
	}
	return n.parent.ContextID
}

// plant makes a tree with its main session, nothing logged yet.
func plant(a *sessions.Admission) *modelTree {
	main := &node{Session: lineage.Session{
		ID: a.MainID, Tree: a.Root, Edge: lineage.EdgeRoot, Kind: lineage.Main, Agent: a.Local,
		ContextID: a.Root, State: lineage.Active, Inherit: lineage.InheritFull, ParentSource: a.Source,
	}}
	if c := a.Caller.ContextID; c != "" && c != a.Root {
		// The root session lives beside some other sidecar.
		main.Agent, main.Remote = "root", true
	}
	main.Branch = main.Agent
	return &modelTree{
		root: a.Root, principal: a.Principal, catchAll: a.CatchAll,
		nodes: []*node{main}, nextToken: 1,
		messages: map[agentID]*modelRun{}, tasks: map[agentID]*modelRun{},
		contexts: map[agentID]*node{}, callers: map[string]*node{}, shared: map[string]*node{},
		requests: map[string]*node{},
	}
}

// callerOf returns the session that a's call comes out of; known tells whether
// it hangs in the tree already.
func (t *modelTree) callerOf(a *sessions.Admission) (caller *node, known bool, err error) {
	c := a.Caller
	if c.Session != "" {
		if s := t.node(c.Session); s != nil && len(t.log) > 0 {
			return s, true, nil
		}
		return nil, false, fmt.Errorf("session %s of tree %s: %w", c.Session, t.root, sessions.ErrNotFound)
	}
	if c.SiblingOf != "" {
		if s := t.contexts[agentID{a.Agent, c.SiblingOf}]; s != nil && s.parent != nil {
			return s.parent, true, nil
		}
		return t.main(), true, nil
	}
	if c.ContextID == "" || c.ContextID == a.Root {
		return t.main(), true, nil
	}
	if s := t.callers[c.ContextID]; s != nil {
		return s, true, nil
	}
	p := t.child(t.main(), a.Local)
	p.ID, p.Kind, p.ContextID, p.Remote = a.RemoteID, lineage.Branch, c.ContextID, true
	p.Inherit, p.ParentSource = lineage.InheritFull, a.Source
	p.Depth = max(1, c.Depth)
	return p, false, nil
}

// child is a new session of agent under parent. It takes its ordinal and its
// tokens when it is spawned; the label is needed before, for refusals.
func (t *modelTree) child(parent *node, agent string) *node {
	return &node{parent: parent, Session: lineage.Session{
		Tree: t.root, Parent: parent.ID, Edge: lineage.EdgeSpawn, Agent: agent, State: lineage.Active,
		Depth: parent.Depth + 1, Branch: lineage.Label(parent.Branch, agent, parent.children+1),
	}}
}

// lookUp finds the session that the call goes to (nil: a new one), and the run
// of the same task or message (nil: none).
func (t *modelTree) lookUp(a *sessions.Admission) (s *node, run *modelRun, retry bool) {
	if r := t.tasks[agentID{a.Agent, a.TaskID}]; a.TaskID != "" && r != nil {
		return r.in, r, false
	}
	if r := t.messages[agentID{a.Agent, a.MessageID}]; r != nil {
		return r.in, r, true
	}
	if s := t.contexts[agentID{a.Agent, a.Named}]; a.Named != "" && s != nil && s.Reserved {
		return s, nil, false
	}
	var found *node
	switch a.Resolve {
	case sessions.ResolveContext:
		if a.ContextID != "" {
			found = t.contexts[agentID{a.Agent, a.ContextID}]
		}
	case sessions.ResolveAgent:
		found = t.shared[a.Agent]
	case sessions.ResolveNone:
	}
	if found == nil || found.over() {
		return nil, nil, false
	}
	return found, nil, false
}

// check counts what the caps are about.
func (m *Model) check(t *modelTree, a *sessions.Admission, caller, s *node, held bool) error {
	limits := a.Limits
	if held {
		limits = lineage.Limits{} // takes no place: only the caller's own standing counts
	}
	now := m.now()
	parent := caller
	if s != nil {
		parent = s.parent
	}
	p := lineage.Place{
		Agent: a.Agent, Kind: a.Kind,
		Caller: &caller.Session, CallerDepth: caller.Depth, OpenRuns: t.out(caller),
		New: s == nil, NoMadeLimit: t.catchAll, Live: s != nil && s.live(),
		Siblings: t.liveChildren(parent), AgentRuns: m.agentRuns(a.Agent, now),
	}
	if len(t.nodes) > 0 && !slices.Contains(t.nodes, caller) && t.nodes[0].over() {
		p.Caller = &t.nodes[0].Session // a stranger comes from below it, for all that is known
	}
	if parent != nil {
		p.ParentID, p.ParentLabel = parent.ID, parent.Branch
	}
	since := now.Add(-lineage.SessionsWindow)
	for _, n := range t.nodes {
		recent := n.Turn == a.Turn
		if a.Turn == "" {
			recent = n.CreatedAt.After(since)
		}
		if n.Edge == lineage.EdgeSpawn && !n.Remote && recent {
			p.Made++
		}
	}
	for _, n := range caller.path() {
		if n.Agent == a.Agent {
			p.Visits++
			p.AgentRuns -= n.held(now) // a place held by an ancestor never blocks its descendants
		}
	}
	if a.Ahead {
		p.OpenRuns, p.AgentRuns = 0, 0 // it opens none
	}
	if refusal := limits.Check(p); refusal != nil {
		return refusal
	}
	return nil
}

// spawn numbers n, which hangs in the tree, and logs it.
func (t *modelTree) spawn(now time.Time, n *node, by origin) {
	if n.parent != nil {
		n.parent.children++
		n.Ordinal = n.parent.children
		n.Branch = lineage.Label(n.parent.Branch, n.Agent, n.Ordinal)
		n.Tokens, n.Read = lineage.SpawnTokens(n.parent.Tokens, n.parent.Read, t.nextToken, n.Inherit)
		t.nextToken++
	}
	n.Turn, n.TraceID = by.turn, by.traceID
	n.CreatedAt = t.append(now, n, by, "spawned/"+n.ID, lineage.EventSpawned, sessions.SpawnPayload{
		Parent: n.Parent, Edge: n.Edge, Kind: n.Kind, Agent: n.Agent, ContextID: n.ContextID,
		Depth: n.Depth, Ordinal: n.Ordinal, Read: n.Read, Isolated: n.Isolated, Inherit: n.Inherit,
		Remote: n.Remote, ParentSource: n.ParentSource, Reserved: n.Reserved, Abandon: n.Abandon,
	})
}

// logCall opens run, or lets it go on, and logs what the call did.
func (t *modelTree) logCall(now time.Time, a *sessions.Admission, s *node, run *modelRun, waited, opens bool) {
	by := origin{a.Turn, a.TraceID}
	if a.Crossed != "" {
		t.append(now, s, by, "crossed/"+run.ID, lineage.EventCrossed, crossedPayload{run.ID, a.Crossed})
	}
	if waited || opens && s.State == lineage.Suspended && !s.waits() { // suspended while nothing ran in it
		t.resume(now, s, run, by, grantID("resumed", run))
	}
	id := fmt.Sprintf("sent/%s/%s", a.Agent, a.MessageID)
	if t.messages[agentID{a.Agent, a.MessageID}] != nil {
		id = fmt.Sprintf("sent/%s/%d", run.ID, run.gen)
	}
	at := t.append(now, s, by, id, lineage.EventSent, sentPayload(a, run))
	s.Reserved = false
	if opens {
		run.State, run.StartedAt = lineage.Active, at
		s.runs = append(s.runs, run)
	}
	if open := s.open(); (opens || waited) && open >= 2 && !s.Remote && s.Kind != lineage.Main {
		t.append(now, s, by, fmt.Sprintf("collapsed/%s/%d", run.ID, run.gen), lineage.EventCollapsed,
			collapsedPayload{run.ID, s.ContextID, open})
	}
}

// grantID is the id of the event that a grant of a run begins or ends with.
func grantID(what string, run *modelRun) string {
	return fmt.Sprintf("%s/%s/%d", what, run.ID, run.gen)
}

// resume lets a run that waits go on, or one that is new begin in a session
// that was suspended, and logs that as the event id.
func (t *modelTree) resume(now time.Time, s *node, run *modelRun, by origin, id string) {
	run.State, run.Reason = lineage.Active, ""
	if s.State == lineage.Suspended {
		s.State = lineage.Active
	}
	t.append(now, s, by, id, lineage.EventResumed, sessions.RunPayload{Run: run.ID})
}

type (
	crossedPayload struct {
		Run       string `json:"run"`
		ContextID string `json:"contextId"`
	}
	collapsedPayload struct {
		Run       string `json:"run"`
		ContextID string `json:"contextId"`
		Open      int    `json:"open"`
	}
)

// sentPayload is what the proxy wants logged of a message, with the members of
// [sessions.SentPayload] set in it.
func sentPayload(a *sessions.Admission, run *modelRun) json.RawMessage {
	ours := encode(sessions.SentPayload{Run: run.ID, Caller: run.Caller, MessageID: a.MessageID, TaskID: a.TaskID})
	rest := map[string]json.RawMessage{}
	if len(a.Sent) > 0 {
		if err := json.Unmarshal(a.Sent, &rest); err != nil {
			panic(fmt.Sprintf("storetest: Admission.Sent is no object: %v", err))
		}
	}
	for _, member := range []string{"run", "caller", "messageId", "taskId"} {
		delete(rest, member)
	}
	if len(rest) == 0 {
		return ours
	}
	theirs := strings.TrimPrefix(string(encode(rest)), "{")
	return slices.Concat(ours[:len(ours)-1], []byte(","), []byte(theirs))
}
