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
	// grants the caller holds. A lease that has lapsed stays lapsed. Runs whose
	// session is being ended are noticed again (see Watch).
	Renew(ctx context.Context, runs []RunRef, lease time.Duration) error
	// Settle settles what is overdue in any tree: leases that nobody renewed,
	// sessions past their deadline or their grace. It costs what is due, however
	// much is kept, and does a bounded piece of it: more says that there may be
	// more to do at once. Any number of sidecars may settle at the same time.
	Settle(ctx context.Context) (more bool, err error)
	// Watch tells fn of every notice, those of this store's own operations and,
	// where sidecars share the store, those of all others, until ctx ends. It
	// returns at once. fn must not block. A notice may come more than once, and
	// may be lost in an outage.
	Watch(ctx context.Context, fn func(Notice)) error

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
	// Sessions returns a page of the sessions of a tree with their runs in spawn
	// order, or ErrNotFound. A page is a state that the tree was in.
	Sessions(ctx context.Context, root string, q SessionQuery) (SessionPage, error)
	// Session returns one session with its runs, or ErrNotFound.
	Session(ctx context.Context, id string) (lineage.Session, error)
	// SessionOf returns the session of a tree that a context or task id at an
	// agent leads to, without its runs, or ErrNotFound.
	SessionOf(ctx context.Context, root string, key BindingKey) (lineage.Session, error)
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

// SessionQuery selects sessions of a tree. The zero value selects the first
// MaxPage.
type SessionQuery struct {
	After int // leaves out so many from the first on
	Limit int // at most MaxPage; 0: MaxPage
}

// SessionPage is a page of sessions. Next is the After of the next page, 0 on
// the last one.
type SessionPage struct {
	Sessions []lineage.Session
	Next     int
}

// AllSessions reads all sessions of a tree, page by page.
func AllSessions(ctx context.Context, r Reader, root string) ([]lineage.Session, error) {
	var all []lineage.Session
	var q SessionQuery
	for {
		page, err := r.Sessions(ctx, root, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Sessions...)
		if page.Next == 0 {
			return all, nil
		}
		q.After = page.Next
	}
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
	MaxRuns     = 1000 // of one session that a reader returns: the newest
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

// Op is one operation of a batch: exactly one of Admit, Progress and Change is
// set. Apply sets Err, and for an admission Grant; for a change, the session of
// Grant. Err is a *lineage.Refusal when a cap is reached, and a
// *lineage.Conflict when the session does not allow the change.
type Op struct {
	Admit    *Admission
	Progress *Progress
	Change   *Change

	Grant Grant
	Err   error
}

// Notice is news that concerns every sidecar of a store.
type Notice struct {
	// A place came free, which somebody may wait for: in the tree Root, or at
	// Agent, or both.
	Root  string
	Agent string
	// Runs that are to stop. Theirs is the only notice with neither of the above.
	Cancels []Cancel
}

// Cancel says that a run is to stop: whoever holds its call asks the agent to
// cancel its task, and closes the connection when the grace is over.
type Cancel struct {
	Root    string
	Session string
	Run     string
	Agent   string
	TaskID  string        // empty: not known yet
	Reason  string        // lineage.Session.Ending
	Grace   time.Duration // what is left of it
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
	TTL       time.Duration // of a new session, begun anew by every later admission; 0: none
	Turn      string
	TraceID   string
	Source    lineage.ParentSource
	Resolve   Resolve
	ContextID string // context of the session: to find it by, and of a new one; empty: the reply will tell
	SessionID string // id for a new session
	RunID     string // id for a new run
	MessageID string
	TaskID    string // task that the message continues; empty: none
	Named     string // context that the message named: a session that is reserved under it, at Agent, is found before all else
	Abandon   bool   // a new session goes on when its parent ends

	// Ahead makes a session that no message has been sent to yet, and opens no
	// run: the session holds its place, reserved, until a call names its context.
	// The same RequestID again, in the same tree, finds the same session.
	// MessageID, TaskID, RunID and Sent mean nothing then, nor does Principal
	// where the tree is there already.
	Ahead     bool
	RequestID string          // empty: each is another
	Summary   json.RawMessage // payload of the new session's context.summary, an object; nil: none

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
	Session   string // instead: the session with this id, which must be there (else ErrNotFound)
	Depth     int    // depth that an unknown caller claims; 0: not known
}

// Grant is the outcome of an admission.
type Grant struct {
	Session         lineage.Session // as it stands, without Runs
	ParentContextID string          // the parent's own context: what the agent is told
	RunID           string
	Gen             int  // of the run; each grant of the same run has a higher one
	New             bool // the session was made; with Ahead, not by an earlier request of the same id
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

// Change takes a session a step further because somebody asks for it by the
// API. See [lineage.Verb] for what a session allows.
type Change struct {
	Root    string
	Session string
	Verb    lineage.Verb
	Reason  string          // of a failure; empty: none
	Result  json.RawMessage // a lineage.Result; of a completion or failure; nil: none
	TraceID string
}

// Progress tells what became of a run. Fields that are empty change nothing.
//
// A run or session that has ended stays as it is (events are still appended),
// unless it ended as failed/lost and this is the agent's own word. An isolated
// session, a worker and a session that is being ended end with their last run.
//
// What only the holder of the run may say (that it is lost, or that no call
// holds it any more) is not believed with a Gen older than the run's: a newer
// call holds it.
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
