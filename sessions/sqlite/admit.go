package sqlite

import (
	"fmt"
	"strconv"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// plan is an admission as far as it can be decided without changing anything.
type plan struct {
	a    *sessions.Admission
	sent []byte // members of its Sent

	tree    *treeRow
	main    *sessionRow
	planted bool // tree and main are to be made

	caller   *sessionRow
	stranger bool // the caller is unknown: caller is a placeholder to be made

	session *sessionRow // nil: to be made
	parent  *sessionRow // of the session, to be made or not; nil for the root session
	run     *runRow     // of the same task or message; nil: none
	retry   bool        // the message had been sent before
	resumed bool        // run goes on
	held    bool        // and is active: it has its place already
}

// admit carries out one admission: it looks, asks the caps, and only then
// writes, so that a refusal leaves no trace.
func (b *batch) admit(a *sessions.Admission) (sessions.Grant, error) {
	p := &plan{a: a}
	if a.Ahead {
		if err := b.enterTree(p); err != nil {
			return sessions.Grant{}, err
		}
		return b.admitAhead(p)
	}
	var err error
	if p.sent, err = sentMembers(a.Sent); err != nil {
		return sessions.Grant{}, err
	}
	if err := b.enterTree(p); err != nil {
		return sessions.Grant{}, err
	}
	if err := b.findSession(p); err != nil {
		return sessions.Grant{}, err
	}
	if err := b.findCaller(p); err != nil {
		return sessions.Grant{}, err
	}
	if err := b.checkCaps(p); err != nil {
		return sessions.Grant{}, err
	}
	return b.carryOut(p)
}

// enterTree finds the tree, with what is overdue in it settled, or plans it.
func (b *batch) enterTree(p *plan) error {
	a := p.a
	t, err := b.tree(a.Root)
	if err != nil {
		return err
	}
	if t == nil {
		p.planted = true
		p.tree = &treeRow{token: 1, principal: a.Principal}
		p.tree.Root, p.tree.CatchAll, p.tree.StartedAt = a.Root, a.CatchAll, b.now
		p.main = newMain(a)
		return nil
	}
	if t.principal != a.Principal && !a.Ahead {
		return &lineage.Refusal{Reason: lineage.ContextForbidden, Agent: a.Agent}
	}
	p.tree = t
	if _, err := b.settle(t); err != nil {
		return err
	}
	p.main, err = b.session(t, rootN)
	return err
}

// newMain is the root session of a tree that is to be made. When the call
// comes from further down, the root lives beside some other sidecar.
func newMain(a *sessions.Admission) *sessionRow {
	main := &sessionRow{n: rootN, Session: lineage.Session{
		ID: a.MainID, Tree: a.Root, Edge: lineage.EdgeRoot, Kind: lineage.Main, Agent: a.Local, ContextID: a.Root,
		State: lineage.Active, Inherit: lineage.InheritFull, Turn: a.Turn, ParentSource: a.Source, TraceID: a.TraceID,
	}}
	if c := a.Caller.ContextID; c != "" && c != a.Root {
		main.Agent, main.Remote = "root", true
	}
	main.Branch = main.Agent
	return main
}

// findSession finds the session that the call goes to, and the run of the same
// task or message. A known task or message may lead to a session that has ended.
func (b *batch) findSession(p *plan) error {
	a := p.a
	if p.planted {
		return nil
	}
	found, err := b.runKey(p.tree, a.TaskID, keyTask, a.Agent)
	if err == nil && found == nil {
		found, err = b.lookUp(p.tree, keyMessage, a.Agent, a.MessageID)
		p.retry = found != nil
	}
	if err != nil {
		return err
	}
	if found != nil {
		if p.run, err = b.run(p.tree, runPlace{p.tree.no, found.session, found.run}); err != nil {
			return err
		}
		p.resumed = !p.run.State.Terminal()
		p.held = p.run.State == lineage.Active
		p.session, err = b.session(p.tree, found.session)
		return err
	}
	if p.session, err = b.reserved(p); err != nil || p.session != nil {
		return err
	}
	switch {
	case a.Resolve == sessions.ResolveContext && a.ContextID != "":
		found, err = b.lookUp(p.tree, keyContext, a.Agent, a.ContextID)
	case a.Resolve == sessions.ResolveAgent:
		found, err = b.lookUp(p.tree, keyShared, a.Agent, "")
	}
	if err != nil || found == nil {
		return err
	}
	s, err := b.session(p.tree, found.session)
	if err == nil && !s.over() {
		p.session = s
	}
	return err
}

// reserved returns the session that waits for its first call under the context
// that the message named, nil if there is none.
func (b *batch) reserved(p *plan) (*sessionRow, error) {
	k, err := b.runKey(p.tree, p.a.Named, keyContext, p.a.Agent)
	if err != nil || k == nil {
		return nil, err
	}
	s, err := b.session(p.tree, k.session)
	if err != nil || !s.Reserved || s.over() {
		return nil, err
	}
	return s, nil
}

// runKey looks up a task or context, if one is named.
func (b *batch) runKey(t *treeRow, id, kind, agent string) (*key, error) {
	if id == "" {
		return nil, nil
	}
	return b.lookUp(t, kind, agent, id)
}

// findCaller finds the session that the call comes out of, or plans a
// placeholder for it. A run that goes on stays its first caller's.
func (b *batch) findCaller(p *plan) (err error) {
	a, t := p.a, p.tree
	switch c := a.Caller; {
	case p.resumed:
		p.caller, err = b.session(t, p.run.caller)
	case c.Session != "":
		p.caller, err = b.callerWithID(p, c.Session)
	case c.SiblingOf != "":
		p.caller, err = b.parentOfSibling(p)
	case c.ContextID == "" || c.ContextID == a.Root:
		p.caller = p.main
	default:
		p.caller, err = b.callerNamed(p, c.ContextID)
	}
	if err != nil {
		return err
	}
	switch {
	case p.session == nil:
		p.parent = p.caller
	case p.session.n != rootN:
		p.parent, err = b.session(t, p.session.parent)
	}
	return err
}

func (b *batch) callerWithID(p *plan, id string) (s *sessionRow, err error) {
	if !p.planted {
		s, err = b.sessionByID(p.tree, id)
	}
	if err == nil && s == nil {
		err = fmt.Errorf("session %s of tree %s: %w", id, p.a.Root, sessions.ErrNotFound)
	}
	return s, err
}

func (b *batch) parentOfSibling(p *plan) (*sessionRow, error) {
	if p.planted {
		return p.main, nil
	}
	k, err := b.lookUp(p.tree, keyContext, p.a.Agent, p.a.Caller.SiblingOf)
	if err != nil || k == nil {
		return p.main, err
	}
	s, err := b.session(p.tree, k.session)
	if err != nil || s.n == rootN {
		return p.main, err
	}
	return b.session(p.tree, s.parent)
}

func (b *batch) callerNamed(p *plan, contextID string) (*sessionRow, error) {
	if !p.planted {
		k, err := b.lookUp(p.tree, keyCaller, "", contextID)
		if err != nil {
			return nil, err
		}
		if k != nil {
			return b.session(p.tree, k.session)
		}
	}
	a := p.a
	s := child(p.tree, p.main, a.Local, lineage.InheritFull)
	s.ID, s.Kind, s.ContextID, s.Remote = a.RemoteID, lineage.Branch, contextID, true
	s.Turn, s.ParentSource, s.TraceID = a.Turn, a.Source, a.TraceID
	s.Depth = max(1, a.Caller.Depth)
	p.stranger = true
	return s, nil
}

// child is a new session under parent, with the next ordinal and token. It
// takes them when it is spawned.
func child(t *treeRow, parent *sessionRow, agent string, inherit lineage.Inherit) *sessionRow {
	s := &sessionRow{parent: parent.n, Session: lineage.Session{
		Tree: t.Root, Parent: parent.ID, Edge: lineage.EdgeSpawn, Agent: agent, State: lineage.Active,
		Depth: parent.Depth + 1, Branch: lineage.Label(parent.Branch, agent, parent.children+1), Ordinal: parent.children + 1,
		Inherit: inherit,
	}}
	s.Tokens, s.Read = lineage.SpawnTokens(parent.Tokens, parent.Read, t.token, inherit)
	return s
}

// carryOut writes what was planned and logs it.
func (b *batch) carryOut(p *plan) (sessions.Grant, error) {
	a, t := p.a, p.tree
	by := origin{a.Turn, a.TraceID}
	made := p.session == nil
	if err := b.makeSessions(p, by); err != nil {
		return sessions.Grant{}, err
	}
	s, r := p.session, p.run
	waited := p.resumed && !p.held
	wakes := waited || !p.held && s.State == lineage.Suspended && s.waiting == 0 // the session
	if !p.resumed {
		r = &runRow{caller: p.caller.n, Run: lineage.Run{
			ID: a.RunID, Caller: p.caller.ID, TaskID: a.TaskID, MessageID: a.MessageID, StartedAt: b.clock(t),
		}}
		b.enterRun(s, r)
	}
	r.gen++
	r.turn, r.owner, r.detached = a.Turn, a.Owner, false
	b.touchRun(r)
	if !p.held {
		if err := b.open(t, s, r); err != nil {
			return sessions.Grant{}, err
		}
	}
	b.holdFor(t, s, r, a.Lease)
	if !p.retry || !p.held {
		if err := b.logCall(p, r, by, wakes); err != nil {
			return sessions.Grant{}, err
		}
	}
	if err := b.keepIDs(p, r); err != nil {
		return sessions.Grant{}, err
	}
	b.admitted(t, s, a)
	return grantOf(p, s, sessions.Grant{RunID: r.ID, Gen: r.gen, New: made, Retry: p.retry, Resumed: p.resumed, Waited: waited}), nil
}

// admitted is what every admission leaves in its session: its time, which the
// admission that made it set, begins anew, also where it is over. One that is
// being ended gets no more of it.
func (b *batch) admitted(t *treeRow, s *sessionRow, a *sessions.Admission) {
	switch deadline := b.now.Add(s.ttl); {
	case s.Ending != "":
	case s.ttl > 0:
		s.Deadline = &deadline
	case s.State.Terminal():
		s.Deadline = nil
	}
	s.Owner = a.Owner
	b.schedule(t, s)
}

// grantOf is g with the session and its parent filled in.
func grantOf(p *plan, s *sessionRow, g sessions.Grant) sessions.Grant {
	g.Session = s.Session
	if p.parent != nil {
		g.ParentContextID = p.parent.ContextID
	}
	return g
}

// makeSessions makes what is missing: the tree with its root session, the
// placeholder of the caller, the session.
func (b *batch) makeSessions(p *plan, by origin) error {
	a, t := p.a, p.tree
	if p.planted {
		b.plant(t)
		if err := b.spawn(t, p.main, nil, by, false); err != nil {
			return err
		}
	}
	if p.stranger {
		if err := b.spawn(t, p.caller, p.main, by, false); err != nil {
			return err
		}
	}
	if p.session != nil {
		return nil
	}
	s := child(t, p.caller, a.Agent, a.Inherit)
	s.ID, s.Kind, s.ContextID, s.Isolated = a.SessionID, a.Kind, a.ContextID, a.Isolated
	s.Turn, s.ParentSource, s.TraceID = a.Turn, a.Source, a.TraceID
	s.Reserved, s.Abandon, s.ttl = a.Ahead, a.Abandon, a.TTL
	p.session = s
	if err := b.spawn(t, s, p.caller, by, a.Resolve != sessions.ResolveNone); err != nil {
		return err
	}
	if a.Resolve == sessions.ResolveAgent && !a.Ahead {
		return b.point(t, keyShared, a.Agent, "", key{session: s.n})
	}
	return nil
}

// spawn puts s under parent (nil: the root session), logs it and makes its
// context id mean it.
func (b *batch) spawn(t *treeRow, s, parent *sessionRow, by origin, takeOver bool) error {
	if parent != nil {
		s.parent = parent.n
		parent.children++
		parent.going++
		t.token++
		b.touch(parent)
	}
	b.enter(t, s, by)
	payload, err := encode(sessions.SpawnPayload{
		Parent: s.Parent, Edge: s.Edge, Kind: s.Kind, Agent: s.Agent, ContextID: s.ContextID, Depth: s.Depth, Ordinal: s.Ordinal,
		Read: s.Read, Isolated: s.Isolated, Inherit: s.Inherit, Remote: s.Remote, ParentSource: s.ParentSource,
		Reserved: s.Reserved, Abandon: s.Abandon,
	})
	if err != nil {
		return err
	}
	if err := b.log(t, s, by, lineage.EventSpawned, "spawned/"+s.ID, payload); err != nil {
		return err
	}
	return b.name(t, s, s.ContextID, takeOver, false)
}

// logCall logs what the call did in its session.
func (b *batch) logCall(p *plan, r *runRow, by origin, wakes bool) error {
	a, t, s := p.a, p.tree, p.session
	if a.Crossed != "" {
		payload, err := encode(crossedPayload{r.ID, a.Crossed})
		if err != nil {
			return err
		}
		if err := b.logTold(t, s, by, lineage.EventCrossed, "crossed/"+r.ID, payload); err != nil {
			return err
		}
	}
	if wakes {
		if err := b.logStep(t, s, by, lineage.EventResumed, runStepID("resumed", r), r.ID, ""); err != nil {
			return err
		}
	}
	known := p.retry
	if p.run != nil && !p.retry {
		k, err := b.lookUp(t, keyMessage, a.Agent, a.MessageID)
		if err != nil {
			return err
		}
		known = k != nil
	}
	id := "sent/" + a.Agent + "/" + a.MessageID
	if known {
		id = "sent/" + r.ID + "/" + strconv.Itoa(r.gen)
	}
	payload, err := sentPayload(sessions.SentPayload{Run: r.ID, Caller: r.Caller, MessageID: a.MessageID, TaskID: a.TaskID}, p.sent)
	if err != nil {
		return err
	}
	if err := b.log(t, s, by, lineage.EventSent, id, payload); err != nil {
		return err
	}
	if p.held || s.open < 2 || s.Remote || s.Kind == lineage.Main {
		return nil
	}
	if payload, err = encode(collapsedPayload{r.ID, s.ContextID, s.open}); err != nil {
		return err
	}
	return b.log(t, s, by, lineage.EventCollapsed, "collapsed/"+r.ID+"/"+strconv.Itoa(r.gen), payload)
}

// keepIDs makes the call's ids lead to its run.
func (b *batch) keepIDs(p *plan, r *runRow) error {
	a, t := p.a, p.tree
	to := key{r.session, r.n}
	if err := b.point(t, keyMessage, a.Agent, a.MessageID, to); err != nil || a.TaskID == "" {
		return err
	}
	return b.follow(t, lead{kind: keyTask, agent: a.Agent, id: a.TaskID, to: to, again: true, aside: a.TaskID != r.TaskID}, 0)
}
