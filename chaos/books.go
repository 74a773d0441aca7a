package main

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// books is the balance of a world: what the callers saw, what the agents did and
// what the record tells, side by side, and what does not fit.
type books struct {
	world    *world
	seed     uint64
	loaded   time.Duration // how long calls were made
	quieted  time.Duration // how long it took until nothing was live
	trees    int
	events   int
	runs     map[standing]int
	sessions map[standing]int
	taken    int // places: what begins to run takes one, what ends or waits frees it
	freed    int
	live     int

	// Of messages.
	good       int // answered
	told       int // answered, and the record says so
	cut        int // answered just before the sidecar that heard it was killed, which the record never heard
	begun      int // that an agent worked on
	unrecorded int // of them, those of which no run tells
	unfinished int // answered, and no run says so

	overdue    int64
	complaints map[string]int
	findings   []string
}

// standing is a state with the reason for it.
type standing struct {
	state  lineage.State
	reason string
}

// dying is how long before its death a sidecar may have passed on an answer that
// it had not told the store yet: milliseconds, but on a loaded machine.
const dying = 2 * time.Second

// maxFindings of one kind are told; more say nothing new.
const maxFindings = 20

func (w *world) balance(ctx context.Context) (*books, error) {
	b := &books{world: w, runs: map[standing]int{}, sessions: map[standing]int{}, complaints: map[string]int{}}
	found, err := w.trees(ctx)
	if err != nil {
		return nil, err
	}
	calls := w.tally.all()
	known := map[string]bool{}
	for _, root := range w.tally.roots() {
		known[root] = true
	}
	accounts, err := w.read(ctx, found)
	if err != nil {
		return nil, err
	}
	recorded, completed := map[string]bool{}, map[string]bool{} // messages, by their runs
	for i, a := range accounts {
		if !known[a.root] {
			b.find("tree %s: nobody called in that conversation", a.root)
		}
		b.live += found[i].Live
		b.events += len(a.log)
		b.add(a)
		stands := map[string]lineage.State{} // runs
		for _, s := range a.state {
			for _, run := range s.Runs {
				stands[run.ID] = run.State
			}
		}
		for id, run := range a.sent {
			recorded[id] = true
			if stands[run] == lineage.Completed {
				completed[id] = true
			}
			if c, ok := calls[id]; !ok || c.root != a.root {
				b.find("tree %s: message %s of run %s: nobody sent that there", a.root, id, run)
			}
		}
	}
	b.trees = len(accounts)
	b.messages(calls, recorded, completed)
	b.ledger()
	if w.store.overdue != nil {
		if b.overdue, err = w.store.overdue(ctx, time.Now().Add(-5*time.Second)); err != nil {
			return nil, fmt.Errorf("asking the store for what is overdue: %w", err)
		}
		if b.overdue > 0 {
			b.find("%d trees have been due for more than 5 s, and nobody settles them", b.overdue)
		}
	}
	for _, s := range w.sidecars {
		said, err := s.complaints()
		if err != nil {
			return nil, err
		}
		for what, n := range said {
			b.complaints[what] += n
		}
	}
	return b, nil
}

func (b *books) find(format string, args ...any) {
	b.findings = append(b.findings, fmt.Sprintf(format, args...))
}

// add enters one tree.
func (b *books) add(a *account) {
	b.findings = append(b.findings, a.audit()...)
	for _, s := range a.state {
		b.sessions[standing{s.State, s.Reason}]++
		for _, run := range s.Runs {
			b.runs[standing{run.State, run.Reason}]++
		}
	}
	b.taken += a.taken
	b.freed += a.freed
}

// messages holds the callers' word against the record's.
func (b *books) messages(calls map[string]call, recorded, completed map[string]bool) {
	w := b.world
	w.ledger.mu.Lock()
	begun := maps.Clone(w.ledger.begun)
	w.ledger.mu.Unlock()
	b.begun = len(begun)
	for _, id := range slices.Sorted(maps.Keys(begun)) {
		if recorded[id] {
			continue
		}
		if b.unrecorded++; w.store.keeps {
			b.find("message %s of %s reached its agent, and no run tells of it", id, calls[id].root)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(calls)) {
		c := calls[id]
		if !c.answered {
			continue
		}
		b.good++
		killed := w.sidecars[c.by.Sidecar].killedAt(c.by.Number)
		switch {
		case completed[id]:
			b.told++
		case !killed.IsZero() && killed.Sub(c.at) < dying:
			b.cut++
		default:
			if b.unfinished++; w.store.keeps {
				b.find("message %s to %s in %s was answered, and no completed run tells of it", id, c.agent, c.root)
			}
		}
	}
}

// ledger enters what was seen at the agents.
func (b *books) ledger() {
	l := b.world.ledger
	l.mu.Lock()
	defer l.mu.Unlock()
	b.findings = append(b.findings, l.breaches...)
	if n := len(l.atWork); n > 0 {
		b.find("%d messages are still at work at the agents", n)
	}
}

// trees lists all trees, by the admin API of the first sidecar.
func (w *world) trees(ctx context.Context) ([]lineage.Tree, error) {
	api, err := w.sidecars[0].api()
	if err != nil {
		return nil, err
	}
	var all []lineage.Tree
	q := adminapi.TreesQuery{Limit: adminapi.MaxPage}
	for {
		page, err := api.Trees(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, page.Trees...)
		if q.Cursor = page.Next; q.Cursor == "" {
			return all, nil
		}
	}
}

// read reads all of some trees, as many at a time as there are sidecars to ask.
func (w *world) read(ctx context.Context, trees []lineage.Tree) ([]*account, error) {
	accounts := make([]*account, len(trees))
	errs := make([]error, len(w.sidecars))
	var readers sync.WaitGroup
	for n, s := range w.sidecars {
		readers.Go(func() {
			api, err := s.api()
			for i := n; i < len(trees) && err == nil; i += len(w.sidecars) {
				accounts[i], err = readAccount(ctx, api, trees[i].Root)
			}
			errs[n] = err
		})
	}
	readers.Wait()
	for _, err := range errs {
		if err != nil {
			return nil, err
		}
	}
	return accounts, nil
}

func readAccount(ctx context.Context, api *adminapi.Client, root string) (*account, error) {
	a := &account{root: root}
	view, err := api.Tree(ctx, root)
	if err != nil {
		return nil, err
	}
	for _, s := range view.Sessions {
		a.state = append(a.state, s.Session)
	}
	q := adminapi.EventsQuery{As: adminapi.AsAll, Limit: adminapi.MaxPage}
	for {
		page, err := api.Events(ctx, root, q)
		if err != nil {
			return nil, err
		}
		a.log = append(a.log, page.Events...)
		if len(page.Events) == 0 || page.Next <= q.After {
			return a, nil
		}
		q.After = page.Next
	}
}
