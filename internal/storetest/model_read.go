package storetest

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Trees implements [sessions.Reader]. The cursor is the root of the last tree
// of the page before.
func (m *Model) Trees(_ context.Context, q sessions.TreeQuery) (sessions.TreePage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var all []lineage.Tree
	for _, t := range m.trees {
		all = append(all, t.summary())
	}
	slices.SortFunc(all, func(a, b lineage.Tree) int {
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(b.Root, a.Root))
	})
	if q.Cursor != "" {
		last := slices.IndexFunc(all, func(t lineage.Tree) bool { return t.Root == q.Cursor })
		if last < 0 {
			return sessions.TreePage{}, fmt.Errorf("cursor %q: %w", q.Cursor, sessions.ErrNotFound)
		}
		all = all[last+1:]
	}
	all = slices.DeleteFunc(all, func(t lineage.Tree) bool {
		return q.State != "" && q.State != t.State ||
			q.Agent != "" && !slices.Contains(t.Agents, q.Agent) ||
			!strings.Contains(t.Root, q.Text)
	})
	page := sessions.TreePage{Trees: all}
	if limit := pageSize(q.Limit); len(all) > limit {
		page.Trees = all[:limit]
		page.Next = page.Trees[limit-1].Root
	}
	return page, nil
}

// Tree implements [sessions.Reader].
func (m *Model) Tree(_ context.Context, root string) (lineage.Tree, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.trees[root]
	if t == nil {
		return lineage.Tree{}, fmt.Errorf("tree %s: %w", root, sessions.ErrNotFound)
	}
	return t.summary(), nil
}

func (t *modelTree) summary() lineage.Tree {
	sum := lineage.Tree{
		Root: t.root, StartedAt: t.log[0].Time, LastEventAt: t.log[len(t.log)-1].Time,
		State: lineage.TreeIdle, Sessions: len(t.nodes), CatchAll: t.catchAll,
	}
	for _, n := range t.nodes {
		if n.Kind != lineage.Main && n.live() {
			sum.Live++
			sum.State = lineage.TreeActive
		}
		sum.Depth = max(sum.Depth, n.Depth)
		if !slices.Contains(sum.Agents, n.Agent) {
			sum.Agents = append(sum.Agents, n.Agent)
		}
		for _, r := range n.runs {
			if r.State == lineage.Failed {
				sum.Errors++
			}
		}
	}
	slices.Sort(sum.Agents)
	return sum
}

// Sessions implements [sessions.Reader].
func (m *Model) Sessions(_ context.Context, root string, q sessions.SessionQuery) (sessions.SessionPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.trees[root]
	if t == nil {
		return sessions.SessionPage{}, fmt.Errorf("tree %s: %w", root, sessions.ErrNotFound)
	}
	var page sessions.SessionPage
	limit := sessions.MaxPage
	if q.Limit > 0 {
		limit = min(q.Limit, sessions.MaxPage)
	}
	rest := t.nodes[min(q.After, len(t.nodes)):]
	if len(rest) > limit {
		rest = rest[:limit]
		page.Next = q.After + limit
	}
	for _, n := range rest {
		page.Sessions = append(page.Sessions, n.snapshot())
	}
	return page, nil
}

// SessionOf implements [sessions.Reader].
func (m *Model) SessionOf(_ context.Context, root string, key sessions.BindingKey) (lineage.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.trees[root]; t != nil {
		at := agentID{key.Agent, key.ID}
		if n := t.contexts[at]; n != nil && key.Kind == sessions.BindContext {
			return n.Session, nil
		}
		if r := t.tasks[at]; r != nil && key.Kind == sessions.BindTask {
			return r.in.Session, nil
		}
	}
	return lineage.Session{}, fmt.Errorf("session of %s %s of agent %s in tree %s: %w", key.Kind, key.ID, key.Agent, root, sessions.ErrNotFound)
}

// Session implements [sessions.Reader].
func (m *Model) Session(_ context.Context, id string) (lineage.Session, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.trees {
		if n := t.node(id); n != nil {
			return n.snapshot(), nil
		}
	}
	return lineage.Session{}, fmt.Errorf("session %s: %w", id, sessions.ErrNotFound)
}

// Events implements [sessions.Reader].
func (m *Model) Events(_ context.Context, root string, q sessions.EventQuery) (sessions.EventPage, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.trees[root]
	if t == nil {
		return sessions.EventPage{}, fmt.Errorf("tree %s: %w", root, sessions.ErrNotFound)
	}
	limit := pageSize(q.Limit)
	if q.LastN > 0 {
		limit = len(t.log)
	}
	page := sessions.EventPage{Next: q.After}
	for i := range t.log {
		e := &t.log[i]
		if e.Seq <= q.After {
			continue
		}
		if len(page.Events) == limit {
			return page, nil
		}
		page.Next = e.Seq
		if q.Selects(e) {
			page.Events = append(page.Events, *e)
		}
	}
	if q.LastN > 0 {
		page.Events = page.Events[max(0, len(page.Events)-q.LastN):]
	}
	return page, nil
}

func pageSize(limit int) int {
	if limit <= 0 {
		limit = sessions.DefaultPage
	}
	return min(limit, sessions.MaxPage)
}
