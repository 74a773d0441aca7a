package sqlite

import "time"

// held are the places that active runs hold at each agent, over all trees.
// A place is held until its lease lapses, whether or not the run has been
// settled: the runs of a sidecar that died block no agent.
type held map[string]*leases

// leases are the leases at one agent.
type leases struct {
	until map[runPlace]time.Time
	first time.Time // none lapses before
}

func (h held) hold(agent string, at runPlace, until time.Time) {
	l := h[agent]
	if l == nil {
		l = &leases{until: map[runPlace]time.Time{}, first: until}
		h[agent] = l
	}
	l.until[at] = until
	if until.Before(l.first) {
		l.first = until
	}
}

func (h held) free(agent string, at runPlace) {
	if l := h[agent]; l != nil {
		if delete(l.until, at); len(l.until) == 0 {
			delete(h, agent)
		}
	}
}

// count returns how many places are held at agent. It looks at each lease only
// once the first of them may have lapsed.
func (h held) count(agent string, now time.Time) int {
	l := h[agent]
	if l == nil {
		return 0
	}
	if !l.first.After(now) {
		l.first = time.Time{}
		for at, until := range l.until {
			switch {
			case !until.After(now):
				delete(l.until, at)
			case l.first.IsZero() || until.Before(l.first):
				l.first = until
			}
		}
		if len(l.until) == 0 {
			delete(h, agent)
		}
	}
	return len(l.until)
}
