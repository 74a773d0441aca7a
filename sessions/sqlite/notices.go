package sqlite

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// watchers are told of what happened once it is in the file, by whoever did it:
// there is no goroutine to wait for, and two that do something at once tell of
// it in any order. Places that come free are not noticed: the one sidecar of a
// file knows.
type watchers struct {
	mu  sync.Mutex // guards all
	all []*watcher
}

type watcher struct {
	tell   func(sessions.Notice)
	forget func() bool // that the end of its context is to be heard of
}

// Watch implements [sessions.Store].
func (s *Store) Watch(ctx context.Context, fn func(sessions.Notice)) error {
	if s.writer == nil {
		return fmt.Errorf("watching: %w", errReadOnly)
	}
	s.watchers.add(ctx, fn)
	return nil
}

func (w *watchers) add(ctx context.Context, fn func(sessions.Notice)) {
	one := &watcher{tell: func(n sessions.Notice) {
		if ctx.Err() == nil {
			fn(n)
		}
	}}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.all = append(slices.Clip(w.all), one) // who is telling goes on with what it has
	one.forget = context.AfterFunc(ctx, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.all = slices.DeleteFunc(slices.Clone(w.all), func(other *watcher) bool { return other == one })
	})
}

func (w *watchers) tell(notices []sessions.Notice) {
	if len(notices) == 0 {
		return
	}
	w.mu.Lock()
	all := w.all
	w.mu.Unlock()
	for _, n := range notices {
		for _, one := range all {
			one.tell(n)
		}
	}
}

// close forgets all watchers, whose contexts may outlive the store.
func (w *watchers) close() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, one := range w.all {
		one.forget()
	}
	w.all = nil
}
