package storetest

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// settleBatch is how many runs, and how many sessions, of a tree are settled at
// once.
const settleBatch = 100

// Settle implements [sessions.Store].
func (m *Model) Settle(context.Context) (more bool, err error) {
	m.mu.Lock()
	defer m.unlock()
	for _, t := range m.trees {
		m.settle(t)
		now := m.now()
		more = more || len(t.lapsed(now)) > 0 || len(t.due(now)) > 0
	}
	return more, nil
}

// settle settles what is due: first the runs nobody renewed, then the sessions
// whose time is over, each in the order in which they came due.
func (m *Model) settle(t *modelTree) {
	now := m.now()
	runs := t.lapsed(now)
	for _, r := range runs[:min(len(runs), settleBatch)] {
		m.lose(now, t, r)
	}
	due := t.due(now)
	for _, n := range due[:min(len(due), settleBatch)] {
		if n.isDue(now) { // else the one before it was above it
			m.timeIsUp(now, t, n)
		}
	}
}

// lapsed returns the open runs whose lease is over.
func (t *modelTree) lapsed(now time.Time) []*modelRun {
	var runs []*modelRun
	for _, n := range t.nodes {
		for _, r := range n.runs {
			if r.State == lineage.Active && r.lapsed(now) {
				runs = append(runs, r)
			}
		}
	}
	slices.SortFunc(runs, func(a, b *modelRun) int { return cmp.Or(a.lease.Compare(b.lease), cmp.Compare(a.ID, b.ID)) })
	return runs
}

// lose ends a run that nobody holds any more, and with the last one its
// session: the sidecar that had it is gone. What waits outlives that.
func (m *Model) lose(now time.Time, t *modelTree, r *modelRun) {
	s, by := r.in, origin{turn: r.turn}
	end := sessions.EndPayload{Run: r.ID, State: lineage.Failed, Reason: lineage.ReasonLost}
	r.State, r.Reason = end.State, end.Reason
	if s.Kind == lineage.Main || s.State.Terminal() || s.busy() {
		t.endRun(now, s, r, end, by)
		return
	}
	m.endSession(now, t, s, end, by, "")
}

// due returns the sessions whose time is over.
func (t *modelTree) due(now time.Time) []*node {
	var due []*node
	for _, n := range t.nodes {
		if n.isDue(now) {
			due = append(due, n)
		}
	}
	slices.SortFunc(due, func(a, b *node) int { return cmp.Or(a.Deadline.Compare(*b.Deadline), cmp.Compare(a.ID, b.ID)) })
	return due
}

func (n *node) isDue(now time.Time) bool {
	if !n.unfinished() || n.Deadline == nil || n.Deadline.After(now) {
		return false
	}
	return n.Ending != "" || n.Kind != lineage.Main
}

// timeIsUp ends what was asked to stop and has not, and what is idle; what is
// at work is asked to stop. A session ends but once: of one that has ended, only
// the runs are left to end.
func (m *Model) timeIsUp(now time.Time, t *modelTree, n *node) {
	by := origin{turn: n.Turn}
	end := sessions.EndPayload{State: lineage.Expired}
	if n.Ending != "" && n.Ending != lineage.ReasonExpired {
		end = sessions.EndPayload{State: lineage.Failed, Reason: n.Ending}
	}
	switch {
	case n.Ending == "" && n.busy():
		m.askToStop(now, t, n, lineage.ReasonExpired, by)
	case n.State.Terminal():
		t.endRuns(now, n, end, by)
	default:
		m.endSession(now, t, n, end, by, "")
	}
}
