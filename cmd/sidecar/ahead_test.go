package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// The first call that names the context of a session that was spawned ahead
// runs in it, whether the agent's sessions are isolated or not, and whether the
// caller says where it stands or not.
func TestSpawnedAheadRunsItsCall(t *testing.T) {
	t.Parallel()
	inStores(t, func(g *grove) (string, func(*grove)) {
		agent := startAgent(g.T, agents.Options{Name: "worker", Behaviour: agents.Echo})
		yml := fmt.Sprintf("agents:\n  - {name: shared, url: %[1]q}\n  - {name: isolated, url: %[1]q, isolateSessions: true}\n", agent.URL())
		return yml, func(g *grove) { ahead(g, agent) }
	})
}

// ahead spawns sessions and calls the agent in them, in every way.
func ahead(g *grove, agent *agents.Agent) {
	g.Helper()
	for i, tt := range []struct {
		agent   string
		isolate *bool // of the request
		headers bool  // the caller names its tree
		ends    bool  // the session ends with its call
	}{
		{"shared", nil, true, false},
		{"shared", nil, false, false},
		{"isolated", nil, true, true},
		{"isolated", nil, false, true},
		{"shared", new(true), true, true},
		{"isolated", new(false), true, false},
	} {
		s := g.make(adminapi.SpawnRequest{Agent: tt.agent, Isolate: tt.isolate})
		var header []string
		if tt.headers {
			header = []string{"X-Kagent-Root-Context-Id", g.root}
		}
		// The sidecar that runs the call need not be the one that spawned.
		at := g.sidecars[i%len(g.sidecars)]
		session, contextID := callNaming(g.T, at.url(tt.agent), s.ContextID, s.ID+"-1", header...)
		if session != s.ID || contextID != s.ContextID {
			g.Errorf("%+v: first call ran in %s, context %s, want %s, %s", tt, session, contextID, s.ID, s.ContextID)
		}
		if _, ran := agent.Contexts()[s.ContextID]; !ran {
			g.Errorf("%+v: agent has no context %s", tt, s.ContextID)
		}
		after, err := at.client(g.T).Session(g.Context(), s.ID)
		if err != nil {
			g.Fatal(err)
		}
		if after.State.Terminal() != tt.ends || after.Reserved || len(after.Runs) != 1 {
			g.Errorf("%+v: session is %s, reserved %t, with %d runs; want 1 run, ended %t", tt, after.State, after.Reserved, len(after.Runs), tt.ends)
		}
		// Another call that names it shares the session where sessions are shared.
		session, _ = callNaming(g.T, at.url(tt.agent), s.ContextID, s.ID+"-2", header...)
		if shares := tt.agent == "shared" && !tt.ends; (session == s.ID) != shares {
			g.Errorf("%+v: second call ran in %s, want it in %s: %t", tt, session, s.ID, shares)
		}
	}
}

// callNaming sends a message that names a context, and returns the session and
// the context that it ran in.
func callNaming(t *testing.T, url, contextID, messageID string, header ...string) (session, ranIn string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(sendBody(messageID, contextID)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer drain(resp)
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var r reply
	if err := json.Unmarshal(body, &r); err != nil || r.Error != nil {
		t.Fatalf("call = %s, %v, want an answer", body, err)
	}
	return resp.Header.Get(lineage.HeaderSession), resp.Header.Get(lineage.HeaderContext)
}
