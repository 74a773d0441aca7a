package storetest

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Property lets three sidecars live over one store, at random: they make calls
// and ask for sessions ahead, tell what became of them, renew, are killed and
// replaced, lose replies and ask again, say things twice or too late, while
// time jumps on. After every step the store must have said what [Model] says,
// no cap may be exceeded and no book be out of balance; and when all is over,
// every place must be free.
//
// -rapid.checks says how many lives there are (else a few), -rapid.steps how long
// they last (30 bursts). A life that goes wrong is cut down to what is needed
// for it.
func Property(t *testing.T, open Open) {
	t.Helper()
	few := true
	flag.Visit(func(f *flag.Flag) { few = few && f.Name != "rapid.checks" })
	lives := 0
	rapid.Check(t, func(rt *rapid.T) {
		if lives++; few && lives > fewLives {
			return // rapid's own default is too many for every run of the tests
		}
		failed := true
		defer func() { few = few && !failed }() // what fails is lived through again, to make it short
		l := newLife(t, rt, open)
		rt.Repeat(map[string]func(*rapid.T){"": func(*rapid.T) {}, "burst": l.burst})
		l.ends(rt)
		failed = false
	})
}

// fewLives is how many there are unless somebody asks for more.
const fewLives = 20

// Bounds of a life, in the order in which they pass at its end.
const (
	longestLease = 45 * time.Second
	longestTTL   = 90 * time.Second
)

// What may happen, more often what stands there more often.
var (
	happenings = strings.Fields("call call call call call request again again answer answer " +
		"news news news news stale beat beat step step step arrive arrive settle time time time kill")
	roots  = []string{"r1", "r2"}
	agents = []string{"a", "b", "c"}
)

// burst is a few things that happen, and a look at the books after each.
func (l *life) burst(rt *rapid.T) {
	for range rapid.IntRange(1, 4).Draw(rt, "burst") {
		happens := map[string]func(*rapid.T){
			"call": l.call, "request": l.request, "again": l.again, "answer": l.answer, "news": l.news, "stale": l.staleNews,
			"beat": l.beat, "step": l.change, "arrive": l.arrive, "kill": l.kill, "time": l.time,
			"settle": func(rt *rapid.T) { l.do(rt, step{Settle: true}) },
		}
		happens[rapid.SampledFrom(happenings).Draw(rt, "happening")](rt)
		l.balanced(rt)
	}
}

// life is one random history of a store.
type life struct {
	ctx   context.Context
	clock *clock
	model *Model
	store sessions.Store
	caps  lineage.Limits // of all its calls

	last     int            // number of the last id
	looked   map[string]int // at so many events of a tree
	sidecars []*sidecar
	wire     []message            // on their way to the store, in no order
	sent     []sessions.Admission // all that was ever asked for, and may be again
}

// span is a test as long as one life: what is opened for the life is closed
// with it.
type span struct {
	testing.TB
	rt *rapid.T
}

func (s span) Cleanup(f func())         { s.rt.Cleanup(f) }
func (s span) Context() context.Context { return s.rt.Context() }

func newLife(tb testing.TB, rt *rapid.T, open Open) *life {
	tb.Helper()
	c := newClock()
	l := &life{
		looked: map[string]int{},
		ctx:    rt.Context(), clock: c, model: NewModel(c.now), store: open(span{tb, rt}, c.now),
		caps: lineage.Limits{
			MaxChildren:   rapid.IntRange(1, 4).Draw(rt, "maxChildren"),
			MaxDepth:      rapid.SampledFrom([]int{4, 4, 3, 2, 1}).Draw(rt, "maxDepth"),
			MaxVisits:     rapid.SampledFrom([]int{0, 0, 2, 1}).Draw(rt, "maxVisits"),
			MaxFanOut:     rapid.SampledFrom([]int{0, 0, 2, 4}).Draw(rt, "maxFanOut"),
			MaxConcurrent: rapid.SampledFrom([]int{0, 0, 2, 4}).Draw(rt, "maxConcurrent"),
		},
	}
	for range 3 {
		l.sidecars = append(l.sidecars, &sidecar{owner: l.id("owner")})
	}
	return l
}

// do makes a step happen to the store and the model, who must agree on it.
func (l *life) do(rt *rapid.T, st step) outcome {
	rt.Logf("%s", st)
	l.clock.advance(st.Advance)
	want, got := st.do(l.ctx, l.model), st.do(l.ctx, l.store)
	if d := diff(want, got); d != "" {
		rt.Fatalf("%s (-model +store):\n%s", st, d)
	}
	return got
}

// dumps reads all trees that are there.
func (l *life) dumps(rt *rapid.T, from sessions.Store) []*dump {
	var all []*dump
	for _, root := range roots {
		if l.model.trees[root] != nil {
			all = append(all, l.dump(rt, from, root))
		}
	}
	return all
}

func (l *life) dump(rt *rapid.T, from sessions.Store, root string) *dump {
	d, err := read(l.ctx, from, root)
	if err != nil {
		rt.Fatalf("reading tree %s: %v", root, err)
	}
	return d
}

// balanced checks what holds at any time. It looks where something has happened:
// the model knows, and the store has said the same so far.
func (l *life) balanced(rt *rapid.T) {
	for _, root := range roots {
		t := l.model.trees[root]
		if t == nil || len(t.log) == l.looked[root] {
			continue
		}
		l.looked[root] = len(t.log)
		d := l.dump(rt, l.store, root)
		if err := d.balanced(); err != nil {
			rt.Fatalf("tree %s: %v", root, err)
		}
		l.withinCaps(rt, d)
	}
}

func (l *life) withinCaps(rt *rapid.T, d *dump) {
	live := map[string]int{}
	for i := range d.Sessions {
		s := &d.Sessions[i]
		if s.Live() {
			if live[s.Parent]++; s.Parent != "" && live[s.Parent] > l.caps.MaxChildren {
				rt.Fatalf("session %s has %d live children, at most %d are allowed", s.Parent, live[s.Parent], l.caps.MaxChildren)
			}
		}
		if deepest := l.caps.Deepest(s.Kind); !s.Remote && s.Kind != lineage.Main && s.Depth > deepest {
			rt.Fatalf("session %s, a %s, stands at depth %d, the deepest is %d", s.ID, s.Kind, s.Depth, deepest)
		}
		visits := 0
		for at := s; at != nil; at = d.session(at.Parent) {
			if at.Agent == s.Agent {
				visits++
			}
		}
		if l.caps.MaxVisits > 0 && visits > l.caps.MaxVisits && !s.Remote {
			rt.Fatalf("session %s: its agent stands %d times on its path, at most %d are allowed", s.ID, visits, l.caps.MaxVisits)
		}
	}
}

// ends kills everybody, lets all time pass, and looks whether anything is left.
func (l *life) ends(rt *rapid.T) {
	for _, s := range l.sidecars {
		s.held = nil
	}
	l.wire = nil
	pass := func(d time.Duration) {
		l.do(rt, step{Advance: onTheBeat(d)})
		l.do(rt, step{Settle: true})
		l.balanced(rt)
	}
	pass(longestLease)
	for _, d := range l.dumps(rt, l.store) {
		for _, s := range d.Sessions {
			open := slices.ContainsFunc(s.Runs, func(r lineage.Run) bool { return r.State == lineage.Active })
			if open {
				rt.Fatalf("a run is open in session %s, and nobody has renewed any", s.ID)
			}
			if s.State == lineage.Active && s.Live() && !s.Reserved && !waits(s) {
				rt.Fatalf("session %s is live, and nothing runs or waits in it", s.ID)
			}
		}
	}
	pass(longestTTL)
	pass(lineage.DefaultGrace)
	for _, d := range l.dumps(rt, l.store) {
		for _, s := range d.Sessions {
			if s.Live() || s.Kind != lineage.Main && !s.Remote && !s.State.Terminal() {
				rt.Fatalf("session %s is %s (live: %t), and all time is over", s.ID, s.State, s.Live())
			}
		}
	}
	if err := Consistent(l.ctx, l.store); err != nil {
		rt.Fatalf("in the end: %v", err)
	}
	if d := diff(l.dumps(rt, l.model), l.dumps(rt, l.store)); d != "" {
		rt.Fatalf("what is left (-model +store):\n%s", d)
	}
	l.placesAreFree(rt)
}

// waits reports whether a run of s is suspended.
func waits(s lineage.Session) bool {
	return slices.ContainsFunc(s.Runs, func(r lineage.Run) bool { return r.State == lineage.Suspended })
}

// placesAreFree takes the first place of every kind.
func (l *life) placesAreFree(rt *rapid.T) {
	for _, root := range slices.Concat(roots, []string{"r-new"}) {
		for _, agent := range agents {
			a := l.admission(root, agent)
			a.Limits = lineage.Limits{MaxChildren: 1, MaxFanOut: 1, MaxConcurrent: 1}
			a.Isolated, a.ContextID = true, l.id("context")
			out := l.do(rt, step{Ops: []sessions.Op{{Admit: a}}})
			ended := root != "r-new" && l.model.trees[root].main().State.Terminal()
			if refusal := out.Faults[0].Refusal; ended != (refusal != nil && refusal.Reason == lineage.ParentEnded) || !ended && refusal != nil {
				rt.Fatalf("the first call of agent %s after all is over: %+v", agent, out.Faults[0])
			}
			if !ended {
				l.do(rt, step{Ops: []sessions.Op{{Progress: &sessions.Progress{
					Root: root, Session: a.SessionID, Run: a.RunID, Gen: 1, Agent: agent, State: lineage.Completed,
				}}}})
			}
		}
	}
}
