package storetest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

const (
	noticeTime  = 10 * time.Second      // a notice that has not come by then does not come
	noticeAgain = 50 * time.Millisecond // then a notice is asked for again: the watch may not have begun
)

// listener hears which runs a store wants stopped. A store may tell it after the
// operation has returned: see sync.
type listener struct {
	store sessions.Store
	root  string // of a tree of its own, in which it makes the store say something

	mu     sync.Mutex // guards what follows
	heard  []sessions.Cancel
	more   chan struct{} // closed, and made anew, when more was heard
	probes int
}

// listen watches a store until tb ends. The store gets a tree, root, for the
// listener's own use.
func listen(tb testing.TB, s sessions.Store, root string) *listener {
	tb.Helper()
	l := &listener{store: s, root: root, more: make(chan struct{})}
	ctx, stop := context.WithCancel(tb.Context())
	stopped := make(chan error, 1)
	go func() { stopped <- s.Watch(ctx, l.hear) }()
	tb.Cleanup(func() {
		stop()
		if err := <-stopped; err != nil && ctx.Err() == nil {
			tb.Errorf("Watch = %v", err)
		}
	})
	if err := l.sync(ctx); err != nil {
		tb.Fatalf("waiting for Watch to tell of anything: %v", err)
	}
	return l
}

func (l *listener) hear(n sessions.Notice) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.heard = append(l.heard, n.Cancels...)
	close(l.more)
	l.more = make(chan struct{})
}

// all returns what was heard but for the listener's own, oldest first, each
// once. It comes after all that the store has told by then.
func (l *listener) all(ctx context.Context) ([]sessions.Cancel, error) {
	if err := l.sync(ctx); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []sessions.Cancel
	for _, c := range l.heard {
		if c.Root != l.root && !slices.Contains(all, c) {
			all = append(all, c)
		}
	}
	return all, nil
}

// sync waits until the listener has heard what the store told so far: it makes
// the store tell of one run more, and waits for that.
func (l *listener) sync(ctx context.Context) error {
	l.mu.Lock()
	l.probes++
	run := fmt.Sprintf("%s-run-%d", l.root, l.probes)
	session := fmt.Sprintf("%s-session-%d", l.root, l.probes)
	l.mu.Unlock()
	ops := []*sessions.Op{
		{Admit: &sessions.Admission{
			Root: l.root, Principal: alice, Local: "coordinator", MainID: l.root + "-main",
			Agent: "probe", Kind: lineage.Branch, SessionID: session, RunID: run, MessageID: run, Owner: "listener", Lease: time.Hour,
		}},
		{Change: &sessions.Change{Root: l.root, Session: session, Verb: lineage.VerbCancel}},
	}
	l.store.Apply(ctx, ops)
	for _, op := range ops {
		if op.Err != nil {
			return op.Err
		}
	}
	give := time.After(noticeTime)
	for {
		l.mu.Lock()
		heard := slices.ContainsFunc(l.heard, func(c sessions.Cancel) bool { return c.Run == run })
		more := l.more
		l.mu.Unlock()
		if heard {
			break
		}
		select {
		case <-more:
		case <-time.After(noticeAgain):
			if err := l.store.Renew(ctx, []sessions.RunRef{{Root: l.root, Run: run, Agent: "probe", Gen: 1}}, time.Hour); err != nil {
				return err
			}
		case <-give:
			return fmt.Errorf("no notice of run %s came within %s", run, noticeTime)
		}
	}
	done := &sessions.Op{Progress: &sessions.Progress{Root: l.root, Session: session, Run: run, Gen: 1, Agent: "probe", State: lineage.Completed}}
	l.store.Apply(ctx, []*sessions.Op{done})
	return done.Err
}

// runsOf are the runs that cancels are about.
func runsOf(cancels []sessions.Cancel) []string {
	var runs []string
	for _, c := range cancels {
		runs = append(runs, c.Run)
	}
	return runs
}

// hearing is a listener of one case.
type hearing struct {
	*listener
	w *world
}

// listen watches the case's store from now on.
func (w *world) listen() hearing {
	w.Helper()
	return hearing{listen(w.T, w.store, w.root+"-probe"), w}
}

// of returns what was heard of a tree.
func (h hearing) of(root string) []sessions.Cancel {
	h.w.Helper()
	all, err := h.all(h.w.Context())
	if err != nil {
		h.w.Fatalf("waiting for the store's notices: %v", err)
	}
	return slices.DeleteFunc(all, func(c sessions.Cancel) bool { return c.Root != root })
}
