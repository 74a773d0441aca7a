package sessions

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Spawn asks for a session ahead of the first call to it.
type Spawn struct {
	Root      string // root context id of the tree; made if it is not there
	Parent    string // session id; empty: the root session
	Agent     string // name of a configured agent
	Principal string // whose tree it is, if it must be made
	RequestID string // the same again finds the same session; empty: each makes another
	TraceID   string

	// What the agent's configuration says, unless set.
	Kind    lineage.Kind    // lineage.Branch or lineage.Worker
	TTL     time.Duration   //
	Inherit lineage.Inherit // with a Summary: lineage.InheritSummary
	Isolate *bool           // it ends with its first call; else it serves all calls that name its context

	Summary string // of the parent's history, for the session: its first event; empty: none
}

// Errors of [Record.Spawn].
var (
	// ErrUnknownAgent: no agent of this name is configured.
	ErrUnknownAgent = errors.New("no agent of this name is configured")
	// ErrAgentNames: the agent makes the ids of its contexts, so that none can be
	// handed out ahead of a call.
	ErrAgentNames = errors.New("the agent makes its own context ids (contextIds: agent)")
	// ErrRequestReused: an earlier request of this id asked for another session.
	ErrRequestReused = errors.New("the request id has been used for another session")
)

// Spawn makes a session ahead of a call, within the caps of a call but for
// those that count runs. The first call that names the session's context runs
// in it; until then the session holds its place. made is false for a RequestID
// that has been seen.
//
// The error is a *lineage.Refusal where a cap is reached, and wraps ErrNotFound
// for an unknown parent, ErrUnknownAgent, ErrAgentNames, ErrRequestReused (another
// agent, parent or kind was asked for) or ErrUnavailable.
func (r *Record) Spawn(ctx context.Context, s Spawn) (session lineage.Session, made bool, err error) {
	agent := r.agents[s.Agent]
	switch {
	case agent == nil:
		return session, false, fmt.Errorf("agent %s: %w", s.Agent, ErrUnknownAgent)
	case agent.ContextIDs == contextid.Agent:
		return session, false, fmt.Errorf("agent %s: %w", s.Agent, ErrAgentNames)
	}
	a := &Admission{
		Ahead: true, RequestID: s.RequestID,
		Root: s.Root, Principal: s.Principal, Local: r.opts.Local, Caller: Caller{Session: s.Parent},
		MainID: contextid.Fresh(), RemoteID: contextid.Fresh(), SessionID: contextid.Fresh(), ContextID: contextid.Fresh(),
		RunID: contextid.Fresh(), // of a refusal's event
		Agent: agent.Name, Kind: cmp.Or(s.Kind, agent.Kind), Isolated: agent.Isolate, Inherit: agent.Inherit,
		TTL: agent.TTL, TraceID: s.TraceID, Source: lineage.FromAPI, Abandon: agent.Abandon,
		Limits: agent.Limits, Owner: r.opts.Owner, Lease: r.opts.Lease,
	}
	if a.Kind == lineage.Worker && a.Kind != agent.Kind {
		a.Inherit = lineage.InheritNone
	}
	switch {
	case s.TTL > 0:
		a.TTL = s.TTL
	case a.Kind != agent.Kind:
		a.TTL = lineage.DefaultTTL(a.Kind)
	}
	if s.Isolate != nil {
		a.Isolated = *s.Isolate
	}
	if s.Summary != "" {
		a.Inherit = lineage.InheritSummary
		a.Summary = r.payload(struct {
			Text string `json:"text"`
		}{r.opts.Content.text(s.Summary)})
	}
	a.Inherit = cmp.Or(s.Inherit, a.Inherit)
	a.Limits.MaxFanOut, a.Limits.MaxConcurrent, a.Limits.QueueTimeout = 0, 0, 0

	g, err := r.writer.do(ctx, Op{Admit: a}, nil)
	if refusal, ok := errors.AsType[*lineage.Refusal](err); ok {
		r.note(a, refusal, lineage.EventRefused, "refused/")
	}
	if was := g.Session; err == nil && !g.New && (was.Agent != a.Agent || was.Kind != a.Kind || s.Parent != "" && was.Parent != s.Parent) {
		return lineage.Session{}, false, fmt.Errorf("request %s: %w", s.RequestID, ErrRequestReused)
	}
	return g.Session, g.New, err
}

// Step asks for a step in a session's life.
type Step struct {
	Session string
	Verb    lineage.Verb
	Reason  string          // of a failure; empty: none
	Result  *lineage.Result // of a completion or failure; nil: none
	TraceID string
}

// Step takes a session a step further and returns it as it then is, without
// its runs. The error is a *lineage.Conflict where its state or kind forbids
// the step, and wraps ErrNotFound or ErrUnavailable.
func (r *Record) Step(ctx context.Context, s Step) (lineage.Session, error) {
	found, err := r.Reader().Session(ctx, s.Session)
	if err != nil {
		return lineage.Session{}, err
	}
	c := &Change{Root: found.Tree, Session: s.Session, Verb: s.Verb, Reason: r.opts.Content.label(s.Reason), TraceID: s.TraceID}
	if s.Result != nil {
		c.Result = r.result(s)
	}
	g, err := r.writer.do(ctx, Op{Change: c}, nil)
	return g.Session, err
}

// result is the result of a step as the record may keep it.
func (r *Record) result(s Step) json.RawMessage {
	result := *s.Result
	result.Status = lineage.Completed
	if s.Verb == lineage.VerbFail {
		result.Status = lineage.Failed
	}
	c := &r.opts.Content
	result.Summary = c.said(result.Summary)
	result.Artifacts = slices.Clone(result.Artifacts)
	for i := range result.Artifacts {
		a := &result.Artifacts[i]
		a.ID, a.Name, a.MediaType, a.SHA256 = c.label(a.ID), c.label(a.Name), c.label(a.MediaType), c.label(a.SHA256)
	}
	result.MemoryIDs = slices.Clone(result.MemoryIDs)
	for i, id := range result.MemoryIDs {
		result.MemoryIDs[i] = c.label(id)
	}
	return r.payload(result)
}
