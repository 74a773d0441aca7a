package admin

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Keeper changes the record; see [sessions.Record], which is one.
type Keeper interface {
	// Spawn makes a session ahead of a call. made is false for a request id that
	// has been seen. The error may be a *lineage.Refusal, or wrap
	// sessions.ErrNotFound for an unknown parent, sessions.ErrUnknownAgent,
	// sessions.ErrAgentNames or sessions.ErrUnavailable.
	Spawn(ctx context.Context, s sessions.Spawn) (session lineage.Session, made bool, err error)
	// Step takes a session a step further and returns it, without its runs. The
	// error may be a *lineage.Conflict, or wrap sessions.ErrNotFound or
	// sessions.ErrUnavailable.
	Step(ctx context.Context, s sessions.Step) (lineage.Session, error)
}

// verbs are the steps that there are paths for.
var verbs = []lineage.Verb{
	lineage.VerbComplete, lineage.VerbFail, lineage.VerbSuspend, lineage.VerbResume, lineage.VerbCancel,
}

// minTTL is the shortest life of a session that every store can tell from none.
const minTTL = time.Millisecond

// created is an answer for something that was made.
type created struct {
	location string
	body     any
}

func (s *server) spawn(ctx context.Context, r *request) (any, error) {
	if err := s.mayWrite(r); err != nil {
		return nil, err
	}
	body, err := decode[adminapi.SpawnRequest](r)
	if err != nil {
		return nil, err
	}
	if err := checkSpawn(&body); err != nil {
		return nil, err
	}
	principal, err := principalOf(r.Header)
	if err != nil {
		return nil, err
	}
	spawn := sessions.Spawn{
		Root: body.Root, Parent: body.Parent, Agent: body.Agent, Principal: principal, RequestID: body.RequestID, TraceID: traceOf(ctx, r.Header),
		Kind: body.Kind, Inherit: body.Inherit, Isolate: body.Isolate, Summary: body.ContextSummary,
	}
	if body.TTL != nil {
		spawn.TTL = time.Duration(*body.TTL)
	}
	session, made, err := s.opts.Keeper.Spawn(ctx, spawn)
	if errors.Is(err, sessions.ErrNotFound) {
		return nil, adminapi.NewProblem(http.StatusNotFound, "tree %q has no session with the id %q, which is to be the parent", body.Root, body.Parent)
	}
	if err != nil {
		return nil, fmt.Errorf("spawning a session: %w", err)
	}
	if !made {
		return s.whole(ctx, session), nil // it may have come far since it was made
	}
	tidy(&session)
	return created{location: "/api/v1/sessions/" + url.PathEscape(session.ID), body: session}, nil
}

// checkSpawn returns what is wrong with a request, nil if nothing is.
func checkSpawn(r *adminapi.SpawnRequest) error {
	for _, id := range []struct {
		name, value string
		needed      bool
	}{
		{"root", r.Root, true},
		{"parent", r.Parent, false},
		{"agent", r.Agent, true},
		{"requestId", r.RequestID, false},
	} {
		if err := checkID(id.name, id.value, id.needed); err != nil {
			return err
		}
	}
	if r.TTL != nil && time.Duration(*r.TTL) < minTTL {
		return bad("ttl", time.Duration(*r.TTL).String(), "is less than "+minTTL.String())
	}
	if err := oneOf("kind", string(r.Kind), string(lineage.Branch), string(lineage.Worker)); err != nil {
		return err
	}
	return oneOf("inherit", string(r.Inherit), string(lineage.InheritFull), string(lineage.InheritSummary), string(lineage.InheritNone))
}

// checkID returns an error unless value can be the id or name that a member of
// a body is, or is empty and not needed.
func checkID(name, value string, needed bool) error {
	switch {
	case value == "" && !needed:
		return nil
	case value == "":
		return adminapi.NewProblem(http.StatusBadRequest, "%s is missing", name)
	}
	if err := wire.CheckID(name, value); err != nil {
		return adminapi.NewProblem(http.StatusBadRequest, "%s", err.Error())
	}
	return nil
}

// step is the endpoint of a verb.
func (s *server) step(verb lineage.Verb) endpoint {
	return func(ctx context.Context, r *request) (any, error) {
		id := r.segment("id")
		if err := s.mayWrite(r); err != nil {
			return nil, err
		}
		body, err := decode[adminapi.StepRequest](r)
		if err != nil {
			return nil, err
		}
		if err := checkStep(verb, &body); err != nil {
			return nil, err
		}
		session, err := s.opts.Keeper.Step(ctx, sessions.Step{
			Session: id, Verb: verb, Reason: body.Reason, Result: body.Result, TraceID: traceOf(ctx, r.Header),
		})
		if errors.Is(err, sessions.ErrNotFound) {
			return nil, noSession(id)
		}
		if err != nil {
			return nil, fmt.Errorf("asking session %q to %s: %w", id, verb, err)
		}
		return s.whole(ctx, session), nil
	}
}

// checkStep returns what is wrong with a request, nil if nothing is.
func checkStep(verb lineage.Verb, r *adminapi.StepRequest) error {
	ends := map[lineage.Verb]lineage.State{lineage.VerbComplete: lineage.Completed, lineage.VerbFail: lineage.Failed}
	switch {
	case r.Reason != "" && verb != lineage.VerbFail:
		return adminapi.NewProblem(http.StatusBadRequest, "reason is for fail, not for %s", verb)
	case r.Result != nil && ends[verb] == "":
		return adminapi.NewProblem(http.StatusBadRequest, "result is for complete and fail, not for %s", verb)
	case r.Reason == lineage.ReasonLost:
		// The agent's later word would correct it, against the caller's own.
		return bad("reason", r.Reason, "is the sidecar's own word for an end that nobody saw")
	}
	if err := checkID("reason", r.Reason, false); err != nil {
		return err
	}
	if r.Result == nil {
		return nil
	}
	if err := oneOf("result.status", string(r.Result.Status), string(ends[verb])); err != nil {
		return err
	}
	for i, a := range r.Result.Artifacts {
		name := fmt.Sprintf("result.artifacts[%d]", i)
		if err := checkID(name+".id", a.ID, true); err != nil {
			return err
		}
		if a.Bytes < 0 {
			return adminapi.NewProblem(http.StatusBadRequest, "%s.bytes is negative", name)
		}
		if sum, err := hex.DecodeString(a.SHA256); err != nil || len(sum) != 0 && len(sum) != 32 {
			return adminapi.NewProblem(http.StatusBadRequest, "%s.sha256 is not a SHA-256 digest in hex", name)
		}
	}
	return nil
}

// mayWrite returns what keeps a request that changes something from doing so,
// before its body is read.
func (s *server) mayWrite(r *request) error {
	if err := r.fault(); err != nil {
		return err
	}
	if s.opts.Keeper == nil {
		p := adminapi.NewProblem(http.StatusNotImplemented, "this admin API shows the record and cannot change it; ask a sidecar that serves calls")
		p.Reason = adminapi.ReasonReadOnly
		return p
	}
	return nil
}

// whole returns a session that was just changed with its runs, or without them
// if the record cannot be read: the change has been made in any case.
func (s *server) whole(ctx context.Context, changed lineage.Session) lineage.Session {
	session, err := s.view.Session(ctx, changed.ID)
	if err != nil {
		s.opts.Logger.WarnContext(ctx, "reading a session after its change failed", "session_id", changed.ID, "error", err)
		tidy(&changed)
		return changed
	}
	return session
}

// principalOf tells whose tree it is that a request has made. The bearer token
// of a request is the admin port's own and tells nothing of users.
func principalOf(h http.Header) (string, error) {
	users := h.Values(lineage.HeaderPrincipal)
	if len(users) > 1 {
		return "", adminapi.NewProblem(http.StatusBadRequest, "header x-user-id occurs %d times", len(users))
	}
	user := h.Get(lineage.HeaderPrincipal)
	if err := checkID("header x-user-id", user, false); err != nil {
		return "", err
	}
	return contextid.Principal(user, ""), nil
}

// traceOf returns the trace that a request belongs to, empty if to none.
func traceOf(ctx context.Context, h http.Header) string {
	ctx = propagation.TraceContext{}.Extract(ctx, propagation.HeaderCarrier(h))
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}

// refused returns the problem of an error of the record that is about the
// caller's request; nil if it is none.
func refused(err error) *adminapi.Problem {
	if conflict, ok := errors.AsType[*lineage.Conflict](err); ok {
		p := adminapi.NewProblem(http.StatusConflict, "%s", conflict.Error())
		p.Reason = adminapi.ReasonConflict
		return p
	}
	if refusal, ok := errors.AsType[*lineage.Refusal](err); ok {
		p := adminapi.NewProblem(statusOf(refusal), "%s", refusal.Error())
		p.Reason, p.Parent = string(refusal.Reason), refusal.Parent
		p.Limit, p.Value, p.Count = refusal.Limit, refusal.Value, refusal.Count
		return p
	}
	switch {
	case errors.Is(err, sessions.ErrUnknownAgent):
		p := adminapi.NewProblem(http.StatusNotFound, "no agent of this name is configured")
		p.Reason = adminapi.ReasonUnknownAgent
		return p
	case errors.Is(err, sessions.ErrRequestReused):
		p := adminapi.NewProblem(http.StatusConflict, "the requestId has been used for another session: of another agent, parent or kind")
		p.Reason = adminapi.ReasonRequestReused
		return p
	case errors.Is(err, sessions.ErrAgentNames):
		p := adminapi.NewProblem(http.StatusConflict, "the agent makes its own context ids (contextIds: agent): none can be handed out ahead of a call")
		p.Reason = adminapi.ReasonAgentNames
		return p
	}
	return nil
}

// statusOf is the status of a refusal: that of the same in HTTP+JSON, but where
// this API knows a better one.
func statusOf(r *lineage.Refusal) int {
	switch {
	case r.Reason == lineage.ParentEnded:
		return http.StatusConflict
	case r.Reason == lineage.ContextForbidden:
		return http.StatusForbidden
	case r.Waiting():
		return http.StatusTooManyRequests
	case r.Retryable():
		return http.StatusServiceUnavailable
	default:
		return http.StatusBadRequest
	}
}
