// Package lineage is the pure model of a tree of agent sessions: what a
// session is, which states it may take, which limits a new one must respect,
// what a branch may read, and how lineage is spelled in headers.
//
//	tree (one root context: one user conversation over all agents)
//	└─ session main ── spawn ──▶ session branch ── spawn ──▶ session worker
//	                              └─ run, run …  (one per message sent)
//
// It knows no HTTP, no store and no clock: times and ids come from its callers.
// All its types are plain values; a value may be copied and read concurrently.
package lineage

import (
	"encoding/json"
	"time"
)

// Kind says what a session is for, and with that how deep it may stand and
// whether it may have children.
type Kind string

// The kinds of session.
const (
	Main   Kind = "main"   // the root conversation; depth 0; survives restarts
	Branch Kind = "branch" // a sub-task with continuity; may be suspended; depth 1–3
	Worker Kind = "worker" // stateless; a leaf; depth ≤ 4
)

// Default lifetimes of a session that is not given one. A main session has none.
const (
	DefaultBranchTTL = 30 * time.Minute
	DefaultWorkerTTL = 5 * time.Minute
)

// DefaultTTL returns the lifetime of a session of kind k that is not given one;
// zero is none.
func DefaultTTL(k Kind) time.Duration {
	switch k {
	case Branch:
		return DefaultBranchTTL
	case Worker:
		return DefaultWorkerTTL
	default:
		return 0
	}
}

// Edge says how a session came to hang under its parent. Caps count spawn
// edges only.
type Edge string

// The edges of a tree.
const (
	EdgeRoot  Edge = "root"
	EdgeSpawn Edge = "spawn"
	EdgeFork  Edge = "fork"
)

// Inherit says what a new session may read of its parent's history.
type Inherit string

// What a child may read of its parent.
const (
	InheritFull    Inherit = "full"    // everything its parent may read
	InheritSummary Inherit = "summary" // only a summary given at the spawn
	InheritNone    Inherit = "none"    // nothing
)

// ParentSource says what told the sidecar which session a call came from.
type ParentSource string

// The sources of a parent, best first (design: lineage).
const (
	FromHeader   ParentSource = "header"
	FromBaggage  ParentSource = "baggage"
	FromTrace    ParentSource = "trace"
	FromSoleTurn ParentSource = "sole-turn"
	FromNone     ParentSource = "none"
	FromAPI      ParentSource = "api" // spawned ahead of its first call, by somebody who named the parent
)

// State is the state of a session or of a run.
type State string

// The states. Completed, failed and expired are terminal.
const (
	Active    State = "active"
	Suspended State = "suspended"
	Completed State = "completed"
	Failed    State = "failed"
	Expired   State = "expired"
)

// Terminal reports whether s is an end state.
func (s State) Terminal() bool { return s == Completed || s == Failed || s == Expired }

// Reasons that stand beside a failed state.
const (
	ReasonCanceled    = "canceled"       // the agent says the task was canceled
	ReasonRejected    = "rejected"       // the agent refused the task
	ReasonLost        = "lost"           // nobody saw the end; the agent's own later word corrects it
	ReasonUnreachable = "unreachable"    // no connection to the agent
	ReasonAgentError  = "agent_error"    // the agent answered with an error
	ReasonNoInput     = "input_required" // a worker asked for input, which a worker cannot wait for
	ReasonOrphaned    = "orphaned"       // its parent ended, and it had not within the grace
)

// Reasons that stand beside other states.
const (
	ReasonParentEnded = "parent_ended" // expired: nothing ran in it when its parent ended
	ReasonRequested   = "requested"    // suspended: by [VerbSuspend], and not since the agent waits
	ReasonExpired     = "expired"      // of Session.Ending: its time is over
)

// CanBecome reports whether a session or run in state s, with the given
// reason, may move to next. Terminal is final, with one exception: failed/lost
// is a guess, which the agent's own later word corrects.
func (s State) CanBecome(reason string, next State) bool {
	switch s {
	case Active:
		return next != Active
	case Suspended:
		return next != Suspended
	case Failed:
		return reason == ReasonLost && next != Expired
	default:
		return false
	}
}

// Session is a node of a tree: one agent's context in it. Its JSON is the
// session of the admin API.
type Session struct {
	ID           string          `json:"id"`           // the sidecar's id, a UUIDv7
	Tree         string          `json:"tree"`         // root context id
	Parent       string          `json:"parent"`       // session id; empty for the root
	Edge         Edge            `json:"edge"`         //
	Kind         Kind            `json:"kind"`         //
	Agent        string          `json:"agent"`        // agent name as configured
	ContextID    string          `json:"contextId"`    // the agent's id of this session; empty until learnt
	State        State           `json:"state"`        //
	Reason       string          `json:"reason"`       // beside failed
	Depth        int             `json:"depth"`        // 0 for the root
	Branch       string          `json:"branch"`       // label: path of agent@ordinal from the root
	Ordinal      int             `json:"ordinal"`      // nth child of its parent, from 1; 0 for the root
	Tokens       Tokens          `json:"tokens"`       // stamp of its events (see [Visible])
	Read         Tokens          `json:"read"`         // tokens whose events it may read
	Isolated     bool            `json:"isolated"`     // made for one call; ends with it
	Inherit      Inherit         `json:"inherit"`      //
	Remote       bool            `json:"remote"`       // stands for a session that another store holds
	Turn         string          `json:"turn"`         // the turn that made it
	ParentSource ParentSource    `json:"parentSource"` //
	CreatedAt    time.Time       `json:"createdAt"`    //
	UpdatedAt    time.Time       `json:"updatedAt"`    //
	EndedAt      *time.Time      `json:"endedAt"`
	Deadline     *time.Time      `json:"deadline"`           // end of its TTL, or of the grace once it is Ending; nil for none
	Ending       string          `json:"ending,omitempty"`   // why it was asked to stop: ReasonOrphaned, ReasonCanceled or ReasonExpired. It ends with its last run, at the latest when the grace is over
	Reserved     bool            `json:"reserved,omitempty"` // spawned ahead: it holds its place for a first call, which has not come
	Abandon      bool            `json:"abandon,omitempty"`  // it goes on when its parent ends
	Owner        string          `json:"owner"`              // sidecar that admitted its last run
	Runs         []Run           `json:"runs"`               // oldest first
	Result       *Result         `json:"result"`
	Usage        json.RawMessage `json:"usage"`
	Metadata     json.RawMessage `json:"metadata"`
	Version      uint64          `json:"version"` // seq of the last event of this session
	TraceID      string          `json:"traceId"`
}

// Live reports whether s takes a place under its parent: a run is open in it or
// waits, suspended, for its caller; or the place is reserved for a first call.
func (s *Session) Live() bool {
	if s.Reserved {
		return true
	}
	for i := range s.Runs {
		if !s.Runs[i].State.Terminal() {
			return true
		}
	}
	return false
}

// Run is one message sent to an agent and the task it made.
type Run struct {
	ID        string     `json:"id"`
	Caller    string     `json:"caller"` // session the call came out of
	TaskID    string     `json:"taskId"`
	MessageID string     `json:"messageId"`
	State     State      `json:"state"`
	Reason    string     `json:"reason,omitempty"`
	StartedAt time.Time  `json:"startedAt"`
	EndedAt   *time.Time `json:"endedAt"`
}

// Result is what a session leaves to its parent, which decides what to use.
type Result struct {
	Status    State      `json:"status"`
	Summary   string     `json:"summary,omitempty"`
	Artifacts []Artifact `json:"artifacts,omitempty"`
	MemoryIDs []string   `json:"memoryIds,omitempty"`
}

// Artifact names an output without holding it.
type Artifact struct {
	ID        string `json:"id"`
	Name      string `json:"name,omitempty"`
	MediaType string `json:"mediaType,omitempty"`
	Bytes     int    `json:"bytes"`
	SHA256    string `json:"sha256,omitempty"`
}

// Tree is the summary of one tree.
type Tree struct {
	Root        string    `json:"root"`
	StartedAt   time.Time `json:"startedAt"`
	LastEventAt time.Time `json:"lastEventAt"`
	State       string    `json:"state"`              // TreeActive or TreeIdle
	Sessions    int       `json:"sessions"`           // all ever made, the root included
	Live        int       `json:"live"`               // sessions with an open run, or suspended
	Depth       int       `json:"depth"`              // deepest session
	Agents      []string  `json:"agents"`             // sorted
	Errors      int       `json:"errors"`             // sessions and runs that failed
	CatchAll    bool      `json:"catchAll,omitempty"` // holds calls that named no conversation
}

// States of a tree as a whole.
const (
	TreeActive = "active" // something runs or waits in it
	TreeIdle   = "idle"
)

// Event is one immutable record in a tree's log.
type Event struct {
	Seq     uint64          `json:"seq"` // dense in its tree, from 1
	ID      string          `json:"id"`  // deterministic: the same fact has the same id wherever it is seen
	Time    time.Time       `json:"time"`
	Type    string          `json:"type"`
	Session string          `json:"session"`
	Branch  string          `json:"branch"`
	Tokens  Tokens          `json:"tokens"`
	Turn    string          `json:"turn"`
	TraceID string          `json:"traceId"`
	Payload json.RawMessage `json:"payload"`
}

// The types of event.
const (
	EventSpawned   = "session.spawned"
	EventSuspended = "session.suspended"
	EventResumed   = "session.resumed"
	EventCompleted = "session.completed"
	EventFailed    = "session.failed"
	EventExpired   = "session.expired"
	EventCancel    = "session.cancel_requested" // its agent was asked to stop; the grace begins
	EventResult    = "session.result"           // a child ended: what it left, told to the parent, with the parent's stamp
	EventSummary   = "context.summary"          // what a session that was spawned ahead may know of its parent's history
	EventQueued    = "run.queued"
	EventRefused   = "run.refused"
	EventRunEnded  = "run.ended" // a run ended and its session goes on
	EventSent      = "message.sent"
	EventReceived  = "message.received"
	EventStatus    = "task.status"
	EventArtifact  = "task.artifact"
	EventBound     = "context.bound"     // the agent's reply told the session's context id
	EventTask      = "task.bound"        // the agent's reply told the run's task, and no other event does
	EventPush      = "push.configured"   // the agent was told where to send push notifications
	EventCrossed   = "context.crossed"   // the caller named another tree's context
	EventCollapsed = "context.collapsed" // parallel runs share one context
)
