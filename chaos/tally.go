package main

import (
	"maps"
	"slices"
	"sync"
	"time"
)

// tally is what the callers saw. It is safe for concurrent use.
type tally struct {
	mu       sync.Mutex // guards the fields below
	outcomes map[ending]int
	asks     map[string]int   // questions for tasks, by method and what came of them
	calls    map[string]*call // by message
	slowest  time.Duration    // answer
	made     int
}

// ending is a way in which a call ended.
type ending struct {
	byAgent bool // made by an agent, in the middle of a chain
	result  result
	reason  string // of a refusal, and of an agent's error
}

// call is what the callers know of one message, however often it was sent.
type call struct {
	root     string
	agent    string
	answered bool      // by a task that is completed
	at       time.Time // when it was answered first
	by       life      // which sidecar brought the answer
}

func newTally() *tally {
	return &tally{outcomes: map[ending]int{}, asks: map[string]int{}, calls: map[string]*call{}}
}

// enter notes how a call ended that began at began.
func (t *tally) enter(l letter, o outcome, began time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made++
	e := ending{byAgent: l.Caller != l.Root, result: o.result}
	if o.result == refused || o.result == failed {
		e.reason = o.reason
	}
	t.outcomes[e]++
	c := t.calls[l.Message]
	if c == nil {
		c = &call{root: l.Root, agent: l.Job.Agent}
		t.calls[l.Message] = c
	}
	if o.result == answered {
		c.answer(l.By)
		t.slowest = max(t.slowest, time.Since(began))
	}
}

func (c *call) answer(by life) {
	if !c.answered {
		c.answered, c.at, c.by = true, time.Now(), by
	}
}

// followed notes how a task ended that was asked for.
func (t *tally) followed(l letter, o outcome, by life) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if c := t.calls[l.Message]; c != nil && o.result == answered {
		c.answer(by)
	}
}

// asked notes what came of a question for a task.
func (t *tally) asked(method string, err error, o outcome) {
	t.mu.Lock()
	defer t.mu.Unlock()
	what := "answered"
	switch {
	case err != nil:
		what = "broken off"
	case o.result != "":
		what = "error: " + o.reason
	}
	t.asks[method+" "+what]++
}

// counts returns how many calls were made, and how many had an answer.
func (t *tally) counts() (made, good int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for e, n := range t.outcomes {
		if e.result == answered {
			good += n
		}
	}
	return t.made, good
}

// all returns what is known of each message.
func (t *tally) all() map[string]call {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make(map[string]call, len(t.calls))
	for id, c := range t.calls {
		all[id] = *c
	}
	return all
}

// roots returns the conversations in which calls were made.
func (t *tally) roots() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	roots := map[string]bool{}
	for _, c := range t.calls {
		roots[c.root] = true
	}
	return slices.Sorted(maps.Keys(roots))
}
