package storetest

import (
	"errors"
	"fmt"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// applyAll carries out ops, all of which must succeed.
func (w *world) applyAll(ops []*sessions.Op) {
	w.Helper()
	w.store.Apply(w.Context(), ops)
	for _, op := range ops {
		if op.Err != nil {
			w.Fatalf("Apply = %v", op.Err)
		}
	}
}

// idsOf are the ids of the sessions of a page.
func (w *world) idsOf(q sessions.SessionQuery) (ids []string, next int) {
	w.Helper()
	page, err := w.store.Sessions(w.Context(), w.root, q)
	if err != nil {
		w.Fatalf("Sessions(%+v): %v", q, err)
	}
	for _, s := range page.Sessions {
		ids = append(ids, s.ID)
	}
	return ids, page.Next
}

func sessionPages(w *world) {
	first := w.call("a").isolated()
	first.ok()
	want := []string{first.MainID, first.SessionID}
	for range 5 {
		g := w.call("a").in("ctx-a").ok() // runs are not sessions
		if g.New {
			want = append(want, g.Session.ID)
		}
		want = append(want, w.call("b").isolated().ok().Session.ID)
	}
	for limit := 1; limit <= len(want)+1; limit++ {
		var got []string
		for after := 0; ; {
			ids, next := w.idsOf(sessions.SessionQuery{After: after, Limit: limit})
			got = append(got, ids...)
			if next == 0 {
				break
			}
			if next != after+len(ids) || len(ids) != limit {
				w.Fatalf("Sessions(after %d, limit %d) = %d sessions, next %d", after, limit, len(ids), next)
			}
			after = next
		}
		w.equal(fmt.Sprintf("pages of %d", limit), want, got)
	}
	for _, after := range []int{len(want), len(want) + 1, 99_999} {
		if ids, next := w.idsOf(sessions.SessionQuery{After: after}); len(ids) != 0 || next != 0 {
			w.Errorf("Sessions(after %d of %d) = %v, next %d, want none", after, len(want), ids, next)
		}
	}
	all, err := sessions.AllSessions(w.Context(), w.store, w.root)
	if err != nil || len(all) != len(want) {
		w.Errorf("AllSessions() = %d sessions, %v, want %d", len(all), err, len(want))
	}
}

func sessionPageCut(w *world) {
	var ops []*sessions.Op
	for range sessions.MaxPage + 1 {
		ops = append(ops, &sessions.Op{Admit: &w.ahead("a", "").Admission})
	}
	w.applyAll(ops)
	for _, limit := range []int{0, sessions.MaxPage, sessions.MaxPage + 1, 99_999} {
		ids, next := w.idsOf(sessions.SessionQuery{Limit: limit})
		if len(ids) != sessions.MaxPage || next != sessions.MaxPage {
			w.Errorf("Sessions(limit %d) = %d sessions, next %d, want %d", limit, len(ids), next, sessions.MaxPage)
		}
	}
	ids, next := w.idsOf(sessions.SessionQuery{After: sessions.MaxPage})
	if len(ids) != 2 || next != 0 {
		w.Errorf("Sessions(after %d) = %d sessions, next %d, want the last 2", sessions.MaxPage, len(ids), next)
	}
}

func sessionOf(w *world) {
	g := w.call("a").in("ctx-a").ok()
	w.about(g).task("task-a").with(func(p *sessions.Progress) { p.ContextID = "alias-a" }).tell()
	sent := w.call("b").isolated().task("task-b").ok()
	other := w.call("a").in("ctx-other").to(w.root + "-other").ok()
	find := func(root string, kind sessions.BindingKind, agent, id string) (lineage.Session, error) {
		return w.store.SessionOf(w.Context(), root, sessions.BindingKey{Kind: kind, Agent: agent, ID: id})
	}
	for _, c := range []struct {
		kind      sessions.BindingKind
		agent, id string
		want      sessions.Grant
	}{
		{sessions.BindContext, "a", "ctx-a", g},
		{sessions.BindContext, "a", "alias-a", g},
		{sessions.BindTask, "a", "task-a", g},
		{sessions.BindTask, "b", "task-b", sent},
		{sessions.BindContext, "b", sent.Session.ContextID, sent},
	} {
		want := w.session(c.want)
		want.Runs = nil
		got, err := find(w.root, c.kind, c.agent, c.id)
		if err != nil {
			w.Errorf("SessionOf(%s %s of %s): %v", c.kind, c.id, c.agent, err)
		}
		w.equal("session of "+string(c.kind)+" "+c.id, want, got)
	}
	for _, c := range []struct {
		root      string
		kind      sessions.BindingKind
		agent, id string
	}{
		{w.root, sessions.BindContext, "b", "ctx-a"},
		{w.root, sessions.BindTask, "a", "ctx-a"},
		{w.root, sessions.BindContext, "a", "task-a"},
		{w.root, sessions.BindContext, "a", other.Session.ContextID},
		{w.root, sessions.BindContext, "a", ""},
		{"no-tree", sessions.BindContext, "a", "ctx-a"},
	} {
		if got, err := find(c.root, c.kind, c.agent, c.id); !errors.Is(err, sessions.ErrNotFound) {
			w.Errorf("SessionOf(%+v) = %s, %v, want ErrNotFound", c, got.ID, err)
		}
	}
}

// A session shows its newest runs; those before count all the same.
func newestRuns(w *world) {
	g := w.call("a").in("ctx-a").ok()
	first := g.RunID
	var ops []*sessions.Op
	var want []string
	for range sessions.MaxRuns {
		c := w.call("a").in("ctx-a")
		want = append(want, c.RunID)
		ops = append(ops, &sessions.Op{Admit: &c.Admission}, &sessions.Op{Progress: &sessions.Progress{
			Root: w.root, Session: g.Session.ID, Run: c.RunID, Gen: 1, Agent: "a", State: lineage.Completed,
		}})
	}
	w.applyAll(ops)
	shown := func(s lineage.Session) []string {
		var ids []string
		for _, r := range s.Runs {
			ids = append(ids, r.ID)
		}
		return ids
	}
	w.equal("runs of Session", want, shown(w.session(g)))
	page, err := w.store.Sessions(w.Context(), w.root, sessions.SessionQuery{After: 1})
	if err != nil {
		w.Fatalf("Sessions: %v", err)
	}
	w.equal("runs of Sessions", want, shown(page.Sessions[0]))
	w.live(1) // by the one that is not shown
	w.completes(sessions.Grant{Session: g.Session, RunID: first, Gen: 1})
	w.live(0)
}
