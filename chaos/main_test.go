package main

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args   string
		worlds []string
		cases  bool
	}{
		{"", worldNames, true},
		{"-short", shortWorlds, true},
		{"-short -world sqlite", []string{worldSQLite}, false},
		{"-world cluster,cases", []string{worldCluster}, true},
	} {
		o, err := parse(strings.Fields(tt.args), io.Discard)
		if err != nil || !slices.Equal(o.worlds, tt.worlds) || o.cases != tt.cases {
			t.Errorf("parse(%s) = worlds %q, cases %t, %v, want %q, %t", tt.args, o.worlds, o.cases, err, tt.worlds, tt.cases)
		}
		if o.seed == 0 {
			t.Errorf("parse(%s) chose no seed", tt.args)
		}
	}
	if o, err := parse([]string{"-seed", "7"}, io.Discard); err != nil || o.seed != 7 {
		t.Errorf("parse(-seed 7) = seed %d, %v", o.seed, err)
	}
}

func TestWrongUsage(t *testing.T) {
	t.Parallel()
	for _, args := range []string{"-world mysql", "-duration 1s", "-nonsense", "word"} {
		var said strings.Builder
		if _, err := parse(strings.Fields(args), &said); !errors.Is(err, errUsage) || said.Len() == 0 {
			t.Errorf("parse(%s) = %v and said %q, want %v and a reason", args, err, &said, errUsage)
		}
	}
}

// What the sidecars are started with must be a configuration that they take,
// and hold the caps that the ledger holds them to.
func TestConfigIsValid(t *testing.T) {
	t.Parallel()
	w := &world{store: &store{url: "sqlite:x.db"}}
	for _, name := range []string{agentWorker, agentWriter, agentLead, agentScarce, agentAsker} {
		w.agents = append(w.agents, &agent{name: name, url: "http://127.0.0.1:1"})
	}
	c, err := load(w.config(chaosSettings))
	if err != nil {
		t.Fatal(err)
	}
	if c.Limits.MaxChildren != maxChildren || c.OnStoreDown != config.OnStoreDownRefuse {
		t.Errorf("maxChildren %d, onStoreDown %s, want %d, refuse", c.Limits.MaxChildren, c.OnStoreDown, maxChildren)
	}
	for _, a := range c.Agents {
		want := 0
		if a.Name == agentScarce {
			want = maxConcurrent
		}
		if a.Limits.MaxConcurrent != want || a.IsolateSessions == (a.Name == agentWriter) {
			t.Errorf("agent %s: maxConcurrent %d, isolateSessions %t", a.Name, a.Limits.MaxConcurrent, a.IsolateSessions)
		}
	}
}

// The same seed calls the same, and nothing takes longer than the places' leases.
func TestJobs(t *testing.T) {
	t.Parallel()
	one, two := seeded(7), seeded(7)
	seen := map[string]bool{}
	var walk func(j job, level int)
	walk = func(j job, level int) {
		seen[j.Agent], seen[string(j.Way)] = true, true
		if level > 0 && (j.Agent == agentWriter || j.Leave > 0) {
			t.Errorf("an agent's own call: %+v", j)
		}
		if level >= deepest && len(j.Next) > 0 {
			t.Errorf("at level %d, %s calls further", level, j.Agent)
		}
		for _, next := range j.Next {
			walk(next, level+1)
		}
	}
	for range 2000 {
		j := anyJob(one)
		if again := anyJob(two); again.Agent != j.Agent || again.Work != j.Work || len(again.Next) != len(j.Next) {
			t.Fatalf("one seed, two jobs: %+v and %+v", j, again)
		}
		if got := length(j); got > (deepest+1)*maxWork || got > grace {
			t.Errorf("a job of %s", got)
		}
		walk(j, 0)
	}
	for _, what := range []string{agentWorker, agentWriter, agentLead, agentScarce, agentAsker, string(send), string(stream), string(later)} {
		if !seen[what] {
			t.Errorf("no job of %s among 2000", what)
		}
	}
	if maxWork > time.Second {
		t.Errorf("maxWork = %s: sessions would outlive their TTL", maxWork)
	}
}
