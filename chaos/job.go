package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// way is how a caller calls.
type way string

const (
	send   way = "send"   // SendMessage, and waits for the answer
	stream way = "stream" // SendStreamingMessage
	later  way = "later"  // SendMessage that returns at once; the end is asked for
)

// job is what a caller wants of an agent.
type job struct {
	Agent string        `json:"agent"`
	Way   way           `json:"way"`
	Work  time.Duration `json:"work"`
	Hold  bool          `json:"hold,omitempty"` // works until the world's gate is opened
	Next  []job         `json:"next,omitempty"` // the agent's own calls, at the same time

	// What becomes of it on the caller's side.
	Leave  time.Duration `json:"leave,omitempty"`  // the caller goes away after this time
	Cancel bool          `json:"cancel,omitempty"` // the caller cancels the task as soon as it hears of it
	Mute   bool          `json:"mute,omitempty"`   // nobody asks for the end, or answers what the agent asks back
}

// letter is the text of a message: all that an agent knows of who calls it.
// It tells the truth whatever a sidecar makes of headers and ids.
type letter struct {
	Job     job    `json:"job"`
	Message string `json:"message"`
	Root    string `json:"root"`   // of the conversation
	Caller  string `json:"caller"` // the caller's own context; the root's is a coordinator
	User    string `json:"user"`
	By      life   `json:"by"` // the sidecar that the message goes through
}

func (l letter) text() (string, error) {
	b, err := json.Marshal(l)
	return string(b), err
}

// open reads the letter in a message.
func open(m *a2a.Message) (letter, error) {
	var l letter
	for _, p := range m.Parts {
		if text := p.Text(); text != "" {
			err := json.Unmarshal([]byte(text), &l)
			return l, err
		}
	}
	return l, fmt.Errorf("message %s has no text", m.ID)
}

// The agents.
const (
	agentWorker = "worker" // isolated, a leaf
	agentWriter = "writer" // one session for each conversation
	agentLead   = "lead"   // isolated, calls further
	agentScarce = "scarce" // isolated, a leaf, capped
	agentAsker  = "asker"  // isolated, asks back before it works
)

// Caps of a chaos world.
const (
	maxChildren   = 8
	maxConcurrent = 3 // of agentScarce
)

const (
	maxWork = 400 * time.Millisecond
	deepest = 2 // levels of calls below a coordinator's: a branch stands at depth 3 at most
)

// anyJob makes up a coordinator's call.
func anyJob(r *rand.Rand) job { return anyJobAt(r, 0) }

func anyJobAt(r *rand.Rand, level int) job {
	j := job{Way: send, Work: time.Duration(r.Int64N(int64(maxWork)))}
	switch n := r.IntN(100); {
	case n < 40:
		j.Agent = agentWorker
	case n < 60:
		j.Agent = agentScarce
	case n < 85 && level < deepest:
		j.Agent = agentLead
		for range 1 + r.IntN(3) {
			j.Next = append(j.Next, anyJobAt(r, level+1))
		}
	case level > 0:
		// A shared session stands under whoever called it first, so only the
		// coordinators call those: then the ledger knows whose place it takes.
		j.Agent = agentWorker
	case n < 93:
		j.Agent = agentWriter
	default:
		j.Agent = agentAsker
	}
	switch n := r.IntN(100); {
	case n < 35:
		j.Way = stream
	case n < 50:
		j.Way = later
	}
	if j.Agent == agentAsker {
		j.Way, j.Mute = send, r.IntN(4) == 0
	}
	if level > 0 || j.Agent == agentAsker {
		return j
	}
	switch n := r.IntN(100); {
	case n < 4:
		j.Leave = time.Duration(r.Int64N(int64(maxWork)))
	case n < 8:
		j.Way, j.Cancel = stream, true
	case j.Way == later:
		j.Mute = r.IntN(6) == 0
	}
	return j
}
