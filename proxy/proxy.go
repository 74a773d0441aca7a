// Package proxy is the data path: it stands between the agent beside it and
// the agents that one calls, and carries A2A calls through with nothing changed
// but the ids and headers that isolation and lineage ask for.
//
//	caller ─▶ ServeHTTP ─▶ read (wire) ─▶ reach ─▶ admit (sessions) ─▶ splice ─▶ agent
//	caller ◀──────────────── tap (tells the record what goes by) ◀────────────── agent
//
// It knows HTTP. What a call may do it asks sessions; what the bytes mean it
// asks internal/wire; it keeps no state of its own but connections.
package proxy

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"

	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// DefaultMaxBody bounds a request body where Options does not, in bytes.
const DefaultMaxBody = 10 << 20

// Options configures a [Proxy]. All but MaxBody, PushURL and
// HeaderPrefix must be set.
type Options struct {
	Agents       []Agent
	Record       *sessions.Record
	HeaderPrefix string // of the lineage headers; empty: kagent's
	MaxBody      int64  // of a request, in bytes; 0: DefaultMaxBody
	PushURL      string // under which agents reach Callbacks; empty: push notifications are not relayed
	Logger       *slog.Logger
	Tracer       trace.TracerProvider
	Meter        metric.MeterProvider
	Propagator   propagation.TextMapPropagator
}

// Proxy serves the outbound port: /agents/{name}/…, and the gRPC port of each
// agent. It is safe for concurrent use.
type Proxy struct {
	agents  map[string]*upstream
	record  *sessions.Record
	names   lineage.Headers
	maxBody int64
	log     *slog.Logger
	forward *httputil.ReverseProxy
	stream  *httputil.ReverseProxy // for calls that are answered by a stream
	tel     *instruments
	push    *relay
	door    *door
}

// New returns a Proxy, by which the record calls agents from then on. Close
// releases its connections.
func New(opts Options) (*Proxy, error) {
	p := &Proxy{
		agents: make(map[string]*upstream, len(opts.Agents)), record: opts.Record,
		names: lineage.HeadersFor(opts.HeaderPrefix), maxBody: opts.MaxBody, log: opts.Logger,
	}
	if p.maxBody <= 0 {
		p.maxBody = DefaultMaxBody
	}
	for _, a := range opts.Agents {
		p.agents[a.Session.Name] = newUpstream(a)
	}
	var err error
	if p.tel, err = newInstruments(opts, p); err != nil {
		return nil, fmt.Errorf("making instruments: %w", err)
	}
	if p.push, err = newRelay(opts); err != nil {
		return nil, fmt.Errorf("making the relay of push notifications: %w", err)
	}
	p.forward, p.stream = p.reverse(bufferSize), p.reverse(streamBufferSize)
	p.door = openDoor(http.HandlerFunc(p.serveOwn), p.log)
	p.record.Reach(outreach{p})
	return p, nil
}

// reverse makes a ReverseProxy whose hooks are the data path.
func (p *Proxy) reverse(buffer int) *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      transport{},
		ModifyResponse: p.answered,
		ErrorHandler:   p.failed,
		ErrorLog:       slog.NewLogLogger(p.log.Handler(), slog.LevelDebug),
		BufferPool:     newBuffers(buffer),
		// FlushInterval stays 0: streams and bodies of unknown length are flushed
		// as they come anyway, and -1 breaks trailers-only gRPC errors.
	}
}

// Close closes idle connections. Calls that are under way keep theirs, but for
// those of the sidecar's own accord: these are cut off, and no more are made.
func (p *Proxy) Close() {
	p.record.Reach(nil)
	p.door.close()
	for _, u := range p.agents {
		u.close()
	}
	p.push.close()
}

// agentsPrefix begins the path of every call to a configured agent.
const agentsPrefix = "/agents/"

// splitPath splits the escaped path of a request into the name of the agent
// and the rest, which is empty or begins with a slash.
func splitPath(escaped string) (name, rest string, ok bool) {
	after, ok := strings.CutPrefix(escaped, agentsPrefix)
	if !ok {
		return "", "", false
	}
	if i := strings.IndexByte(after, '/'); i >= 0 {
		return after[:i], after[i:], true
	}
	return after, "", true
}

// ServeHTTP serves what comes below /agents/{name}/, in every binding.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, rest, ok := splitPath(r.URL.EscapedPath())
	if !ok {
		rest = r.URL.EscapedPath()
	}
	if unescaped, err := url.PathUnescape(name); err == nil {
		name = unescaped
	}
	x := &exchange{proxy: p, agent: p.agents[name], own: ownOf(r.Context()), in: r, rest: rest, began: p.tel.now()}
	ctx, isCall := r.Context(), false
	x.binding, isCall = p.bindingOf(r, rest)
	_, isGRPC := x.binding.(grpcBinding)
	switch {
	case !ok:
		if !isGRPC {
			x.binding = restBinding{} // no agent's, and so no JSON-RPC
		}
		p.answerFault(w, x, asked{}, noSuchPath())
	case x.agent == nil:
		p.unknown(ctx, w, x, name)
	case isGRPC:
		p.grpc(ctx, w, x, isCall)
	case posesAsGRPC(r, rest):
		p.reject(ctx, w, x, asked{}, noGRPCCall())
	case isCard(r, rest):
		p.card(ctx, w, x)
	case isCall:
		p.call(ctx, w, x)
	default:
		p.pass(ctx, w, x)
	}
}

// GRPC returns the handler of the port that takes gRPC calls for one agent. The
// agent's card names addr, the host and port of it. Cards that are asked for
// there name outbound, the base URL or host and port at which p is served, for
// the other bindings.
func (p *Proxy) GRPC(agent, addr, outbound string) http.Handler {
	u := p.agents[agent]
	if u == nil {
		return http.NotFoundHandler()
	}
	u.grpc.listensAt(addr)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := &exchange{
			proxy: p, agent: u, in: r, rest: r.URL.EscapedPath(), binding: grpcBinding{maxBody: p.maxBody}, began: p.tel.now(),
			outbound: outboundFrom(outbound, r),
		}
		if !isGRPC(r) {
			x.binding = restBinding{}
			p.reject(r.Context(), w, x, asked{}, noGRPCCall())
			return
		}
		p.grpc(r.Context(), w, x, isGRPCMethod(x.rest))
	})
}

// grpc carries a request to the agent's gRPC interface.
func (p *Proxy) grpc(ctx context.Context, w http.ResponseWriter, x *exchange, isCall bool) {
	if isCall {
		p.call(ctx, w, x)
		return
	}
	if f := p.findGRPC(ctx, x, wire.V10); f != nil {
		p.reject(ctx, w, x, asked{}, *f)
		return
	}
	x.in.Body = &frames{ReadCloser: x.in.Body}
	p.pass(ctx, w, x)
}

// findGRPC finds the gRPC interface of the exchange's agent for a version. It
// returns what to answer if that cannot be found.
func (p *Proxy) findGRPC(ctx context.Context, x *exchange, v wire.Version) *fault {
	var err error
	if x.to, err = x.agent.grpcChannel(ctx, v, x.in.Header); err == nil {
		return nil
	}
	if ctx.Err() == nil {
		p.log.WarnContext(ctx, "agent's gRPC interface cannot be found", "agent", x.agent.Session.Name, "error", err)
	}
	f := unreachable(x.agent)
	if errors.Is(err, errNoGRPC) {
		f.message = "agent " + x.agent.Session.Name + " cannot be reached by gRPC: " + errNoGRPC.Error()
	}
	return &f
}

// unknown answers a call to a name that no agent has.
func (p *Proxy) unknown(ctx context.Context, w http.ResponseWriter, x *exchange, name string) {
	f := unknownAgent(name)
	p.tel.refused(ctx, "", f.reason)
	q := x.binding.asked(x.in)
	if _, ok := x.binding.(rpcBinding); ok {
		if body, err := readBody(w, x.in, p.maxBody); err == nil {
			q = askedAnyway(x, body)
		}
	}
	p.answerFault(w, x, q, f)
}

// askedAnyway reads what an answer must know out of a body of any quality.
func askedAnyway(x *exchange, body []byte) asked {
	req, err := x.binding.read(x.in, x.rest, body)
	if bad, ok := errors.AsType[*wire.Error](err); ok {
		return x.askedBy(bad)
	}
	return askedOf(req)
}
