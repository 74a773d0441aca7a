package agents_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.uber.org/goleak"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// start runs an agent until the test ends.
func start(t *testing.T, opts agents.Options) *agents.Agent {
	t.Helper()
	if opts.Name == "" {
		opts.Name = "agent"
	}
	a, err := agents.Start(t.Context(), opts)
	if err != nil {
		t.Fatalf("Start(%+v) = %v", opts, err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return a
}

// dial makes the SDK's client for an agent by its card. It speaks one version only.
func dial(t *testing.T, a *agents.Agent, version agents.Version) *a2aclient.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	hc := &http.Client{Transport: transport}
	resolver := &agentcard.Resolver{Client: hc, CardParser: a2av0.NewAgentCardParser()}
	card, err := resolver.Resolve(t.Context(), a.URL())
	if err != nil {
		t.Fatalf("resolving the card of %s: %v", a.URL(), err)
	}
	speak := a2aclient.WithJSONRPCTransport(hc)
	if version == agents.V03 {
		speak = a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: hc})
	}
	c, err := a2aclient.NewFromCard(t.Context(), card, a2aclient.WithDefaultsDisabled(), speak)
	if err != nil {
		t.Fatalf("making a client from the card: %v", err)
	}
	t.Cleanup(func() { _ = c.Destroy() })
	return c
}

func message(text, contextID string) *a2a.SendMessageRequest {
	m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
	m.ContextID = contextID
	return &a2a.SendMessageRequest{Message: m}
}

// sendTask sends a message that must be answered with a task.
func sendTask(t *testing.T, c *a2aclient.Client, req *a2a.SendMessageRequest) *a2a.Task {
	t.Helper()
	result, err := c.SendMessage(t.Context(), req)
	if err != nil {
		t.Fatalf("SendMessage = %v", err)
	}
	task, ok := result.(*a2a.Task)
	if !ok {
		t.Fatalf("SendMessage = %T, want a task", result)
	}
	return task
}

func text(parts a2a.ContentParts) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text())
	}
	return b.String()
}

// versions are the ways to reach an agent: what it speaks, and what its client does.
var versions = []struct {
	name   string
	agent  agents.Version
	client agents.Version
}{
	{"1.0", agents.V10, agents.V10},
	{"0.3", agents.V03, agents.V03},
	{"both by 1.0", agents.Both, agents.V10},
	{"both by 0.3", agents.Both, agents.V03},
}

func TestResearcherUnary(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			a := start(t, agents.Options{Version: v.agent})
			c := dial(t, a, v.client)
			for i, want := range []agents.Report{
				{ContextID: "ctx"},
				{ContextID: "ctx", Others: []string{"tides"}},
				{ContextID: "ctx", Others: []string{"tides", "dams"}},
			} {
				task := sendTask(t, c, message([]string{"tides", "dams", "wind"}[i], "ctx"))
				if task.Status.State != a2a.TaskStateCompleted {
					t.Errorf("state of task %d = %s, want completed", i, task.Status.State)
				}
				got, err := agents.ReportOf(task)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
					t.Errorf("report %d (-want +got):\n%s", i, diff)
				}
				if got := text(task.Artifacts[0].Parts); !strings.Contains(got, "Context ctx: saw") {
					t.Errorf("artifact %d says %q, want where it ran and what it saw", i, got)
				}
			}
			if diff := cmp.Diff(map[string]int{"ctx": 3}, a.Contexts()); diff != "" {
				t.Errorf("Contexts() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestResearcherStreams(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			a := start(t, agents.Options{Version: v.agent, Delay: time.Millisecond})
			c := dial(t, a, v.client)
			var got []string
			for e, err := range c.SendStreamingMessage(t.Context(), message("tides", "ctx")) {
				if err != nil {
					t.Fatalf("SendStreamingMessage = %v", err)
				}
				if id := e.TaskInfo().ContextID; id != "ctx" {
					t.Errorf("context of %T = %q, want ctx", e, id)
				}
				switch e := e.(type) {
				case *a2a.Task:
					got = append(got, "task "+string(e.Status.State))
				case *a2a.TaskStatusUpdateEvent:
					said := ""
					if e.Status.Message != nil {
						said = " " + text(e.Status.Message.Parts)
					}
					got = append(got, "status "+string(e.Status.State)+said)
				case *a2a.TaskArtifactUpdateEvent:
					chunk := "chunk "
					if e.Append {
						chunk = "appended "
					}
					if e.LastChunk {
						chunk += "last "
					}
					got = append(got, chunk+text(e.Artifact.Parts))
				}
			}
			want := []string{
				"task TASK_STATE_SUBMITTED",
				"status TASK_STATE_WORKING reading about tides",
				"status TASK_STATE_WORKING taking notes on tides",
				"chunk Findings on tides. ",
				"appended last Context ctx: saw no message but its own.",
				"status TASK_STATE_COMPLETED Context ctx: saw no message but its own.",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("stream (-want +got):\n%s", diff)
			}
		})
	}
}

// The tangle: parallel calls in one context read each other's messages, those
// in contexts of their own do not.
func TestParallelCallsSeeEachOther(t *testing.T) {
	t.Parallel()
	const calls = 5
	for _, tt := range []struct {
		name     string
		contexts func(i int) string
		want     int // other messages that each call sees
	}{
		{"one context", func(int) string { return "shared" }, calls - 1},
		{"own contexts", func(i int) string { return strings.Repeat("x", i+1) }, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := start(t, agents.Options{Work: together(calls)})
			c := dial(t, a, agents.V10)
			var wg sync.WaitGroup
			for i := range calls {
				wg.Go(func() {
					result, err := c.SendMessage(t.Context(), message("topic", tt.contexts(i)))
					if err != nil {
						t.Errorf("call %d = %v", i, err)
						return
					}
					report, err := agents.ReportOf(result.(*a2a.Task))
					if err != nil {
						t.Errorf("call %d: %v", i, err)
					}
					if got := len(report.Others); got != tt.want {
						t.Errorf("call %d saw %d other messages, want %d", i, got, tt.want)
					}
				})
			}
			wg.Wait()
			if got := a.MaxParallel(); got != calls {
				t.Errorf("MaxParallel() = %d, want %d", got, calls)
			}
		})
	}
}

// together returns work that is done when n messages are being worked on.
func together(n int) func(context.Context) error {
	var arrived sync.WaitGroup
	arrived.Add(n)
	return func(context.Context) error {
		arrived.Done()
		arrived.Wait()
		return nil
	}
}

// One call after another is never two at once, however fast they follow.
func TestMaxParallelOfSequentialCalls(t *testing.T) {
	t.Parallel()
	for _, b := range []agents.Behaviour{agents.Researcher, agents.Echo, agents.Ask, agents.Fail} {
		t.Run(string(b), func(t *testing.T) {
			t.Parallel()
			a := start(t, agents.Options{Behaviour: b})
			c := dial(t, a, agents.V10)
			for range 20 {
				if _, err := c.SendMessage(t.Context(), message("hi", "ctx")); err != nil {
					t.Fatal(err)
				}
			}
			if got := a.MaxParallel(); got != 1 {
				t.Errorf("MaxParallel() = %d after calls in sequence, want 1", got)
			}
		})
	}
}

func TestEcho(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, start(t, agents.Options{Version: v.agent, Behaviour: agents.Echo}), v.client)
			got, err := c.SendMessage(t.Context(), message("hello", "ctx"))
			if err != nil {
				t.Fatal(err)
			}
			m, ok := got.(*a2a.Message)
			if !ok {
				t.Fatalf("SendMessage = %T, want a message", got)
			}
			if text(m.Parts) != "hello" || m.ContextID != "ctx" {
				t.Errorf("SendMessage = %q in context %q, want hello in ctx", text(m.Parts), m.ContextID)
			}
			events := 0
			for _, err := range c.SendStreamingMessage(t.Context(), message("hello", "ctx")) {
				if err != nil {
					t.Fatal(err)
				}
				events++
			}
			if events != 1 {
				t.Errorf("SendStreamingMessage gave %d events, want 1", events)
			}
		})
	}
}

func TestAsk(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			a := start(t, agents.Options{Version: v.agent, Behaviour: agents.Ask})
			c := dial(t, a, v.client)
			task := sendTask(t, c, message("tides", "ctx"))
			if task.Status.State != a2a.TaskStateInputRequired {
				t.Fatalf("state after the question = %s, want input required", task.Status.State)
			}
			answer := message("the moon", "ctx")
			answer.Message.TaskID = task.ID
			done := sendTask(t, c, answer)
			if done.ID != task.ID || done.Status.State != a2a.TaskStateCompleted {
				t.Errorf("answered task = %s %s, want %s completed", done.ID, done.Status.State, task.ID)
			}
			if got := text(done.Status.Message.Parts); got != "done: the moon" {
				t.Errorf("last word = %q, want done: the moon", got)
			}
			if diff := cmp.Diff(map[string]int{"ctx": 2}, a.Contexts()); diff != "" {
				t.Errorf("Contexts() (-want +got):\n%s", diff)
			}
		})
	}
}

func TestFail(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			c := dial(t, start(t, agents.Options{Version: v.agent, Behaviour: agents.Fail}), v.client)
			task := sendTask(t, c, message("tides", ""))
			if task.Status.State != a2a.TaskStateFailed {
				t.Errorf("state = %s, want failed", task.Status.State)
			}
		})
	}
}

func TestCallsKeepHeadersAndWhatWasSent(t *testing.T) {
	t.Parallel()
	for _, v := range versions {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			a := start(t, agents.Options{Version: v.agent, Behaviour: agents.Echo})
			c := dial(t, a, v.client)
			ctx := a2aclient.AttachServiceParams(t.Context(), a2aclient.ServiceParams{"X-Root": {"r"}})
			if _, err := c.SendMessage(ctx, message("hi", "")); err != nil {
				t.Fatal(err)
			}
			calls := a.Calls()
			if len(calls) != 1 {
				t.Fatalf("Calls() has %d calls, want 1", len(calls))
			}
			got := calls[0]
			if h := got.Header.Values("x-root"); !slices.Equal(h, []string{"r"}) {
				t.Errorf("header x-root = %q, want r", h)
			}
			if got.Message.ContextID != "" || got.ContextID == "" {
				t.Errorf("sent context %q, ran in %q; want none sent, and one made by the agent", got.Message.ContextID, got.ContextID)
			}
		})
	}
}

func TestCancelEndsTheWork(t *testing.T) {
	t.Parallel()
	working, ended := make(chan struct{}), make(chan error, 1)
	a := start(t, agents.Options{Work: func(ctx context.Context) error {
		close(working)
		<-ctx.Done()
		ended <- ctx.Err()
		return ctx.Err()
	}})
	c := dial(t, a, agents.V10)
	var id a2a.TaskID
	for e, err := range c.SendStreamingMessage(t.Context(), message("tides", "")) {
		if err != nil {
			t.Fatal(err)
		}
		if id == "" {
			id = e.TaskInfo().TaskID
		}
		if _, ok := e.(*a2a.TaskArtifactUpdateEvent); !ok {
			continue
		}
		<-working
		task, err := c.CancelTask(t.Context(), &a2a.CancelTaskRequest{ID: id})
		if err != nil {
			t.Fatalf("CancelTask = %v", err)
		}
		if task.Status.State != a2a.TaskStateCanceled {
			t.Errorf("state = %s, want canceled", task.Status.State)
		}
	}
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the work ended with %v, want canceled", err)
	}
}

func TestCloseEndsTheWork(t *testing.T) {
	t.Parallel()
	working := make(chan struct{})
	a := start(t, agents.Options{Work: func(ctx context.Context) error {
		close(working)
		<-ctx.Done()
		return context.Cause(ctx)
	}})
	c := dial(t, a, agents.V10)
	answered := make(chan *a2a.Task, 1)
	go func() {
		result, _ := c.SendMessage(t.Context(), message("tides", ""))
		task, _ := result.(*a2a.Task)
		answered <- task
	}()
	<-working
	if err := a.Close(); err != nil {
		t.Errorf("Close() = %v", err)
	}
	if task := <-answered; task == nil || task.Status.State != a2a.TaskStateFailed {
		t.Errorf("the call under way was answered with %+v, want a failed task", task)
	}
	if err := a.Close(); err != nil {
		t.Errorf("second Close() = %v", err)
	}
	if _, err := c.SendMessage(t.Context(), message("late", "")); err == nil {
		t.Error("SendMessage to a closed agent = nil, want an error")
	}
}

func TestStartRefusesWhatItDoesNotKnow(t *testing.T) {
	t.Parallel()
	for _, opts := range []agents.Options{
		{Name: "a", Behaviour: "dance"},
		{Name: "a", Version: "2.0"},
	} {
		if a, err := agents.Start(t.Context(), opts); err == nil {
			t.Errorf("Start(%+v) = %v, want an error", opts, a.URL())
		}
	}
}

func TestReportOfNoReport(t *testing.T) {
	t.Parallel()
	task := &a2a.Task{ID: "t", Artifacts: []*a2a.Artifact{{Parts: a2a.ContentParts{
		a2a.NewTextPart("x"), a2a.NewDataPart(map[string]any{"y": 1}),
	}}}}
	if _, err := agents.ReportOf(task); !errors.Is(err, agents.ErrNoReport) {
		t.Errorf("ReportOf = %v, want ErrNoReport", err)
	}
}
