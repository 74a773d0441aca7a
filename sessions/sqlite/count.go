package sqlite

import (
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// open makes r active in s, whether it is new or has waited. A session that
// waited goes on with its run, or with a new one if nothing waits in it. The
// run's lease is for the caller to give.
func (b *batch) open(t *treeRow, s *sessionRow, r *runRow) error {
	waited := r.State == lineage.Suspended
	r.Reason = ""
	return b.move(t, s, r, lineage.Active, func() {
		if s.State == lineage.Suspended && (waited || s.waiting == 0) {
			s.State = lineage.Active
		}
		s.Reserved = false
	})
}

// move takes r, a run of s, to another state, then calls then, which may
// change the state of s, and keeps every counter right that depends on the two.
// It is the one place where runs are counted.
func (b *batch) move(t *treeRow, s *sessionRow, r *runRow, to lineage.State, then func()) error {
	caller, err := b.session(t, r.caller)
	if err != nil {
		return err
	}
	from := r.State
	r.State = to
	if to != lineage.Active {
		r.lease = time.Time{}
		b.held.free(s.Agent, runPlace{r.tree, r.session, r.n})
		b.agenda.set(t.no, t.Root, r.item(), r.ID, r.lease)
	}
	b.touchRun(r)
	active := count(to, lineage.Active) - count(from, lineage.Active)
	if active != 0 {
		caller.out += active
		b.touch(caller)
	}
	t.Errors += count(to, lineage.Failed) - count(from, lineage.Failed)
	b.touchTree(t)
	return b.relive(t, s, func() {
		s.open += active
		s.waiting += count(to, lineage.Suspended) - count(from, lineage.Suspended)
		then()
	})
}

func count(s, what lineage.State) int { return flag(s == what) }

// flag counts what is or is not.
func flag(is bool) int {
	if is {
		return 1
	}
	return 0
}

// relive calls change, which changes s, and keeps the counts of live and of
// unfinished sessions right.
func (b *batch) relive(t *treeRow, s *sessionRow, change func()) error {
	live, going := -flag(s.live()), -flag(s.unfinished())
	change()
	b.schedule(t, s)
	return b.countChild(t, s, live+flag(s.live()), going+flag(s.unfinished()))
}

// countChild counts s as so many live and unfinished sessions more. The root
// session never counts.
func (b *batch) countChild(t *treeRow, s *sessionRow, live, going int) error {
	if s.n == rootN || live == 0 && going == 0 {
		return nil
	}
	parent, err := b.session(t, s.parent)
	if err != nil {
		return err
	}
	parent.liveChildren += live
	parent.going += going
	t.Live += live
	b.touch(parent)
	b.touchTree(t)
	return nil
}

// holdFor gives r, an active run of s, a lease: it holds its place until then.
func (b *batch) holdFor(t *treeRow, s *sessionRow, r *runRow, lease time.Duration) {
	r.lease, r.hold = b.now.Add(lease), lease
	b.touchRun(r)
	b.agenda.set(t.no, t.Root, r.item(), r.ID, r.lease)
	b.held.hold(s.Agent, runPlace{r.tree, r.session, r.n}, r.lease)
}
