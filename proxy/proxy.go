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

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// DefaultMaxBody bounds a request body where Options does not, in bytes.
const DefaultMaxBody = 10 << 20

// Options configures a [Proxy]. All but MaxBody and HeaderPrefix must be set.
type Options struct {
	Agents       []Agent
	Record       *sessions.Record
	HeaderPrefix string // of the lineage headers; empty: kagent's
	MaxBody      int64  // of a request, in bytes; 0: DefaultMaxBody
	Logger       *slog.Logger
	Tracer       trace.TracerProvider
	Meter        metric.MeterProvider
	Propagator   propagation.TextMapPropagator
}

// Proxy serves the outbound port: /agents/{name}/… It is safe for concurrent use.
type Proxy struct {
	agents  map[string]*upstream
	record  *sessions.Record
	names   lineage.Headers
	maxBody int64
	log     *slog.Logger
	forward *httputil.ReverseProxy
	tel     *instruments
}

// New returns a Proxy. Close releases its connections.
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
	p.forward = &httputil.ReverseProxy{
		Rewrite:        p.rewrite,
		Transport:      transport{},
		ModifyResponse: p.answered,
		ErrorHandler:   p.failed,
		ErrorLog:       slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
		BufferPool:     newBuffers(),
		// FlushInterval stays 0: streams and bodies of unknown length are flushed
		// as they come anyway, and -1 breaks trailers-only gRPC errors.
	}
	return p, nil
}

// Close closes idle connections. Calls that are under way keep theirs.
func (p *Proxy) Close() {
	for _, u := range p.agents {
		u.close()
	}
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

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	name, rest, ok := splitPath(r.URL.EscapedPath())
	if !ok {
		p.writeHTTP(w, fault{status: http.StatusNotFound, reason: reasonUnknownAgent, message: "no such path; agents are at " + agentsPrefix + "{name}/"})
		return
	}
	if unescaped, err := url.PathUnescape(name); err == nil {
		name = unescaped
	}
	ctx, agent := r.Context(), p.agents[name]
	x := &exchange{proxy: p, agent: agent, in: r, rest: rest, began: p.tel.now()}
	switch {
	case agent == nil:
		p.unknown(ctx, w, x, name)
	case isCard(r, rest):
		p.card(ctx, w, x)
	case isRPC(r):
		p.rpc(ctx, w, x)
	default:
		p.pass(ctx, w, x)
	}
}

// unknown answers a call to a name that no agent has.
func (p *Proxy) unknown(ctx context.Context, w http.ResponseWriter, x *exchange, name string) {
	f := unknownAgent(name)
	p.tel.refused(ctx, "", f.reason)
	if !isRPC(x.in) {
		p.writeHTTP(w, f)
		return
	}
	body, err := readBody(w, x.in, p.maxBody)
	if err != nil {
		p.writeRPC(w, asked{}, f)
		return
	}
	p.writeRPC(w, askedAnyway(x.in, body), f)
}

// exchangeKey is the context key of the exchange that a forwarded request
// belongs to.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// transport sends each request by the transport of its agent.
type transport struct{}

func (transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	if x == nil {
		return nil, errors.New("request belongs to no exchange")
	}
	return x.agent.transport.RoundTrip(r)
}
