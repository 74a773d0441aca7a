package sessions

import (
	"cmp"
	"encoding/json"
	"sync"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Outcome is how a call ended, as the data path saw it.
type Outcome uint8

// The outcomes.
const (
	Answered    Outcome = iota // the whole answer came
	Malformed                  // it came, and could not be read
	BrokenOff                  // the connection to the agent broke in the middle
	CallerGone                 // the caller went away
	Unreachable                // no byte of the call left: there was no connection
	HTTPError                  // the agent answered with an HTTP error
	Unread                     // the whole answer came, too large to be read
)

// Run is one call under way. Its methods may be called concurrently with each
// other; after End they do nothing.
type Run struct {
	record  *Record // nil: the call is not recorded
	agent   *Agent
	session lineage.Session // as granted
	id      string
	trace   string
	whose   string // principal
	resumed bool   // the call continues a task that waited
	joined  bool   // the call goes to a task that was at work
	follows bool   // the call asks about a task of another call's; it has no run of its own
	as      any    // Call.As
	abort   func(error)

	// What the data path puts on the wire.
	lineage   lineage.Values
	edit      bool
	contextID string

	mu      sync.Mutex // guards the fields below
	gen     int        // under which the run may be told lost: known at the end
	ended   bool
	place   *localPlace        // of a call that is not recorded
	last    lineage.State      // of the run, as far as it was told
	severed bool               // cut off: the store says how the run ends
	settled bool               // the agent said how the run ended, or that it waits
	working bool               // the agent said last that it is at work
	rebuked bool               // the agent refused the call, not the run that others hold too
	task    string             // its id, once known
	pending Progress           // gathered and not yet posted
	parts   []gathered         // artifacts whose chunks are still coming
	made    []lineage.Artifact // artifacts that are whole
	text    string             // of the first artifact
	usage   json.RawMessage    // what the run has cost so far
}

// Lineage is what the agent may be told.
func (r *Run) Lineage() lineage.Values { return r.lineage }

// ContextID returns the context that the call runs in, empty if only the reply
// will tell, and whether the message must be edited to name it (or, if empty,
// to name none).
func (r *Run) ContextID() (id string, edit bool) { return r.contextID, r.edit }

// Recorded reports whether the call stands in the record.
func (r *Run) Recorded() bool { return r.record != nil }

// started makes the handle of an admitted call.
func (r *Record) started(c Call, p placed, g Grant) *Run {
	run := &Run{
		record: r, agent: c.Agent, session: g.Session, id: g.RunID, trace: c.TraceID, whose: c.Principal,
		resumed: g.Waited && c.Request.TaskID != "", joined: g.Resumed && !g.Waited && c.Request.TaskID != "",
		as: c.As, abort: c.Abort,
		contextID: g.Session.ContextID,
		lineage: lineage.Values{
			Root: p.a.Root, Parent: g.ParentContextID, Session: g.Session.ID,
			Branch: g.Session.Branch, Depth: g.Session.Depth, Turn: c.Turn,
		},
	}
	switch p.answer.Action {
	case contextid.AsSent:
		run.contextID = cmp.Or(c.Request.ContextID, g.Session.ContextID)
	case contextid.Mint, contextid.Derive:
		// Nobody else can have made this id: it is the tree's.
		run.edit = true
		if !g.Retry {
			r.cache.Add(BindingKey{BindContext, c.Agent.Name, run.contextID}, Binding{Root: p.a.Root, Principal: c.Principal})
		}
	case contextid.Keep:
		// The named context may be an alias of the session's own; a retry, though,
		// goes where the first try went.
		if run.edit = g.Retry; !g.Retry {
			run.contextID = c.Request.ContextID
		}
		r.cache.Add(BindingKey{BindContext, c.Agent.Name, c.Request.ContextID}, Binding{Root: p.a.Root, Principal: c.Principal})
	case contextid.Omit, contextid.Bound:
		run.edit = true
	}
	of := hold{place: r.books.place(p.a, g.Session.ContextID)}
	if task := c.Request.TaskID; g.Resumed && task != "" {
		r.unheard.Remove(BindingKey{BindTask, c.Agent.Name, task}) // somebody listens again
		of.task, of.last = task, lineage.Suspended
		if run.joined {
			of.last = lineage.Active
		}
	}
	r.take(run, g.Gen, of)
	if g.Session.Ending != "" {
		nudge(r.beats) // a beat tells how much of the grace is left
	}
	return run
}

// unrecorded makes the handle of a call that goes on while the store does not
// answer: in the context it would have had, as far as that can be told.
func unrecorded(c Call, p placed, place *localPlace) *Run {
	run := &Run{
		agent: c.Agent, ended: true, place: place, contextID: p.a.ContextID,
		lineage: lineage.Values{Root: p.a.Root, Parent: cmp.Or(p.a.Caller.ContextID, p.a.Root), Turn: c.Turn},
	}
	switch p.answer.Action {
	case contextid.AsSent, contextid.Keep:
	case contextid.Mint, contextid.Derive, contextid.Omit, contextid.Bound:
		run.edit = true
	}
	return run
}

// heardOf notes that the agent named an id, of which the store hears a moment
// later. Whose it is the store says, as long as it can be asked: an agent may
// well name another tree's.
func (r *Run) heardOf(kind BindingKind, id string) {
	key := BindingKey{kind, r.agent.Name, id}
	if !r.record.cache.Contains(key) {
		r.record.fresh.Add(key, Binding{Root: r.session.Tree, Principal: r.whose})
	}
}

// Saw takes note of what the agent said. Whatever ends or suspends the run is
// on its way to the store before Saw returns, and so comes before anything
// that the caller does on hearing it.
func (r *Run) Saw(u wire.Update) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return
	}
	r.note(u)
	if r.pending.State != "" && r.pending.State != lineage.Active {
		r.post()
	}
}

// Flush brings what was seen on its way to the store.
func (r *Run) Flush() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.post()
	}
}

// End ends the call. A run whose end was seen has ended by then; one that the
// agent still works on stays open, for its end to be seen by other calls; of
// any other nobody knows what became of it.
func (r *Run) End(o Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.place != nil {
		r.place.leave()
		r.place = nil
	}
	if r.ended {
		return
	}
	r.ended = true
	h, held := r.record.release(r)
	r.gen = h.ref.Gen
	if !r.working || !r.follows && o != Answered {
		r.noteArtifacts() // else more of them may come, and be seen by other calls
	}
	if !r.follows && !held {
		r.letGo(o, h)
	}
	r.post()
}

// letGo is the end of the last call that held a run: what becomes of the run is
// told by what all its calls have heard, and by how this one ended. r.mu is held.
func (r *Run) letGo(o Outcome, h hold) {
	task, last := cmp.Or(r.task, h.task), cmp.Or(r.last, h.last)
	if !r.settled && !r.severed {
		switch {
		case task != "" && last == lineage.Active && o != Malformed && o != Unread:
			// A task does not end with the connection (A2A 1.0 §3.1.2), nor with a
			// second call that the agent did not take: its end may be seen by others
			// who ask for it.
			r.pending.Detach = r.detachFor()
		case r.rebuked:
			r.become(lineage.Failed, lineage.ReasonLost)
		case o == Answered && task != "":
			r.pending.Detach = r.detachFor()
		case o == Answered:
			// Neither a task nor a message nor an error: no answer to a send.
			r.become(lineage.Failed, reasons[Malformed])
		case r.resumed && (o == Unreachable || o == HTTPError):
			r.become(lineage.Suspended, reasons[o]) // the task waits as before
		case o == Malformed && task != "":
			r.become(lineage.Failed, lineage.ReasonLost) // it may have said anything
		default:
			r.become(lineage.Failed, reasons[o])
		}
	}
	waits := cmp.Or(r.last, h.last) == lineage.Suspended
	if task == "" || r.severed || !waits && r.pending.Detach == 0 {
		h.place.leave()
		return
	}
	r.record.leave(r, task, h.place, !waits, o == BrokenOff)
}

// reasons says why a run failed whose end was not seen. Where the agent may
// still be at work it is lost, which the agent's own later word corrects.
var reasons = [...]string{
	Malformed:   "malformed_response",
	BrokenOff:   lineage.ReasonLost,
	CallerGone:  lineage.ReasonLost,
	Unreachable: lineage.ReasonUnreachable,
	HTTPError:   lineage.ReasonAgentError,
	Unread:      lineage.ReasonLost,
}

// detachFor is how long a run that no call holds may stay open: longer than its
// session, whose end asks the agent to stop and gives it the grace.
func (r *Run) detachFor() time.Duration {
	ttl := r.agent.TTL
	if ttl <= 0 {
		ttl = lineage.DefaultBranchTTL
	}
	return ttl + r.record.opts.Grace + time.Minute
}

// post sends what has gathered. r.mu is held.
func (r *Run) post() {
	p := r.pending
	if p.State == "" && p.TaskID == "" && p.ContextID == "" && p.Detach == 0 && len(p.Events) == 0 {
		return
	}
	p.Root, p.Session, p.Run, p.Gen = r.session.Tree, r.session.ID, r.id, r.gen
	p.Agent, p.TraceID = r.agent.Name, r.trace
	if r.follows {
		p.Session, p.TaskID = "", r.task // the store knows which run's it is
	}
	r.pending = Progress{}
	r.record.heard(r, p.State)
	if r.task != "" {
		r.record.heardOfTask(BindingKey{BindTask, r.agent.Name, r.task}, p.State)
	}
	r.record.writer.post(&p)
}
