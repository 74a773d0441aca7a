package proxy_test

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

var propagator = propagation.NewCompositeTextMapPropagator(propagation.TraceContext{}, propagation.Baggage{})

const (
	callerTrace  = "0af7651916cd43dd8448eb211c80319c"
	callerSpan   = "b7ad6b7169203331"
	callerParent = "00-" + callerTrace + "-" + callerSpan + "-01"
)

// Without tracing, what belongs to the caller's trace passes as it came, valid or not.
func TestTraceHeadersPass(t *testing.T) {
	t.Parallel()
	for _, sent := range [][]string{
		{"Traceparent", callerParent, "Tracestate", "b=2 , a=1", "Baggage", "user=ada;p=1 , k = v"},
		{"Traceparent", "00-" + callerTrace + "-" + callerSpan + "-00", "Tracestate", "a=1", "Tracestate", "b=2", "Baggage", "x=1", "Baggage", "y=%20"},
		{"Traceparent", "cc-" + callerTrace + "-" + callerSpan + "-01-new", "Tracestate", "=", "Baggage", "k=v;"},
		{},
	} {
		agent := newFake(t, says(message10))
		w := newWorldWith(t, func(_ *sessions.Options, o *proxy.Options) { o.Propagator = propagator }, agentAt("worker", agent.URL))
		w.post(t, send10("m1", `,"contextId":"chat"`), sent...)
		want := http.Header{}
		for i := 0; i < len(sent); i += 2 {
			want.Add(strings.ToLower(sent[i]), sent[i+1])
		}
		got := values(agent.only(t).header, "trace", "baggage")
		if diff := cmp.Diff(values(want, ""), got); diff != "" {
			t.Errorf("trace headers of %q (-want +got):\n%s", sent, diff)
		}
		if len(sent) > 0 && strings.HasPrefix(sent[1], "00") {
			if got := w.session(t, "chat").TraceID; got != callerTrace {
				t.Errorf("session's trace = %q, want the caller's", got)
			}
		}
	}
}

// traced is a world that traces into the exporter.
func traced(t *testing.T, agents ...proxy.Agent) (*world, *tracetest.InMemoryExporter) {
	t.Helper()
	spans := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(spans))
	t.Cleanup(func() { _ = provider.Shutdown(context.Background()) })
	w := newWorldWith(t, func(_ *sessions.Options, o *proxy.Options) { o.Tracer, o.Propagator = provider, propagator }, agents...)
	return w, spans
}

// only returns the one span of a call; a span ends after its answer.
func onlySpan(t *testing.T, spans *tracetest.InMemoryExporter) tracetest.SpanStub {
	t.Helper()
	within(t, "one span ended", func() bool { return len(spans.GetSpans()) == 1 })
	return spans.GetSpans()[0]
}

func TestTraceIsContinued(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w, spans := traced(t, agentAt("worker", agent.URL))
	w.post(t, send10("m1", `,"contextId":"chat"`), "traceparent", callerParent, "tracestate", "a=1,b=2", "baggage", "user=ada;p=1 , k = v")

	span := onlySpan(t, spans)
	if span.Parent.SpanID().String() != callerSpan || span.SpanContext.TraceID().String() != callerTrace {
		t.Errorf("span of trace %s under %s, want the caller's %s under %s",
			span.SpanContext.TraceID(), span.Parent.SpanID(), callerTrace, callerSpan)
	}
	want := map[string][]string{
		"traceparent": {"00-" + callerTrace + "-" + span.SpanContext.SpanID().String() + "-01"},
		"tracestate":  {"a=1,b=2"},
		"baggage":     {"user=ada;p=1 , k = v"},
	}
	if diff := cmp.Diff(want, values(agent.only(t).header, "trace", "baggage")); diff != "" {
		t.Errorf("trace headers at the agent (-want +got):\n%s", diff)
	}

	s := w.session(t, "chat")
	if s.TraceID != callerTrace {
		t.Errorf("session's trace = %q, want %s", s.TraceID, callerTrace)
	}
	got := map[string]string{}
	for _, a := range span.Attributes {
		got[string(a.Key)] = a.Value.String()
	}
	wantAttributes := map[string]string{
		"rpc.system.name": "jsonrpc", "rpc.method": "send", "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "worker",
		"a2a.protocol.binding": "JSONRPC", "a2a.protocol.version": "1.0", "server.address": "127.0.0.1", "gen_ai.conversation.id": "chat", "http.response.status_code": "200",
		"a2a_sidecar.root_context_id": "chat", "a2a_sidecar.session_id": s.ID, "a2a_sidecar.branch": s.Branch, "a2a_sidecar.depth": "1",
	}
	if diff := cmp.Diff(wantAttributes, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	if span.Name != "send worker" || span.SpanKind != trace.SpanKindClient || span.Status.Code != codes.Unset {
		t.Errorf("span = %q, kind %v, status %v; want send worker, client, unset", span.Name, span.SpanKind, span.Status)
	}
}

// A trace that cannot be read is not continued, and no part of it goes on
// under the name of the new one.
func TestTraceBegins(t *testing.T) {
	t.Parallel()
	for _, sent := range [][]string{nil, {"traceparent", "00-nonsense", "tracestate", "a=1"}} {
		agent := newFake(t, says(message10))
		w, spans := traced(t, agentAt("worker", agent.URL))
		w.post(t, send10("m1", ""), sent...)
		span := onlySpan(t, spans)
		want := map[string][]string{"traceparent": {"00-" + span.SpanContext.TraceID().String() + "-" + span.SpanContext.SpanID().String() + "-01"}}
		if diff := cmp.Diff(want, values(agent.only(t).header, "trace")); diff != "" || span.Parent.IsValid() {
			t.Errorf("parent %v, trace headers of %q (-want +got):\n%s", span.Parent, sent, diff)
		}
	}
}

// No span holds what agents say to each other, whatever becomes of the call.
func TestSpansHoldNoMessage(t *testing.T) {
	t.Parallel()
	const secret = "xyzzy"
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("X-Fail") != "" {
			w.WriteHeader(http.StatusInternalServerError)
		}
		says(strings.ReplaceAll(message10, "hello", secret))(w, r)
	})
	a := agentAt("worker", agent.URL)
	a.Session.Limits.MaxDepth = 1
	w, spans := traced(t, a)
	body := strings.ReplaceAll(send10("m1", `,"metadata":{"`+secret+`":"`+secret+`"}`), `"hi"`, `"`+secret+`"`)
	w.post(t, body)
	w.post(t, strings.Replace(body, "m1", "m2", 1), "X-Fail", "1")
	w.post(t, strings.Replace(body, "m1", "m3", 1), "x-kagent-root-context-id", "top", "x-kagent-parent-context-id", "mid") // too deep
	within(t, "three spans ended", func() bool { return len(spans.GetSpans()) == 3 })
	var outcomes []string
	for _, span := range spans.GetSpans() {
		outcomes = append(outcomes, span.Status.Description)
		for _, a := range append(span.Attributes, attribute.String("name", span.Name)) {
			if strings.Contains(string(a.Key)+a.Value.String(), secret) {
				t.Errorf("attribute %s holds the message: %s", a.Key, a.Value.String())
			}
		}
		if len(span.Events) > 0 {
			t.Errorf("span has events: %+v", span.Events)
		}
	}
	if diff := cmp.Diff([]string{"", "http_error", "refused"}, outcomes); diff != "" {
		t.Errorf("status of spans (-want +got):\n%s", diff)
	}
}

// measured reads the sums of a counter by the values of some attributes.
func measured(t *testing.T, reader sdkmetric.Reader, name string, keys ...attribute.Key) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			sum, ok := m.Data.(metricdata.Sum[int64])
			if m.Name != name || !ok {
				continue
			}
			for _, point := range sum.DataPoints {
				var label []string
				for _, key := range keys {
					v, _ := point.Attributes.Value(key)
					label = append(label, v.AsString())
				}
				got[strings.Join(label, " ")] += point.Value
			}
		}
	}
	return got
}

// Calls are counted by what became of them.
func TestMetrics(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		switch r.Header.Get("X-Do") {
		case "fail":
			w.WriteHeader(http.StatusInternalServerError)
		case "break":
			panic(http.ErrAbortHandler)
		case "cut":
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(`{"jsonrpc"`))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		case "babble":
			says("hello")(w, r)
		default:
			says(message10)(w, r)
		}
	})
	reader := sdkmetric.NewManualReader()
	provider := sdkmetric.NewMeterProvider(sdkmetric.WithReader(reader))
	down := agentAt("down", "http://127.0.0.1:1")
	w := newWorldWith(t, func(_ *sessions.Options, o *proxy.Options) { o.Meter = provider }, agentAt("worker", agent.URL), down)
	for i, do := range []string{"", "", "fail", "break", "cut", "babble"} {
		_, err := w.try(t, http.MethodPost, "/agents/worker", send10("m"+itoa(i), ""), "X-Do", do)
		if broken := err != nil; broken != (do == "cut") {
			t.Errorf("call that the agent answers with %q: %v", do, err)
		}
	}
	w.post(t, `{"jsonrpc":"2.0","id":1,"method":"ListTasks"}`)
	w.post(t, `not json`)
	w.post(t, `{"no":"call"}`)
	w.do(t, http.MethodPost, "/agents/down", send10("m", ""))
	w.do(t, http.MethodPost, "/agents/nobody", send10("m", ""))

	want := map[string]int64{
		"worker send answered": 2, "worker send http_error": 1, "worker send broken_off": 2, "worker send malformed": 1,
		"worker list answered": 1, "down send refused": 1,
	}
	within(t, "all calls are counted", func() bool {
		return cmp.Equal(want, measured(t, reader, "a2a_sidecar_calls", "agent", "op", "outcome"))
	})
	wantRefused := map[string]int64{
		"worker MALFORMED_REQUEST": 1, "worker AGENT_UNREACHABLE": 1, "down AGENT_UNREACHABLE": 1, " UNKNOWN_AGENT": 1,
	}
	if diff := cmp.Diff(wantRefused, measured(t, reader, "a2a_sidecar_refusals", "agent", "reason")); diff != "" {
		t.Errorf("refusals (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int64{"worker": 1}, measured(t, reader, "a2a_sidecar_passthrough", "agent")); diff != "" {
		t.Errorf("passed (-want +got):\n%s", diff)
	}
}
