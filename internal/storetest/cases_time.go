package storetest

import (
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// In these cases a call of agent "z" in passing is what makes the store look
// at what is due: lapses are settled by admissions of the same tree.

const (
	tick = time.Second
	hour = time.Hour
)

// look makes the store settle what is due, and leaves nothing open.
func (w *world) look() {
	w.Helper()
	w.completes(w.call("z").isolated().ok())
}

// ref names g's run as its sidecar does.
func ref(g sessions.Grant) sessions.RunRef {
	return sessions.RunRef{Root: g.Session.Tree, Run: g.RunID, Agent: g.Session.Agent, Gen: g.Gen}
}

func (w *world) renew(d time.Duration, grants ...sessions.Grant) {
	w.Helper()
	var refs []sessions.RunRef
	for _, g := range grants {
		refs = append(refs, ref(g))
	}
	if err := w.store.Renew(w.Context(), refs, d); err != nil {
		w.Fatalf("Renew(%v) = %v", refs, err)
	}
}

func leaseLapses(w *world) {
	alone, shared, leaf := w.call("a").isolated().ok(), w.call("a").in("ctx-a").ok(), w.call("a").in("ctx-w").worker().ok()
	w.clock.advance(lease - tick)
	w.look()
	w.stands(alone, "active", "active")
	w.clock.advance(2 * tick)
	w.stands(alone, "active", "active") // nothing happens by itself
	w.look()
	w.stands(alone, "failed/lost", "failed/lost")
	w.stands(shared, "failed/lost", "failed/lost")
	w.stands(leaf, "failed/lost", "failed/lost")
	w.live(0)
	w.equal("errors", 3, w.tree().Errors)
	// The agent's own word still counts.
	w.completes(alone)
	w.stands(alone, "completed", "completed")
	w.equal("errors", 2, w.tree().Errors)
}

func leaseRenewed(w *world) {
	g1, g2 := w.call("a").isolated().ok(), w.call("a").isolated().ok()
	w.clock.advance(lease - tick)
	w.renew(lease, g1, g2)
	w.clock.advance(lease - tick)
	w.look()
	w.stands(g1, "active", "active")
	w.renew(lease, g1)
	w.clock.advance(2 * tick)
	w.look()
	w.stands(g1, "active", "active")
	w.stands(g2, "failed/lost", "failed/lost")
}

func renewNeverResurrects(w *world) {
	lapsed, ended := w.call("a").isolated().ok(), w.call("a").isolated().ok()
	waits := w.waiting(w.call("a").isolated(), "task-a")
	w.completes(ended)
	w.clock.advance(lease + tick)
	w.renew(time.Hour, lapsed, ended, waits)
	w.stands(ended, "completed", "completed")
	w.stands(waits, "suspended", "suspended")
	w.look()
	w.stands(lapsed, "failed/lost", "failed/lost")
	w.renew(time.Hour, lapsed)
	w.stands(lapsed, "failed/lost", "failed/lost")
	w.stands(waits, "suspended", "suspended") // what waits holds no lease
	w.live(1)
}

// Two calls hold one run: as long as either renews it, it goes on.
func renewTakesAnyGrant(w *world) {
	c := w.call("a").isolated()
	old := c.ok()
	c.again().ok()
	w.clock.advance(lease - tick)
	w.renew(lease, old)
	w.clock.advance(2 * tick)
	w.look()
	w.stands(old, "active", "active")

	never := old
	never.Gen = 3 // no grant had that
	w.clock.advance(lease - 3*tick)
	w.renew(lease, never)
	w.clock.advance(2 * tick)
	w.look()
	w.stands(old, "failed/lost", "failed/lost")
}

func lapseFreesPlace(w *world) {
	one := lineage.Limits{MaxChildren: 1, MaxFanOut: 1, MaxConcurrent: 1}
	w.call("a").isolated().max(one).ok()
	w.clock.advance(lease + tick)
	w.call("a").isolated().max(one).ok()
	w.call("a").isolated().max(one).refused(refusal(lineage.ChildrenLimit, "maxChildren", 1, 1, w.main()))
}

// The runs of a sidecar that died block no agent, though no call comes that
// would settle them in their own trees.
func lapseFreesAgent(w *world) {
	one := lineage.Limits{MaxConcurrent: 1}
	gone := w.call("a").isolated().max(one).ok()
	elsewhere := func() *call { return w.call("a").isolated().max(one).to("root-other") }
	w.clock.advance(lease - tick)
	early := elsewhere()
	early.refused(refusal(lineage.ConcurrencyLimit, "maxConcurrent", 1, 1, lineage.Session{Branch: "coordinator", ID: early.MainID}))
	w.clock.advance(2 * tick)
	elsewhere().ok()
	w.stands(gone, "active", "active")
	w.look()
	w.stands(gone, "failed/lost", "failed/lost")
}

func lapseThenRetry(w *world) {
	c := w.call("a").isolated()
	g1 := c.ok()
	w.clock.advance(lease + tick)
	g2 := c.again().ok()
	if !g2.Retry || g2.Resumed || g2.RunID == g1.RunID || g2.Gen != 1 || g2.Session.ID != g1.Session.ID {
		w.Errorf("the retry of a lapsed call got %+v, want a new run of session %s", g2, g1.Session.ID)
	}
	w.stands(g1, "failed/lost", "failed/lost")
	w.stands(g2, "failed/lost", "active")
	w.completes(g2)
	w.stands(g2, "completed", "completed")
}

func detached(w *world) {
	g, early := w.call("a").isolated().ok(), w.call("a").isolated().ok()
	w.about(g).with(func(p *sessions.Progress) { p.Detach = time.Minute }).tell()
	w.about(early).with(func(p *sessions.Progress) { p.Detach = 2 * tick }).tell()
	w.renew(time.Hour, g, early) // nobody holds them: there is nobody to renew
	w.clock.advance(3 * tick)
	w.look()
	w.stands(early, "failed/lost", "failed/lost")
	w.clock.advance(lease)
	w.look()
	w.stands(g, "active", "active")
	w.clock.advance(time.Minute)
	w.look()
	w.stands(g, "failed/lost", "failed/lost")

	// A call that takes the run up again holds it.
	c := w.call("a").isolated()
	w.about(c.ok()).with(func(p *sessions.Progress) { p.Detach = time.Minute }).tell()
	held := c.again().ok()
	w.clock.advance(lease - tick)
	w.renew(lease, held)
	w.clock.advance(lease - tick)
	w.look()
	w.stands(held, "active", "active")
	w.clock.advance(2 * tick)
	w.look()
	w.stands(held, "failed/lost", "failed/lost")
}

// What has lapsed has lapsed, though nobody has settled it yet.
func lateDetach(w *world) {
	g := w.call("a").isolated().ok()
	w.clock.advance(lease + tick)
	w.about(g).with(func(p *sessions.Progress) { p.Detach = hour }).tell()
	w.settle()
	w.stands(g, "failed/lost", "failed/lost")
}

// A run that waited longer than its lease and is seen working again has a
// lease as long as its last one: it must not be lost the moment it goes on.
func resumedIsHeld(w *world) {
	task := w.id("task")
	g := w.waiting(w.call("a").isolated(), task)
	w.clock.advance(10 * lease)
	w.look()
	w.stands(g, "suspended", "suspended")
	w.about(g).is(lineage.Active, "").tell()
	w.clock.advance(lease - tick)
	w.look()
	w.stands(g, "active", "active")
	w.clock.advance(2 * tick)
	w.look()
	w.stands(g, "failed/lost", "failed/lost")

	g = w.waiting(w.call("a").isolated(), w.id("task"))
	w.clock.advance(10 * lease)
	answer := w.call("a").task(w.run(g).TaskID).ok()
	w.clock.advance(lease - tick)
	w.renew(lease, answer)
	w.clock.advance(lease - tick)
	w.look()
	w.stands(g, "active", "active")
}

func deadlineExpires(w *world) {
	idle := w.call("a").in("ctx-a").ttl(time.Minute).ok()
	w.completes(idle)
	forever := w.call("a").in("ctx-b").ok()
	w.completes(forever)
	w.clock.advance(time.Minute - tick)
	w.look()
	w.stands(idle, "active", "completed")
	w.clock.advance(2 * tick)
	w.look()
	w.stands(idle, "expired", "completed")
	w.stands(forever, "active", "completed")
	w.equal("state of the root session", lineage.Active, w.main().State)
	e := w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventExpired}})
	if len(e) != 1 || e[0].ID != "ended/"+idle.Session.ID+"/expired" {
		w.Fatalf("session.expired events %+v, want one", e)
	}
	w.equal("what it says", sessions.EndPayload{State: lineage.Expired}, meaning(e[0]))
	w.call("b").isolated().from(idle).refused(refusal(lineage.ParentEnded, "", 0, 0, idle.Session))
	w.equal("errors", 0, w.tree().Errors)
}

func deadlineMoves(w *world) {
	g := w.call("a").in("ctx-a").ttl(time.Minute).ok()
	w.completes(g)
	w.clock.advance(time.Minute - tick)
	next := w.call("a").in("ctx-a").ttl(time.Hour).ok() // the session keeps its own time
	if want := w.clock.now().Add(time.Minute); next.Session.Deadline == nil || !next.Session.Deadline.Equal(want) {
		w.Errorf("Grant.Session.Deadline = %v, want %v", next.Session.Deadline, want)
	}
	w.completes(next)
	w.clock.advance(time.Minute - tick)
	w.completes(w.call("a").in("ctx-a").ok())
	w.clock.advance(time.Minute - tick)
	w.look()
	w.stands(g, "active", "completed")
	w.clock.advance(2 * tick)
	w.look()
	w.stands(g, "expired", "completed")
}

// A session's time is its own: what runs in it is asked to stop.
func deadlineWithRun(w *world) {
	g := w.call("a").in("ctx-a").ttl(3 * tick).ok()
	w.renew(time.Hour, g)
	w.clock.advance(5 * tick)
	w.look()
	w.stands(g, "active", "active")
	w.ending(g, lineage.ReasonExpired)
	w.completes(g)
	w.stands(g, "completed", "completed")

	g = w.call("a").in("ctx-b").ttl(3 * tick).ok()
	w.renew(time.Hour, g)
	w.clock.advance(5 * tick)
	w.look()
	w.clock.advance(lineage.DefaultGrace + tick)
	w.look()
	w.stands(g, "expired", "expired")
	w.equal("errors", 0, w.tree().Errors)

	// A run that lapses first takes its session with it.
	g = w.call("a").in("ctx-c").ttl(3 * tick).ok()
	w.clock.advance(lease + tick)
	w.look()
	w.stands(g, "failed/lost", "failed/lost")
}

func deadlineTakesWaiting(w *world) {
	alone := w.waiting(w.call("a").isolated().ttl(time.Minute), w.id("task"))
	shared := w.waiting(w.call("a").in("ctx-a").ttl(time.Minute), w.id("task"))
	parked := w.call("a").in("ctx-b").ttl(time.Minute).ok()
	w.completes(parked)
	w.step(lineage.VerbSuspend, parked).ok()
	w.live(2)
	w.clock.advance(time.Minute + tick)
	w.look()
	w.stands(parked, "expired", "completed") // nothing waits in it
	for _, g := range []sessions.Grant{alone, shared} {
		w.stands(g, "suspended", "suspended")
		w.ending(g, lineage.ReasonExpired)
	}
	w.live(2)
	w.clock.advance(lineage.DefaultGrace + tick)
	w.look()
	w.stands(alone, "expired", "expired")
	w.stands(shared, "expired", "expired")
	w.live(0)
	w.equal("errors", 0, w.tree().Errors)
	w.completes(alone)
	w.stands(alone, "expired", "expired") // too late
}

func lapseBound(w *world) {
	for i := range settleBatch + 1 {
		w.call("a").in(fmt.Sprintf("ctx-%d", i)).ok()
		w.completes(w.call("b").in(fmt.Sprintf("ctx-%d", i)).ttl(time.Hour).ok())
	}
	w.clock.advance(lease + tick)
	w.look()
	w.live(1)
	w.look()
	w.live(0)
	w.clock.advance(2 * time.Hour)
	w.look()
	w.equal("expired at once", settleBatch, len(w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventExpired}})))
	w.look()
	w.equal("expired in the end", settleBatch+1, len(w.events(w.root, sessions.EventQuery{All: true, Types: []string{lineage.EventExpired}})))
}

func lapseOrder(w *world) {
	late, early := w.call("a").in("ctx-a").ok(), w.call("a").in("ctx-b").ok()
	w.renew(8*tick, late)
	w.renew(7*tick, early)
	twin := w.call("a").in("ctx-c").with(func(a *sessions.Admission) { a.RunID, a.Lease = "a-"+a.RunID, 7*tick }).ok()
	w.clock.advance(time.Minute)
	w.look()
	w.equal("order of the lapses", []string{
		"ended/" + twin.Session.ID + "/failed/lost", "ended/" + early.Session.ID + "/failed/lost",
		"ended/" + late.Session.ID + "/failed/lost",
	}, w.logged(lineage.EventFailed))

	late, early = w.call("a").in("ctx-d").ttl(9*tick).ok(), w.call("a").in("ctx-e").ttl(8*tick).ok()
	w.completes(late)
	w.completes(early)
	lost := w.call("a").in("ctx-f").ok()
	w.clock.advance(time.Minute)
	w.look()
	w.equal("order of the ends", []string{
		"ended/" + lost.Session.ID + "/failed/lost", "ended/" + early.Session.ID + "/expired", "ended/" + late.Session.ID + "/expired",
	}, w.logged(lineage.EventFailed, lineage.EventExpired)[3:])
}

func timesAscend(w *world) {
	start := w.clock.now()
	g := w.call("a").in("ctx-a").ok()
	w.clock.advance(-5 * tick)
	w.completes(g)
	w.call("a").isolated().ok()
	for _, e := range w.dump(w.root).Log {
		if !e.Time.Equal(start) {
			w.Errorf("event %d is of %s, want %s: the clock went back", e.Seq, e.Time, start)
		}
	}
	w.clock.advance(6 * tick)
	w.look()
	w.equal("time of the last event", start.Add(tick).String(), w.tree().LastEventAt.UTC().String())
}
