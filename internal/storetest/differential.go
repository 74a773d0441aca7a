package storetest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

const (
	lookEvery = 10  // steps between two looks at everything
	maxTries  = 120 // replays to make a failing script short
)

// Differential plays so many random steps on a store and on [Model]; at each
// they must say the same, and now and then all that can be read of them is
// compared. The seed alone decides the steps. When the two differ, the steps
// that are not needed for it are left out and the others printed.
func Differential(t *testing.T, open Open, seed uint64, steps int) {
	t.Helper()
	p := newPlay(t, open)
	g := newGenerator(seed, p.model)
	var script []step
	for len(script) < steps {
		st := g.step()
		script = append(script, st)
		if p.step(t.Context(), st, len(script)%lookEvery == 0 || len(script) == steps) != "" {
			script, why := shortest(t, open, script)
			var list strings.Builder
			for _, st := range script {
				fmt.Fprintln(&list, st)
			}
			t.Fatalf("with seed %d the store differs from the model after these steps:\n%s%s", seed, &list, why)
		}
	}
}

// play is a store and a model that live through the same, at the same time.
type play struct {
	clock *clock
	model *Model
	store sessions.Store
	heard [2]*listener // of the model, of the store
}

// probes is the tree in which the listeners make both say something.
const probes = "probes"

func newPlay(tb testing.TB, open Open) *play {
	tb.Helper()
	c := newClock()
	p := &play{clock: c, model: NewModel(c.now), store: open(tb, c.now)}
	p.heard = [...]*listener{listen(tb, p.model, probes), listen(tb, p.store, probes)}
	return p
}

// step makes one step happen and returns how the two differ, if they do.
func (p *play) step(ctx context.Context, st step, look bool) string {
	p.clock.advance(st.Advance)
	want, got := st.do(ctx, p.model), st.do(ctx, p.store)
	if d := diff(want, got); d != "" {
		return "what they say to the last of them (-model +store):\n" + d
	}
	if fault := p.withinCap(st, want); fault != "" {
		return fault
	}
	if look {
		return p.look(ctx)
	}
	return ""
}

// withinCap returns what is wrong with a new session that was just admitted.
func (p *play) withinCap(st step, out outcome) string {
	if len(st.Ops) != 1 || st.Ops[0].Admit == nil || !out.Grants[0].New {
		return ""
	}
	a := st.Ops[0].Admit
	t := p.model.trees[a.Root]
	live := t.liveChildren(t.node(out.Grants[0].Session.ID).parent)
	if a.Limits.MaxChildren > 0 && live > a.Limits.MaxChildren {
		return fmt.Sprintf("the parent of session %s has %d live children, at most %d are allowed", a.SessionID, live, a.Limits.MaxChildren)
	}
	return ""
}

// look compares all that can be read of the two.
func (p *play) look(ctx context.Context) string {
	var roots []string
	for root := range p.model.trees {
		if root != probes {
			roots = append(roots, root)
		}
	}
	slices.Sort(roots)
	for _, root := range roots {
		want, err := read(ctx, p.model, root)
		if err != nil {
			return fmt.Sprintf("reading the model's tree %s: %v", root, err)
		}
		got, err := read(ctx, p.store, root)
		if err != nil {
			return fmt.Sprintf("reading the store's tree %s: %v", root, err)
		}
		if d := diff(want, got); d != "" {
			return fmt.Sprintf("tree %s (-model +store):\n%s", root, d)
		}
		if err := want.consistent(ctx, p.model); err != nil {
			return fmt.Sprintf("the model's tree %s: %v", root, err)
		}
		if err := got.consistent(ctx, p.store); err != nil {
			return fmt.Sprintf("the store's tree %s: %v", root, err)
		}
		if d := p.views(ctx, root, want); d != "" {
			return d
		}
	}
	return cmp.Or(p.lists(ctx), p.bindings(ctx), p.notices(ctx))
}

// notices compares which runs the two have wanted stopped so far. How often a
// store says it, and in which order, is its own affair.
func (p *play) notices(ctx context.Context) string {
	var all [2][]string
	for i, l := range p.heard {
		cancels, err := l.all(ctx)
		if err != nil {
			return "waiting for notices: " + err.Error()
		}
		for _, c := range cancels {
			all[i] = append(all[i], fmt.Sprintf("%+v", c))
		}
		slices.Sort(all[i])
	}
	if d := diff(all[0], all[1]); d != "" {
		return "runs that are to stop (-model +store):\n" + d
	}
	return ""
}

// views compares what the sessions of a tree may read of it, and its pages.
func (p *play) views(ctx context.Context, root string, d *dump) string {
	for _, q := range []sessions.SessionQuery{{Limit: 2}, {After: len(d.Sessions) / 2, Limit: 3}, {After: len(d.Sessions)}} {
		want, err := p.model.Sessions(ctx, root, q)
		if err != nil {
			return fmt.Sprintf("the model's sessions %+v: %v", q, err)
		}
		got, err := p.store.Sessions(ctx, root, q)
		if err != nil {
			return fmt.Sprintf("the store's sessions %+v: %v", q, err)
		}
		if d := diff(want, got); d != "" {
			return fmt.Sprintf("sessions of tree %s, %+v (-model +store):\n%s", root, q, d)
		}
	}
	for i, s := range d.Sessions {
		for _, q := range []sessions.EventQuery{
			{Read: s.Read, LastN: 3},
			{All: true, Session: s.ID, LastN: 2, Types: []string{lineage.EventSent, lineage.EventStatus}},
			{Read: s.Read, After: uint64(i), Limit: 2},
		} {
			want, err := p.model.Events(ctx, root, q)
			if err != nil {
				return fmt.Sprintf("the model's events %+v: %v", q, err)
			}
			got, err := p.store.Events(ctx, root, q)
			if err != nil {
				return fmt.Sprintf("the store's events %+v: %v", q, err)
			}
			if d := diff(want.Events, got.Events); d != "" {
				return fmt.Sprintf("events of tree %s, %+v (-model +store):\n%s", root, q, d)
			}
		}
	}
	return ""
}

// lists compares the lists of trees, but for the order of those of one instant.
func (p *play) lists(ctx context.Context) string {
	for _, q := range []sessions.TreeQuery{
		{}, {State: lineage.TreeActive}, {State: lineage.TreeIdle}, {Agent: "a"}, {Agent: "side"}, {Text: "r"}, {Text: "2"},
	} {
		var pages [2]sessions.TreePage
		for i, s := range []sessions.Store{p.model, p.store} {
			var err error
			if pages[i], err = s.Trees(ctx, q); err != nil {
				return fmt.Sprintf("Trees(%+v): %v", q, err)
			}
			slices.SortFunc(pages[i].Trees, func(a, b lineage.Tree) int { return cmp.Compare(a.Root, b.Root) })
		}
		if d := diff(pages[0], pages[1]); d != "" {
			return fmt.Sprintf("Trees(%+v) (-model +store):\n%s", q, d)
		}
	}
	return ""
}

// bindings compares what the ids that were drawn belong to.
func (p *play) bindings(ctx context.Context) string {
	var keys []sessions.BindingKey
	for _, agent := range []string{"a", "b", "c", "side", "coordinator"} {
		for n := 1; n <= 5; n++ {
			keys = append(
				keys,
				sessions.BindingKey{Kind: sessions.BindContext, Agent: agent, ID: fmt.Sprint("c", n)},
				sessions.BindingKey{Kind: sessions.BindContext, Agent: agent, ID: fmt.Sprint("x", n)},
				sessions.BindingKey{Kind: sessions.BindContext, Agent: agent, ID: fmt.Sprint("r", n)},
				sessions.BindingKey{Kind: sessions.BindTask, Agent: agent, ID: fmt.Sprint("t", n)},
			)
		}
	}
	for _, key := range keys {
		want, errModel := p.model.Find(ctx, key)
		got, errStore := p.store.Find(ctx, key)
		if errors.Is(errModel, sessions.ErrNotFound) != errors.Is(errStore, sessions.ErrNotFound) || want != got {
			return fmt.Sprintf("Find(%v) = %v, %v, the model's is %v, %v", key, got, errStore, want, errModel)
		}
		if errModel == nil {
			if d := p.sessionOf(ctx, want.Root, key); d != "" {
				return d
			}
		}
	}
	return ""
}

// sessionOf compares which session of a tree an id leads to.
func (p *play) sessionOf(ctx context.Context, root string, key sessions.BindingKey) string {
	want, errModel := p.model.SessionOf(ctx, root, key)
	got, errStore := p.store.SessionOf(ctx, root, key)
	if d := cmp.Or(diff(faultOf(errModel), faultOf(errStore)), diff(want, got)); d != "" {
		return fmt.Sprintf("SessionOf(%s, %v) (-model +store):\n%s", root, key, d)
	}
	return ""
}

// shortest leaves out of a failing script what it fails without, and says how
// the store differs in the end.
func shortest(t *testing.T, open Open, script []step) (short []step, why string) {
	t.Helper()
	tries := 0
	fails := func(script []step) (again string, failing []step) {
		if tries++; tries > maxTries {
			return "", nil
		}
		// A subtest, so that its store is closed before the next is opened.
		t.Run("replay", func(t *testing.T) {
			p := newPlay(t, open)
			for i, st := range script {
				if again = p.step(t.Context(), st, true); again != "" {
					failing = script[:i+1]
					return
				}
			}
		})
		return again, failing
	}
	why, short = fails(script)
	if short == nil {
		return script, "but not when they are played once more: the store is not deterministic"
	}
	if again, failing := fails(singles(short)); failing != nil {
		why, short = again, failing
	}
	for size := len(short) / 2; size > 0; size /= 2 {
		for from := 0; from+size <= len(short); {
			again, failing := fails(slices.Concat(short[:from], short[from+size:]))
			if failing == nil {
				from += size
				continue
			}
			why, short = again, failing
		}
	}
	return short, why
}
