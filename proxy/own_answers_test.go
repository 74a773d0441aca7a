package proxy_test

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// What an agent says in an error may tell of the task: it goes no further.
func TestOutreachErrorsAreNotTheAgentsWords(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(`{"jsonrpc":"2.0","id":"1","error":{"code":-32603,"message":"a secret"}}`))
	w := newWorld(t, agentAt("worker", agent.URL))
	for what, err := range map[string]error{
		"GetTask":    w.proxy.Outreach().GetTask(t.Context(), sessions.Task{Agent: "worker", ID: "t"}),
		"CancelTask": w.proxy.Outreach().CancelTask(t.Context(), sessions.Task{Agent: "worker", ID: "t"}),
	} {
		if !errors.Is(err, a2a.ErrInternalError) || errors.Is(err, sessions.ErrTaskGone) || strings.Contains(err.Error(), "secret") {
			t.Errorf("%s = %v, want that the agent failed, not in its words", what, err)
		}
	}
	if err := w.proxy.Outreach().GetTask(t.Context(), sessions.Task{Agent: "nobody", ID: "t"}); err == nil || errors.Is(err, sessions.ErrTaskGone) {
		t.Errorf("GetTask at an agent that is not configured = %v, want an error", err)
	}
}

// Once the proxy is closed there are no more calls of its own, and none hangs.
func TestOutreachAfterClose(t *testing.T) {
	t.Parallel()
	thinks := make(chan struct{})
	agent := newFake(t, func(_ http.ResponseWriter, r *http.Request) {
		close(thinks)
		<-r.Context().Done()
	})
	w := newWorld(t, agentAt("worker", agent.URL))
	outreach, card := w.proxy.Outreach(), make(chan error)
	go func() { card <- outreach.CancelTask(t.Context(), sessions.Task{Agent: "worker", ID: "t"}) }()
	<-thinks
	w.close()
	if err := <-card; err == nil {
		t.Error("CancelTask that is cut off = nil, want an error")
	}
	if err := outreach.CancelTask(t.Context(), sessions.Task{Agent: "worker", ID: "t"}); err == nil {
		t.Error("CancelTask after Close = nil, want an error")
	}
}

// An answer that was read counts, though a2a-go's client is stricter: here of an
// id that is not the request's.
func TestOutreachTakesWhatTheTapReads(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if methodOf(r) == "SendMessage" {
			says(working10)(w, r)
			return
		}
		says(`{"jsonrpc":"2.0","id":1,"result":{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"}}}`)(w, r)
	})
	w := newWorld(t, isolated("worker", agent.URL))
	w.post(t, send10("m1", ""), "x-kagent-root-context-id", "top")
	if err := w.proxy.Outreach().GetTask(t.Context(), sessions.Task{Agent: "worker", ID: "t1"}); err != nil {
		t.Errorf("GetTask = %v, want nil", err)
	}
	w.state(t, "top", "completed", "")
}

// An agent that breaks off is there, whatever ails it: its task may be, too.
func TestOutreachIsBrokenOff(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) })
	w := newWorld(t, agentAt("worker", agent.URL))
	if err := w.proxy.Outreach().GetTask(t.Context(), sessions.Task{Agent: "worker", ID: "t"}); err == nil || errors.Is(err, sessions.ErrTaskGone) {
		t.Errorf("GetTask that is broken off = %v, want an error", err)
	}
}

// What the statuses of HTTP+JSON say, for agents that say no more.
func TestOutreachReadsStatuses(t *testing.T) {
	t.Parallel()
	card := `{"supportedInterfaces":[{"url":"http://worker/rest","protocolBinding":"HTTP+JSON","protocolVersion":"1.0"}]}`
	for _, tt := range []struct {
		status         int
		gone, canceled bool
	}{
		{http.StatusNotFound, true, true},
		{http.StatusConflict, false, true},
		{http.StatusInternalServerError, false, false},
	} {
		agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			if strings.HasSuffix(r.URL.Path, "agent-card.json") {
				says(card)(w, r)
				return
			}
			w.WriteHeader(tt.status)
		})
		w := newWorld(t, agentAt("worker", agent.URL))
		task := sessions.Task{Agent: "worker", ID: "t"}
		if err := w.proxy.Outreach().GetTask(t.Context(), task); err == nil || errors.Is(err, sessions.ErrTaskGone) != tt.gone {
			t.Errorf("GetTask answered with %d = %v, want ErrTaskGone: %t", tt.status, err, tt.gone)
		}
		if err := w.proxy.Outreach().CancelTask(t.Context(), task); (err == nil) != tt.canceled {
			t.Errorf("CancelTask answered with %d = %v, want nil: %t", tt.status, err, tt.canceled)
		}
	}
}

// A call in a caller's name goes where the caller's went, and nowhere that the
// agent sends it: it has the caller's credentials.
func TestOutreachIsNotRedirected(t *testing.T) {
	t.Parallel()
	other := newFake(t, says(message10))
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if methodOf(r) == "SendMessage" {
			says(working10)(w, r)
			return
		}
		http.Redirect(w, r, "http://a2a-sidecar/agents/other", http.StatusTemporaryRedirect)
	})
	a := isolated("worker", agent.URL)
	a.Session.Reconcile = time.Millisecond
	asked := make(chan error, 1)
	w := newWorldWith(t, func(r *sessions.Options, _ *proxy.Options) {
		r.Settle = time.Millisecond
		r.Hooks.Asked = func(_ string, err error) { asked <- err }
	}, a, agentAt("other", other.URL))
	w.post(t, send10("m1", ""), "authorization", "Bearer a")
	if err := <-asked; err == nil || errors.Is(err, sessions.ErrTaskGone) {
		t.Errorf("GetTask that is sent elsewhere = %v, want an error", err)
	}
	if got := other.received(); len(got) > 0 {
		t.Errorf("the other agent got %+v", got)
	}
}

// A call of the sidecar's own is a trace of its own.
func TestOutreachIsTraced(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if methodOf(r) == "SendMessage" {
			says(working10)(w, r)
			return
		}
		says(`{"jsonrpc":"2.0","id":"1","result":{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"}}}`)(w, r)
	})
	a := isolated("worker", agent.URL)
	a.Session.Reconcile = time.Millisecond
	spans := tracetest.NewInMemoryExporter()
	w := newWorldWith(t, func(r *sessions.Options, o *proxy.Options) {
		r.Settle = time.Millisecond
		o.Tracer, o.Propagator = sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans)), propagator
	}, a)
	w.post(t, send10("m1", ""), "traceparent", callerParent, "baggage", "user=ada")
	within(t, "two spans ended", func() bool { return len(spans.GetSpans()) == 2 })
	got := spans.GetSpans()
	slices.SortFunc(got, func(a, b tracetest.SpanStub) int { return strings.Compare(b.Name, a.Name) })
	if got[0].Name != "send worker" || got[1].Name != "get worker" {
		t.Fatalf("spans = %s and %s, want those of the send and of GetTask", got[0].Name, got[1].Name)
	}
	if own := got[1]; own.Parent.IsValid() || own.SpanContext.TraceID() == got[0].SpanContext.TraceID() ||
		!slices.Contains(own.Attributes, attribute.Bool("a2a_sidecar.own", true)) {
		t.Errorf("span of GetTask = %+v, want one of the sidecar's own without a parent", own)
	}
	sent := agent.received()
	h := sent[len(sent)-1].header
	if strings.Contains(h.Get("Traceparent"), callerTrace) || h.Get("Traceparent") == "" || h.Get("Baggage") != "" {
		t.Errorf("trace headers of GetTask = %q %q, want those of its own span", h.Get("Traceparent"), h.Get("Baggage"))
	}
}
