package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// The conformance cases of a tree's shape and of the lives in it that need no
// agent to be at work, black-box: by the admin API of sidecars as serve runs
// them, over each store. The number in a test's name is the case's.

func TestCase29MainBranchBranchBranchWorker(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		parent, label := "", "coordinator"
		for depth, agent := range []string{"a", "b", "c", "leaf"} {
			s := g.spawn(parent, agent)
			label = lineage.Label(label, agent, 1)
			kind := lineage.Branch
			if agent == "leaf" {
				kind = lineage.Worker
			}
			if s.Depth != depth+1 || s.Kind != kind || s.Branch != label || s.Edge != lineage.EdgeSpawn || s.ParentSource != lineage.FromAPI {
				g.Errorf("spawn at %s = depth %d, %s, %s by %s, want depth %d, %s, %s by api", agent, s.Depth, s.Kind, s.Branch, s.ParentSource, depth+1, kind, label)
			}
			parent = s.ID
		}
		if tree := g.tree(); tree.Counts.Sessions != 5 || tree.Counts.Depth != 4 || tree.Counts.Live != 4 {
			g.Errorf("tree counts %+v, want 5 sessions, 4 of them live, depth 4", tree.Counts)
		}
	})
}

func TestCase30FourthLevelBranch(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		third := g.spawn(g.spawn(g.spawn("", "a").ID, "b").ID, "c")
		p := g.refused(adminapi.SpawnRequest{Parent: third.ID, Agent: "d"}, http.StatusBadRequest, lineage.DepthLimit)
		if p.Limit != "maxDepth" || p.Value != 3 || p.Count != 4 || p.Parent != third.Branch {
			g.Errorf("refusal = %+v, want maxDepth, 4 of 3, below %s", p, third.Branch)
		}
		// The same as a worker stands there.
		if s := g.make(adminapi.SpawnRequest{Parent: third.ID, Agent: "d", Kind: lineage.Worker}); s.Depth != 4 {
			g.Errorf("worker stands at depth %d, want 4", s.Depth)
		}
		if tree := g.tree(); tree.Counts.Sessions != 5 {
			g.Errorf("tree has %d sessions, want 5: nothing of what was refused", tree.Counts.Sessions)
		}
	})
}

func TestCase31SpawnBelowWorker(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		for _, worker := range []lineage.Session{
			g.spawn("", "leaf"),
			g.make(adminapi.SpawnRequest{Agent: "a", Kind: lineage.Worker}), // of a branch's agent
			g.spawn(g.spawn("", "a").ID, "leaf"),
		} {
			for _, agent := range []string{"leaf", "b"} {
				g.refused(adminapi.SpawnRequest{Parent: worker.ID, Agent: agent}, http.StatusBadRequest, lineage.LeafSession)
			}
		}
		// What is a branch in spite of its agent's configuration may have children.
		g.spawn(g.make(adminapi.SpawnRequest{Agent: "leaf", Kind: lineage.Branch}).ID, "b")
	})
}

func TestCase32NinthLiveChild(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		parent := g.spawn("", "a")
		var children []lineage.Session
		for range 8 {
			children = append(children, g.spawn(parent.ID, "b"))
		}
		for range 2 { // a refusal takes no place, and gives none
			p := g.refused(adminapi.SpawnRequest{Parent: parent.ID, Agent: "b"}, http.StatusTooManyRequests, lineage.ChildrenLimit)
			want := "fan-out limit reached: session " + parent.Branch + " has 8 of 8 children running (maxChildren); retry when one ends"
			if p.Limit != "maxChildren" || p.Value != 8 || p.Count != 8 || p.Parent != parent.Branch || p.Detail != want {
				g.Errorf("refusal = %+v, want maxChildren, 8 of 8, below %s, in words", p, parent.Branch)
			}
		}
		g.spawn("", "b") // another parent has places of its own

		for i, end := range []lineage.Verb{lineage.VerbComplete, lineage.VerbFail, lineage.VerbCancel} {
			g.step(children[i].ID, end, adminapi.StepRequest{})
			g.spawn(parent.ID, "b")
			g.refused(adminapi.SpawnRequest{Parent: parent.ID, Agent: "b"}, http.StatusTooManyRequests, lineage.ChildrenLimit)
		}
	})
}

func TestCase33ParallelSpawns(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		const calls, places = 64, 8
		errs := make(chan error, calls)
		for i := range calls {
			go func() {
				_, _, err := g.try(i, adminapi.SpawnRequest{Agent: "a"})
				errs <- err
			}()
		}
		refused := 0
		for range calls {
			if err := <-errs; err != nil {
				problemOf(g.T, "spawn", err, http.StatusTooManyRequests, string(lineage.ChildrenLimit))
				refused++
			}
		}
		tree := g.tree()
		if refused != calls-places || tree.Counts.Sessions != 1+places || tree.Counts.Live != places {
			g.Errorf("%d of %d spawns were refused, tree counts %+v; want exactly %d made", refused, calls, tree.Counts, places)
		}
	})
}

func TestCase34SameRequestAgain(t *testing.T) {
	t.Parallel()
	inGroves(t, "limits: {maxChildren: 2}\n", func(g *grove) {
		const calls = 16
		type answer struct {
			id   string
			made bool
			err  error
		}
		answers := make(chan answer, calls)
		for i := range calls {
			go func() {
				s, made, err := g.try(i, adminapi.SpawnRequest{Agent: "a", RequestID: "request-1"})
				answers <- answer{s.ID, made, err}
			}()
		}
		ids, made := map[string]bool{}, 0
		for range calls {
			a := <-answers
			if a.err != nil {
				g.Fatal(a.err)
			}
			ids[a.id] = true
			if a.made {
				made++
			}
		}
		if len(ids) != 1 || made != 1 {
			g.Errorf("%d times the same request made %d sessions (%v), want 1", calls, made, ids)
		}
		g.make(adminapi.SpawnRequest{Agent: "a", RequestID: "request-2"})
		// The tree is full, and the same request still finds its session.
		g.refused(adminapi.SpawnRequest{Agent: "a", RequestID: "request-3"}, http.StatusTooManyRequests, lineage.ChildrenLimit)
		s, again, err := g.try(1, adminapi.SpawnRequest{Agent: "a", RequestID: "request-1"})
		if err != nil || again || !ids[s.ID] {
			g.Errorf("the same request in a full tree = %s, made %t, %v, want the session of the first", s.ID, again, err)
		}
		// Even when that has ended.
		g.step(s.ID, lineage.VerbComplete, adminapi.StepRequest{})
		if s, again, err = g.try(0, adminapi.SpawnRequest{Agent: "a", RequestID: "request-1"}); err != nil || again || s.State != lineage.Completed {
			g.Errorf("the same request after the end = %+v, made %t, %v, want the session, completed", s, again, err)
		}
	})
}

func TestCase35SpawnUnderTerminalParent(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		for verb, state := range map[lineage.Verb]lineage.State{
			lineage.VerbComplete: lineage.Completed, lineage.VerbFail: lineage.Failed, lineage.VerbCancel: lineage.Failed,
		} {
			parent := g.spawn("", "a")
			if got := g.step(parent.ID, verb, adminapi.StepRequest{}); got.State != state || got.Reserved || got.EndedAt == nil {
				g.Errorf("%s = %+v, want it %s", verb, got, state)
			}
			p := g.refused(adminapi.SpawnRequest{Parent: parent.ID, Agent: "b"}, http.StatusConflict, lineage.ParentEnded)
			if p.Parent != parent.Branch || !strings.Contains(p.Detail, "has ended") {
				g.Errorf("refusal = %+v, want it to name %s", p, parent.Branch)
			}
			for _, again := range []lineage.Verb{lineage.VerbComplete, lineage.VerbFail, lineage.VerbSuspend, lineage.VerbResume, lineage.VerbCancel} {
				g.conflict(parent.ID, again)
			}
		}
		_, _, err := g.try(0, adminapi.SpawnRequest{Parent: "nobody", Agent: "a"})
		problemOf(g.T, "spawn below nobody:", err, http.StatusNotFound, "")
		_, _, err = g.try(0, adminapi.SpawnRequest{Agent: "nobody"})
		problemOf(g.T, "spawn at nobody:", err, http.StatusNotFound, adminapi.ReasonUnknownAgent)
	})
}

func TestCase40TimesToLive(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		for _, tt := range []struct {
			r    adminapi.SpawnRequest
			want time.Duration
		}{
			{adminapi.SpawnRequest{Agent: "a"}, 30 * time.Minute},
			{adminapi.SpawnRequest{Agent: "leaf"}, 5 * time.Minute},
			{adminapi.SpawnRequest{Agent: "a", Kind: lineage.Worker}, 5 * time.Minute},
			{adminapi.SpawnRequest{Agent: "leaf", Kind: lineage.Branch}, 30 * time.Minute},
			{adminapi.SpawnRequest{Agent: "a", TTL: new(adminapi.Duration(90 * time.Second))}, 90 * time.Second},
			{adminapi.SpawnRequest{Agent: "leaf", TTL: new(adminapi.Duration(time.Hour))}, time.Hour},
		} {
			s := g.make(tt.r)
			if s.Deadline == nil || s.Deadline.Sub(s.CreatedAt).Round(time.Second) != tt.want {
				g.Errorf("spawn %+v: created %s, deadline %v, want %s later", tt.r, s.CreatedAt, s.Deadline, tt.want)
			}
		}
		if main := g.tree().Sessions[0]; main.Kind != lineage.Main || main.Deadline != nil {
			g.Errorf("main session has the deadline %v, want none", main.Deadline)
		}
		// One that is over is over.
		brief := g.make(adminapi.SpawnRequest{Agent: "a", TTL: new(adminapi.Duration(20 * time.Millisecond))})
		within(g.T, 20*time.Second, "the session expires", func() bool { return g.session(brief.ID).State == lineage.Expired })
	})
}

func TestCase42Suspend(t *testing.T) {
	t.Parallel()
	inStores(t, func(g *grove) (string, func(*grove)) {
		began, release := make(chan struct{}, 1), make(chan struct{})
		slow := startAgent(g.T, agents.Options{Name: "slow", Work: waitFor(began, release)})
		echo := startAgent(g.T, agents.Options{Name: "echo", Behaviour: agents.Echo})
		yml := fmt.Sprintf("limits: {maxFanOut: 1, queueTimeout: 0s}\nagents:\n"+
			"  - {name: slow, url: %q}\n  - {name: echo, url: %q}\n  - {name: leaf, url: %q, kind: worker}\n", slow.URL(), echo.URL(), nowhere)
		return yml, func(g *grove) { suspends(g, began, release) }
	})
}

// suspends is case 42. A call to the agent slow has begun when began says so,
// and ends when release is closed.
func suspends(g *grove, began <-chan struct{}, release chan<- struct{}) {
	g.Helper()
	call := func(agent, id string) (reply, error) {
		return post(g.Context(), g.sidecars[0].url(agent), sendBody(id, g.root))
	}
	answered := func(agent, id string) bool {
		g.Helper()
		r, err := call(agent, id)
		if err != nil || r.Error != nil && r.Error.Code != -32050 {
			g.Fatalf("call %s = %+v, %v, want it answered or refused by a cap", id, r.Error, err)
		}
		return r.Error == nil
	}
	ended := make(chan reply, 1)
	go func() {
		r, err := call("slow", "m-1")
		if err != nil {
			g.Error(err)
		}
		ended <- r
	}()
	<-began
	if answered("echo", "m-2") {
		g.Fatal("a call beside another was answered, want it refused: maxFanOut is 1")
	}
	tree := g.tree()
	main, busy := tree.Sessions[0], tree.Sessions[1]
	got := g.step(busy.ID, lineage.VerbSuspend, adminapi.StepRequest{})
	if got.State != lineage.Suspended || got.Runs[0].State != lineage.Suspended || got.Runs[0].Reason != lineage.ReasonRequested {
		g.Errorf("suspended session = %s, run %s %s, want both suspended, as requested", got.State, got.Runs[0].State, got.Runs[0].Reason)
	}
	if !answered("echo", "m-3") {
		g.Error("a call beside a suspended one was refused, want it answered: that has yielded its place")
	}
	g.conflict(busy.ID, lineage.VerbSuspend)
	if got := g.step(busy.ID, lineage.VerbResume, adminapi.StepRequest{}); got.State != lineage.Active || got.Runs[0].State != lineage.Active {
		g.Errorf("resumed session = %s, run %s, want both active", got.State, got.Runs[0].State)
	}
	g.conflict(busy.ID, lineage.VerbResume)
	if answered("echo", "m-4") {
		g.Error("a call beside one that was resumed was answered, want it refused")
	}

	worker := g.spawn("", "leaf")
	for _, id := range []string{worker.ID, main.ID} {
		g.conflict(id, lineage.VerbSuspend)
		g.conflict(id, lineage.VerbResume)
	}
	// One in which nothing runs can be set aside, too.
	idle := g.spawn("", "echo")
	if got := g.step(idle.ID, lineage.VerbSuspend, adminapi.StepRequest{}); got.State != lineage.Suspended {
		g.Errorf("suspended session = %s, want suspended", got.State)
	}
	if got := g.step(idle.ID, lineage.VerbResume, adminapi.StepRequest{}); got.State != lineage.Active {
		g.Errorf("resumed session = %s, want active", got.State)
	}
	close(release)
	if r := <-ended; r.Error != nil {
		g.Errorf("call that was suspended and resumed = %+v, want its answer", r.Error)
	}
}

func TestCase45ResultRoundTrips(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		result := lineage.Result{
			Summary:   "Three suppliers.\n\"Two\" can deliver; ünï, 日本語.",
			MemoryIDs: []string{"m-1", "m/2"},
			Artifacts: []lineage.Artifact{
				{ID: "a-1", Name: "offer.pdf", MediaType: "application/pdf", Bytes: 12345, SHA256: strings.Repeat("ab", 32)},
				{ID: "a-2"},
			},
		}
		for verb, status := range map[lineage.Verb]lineage.State{lineage.VerbComplete: lineage.Completed, lineage.VerbFail: lineage.Failed} {
			parent := g.spawn("", "a")
			s := g.spawn(parent.ID, "b")
			want := result
			want.Status = status
			r := adminapi.StepRequest{Result: &result}
			if verb == lineage.VerbFail {
				r.Reason = "no_supplier"
			}
			got := g.step(s.ID, verb, r)
			if got.State != status || got.Reason != r.Reason || got.EndedAt == nil {
				g.Errorf("%s = %s %q, want %s %q", verb, got.State, got.Reason, status, r.Reason)
			}
			if diff := cmp.Diff(&want, got.Result); diff != "" {
				g.Errorf("result in the answer to %s (-want +got):\n%s", verb, diff)
			}
			if diff := cmp.Diff(&want, g.session(s.ID).Result); diff != "" {
				g.Errorf("result of the session (-want +got):\n%s", diff)
			}
			// It is published to the parent, which sees nothing else of the child.
			var told []lineage.Event
			for _, e := range g.events(parent.ID) {
				if e.Session == s.ID {
					g.Errorf("parent sees the child's %s", e.Type)
				}
				if e.Type == lineage.EventResult && e.Session == parent.ID {
					told = append(told, e)
				}
			}
			if len(told) != 1 {
				g.Fatalf("parent was told %d results, want 1", len(told))
			}
			var payload struct {
				Session, Agent string
				State          lineage.State
				Result         lineage.Result
			}
			if err := json.Unmarshal(told[0].Payload, &payload); err != nil {
				g.Fatal(err)
			}
			if diff := cmp.Diff(want, payload.Result); diff != "" || payload.Session != s.ID || payload.Agent != "b" || payload.State != status {
				g.Errorf("parent was told of %s at %s, %s; result (-want +got):\n%s", payload.Session, payload.Agent, payload.State, diff)
			}
		}
	})
}

func TestCase46ContextSummary(t *testing.T) {
	t.Parallel()
	inGroves(t, "", func(g *grove) {
		parent := g.make(adminapi.SpawnRequest{Agent: "a", ContextSummary: "the parent's own"})
		for _, agent := range []string{"b", "leaf"} {
			child := g.make(adminapi.SpawnRequest{Parent: parent.ID, Agent: agent, ContextSummary: "They want it by Friday."})
			if child.Inherit != lineage.InheritSummary {
				g.Errorf("child inherits %s, want summary", child.Inherit)
			}
			var summaries []string
			var own []string
			for _, e := range g.events(child.ID) {
				switch e.Session {
				case parent.ID:
					g.Errorf("child sees its parent's %s", e.Type)
				case child.ID:
					own = append(own, e.Type)
				}
				if e.Type == lineage.EventSummary {
					var payload struct{ Text string }
					if err := json.Unmarshal(e.Payload, &payload); err != nil {
						g.Fatal(err)
					}
					summaries = append(summaries, payload.Text)
				}
			}
			if diff := cmp.Diff([]string{"They want it by Friday."}, summaries); diff != "" {
				g.Errorf("summaries that the child sees (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff([]string{lineage.EventSpawned, lineage.EventSummary}, own); diff != "" {
				g.Errorf("child's own events (-want +got):\n%s", diff)
			}
		}
		// One that inherits all sees its parent's events, its summary among them.
		heir := g.make(adminapi.SpawnRequest{Parent: parent.ID, Agent: "b", Inherit: lineage.InheritFull})
		if !slices.ContainsFunc(g.events(heir.ID), func(e lineage.Event) bool { return e.Session == parent.ID && e.Type == lineage.EventSummary }) {
			g.Error("a child that inherits everything does not see its parent's summary")
		}
	})
}
