package redis

import (
	"context"
	"errors"
	"sync"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Every sidecar hears of what one does by a message of the script that did it:
//
//	who tells it · "1" if a place came free in the tree · the tree · an agent at
//	which one did, or none · runs that are to stop (session, run, agent, task,
//	reason, what is left of the grace in microseconds)
//
// A store tells its own watchers by itself: they need no subscription for that,
// and hear of its own operations though the subscription is broken.

// news begins to read such a message, packed.
func news(raw string) *bulletin { return &bulletin{unpack(raw)} }

type bulletin struct{ *packed }

// notices reads what a message tells; nothing, if it is none.
func (b *bulletin) notices() []sessions.Notice {
	_, all := b.read()
	return all
}

func (b *bulletin) read() (from string, all []sessions.Notice) {
	if !b.more() {
		return "", nil
	}
	from = b.str()
	free, root, agent := b.str() != "", b.str(), b.str()
	if free {
		all = append(all, sessions.Notice{Root: root})
	}
	if agent != "" {
		all = append(all, sessions.Notice{Agent: agent})
	}
	var cancels []sessions.Cancel
	for b.more() {
		cancels = append(cancels, sessions.Cancel{
			Root: root, Session: b.str(), Run: b.str(), Agent: b.str(), TaskID: b.str(), Reason: b.str(),
			Grace: time.Duration(b.num()) * time.Microsecond,
		})
	}
	if len(cancels) > 0 {
		all = append(all, sessions.Notice{Cancels: cancels})
	}
	if b.err != nil {
		return "", nil
	}
	return from, all
}

// placeAt is the message that a place came free at an agent.
func (s *Store) placeAt(agent string) string { return pack(s.id, "", "", agent) }

// Watch implements [sessions.Store]. fn is called by a goroutine that ends with
// ctx, or with the store. What a lost connection keeps from it is not told later.
func (s *Store) Watch(ctx context.Context, fn func(sessions.Notice)) error {
	sub := s.client.Subscribe(ctx)
	if err := s.subscribe(ctx, sub); err != nil {
		return errors.Join(err, sub.Close())
	}
	own := s.watchers.add() // before Watch returns: what comes next is told
	s.watching.Go(func() {
		defer s.watchers.remove(own)
		s.hear(ctx, sub, own, fn)
	})
	return nil
}

// hear tells fn of the store's own notices and of those of others until ctx ends.
func (s *Store) hear(ctx context.Context, sub *goredis.PubSub, own *watcher, fn func(sessions.Notice)) {
	// The channel outlives connections: go-redis makes new ones.
	others := sub.Channel()
	defer func() {
		_ = sub.Close() // a second one is no fault
		for range others {
			// Its goroutine ends with what it has read.
		}
	}()
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.closed:
			return
		case <-own.ready:
			for _, n := range own.take() {
				fn(n)
			}
		case m, ok := <-others:
			if !ok {
				return
			}
			b := news(m.Payload)
			from, all := b.read()
			if from == s.id {
				continue
			}
			if b.err != nil {
				s.log.WarnContext(ctx, "a notice cannot be read", "error", b.err)
			}
			for _, n := range all {
				fn(n)
			}
		}
	}
}

// subscribe has sub hear the notices from here on.
func (s *Store) subscribe(ctx context.Context, sub *goredis.PubSub) error {
	limited, cancel := s.limit(ctx)
	defer cancel()
	err := sub.Subscribe(limited, s.keys.notices())
	if err == nil {
		_, err = sub.ReceiveTimeout(limited, s.timeout)
	}
	return fault("subscribing to notices", err)
}

// watchers are those of the store's own notices.
type watchers struct {
	mu  sync.Mutex // guards all
	all map[*watcher]struct{}
}

// watcher is one of them, and what it has yet to be told.
type watcher struct {
	ready chan struct{} // holds one if there is something to take

	mu   sync.Mutex // guards left
	left []sessions.Notice
}

// mostLeft bounds what a watcher that does not come to take it is kept. Runs
// that are to stop are told again, and places that come free may be missed.
const mostLeft = 10_000

func (ws *watchers) add() *watcher {
	w := &watcher{ready: make(chan struct{}, 1)}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	if ws.all == nil {
		ws.all = map[*watcher]struct{}{}
	}
	ws.all[w] = struct{}{}
	return w
}

func (ws *watchers) remove(w *watcher) {
	ws.mu.Lock()
	defer ws.mu.Unlock()
	delete(ws.all, w)
}

// tell hands notices to every watcher, and waits for none.
func (ws *watchers) tell(all []sessions.Notice) {
	if len(all) == 0 {
		return
	}
	ws.mu.Lock()
	defer ws.mu.Unlock()
	for w := range ws.all {
		w.put(all)
	}
}

func (w *watcher) put(all []sessions.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.left) > mostLeft {
		return
	}
	w.left = append(w.left, all...)
	select {
	case w.ready <- struct{}{}:
	default: // it is told already
	}
}

func (w *watcher) take() []sessions.Notice {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := w.left
	w.left = nil
	return all
}
