package proxy

import (
	"context"
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Bounds of what is kept between the notifications of a task.
const (
	maxHearings = 256             // tasks
	maxFailed   = 64              // notifications of one task that wait to be sent again
	hearFor     = 5 * time.Minute // after the last notification
)

// hearings tell the record what push notifications say. The notifications of
// one task are one story: an artifact may come in chunks, one in each, and makes
// one event, as it does when it is streamed. So the run that follows the task
// stays open from one to the next.
//
// What a notification says may be seen elsewhere too, in a stream or by another
// replica. That makes no second event: their ids are made of what they say.
type hearings struct {
	record *sessions.Record

	mu     sync.Mutex // guards the fields below
	open   map[hearingKey]*hearing
	closed bool
}

type hearingKey struct{ agent, principal, task string }

// hearing is a task of which notifications come.
type hearing struct {
	idle *time.Timer // ends it; nil if nobody keeps this

	mu    sync.Mutex // guards the fields below, and makes notifications come to run one by one
	run   *sessions.Run
	ended bool
	over  bool // the task has ended or waits, or nobody keeps this
	// failed are the digests of notifications that were not delivered. Agents send
	// those again, and what a chunk of an artifact says must not count twice; one
	// that was delivered may well be followed by another that says the same.
	failed map[[sha256.Size]byte]struct{}
}

func newHearings(record *sessions.Record) *hearings {
	return &hearings{record: record, open: map[hearingKey]*hearing{}}
}

// hear tells the record what the body of a notification says of a task of
// principal's, unless it has told that before. The error says why there is
// nothing to tell; delivered, never nil, must be called with what became of the
// notification.
func (h *hearings) hear(ctx context.Context, agent *sessions.Agent, principal string, body []byte) (delivered func(bool), err error) {
	nothing := func(bool) {}
	u, err := wire.ReadResult(body)
	if err != nil {
		return nothing, err
	}
	if u.TaskID == "" {
		return nothing, errors.New("it names no task")
	}
	key := hearingKey{agent.Name, principal, u.TaskID}
	digest := sha256.Sum256(body)
	for {
		one, err := h.of(ctx, key, agent)
		if err != nil {
			return nothing, err
		}
		if !one.saw(u, digest) {
			continue // it ended meanwhile: the next is another one
		}
		return func(ok bool) {
			if one.settle(digest, ok) {
				h.end(key, one)
			}
		}, nil
	}
}

// of returns the hearing of a task, which it opens if there is none.
func (h *hearings) of(ctx context.Context, key hearingKey, agent *sessions.Agent) (*hearing, error) {
	if one := h.known(key); one != nil {
		return one, nil
	}
	run, err := h.record.Follow(ctx, agent, key.principal, traceID(ctx), key.task)
	if err != nil {
		return nil, err
	}
	one := &hearing{run: run, failed: map[[sha256.Size]byte]struct{}{}}
	h.mu.Lock()
	other, late := h.open[key]
	var evicted []*hearing
	switch {
	case late:
		other.idle.Reset(hearFor)
	case !h.closed:
		for key, old := range h.open {
			if len(h.open) < maxHearings {
				break
			}
			delete(h.open, key)
			evicted = append(evicted, old)
		}
		one.idle = time.AfterFunc(hearFor, func() { h.end(key, one) })
		h.open[key] = one
	}
	h.mu.Unlock()
	for _, old := range evicted {
		old.end()
	}
	if late {
		one.end() // it has told nothing
		return other, nil
	}
	return one, nil
}

func (h *hearings) known(key hearingKey) *hearing {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.open[key]
	if one != nil {
		one.idle.Reset(hearFor)
	}
	return one
}

// end ends a hearing. The next notification of its task opens another.
func (h *hearings) end(key hearingKey, one *hearing) {
	h.mu.Lock()
	if h.open[key] == one {
		delete(h.open, key)
	}
	h.mu.Unlock()
	one.end()
}

// close ends all hearings. One that is opened later ends with its notification.
func (h *hearings) close() {
	h.mu.Lock()
	all := h.open
	h.open, h.closed = nil, true
	h.mu.Unlock()
	for _, one := range all {
		one.end()
	}
}

// saw tells the record what a notification of that digest says, unless it comes
// again. It returns false if the hearing has ended.
func (one *hearing) saw(u wire.Update, digest [sha256.Size]byte) bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	if one.ended {
		return false
	}
	if _, again := one.failed[digest]; again {
		return true
	}
	one.run.Saw(u)
	one.run.Flush()
	one.over = one.idle == nil || u.State.Terminal() || u.State.Interrupted() || u.Kind == wire.UpdateMessage
	return true
}

// settle takes note of whether the notification of that digest was delivered. It
// returns whether no more of them are to be expected.
func (one *hearing) settle(digest [sha256.Size]byte, ok bool) bool {
	one.mu.Lock()
	defer one.mu.Unlock()
	if ok {
		delete(one.failed, digest)
		return one.over && len(one.failed) == 0
	}
	for old := range one.failed {
		if len(one.failed) < maxFailed {
			break
		}
		delete(one.failed, old)
	}
	one.failed[digest] = struct{}{}
	return one.idle == nil
}

func (one *hearing) end() {
	if one.idle != nil {
		one.idle.Stop()
	}
	one.mu.Lock()
	defer one.mu.Unlock()
	one.ended = true
	one.run.End(sessions.Answered)
}
