package main

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// start begins work for a caller, in a session and through a sidecar's first life.
func start(l *ledger, agent, context, caller string, sidecar int) *work {
	w := &work{agent: agent, context: context, caller: caller, message: "m-" + context, by: life{sidecar, 1}}
	l.begin(w)
	return w
}

func TestLedgerHoldsCaps(t *testing.T) {
	t.Parallel()
	const children, concurrent = 3, 2
	for _, tt := range []struct {
		name   string
		events func(l *ledger)
		want   int // breaches
	}{
		{"as many sessions as the cap", func(l *ledger) {
			for i := range children {
				start(l, "worker", fmt.Sprint("c", i), "root", i)
			}
		}, 0},
		{"one more", func(l *ledger) {
			for i := range children + 1 {
				start(l, "worker", fmt.Sprint("c", i), "root", i)
			}
		}, 1},
		{"for two callers", func(l *ledger) {
			for i := range 2 * children {
				start(l, "worker", fmt.Sprint("c", i), fmt.Sprint("root", i%2), 0)
			}
		}, 0},
		{"one session counts once", func(l *ledger) {
			for range children + 1 {
				start(l, "worker", "c", "root", 0)
			}
		}, 0},
		{"one context at two agents is two sessions", func(l *ledger) {
			for i := range children + 1 {
				start(l, fmt.Sprint("agent", i), "c", "root", 0)
			}
		}, 1},
		{"what has ended makes room", func(l *ledger) {
			for i := range children + 1 {
				l.end(start(l, "worker", fmt.Sprint("c", i), "root", 0))
			}
		}, 0},
		{"as much work as an agent's cap", func(l *ledger) {
			for i := range concurrent {
				start(l, "scarce", fmt.Sprint("c", i), fmt.Sprint("root", i), 0)
			}
		}, 0},
		{"more than an agent's cap, in one session even", func(l *ledger) {
			for i := range concurrent + 1 {
				start(l, "scarce", "c", fmt.Sprint("root", i), 0)
			}
		}, 1},
		{"a killed sidecar's calls do not count", func(l *ledger) {
			for i := range children + 1 {
				start(l, "worker", fmt.Sprint("c", i), "root", i)
				l.killing(life{0, 1})
			}
		}, 0},
		{"nor those of it that begin after its death", func(l *ledger) {
			l.killing(life{0, 1})
			for i := range children + 1 {
				start(l, "worker", fmt.Sprint("c", i), "root", min(i, 1))
			}
		}, 0},
		{"those of others do", func(l *ledger) {
			l.killing(life{0, 1})
			for i := range children + 1 {
				start(l, "worker", fmt.Sprint("c", i), "root", 1)
			}
		}, 1},
		{"a caller that has gone leaves work adrift", func(l *ledger) {
			for i := range children + 1 {
				start(l, "worker", fmt.Sprint("c", i), "root", 0)
				l.leaving("m-c0")
			}
		}, 0},
		{"what a master's death may have lost does not count", func(l *ledger) {
			start(l, "worker", "before", "root", 0)
			l.forgetting()
			start(l, "worker", "after", "root", 0)
			for i := range children {
				time.Sleep(2 * forgets)
				start(l, "worker", fmt.Sprint("c", i), "root", 0)
			}
		}, 0},
		{"what is older than that does", func(l *ledger) {
			start(l, "worker", "before", "root", 0)
			time.Sleep(2 * forgets)
			l.forgetting()
			time.Sleep(2 * forgets)
			for i := range children {
				start(l, "worker", fmt.Sprint("c", i), "root", 0)
			}
		}, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				l := newLedger(children, map[string]int{"scarce": concurrent})
				tt.events(l)
				if got := len(l.breaches); got != tt.want {
					t.Errorf("%d breaches, want %d: %q", got, tt.want, l.breaches)
				}
			})
		})
	}
}

func TestLedgerTellsOfChanges(t *testing.T) {
	t.Parallel()
	l := newLedger(1, nil)
	changed := l.await()
	w := start(l, "worker", "c", "root", 0)
	<-changed
	changed = l.await()
	if got := l.at("worker"); got != 1 {
		t.Errorf("at(worker) = %d, want 1", got)
	}
	l.end(w)
	<-changed
	if got := l.at(""); got != 0 {
		t.Errorf("at() = %d, want 0", got)
	}
}
