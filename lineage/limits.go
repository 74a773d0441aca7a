package lineage

import (
	"fmt"
	"time"
)

// The deepest levels at which sessions may stand, whatever is configured.
const (
	MaxDepth       = 4 // any session
	MaxBranchDepth = 3 // a session that may have children of its own
)

// Limits caps the fan-out of a tree. Zero means no cap, but for MaxDepth,
// where it means the deepest level of all, 4.
type Limits struct {
	MaxDepth      int           // depth of a new session, 1–4
	MaxChildren   int           // live child sessions of one parent
	MaxFanOut     int           // open runs out of one parent
	MaxSessions   int           // sessions made in one tree in one turn, or in the last hour where no turn is known
	MaxVisits     int           // times one agent stands on the path from the root to a new session, itself included
	MaxConcurrent int           // open runs at one agent, over all trees and sidecars
	QueueTimeout  time.Duration // how long a call waits for a place; zero: it is refused at once
}

// SessionsWindow is the time over which MaxSessions counts where no turn is known.
const SessionsWindow = time.Hour

// Reason names why a call was refused, as the wire spells it.
type Reason string

// The reasons of refusals.
const (
	ChildrenLimit    Reason = "CHILDREN_LIMIT"
	FanOutLimit      Reason = "FANOUT_LIMIT"
	ConcurrencyLimit Reason = "CONCURRENCY_LIMIT"
	DepthLimit       Reason = "DEPTH_LIMIT"
	SessionsLimit    Reason = "SESSIONS_LIMIT"
	LoopLimit        Reason = "LOOP_LIMIT"
	LeafSession      Reason = "LEAF_SESSION"
	ParentEnded      Reason = "PARENT_ENDED"
	SessionEnded     Reason = "SESSION_ENDED" // after its admission: its session was ended before its answer came
	ContextForbidden Reason = "CONTEXT_FORBIDDEN"
	StoreUnavailable Reason = "STORE_UNAVAILABLE"
	AgentUnreachable Reason = "AGENT_UNREACHABLE"
)

// Refusal is the error of a call that may not go on. It names the cap, its
// value, what was counted, and the parent.
type Refusal struct {
	Reason   Reason
	Limit    string // config key of the cap; empty where no cap is meant
	Value    int    // the cap
	Count    int    // what was counted against it
	Parent   string // branch label of the parent, or the agent for MaxConcurrent
	ParentID string // session id of the parent; empty where there is none
	Agent    string // agent the call was for
}

// Waiting reports whether a place may come free: such a call is queued, and
// may be tried again by its caller.
func (r *Refusal) Waiting() bool {
	return r.Reason == ChildrenLimit || r.Reason == FanOutLimit || r.Reason == ConcurrencyLimit
}

// Retryable reports whether the same call may succeed later.
func (r *Refusal) Retryable() bool {
	return r.Waiting() || r.Reason == StoreUnavailable || r.Reason == AgentUnreachable
}

// Error says in words what was refused and whether waiting helps, because some
// SDKs keep nothing but the message.
func (r *Refusal) Error() string {
	switch r.Reason {
	case ChildrenLimit:
		return fmt.Sprintf("fan-out limit reached: session %s has %d of %d children running (%s); retry when one ends", r.Parent, r.Count, r.Value, r.Limit)
	case FanOutLimit:
		return fmt.Sprintf("fan-out limit reached: session %s has %d of %d calls running (%s); retry when one ends", r.Parent, r.Count, r.Value, r.Limit)
	case ConcurrencyLimit:
		return fmt.Sprintf("concurrency limit reached: agent %s has %d of %d calls running (%s); retry when one ends", r.Agent, r.Count, r.Value, r.Limit)
	case DepthLimit:
		return fmt.Sprintf("depth limit reached: a call from session %s to %s would stand at depth %d of at most %d (%s); retrying does not help", r.Parent, r.Agent, r.Count, r.Value, r.Limit)
	case SessionsLimit:
		return fmt.Sprintf("session limit reached: the tree of session %s has made %d of %d sessions (%s); retrying does not help in this turn", r.Parent, r.Count, r.Value, r.Limit)
	case LoopLimit:
		return fmt.Sprintf("loop limit reached: agent %s would stand %d times on the path below session %s, at most %d are allowed (%s); retrying does not help", r.Agent, r.Count, r.Parent, r.Value, r.Limit)
	case LeafSession:
		return fmt.Sprintf("session %s is a worker and cannot call agents; retrying does not help", r.Parent)
	case ParentEnded:
		return fmt.Sprintf("session %s has ended or is being ended, and cannot call agents; retrying does not help", r.Parent)
	case SessionEnded:
		return "the session of the call was ended; retrying does not help"
	case ContextForbidden:
		return "the task or context belongs to another user's conversation; retrying does not help"
	case StoreUnavailable:
		return "the record of sessions cannot be reached; retry later"
	case AgentUnreachable:
		return fmt.Sprintf("agent %s cannot be reached; retry later", r.Agent)
	default:
		return string(r.Reason)
	}
}

// Place is what admission counted for one call, in one atomic look.
type Place struct {
	Agent string // agent the call goes to
	Kind  Kind   // kind of the session if one is to be made

	Caller      *Session // session the call comes out of: its Kind, State, Ending, Branch and ID count
	CallerDepth int      // depth of Caller
	OpenRuns    int      // open runs out of Caller

	New         bool   // a session is to be made
	Visits      int    // times Agent stands on the path from the root to Caller
	Made        int    // sessions made in the turn or window; counted only when New
	NoMadeLimit bool   // the catch-all tree: MaxSessions does not hold
	Live        bool   // the session is live already, and so takes no further place
	Siblings    int    // live children of the session's parent
	ParentID    string // the session's own parent, which an earlier call may have fixed
	ParentLabel string

	AgentRuns int // open runs at Agent, those of the call's own ancestors left out
}

// Check returns nil when a call may go on, else the first cap in its way.
// Caps that no waiting can lift come first, so that a call never queues in vain.
func (l Limits) Check(p Place) *Refusal {
	refuse := func(reason Reason, limit string, value, count int) *Refusal {
		return &Refusal{
			Reason: reason, Limit: limit, Value: value, Count: count,
			Parent: p.Caller.Branch, ParentID: p.Caller.ID, Agent: p.Agent,
		}
	}
	if p.Caller.Kind == Worker {
		return refuse(LeafSession, "", 0, 0)
	}
	if p.Caller.State.Terminal() || p.Caller.Ending != "" {
		return refuse(ParentEnded, "", 0, 0)
	}
	if p.New {
		depth := p.CallerDepth + 1
		if deepest := l.Deepest(p.Kind); depth > deepest {
			return refuse(DepthLimit, "maxDepth", deepest, depth)
		}
		if l.MaxVisits > 0 && p.Visits+1 > l.MaxVisits {
			return refuse(LoopLimit, "maxVisits", l.MaxVisits, p.Visits+1)
		}
		if l.MaxSessions > 0 && !p.NoMadeLimit && p.Made >= l.MaxSessions {
			return refuse(SessionsLimit, "maxSessions", l.MaxSessions, p.Made)
		}
	}
	if l.MaxChildren > 0 && !p.Live && p.Siblings >= l.MaxChildren {
		r := refuse(ChildrenLimit, "maxChildren", l.MaxChildren, p.Siblings)
		r.Parent, r.ParentID = p.ParentLabel, p.ParentID
		return r
	}
	if l.MaxFanOut > 0 && p.OpenRuns >= l.MaxFanOut {
		return refuse(FanOutLimit, "maxFanOut", l.MaxFanOut, p.OpenRuns)
	}
	if l.MaxConcurrent > 0 && p.AgentRuns >= l.MaxConcurrent {
		return refuse(ConcurrencyLimit, "maxConcurrent", l.MaxConcurrent, p.AgentRuns)
	}
	return nil
}

// Deepest returns the deepest level at which a session of kind k may stand.
func (l Limits) Deepest(k Kind) int {
	deepest := l.MaxDepth
	if deepest <= 0 || deepest > MaxDepth {
		deepest = MaxDepth
	}
	if k != Worker {
		deepest = min(deepest, MaxBranchDepth)
	}
	return deepest
}
