package main

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// actor is an agent whose part the test plays.
type actor struct {
	name, url string
	jobs      chan *job      // messages, as they come; each is at work until its end is said
	stops     chan stop      // requests to cancel a task, as they come
	asks      chan time.Time // questions for a task, as they come
	busy      atomic.Int32
	deaf      bool          // it does not answer a CancelTask before the task is over
	gone      chan struct{} // closed at the end of the test

	mu sync.Mutex // guards at
	at map[a2a.TaskID]*job
}

// job is a message at work.
type job struct {
	Header    http.Header // of its HTTP request
	ContextID string
	TaskID    a2a.TaskID
	Text      string
	came      time.Time
	cut       <-chan struct{} // closed when the request has ended: before its answer, if the connection was closed
	last      chan a2a.Event  // capacity 1
	over      chan struct{}   // closed when nothing of it is at work any more
	info      a2a.TaskInfoProvider
}

// stop is a request to cancel a task.
type stop struct {
	Header http.Header
	TaskID a2a.TaskID
	came   time.Time
}

// deaf is the trait of an agent that works on, whoever asks it to stop.
func deaf(a *actor) { a.deaf = true }

// cast starts an agent, of both versions of A2A, until the test ends.
func cast(t *testing.T, name string, traits ...func(*actor)) *actor {
	t.Helper()
	a := &actor{
		name: name, jobs: make(chan *job, 1024), stops: make(chan stop, 1024), asks: make(chan time.Time, 1024),
		gone: make(chan struct{}), at: map[a2a.TaskID]*job{},
	}
	for _, trait := range traits {
		trait(a)
	}
	handler := a2asrv.NewHandler(a, a2asrv.WithLogger(slog.New(slog.DiscardHandler)), a2asrv.WithCallInterceptors(noting{a: a}),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)))
	mux := http.NewServeMux()
	mux.Handle("/", withRequest(a2asrv.NewJSONRPCHandler(handler)))
	mux.Handle("/v0.3", withRequest(a2av0.NewJSONRPCHandler(handler)))
	server := httptest.NewServer(mux)
	t.Cleanup(func() { close(a.gone); server.Close() })
	a.url = server.URL
	spoken := a2a.NewAgentInterface(a.url, a2a.TransportProtocolJSONRPC)
	spoken.ProtocolVersion = a2a.Version
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(&a2a.AgentCard{
		Name: name, Version: "1.0.0", SupportedInterfaces: []*a2a.AgentInterface{spoken},
		Capabilities:      a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
	}))
	return a
}

// with is the agent's entry in the settings, with a policy.
func (a *actor) with(policy string) string {
	return fmt.Sprintf("name: %s, url: %q, %s", a.name, a.url, policy)
}

// requestKey is the context key of the HTTP request that a message came with.
type requestKey struct{}

func withRequest(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), requestKey{}, r)))
	})
}

// Execute implements [a2asrv.AgentExecutor].
func (a *actor) Execute(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		r := ctx.Value(requestKey{}).(*http.Request)
		j := &job{
			Header: r.Header.Clone(), ContextID: exec.ContextID, TaskID: exec.TaskID, Text: exec.Message.Parts[0].Text(),
			came: time.Now(), cut: r.Context().Done(), last: make(chan a2a.Event, 1), over: make(chan struct{}), info: exec.TaskInfo(),
		}
		a.mu.Lock()
		a.at[j.TaskID] = j
		a.mu.Unlock()
		a.busy.Add(1)
		defer func() { a.busy.Add(-1); close(j.over) }()
		if exec.StoredTask == nil && !yield(a2a.NewSubmittedTask(exec, exec.Message), nil) ||
			!yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateWorking, nil), nil) {
			return
		}
		a.jobs <- j
		select {
		case last := <-j.last:
			yield(last, nil)
		case <-ctx.Done(): // canceled
		case <-a.gone:
			yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateFailed, nil), nil)
		}
	}
}

// Cancel implements [a2asrv.AgentExecutor].
func (a *actor) Cancel(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		r := ctx.Value(requestKey{}).(*http.Request)
		a.stops <- stop{r.Header.Clone(), exec.TaskID, time.Now()}
		if !a.deaf {
			yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCanceled, nil), nil)
			return
		}
		a.mu.Lock()
		j := a.at[exec.TaskID]
		a.mu.Unlock()
		select {
		case <-j.over:
		case <-a.gone:
		}
		yield(nil, a2a.ErrTaskNotCancelable)
	}
}

// noting notes the questions for tasks.
type noting struct {
	a2asrv.PassthroughCallInterceptor
	a *actor
}

// Before implements [a2asrv.CallInterceptor].
func (n noting) Before(ctx context.Context, call *a2asrv.CallContext, _ *a2asrv.Request) (context.Context, any, error) {
	if call.Method() == "GetTask" {
		n.a.asks <- time.Now()
	}
	return ctx, nil, nil
}

// end says the last word on a job: the state that its task takes, and words.
func (j *job) end(state a2a.TaskState, words string) {
	j.last <- a2a.NewStatusUpdateEvent(j.info, state, a2a.NewMessageForTask(a2a.MessageRoleAgent, j.info, a2a.NewTextPart(words)))
}

// session is the id of the session that a job runs in, as the agent was told.
func (j *job) session() string { return j.Header.Get(lineage.HeaderSession) }
