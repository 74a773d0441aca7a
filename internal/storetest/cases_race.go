package storetest

import (
	"errors"
	"fmt"
	"sync"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

const racers = 64

// race runs f once for each racer, all at the same moment.
func race(f func(i int)) {
	var ready, done sync.WaitGroup
	start := make(chan struct{})
	ready.Add(racers)
	for i := range racers {
		done.Go(func() {
			ready.Done()
			<-start
			f(i)
		})
	}
	ready.Wait()
	close(start)
	done.Wait()
}

// admitAll races the calls and returns those granted; any other must have been
// refused for the reason.
func (w *world) admitAll(calls []*call, otherwise lineage.Reason) []sessions.Grant {
	w.Helper()
	var mu sync.Mutex // guards granted
	var granted []sessions.Grant
	race(func(i int) {
		g, err := calls[i].apply()
		var refusal *lineage.Refusal
		switch {
		case err == nil:
			mu.Lock()
			granted = append(granted, g)
			mu.Unlock()
		case !errors.As(err, &refusal) || refusal.Reason != otherwise:
			w.Errorf("Apply(racing call) = %v, want a grant or %q", err, otherwise)
		}
	})
	return granted
}

func raceChildren(w *world) {
	var calls []*call
	for range racers {
		calls = append(calls, w.call("a").isolated().max(lineage.Limits{MaxChildren: 8}))
	}
	granted := w.admitAll(calls, lineage.ChildrenLimit)
	w.equal("grants", 8, len(granted))
	w.live(8)
	w.completes(granted[0])
	w.call("a").isolated().max(lineage.Limits{MaxChildren: 8}).ok()
}

func raceRetries(w *world) {
	first := w.call("a").isolated()
	calls := []*call{first}
	for range racers - 1 {
		calls = append(calls, first.again())
	}
	gens := map[int]bool{}
	made := 0
	for _, g := range w.admitAll(calls, "") {
		gens[g.Gen] = true
		if g.New {
			made++
		}
	}
	w.equal("sessions made, gens given, sessions there", []int{1, racers, 2}, []int{made, len(gens), w.tree().Sessions})
	w.equal("events", 3, len(w.logged()))
}

func raceFirst(w *world) {
	var calls []*call
	for i := range racers {
		calls = append(calls, w.call(fmt.Sprintf("agent-%d", i%4)).shared())
	}
	w.equal("grants", racers, len(w.admitAll(calls, "")))
	w.equal("sessions: one of each agent, and the root's", 5, w.tree().Sessions)
	w.live(4)
}

// No store may ever hold more runs open than the cap. One that reserves places
// before it looks may refuse more than it must while they race, never after.
func raceConcurrency(w *world) {
	cap8 := lineage.Limits{MaxConcurrent: 8}
	var calls []*call
	for i := range racers {
		calls = append(calls, w.call("a").isolated().max(cap8).to(fmt.Sprintf("tree-%d", i%8)))
	}
	granted := len(w.admitAll(calls, lineage.ConcurrencyLimit))
	if granted > 8 {
		w.Errorf("%d runs are open, at most 8 are allowed", granted)
	}
	for ; granted < 8; granted++ {
		w.call("a").isolated().max(cap8).ok()
	}
	if _, err := w.call("a").isolated().max(cap8).apply(); err == nil {
		w.Errorf("a ninth run was granted")
	}
}

func raceClaims(w *world) {
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "a", ID: w.id("ctx")}
	got := make([]sessions.Binding, racers)
	race(func(i int) {
		var err error
		if got[i], err = w.store.Claim(w.Context(), key, sessions.Binding{Root: fmt.Sprintf("claimer-%d", i), Principal: alice}); err != nil {
			w.Errorf("Claim(%v) = %v", key, err)
		}
	})
	for i, b := range got {
		if b != got[0] {
			w.Fatalf("claimer %d was told %v, claimer 0 %v", i, b, got[0])
		}
	}
	w.belongs(key.Kind, key.Agent, key.ID, got[0])
}

func raceNews(w *world) {
	g := w.call("a").in("ctx-a").ok()
	race(func(i int) {
		n := w.about(g).event(fmt.Sprintf("own-%02d", i), lineage.EventArtifact, `{}`).event("common", lineage.EventArtifact, `{}`)
		if i == 0 {
			n.is(lineage.Completed, "")
		}
		if err := n.apply(); err != nil {
			w.Errorf("Apply(racing news) = %v", err)
		}
	})
	w.equal("artifacts", racers+1, len(w.logged(lineage.EventArtifact)))
	w.stands(g, "active", "completed")
}

func raceSecret(w *world) {
	got := make([]string, racers)
	race(func(i int) {
		s, err := w.store.Secret(w.Context())
		if err != nil {
			w.Errorf("Secret() = %v", err)
		}
		got[i] = string(s)
	})
	for i, s := range got {
		if s != got[0] {
			w.Fatalf("racer %d was given another secret than racer 0", i)
		}
	}
}
