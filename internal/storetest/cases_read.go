package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// seqs are the numbers of events.
func seqs(events []lineage.Event) []uint64 {
	var all []uint64
	for _, e := range events {
		all = append(all, e.Seq)
	}
	return all
}

// page reads one page.
func (w *world) page(q sessions.EventQuery) sessions.EventPage {
	w.Helper()
	p, err := w.store.Events(w.Context(), w.root, q)
	if err != nil {
		w.Fatalf("Events(%+v): %v", q, err)
	}
	return p
}

// chatter logs n events of g's session, alternately of two types.
func (w *world) chatter(g sessions.Grant, n int) {
	w.Helper()
	news := w.about(g)
	for i := range n {
		typ := lineage.EventStatus
		if i%2 == 1 {
			typ = lineage.EventArtifact
		}
		news.event(w.id("chatter"), typ, fmt.Sprintf(`{"n":%d}`, i))
	}
	news.tell()
}

func eventPages(w *world) {
	w.chatter(w.call("a").isolated().ok(), 7) // 10 events in all
	for limit := 1; limit <= 11; limit++ {
		var got []uint64
		after := uint64(0)
		for {
			p := w.page(sessions.EventQuery{All: true, After: after, Limit: limit})
			if len(p.Events) > limit {
				w.Fatalf("Events(limit %d) = %d events", limit, len(p.Events))
			}
			got = append(got, seqs(p.Events)...)
			if p.Next < after || len(p.Events) > 0 && p.Next < p.Events[len(p.Events)-1].Seq {
				w.Fatalf("Events(after %d).Next = %d behind %v", after, p.Next, seqs(p.Events))
			}
			if p.Next == after {
				break
			}
			after = p.Next
		}
		w.equal(fmt.Sprintf("pages of %d", limit), []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, got)
		w.equal("the end of the log", uint64(10), after)
	}
	// Events that are passed over have been read all the same.
	p := w.page(sessions.EventQuery{All: true, After: 3, Types: []string{lineage.EventSuspended}})
	if len(p.Events) != 0 || p.Next != 10 {
		w.Errorf("Events(none selected) = %v, next %d, want none, next 10", seqs(p.Events), p.Next)
	}
	p = w.page(sessions.EventQuery{All: true, Limit: 2, Types: []string{lineage.EventArtifact}})
	if !slices.Equal(seqs(p.Events), []uint64{5, 7}) || p.Next < 7 || p.Next > 8 {
		w.Errorf("Events(2 artifacts) = %v, next %d, want 5 and 7, next 7 or 8", seqs(p.Events), p.Next)
	}
	p = w.page(sessions.EventQuery{All: true, After: 99})
	if len(p.Events) != 0 || p.Next < 10 {
		w.Errorf("Events(after the end) = %v, next %d, want none, next not before the end", seqs(p.Events), p.Next)
	}
}

func eventPageCut(w *world) {
	g := w.call("a").isolated().ok()
	w.chatter(g, 700)
	w.chatter(g, 500)
	for limit, want := range map[int]int{0: sessions.DefaultPage, 101: 101, sessions.MaxPage: sessions.MaxPage, 5000: sessions.MaxPage} {
		if got := len(w.page(sessions.EventQuery{All: true, Limit: limit}).Events); got != want {
			w.Errorf("Events(limit %d) = %d events, want %d", limit, got, want)
		}
	}
	w.equal("all pages", 1203, len(w.events(w.root, sessions.EventQuery{All: true, Limit: 5000})))
	w.equal("all pages of one type", 600, len(w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventStatus}})))
}

func eventFilters(w *world) {
	g1, g2 := w.call("a").isolated().ok(), w.call("a").isolated().ok() // 1–3, 4–5
	w.chatter(g1, 2)                                                   // 6 7
	w.chatter(g2, 2)                                                   // 8 9
	for _, c := range []struct {
		name string
		q    sessions.EventQuery
		want []uint64
	}{
		{"of a session", sessions.EventQuery{Session: g2.Session.ID}, []uint64{4, 5, 8, 9}},
		{"of a type", sessions.EventQuery{Types: []string{lineage.EventSent}}, []uint64{3, 5}},
		{"of two types", sessions.EventQuery{Types: []string{lineage.EventStatus, lineage.EventArtifact}}, []uint64{6, 7, 8, 9}},
		{"of both", sessions.EventQuery{Session: g1.Session.ID, Types: []string{lineage.EventArtifact}}, []uint64{7}},
		{"after one", sessions.EventQuery{Session: g1.Session.ID, After: 3}, []uint64{6, 7}},
		{"of no session", sessions.EventQuery{Session: "no-session"}, nil},
		{"of no type", sessions.EventQuery{Types: []string{"task"}}, nil},
	} {
		c.q.All = true
		w.equal("events "+c.name, c.want, seqs(w.events(w.root, c.q)))
	}
}

func lastEvents(w *world) {
	g1, g2 := w.call("a").isolated().ok(), w.call("b").isolated().ok() // 1–3, 4–5
	w.chatter(g1, 2)                                                   // 6 7
	w.chatter(g2, 2)                                                   // 8 9
	for _, c := range []struct {
		name string
		q    sessions.EventQuery
		want []uint64
	}{
		{"2 of all", sessions.EventQuery{All: true, LastN: 2}, []uint64{8, 9}},
		{"more than there are", sessions.EventQuery{All: true, LastN: 99}, []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9}},
		{"3 of a session", sessions.EventQuery{All: true, LastN: 3, Session: g1.Session.ID}, []uint64{3, 6, 7}},
		{"1 of a type", sessions.EventQuery{All: true, LastN: 1, Types: []string{lineage.EventStatus}}, []uint64{8}},
		{"2 that a viewer sees", sessions.EventQuery{LastN: 2, Read: g1.Session.Read}, []uint64{6, 7}},
		{"1 of none", sessions.EventQuery{All: true, LastN: 1, Types: []string{lineage.EventFailed}}, nil},
	} {
		w.equal("the last "+c.name, c.want, seqs(w.page(c.q).Events))
	}
}

func visibility(w *world) {
	parent := w.call("a").isolated().ok()              // 1–3
	child := w.call("b").isolated().from(parent).ok()  // 4 5
	aside := w.call("a").isolated().ok()               // 6 7
	blind := w.call("b").isolated().from(parent).with( // 8 9
		func(a *sessions.Admission) { a.Inherit = lineage.InheritNone }).ok()
	for _, c := range []struct {
		name string
		read lineage.Tokens
		want []uint64
	}{
		{"nobody", nil, []uint64{1}},
		{"the parent", parent.Session.Read, []uint64{1, 2, 3}},
		{"its child", child.Session.Read, []uint64{1, 2, 3, 4, 5}},
		{"a sibling", aside.Session.Read, []uint64{1, 6, 7}},
		{"a child that inherits nothing", blind.Session.Read, []uint64{1, 8, 9}},
		{"whoever joined two", lineage.Tokens{1, 3}, []uint64{1, 2, 3, 6, 7}},
		{"a stranger", lineage.Tokens{77}, []uint64{1}},
	} {
		w.equal("events that "+c.name+" sees", c.want, seqs(w.events(w.root, sessions.EventQuery{Read: c.read})))
		w.equal("pages of 1 that "+c.name+" sees", c.want, seqs(w.events(w.root, sessions.EventQuery{Read: c.read, Limit: 1})))
	}
}

// roots reads all pages of trees.
func (w *world) roots(q sessions.TreeQuery) []string {
	w.Helper()
	var all []string
	for {
		page, err := w.store.Trees(w.Context(), q)
		if err != nil {
			w.Fatalf("Trees(%+v): %v", q, err)
		}
		if q.Limit > 0 && len(page.Trees) > q.Limit {
			w.Fatalf("Trees(%+v) = %d trees", q, len(page.Trees))
		}
		for _, t := range page.Trees {
			all = append(all, t.Root)
		}
		if page.Next == "" {
			return all
		}
		if len(all) > 10_000 {
			w.Fatalf("Trees(%+v): the pages never end", q)
		}
		q.Cursor = page.Next
	}
}

func treePages(w *world) {
	if got := w.roots(sessions.TreeQuery{}); len(got) != 0 {
		w.Fatalf("Trees() of an empty store = %v", got)
	}
	var want []string
	for i := range 12 {
		root := fmt.Sprintf("tree-%02d", (i*5)%12) // not in the order of their names
		w.call("a").isolated().to(root).ok()
		want = slices.Insert(want, 0, root)
		w.clock.advance(time.Millisecond)
	}
	// What happens later in a tree makes it no newer.
	w.call("a").isolated().to("tree-00").ok()
	w.extra = nil
	for limit := range 14 {
		w.equal(fmt.Sprintf("pages of %d", limit), want, w.roots(sessions.TreeQuery{Limit: limit}))
	}
	// A last page that is full is known to be the last.
	page, err := w.store.Trees(w.Context(), sessions.TreeQuery{Limit: 12})
	if err != nil || page.Next != "" {
		w.Errorf("Trees(all 12) = next %q, %v, want no next", page.Next, err)
	}
	// A tree that comes in between is on no later page.
	page, err = w.store.Trees(w.Context(), sessions.TreeQuery{Limit: 5})
	if err != nil {
		w.Fatalf("Trees: %v", err)
	}
	w.call("a").isolated().to("tree-new").ok()
	w.equal("pages after the first", want[5:], w.roots(sessions.TreeQuery{Limit: 5, Cursor: page.Next}))
	for i := range 120 {
		w.call("a").isolated().to(fmt.Sprintf("more-%03d", i)).ok()
	}
	page, err = w.store.Trees(w.Context(), sessions.TreeQuery{})
	if err != nil || len(page.Trees) != sessions.DefaultPage || page.Next == "" {
		w.Errorf("Trees() = %d trees, next %q, %v, want %d and a next page", len(page.Trees), page.Next, err, sessions.DefaultPage)
	}
	w.extra = nil
}

func treeFilters(w *world) {
	step := func(c *call) sessions.Grant {
		w.clock.advance(time.Millisecond)
		return c.ok()
	}
	w.completes(step(w.call("a").isolated().to("user%_1")))
	step(w.call("b").isolated().to("USER-2"))
	g := step(w.call("a").isolated().to("user-3"))
	step(w.call("c").isolated().to("user-3").from(g))
	waits := step(w.call("c").isolated().to("plain*?[4]\\"))
	w.suspends(waits)
	for _, c := range []struct {
		name string
		q    sessions.TreeQuery
		want []string
	}{
		{"active", sessions.TreeQuery{State: lineage.TreeActive}, []string{"plain*?[4]\\", "user-3", "USER-2"}},
		{"idle", sessions.TreeQuery{State: lineage.TreeIdle}, []string{"user%_1"}},
		{"of agent a", sessions.TreeQuery{Agent: "a"}, []string{"user-3", "user%_1"}},
		{"of agent c", sessions.TreeQuery{Agent: "c"}, []string{"plain*?[4]\\", "user-3"}},
		{"of the root's agent", sessions.TreeQuery{Agent: "coordinator"}, []string{"plain*?[4]\\", "user-3", "USER-2", "user%_1"}},
		{"of no agent", sessions.TreeQuery{Agent: "coord"}, nil},
		{"named user", sessions.TreeQuery{Text: "user"}, []string{"user-3", "user%_1"}},
		{"named USER", sessions.TreeQuery{Text: "USER"}, []string{"USER-2"}},
		{"with a part of the name", sessions.TreeQuery{Text: "r-3"}, []string{"user-3"}},
		{"with a percent sign", sessions.TreeQuery{Text: "%"}, []string{"user%_1"}},
		{"with an underscore", sessions.TreeQuery{Text: "_"}, []string{"user%_1"}},
		{"with an asterisk", sessions.TreeQuery{Text: "*"}, []string{"plain*?[4]\\"}},
		{"with a question mark", sessions.TreeQuery{Text: "*?["}, []string{"plain*?[4]\\"}},
		{"with a backslash", sessions.TreeQuery{Text: "\\"}, []string{"plain*?[4]\\"}},
		{"with all of it", sessions.TreeQuery{State: lineage.TreeActive, Agent: "a", Text: "3"}, []string{"user-3"}},
	} {
		w.equal("trees "+c.name, c.want, w.roots(c.q))
		c.q.Limit = 1
		w.equal("pages of 1 of trees "+c.name, c.want, w.roots(c.q))
	}
	// A tree changes sides as it goes.
	w.completes(waits)
	w.equal("idle trees", []string{"plain*?[4]\\", "user%_1"}, w.roots(sessions.TreeQuery{State: lineage.TreeIdle}))
}

func treeSummary(w *world) {
	g1 := w.call("b").isolated().ok()
	g2 := w.call("a").in("ctx-a").from(g1).ok()
	w.call("b").isolated().from(g2).ok()
	w.suspends(g2)
	w.about(w.call("c").isolated().ok()).is(lineage.Failed, "").tell()
	now := w.clock.now()
	want := lineage.Tree{
		Root: w.root, StartedAt: now, LastEventAt: now, State: lineage.TreeActive,
		Sessions: 5, Live: 3, Depth: 3, Agents: []string{"a", "b", "c", "coordinator"}, Errors: 1,
	}
	w.equal("Tree", want, w.tree())
	page, err := w.store.Trees(w.Context(), sessions.TreeQuery{Text: w.root})
	if err != nil {
		w.Fatalf("Trees: %v", err)
	}
	w.equal("Trees", []lineage.Tree{want}, page.Trees)
}

func spawnOrder(w *world) {
	var want []string
	id := func(n int) func(*sessions.Admission) {
		return func(a *sessions.Admission) { a.SessionID = fmt.Sprintf("%s-%02d", w.root, 50-n) }
	}
	for i := range 15 {
		g := w.call("a").isolated().with(id(i)).ok()
		want = append(want, g.Session.ID)
	}
	var got []string
	for _, s := range w.dump(w.root).Sessions[1:] {
		got = append(got, s.ID)
	}
	w.equal("sessions", want, got)
	shared := w.call("a").in("ctx-a").ok()
	runs := []string{shared.RunID}
	for i := range 12 {
		g := w.call("a").in("ctx-a").with(func(a *sessions.Admission) { a.RunID = fmt.Sprintf("%s-run-%02d", w.root, 50-i) }).ok()
		runs = append(runs, g.RunID)
	}
	got = nil
	for _, r := range w.session(shared).Runs {
		got = append(got, r.ID)
	}
	w.equal("runs", runs, got)
}
