package storetest

import (
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// refusal is one over a cap, with g's session as the parent.
func refusal(reason lineage.Reason, limit string, value, count int, parent lineage.Session) lineage.Refusal {
	return lineage.Refusal{
		Reason: reason, Limit: limit, Value: value, Count: count, Parent: parent.Branch, ParentID: parent.ID,
	}
}

// main is the root session of the tree.
func (w *world) main() lineage.Session {
	w.Helper()
	page, err := w.store.Sessions(w.Context(), w.root, sessions.SessionQuery{Limit: 1})
	if err != nil {
		w.Fatalf("Sessions(%s): %v", w.root, err)
	}
	return page.Sessions[0]
}

func depthCap(w *world) {
	g1 := w.call("a").isolated().ok()
	g2 := w.call("b").isolated().from(g1).ok()
	g3 := w.call("c").isolated().from(g2).ok()
	w.equal("depths", []int{1, 2, 3}, []int{g1.Session.Depth, g2.Session.Depth, g3.Session.Depth})
	w.call("d").isolated().from(g3).refused(refusal(lineage.DepthLimit, "maxDepth", 3, 4, g3.Session))
	leaf := w.call("d").isolated().worker().from(g3).ok()
	w.equal("depth of the worker", 4, leaf.Session.Depth)
}

func depthCapLowered(w *world) {
	two := lineage.Limits{MaxDepth: 2}
	g1 := w.call("a").isolated().max(two).ok()
	g2 := w.call("b").isolated().max(two).from(g1).ok()
	w.call("c").isolated().max(two).from(g2).refused(refusal(lineage.DepthLimit, "maxDepth", 2, 3, g2.Session))
	w.call("c").isolated().worker().max(two).from(g2).refused(refusal(lineage.DepthLimit, "maxDepth", 2, 3, g2.Session))
	// A session that is there already is not made deeper by a call.
	w.call("b").message(w.run(g2).MessageID).max(lineage.Limits{MaxDepth: 1}).from(g1).ok()
}

func depthOfPlaceholder(w *world) {
	far := func(depth int) *call {
		return w.call("a").isolated().with(func(a *sessions.Admission) {
			a.Caller = sessions.Caller{ContextID: w.id("far"), Depth: depth}
		})
	}
	if g := far(2).ok(); g.Session.Depth != 3 {
		w.Errorf("a call of a caller at depth 2 stands at %d, want 3", g.Session.Depth)
	}
	if g := far(0).ok(); g.Session.Depth != 2 {
		w.Errorf("a call of a caller at unknown depth stands at %d, want 2", g.Session.Depth)
	}
	deep := far(3)
	deep.refused(lineage.Refusal{
		Reason: lineage.DepthLimit, Limit: "maxDepth", Value: 3, Count: 4,
		Parent: lineage.Label(w.main().Branch, "coordinator", 3), ParentID: deep.RemoteID,
	})
}

func childrenCap(w *world) {
	two := lineage.Limits{MaxChildren: 2}
	g1 := w.call("a").isolated().max(two).ok()
	g2 := w.call("b").isolated().max(two).ok()
	w.call("c").isolated().max(two).refused(refusal(lineage.ChildrenLimit, "maxChildren", 2, 2, w.main()))
	w.call("a").isolated().max(two).from(g1).ok() // another parent, other places
	w.completes(g2)
	w.call("c").isolated().max(two).ok()
	w.call("c").isolated().max(two).refused(refusal(lineage.ChildrenLimit, "maxChildren", 2, 2, w.main()))
	w.call("c").isolated().max(lineage.Limits{MaxChildren: 3}).ok()
}

func childrenCapOfFoundSession(w *world) {
	one := lineage.Limits{MaxChildren: 1}
	idle := w.call("a").in("ctx-a").ok()
	w.completes(idle)
	busy := w.call("b").isolated().ok()
	// The idle session hangs under main, whoever calls it: main's place is taken.
	w.call("a").in("ctx-a").from(busy).max(one).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))
	w.completes(busy)
	w.call("a").in("ctx-a").max(one).ok()
	w.call("a").in("ctx-a").max(one).ok() // live already: no further place
	w.live(1)
}

func fanOutCap(w *world) {
	two := lineage.Limits{MaxFanOut: 2}
	g1 := w.call("a").in("ctx-a").max(two).ok()
	w.call("a").in("ctx-a").max(two).ok() // the same session, a second run
	w.call("a").in("ctx-a").max(two).refused(refusal(lineage.FanOutLimit, "maxFanOut", 2, 2, w.main()))
	w.call("b").isolated().max(two).refused(refusal(lineage.FanOutLimit, "maxFanOut", 2, 2, w.main()))
	w.call("b").in("ctx-b").from(g1).max(two).ok() // out of another session
	w.completes(g1)
	w.call("b").in("ctx-b").max(two).ok() // out of main, into a session that hangs elsewhere
	w.call("c").isolated().max(two).refused(refusal(lineage.FanOutLimit, "maxFanOut", 2, 2, w.main()))
	w.call("c").isolated().from(g1).max(two).ok()
	w.call("c").isolated().from(g1).max(two).refused(refusal(lineage.FanOutLimit, "maxFanOut", 2, 2, g1.Session))
}

func suspendedCounts(w *world) {
	one := lineage.Limits{MaxChildren: 1, MaxFanOut: 1}
	w.suspends(w.call("a").isolated().max(one).ok())
	w.live(1)
	w.call("b").isolated().max(one).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))
	w.call("b").isolated().max(lineage.Limits{MaxFanOut: 1}).ok()
}

func idleTakesNoPlace(w *world) {
	one := lineage.Limits{MaxChildren: 1}
	w.completes(w.call("a").in("ctx-a").max(one).ok())
	w.live(0)
	if got := w.tree().State; got != lineage.TreeIdle {
		w.Errorf("Tree.State = %s, want %s", got, lineage.TreeIdle)
	}
	w.call("b").isolated().max(one).ok()
	w.live(1)
	if got := w.tree().State; got != lineage.TreeActive {
		w.Errorf("Tree.State = %s, want %s", got, lineage.TreeActive)
	}
}

func sessionsCapByTurn(w *world) {
	two := lineage.Limits{MaxSessions: 2}
	g1 := w.call("a").isolated().turn("turn-1").max(two).ok()
	w.completes(g1) // an ended session has been made all the same
	w.call("b").in("ctx-b").from(g1).turn("turn-1").max(two).refused(refusal(lineage.ParentEnded, "", 0, 0, g1.Session))
	w.call("b").in("ctx-b").turn("turn-1").max(two).ok()
	w.call("c").isolated().turn("turn-1").max(two).refused(refusal(lineage.SessionsLimit, "maxSessions", 2, 2, w.main()))
	w.call("b").in("ctx-b").turn("turn-1").max(two).ok() // makes none
	w.call("c").isolated().turn("turn-2").max(two).ok()
	w.call("c").isolated().turn("turn-1").max(lineage.Limits{MaxSessions: 3}).ok()
}

func sessionsCapByHour(w *world) {
	two := lineage.Limits{MaxSessions: 2}
	w.completes(w.call("a").isolated().turn("turn-1").max(two).ok()) // counts where no turn is known
	w.clock.advance(30 * time.Minute)
	w.completes(w.call("b").isolated().max(two).ok())
	w.call("c").isolated().max(two).refused(refusal(lineage.SessionsLimit, "maxSessions", 2, 2, w.main()))
	w.clock.advance(30*time.Minute - time.Second)
	w.call("c").isolated().max(two).refused(refusal(lineage.SessionsLimit, "maxSessions", 2, 2, w.main()))
	w.clock.advance(2 * time.Second)
	w.call("c").isolated().max(two).ok()
	w.call("d").isolated().max(two).refused(refusal(lineage.SessionsLimit, "maxSessions", 2, 2, w.main()))
}

func sessionsCapCountsSpawns(w *world) {
	one := lineage.Limits{MaxSessions: 1}
	// The root session and the placeholder are made, and not counted.
	g := w.call("a").isolated().turn("turn-1").max(one).with(func(a *sessions.Admission) { a.Caller.ContextID = "far" }).ok()
	w.equal("sessions of the tree", 3, w.tree().Sessions)
	w.call("b").isolated().turn("turn-1").max(one).from(g).refused(refusal(lineage.SessionsLimit, "maxSessions", 1, 1, g.Session))
}

func sessionsCapSparesCatchAll(w *world) {
	one := lineage.Limits{MaxSessions: 1}
	catchAll := func(a *sessions.Admission) { a.CatchAll = true }
	w.call("a").isolated().turn("turn-1").max(one).with(catchAll).ok()
	w.call("b").isolated().turn("turn-1").max(one).ok() // the tree is what it was made as
	w.call("c").isolated().max(one).ok()
	if !w.tree().CatchAll {
		w.Errorf("Tree(%s).CatchAll = false, want true", w.root)
	}
}

func visitsCap(w *world) {
	two := lineage.Limits{MaxVisits: 2}
	g1 := w.call("a").isolated().max(two).ok()
	g2 := w.call("a").isolated().max(two).from(g1).ok()
	w.call("a").isolated().max(two).from(g2).refused(refusal(lineage.LoopLimit, "maxVisits", 2, 3, g2.Session))
	w.call("b").isolated().max(two).from(g2).ok()
	// The root's agent stands on the path too.
	w.call("coordinator").isolated().max(lineage.Limits{MaxVisits: 1}).from(g1).
		refused(refusal(lineage.LoopLimit, "maxVisits", 1, 2, g1.Session))
	w.call("coordinator").isolated().max(two).from(g1).ok()
	// Siblings are no loop.
	w.call("a").isolated().max(lineage.Limits{MaxVisits: 1}).ok()
}

func concurrencyCap(w *world) {
	three := lineage.Limits{MaxConcurrent: 3}
	full := refusal(lineage.ConcurrencyLimit, "maxConcurrent", 3, 3, lineage.Session{})
	g1 := w.call("a").isolated().max(three).ok()
	full.Parent, full.ParentID = w.main().Branch, w.main().ID
	g2 := w.call("a").in("ctx-a").max(three).ok()
	other := w.call("a").isolated().max(three).to("root-other").ok()
	w.call("a").isolated().max(three).refused(full)
	w.call("a").in("ctx-a").max(three).refused(full)
	w.call("b").isolated().max(three).ok() // another agent
	w.call("a").isolated().max(lineage.Limits{MaxConcurrent: 4}).ok()

	w.suspends(g1) // yields its place
	w.completes(other)
	w.call("a").isolated().max(three).ok()
	w.call("a").isolated().max(three).refused(full)
	w.completes(g2)
	w.call("a").isolated().max(three).ok()
}

func concurrencyCapSparesAncestors(w *world) {
	one := lineage.Limits{MaxConcurrent: 1}
	outer := w.call("a").isolated().max(one).ok()
	between := w.call("b").isolated().max(one).from(outer).ok()
	w.call("a").isolated().max(one).from(between).ok() // a's only place is held by an ancestor
	w.call("a").isolated().max(one).from(between).
		refused(refusal(lineage.ConcurrencyLimit, "maxConcurrent", 1, 1, between.Session))
	w.call("a").isolated().max(one).
		refused(refusal(lineage.ConcurrencyLimit, "maxConcurrent", 1, 2, w.main()))
}

func workerCallsNobody(w *world) {
	g := w.call("a").isolated().worker().ok()
	w.call("b").isolated().from(g).refused(refusal(lineage.LeafSession, "", 0, 0, g.Session))
	w.call("b").isolated().worker().from(g).refused(refusal(lineage.LeafSession, "", 0, 0, g.Session))
}

func endedCallsNobody(w *world) {
	for _, end := range []lineage.State{lineage.Completed, lineage.Failed} {
		g := w.call("a").isolated().ok()
		w.about(g).is(end, "").tell()
		w.call("b").isolated().from(g).refused(refusal(lineage.ParentEnded, "", 0, 0, g.Session))
	}
	gone := w.call("a").isolated().ok()
	w.loses(gone)
	w.call("b").isolated().from(gone).refused(refusal(lineage.ParentEnded, "", 0, 0, gone.Session))
}

// A caller of whom nothing is known stands below the root session.
func strangerBelowEnded(w *world) {
	w.call("a").isolated().ok()
	w.mainStep(lineage.VerbComplete).ok()
	w.call("b").isolated().with(func(a *sessions.Admission) {
		a.Local, a.Caller = "far", sessions.Caller{ContextID: "ctx-far", Depth: 1}
	}).refused(refusal(lineage.ParentEnded, "", 0, 0, w.main()))
}

func foreignPrincipal(w *world) {
	w.call("a").in("ctx-a").task("task-a").message("message-a").ok()
	bob := func(a *sessions.Admission) { a.Principal = "bob" }
	forbidden := lineage.Refusal{Reason: lineage.ContextForbidden}
	w.call("a").isolated().with(bob).refused(forbidden)
	w.call("a").in("ctx-a").with(bob).refused(forbidden)
	w.call("a").task("task-a").with(bob).refused(forbidden)
	w.call("a").message("message-a").with(bob).refused(forbidden)
	w.call("a").isolated().with(func(a *sessions.Admission) { a.Principal = "" }).refused(forbidden)

	nobody := w.call("a").isolated().to(w.root + "-nobody").with(func(a *sessions.Admission) { a.Principal = "" })
	nobody.ok()
	w.call("a").isolated().to(w.root + "-nobody").refused(forbidden)
}

func refusedMakesNoTree(w *world) {
	deep := w.call("a").in("ctx-never").task("task-never").with(func(a *sessions.Admission) {
		a.Caller = sessions.Caller{ContextID: "far", Depth: 4}
	})
	deep.refused(lineage.Refusal{
		Reason: lineage.DepthLimit, Limit: "maxDepth", Value: 3, Count: 5,
		Parent: "root.coordinator@1", ParentID: deep.RemoteID,
	})
	w.belongs(sessions.BindContext, "a", "ctx-never", sessions.Binding{})
	w.belongs(sessions.BindTask, "a", "task-never", sessions.Binding{})
}

func noLimits(w *world) {
	for range 40 {
		w.call("a").isolated().ok()
	}
	w.live(40)
}
