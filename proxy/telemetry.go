package proxy

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// scope names the instrumentation of this package.
const scope = "github.com/a2a-sidecar/a2a-sidecar/proxy"

// instruments measure and trace the data path. Spans follow the RPC and GenAI
// semantic conventions of OpenTelemetry. No span and no metric holds anything
// of a message but its ids.
type instruments struct {
	tracer     trace.Tracer
	propagator propagation.TextMapPropagator

	calls       metric.Int64Counter
	own         metric.Int64Counter
	duration    metric.Float64Histogram
	admission   metric.Float64Histogram
	refusals    metric.Int64Counter
	passthrough metric.Int64Counter
	staleCards  metric.Int64Counter
}

func newInstruments(opts Options, p *Proxy) (*instruments, error) {
	m := opts.Meter.Meter(scope)
	t := &instruments{tracer: opts.Tracer.Tracer(scope), propagator: opts.Propagator}
	var err error
	counter := func(into *metric.Int64Counter, name, what string) {
		if err == nil {
			*into, err = m.Int64Counter(name, metric.WithDescription(what))
		}
	}
	histogram := func(into *metric.Float64Histogram, name, what string, bounds ...float64) {
		if err == nil {
			*into, err = m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(what), metric.WithExplicitBucketBoundaries(bounds...))
		}
	}
	gauge := func(name, what string, read func() int64) {
		if err == nil {
			_, err = m.Int64ObservableGauge(name, metric.WithDescription(what), metric.WithInt64Callback(
				func(_ context.Context, o metric.Int64Observer) error { o.Observe(read()); return nil }))
		}
	}
	counter(&t.calls, "a2a_sidecar_calls", "A2A calls carried, by agent, operation, binding, protocol version and outcome.")
	counter(&t.own, "a2a_sidecar_own_calls", "Calls that the sidecar made of its own accord, by agent, operation and outcome.")
	counter(&t.refusals, "a2a_sidecar_refusals", "Calls that the sidecar answered itself, by agent and reason.")
	counter(&t.passthrough, "a2a_sidecar_passthrough", "Requests that are not A2A and passed as they came, by agent.")
	counter(&t.staleCards, "a2a_sidecar_stale_cards", "Agent cards served from memory because the agent was down, by agent.")
	histogram(&t.duration, "a2a_sidecar_call_duration", "Time from a call's arrival to the end of its answer, by agent and operation.",
		.001, .005, .025, .1, .5, 1, 5, 15, 60, 300, 1800)
	histogram(&t.admission, "a2a_sidecar_admission_duration", "Time from a call's arrival until it may leave: reading, waiting for a place, the store.",
		.0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 10, 60, 300)
	gauge("a2a_sidecar_open_runs", "Runs that calls of this sidecar hold open.", func() int64 { return int64(p.record.Open()) })
	gauge("a2a_sidecar_queued_calls", "Calls that wait for a place.", func() int64 { return int64(p.record.Waiting()) })
	gauge("a2a_sidecar_store_up", "1 while the store answers.", func() int64 {
		if p.record.Unavailable() != nil {
			return 0
		}
		return 1
	})
	return t, err
}

// Outcomes of calls that have no run, or none that has ended.
const (
	outcomeAnswered = "answered"
	outcomeRefused  = "refused"
	outcomeEnded    = "ended" // its session was, before it
)

// outcomes names how a call ended.
var outcomes = [...]string{
	sessions.Answered:    outcomeAnswered,
	sessions.Malformed:   "malformed",
	sessions.BrokenOff:   "broken_off",
	sessions.CallerGone:  "caller_gone",
	sessions.Unreachable: "unreachable",
	sessions.HTTPError:   "http_error",
	sessions.Unread:      "unread",
}

// now is the clock of the durations.
func (*instruments) now() time.Time { return time.Now() }

// start begins the span of a call and continues the caller's trace. The
// returned function ends it and counts the call.
func (t *instruments) start(ctx context.Context, x *exchange) (context.Context, func()) {
	ctx = t.propagator.Extract(ctx, propagation.HeaderCarrier(x.in.Header))
	parent := trace.SpanContextFromContext(ctx)
	op, agent := x.request.Op.String(), x.agent.Session.Name
	ctx, span := t.tracer.Start(ctx, op+" "+agent, trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
		attribute.String("a2a.protocol.binding", x.request.Binding.String()),
		attribute.String("rpc.method", x.request.Op.String()),
		attribute.String("gen_ai.operation.name", "invoke_agent"),
		attribute.String("gen_ai.agent.name", agent),
		attribute.String("a2a.protocol.version", x.request.Version.String()),
		attribute.String("server.address", x.agent.URL.Hostname()),
	))
	switch x.request.Binding { // plain HTTP is no RPC system to OpenTelemetry
	case wire.JSONRPC:
		span.SetAttributes(attribute.String("rpc.system.name", "jsonrpc"))
	case wire.GRPC:
		span.SetAttributes(attribute.String("rpc.system.name", "grpc"))
	case wire.REST:
	}
	if x.own != nil {
		span.SetAttributes(attribute.Bool("a2a_sidecar.own", true))
	}
	x.span, x.traced, x.continued = span, span.SpanContext().SpanID() != parent.SpanID(), parent.IsValid()
	return ctx, func() {
		outcome := cmp.Or(x.outcome, outcomeAnswered)
		if outcome != outcomeAnswered {
			span.SetStatus(codes.Error, outcome)
		}
		defer span.End()
		if x.own != nil { // no caller made it, or waits for it
			t.own.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(
				attribute.String("agent", agent), attribute.String("op", op), attribute.String("outcome", outcome))))
			return
		}
		set := metric.WithAttributeSet(attribute.NewSet(
			attribute.String("agent", agent), attribute.String("op", op),
			attribute.String("binding", x.request.Binding.String()), attribute.String("version", x.request.Version.String()),
			attribute.String("outcome", outcome),
		))
		t.calls.Add(ctx, 1, set)
		t.duration.Record(ctx, time.Since(x.began).Seconds(), metric.WithAttributeSet(attribute.NewSet(
			attribute.String("agent", agent), attribute.String("op", op))))
	}
}

// admitted notes where a call runs and how long it took to be let go.
func (t *instruments) admitted(ctx context.Context, x *exchange) {
	v := x.run.Lineage()
	id, _ := x.run.ContextID()
	x.span.SetAttributes(
		attribute.String("gen_ai.conversation.id", id),
		attribute.String("a2a_sidecar.root_context_id", v.Root),
		attribute.String("a2a_sidecar.session_id", v.Session),
		attribute.String("a2a_sidecar.branch", v.Branch),
		attribute.Int("a2a_sidecar.depth", v.Depth),
	)
	t.admission.Record(ctx, time.Since(x.began).Seconds(),
		metric.WithAttributeSet(attribute.NewSet(attribute.String("agent", x.agent.Session.Name))))
}

func (t *instruments) answered(x *exchange, resp *http.Response) {
	if x.span != nil {
		x.span.SetAttributes(attribute.Int("http.response.status_code", resp.StatusCode))
	}
	if resp.StatusCode >= http.StatusBadRequest {
		x.outcome = outcomes[sessions.HTTPError]
	}
}

func (t *instruments) refused(ctx context.Context, agent string, reason lineage.Reason) {
	t.refusals.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(
		attribute.String("agent", agent), attribute.String("reason", string(reason)))))
}

func (t *instruments) passed(ctx context.Context, x *exchange) {
	t.passthrough.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(attribute.String("agent", x.agent.Session.Name))))
}

// stale counts a card that was served in the agent's place.
func (t *instruments) stale(ctx context.Context, x *exchange) {
	t.staleCards.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(attribute.String("agent", x.agent.Session.Name))))
}

// inject continues the trace on the way to the agent. Without a span of our
// own in it, the caller's headers pass as they came.
func (t *instruments) inject(x *exchange, h http.Header) {
	if x.traced {
		if !x.continued {
			h.Del("Tracestate") // of a trace that cannot be continued (W3C Trace Context §3.3)
		}
		t.propagator.Inject(trace.ContextWithSpan(x.in.Context(), x.span), propagation.HeaderCarrier(h))
	}
}

// traceID is the trace that ctx belongs to, empty if none.
func traceID(ctx context.Context) string {
	if id := trace.SpanContextFromContext(ctx).TraceID(); id.IsValid() {
		return id.String()
	}
	return ""
}
