package adminapi

import (
	"context"
	"net/http"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// SpawnRequest asks for a session ahead of the first call to it. Root and
// Agent must be given; what is left out of the others is as the agent's
// configuration says.
type SpawnRequest struct {
	Root           string          `json:"root"`                     // root context id of the tree; made if it is not there
	Parent         string          `json:"parent,omitempty"`         // session id; empty: the root session
	Agent          string          `json:"agent"`                    // name of a configured agent
	Kind           lineage.Kind    `json:"kind,omitempty"`           // lineage.Branch or lineage.Worker
	TTL            *Duration       `json:"ttl,omitempty"`            // a millisecond or more
	Inherit        lineage.Inherit `json:"inherit,omitempty"`        // what it may read of its parent's history; with a summary: that alone
	ContextSummary string          `json:"contextSummary,omitempty"` // of the parent's history, for the session: its first event
	Isolate        *bool           `json:"isolate,omitempty"`        // it ends with its first call
	RequestID      string          `json:"requestId,omitempty"`      // the same again, in the same tree, finds the same session

	// User is whose tree it is, if it must be made: sent as x-user-id, the
	// header that tells users apart in calls to agents.
	User string `json:"-"`
}

// StepRequest is what may be said of a step in a session's life.
type StepRequest struct {
	Reason string          `json:"reason,omitempty"` // of a failure
	Result *lineage.Result `json:"result,omitempty"` // of a completion or failure; its Status may be left out
}

// Spawn makes a session ahead of a call: the first call to the agent that names
// the session's ContextID runs in it. made is false for a RequestID that has
// been seen.
func (c *Client) Spawn(ctx context.Context, r SpawnRequest) (s lineage.Session, made bool, err error) {
	var header http.Header
	if r.User != "" {
		header = http.Header{lineage.HeaderPrincipal: {r.User}}
	}
	s, status, err := post[lineage.Session](ctx, c, header, r, "sessions")
	return s, status == http.StatusCreated, err
}

// Step takes a session a step further, and returns it as it is then.
func (c *Client) Step(ctx context.Context, id string, verb lineage.Verb, r StepRequest) (lineage.Session, error) {
	s, _, err := post[lineage.Session](ctx, c, nil, r, "sessions", id, string(verb))
	return s, err
}
