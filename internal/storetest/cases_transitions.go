package storetest

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

var verbs = []lineage.Verb{
	lineage.VerbComplete, lineage.VerbFail, lineage.VerbSuspend, lineage.VerbResume, lineage.VerbCancel,
}

// standing is what a session of any kind but main can be brought to.
type standing struct {
	name  string
	bring func(w *world, c *call) sessions.Grant
	only  lineage.Kind   // that it is for; empty: any
	takes []lineage.Verb // what a branch takes there; a worker is neither suspended nor resumed
	busy  bool           // a run is open in it or waits
	waits bool           // a run waits for an answer
	state lineage.State  // while it goes on
}

var (
	whileActive    = []lineage.Verb{lineage.VerbComplete, lineage.VerbFail, lineage.VerbSuspend, lineage.VerbCancel}
	whileParked    = []lineage.Verb{lineage.VerbComplete, lineage.VerbFail, lineage.VerbResume, lineage.VerbCancel}
	whileOtherwise = []lineage.Verb{lineage.VerbComplete, lineage.VerbFail, lineage.VerbCancel}
)

var standings = []standing{
	{name: "open", takes: whileActive, busy: true, state: lineage.Active, bring: func(_ *world, c *call) sessions.Grant {
		return c.ok()
	}},
	{name: "idle", takes: whileActive, state: lineage.Active, bring: (*world).bringIdle},
	{name: "reserved", takes: whileActive, state: lineage.Active, bring: func(_ *world, c *call) sessions.Grant {
		return c.reserved().ok()
	}},
	{name: "waiting", takes: whileOtherwise, busy: true, waits: true, state: lineage.Suspended, bring: func(w *world, c *call) sessions.Grant {
		return w.waiting(c, w.id("task"))
	}},
	{name: "parked with a run", only: lineage.Branch, takes: whileParked, busy: true, state: lineage.Suspended, bring: func(w *world, c *call) sessions.Grant {
		return w.brought(c.ok(), lineage.VerbSuspend)
	}},
	{name: "parked idle", only: lineage.Branch, takes: whileParked, state: lineage.Suspended, bring: func(w *world, c *call) sessions.Grant {
		return w.brought(w.bringIdle(c), lineage.VerbSuspend)
	}},
	{name: "ending", takes: whileOtherwise, busy: true, state: lineage.Active, bring: func(w *world, c *call) sessions.Grant {
		return w.brought(c.ok(), lineage.VerbCancel)
	}},
	{name: "ending and waiting", takes: whileOtherwise, busy: true, waits: true, state: lineage.Suspended, bring: func(w *world, c *call) sessions.Grant {
		g := w.brought(c.ok(), lineage.VerbCancel)
		w.suspends(g)
		return g
	}},
	{name: "completed", bring: func(w *world, c *call) sessions.Grant { return w.brought(c.ok(), lineage.VerbComplete) }},
	{name: "completed, with a run since", bring: func(w *world, c *call) sessions.Grant {
		w.brought(c.ok(), lineage.VerbComplete)
		return c.again().ok()
	}},
	{name: "failed", bring: func(w *world, c *call) sessions.Grant { return w.brought(c.ok(), lineage.VerbFail) }},
	{name: "canceled", bring: func(w *world, c *call) sessions.Grant { return w.brought(w.bringIdle(c), lineage.VerbCancel) }},
	{name: "lost", bring: func(w *world, c *call) sessions.Grant {
		g := c.ok()
		w.clock.advance(2 * lease)
		w.settle()
		return g
	}},
	{name: "expired", bring: func(w *world, c *call) sessions.Grant {
		g := w.bringIdle(c.ttl(time.Minute))
		w.clock.advance(2 * time.Minute)
		w.settle()
		return g
	}},
}

// bringIdle brings a session to be there with nothing in it.
func (w *world) bringIdle(c *call) sessions.Grant {
	w.Helper()
	if c.Kind == lineage.Worker { // it ends with its run: only one that has had none is idle
		return c.reserved().ok()
	}
	g := c.ok()
	w.completes(g)
	return g
}

// brought takes the session of g a step further.
func (w *world) brought(g sessions.Grant, verb lineage.Verb) sessions.Grant {
	w.Helper()
	w.step(verb, g).ok()
	return g
}

func (c *call) reserved() *call { return c.with(func(a *sessions.Admission) { a.Ahead = true }) }

// allows reports whether a session of a kind takes a verb in that standing.
func (st *standing) allows(verb lineage.Verb, kind lineage.Kind) bool {
	if (verb == lineage.VerbSuspend || verb == lineage.VerbResume) && kind != lineage.Branch {
		return false
	}
	return slices.Contains(st.takes, verb)
}

// Every verb in every standing of every kind: what is not allowed changes
// nothing, and what is leads where it should.
func everyStep(w *world) {
	for _, kind := range []lineage.Kind{lineage.Branch, lineage.Worker} {
		for i, st := range standings {
			if st.only != "" && st.only != kind {
				continue
			}
			root := fmt.Sprintf("steps-%s-%d", kind, i)
			for _, verb := range verbs {
				c := w.call("a").in(w.id("context")).to(root)
				if kind == lineage.Worker {
					c.worker()
				}
				g := st.bring(w, c)
				step := w.step(verb, g).with(func(c *sessions.Change) {
					if c.Verb == lineage.VerbFail {
						c.Reason = "why"
					}
				})
				if !st.allows(verb, kind) {
					step.conflicts(st.waits)
					continue
				}
				s := step.ok()
				if want, got := st.after(verb), spellState(s.State, s.Reason); got != want {
					w.Errorf("a %s that is %s is %s after %s, want %s", kind, st.name, got, verb, want)
				}
				if asked := verb == lineage.VerbCancel && st.busy; asked != (s.Ending != "") {
					w.Errorf("a %s that is %s is ending because of %q after %s", kind, st.name, s.Ending, verb)
				}
			}
		}
	}
}

// after is where a verb that is allowed leads.
func (st *standing) after(verb lineage.Verb) string {
	switch verb {
	case lineage.VerbComplete:
		return "completed"
	case lineage.VerbFail:
		return "failed/why"
	case lineage.VerbSuspend:
		return "suspended"
	case lineage.VerbResume:
		return "active"
	case lineage.VerbCancel:
		if !st.busy {
			return "failed/canceled"
		}
	}
	return string(st.state) // only its grace begins
}

func mainSteps(w *world) {
	for i, verb := range verbs {
		w.call("a").isolated().to(fmt.Sprint(w.root, "-", i)).ok()
		main, err := w.store.Sessions(w.Context(), w.extra[i], sessions.SessionQuery{Limit: 1})
		if err != nil {
			w.Fatalf("Sessions(%s): %v", w.extra[i], err)
		}
		g := sessions.Grant{Session: main.Sessions[0]}
		switch verb {
		case lineage.VerbSuspend, lineage.VerbResume:
			w.step(verb, g).conflicts(false)
		case lineage.VerbComplete, lineage.VerbFail, lineage.VerbCancel:
			want := map[lineage.Verb]string{
				lineage.VerbComplete: "completed", lineage.VerbFail: "failed", lineage.VerbCancel: "failed/canceled",
			}[verb]
			s := w.step(verb, g).ok()
			w.equal("main after "+string(verb), want, spellState(s.State, s.Reason))
			for _, again := range verbs {
				w.step(again, g).conflicts(false)
			}
		}
	}
}

func stepOfUnknown(w *world) {
	g := w.call("a").in("ctx-a").ok()
	other := w.call("a").isolated().to(w.root + "-other").ok()
	before := w.dump(w.root)
	for what, f := range map[string]func(*sessions.Change){
		"tree":              func(c *sessions.Change) { c.Root = "no-tree" },
		"session":           func(c *sessions.Change) { c.Session = "no-session" },
		"session elsewhere": func(c *sessions.Change) { c.Session = other.Session.ID },
		"no session":        func(c *sessions.Change) { c.Session = "" },
	} {
		for _, verb := range verbs {
			if _, err := w.step(verb, g).with(f).apply(); !errors.Is(err, sessions.ErrNotFound) {
				w.Errorf("Apply(%s of unknown %s) = %v, want ErrNotFound", verb, what, err)
			}
		}
	}
	w.equal("what steps of unknown sessions change", before, w.dump(w.root))
}
