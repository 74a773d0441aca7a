package storetest

import (
	"context"
	"crypto/rand"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Model is the reference store: plain maps and slices under one lock. It keeps
// no counters: whatever an admission counts is counted afresh, so that nothing
// can drift. It is slow, forgets everything with the process, and is there to
// be read and compared with. Its grace is [lineage.DefaultGrace].
type Model struct {
	now    func() time.Time
	secret []byte

	mu       sync.Mutex // guards everything below
	trees    map[string]*modelTree
	bindings map[sessions.BindingKey]sessions.Binding
	watchers map[int]func(sessions.Notice)
	watched  int               // watchers there ever were
	news     []sessions.Notice // of the operation under way
}

var _ sessions.Store = (*Model)(nil)

// NewModel returns an empty store whose clock is now.
func NewModel(now func() time.Time) *Model {
	secret := make([]byte, contextid.KeySize)
	rand.Read(secret) // never fails (crypto/rand)
	return &Model{
		now: now, secret: secret,
		trees:    map[string]*modelTree{},
		bindings: map[sessions.BindingKey]sessions.Binding{},
		watchers: map[int]func(sessions.Notice){},
	}
}

// Apply implements [sessions.Store].
func (m *Model) Apply(_ context.Context, ops []*sessions.Op) {
	m.mu.Lock()
	defer m.unlock()
	for _, op := range ops {
		switch {
		case op.Admit != nil:
			op.Grant, op.Err = m.admit(op.Admit)
		case op.Progress != nil:
			op.Err = m.progress(op.Progress)
		case op.Change != nil:
			op.Grant, op.Err = m.change(op.Change)
		}
	}
}

// Find implements [sessions.Store].
func (m *Model) Find(_ context.Context, key sessions.BindingKey) (sessions.Binding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	b, ok := m.bindings[key]
	if !ok {
		return sessions.Binding{}, fmt.Errorf("finding %s %s of agent %s: %w", key.Kind, key.ID, key.Agent, sessions.ErrNotFound)
	}
	return b, nil
}

// Claim implements [sessions.Store].
func (m *Model) Claim(_ context.Context, key sessions.BindingKey, b sessions.Binding) (sessions.Binding, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bind(key, b), nil
}

// bind makes key belong to b unless it belongs to something, and returns what
// it belongs to.
func (m *Model) bind(key sessions.BindingKey, b sessions.Binding) sessions.Binding {
	if first, ok := m.bindings[key]; ok {
		return first
	}
	m.bindings[key] = b
	return b
}

// Unclaim implements [sessions.Store].
func (m *Model) Unclaim(_ context.Context, key sessions.BindingKey, b sessions.Binding) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if held, ok := m.bindings[key]; !ok || held != b {
		return nil
	}
	if t := m.trees[b.Root]; t != nil {
		at := agentID{key.Agent, key.ID}
		if key.Kind == sessions.BindContext && t.contexts[at] != nil || key.Kind == sessions.BindTask && t.tasks[at] != nil {
			return nil
		}
	}
	delete(m.bindings, key)
	return nil
}

// Secret implements [sessions.Store].
func (m *Model) Secret(context.Context) ([]byte, error) { return slices.Clone(m.secret), nil }

// Renew implements [sessions.Store].
func (m *Model) Renew(_ context.Context, runs []sessions.RunRef, lease time.Duration) error {
	m.mu.Lock()
	defer m.unlock()
	now := m.now()
	for _, ref := range runs {
		t := m.trees[ref.Root]
		if t == nil {
			continue
		}
		r := t.run(ref.Run)
		if r == nil || r.State.Terminal() {
			continue
		}
		if r.in.Ending != "" {
			m.tellCancels(now, r.in, r)
		}
		if r.State == lineage.Active && !r.detached && ref.Gen <= r.gen && !r.lapsed(now) {
			r.lease, r.length = now.Add(lease), lease
		}
	}
	return nil
}

// Watch implements [sessions.Store]: it returns at once, and fn is called by
// whoever calls the operation that the notice is of.
func (m *Model) Watch(ctx context.Context, fn func(sessions.Notice)) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watched++
	n := m.watched
	m.watchers[n] = fn
	context.AfterFunc(ctx, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.watchers, n)
	})
	return nil
}

// tellCancels makes it known that runs of n, which is being ended, are to stop.
func (m *Model) tellCancels(now time.Time, n *node, runs ...*modelRun) {
	var notice sessions.Notice
	for _, r := range runs {
		notice.Cancels = append(notice.Cancels, sessions.Cancel{
			Root: n.Tree, Session: n.ID, Run: r.ID, Agent: n.Agent, TaskID: r.TaskID,
			Reason: n.Ending, Grace: max(0, n.Deadline.Sub(now)),
		})
	}
	m.news = append(m.news, notice)
}

// unlock ends an operation: what it has to tell is told once it took effect.
func (m *Model) unlock() {
	news, watchers := m.news, slices.Collect(maps.Values(m.watchers))
	m.news = nil
	m.mu.Unlock()
	for _, notice := range news {
		for _, fn := range watchers {
			fn(notice)
		}
	}
}

// Ping implements [sessions.Store].
func (m *Model) Ping(context.Context) error { return nil }

// Close implements [sessions.Store].
func (m *Model) Close() error { return nil }
