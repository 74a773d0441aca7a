package proxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httputil"
	"strings"
	"time"

	"go.opentelemetry.io/otel/trace"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// exchange is one request on its way through. The ReverseProxy's hooks find it
// in the request's context.
type exchange struct {
	proxy *Proxy
	agent *upstream
	in    *http.Request
	rest  string // escaped path below the agent
	began time.Time

	// Set for calls that are A2A.
	request *wire.Request
	body    []byte // as it leaves
	run     *sessions.Run
	span    trace.Span
	traced  bool   // span is a span of ours, not the caller's
	outcome string // for metrics
}

// isRPC reports whether a request is a JSON-RPC call, or a broken one: a POST
// that calls its body JSON, or calls it nothing.
func isRPC(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	ct := r.Header.Get("Content-Type")
	if ct == "" {
		return true
	}
	media, _, err := mime.ParseMediaType(ct)
	return err == nil && (media == "application/json" || media == "application/json-rpc" || media == "application/jsonrequest")
}

var errTooLarge = errors.New("request body too large")

// readBody reads a request body of at most limit bytes.
func readBody(w http.ResponseWriter, r *http.Request, limit int64) ([]byte, error) {
	if r.ContentLength > limit {
		return nil, errTooLarge
	}
	var buf bytes.Buffer
	if r.ContentLength > 0 {
		buf.Grow(int(r.ContentLength) + bytes.MinRead)
	}
	_, err := buf.ReadFrom(http.MaxBytesReader(w, r.Body, limit))
	var over *http.MaxBytesError
	if errors.As(err, &over) {
		return nil, errTooLarge
	}
	return buf.Bytes(), err
}

// rpc carries a JSON-RPC call.
func (p *Proxy) rpc(w http.ResponseWriter, x *exchange) {
	body, err := readBody(w, x.in, p.maxBody)
	switch {
	case errors.Is(err, errTooLarge):
		p.reject(w, x, asked{}, tooLarge(p.maxBody))
		return
	case err != nil:
		return // the caller went away while it spoke
	}
	if encoding := x.in.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		p.reject(w, x, asked{}, malformed(codeInvalid, "request body is encoded (content-encoding); the sidecar must read it: send it as it is"))
		return
	}
	x.body = body
	req, err := wire.Read(body)
	var bad *wire.Error
	if errors.As(err, &bad) {
		if bad.Foreign {
			p.pass(w, x)
			return
		}
		p.reject(w, x, asked{id: bad.ID, version: bad.Version, streaming: bad.Op.Streaming()}, malformed(bad.Code, bad.What))
		return
	}
	x.request = req
	said, err := p.readHeaders(x.in.Header)
	if err != nil {
		p.reject(w, x, askedOf(req), malformed(codeInvalid, err.Error()))
		return
	}
	ctx, end := p.tel.start(x)
	defer end()
	switch {
	case req.Op.Sends():
		p.send(ctx, w, x, said)
	case req.TaskID != "":
		p.follow(ctx, w, x, said)
	default:
		p.relay(ctx, w, x)
	}
}

// send admits a message and carries it.
func (p *Proxy) send(ctx context.Context, w http.ResponseWriter, x *exchange, s said) {
	if err := x.agent.reach.look(ctx); err != nil {
		if ctx.Err() != nil {
			return // the caller went away
		}
		p.log.WarnContext(ctx, "agent cannot be reached", "agent", x.agent.Session.Name, "error", err)
		p.refuse(ctx, w, x, &lineage.Refusal{Reason: lineage.AgentUnreachable, Agent: x.agent.Session.Name})
		return
	}
	run, err := p.record.Begin(ctx, sessions.Call{
		Agent: &x.agent.Session, Principal: s.principal, Root: s.root, Parent: s.parent, Depth: s.depth, Turn: s.turn,
		TraceID: traceID(ctx), Request: x.request,
	})
	if err != nil {
		if ctx.Err() == nil {
			p.refuse(ctx, w, x, err)
		}
		return
	}
	x.run = run
	if id, edit := run.ContextID(); edit {
		x.body = x.request.WithContextID(id)
	}
	p.tel.admitted(x)
	// Not every way out of the ReverseProxy passes its hooks (a panic of the
	// copying, say). Ending a run twice is harmless.
	defer run.End(sessions.CallerGone)
	p.relay(ctx, w, x)
}

// follow carries a call about a task and reads along.
func (p *Proxy) follow(ctx context.Context, w http.ResponseWriter, x *exchange, s said) {
	run, err := p.record.Follow(ctx, &x.agent.Session, s.principal, traceID(ctx), x.request.TaskID)
	switch {
	case errors.Is(err, sessions.ErrNotFound):
	case err != nil:
		if ctx.Err() == nil {
			p.refuse(ctx, w, x, err)
		}
		return
	default:
		x.run = run
		defer run.End(sessions.CallerGone)
	}
	p.relay(ctx, w, x)
}

// relay hands the exchange to the ReverseProxy.
func (p *Proxy) relay(ctx context.Context, w http.ResponseWriter, x *exchange) {
	p.forward.ServeHTTP(w, x.in.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
}

// pass carries what is not A2A as it came, and counts it.
func (p *Proxy) pass(w http.ResponseWriter, x *exchange) {
	p.tel.passed(x)
	p.relay(x.in.Context(), w, x)
}

// reject answers a request that cannot be carried as it is.
func (p *Proxy) reject(w http.ResponseWriter, x *exchange, q asked, f fault) {
	p.tel.refused(x.in.Context(), x.agent.Session.Name, f.reason)
	p.writeRPC(w, q, f)
}

// refuse answers a call that may not go on.
func (p *Proxy) refuse(ctx context.Context, w http.ResponseWriter, x *exchange, err error) {
	f := refusal(err)
	x.outcome = "refused"
	p.tel.refused(ctx, x.agent.Session.Name, f.reason)
	p.log.InfoContext(ctx, "call refused", "agent", x.agent.Session.Name, "reason", string(f.reason), "error", err)
	if x.agent.RefuseTask && x.request.Op.Sends() {
		p.writeTask(w, askedOf(x.request), x.request.ContextID, f)
		return
	}
	p.writeRPC(w, askedOf(x.request), f)
}

// forwarded are headers that the ReverseProxy drops before Rewrite and that a
// transparent sidecar passes as they came.
var forwarded = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request that leaves.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	pr.Out.URL = x.agent.target(x.rest, x.in.URL.RawQuery)
	pr.Out.Host = "" // the agent's own name
	for _, name := range forwarded {
		if values, ok := pr.In.Header[name]; ok {
			pr.Out.Header[name] = values
		}
	}
	if x.body != nil {
		setBody(pr.Out, x.body)
	}
	if x.request == nil {
		return
	}
	var v lineage.Values
	if x.run != nil && x.request.Op.Sends() {
		v = x.run.Lineage()
	}
	p.stamp(pr.Out.Header, v, x.agent.Told)
	p.tel.inject(x, pr.Out.Header)
	if x.run != nil {
		pr.Out.Header.Del("Accept-Encoding") // the tap must be able to read the answer
	}
}

// setBody gives r a body that can be sent again if the connection turns out
// dead before any byte of it left, and only then: Go's transport takes a POST
// with an Idempotency-Key for one that may be sent twice, which no send is.
func setBody(r *http.Request, body []byte) {
	r.ContentLength = int64(len(body))
	r.TransferEncoding = nil
	r.Body = io.NopCloser(bytes.NewReader(body))
	r.GetBody = nil
	_, twice := r.Header["Idempotency-Key"]
	if _, x := r.Header["X-Idempotency-Key"]; !twice && !x {
		r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	}
}

// answered looks at the head of the answer and puts the tap on its body.
func (p *Proxy) answered(resp *http.Response) error {
	x := exchangeOf(resp.Request.Context())
	p.tel.answered(x, resp)
	if x.request != nil && x.request.Op == wire.OpCard && !x.agent.CardsAsSent {
		return p.rewriteCardResponse(x, resp)
	}
	if x.run == nil {
		return nil
	}
	v := x.run.Lineage()
	id, _ := x.run.ContextID()
	stampResponse(resp.Header, v, id)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Body = newTap(x.in.Context(), resp, media == "text/event-stream", x.run)
	return nil
}

// failed answers a call that got no answer.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	ctx := r.Context()
	if ctx.Err() != nil {
		if x.run != nil {
			x.run.End(sessions.CallerGone)
		}
		x.outcome = "caller_gone"
		w.WriteHeader(http.StatusBadGateway) // to nobody
		return
	}
	outcome := sessions.BrokenOff
	if unsent(err) {
		outcome = sessions.Unreachable
	}
	if x.run != nil {
		x.run.End(outcome)
	}
	x.outcome = "unreachable"
	p.log.WarnContext(ctx, "agent gave no answer", "agent", x.agent.Session.Name, "error", err)
	r2 := &lineage.Refusal{Reason: lineage.AgentUnreachable, Agent: x.agent.Session.Name}
	if x.request == nil {
		p.writeHTTP(w, refusal(r2))
		return
	}
	p.refuse(ctx, w, x, r2)
}

// askedAnyway reads what an answer must know out of a body of any quality.
func askedAnyway(body []byte) asked {
	req, err := wire.Read(body)
	var bad *wire.Error
	if errors.As(err, &bad) {
		return asked{id: bad.ID, version: bad.Version, streaming: bad.Op.Streaming()}
	}
	return askedOf(req)
}

// unsent reports whether no byte of a call can have reached the agent.
func unsent(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
