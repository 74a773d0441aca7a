// Package sessions is the record: which sessions grew in which tree, what ran
// in them, and what happened, as one log per tree. It admits calls within the
// caps, follows their runs to the end, and folds the log back into state.
//
//	proxy ──Begin──▶ Record ──┐                 ┌─▶ sessions/sqlite
//	      ◀──Run───           ├─▶ writer ─Apply─┤
//	      ──Saw/End─▶ Run ────┘   (in order,    └─▶ sessions/redis
//	                               in batches)
//
// It knows A2A messages as bytes (internal/wire) and the pure model (lineage,
// contextid). It knows no HTTP and no database: stores implement [Store].
package sessions

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Errors that stores and [Record] return, bare or wrapped.
var (
	// ErrNotFound: no such tree, session or binding.
	ErrNotFound = errors.New("not found")
	// ErrUnavailable: the store did not answer, or not in time. Whether the
	// operation took effect is not known; repeating it is safe.
	ErrUnavailable = errors.New("store unavailable")
	// ErrBadCursor: TreeQuery.Cursor is none that Trees has returned.
	ErrBadCursor = errors.New("bad cursor")
)

// Store keeps the record. Its methods may be called concurrently. Times are
// the store's own clock, so that all sidecars of a shared store agree.
//
// At any moment the state it returns equals [Project] of the log it returns.
type Store interface {
	// Apply carries out ops in order and sets the outcome of each. An op that
	// fails changes nothing and does not keep the others from being carried
	// out. Each op is atomic in its tree; together they need not be.
	Apply(ctx context.Context, ops []*Op)

	// Find returns what a context or task id at an agent belongs to, or ErrNotFound.
	Find(ctx context.Context, key BindingKey) (Binding, error)
	// Claim makes key belong to b unless it belongs to something already, and
	// returns what it then belongs to. The first claim stands for as long as
	// the tree does.
	Claim(ctx context.Context, key BindingKey, b Binding) (Binding, error)
	// Unclaim takes back a claim of b that led to nothing. A key that belongs
	// to anything else, or under which b's tree has a session, stays.
	Unclaim(ctx context.Context, key BindingKey, b Binding) error
	// Secret returns the key for derived context ids, made once and kept, so
	// that all replicas of one store derive the same ids.
	Secret(ctx context.Context) ([]byte, error)
	// Renew prolongs the leases of runs that are still open, whichever of their
	// grants the caller holds. A lease that has lapsed stays lapsed.
	Renew(ctx context.Context, runs []RunRef, lease time.Duration) error

	Reader

	// Ping returns nil when the store can be read and written.
	Ping(ctx context.Context) error
	Close() error
}

// Reader reads the record.
type Reader interface {
	// Trees lists trees, newest first.
	Trees(ctx context.Context, q TreeQuery) (TreePage, error)
	// Tree returns one tree, or ErrNotFound.
	Tree(ctx context.Context, root string) (lineage.Tree, error)
	// Sessions returns the sessions of a tree with their runs in spawn order,
	// or ErrNotFound.
	Sessions(ctx context.Context, root string) ([]lineage.Session, error)
	// Session returns one session with its runs, or ErrNotFound.
	Session(ctx context.Context, id string) (lineage.Session, error)
	// Events returns a page of a tree's log, oldest first, or ErrNotFound.
	Events(ctx context.Context, root string, q EventQuery) (EventPage, error)
}

// TreeQuery selects trees. The zero value selects the newest DefaultPage.
type TreeQuery struct {
	State  string // TreeActive or TreeIdle; empty: any
	Agent  string // trees in which this agent has a session; empty: any
	Text   string // part of the root context id, case-sensitive; empty: any
	Limit  int    // at most MaxPage; 0: DefaultPage
	Cursor string // TreePage.Next of the page before
}

// TreePage is a page of trees. Next is empty on the last one.
type TreePage struct {
	Trees []lineage.Tree
	Next  string
}

// EventQuery selects events.
type EventQuery struct {
	After   uint64         // events with a greater Seq
	Limit   int            // at most MaxPage; 0: DefaultPage
	LastN   int            // the last N that the other fields select; not together with After or Limit
	Types   []string       // any of these; empty: all
	Session string         // events of this session; empty: of all
	All     bool           // the whole log, whoever may read it (privileged)
	Read    lineage.Tokens // without All: only what a viewer with this read set sees
}

// Selects reports whether q selects e, paging aside.
func (q *EventQuery) Selects(e *lineage.Event) bool {
	if !q.All && !lineage.Visible(e.Tokens, q.Read) {
		return false
	}
	if q.Session != "" && e.Session != q.Session {
		return false
	}
	if len(q.Types) == 0 {
		return true
	}
	return slices.Contains(q.Types, e.Type)
}

// EventPage is a page of events. Next is the After of the next page: the
// sequence number up to which the log has been read, selected or not.
type EventPage struct {
	Events []lineage.Event
	Next   uint64
}

// Sizes of pages.
const (
	DefaultPage = 100
	MaxPage     = 1000
)

// BindingKind says what an id of an agent names.
type BindingKind string

// The kinds of binding.
const (
	BindContext BindingKind = "context"
	BindTask    BindingKind = "task"
)

// BindingKey is an id as one agent knows it.
type BindingKey struct {
	Kind  BindingKind
	Agent string
	ID    string
}

// Binding says which tree an id belongs to, and whose that tree is. But for a
// claim that is taken back, it never changes while its tree is kept, so one that
// was found may be cached.
type Binding struct {
	Root      string
	Principal string
}

// RunRef names a run and the grant of it that a sidecar holds.
type RunRef struct {
	Root  string
	Run   string
	Agent string
	Gen   int
}

// Op is one operation of a batch: exactly one of Admit and Progress is set.
// Apply sets Err, and for an admission Grant. Err is a *lineage.Refusal when a
// cap is reached.
type Op struct {
	Admit    *Admission
	Progress *Progress

	Grant Grant
	Err   error
}

// Resolve says which session of the tree a call may find instead of making one.
type Resolve string

// How a session is found. A call whose MessageID the agent has had in this
// tree (a retry) finds the session of that call in any case; so does one whose
// TaskID is known.
const (
	ResolveNone    Resolve = ""        // make a new one
	ResolveContext Resolve = "context" // the one with Admission.ContextID at the agent
	ResolveAgent   Resolve = "agent"   // the tree's one shared session at the agent, whatever its context
)

// Admission asks for a place for one call. Every cap is checked, the session
// found or made, the run opened and all of it logged in one atomic step, or
// nothing is changed.
type Admission struct {
	Root      string // root context id of the tree; made if it is not there
	Principal string // whose call it is; a tree of another's is refused (CONTEXT_FORBIDDEN)
	CatchAll  bool   // a tree that is made now holds calls that name no conversation
	Local     string // name of the agent beside this sidecar
	Caller    Caller
	MainID    string // id for the root session if it must be made
	RemoteID  string // id for a placeholder of an unknown caller if one must be made

	Agent     string
	Kind      lineage.Kind
	Isolated  bool
	Inherit   lineage.Inherit
	TTL       time.Duration // 0: none
	Turn      string
	TraceID   string
	Source    lineage.ParentSource
	Resolve   Resolve
	ContextID string // context of the session: to find it by, and of a new one; empty: the reply will tell
	SessionID string // id for a new session
	RunID     string // id for a new run
	MessageID string
	TaskID    string // task that the message continues; empty: none

	Limits lineage.Limits
	Owner  string        // this sidecar
	Lease  time.Duration // how long the run's place is held without a renewal

	Sent    json.RawMessage // payload of message.sent, an object; "run" is added to it
	Crossed string          // another tree's context that the caller named: logged; empty: none
}

// Caller says which session of the tree a call comes out of.
type Caller struct {
	ContextID string // the caller's own context; empty or the root: the root session
	SiblingOf string // instead: the parent of the session that has this context at the called agent
	Depth     int    // depth that an unknown caller claims; 0: not known
}

// Grant is the outcome of an admission.
type Grant struct {
	Session         lineage.Session // as it stands, without Runs
	ParentContextID string          // the parent's own context: what the agent is told
	RunID           string
	Gen             int  // of the run; each grant of the same run has a higher one
	New             bool // the session was made
	Retry           bool // the message had been sent before
	Resumed         bool // the run was there, and goes on
	Waited          bool // Resumed, and it had been suspended; else it was at work
}

// Draft is an event that is still to be numbered and stamped. Appending an ID
// that the tree's log already has changes nothing.
type Draft struct {
	ID      string
	Type    string
	Payload json.RawMessage // an object
}

// Progress tells what became of a run. Fields that are empty change nothing.
//
// A run or session that has ended stays as it is (events are still appended),
// unless it ended as failed/lost and this is the agent's own word. An isolated
// session and a worker end with their last run. A loss
// (Reason lost) told with a Gen older than the run's is not believed: a newer
// call holds the run.
type Progress struct {
	Root    string
	Session string
	Run     string // empty: the run of TaskID, else none (events only)
	Gen     int
	Agent   string
	TraceID string

	TaskID    string // the run's task is this; Events of a type that TellsTask name it too
	ContextID string // the agent's reply named this context

	State  lineage.State // Active: seen working; Suspended; Completed, Failed: the run ended
	Reason string
	Result json.RawMessage // a lineage.Result
	Usage  json.RawMessage
	Detach time.Duration // no call holds the run any more: it is lost unless its end is seen within this time

	Events []Draft
}
