package lineage_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// sets draws sets of few tokens, so that they often overlap.
var sets = rapid.Custom(func(t *rapid.T) lineage.Tokens {
	drawn := rapid.SliceOfNDistinct(rapid.Uint32Range(1, 6), 0, 6, rapid.ID).Draw(t, "tokens")
	slices.Sort(drawn)
	var set lineage.Tokens
	for _, tok := range drawn {
		set = append(set, lineage.Token(tok))
	}
	return set
})

func TestIn(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		a, b lineage.Tokens
		want bool
	}{
		{nil, nil, true},
		{nil, lineage.Tokens{1}, true},
		{lineage.Tokens{}, nil, true},
		{lineage.Tokens{1}, nil, false},
		{lineage.Tokens{1}, lineage.Tokens{1}, true},
		{lineage.Tokens{2}, lineage.Tokens{1, 2, 3}, true},
		{lineage.Tokens{1, 3}, lineage.Tokens{1, 2, 3}, true},
		{lineage.Tokens{1, 4}, lineage.Tokens{1, 2, 3}, false},
		{lineage.Tokens{1, 2, 3}, lineage.Tokens{1, 3}, false},
		{lineage.Tokens{1}, lineage.Tokens{10, 11}, false},
		{lineage.Tokens{10}, lineage.Tokens{1}, false},
	} {
		if got := tt.a.In(tt.b); got != tt.want {
			t.Errorf("%v.In(%v) = %t, want %t", tt.a, tt.b, got, tt.want)
		}
	}
}

func TestInIsSubset(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		a, b, c := sets.Draw(t, "a"), sets.Draw(t, "b"), sets.Draw(t, "c")
		every := true
		for _, tok := range a {
			every = every && slices.Contains(b, tok)
		}
		if got := a.In(b); got != every {
			t.Errorf("%v.In(%v) = %t, want %t", a, b, got, every)
		}
		if !a.In(a) {
			t.Errorf("%v.In itself = false", a)
		}
		if a.In(b) && b.In(a) && !slices.Equal(a, b) {
			t.Errorf("%v and %v are in each other", a, b)
		}
		if a.In(b) && b.In(c) && !a.In(c) {
			t.Errorf("%v ⊆ %v ⊆ %v, and %v.In(%v) = false", a, b, c, a, c)
		}
		if lineage.Visible(a, b) != a.In(b) {
			t.Errorf("Visible(%v, %v) = %t", a, b, lineage.Visible(a, b))
		}
		if !lineage.Visible(nil, a) {
			t.Errorf("Visible(nil, %v) = false, want an event without a stamp to be seen by all", a)
		}
	})
}

func TestTokensSpelling(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		set := sets.Draw(t, "set")
		if back := lineage.ParseTokens(set.String()); !slices.Equal(back, set) {
			t.Errorf("ParseTokens(%q) = %v, want %v", set.String(), back, set)
		}
	})
	for spelling, want := range map[string]lineage.Tokens{
		"":                nil,
		"7":               {7},
		"1,20,4294967295": {1, 20, 4294967295},
		"1,x,,-2,3":       {1, 3}, // what is no number is left out
		"4294967296":      nil,
	} {
		if got := lineage.ParseTokens(spelling); !slices.Equal(got, want) {
			t.Errorf("ParseTokens(%q) = %v, want %v", spelling, got, want)
		}
	}
}

func TestWithSharesNothing(t *testing.T) {
	t.Parallel()
	base := make(lineage.Tokens, 1, 8)
	base[0] = 1
	two, three := base.With(2), base.With(3)
	if two.String() != "1,2" || three.String() != "1,3" || base.String() != "1" {
		t.Errorf("With(2), With(3) of 1 = %v, %v", two, three)
	}
}

// place is a session in a tree that grows at random.
type place struct {
	path        []int // token of each level: its dot-path
	stamp, read lineage.Tokens
}

// Where every child inherits in full and nothing is joined, tokens say what
// dot-paths say: one sees one's own events and those above.
func TestVisibleIsDotPath(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		all := []place{{}}
		for next := 1; next < 25; next++ {
			parent := all[rng.IntN(len(all))]
			stamp, read := lineage.SpawnTokens(parent.stamp, parent.read, lineage.Token(next), lineage.InheritFull)
			all = append(all, place{append(slices.Clone(parent.path), next), stamp, read})
		}
		for _, event := range all {
			for _, viewer := range all {
				above := len(event.path) <= len(viewer.path) && slices.Equal(event.path, viewer.path[:len(event.path)])
				if got := lineage.Visible(event.stamp, viewer.read); got != above {
					t.Fatalf("Visible(%v of path %v, %v of path %v) = %t, want %t", event.stamp, event.path, viewer.read, viewer.path, got, above)
				}
			}
		}
	}
}

// Labels that begin alike are no kin: agent a is not ab, and the first child
// is not the tenth, though their labels are prefixes of each other.
func TestVisibleByTokenNotByLabel(t *testing.T) {
	t.Parallel()
	type session struct {
		label       string
		stamp, read lineage.Tokens
	}
	spawn := func(agent string, ordinal int, token lineage.Token) session {
		stamp, read := lineage.SpawnTokens(nil, nil, token, lineage.InheritFull)
		return session{lineage.Label("orch", agent, ordinal), stamp, read}
	}
	pairs := [][2]session{
		{spawn("a", 1, 1), spawn("ab", 1, 2)},
		{spawn("agent", 1, 1), spawn("agent", 10, 10)},
		{spawn("agent-1", 1, 1), spawn("agent-1", 11, 11)},
	}
	for _, p := range pairs {
		for _, o := range [][2]session{p, {p[1], p[0]}} {
			if lineage.Visible(o[0].stamp, o[1].read) {
				t.Errorf("events of %s are visible to %s", o[0].label, o[1].label)
			}
		}
		if !strings.HasPrefix(p[1].label, strings.TrimSuffix(p[0].label, "@1")) {
			t.Errorf("labels %s and %s do not begin alike: the test is none", p[0].label, p[1].label)
		}
	}
}

func TestSpawnTokens(t *testing.T) {
	t.Parallel()
	stamp, read := lineage.Tokens{1, 4}, lineage.Tokens{1, 2, 4}
	for inherit, want := range map[lineage.Inherit][2]string{
		lineage.InheritFull:    {"1,4,9", "1,2,4,9"},
		lineage.InheritSummary: {"9", "9"},
		lineage.InheritNone:    {"9", "9"},
	} {
		s, r := lineage.SpawnTokens(stamp, read, 9, inherit)
		if got := [2]string{s.String(), r.String()}; got != want {
			t.Errorf("SpawnTokens(%v, %v, 9, %s) = %v, want %v", stamp, read, inherit, got, want)
		}
		if lineage.Visible(s, read) {
			t.Errorf("inherit %s: the parent sees its child's events", inherit)
		}
		if sees := lineage.Visible(stamp, r); sees != (inherit == lineage.InheritFull) {
			t.Errorf("inherit %s: the child sees its parent's events: %t", inherit, sees)
		}
		if !lineage.Visible(s, r) {
			t.Errorf("inherit %s: the child does not see its own events", inherit)
		}
	}
}

func TestLabel(t *testing.T) {
	t.Parallel()
	label := lineage.Label(lineage.Label("coordinator", "worker", 3), "tool-1", 12)
	if want := "coordinator.worker@3.tool-1@12"; label != want {
		t.Errorf("Label = %q, want %q", label, want)
	}
}

func ExampleVisible() {
	// The root spawns two children; the first spawns a child of its own.
	stamp1, read1 := lineage.SpawnTokens(nil, nil, 1, lineage.InheritFull)
	_, read2 := lineage.SpawnTokens(nil, nil, 2, lineage.InheritFull)
	_, read3 := lineage.SpawnTokens(stamp1, read1, 3, lineage.InheritFull)

	fmt.Println("a child sees the root:        ", lineage.Visible(nil, read1))
	fmt.Println("a sibling sees the first:     ", lineage.Visible(stamp1, read2))
	fmt.Println("the first's child sees it:    ", lineage.Visible(stamp1, read3))
	// Output:
	// a child sees the root:         true
	// a sibling sees the first:      false
	// the first's child sees it:     true
}
