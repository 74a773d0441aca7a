package storetest

import (
	"errors"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Other cases share the store: ids that are bound over all trees bear the
// case's root.

func contextIsBound(w *world) {
	id := w.id("ctx")
	w.belongs(sessions.BindContext, "a", id, sessions.Binding{})
	w.call("a").in(id).ok()
	w.belongs(sessions.BindContext, "a", id, w.mine())
	w.belongs(sessions.BindContext, "b", id, sessions.Binding{})
	w.belongs(sessions.BindTask, "a", id, sessions.Binding{})
	// The root context is one of the agent beside the sidecar.
	w.belongs(sessions.BindContext, "coordinator", w.root, w.mine())
}

func contextIsLearnt(w *world) {
	id := w.id("ctx")
	g := w.call("a").ok()
	w.equal("context before the reply", "", g.Session.ContextID)
	w.about(g).with(func(p *sessions.Progress) { p.ContextID = id }).tell()
	s := w.session(g)
	w.equal("context after the reply", id, s.ContextID)
	w.belongs(sessions.BindContext, "a", id, w.mine())
	w.equal("session of the next call in it", s.ID, w.call("a").in(id).ok().Session.ID)
	g.Session = s
	below := w.call("b").isolated().from(g).ok()
	w.equal("parent of a call out of it", s.ID, below.Session.Parent)
	w.equal("context of that parent", id, below.ParentContextID)
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventBound}})
	if len(e) != 1 || e[0].ID != "bound/"+s.ID+"/"+id || e[0].Session != s.ID {
		w.Errorf("context.bound events %+v, want one of %s", e, s.ID)
	}
	w.equal("what it says", sessions.BoundPayload{ContextID: id}, meaning(e[0]))
	// The same word again says nothing new.
	w.about(g).with(func(p *sessions.Progress) { p.ContextID = id }).tell()
	w.equal("bound events", 1, len(w.logged(lineage.EventBound)))
}

func contextAlias(w *world) {
	own, alias := w.id("ctx"), w.id("alias")
	g := w.call("a").in(own).ok()
	hear := func() { w.about(g).with(func(p *sessions.Progress) { p.ContextID = alias }).tell() }
	hear()
	w.equal("context of the session", own, w.session(g).ContextID)
	w.belongs(sessions.BindContext, "a", alias, w.mine())
	for _, id := range []string{own, alias} {
		w.equal("session found by "+id, g.Session.ID, w.call("a").in(id).ok().Session.ID)
	}
	// The agent lives in the alias now: its own calls come out of it.
	below := w.call("b").isolated().with(func(a *sessions.Admission) { a.Local, a.Caller.ContextID = "a", alias }).ok()
	w.equal("parent of a call out of the alias", g.Session.ID, below.Session.Parent)
	w.equal("context of that parent", own, below.ParentContextID)
	hear()
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventBound}})
	if len(e) != 1 {
		w.Fatalf("context.bound events %+v, want one", e)
	}
	w.equal("what it says", sessions.BoundPayload{ContextID: alias, Alias: true}, meaning(e[0]))
}

func contextOfAnother(w *world) {
	one, two := w.id("ctx"), w.id("ctx")
	g1, g2 := w.call("a").in(one).ok(), w.call("a").in(two).ok()
	before := w.dump(w.root)
	w.about(g2).with(func(p *sessions.Progress) { p.ContextID = one }).tell()
	w.equal("what a reply with another session's context changes", before, w.dump(w.root))
	w.equal("session found by it", g1.Session.ID, w.call("a").in(one).ok().Session.ID)

	// A session without a context learns it all the same, and the first is still found.
	g3 := w.call("a").ok()
	w.about(g3).with(func(p *sessions.Progress) { p.ContextID = one }).tell()
	w.equal("context learnt", one, w.session(g3).ContextID)
	w.equal("session found by it", g1.Session.ID, w.call("a").in(one).ok().Session.ID)
}

func taskIsBound(w *world) {
	learnt, sent := w.id("task"), w.id("task")
	g := w.call("a").isolated().ok()
	w.belongs(sessions.BindTask, "a", learnt, sessions.Binding{})
	w.about(g).task(learnt).tell()
	w.equal("task of the run", learnt, w.run(g).TaskID)
	w.belongs(sessions.BindTask, "a", learnt, w.mine())
	w.about(g).task(w.id("task")).tell()
	w.equal("a run's first task is its task", learnt, w.run(g).TaskID)
	// A task that nobody knows is the caller's word, and is kept.
	g2 := w.call("a").isolated().task(sent).ok()
	w.equal("task of the run", sent, w.run(g2).TaskID)
	w.belongs(sessions.BindTask, "a", sent, w.mine())
	if g3 := w.call("a").isolated().task(sent).ok(); g3.RunID != g2.RunID {
		w.Errorf("the task's second message got run %s, want %s", g3.RunID, g2.RunID)
	}
	if g4 := w.call("b").isolated().task(sent).ok(); !g4.New {
		w.Errorf("the task id at another agent got session %s, want a new one", g4.Session.ID)
	}
}

func taskFirstWins(w *world) {
	task := w.id("task")
	g1, g2 := w.call("a").isolated().ok(), w.call("a").isolated().ok()
	w.about(g1).task(task).tell()
	w.about(g2).task(task).tell()
	w.equal("tasks of both", []string{task, task}, []string{w.run(g1).TaskID, w.run(g2).TaskID})
	if g := w.call("a").isolated().task(task).ok(); g.RunID != g1.RunID {
		w.Errorf("a message of the task got run %s, want the first one's, %s", g.RunID, g1.RunID)
	}
}

func claimFirstWins(w *world) {
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "a", ID: w.id("ctx")}
	first, second := sessions.Binding{Root: w.id("tree"), Principal: "alice"}, sessions.Binding{Root: w.id("tree"), Principal: "bob"}
	for _, claim := range []sessions.Binding{first, second, first} {
		got, err := w.store.Claim(w.Context(), key, claim)
		if err != nil || got != first {
			w.Errorf("Claim(%v, %v) = %v, %v, want %v", key, claim, got, err, first)
		}
	}
	w.belongs(key.Kind, key.Agent, key.ID, first)
	task := sessions.BindingKey{Kind: sessions.BindTask, Agent: "a", ID: key.ID}
	if got, err := w.store.Claim(w.Context(), task, second); err != nil || got != second {
		w.Errorf("Claim(%v) = %v, %v, want %v: a task is no context", task, got, err, second)
	}
	nobody := sessions.BindingKey{Kind: sessions.BindContext, Agent: "b", ID: key.ID}
	if got, err := w.store.Claim(w.Context(), nobody, sessions.Binding{Root: first.Root}); err != nil || got.Principal != "" {
		w.Errorf("Claim(%v) = %v, %v, want the empty principal", nobody, got, err)
	}
	w.belongs(nobody.Kind, nobody.Agent, nobody.ID, sessions.Binding{Root: first.Root})
}

func claimBeforeSession(w *world) {
	ctx, task := w.id("ctx"), w.id("task")
	theirs := sessions.Binding{Root: w.id("tree"), Principal: "bob"}
	for _, key := range []sessions.BindingKey{
		{Kind: sessions.BindContext, Agent: "a", ID: ctx}, {Kind: sessions.BindTask, Agent: "a", ID: task},
	} {
		if _, err := w.store.Claim(w.Context(), key, theirs); err != nil {
			w.Fatalf("Claim(%v): %v", key, err)
		}
	}
	w.call("a").in(ctx).task(task).ok()
	w.belongs(sessions.BindContext, "a", ctx, theirs)
	w.belongs(sessions.BindTask, "a", task, theirs)
	// And the other way round.
	mine := w.id("ctx")
	w.call("a").in(mine).ok()
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "a", ID: mine}
	if got, err := w.store.Claim(w.Context(), key, theirs); err != nil || got != w.mine() {
		w.Errorf("Claim(%v) = %v, %v, want %v", key, got, err, w.mine())
	}
}

func (w *world) unclaims(key sessions.BindingKey, b sessions.Binding) {
	w.Helper()
	if err := w.store.Unclaim(w.Context(), key, b); err != nil {
		w.Errorf("Unclaim(%v, %v) = %v", key, b, err)
	}
}

func unclaim(w *world) {
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "a", ID: w.id("ctx")}
	w.unclaims(key, w.mine()) // nothing there, no tree either
	if _, err := w.store.Claim(w.Context(), key, w.mine()); err != nil {
		w.Fatalf("Claim(%v): %v", key, err)
	}
	w.unclaims(key, sessions.Binding{Root: "root-other", Principal: alice})
	w.unclaims(key, sessions.Binding{Root: w.root, Principal: "bob"})
	w.belongs(key.Kind, key.Agent, key.ID, w.mine())
	w.call("a").in(w.id("ctx")).ok() // the tree is there, with no session under the key
	w.unclaims(key, w.mine())
	w.belongs(key.Kind, key.Agent, key.ID, sessions.Binding{})
	next := sessions.Binding{Root: w.id("tree"), Principal: "bob"}
	if got, err := w.store.Claim(w.Context(), key, next); err != nil || got != next {
		w.Errorf("Claim(%v) = %v, %v, want %v", key, got, err, next)
	}
}

func unclaimSpares(w *world) {
	ctx, alias, task := w.id("ctx"), w.id("alias"), w.id("task")
	g := w.call("a").in(ctx).ok()
	w.about(g).task(task).with(func(p *sessions.Progress) { p.ContextID = alias }).is(lineage.Completed, "").tell()
	for _, key := range []sessions.BindingKey{
		{Kind: sessions.BindContext, Agent: "a", ID: ctx},
		{Kind: sessions.BindContext, Agent: "a", ID: alias},
		{Kind: sessions.BindTask, Agent: "a", ID: task},
	} {
		w.unclaims(key, w.mine())
		w.belongs(key.Kind, key.Agent, key.ID, w.mine())
	}
}

func notFound(w *world) {
	ctx := w.Context()
	check := func(what string, err error) {
		w.Helper()
		if !errors.Is(err, sessions.ErrNotFound) {
			w.Errorf("%s = %v, want ErrNotFound", what, err)
		}
	}
	reads := func(state string) {
		w.Helper()
		_, err := w.store.Tree(ctx, "no-tree")
		check(state+": Tree", err)
		_, err = w.store.Sessions(ctx, "no-tree", sessions.SessionQuery{})
		check(state+": Sessions", err)
		_, err = w.store.Session(ctx, "no-session")
		check(state+": Session", err)
		_, err = w.store.Events(ctx, "no-tree", sessions.EventQuery{All: true})
		check(state+": Events", err)
		_, err = w.store.Events(ctx, "no-tree", sessions.EventQuery{LastN: 3})
		check(state+": Events of the last", err)
		_, err = w.store.Find(ctx, sessions.BindingKey{Kind: sessions.BindTask, Agent: "a", ID: "no-task"})
		check(state+": Find", err)
	}
	reads("before")
	g := w.call("a").isolated().ok()
	news := func(f func(*sessions.Progress)) error { return w.about(g).with(f).is(lineage.Completed, "").apply() }
	check("news of an unknown tree", news(func(p *sessions.Progress) { p.Root = "no-tree" }))
	check("news of an unknown session", news(func(p *sessions.Progress) { p.Session = "no-session" }))
	check("news of an unknown run", news(func(p *sessions.Progress) { p.Run = "no-run" }))
	check("news of an unknown task", news(func(p *sessions.Progress) { p.Session, p.Run, p.TaskID = "", "", "no-task" }))
	check("news of nothing", news(func(p *sessions.Progress) { p.Session, p.Run = "", "" }))
	w.stands(g, "active", "active")
	reads("after")
	if err := w.store.Renew(ctx, []sessions.RunRef{{Root: "no-tree", Run: "no-run", Agent: "a", Gen: 1}, {Root: w.root, Run: "no-run", Agent: "a", Gen: 1}}, lease); err != nil {
		w.Errorf("Renew(unknown runs) = %v, want nil", err)
	}
}

func secret(w *world) {
	first, err := w.store.Secret(w.Context())
	if err != nil || len(first) != contextid.KeySize {
		w.Fatalf("Secret() = %d bytes, %v, want %d", len(first), err, contextid.KeySize)
	}
	if want := string(first); want == string(make([]byte, contextid.KeySize)) {
		w.Errorf("Secret() is all zeros")
	} else {
		clear(first) // the caller's copy
		again, err := w.store.Secret(w.Context())
		if err != nil || string(again) != want {
			w.Errorf("Secret() = %x, %v the second time, want %x", again, err, want)
		}
	}
}

func ping(w *world) {
	if err := w.store.Ping(w.Context()); err != nil {
		w.Errorf("Ping() = %v", err)
	}
}
