package sqlite

import (
	"fmt"
	"sort"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// checkCaps counts what the caps are about.
func (b *batch) checkCaps(p *plan) error {
	a, limits := p.a, p.a.Limits
	if p.held {
		limits = lineage.Limits{} // takes no place: only the caller's own standing counts
	}
	if a.Ahead {
		limits.MaxFanOut, limits.MaxConcurrent = 0, 0 // opens no run
	}
	place := lineage.Place{
		Agent: a.Agent, Kind: a.Kind,
		Caller: &p.caller.Session, CallerDepth: p.caller.Depth, OpenRuns: p.caller.out,
		New: p.session == nil, NoMadeLimit: p.tree.CatchAll, Live: p.session != nil && p.session.live(),
		AgentRuns: b.held.count(a.Agent, b.now),
	}
	if p.stranger && p.main.over() {
		place.Caller = &p.main.Session // below which it is for all that is known
	}
	if p.parent != nil {
		place.Siblings, place.ParentID, place.ParentLabel = p.parent.liveChildren, p.parent.ID, p.parent.Branch
	}
	// A place held by an ancestor never blocks its descendants. (In this tree
	// nothing that is open has lapsed: that has just been settled.)
	for s := p.caller; ; {
		if s.Agent == a.Agent {
			place.Visits++
			place.AgentRuns -= s.open
		}
		if s == p.main {
			break
		}
		if s.parent == rootN {
			s = p.main
			continue
		}
		var err error
		if s, err = b.session(p.tree, s.parent); err != nil {
			return err
		}
	}
	if place.New && !place.NoMadeLimit {
		var err error
		if place.Made, err = b.made(p.tree, a.Turn, limits.MaxSessions); err != nil {
			return err
		}
	}
	if refusal := limits.Check(place); refusal != nil {
		return refusal
	}
	return nil
}

// made counts the sessions made in t in a turn, or in the last window where no
// turn is known. While the tree has made fewer than limit at all, that is answer
// enough.
func (b *batch) made(t *treeRow, turn string, limit int) (int, error) {
	switch {
	case limit <= 0 || t.made < limit:
		return t.made, nil
	case turn != "":
		if err := b.writeTurns(); err != nil {
			return 0, err
		}
		n, err := one(b, func(row scanner) (*int, error) {
			var n int
			return &n, row.Scan(&n)
		}, `SELECT made FROM turns WHERE tree = ? AND turn = ?`, t.no, turn)
		if err != nil {
			return 0, fmt.Errorf("counting the sessions of turn %s: %w", turn, err)
		}
		if n == nil {
			return 0, nil
		}
		return *n, nil
	}
	// Sessions are numbered in the order of their times: a binary search finds
	// the first in the window, and the one before says how many were made by then.
	since := b.now.Add(-lineage.SessionsWindow)
	var failed error
	first := sort.Search(t.Sessions, func(i int) bool {
		s, err := b.session(t, i+1)
		if err != nil {
			failed = err
			return true
		}
		return s.CreatedAt.After(since)
	})
	if failed != nil || first == 0 {
		return t.made, failed
	}
	before, err := b.session(t, first)
	if err != nil {
		return 0, err
	}
	return t.made - before.made, nil
}
