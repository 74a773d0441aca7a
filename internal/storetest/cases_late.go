package storetest

import (
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// late completes the session of a call, and sends the call once more: its run
// goes on in a session that has ended. It is held for the next hour.
func (w *world) late(c *call) sessions.Grant {
	w.Helper()
	w.step(lineage.VerbComplete, c.ok()).ok()
	g := c.again().ok()
	w.hold(g)
	w.stands(g, "completed", "active")
	return g
}

// tail returns the ids of the last n events of the tree.
func (w *world) tail(n int) []string {
	w.Helper()
	all := w.logged()
	return all[max(0, len(all)-n):]
}

// The end of the parent reaches what runs below it, though the session that it
// runs in has ended before. That stays as it ended.
func lateOrphaned(w *world) {
	l := w.listen()
	parent := w.call("p").isolated().ok()
	late := w.late(w.call("a").isolated().from(parent))
	w.live(2)
	w.hold(parent)
	before := w.told(parent)
	w.completes(parent)
	w.ending(late, lineage.ReasonOrphaned)
	w.stands(late, "completed", "active")
	w.equal("event of the request", []string{"cancel/" + late.Session.ID}, w.tail(1))
	w.equal("who is to stop", []string{late.RunID}, runsOf(l.of(w.root)))
	w.step(lineage.VerbCancel, late).conflicts(false)
	w.clock.advance(10 * tick)
	w.renew(hour, late)
	w.equal("who is to stop, told again", []string{late.RunID, late.RunID}, runsOf(l.of(w.root)))
	w.passGrace()
	w.stands(late, "completed", "failed/orphaned")
	w.ending(late, "")
	w.equal("event of the end", []string{"run/" + late.RunID + "/failed/orphaned"}, w.tail(1))
	w.equal("what the parent is told of it", before, w.told(parent))
	w.live(0)
	w.equal("errors", 1, w.tree().Errors)
}

// A deadline holds for what was opened after the end as well. Each request to
// stop is an event of its own.
func lateExpires(w *world) {
	l := w.listen()
	c := w.call("a").isolated().ttl(time.Minute)
	late := w.late(c)
	first := "cancel/" + late.Session.ID
	want := []string{first}
	for i := range 3 {
		w.clock.advance(time.Minute - tick)
		w.settle()
		w.ending(late, "")
		w.clock.advance(2 * tick)
		w.settle()
		w.ending(late, lineage.ReasonExpired)
		w.equal("requests to stop", want, w.logged(lineage.EventCancel))
		w.equal("who is to stop", i+1, len(l.of(w.root)))
		w.passGrace()
		w.stands(late, "completed", "expired")
		w.ending(late, "")
		w.equal("event of the end", []string{"run/" + late.RunID + "/expired"}, w.tail(1))
		w.live(0)
		late = c.again().ok()
		w.hold(late)
		want = append(want, fmt.Sprintf("%s/%d", first, w.session(late).Version+1))
	}
	w.equal("errors", 0, w.tree().Errors)
	w.completes(late)

	// So is one of a session that was asked to stop before it ended.
	c = w.call("b").in("ctx-b").ttl(time.Minute)
	asked := c.ok()
	w.step(lineage.VerbCancel, asked).ok()
	w.completes(asked)
	late = c.again().ok()
	w.hold(late)
	last := w.session(late).Version
	w.clock.advance(time.Minute + tick)
	w.settle()
	w.ending(late, lineage.ReasonExpired)
	w.equal("request to stop", []string{fmt.Sprintf("cancel/%s/%d", late.Session.ID, last+1)}, w.tail(1))
	w.completes(late)
	w.ending(late, "")
	w.stands(late, "completed", "completed")
}

// What was left of a session's time when it ended, or of its grace, is not what
// a call into it has: that is its time anew, and none if it has none.
func lateWithoutTime(w *world) {
	canceled, timed := w.call("a").isolated(), w.call("b").isolated().ttl(time.Hour)
	g := canceled.ok()
	w.step(lineage.VerbCancel, g).ok()
	w.completes(g)
	late := canceled.again().ok()
	other := w.late(timed)
	w.hold(late, other)
	if d := w.session(late).Deadline; d != nil {
		w.Errorf("session %s, of no end and called after it, has until %s", late.Session.ID, d)
	}
	if d, want := w.session(other).Deadline, w.clock.now().Add(time.Hour); d == nil || !d.Equal(want) {
		w.Errorf("session %s, called after its end, has until %v, want %s", other.Session.ID, d, want)
	}
	w.clock.advance(2 * time.Minute)
	w.settle()
	w.ending(late, "")
	w.ending(other, "")
	w.live(2)
}

// The grace of several runs is over when the last of them has ended, or has
// been ended, in the order in which they began.
func lateRunsEnd(w *world) {
	l := w.listen()
	parent := w.call("p").isolated().ok()
	open := func() (one, two sessions.Grant) {
		task := w.id("task")
		c := w.call("a").isolated().from(parent)
		g := c.ok()
		w.about(g).task(task).is(lineage.Completed, "").tell()
		one, two = c.again().ok(), w.call("a").task(task).ok()
		w.equal("sessions", []string{g.Session.ID, g.Session.ID}, []string{one.Session.ID, two.Session.ID})
		w.hold(one, two)
		return one, two
	}
	one, two := open()
	three, four := open()
	w.hold(parent)
	w.completes(parent)
	w.equal("who is to stop", []string{one.RunID, two.RunID, three.RunID, four.RunID}, runsOf(l.of(w.root)))
	w.completes(one)
	w.ending(one, lineage.ReasonOrphaned)
	w.suspends(two) // which waits for nobody
	w.stands(two, "completed", "failed/input_required")
	w.ending(two, "")
	w.passGrace()
	w.equal("events of the ends", []string{"run/" + three.RunID + "/failed/orphaned", "run/" + four.RunID + "/failed/orphaned"}, w.tail(2))
	w.ending(three, "")
	w.live(0)
}

func lateSpared(w *world) {
	parent := w.call("p").isolated().ok()
	late := w.late(w.call("a").isolated().abandon().from(parent))
	w.completes(parent)
	w.ending(late, "")
	w.live(1)
	w.completes(late)
	w.live(0)
}

// What is called in an ended session below another is whose call it is, and not
// stopped with what is above: below what has ended nobody goes down again.
func lateBelowLate(w *world) {
	top := w.call("a").isolated().ok()
	child := w.call("b").isolated().from(top)
	middle := child.ok()
	grandchild := w.call("c").isolated().from(middle)
	w.completes(grandchild.ok())
	w.completes(middle)
	late := child.again().ok()
	mine := grandchild.again().with(func(a *sessions.Admission) { a.Caller = sessions.Caller{} }).ok()
	w.hold(late, mine)
	w.completes(top)
	w.ending(late, lineage.ReasonOrphaned)
	w.ending(mine, "")
	w.passGrace()
	w.stands(late, "completed", "failed/orphaned")
	w.stands(mine, "completed", "active")
	w.completes(mine)
	w.live(0)
}

// A retry of a call that was lost may tell how it ended, also within its grace.
func lateCorrects(w *world) {
	parent := w.call("p").isolated().ok()
	w.hold(parent)
	c := w.call("a").in("ctx-a").from(parent)
	g := c.ok()
	w.clock.advance(lease + tick)
	w.settle()
	w.stands(g, "failed/lost", "failed/lost")
	late := c.again().ok()
	w.hold(late)
	w.completes(parent)
	w.ending(late, lineage.ReasonOrphaned)
	w.completes(late)
	w.stands(late, "completed", "completed")
	w.ending(late, "")
	w.equal("what the parent is told", []string{
		"result/" + g.Session.ID + "/failed/lost", "result/" + g.Session.ID + "/completed",
	}, w.told(parent))
	w.live(0)
}
