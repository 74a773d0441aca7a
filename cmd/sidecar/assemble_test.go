package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// The record knows the agents as the configuration has them.
func TestSessionAgents(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	plain, own := config.NewAgent("plain", "http://plain"), config.NewAgent("own", "http://own")
	own.IsolateSessions, own.ContextIDs, own.Kind = true, config.ContextIDsAgent, config.KindWorker
	own.OnParentEnd, own.Reconcile, own.TTL = config.OnParentEndAbandon, 10*time.Second, new(time.Hour)
	own.Limits.MaxConcurrent, own.Limits.MaxChildren = 3, new(2)
	cfg.Agents = []config.Agent{plain, own}
	all, err := proxyAgents(&cfg)
	if err != nil {
		t.Fatal(err)
	}
	limits := lineage.Limits{MaxDepth: 4, MaxChildren: 8, MaxSessions: 1000, MaxVisits: 2, QueueTimeout: 5 * time.Minute}
	narrow := limits
	narrow.MaxChildren, narrow.MaxConcurrent = 2, 3
	want := []sessions.Agent{
		{
			Name: "plain", ContextIDs: contextid.Sidecar, Kind: lineage.Branch, Inherit: lineage.InheritFull,
			TTL: lineage.DefaultBranchTTL, Limits: limits,
		},
		{
			Name: "own", Isolate: true, ContextIDs: contextid.Agent, Kind: lineage.Worker, Inherit: lineage.InheritNone,
			TTL: time.Hour, Limits: narrow, Abandon: true, Reconcile: 10 * time.Second,
		},
	}
	if diff := cmp.Diff(want, sessionAgents(all)); diff != "" {
		t.Errorf("agents of the record (-want +got):\n%s", diff)
	}
}

// A call whose session is canceled has the grace that is configured, and what
// comes within it counts. Without one it ends at once, whatever its agent does:
// here nothing, since nobody has heard of a task to cancel yet.
func TestGrace(t *testing.T) {
	t.Parallel()
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			began, release := make(chan struct{}, 2), make(chan struct{})
			agent := startAgent(t, agents.Options{Name: "worker", Work: waitFor(began, release)})
			for _, grace := range []time.Duration{0, 90 * time.Second} {
				file := filepath.Join(t.TempDir(), "sidecar.yml")
				yml := fmt.Sprintf("agents:\n  - {name: worker, url: %q, isolateSessions: true}\nlimits: {grace: %s}\nstore: %q\n", agent.URL(), grace, store)
				if err := os.WriteFile(file, []byte(yml), 0o600); err != nil {
					t.Fatal(err)
				}
				s := startServe(t, "--config", file)
				root := "grace of " + grace.String()
				ended := make(chan reply, 1)
				go func() {
					r, err := post(t.Context(), s.url("worker"), sendBody("m-1", root))
					if err != nil {
						t.Error(err)
					}
					ended <- r
				}()
				<-began
				tree, err := s.client(t).Tree(t.Context(), root)
				if err != nil {
					t.Fatal(err)
				}
				asked, err := s.client(t).Step(t.Context(), tree.Sessions[1].ID, lineage.VerbCancel, adminapi.StepRequest{})
				if err != nil {
					t.Fatal(err)
				}
				if grace > 0 {
					if asked.Ending != lineage.ReasonCanceled || asked.Deadline == nil || asked.Deadline.Sub(asked.UpdatedAt).Round(time.Second) != grace {
						t.Errorf("session that is to end = %q, deadline %v, want canceled, %s from now", asked.Ending, asked.Deadline, grace)
					}
					close(release)
				}
				if r := <-ended; (r.Error == nil) != (grace > 0) || r.Error != nil && !strings.Contains(r.Error.Message, "it was canceled") {
					t.Errorf("%s: call whose session was canceled = %+v, want an answer only within a grace", root, r.Error)
				}
				got, err := s.client(t).Session(t.Context(), asked.ID)
				if err != nil || got.State != map[bool]lineage.State{true: lineage.Completed, false: lineage.Failed}[grace > 0] {
					t.Errorf("%s: session = %s %s, %v", root, got.State, got.Reason, err)
				}
				s.shutdown(t)
			}
		})
	}
}
