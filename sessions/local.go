package sessions

import (
	"cmp"
	"sync"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// books are this sidecar's own counts of the places that its calls take. They
// stand in for the store's while that does not answer: exact for a caller all
// of whose calls pass here, too low for any other.
type books struct {
	mu       sync.Mutex                // guards the fields below
	children map[string]map[string]int // caller's line → session → its open runs
	agents   map[string]int            // open runs
}

func newBooks() *books {
	return &books{children: map[string]map[string]int{}, agents: map[string]int{}}
}

// localPlace is what one open run takes in the books. The zero value and nil
// take nothing.
type localPlace struct {
	books         *books
	caller, child string
	agent         string
	left          bool // guarded by the books' lock
}

// place is where a run of a's stands in the books: under its caller, in the
// session with this context or, of a context that is not known yet, in one of
// its own.
func (b *books) place(a *Admission, contextID string) *localPlace {
	return &localPlace{books: b, caller: callerKey(a), child: cmp.Or(contextID, "run "+a.RunID), agent: a.Agent}
}

// enter takes the place.
func (p *localPlace) enter() {
	if p == nil {
		return
	}
	p.books.mu.Lock()
	defer p.books.mu.Unlock()
	p.take()
}

// take needs the books' lock.
func (p *localPlace) take() {
	b := p.books
	if b.children[p.caller] == nil {
		b.children[p.caller] = map[string]int{}
	}
	b.children[p.caller][p.child]++
	b.agents[p.agent]++
}

// leave gives the place back, once.
func (p *localPlace) leave() {
	if p == nil {
		return
	}
	b := p.books
	b.mu.Lock()
	defer b.mu.Unlock()
	if p.left {
		return
	}
	p.left = true
	of := b.children[p.caller]
	if of[p.child]--; of[p.child] == 0 {
		delete(of, p.child)
	}
	if len(of) == 0 {
		delete(b.children, p.caller)
	}
	if b.agents[p.agent]--; b.agents[p.agent] == 0 {
		delete(b.agents, p.agent)
	}
}

// admit takes the place if the caps allow it by these counts. label names the
// caller in a refusal.
func (p *localPlace) admit(l lineage.Limits, label string) *lineage.Refusal {
	b := p.books
	b.mu.Lock()
	defer b.mu.Unlock()
	of, runs := b.children[p.caller], 0
	for _, n := range of {
		runs += n
	}
	_, live := of[p.child]
	refusal := l.Check(lineage.Place{
		Agent: p.agent, Caller: &lineage.Session{Branch: label}, OpenRuns: runs, Live: live, Siblings: len(of),
		ParentLabel: label, AgentRuns: b.agents[p.agent],
	})
	if refusal == nil {
		p.take()
	}
	return refusal
}
