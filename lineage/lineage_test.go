package lineage_test

import (
	"encoding/json"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

var states = []lineage.State{lineage.Active, lineage.Suspended, lineage.Completed, lineage.Failed, lineage.Expired}

func TestCanBecome(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		from   lineage.State
		reason string
		want   string // of the states, in their order: those that may come next
	}{
		{lineage.Active, "", " scfe"},
		{lineage.Suspended, "", "a cfe"},
		{lineage.Completed, "", "     "},
		{lineage.Completed, lineage.ReasonLost, "     "},
		{lineage.Failed, "", "     "},
		{lineage.Failed, lineage.ReasonCanceled, "     "},
		{lineage.Failed, lineage.ReasonLost, "ascf "}, // a guess, which the agent's own word corrects
		{lineage.Expired, "", "     "},
		{lineage.Expired, lineage.ReasonLost, "     "},
	} {
		for i, next := range states {
			if got, want := tt.from.CanBecome(tt.reason, next), tt.want[i] != ' '; got != want {
				t.Errorf("%s.CanBecome(%q, %s) = %t, want %t", tt.from, tt.reason, next, got, want)
			}
		}
	}
}

func TestTerminal(t *testing.T) {
	t.Parallel()
	for i, want := range []bool{false, false, true, true, true} {
		if got := states[i].Terminal(); got != want {
			t.Errorf("%s.Terminal() = %t, want %t", states[i], got, want)
		}
	}
}

func TestLive(t *testing.T) {
	t.Parallel()
	runs := func(states ...lineage.State) []lineage.Run {
		var all []lineage.Run
		for _, s := range states {
			all = append(all, lineage.Run{State: s})
		}
		return all
	}
	for _, tt := range []struct {
		session lineage.Session
		want    bool
	}{
		{lineage.Session{State: lineage.Active}, false},
		{lineage.Session{State: lineage.Active, Runs: runs(lineage.Completed, lineage.Failed)}, false},
		{lineage.Session{State: lineage.Active, Runs: runs(lineage.Completed, lineage.Active)}, true},
		{lineage.Session{State: lineage.Active, Runs: runs(lineage.Suspended)}, true},
		{lineage.Session{State: lineage.Suspended, Runs: runs(lineage.Suspended)}, true},
		{lineage.Session{State: lineage.Suspended, Runs: runs(lineage.Completed)}, false}, // on request, while idle
		{lineage.Session{State: lineage.Active, Reserved: true}, true},
		{lineage.Session{State: lineage.Failed, Runs: runs(lineage.Active)}, true}, // tried again
		{lineage.Session{State: lineage.Failed, Runs: runs(lineage.Failed)}, false},
	} {
		if got := tt.session.Live(); got != tt.want {
			t.Errorf("%+v.Live() = %t, want %t", tt.session, got, tt.want)
		}
	}
}

// Readers of the JSON need not know null where there is a list.
func TestTokensJSON(t *testing.T) {
	t.Parallel()
	for want, tokens := range map[string]lineage.Tokens{"[]": nil, "[1]": {1}, "[1,20,4294967295]": {1, 20, 4294967295}} {
		got, err := json.Marshal(struct{ T lineage.Tokens }{tokens})
		if err != nil || string(got) != `{"T":`+want+`}` {
			t.Errorf("Marshal(%v) = %s, %v, want %s", tokens, got, err, want)
		}
		var back struct{ T lineage.Tokens }
		if err := json.Unmarshal(got, &back); err != nil || back.T.String() != tokens.String() {
			t.Errorf("Unmarshal(%s) = %v, %v, want %v", got, back.T, err, tokens)
		}
	}
}
