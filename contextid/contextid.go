// Package contextid decides which context (A2A contextId: one conversation
// with one agent) a call runs in, and makes the ids for it.
//
// It is pure: what the store knows comes in with the question. The rules are
// the table of the design's section "Which context a call runs in"; the row
// about a retry (same messageId) needs the store's atomic step and is applied
// there, over what this package answers.
package contextid

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"github.com/google/uuid"
)

// Mode says who makes the ids of contexts at an agent.
type Mode string

// The modes.
const (
	Sidecar     Mode = "sidecar"     // the sidecar mints and derives them
	Agent       Mode = "agent"       // the agent does, as A2A 1.0 §3.4.1 allows it to insist on
	Passthrough Mode = "passthrough" // ids are recorded and never touched
)

// Action says what becomes of the contextId of a message.
type Action uint8

// The actions.
const (
	AsSent Action = iota // leave the message as it is
	Mint                 // a fresh id for a session of this call's own
	Derive               // the stable id of (principal, root, agent)
	Omit                 // leave the id out; the agent's reply tells it
	Keep                 // the context that the caller named, which it may use
	Bound                // the context bound to this tree at this agent, else leave the id out
)

// Question is what decides the context of one call.
type Question struct {
	Mode      Mode
	Isolate   bool // isolateSessions of the agent
	TaskID    bool // the message names a task
	Named     bool // the message names a context
	Foreign   bool // the named context belongs to another tree
	TreeKnown bool // the call's tree is known by more than the catch-all
}

// Answer says what to do. Crossed is set when the caller named another tree's
// context and did not get it.
type Answer struct {
	Action  Action
	Crossed bool
}

// Decide applies the table. A message that names a task is never touched: the
// agent must refuse a context that is not the task's (A2A 1.0 §3.4.1), and a
// resume must reach the session that waits.
func Decide(q Question) Answer {
	switch {
	case q.TaskID || q.Mode == Passthrough:
		return Answer{Action: AsSent}
	case q.Isolate && q.Mode == Agent:
		return Answer{Action: Omit}
	case q.Isolate:
		return Answer{Action: Mint}
	case q.Named && !q.Foreign:
		return Answer{Action: Keep}
	case q.Mode == Agent && (q.Named || q.TreeKnown):
		return Answer{Action: Bound, Crossed: q.Named}
	case q.Named || q.TreeKnown:
		return Answer{Action: Derive, Crossed: q.Named}
	default:
		return Answer{Action: Omit}
	}
}

// Fresh returns a new id, a UUIDv7: unique, and in order of time.
func Fresh() string { return uuid.Must(uuid.NewV7()).String() }

// KeySize is the size in bytes of a key that a store makes for [Stable].
const KeySize = 32

// Stable derives the id of the one context that (principal, root) has at an
// agent. Every replica and every restart with the same key derives the same
// id; nobody without the key can compute it (a plain hash could be, and let
// one user into another's session). It is shaped as a UUID (version 8, RFC
// 9562 §5.8), since some agents accept nothing else.
func Stable(key []byte, principal, root, agent string) string {
	mac := hmac.New(sha256.New, key)
	// Lengths first, so that no two different triples feed the same bytes.
	for _, s := range [...]string{principal, root, agent} {
		var n [8]byte
		binary.BigEndian.PutUint64(n[:], uint64(len(s)))
		mac.Write(n[:])
		mac.Write([]byte(s))
	}
	var id uuid.UUID
	copy(id[:], mac.Sum(nil))
	id[6] = id[6]&0x0f | 0x80
	id[8] = id[8]&0x3f | 0x80
	return id.String()
}
