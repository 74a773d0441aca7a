package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// grove is a tree that a test grows by the API.
type grove struct {
	*testing.T
	sidecars []*served // one, or two over a store that can be shared
	root     string
}

// nowhere is where an agent is that is never called.
const nowhere = "http://127.0.0.1:1"

// inGroves plays a test over each store, with agents a, b, c and d (branches)
// and leaf (a worker), which are not there. More is further configuration.
func inGroves(t *testing.T, more string, play func(g *grove)) {
	t.Helper()
	yml := more + "agents:\n"
	for _, name := range []string{"a", "b", "c", "d"} {
		yml += fmt.Sprintf("  - {name: %s, url: %q}\n", name, nowhere)
	}
	yml += fmt.Sprintf("  - {name: leaf, url: %q, kind: worker}\n", nowhere)
	inStores(t, func(*grove) (string, func(*grove)) { return yml, play })
}

// inStores plays a test over each store. What prepares one returns the
// configuration, but for the store.
func inStores(t *testing.T, prepare func(g *grove) (yml string, play func(g *grove))) {
	t.Helper()
	for name, sidecars := range map[string]int{"sqlite": 1, "redis": 2} { // a SQLite file is one sidecar's own
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := "sqlite:" + filepath.Join(t.TempDir(), "tree.db")
			if name == "redis" {
				store = redistest.Start(t).URL()
			}
			g := &grove{T: t, root: "conversation/1"}
			yml, play := prepare(g)
			file := filepath.Join(t.TempDir(), "sidecar.yml")
			if err := os.WriteFile(file, fmt.Appendf(nil, "%sstore: %q\n", yml, store), 0o600); err != nil {
				t.Fatal(err)
			}
			for range sidecars {
				g.sidecars = append(g.sidecars, startServe(t, "--config", file))
			}
			play(g)
		})
	}
}

// try spawns a session at the nth sidecar (they take turns).
func (g *grove) try(n int, r adminapi.SpawnRequest) (lineage.Session, bool, error) {
	g.Helper()
	r.Root = g.root
	return g.sidecars[n%len(g.sidecars)].client(g.T).Spawn(g.Context(), r)
}

// spawn spawns a session below parent, the root session if that is empty.
func (g *grove) spawn(parent, agent string) lineage.Session {
	g.Helper()
	return g.make(adminapi.SpawnRequest{Parent: parent, Agent: agent})
}

func (g *grove) make(r adminapi.SpawnRequest) lineage.Session {
	g.Helper()
	s, made, err := g.try(0, r)
	if err != nil || !made {
		g.Fatalf("spawn %+v = made %t, %v", r, made, err)
	}
	if s.ContextID == "" || s.Agent != r.Agent || s.State != lineage.Active || !s.Reserved || s.Tree != g.root {
		g.Fatalf("spawn %+v = %+v, want a reserved session with a context", r, s)
	}
	return s
}

// refused tries to spawn a session, and returns the problem that this must be.
func (g *grove) refused(r adminapi.SpawnRequest, status int, reason lineage.Reason) adminapi.Problem {
	g.Helper()
	s, _, err := g.try(0, r)
	return problemOf(g.T, fmt.Sprintf("spawn %+v = %s,", r, s.ID), err, status, string(reason))
}

func problemOf(t *testing.T, what string, err error, status int, reason string) adminapi.Problem {
	t.Helper()
	p, ok := err.(*adminapi.Problem) //nolint:errorlint // the client returns it bare
	if !ok || p.Status != status || p.Reason != reason || p.Detail == "" {
		t.Fatalf("%s %v (%+v), want status %d, reason %s", what, err, p, status, reason)
	}
	return *p
}

// step takes a session a step further, which must be possible.
func (g *grove) step(id string, verb lineage.Verb, r adminapi.StepRequest) lineage.Session {
	g.Helper()
	s, err := g.sidecars[0].client(g.T).Step(g.Context(), id, verb, r)
	if err != nil {
		g.Fatalf("%s %s: %v", verb, id, err)
	}
	return s
}

// conflict tries to take a session a step further, which must be a conflict.
func (g *grove) conflict(id string, verb lineage.Verb) {
	g.Helper()
	_, err := g.sidecars[0].client(g.T).Step(g.Context(), id, verb, adminapi.StepRequest{})
	problemOf(g.T, fmt.Sprintf("%s %s:", verb, id), err, http.StatusConflict, adminapi.ReasonConflict)
}

func (g *grove) session(id string) lineage.Session {
	g.Helper()
	s, err := g.sidecars[0].client(g.T).Session(g.Context(), id)
	if err != nil {
		g.Fatal(err)
	}
	return s
}

func (g *grove) tree() adminapi.TreeView {
	g.Helper()
	tree, err := g.sidecars[0].client(g.T).Tree(g.Context(), g.root)
	if err != nil {
		g.Fatal(err)
	}
	return tree
}

// events returns what a viewer sees of the log.
func (g *grove) events(as string, types ...string) []lineage.Event {
	g.Helper()
	page, err := g.sidecars[0].client(g.T).Events(g.Context(), g.root, adminapi.EventsQuery{As: as, Types: types, Limit: adminapi.MaxPage})
	if err != nil {
		g.Fatal(err)
	}
	return page.Events
}

// waitFor is the work of an agent that tells when it has begun, and ends when
// release is closed or the task is canceled.
func waitFor(began chan<- struct{}, release <-chan struct{}) func(context.Context) error {
	return func(ctx context.Context) error {
		began <- struct{}{}
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
