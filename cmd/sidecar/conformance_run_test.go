package main

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// A call that waits for input yields its place of the fan-out, and stays a child.
func TestConformanceSuspendedYieldsFanOut(t *testing.T) {
	t.Parallel()
	inWorld(t, func(t *testing.T, st *stage) {
		asker := cast(t, "asker")
		s := st.serve(t, settings("maxFanOut: 1, maxChildren: 2, queueTimeout: 0s", asker.with("isolateSessions: true")), "coordinator")[0]
		c, chat := dial(t, s, "asker"), origin{root: "chat"}
		try := func() (*call, *job) {
			t.Helper()
			p := stream(t, c, chat, userSays("go"))
			return p, next(t, "the asker works", asker.jobs)
		}
		first, asks := try()
		over := stream(t, c, chat, userSays("go"))
		if refusal := over.refusal(t); refusal == nil || !strings.Contains(refusal.Message, "(maxFanOut)") {
			t.Errorf("a second call beside one at work got %v, want a refusal by maxFanOut", over.err)
		}
		asks.end(a2a.TaskStateInputRequired, "which?")
		first.finish(t, a2a.TaskStateInputRequired)
		if got := s.comes(t, asks.session(), lineage.Suspended, ""); got.Runs[0].State != lineage.Suspended {
			t.Errorf("run = %s, want suspended", got.Runs[0].State)
		}
		second, asksToo := try()
		asksToo.end(a2a.TaskStateInputRequired, "which?")
		second.finish(t, a2a.TaskStateInputRequired)
		third := stream(t, c, chat, userSays("go"))
		if refusal := third.refusal(t); refusal == nil || !strings.Contains(refusal.Message, "2 of 2 children running (maxChildren)") {
			t.Errorf("a third child beside two that wait got %v, want a refusal by maxChildren", third.err)
		}
		answer := userSays("that one")
		answer.TaskID, answer.ContextID = first.task, asks.ContextID
		resumed := stream(t, c, chat, answer)
		next(t, "the asker goes on", asker.jobs).end(a2a.TaskStateCompleted, "done")
		resumed.finish(t, a2a.TaskStateCompleted)
		s.comes(t, asks.session(), lineage.Completed, "")
		fourth, last := try()
		last.end(a2a.TaskStateCompleted, "done")
		fourth.finish(t, a2a.TaskStateCompleted)
	})
}

// A send that does not wait, or whose caller leaves, leaves its run open until
// any way at all shows its end.
func TestConformanceNonBlockingEndIsSeen(t *testing.T) {
	t.Parallel()
	ways := []string{"get", "get03", "left", "subscribe", "push", "reconcile"}
	inWorld(t, func(t *testing.T, st *stage) {
		players := map[string]*actor{}
		var entries []string
		for _, way := range ways {
			players[way] = cast(t, way)
			policy := map[string]string{"push": ", push: relay", "reconcile": ", reconcile: 1s"}[way]
			entries = append(entries, players[way].with("isolateSessions: true"+policy))
		}
		s := st.serve(t, settings("", entries...)+"push: {listen: \"127.0.0.1:0\"}\n", "coordinator")[0]
		for _, way := range ways {
			t.Run(way, func(t *testing.T) {
				t.Parallel()
				endIsSeen(t, s, players[way], way)
			})
		}
	})
}

func endIsSeen(t *testing.T, s *served, agent *actor, way string) {
	t.Helper()
	hooked := make(chan struct{}, 16)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { hooked <- struct{}{} }))
	t.Cleanup(hook.Close)
	c := dial(t, s, way)
	if way == "get03" {
		spoken := a2a.NewAgentInterface(s.url(way)+"/v0.3", a2a.TransportProtocolJSONRPC)
		spoken.ProtocolVersion = a2av0.Version
		var err error
		if c, err = a2aclient.NewFromEndpoints(t.Context(), []*a2a.AgentInterface{spoken}, a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{})); err != nil {
			t.Fatal(err)
		}
	}
	from := origin{root: way}
	ctx := from.attach(t.Context())
	task := sendAndGo(t, c, from, way, hook.URL)
	j := next(t, "the agent works", agent.jobs)
	if session := s.comes(t, j.session(), lineage.Active, ""); session.Runs[0].State != lineage.Active || session.Runs[0].TaskID != string(task) {
		t.Errorf("after the answer, the run is %+v; want it open, of task %s", session.Runs[0], task)
	}
	var followed *call
	switch way {
	case "subscribe":
		followed = begin(t, origin{}, func(context.Context) iter.Seq2[a2a.Event, error] {
			return c.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: task})
		})
		next(t, "the subscription begins", followed.begun)
	case "reconcile":
		first, second := next(t, "the sidecar asks", agent.asks), next(t, "the sidecar asks again", agent.asks)
		if took := second.Sub(first); took < time.Second/2 || took > 5*time.Second {
			t.Errorf("the sidecar asked again after %s, want each 1s", took)
		}
	}
	j.end(a2a.TaskStateCompleted, "done")
	next(t, "the agent is done", j.over)
	switch way {
	case "get", "get03", "left":
		within(t, patience, "the task is completed", func() bool {
			got, err := c.GetTask(ctx, &a2a.GetTaskRequest{ID: task})
			if err != nil {
				t.Fatal(err)
			}
			return got.Status.State == a2a.TaskStateCompleted
		})
	case "subscribe":
		followed.finish(t, a2a.TaskStateCompleted)
	case "push":
		next(t, "the hook is called", hooked)
	case "reconcile": // the sidecar asks
	}
	if session := s.comes(t, j.session(), lineage.Completed, ""); session.Runs[0].State != lineage.Completed {
		t.Errorf("run = %s, want completed", session.Runs[0].State)
	}
	if tree, err := s.client(t).Tree(t.Context(), way); err != nil || tree.Counts.Live != 0 || slices.ContainsFunc(tree.Sessions[1:], func(s adminapi.Session) bool { return !s.State.Terminal() }) {
		t.Errorf("tree %s = %+v, %v; want nothing alive", way, tree.Counts, err)
	}
}

// sendAndGo sends a message without waiting for the end of its task.
func sendAndGo(t *testing.T, c *a2aclient.Client, from origin, way, hook string) a2a.TaskID {
	t.Helper()
	if way == "left" {
		p := stream(t, c, from, userSays("go"))
		next(t, "the call begins", p.begun)
		p.leave()
		next(t, "the caller is gone", p.done)
		return p.task
	}
	config := &a2a.SendMessageConfig{ReturnImmediately: true}
	if way == "push" {
		config.PushConfig = &a2a.PushConfig{URL: hook}
	}
	answer, err := c.SendMessage(from.attach(t.Context()), &a2a.SendMessageRequest{Message: userSays("go"), Config: config})
	if err != nil {
		t.Fatal(err)
	}
	return answer.(*a2a.Task).ID
}
