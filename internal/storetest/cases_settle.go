package storetest

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// What is due is settled wherever it is, though no call comes there.
func settleAnyTree(w *world) {
	lost := w.call("a").isolated().ok()
	late := w.call("a").in("ctx-a").ttl(time.Minute).to(w.root + "-late").ok()
	w.completes(late)
	asked := w.call("a").in("ctx-a").to(w.root + "-asked").ok()
	w.hold(asked)
	w.step(lineage.VerbCancel, asked).ok()
	fine := w.call("a").isolated().to(w.root + "-fine").ok()
	w.hold(fine)
	before := w.dump(w.root + "-fine")
	w.settle() // nothing is due
	w.stands(lost, "active", "active")
	w.clock.advance(2 * time.Minute)
	w.settle()
	w.stands(lost, "failed/lost", "failed/lost")
	w.stands(late, "expired", "completed")
	w.stands(asked, "failed/canceled", "failed/canceled")
	w.equal("what settling changes where nothing is due", before, w.dump(w.root+"-fine"))
	if more, err := w.store.Settle(w.Context()); more || err != nil {
		w.Errorf("Settle() = %t, %v when all is settled, want false", more, err)
	}
}

// A call settles a bounded piece; all of it is settled in the end.
func settleBound(w *world) {
	for i := range 2*settleBatch + 1 {
		w.call("a").in(fmt.Sprint("ctx-", i)).ok()
	}
	for i := range 150 {
		w.call("a").isolated().to(fmt.Sprint("tree-", i)).ok()
	}
	w.clock.advance(lease + tick)
	more, err := w.store.Settle(w.Context())
	if left := w.tree().Live; err != nil || left > 0 && !more {
		w.Errorf("Settle() = %t, %v, and left %d sessions of a tree, want true", more, err, left)
	}
	w.settle()
	w.live(0)
	for i := range 150 {
		tree, err := w.store.Tree(w.Context(), fmt.Sprint("tree-", i))
		if err != nil || tree.Live != 0 {
			w.Fatalf("Tree(%d) has %d live sessions, %v, want none", i, tree.Live, err)
		}
	}
	w.extra = nil // consistent as any: too many to look at
}

// A cascade may be larger than what is done at once.
func settleCascade(w *world) {
	top := w.call("a").in("ctx-a").ok()
	w.hold(top)
	const children = 450
	var ops []*sessions.Op
	var last sessions.Grant
	for i := range children {
		c := w.call("b").isolated().from(top).with(func(a *sessions.Admission) { a.Lease = hour })
		if i%3 == 0 {
			c.Ahead = true
		}
		ops = append(ops, &sessions.Op{Admit: &c.Admission})
	}
	w.store.Apply(w.Context(), ops)
	for _, op := range ops {
		if op.Err != nil {
			w.Fatalf("Apply(call of b) = %v", op.Err)
		}
		last = op.Grant
	}
	w.live(children + 1)
	w.step(lineage.VerbComplete, top).ok()
	w.settle()
	w.equal("children that ended", children/3, len(w.logged(lineage.EventExpired)))
	w.equal("children that were asked", children-children/3, len(w.logged(lineage.EventCancel)))
	w.ending(last, lineage.ReasonOrphaned)
	w.passGrace()
	w.live(0)
	w.equal("children that were forced", children-children/3, len(w.logged(lineage.EventFailed)))
}

// Any number of sidecars may settle at the same time: it is done once.
func raceSettle(w *world) {
	for i := range 20 {
		w.call("a").in(fmt.Sprint("ctx-", i)).ok()
	}
	w.clock.advance(lease + tick)
	race(func(int) {
		if err := settleAll(w.Context(), w.store); err != nil {
			w.Errorf("Settle: %v", err)
		}
	})
	w.live(0)
	w.equal("losses", 20, len(w.logged(lineage.EventFailed)))
	w.equal("errors", 20, w.tree().Errors)
}

// What is to stop is made known once for each run, with what the holder of its
// call needs to know, and again to whoever renews one of them.
func notices(w *world) {
	l := w.listen()
	g1, g2 := w.call("a").in("ctx-a").ok(), w.call("a").in("ctx-a").ok()
	waits := w.waiting(w.call("a").in("ctx-a"), w.id("task"))
	w.hold(g1, g2)
	w.completes(w.call("a").in("ctx-a").ok())
	w.about(g2).task("task-2").tell()
	cancel := func(g sessions.Grant, task string, grace time.Duration) sessions.Cancel {
		return sessions.Cancel{
			Root: w.root, Session: g.Session.ID, Run: g.RunID, Agent: g.Session.Agent, TaskID: task,
			Reason: lineage.ReasonCanceled, Grace: grace,
		}
	}
	w.step(lineage.VerbCancel, g1).ok()
	want := []sessions.Cancel{
		cancel(g1, "", lineage.DefaultGrace), cancel(g2, "task-2", lineage.DefaultGrace),
		cancel(waits, w.run(waits).TaskID, lineage.DefaultGrace),
	}
	w.equal("cancels", want, l.of(w.root))

	w.clock.advance(10 * tick)
	w.renew(lease, g2, waits)
	other := w.call("b").isolated().ok()
	w.renew(lease, other)
	want = append(want, cancel(g2, "task-2", lineage.DefaultGrace-10*tick),
		cancel(waits, w.run(waits).TaskID, lineage.DefaultGrace-10*tick))
	w.equal("cancels after a renewal", want, l.of(w.root))

	// A lease that is over, and a grace that is, are told of all the same.
	w.renew(tick, g1)
	want = append(want, cancel(g1, "", lineage.DefaultGrace-10*tick))
	w.clock.advance(21 * tick)
	w.renew(lease, g1)
	want = append(want, cancel(g1, "", 0))
	w.equal("cancels after the grace", want, l.of(w.root))
	w.completes(g2)
	w.renew(lease, g2)
	w.equal("cancels after the end", want, l.of(w.root))
}

// A deadline and a parent's end are made known just so.
func noticesOfAllReasons(w *world) {
	l := w.listen()
	late := w.call("a").in("ctx-a").ttl(time.Minute).ok()
	w.hold(late)
	parent, child := w.orphan(w.call("b").isolated())
	w.clock.advance(time.Minute + tick)
	w.look()
	var got []string
	for _, c := range l.of(w.root) {
		got = append(got, c.Run+" "+c.Reason)
	}
	slices.SortFunc(got, strings.Compare)
	want := []string{late.RunID + " " + lineage.ReasonExpired, child.RunID + " " + lineage.ReasonOrphaned}
	slices.SortFunc(want, strings.Compare)
	w.equal("cancels", want, got)
	w.stands(parent, "completed", "completed")
}
