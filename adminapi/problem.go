package adminapi

import (
	"errors"
	"fmt"
	"net/http"
)

// Problem is an answer that says what went wrong (RFC 9457). As an error it is
// what a [Client] returns for every answer that is no success.
type Problem struct {
	Type   string `json:"type"`   // "about:blank": the status says what kind it is
	Title  string `json:"title"`  // the status in words
	Status int    `json:"status"` //
	Detail string `json:"detail,omitempty"`
	Reason string `json:"reason,omitempty"` // a name to branch on, such as STORE_UNAVAILABLE

	// Of a refusal by a cap.
	Limit  string `json:"limit,omitempty"`  // key of the cap in the configuration
	Value  int    `json:"value,omitempty"`  // what it is set to
	Count  int    `json:"count,omitempty"`  // what was counted against it
	Parent string `json:"parent,omitempty"` // branch label of the session whose cap it is; also of other refusals
}

// Reasons of problems that are no refusal of a call; those are lineage's.
const (
	ReasonConflict      = "Conflict"             // the session's state or kind forbids it
	ReasonUnknownAgent  = "UNKNOWN_AGENT"        // no agent of this name is configured
	ReasonAgentNames    = "AGENT_NAMES_CONTEXTS" // the agent makes its own context ids: none can be handed out
	ReasonRequestReused = "REQUEST_REUSED"       // an earlier request of the same id asked for another session
	ReasonReadOnly      = "READ_ONLY"            // this admin API only shows the record
)

// NewProblem returns a problem whose detail is formatted as by [fmt.Sprintf].
func NewProblem(status int, format string, args ...any) *Problem {
	return &Problem{
		Type: "about:blank", Title: http.StatusText(status), Status: status,
		Detail: fmt.Sprintf(format, args...),
	}
}

// Error returns the detail, or the title if there is none.
func (p *Problem) Error() string {
	if p.Detail != "" {
		return p.Detail
	}
	return fmt.Sprintf("%d %s", p.Status, p.Title)
}

// StatusOf returns the status of the problem in err, 0 if there is none.
func StatusOf(err error) int {
	if p, ok := errors.AsType[*Problem](err); ok {
		return p.Status
	}
	return 0
}
