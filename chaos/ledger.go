package main

import (
	"fmt"
	"sync"
	"time"
)

// life is one life of a sidecar: from a start of its process to the next kill.
type life struct {
	Sidecar int `json:"sidecar"`
	Number  int `json:"number"`
}

// work is one message that an agent is at work on, in its own words and those
// of the caller: nothing in it is what a sidecar said.
type work struct {
	agent   string
	context string // that the agent was given for it
	caller  string // context of who called, empty for nobody that a cap counts
	message string
	by      life // the sidecar that it came through
	began   time.Time

	adrift bool // it counts against no cap any more; see ledger
}

// ledger is the truth about what is at work at the agents, and holds it to the
// caps at every beginning. It is safe for concurrent use.
//
// The caps are promises of the record, so work of which the record cannot know
// any more that it goes on does not count against them: it is adrift.
// That is work whose sidecar was killed (its lease lapses unrenewed, and at a
// store that is a single sidecar's it is forfeit at the restart), work whose
// caller went away before anybody heard of a task that could be asked about,
// and, at a store that may forget what it has acknowledged when a master dies,
// work that began within forgets of its death.
type ledger struct {
	children   int            // cap on the sessions at work for one caller
	concurrent map[string]int // caps on the work at an agent

	mu       sync.Mutex // guards the fields below
	atWork   map[*work]struct{}
	dead     map[life]bool
	gone     map[string]bool // messages whose caller went away
	unsure   time.Time       // until when what begins may have been forgotten
	begun    map[string]bool // messages that an agent has begun to work on
	runs     int             // work that was begun, adrift or not
	drifted  int             // work that became adrift
	most     map[string]int  // at once: for one caller (""), and at each capped agent
	breaches []string
	changed  chan struct{} // closed at the next change
}

func newLedger(children int, concurrent map[string]int) *ledger {
	return &ledger{
		children: children, concurrent: concurrent,
		atWork: map[*work]struct{}{}, dead: map[life]bool{}, gone: map[string]bool{},
		begun: map[string]bool{}, most: map[string]int{}, changed: make(chan struct{}),
	}
}

// forgets is how far back a store that replicates asynchronously may forget what
// it acknowledged: local replicas are milliseconds behind, on a loaded machine.
const forgets = time.Second

// begin notes that an agent begins to work on w, and checks the caps.
func (l *ledger) begin(w *work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.began = time.Now()
	l.atWork[w] = struct{}{}
	l.begun[w.message] = true
	l.runs++
	defer l.change()
	if l.dead[w.by] || l.gone[w.message] || w.began.Before(l.unsure) {
		l.drift(w)
		return
	}
	type place struct{ agent, context string }
	sessions, atAgent := map[place]bool{}, 0
	for other := range l.atWork {
		switch {
		case other.adrift:
			continue
		case other.caller == w.caller:
			sessions[place{other.agent, other.context}] = true
		}
		if other.agent == w.agent {
			atAgent++
		}
	}
	if w.caller != "" {
		l.most[""] = max(l.most[""], len(sessions))
		if n := len(sessions); n > l.children {
			l.breach("caller %s has %d sessions at work at once, and maxChildren is %d", w.caller, n, l.children)
		}
	}
	if most, capped := l.concurrent[w.agent]; capped {
		l.most[w.agent] = max(l.most[w.agent], atAgent)
		if atAgent > most {
			l.breach("agent %s works on %d messages at once, and its maxConcurrent is %d", w.agent, atAgent, most)
		}
	}
}

// breach needs l.mu.
func (l *ledger) breach(format string, args ...any) {
	l.breaches = append(l.breaches, time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

// change needs l.mu.
func (l *ledger) change() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// drift needs l.mu.
func (l *ledger) drift(w *work) {
	if !w.adrift {
		w.adrift = true
		l.drifted++
	}
}

// end notes that the work on w is done, but for the agent's last word.
func (l *ledger) end(w *work) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.atWork, w)
	l.change()
}

// killing notes that a sidecar is about to be killed.
func (l *ledger) killing(who life) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.dead[who] = true
	for w := range l.atWork {
		if w.by == who {
			l.drift(w)
		}
	}
}

// leaving notes that the caller of a message is about to go away.
func (l *ledger) leaving(message string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.gone[message] = true
	for w := range l.atWork {
		if w.message == message {
			l.drift(w)
		}
	}
}

// forgetting notes that a server is about to die that may take with it what it
// acknowledged last.
func (l *ledger) forgetting() {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.unsure = now.Add(forgets)
	for w := range l.atWork {
		if now.Sub(w.began) < forgets {
			l.drift(w)
		}
	}
}

// at returns how much work is under way at an agent, or at all ("").
func (l *ledger) at(agent string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for w := range l.atWork {
		if agent == "" || w.agent == agent {
			n++
		}
	}
	return n
}

// await returns a channel that is closed when anything begins or ends.
func (l *ledger) await() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.changed
}
