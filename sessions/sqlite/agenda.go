package sqlite

import (
	"container/heap"
	"context"
	"fmt"
	"time"
)

// agenda is what comes due in any tree, and when. It is kept in memory, and
// read anew with all else that the writer remembers: nobody but the writer
// moves these times, and an index in the file would be rewritten by every call
// and every renewal.
type agenda struct {
	trees map[int64]*treeAgenda
	queue queue[*treeAgenda] // the tree in which something comes due first, first
}

// treeAgenda is what comes due in one tree. It goes with the last of it.
type treeAgenda struct {
	no    int64
	root  string
	items map[item]*due
	kinds [kinds]queue[*due]
	first int64 // of all kinds
	pos   int   // in agenda.queue
}

// Kinds of item, in the order in which they are settled.
const (
	aRun     = iota // an active run, whose lease ends
	aSession        // a session, whose time or grace is over
	aCascade        // an ended session, whose cascade is to go on
	kinds
)

// item is what comes due.
type item struct {
	kind       int
	session, n int // n is of a run, else 0
}

// due is when an item comes due.
type due struct {
	item
	at  int64  // nanoseconds since 1970
	id  string // of the run or session: of those due at once, the lowest is first
	pos int    // in its queue
}

func (d *due) before(other *due) bool { return d.at < other.at || d.at == other.at && d.id < other.id }
func (d *due) moved(to int)           { d.pos = to }

func (t *treeAgenda) before(other *treeAgenda) bool {
	return t.first < other.first || t.first == other.first && t.no < other.no
}
func (t *treeAgenda) moved(to int) { t.pos = to }

// set notes when what comes due, under the id given; at zero time: not any more.
func (a *agenda) set(tree int64, root string, what item, id string, at time.Time) {
	t := a.trees[tree]
	if t == nil {
		if at.IsZero() {
			return
		}
		t = &treeAgenda{no: tree, root: root, items: map[item]*due{}, pos: -1}
	}
	d := t.items[what]
	switch q := &t.kinds[what.kind]; {
	case at.IsZero() && d == nil:
		return
	case at.IsZero():
		heap.Remove(q, d.pos)
		delete(t.items, what)
	case d == nil:
		d = &due{item: what, at: at.UnixNano(), id: id}
		t.items[what] = d
		heap.Push(q, d)
	case d.at == at.UnixNano():
		return
	default:
		d.at = at.UnixNano()
		heap.Fix(q, d.pos)
	}
	a.order(t)
}

// order gives t its place among the trees.
func (a *agenda) order(t *treeAgenda) {
	if len(t.items) == 0 {
		a.forget(t.no)
		return
	}
	first, found := int64(0), false
	for _, q := range t.kinds {
		if len(q) > 0 && (!found || q[0].at < first) {
			first, found = q[0].at, true
		}
	}
	switch {
	case t.pos < 0:
		t.first = first
		if a.trees == nil {
			a.trees = map[int64]*treeAgenda{}
		}
		a.trees[t.no] = t
		heap.Push(&a.queue, t)
	case t.first != first:
		t.first = first
		heap.Fix(&a.queue, t.pos)
	}
}

// forget takes a tree off the agenda.
func (a *agenda) forget(tree int64) {
	if t := a.trees[tree]; t != nil {
		heap.Remove(&a.queue, t.pos)
		delete(a.trees, tree)
	}
}

// due returns what of a kind is due first in a tree, false if nothing is yet.
func (a *agenda) due(tree int64, kind int, now time.Time) (item, bool) {
	t := a.trees[tree]
	if t == nil || len(t.kinds[kind]) == 0 || t.kinds[kind][0].at > now.UnixNano() {
		return item{}, false
	}
	return t.kinds[kind][0].item, true
}

// dueTree returns the root of the tree in which something is due first, false
// if nothing is yet.
func (a *agenda) dueTree(now time.Time) (root string, found bool) {
	if len(a.queue) == 0 || a.queue[0].first > now.UnixNano() {
		return "", false
	}
	return a.queue[0].root, true
}

// recallAgenda reads from the file what comes due, and the places that are held.
// It costs what is under way, however much is kept.
func (w *writer) recallAgenda(ctx context.Context) error {
	for _, r := range [...]struct {
		what, query string
		note        func(row scanner) error
	}{
		{"leases", `SELECT t.root, r.tree, r.session, r.n, r.id, s.agent, r.lease
			FROM runs r INDEXED BY runs_going CROSS JOIN trees t ON t.no = r.tree CROSS JOIN sessions s ON s.tree = r.tree AND s.n = r.session
			WHERE r.ended IS NULL AND r.lease IS NOT NULL`, w.recallLease},
		{"deadlines", `SELECT t.root, s.tree, s.n, s.id, s.deadline
			FROM sessions s INDEXED BY sessions_going CROSS JOIN trees t ON t.no = s.tree
			WHERE (s.ended IS NULL OR s.open > 0) AND (s.n > 1 OR s.ending <> '') AND s.deadline IS NOT NULL`, w.recallDeadline},
		{"cascades", `SELECT t.root, c.tree, c.session, s.id
			FROM cascades c CROSS JOIN trees t ON t.no = c.tree CROSS JOIN sessions s ON s.tree = c.tree AND s.n = c.session`, w.recallCascade},
	} {
		rows, err := w.conn.QueryContext(ctx, r.query)
		if err == nil {
			err = each(rows, func() error { return r.note(rows) })
		}
		if err != nil {
			return fmt.Errorf("reading the %s: %w", r.what, err)
		}
	}
	return nil
}

func (w *writer) recallLease(row scanner) error {
	var root, id, agent string
	var at runPlace
	var lease int64
	if err := row.Scan(&root, &at.tree, &at.session, &at.n, &id, &agent, &lease); err != nil {
		return err
	}
	w.held.hold(agent, at, fromNanos(lease))
	w.agenda.set(at.tree, root, item{kind: aRun, session: at.session, n: at.n}, id, fromNanos(lease))
	return nil
}

func (w *writer) recallDeadline(row scanner) error {
	var root, id string
	var at place
	var deadline int64
	if err := row.Scan(&root, &at.tree, &at.n, &id, &deadline); err != nil {
		return err
	}
	w.agenda.set(at.tree, root, item{kind: aSession, session: at.n}, id, fromNanos(deadline))
	return nil
}

func (w *writer) recallCascade(row scanner) error {
	var root, id string
	var at place
	if err := row.Scan(&root, &at.tree, &at.n, &id); err != nil {
		return err
	}
	w.agenda.set(at.tree, root, item{kind: aCascade, session: at.n}, id, fromNanos(1)) // due at once
	return nil
}

// queue is a heap of what knows its place in it.
type queue[T queued[T]] []T

type queued[T any] interface {
	before(other T) bool
	moved(to int)
}

// Len implements [heap.Interface].
func (q queue[T]) Len() int { return len(q) }

// Less implements [heap.Interface].
func (q queue[T]) Less(i, j int) bool { return q[i].before(q[j]) }

// Swap implements [heap.Interface].
func (q queue[T]) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].moved(i)
	q[j].moved(j)
}

// Push implements [heap.Interface].
func (q *queue[T]) Push(x any) {
	v := x.(T) // heap.Push is called above, with nothing else
	v.moved(len(*q))
	*q = append(*q, v)
}

// Pop implements [heap.Interface].
func (q *queue[T]) Pop() any {
	last := len(*q) - 1
	v := (*q)[last]
	var none T
	(*q)[last] = none // forgets it
	*q = (*q)[:last]
	return v
}
