package sessions

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

const (
	// maxWaiting is how many calls may wait in one line; more are refused at once.
	maxWaiting = 1024
	// recheck is how often the first in a line looks for a place of its own
	// accord. Places that are freed, here or by another sidecar, wake it at once;
	// a notice may be lost, though, and a lease lapses without one.
	recheck = 2 * time.Second
)

// lines holds the calls that wait for a place, first come first served. There
// is a line for each caller (its children and fan-out caps) and one for each
// agent (its concurrency cap), so that a call which waits for a busy agent
// does not hold up its siblings' calls to others.
//
// Only the first in a line asks the store; so a line costs the same however
// long it is.
type lines struct {
	mu sync.Mutex // guards the fields below and every line
	by map[string]*line
}

type line struct {
	root, agent string // whose places it waits for; one is empty
	waiting     []*ticket
	refusal     *lineage.Refusal // what the first in line heard last
}

type ticket struct{ turn chan struct{} } // capacity 1: come first, or a place came free

func newLines() *lines { return &lines{by: map[string]*line{}} }

// waiting returns how many calls wait.
func (ls *lines) waiting() int {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	n := 0
	for _, l := range ls.by {
		n += len(l.waiting)
	}
	return n
}

// freed wakes the first of every line that waits for a place in the tree root
// or at agent.
func (ls *lines) freed(root, agent string) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.by {
		if l.root == root && root != "" || l.agent == agent && agent != "" {
			l.call()
		}
	}
}

// freedAny wakes the first of every line.
func (ls *lines) freedAny() {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	for _, l := range ls.by {
		l.call()
	}
}

func (l *line) call() {
	if len(l.waiting) == 0 {
		return
	}
	select {
	case l.waiting[0].turn <- struct{}{}:
	default:
	}
}

// lineKey names the line that a refusal sends a call to. Calls are told apart
// by what they say of their caller, since which session that is only the
// store's atomic step can tell.
func lineKey(a *Admission, r *lineage.Refusal) (key, root, agent string) {
	if r.Reason == lineage.ConcurrencyLimit {
		return agentKey(a), "", a.Agent
	}
	return callerKey(a), a.Root, ""
}

func agentKey(a *Admission) string { return "agent\x00" + a.Agent }

func callerKey(a *Admission) string {
	caller := a.Caller.ContextID
	if fromRoot(a) {
		caller = ""
	}
	return "caller\x00" + a.Root + "\x00" + caller
}

// fromRoot reports whether a call says that it comes from the root session, or
// does not say where from.
func fromRoot(a *Admission) bool {
	return a.Caller.ContextID == "" || a.Caller.ContextID == a.Root
}

// ahead returns the refusal of a line that a must join without trying, because
// others came first; nil if there is none. Two kinds of call never wait behind
// others, who may be waiting for the very place that it helps to free: one that
// continues a task; and, in an agent's line, one from below the root, whose
// ancestors' places at the agent do not count against it.
func (ls *lines) ahead(a *Admission) *lineage.Refusal {
	if a.TaskID != "" {
		return nil
	}
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l := ls.by[callerKey(a)]; l != nil && len(l.waiting) > 0 {
		return l.heard(a)
	}
	if l := ls.by[agentKey(a)]; l != nil && len(l.waiting) > 0 && fromRoot(a) {
		return l.heard(a)
	}
	return nil
}

// errLeave ends a wait with the refusal that was heard last.
var errLeave = errors.New("queue: leave")

// admit tries until a place is found, a refusal comes that no waiting lifts,
// the queue timeout is over or ctx ends. queued is called once, with the first
// refusal, when the call begins to wait.
func (ls *lines) admit(ctx context.Context, a *Admission, try func() (Grant, error), queued func(*lineage.Refusal)) (Grant, error) {
	refusal := ls.ahead(a)
	if refusal == nil {
		g, err := try()
		if refusal = waitable(err); refusal == nil {
			return g, err
		}
	}
	if a.Limits.QueueTimeout <= 0 {
		return Grant{}, refusal
	}
	queued(refusal)
	timeout := time.NewTimer(a.Limits.QueueTimeout)
	defer timeout.Stop()
	for {
		g, next, err := ls.wait(ctx, a, refusal, timeout.C, try)
		if next == nil {
			return g, err
		}
		if errors.Is(err, errLeave) {
			return Grant{}, next
		}
		refusal = next // another cap stands in the way now: to the end of its line
	}
}

// waitable returns the refusal in err if waiting may lift it.
func waitable(err error) *lineage.Refusal {
	var r *lineage.Refusal
	if errors.As(err, &r) && r.Waiting() {
		return r
	}
	return nil
}

// wait stands in the line of refusal until the call has an outcome (next is
// nil), must leave (errLeave), or hears of another line (next).
func (ls *lines) wait(ctx context.Context, a *Admission, refusal *lineage.Refusal, timeout <-chan time.Time, try func() (Grant, error)) (g Grant, next *lineage.Refusal, err error) {
	key, root, agent := lineKey(a, refusal)
	t := &ticket{turn: make(chan struct{}, 1)}
	if !ls.join(key, root, agent, t, refusal) {
		return Grant{}, refusal, errLeave
	}
	defer ls.leave(key, t)
	look := time.NewTimer(recheck + rand.N(recheck/4))
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return Grant{}, nil, ctx.Err()
		case <-timeout:
			if ls.first(key, t) {
				if g, err := try(); waitable(err) == nil { // a place may have come free unheard
					return g, nil, err
				}
			}
			return Grant{}, ls.heard(key, a), errLeave
		case <-t.turn:
		case <-look.C:
		}
		look.Reset(recheck + rand.N(recheck/4))
		if !ls.first(key, t) {
			continue
		}
		g, err := try()
		again := waitable(err)
		if again == nil {
			return g, nil, err
		}
		if k, _, _ := lineKey(a, again); k != key {
			return Grant{}, again, nil
		}
		ls.hear(key, again)
	}
}

func (ls *lines) join(key, root, agent string, t *ticket, r *lineage.Refusal) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.by[key]
	if l == nil {
		l = &line{root: root, agent: agent, refusal: r}
		ls.by[key] = l
	}
	if len(l.waiting) >= maxWaiting {
		return false
	}
	l.waiting = append(l.waiting, t)
	if len(l.waiting) == 1 {
		// A place may have come free between the refusal and the joining.
		l.call()
	}
	return true
}

func (ls *lines) leave(key string, t *ticket) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.by[key]
	for i, other := range l.waiting {
		if other == t {
			l.waiting = append(l.waiting[:i], l.waiting[i+1:]...)
			break
		}
	}
	if len(l.waiting) == 0 {
		delete(ls.by, key)
		return
	}
	l.call() // more than one place may be free
}

func (ls *lines) first(key string, t *ticket) bool {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.by[key]
	return len(l.waiting) > 0 && l.waiting[0] == t
}

func (ls *lines) hear(key string, r *lineage.Refusal) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.by[key].refusal = r
}

// heard returns what the first in line heard last: fresher than what the
// others, who stand in it now, heard when they came.
func (ls *lines) heard(key string, a *Admission) *lineage.Refusal {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	return ls.by[key].heard(a)
}

// heard is the line's refusal, told to a.
func (l *line) heard(a *Admission) *lineage.Refusal {
	r := *l.refusal
	r.Agent = a.Agent
	return &r
}
