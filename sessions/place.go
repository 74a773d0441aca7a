package sessions

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// placed is a call with its place in a tree and its context decided, as far as
// that can be done before the atomic step.
type placed struct {
	a       *Admission
	answer  contextid.Answer
	claimed bool // the context was claimed for this call, just now
	guessed bool // the tree is a guess from the context that the caller named
}

// spot is where a call comes from.
type spot struct {
	root     string
	caller   Caller
	source   lineage.ParentSource
	known    bool // by more than the catch-all
	catchAll bool
	guessed  bool
	crosses  bool // the context that the call names is not the caller's to use
}

// place finds the tree and the caller of c (design: lineage), and then its
// context. A task goes on in its own tree, whatever the headers say.
func (r *Record) place(ctx context.Context, c Call) (placed, error) {
	s, err := r.spot(ctx, c)
	if err != nil {
		return placed{}, err
	}
	return r.placeAt(ctx, c, s)
}

func (r *Record) spot(ctx context.Context, c Call) (spot, error) {
	said, err := r.lineage(ctx, c)
	if err != nil {
		return spot{}, err
	}
	req := c.Request
	if req.TaskID != "" {
		owner, err := r.ofTask(ctx, c)
		switch {
		case err == nil && said.root == owner.Root:
			return said, nil
		case err == nil:
			return spot{root: owner.Root, caller: Caller{SiblingOf: req.ContextID}, source: lineage.FromNone, known: true}, nil
		case !errors.Is(err, ErrNotFound):
			return spot{}, err
		}
	}
	if said.root != "" {
		return said, nil
	}
	if req.ContextID == "" {
		return r.catchAll(c), nil
	}
	b, err := r.find(ctx, BindContext, c.Agent.Name, req.ContextID)
	switch {
	case err == nil && b.Principal == c.Principal:
		return spot{root: b.Root, caller: Caller{SiblingOf: req.ContextID}, source: lineage.FromNone, known: true}, nil
	case err == nil:
		return r.catchAll(c), nil
	case errors.Is(err, ErrNotFound):
		return spot{root: req.ContextID, source: lineage.FromNone, known: true, guessed: true}, nil
	default:
		return spot{}, err
	}
}

// ofTask returns the tree of a call that continues a task: the task's own, else,
// of a task that nothing is known of, that of the context which the call names.
// The ids of such a call are never touched, so neither may be another
// principal's; ErrNotFound says that nothing is known of either.
func (r *Record) ofTask(ctx context.Context, c Call) (Binding, error) {
	owner, err := r.find(ctx, BindTask, c.Agent.Name, c.Request.TaskID)
	if err == nil && owner.Principal != c.Principal {
		return Binding{}, &lineage.Refusal{Reason: lineage.ContextForbidden, Agent: c.Agent.Name}
	}
	if err != nil && !errors.Is(err, ErrNotFound) || c.Request.ContextID == "" {
		return owner, err
	}
	named, nerr := r.find(ctx, BindContext, c.Agent.Name, c.Request.ContextID)
	switch {
	case nerr == nil && named.Principal != c.Principal:
		return Binding{}, &lineage.Refusal{Reason: lineage.ContextForbidden, Agent: c.Agent.Name}
	case err != nil:
		return named, nerr
	default:
		return owner, nil
	}
}

// lineage reads what the caller says of its own place: the headers, or the
// coordinator's session where its SDK sends that. Its root is empty when the
// caller says nothing.
func (r *Record) lineage(ctx context.Context, c Call) (spot, error) {
	s := spot{root: c.Root, caller: Caller{ContextID: c.Parent, Depth: c.Depth}, source: lineage.FromHeader, known: true}
	switch sender := c.Request.SenderSession; {
	case c.Root != "":
	case c.Parent != "":
		// Where this store has the caller's own session, that knows the root.
		b, err := r.find(ctx, BindContext, r.opts.Local, c.Parent)
		switch {
		case err == nil:
			s.root = b.Root
		case errors.Is(err, ErrNotFound):
			s.root = c.Parent
		default:
			return spot{}, err
		}
	case sender != "" && wire.CheckID("adk_session_id", sender) == nil:
		s.root, s.caller.ContextID = sender, sender
	}
	return s, nil
}

// catchAll is where calls go that name no conversation: one tree for each
// process and principal, so that no user's calls show up among another's.
func (r *Record) catchAll(c Call) spot {
	space := uuid.NewSHA1(uuid.NameSpaceOID, []byte(r.opts.CatchAll))
	root := uuid.NewSHA1(space, []byte(c.Principal)).String()
	return spot{root: root, source: lineage.FromNone, catchAll: true}
}

// placeAt decides the context of a call whose place in the tree is known.
func (r *Record) placeAt(ctx context.Context, c Call, s spot) (placed, error) {
	req, agent := c.Request, c.Agent
	p := placed{guessed: s.guessed, a: &Admission{
		Root: s.root, Principal: c.Principal, CatchAll: s.catchAll, Local: r.opts.Local, Caller: s.caller,
		MainID: contextid.Fresh(), RemoteID: contextid.Fresh(), SessionID: contextid.Fresh(), RunID: contextid.Fresh(),
		Agent: agent.Name, Kind: agent.Kind, Inherit: agent.Inherit, TTL: agent.TTL,
		Turn: c.Turn, TraceID: c.TraceID, Source: s.source,
		MessageID: req.MessageID, TaskID: req.TaskID, Named: req.ContextID, Abandon: agent.Abandon,
		Limits: agent.Limits, Owner: r.opts.Owner, Lease: r.opts.Lease,
		Sent: r.sent(req),
	}}
	q := contextid.Question{
		Mode: agent.ContextIDs, Isolate: agent.Isolate,
		TaskID: req.TaskID != "", Named: req.ContextID != "", Foreign: s.crosses, TreeKnown: s.known,
	}
	p.answer = contextid.Decide(q)
	if p.answer.Action == contextid.Keep {
		foreign, err := r.claim(ctx, &p, req.ContextID)
		if err != nil {
			return placed{}, err
		}
		if q.Foreign = foreign; foreign {
			p.answer = contextid.Decide(q)
		}
	}
	if p.answer.Crossed {
		p.a.Crossed = req.ContextID
	}
	p.a.ContextID = r.contextID(p.answer, c, s.root)
	switch p.answer.Action {
	case contextid.AsSent, contextid.Keep, contextid.Derive:
		if p.a.ContextID != "" {
			p.a.Resolve = ResolveContext
		}
	case contextid.Mint:
		p.a.Isolated = true
	case contextid.Bound:
		p.a.Resolve = ResolveAgent
	case contextid.Omit:
		p.a.Isolated = agent.Isolate
	}
	return p, nil
}

// contextID returns the context that an answer puts a call in, empty if only
// the agent will tell.
func (r *Record) contextID(answer contextid.Answer, c Call, root string) string {
	switch answer.Action {
	case contextid.AsSent, contextid.Keep:
		return c.Request.ContextID
	case contextid.Mint:
		return contextid.Fresh()
	case contextid.Derive:
		return contextid.Stable(r.secret, c.Principal, root, c.Agent.Name)
	case contextid.Bound, contextid.Omit:
	}
	return ""
}

// claim makes the context that a caller named this tree's before a message
// goes there: the first tree to use a context owns it. It reports whether the
// context is another tree's.
func (r *Record) claim(ctx context.Context, p *placed, contextID string) (foreign bool, err error) {
	mine := Binding{Root: p.a.Root, Principal: p.a.Principal}
	holder, err := r.find(ctx, BindContext, p.a.Agent, contextID)
	if errors.Is(err, ErrNotFound) {
		key := BindingKey{BindContext, p.a.Agent, contextID}
		ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
		defer cancel()
		if holder, err = r.opts.Store.Claim(ctx, key, mine); err == nil {
			// Not remembered: if the call is refused, the claim is taken back.
			p.claimed = holder == mine
		} else {
			err = r.unavailable(ctx, "claiming a context", err)
		}
	}
	return holder != mine, err
}

// unclaim gives back a claim of a call that was refused after all.
func (r *Record) unclaim(ctx context.Context, key BindingKey, mine Binding) {
	defer r.cache.Remove(key) // another call may have found it meanwhile
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), r.opts.Timeout)
	defer cancel()
	if err := r.opts.Store.Unclaim(ctx, key, mine); err != nil {
		r.opts.Logger.WarnContext(ctx, "giving back a context failed", "agent", key.Agent, "error", err)
	}
}

// guess places a call about which the store would have to be asked and cannot
// be: by what the call says of itself, and by what is remembered of the context
// that it names.
func (r *Record) guess(c Call) placed {
	req := c.Request
	root := cmp.Or(c.Root, c.Parent)
	if root == "" && wire.CheckID("adk_session_id", req.SenderSession) == nil {
		root = req.SenderSession
	}
	holder, remembered := r.remembered(BindingKey{BindContext, c.Agent.Name, req.ContextID})
	foreign := remembered && (holder.Principal != c.Principal || c.Root != "" && c.Root != holder.Root)
	if remembered && !foreign {
		root = holder.Root
	}
	answer := contextid.Decide(contextid.Question{
		Mode: c.Agent.ContextIDs, Isolate: c.Agent.Isolate,
		TaskID: req.TaskID != "", Named: req.ContextID != "", TreeKnown: root != "",
		Foreign: foreign,
	})
	root = cmp.Or(root, req.ContextID, r.catchAll(c).root)
	return placed{answer: answer, a: &Admission{
		Root: root, ContextID: r.contextID(answer, c, root), Caller: Caller{ContextID: c.Parent},
		Agent: c.Agent.Name, RunID: contextid.Fresh(),
	}}
}

// find looks up what an id at an agent belongs to, or returns ErrNotFound.
func (r *Record) find(ctx context.Context, kind BindingKind, agent, id string) (Binding, error) {
	key := BindingKey{kind, agent, id}
	if b, ok := r.cache.Get(key); ok {
		return b, nil
	}
	if err := r.writer.unavailable(); err != nil {
		if b, ok := r.remembered(key); ok {
			return b, nil
		}
		return Binding{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, r.opts.Timeout)
	defer cancel()
	if r.fresh.Contains(key) {
		// An agent has named it a moment ago: let the store hear of that first.
		if err := r.writer.sync(ctx); err != nil {
			return Binding{}, r.unavailable(ctx, "waiting for the store", err)
		}
	}
	b, err := r.opts.Store.Find(ctx, key)
	if err == nil {
		r.fresh.Remove(key)
		r.cache.Add(key, b)
		return b, nil
	}
	if errors.Is(err, ErrNotFound) {
		return Binding{}, ErrNotFound
	}
	if err = r.unavailable(ctx, "looking up a "+string(kind), err); errors.Is(err, ErrUnavailable) {
		if b, ok := r.remembered(key); ok {
			return b, nil
		}
	}
	return Binding{}, err
}

// remembered returns what an id belongs to as far as this sidecar knows without
// the store.
func (r *Record) remembered(key BindingKey) (Binding, bool) {
	if b, ok := r.cache.Get(key); ok {
		return b, true
	}
	return r.fresh.Get(key)
}

// unavailable marks an error of the store's as its being down, unless the
// caller itself has gone, and has the store watched until it answers.
func (r *Record) unavailable(ctx context.Context, doing string, err error) error {
	if errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	err = fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	r.writer.suspect(err)
	return err
}
