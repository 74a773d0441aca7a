package proxy

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/textproto"
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
	request   *wire.Request
	body      []byte // as it leaves
	run       *sessions.Run
	span      trace.Span
	traced    bool   // span is a span of ours, not the caller's
	continued bool   // the caller's trace could be read
	connected bool   // the transport had a connection for it
	outcome   string // for metrics
}

// carried is the run of an exchange. What ends it is the call's outcome, too.
type carried struct {
	*sessions.Run
	x *exchange
}

// End implements [watcher].
func (c carried) End(o sessions.Outcome) {
	c.x.outcome = cmp.Or(c.x.outcome, outcomes[o])
	c.Run.End(o)
}

// isRPC reports whether a request is a JSON-RPC call, or a broken one: a POST
// that calls its body JSON, or calls it nothing. Many agents never ask what a
// body is called, so what curl calls every body counts if it looks like JSON.
// To find out, the start of the body may be read, and put back.
func isRPC(r *http.Request) bool {
	if r.Method != http.MethodPost {
		return false
	}
	types := r.Header["Content-Type"]
	if len(types) == 0 {
		return true
	}
	for _, ct := range types {
		media, _, _ := strings.Cut(ct, ";")
		switch media = strings.ToLower(textproto.TrimString(media)); {
		case media == "", strings.HasSuffix(media, "json"):
			return true
		case media == "application/x-www-form-urlencoded", media == "text/plain":
			return startsJSON(r)
		}
	}
	return false
}

// startsJSON reports whether the first byte of r's body that is no whitespace
// opens a JSON object or array.
func startsJSON(r *http.Request) bool {
	const far = 512
	body := bufio.NewReaderSize(r.Body, far)
	r.Body = struct {
		io.Reader
		io.Closer
	}{body, r.Body}
	for n := 1; n <= far; n++ {
		start, err := body.Peek(n)
		if err != nil {
			return false // who reads on hears of it again
		}
		switch start[n-1] {
		case ' ', '\t', '\r', '\n':
		case '{', '[':
			return true
		default:
			return false
		}
	}
	return false
}

// rpc carries a JSON-RPC call.
func (p *Proxy) rpc(ctx context.Context, w http.ResponseWriter, x *exchange) {
	body, err := readBody(w, x.in, p.maxBody)
	switch {
	case errors.Is(err, errTooLarge):
		drain(w, x.in, p.maxBody)
		p.reject(ctx, w, x, unread(x.in), tooLarge(p.maxBody))
		return
	case err != nil:
		p.reject(ctx, w, x, unread(x.in), malformed(wire.CodeParse, "request body broke off"))
		return
	}
	if encoding := x.in.Header.Get("Content-Encoding"); encoding != "" && !strings.EqualFold(encoding, "identity") {
		p.reject(ctx, w, x, unread(x.in), malformed(codeInvalid, "request body is encoded (content-encoding); the sidecar must read it: send it as it is"))
		return
	}
	x.body = body
	req, err := wire.Read(body)
	if bad, ok := errors.AsType[*wire.Error](err); ok {
		if bad.Foreign {
			p.pass(ctx, w, x)
			return
		}
		p.reject(ctx, w, x, askedBy(x.in, bad), malformed(bad.Code, bad.What))
		return
	}
	x.request = req
	said, err := p.readHeaders(x.in.Header)
	if err != nil {
		p.reject(ctx, w, x, askedOf(req), malformed(codeInvalid, err.Error()))
		return
	}
	ctx, end := p.tel.start(ctx, x)
	defer end()
	switch {
	case req.Op.Sends():
		p.send(ctx, w, x, said)
	case req.TaskID != "":
		p.follow(ctx, w, x, said)
	case req.ContextID != "":
		p.list(ctx, w, x, said)
	default:
		p.relay(ctx, w, x)
	}
}

// list carries a call that asks for the tasks of a context, unless that is
// another user's: to know a context's id is not to own it.
func (p *Proxy) list(ctx context.Context, w http.ResponseWriter, x *exchange, s said) {
	err := p.record.MayAsk(ctx, &x.agent.Session, s.principal, x.request.ContextID)
	switch {
	case ctx.Err() != nil:
		p.gone(w, x)
	case err != nil:
		p.refuse(ctx, w, x, refusal(err))
	default:
		p.relay(ctx, w, x)
	}
}

// send admits a message and carries it.
func (p *Proxy) send(ctx context.Context, w http.ResponseWriter, x *exchange, s said) {
	if err := x.agent.reach.look(ctx); err != nil {
		if ctx.Err() != nil {
			p.gone(w, x)
			return
		}
		p.log.WarnContext(ctx, "agent cannot be reached", "agent", x.agent.Session.Name, "error", err)
		p.refuse(ctx, w, x, unreachable(x.agent))
		return
	}
	run, err := p.record.Begin(ctx, sessions.Call{
		Agent: &x.agent.Session, Principal: s.principal, Root: s.root, Parent: s.parent, Depth: s.depth, Turn: s.turn,
		TraceID: traceID(ctx), Request: x.request,
	})
	if err != nil {
		if ctx.Err() != nil {
			p.gone(w, x)
			return
		}
		if _, known := errors.AsType[*lineage.Refusal](err); !known {
			p.log.ErrorContext(ctx, "admission failed", "agent", x.agent.Session.Name, "error", err)
		}
		p.refuse(ctx, w, x, refusal(err))
		return
	}
	x.run = run
	if id, edit := run.ContextID(); edit {
		x.body = x.request.Edited(wire.Edit{Context: &id})
	}
	p.tel.admitted(ctx, x)
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
	case ctx.Err() != nil:
		p.gone(w, x)
		return
	case err != nil:
		p.refuse(ctx, w, x, refusal(err))
		return
	default:
		x.run = run
		defer run.End(sessions.CallerGone)
	}
	p.relay(ctx, w, x)
}

// relay hands the exchange to the ReverseProxy.
func (p *Proxy) relay(ctx context.Context, w http.ResponseWriter, x *exchange) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { x.connected = true },
	})
	p.forward.ServeHTTP(w, x.in.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
}

// pass carries what is not A2A as it came, and counts it.
func (p *Proxy) pass(ctx context.Context, w http.ResponseWriter, x *exchange) {
	p.tel.passed(ctx, x)
	p.relay(ctx, w, x)
}

// reject answers a request that cannot be carried as it is.
func (p *Proxy) reject(ctx context.Context, w http.ResponseWriter, x *exchange, q asked, f fault) {
	p.tel.refused(ctx, x.agent.Session.Name, f.reason)
	p.writeRPC(w, q, f)
}

// refuse answers a call that may not go on.
func (p *Proxy) refuse(ctx context.Context, w http.ResponseWriter, x *exchange, f fault) {
	x.outcome = cmp.Or(x.outcome, outcomeRefused)
	p.tel.refused(ctx, x.agent.Session.Name, f.reason)
	p.log.InfoContext(ctx, "call refused", "agent", x.agent.Session.Name, "reason", string(f.reason), "error", f.message)
	if x.agent.RefuseTask && x.request.Op.Sends() {
		p.writeTask(w, askedOf(x.request), x.request.ContextID, f)
		return
	}
	p.writeRPC(w, askedOf(x.request), f)
}

// gone ends an exchange whose caller went away, or whose sidecar shuts down.
// An empty answer of success would be a lie to the second.
func (p *Proxy) gone(w http.ResponseWriter, x *exchange) {
	x.outcome = outcomes[sessions.CallerGone]
	w.WriteHeader(http.StatusServiceUnavailable)
}

// forwarded are headers that the ReverseProxy drops before Rewrite and that a
// transparent sidecar passes as they came.
var forwarded = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request that leaves.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	pr.Out.URL = x.agent.target(x.rest, x.in.URL.RawQuery)
	pr.Out.URL.ForceQuery = x.in.URL.ForceQuery
	pr.Out.Host = "" // the agent's own name
	dropOwn(pr.Out.Header)
	p.dropLineage(pr.Out.Header, x.agent.Told)
	for _, name := range forwarded {
		if values, ok := pr.In.Header[name]; ok {
			pr.Out.Header[name] = values
		}
	}
	switch {
	case x.body != nil:
		setBody(pr.Out, x.body)
	case pr.Out.ContentLength > 0:
		pr.Out.Body = knownBody{pr.Out.Body}
	}
	if x.request == nil {
		return
	}
	if x.run != nil && x.request.Op.Sends() {
		p.stamp(pr.Out.Header, x.run, x.agent.Told)
	}
	p.tel.inject(x, pr.Out.Header)
	if x.run != nil || x.editsCard() {
		pr.Out.Header.Del("Accept-Encoding") // the answer must be readable
	}
}

// answered looks at the head of the answer and puts the tap on its body.
func (p *Proxy) answered(resp *http.Response) error {
	x := exchangeOf(resp.Request.Context())
	p.tel.answered(x, resp)
	if x.editsCard() {
		return x.rewriteCardResponse(resp)
	}
	if x.run == nil {
		return nil
	}
	v := x.run.Lineage()
	id, _ := x.run.ContextID()
	stampResponse(resp.Header, v, id)
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	resp.Body = newTap(x.in.Context(), resp, media == "text/event-stream", carried{x.run, x})
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
		p.gone(w, x)
		return
	}
	p.log.WarnContext(ctx, "agent gave no answer that can be passed on", "agent", x.agent.Session.Name, "error", err)
	var bad *cardError
	f, outcome := brokenOff(x.agent), sessions.BrokenOff
	switch {
	case errors.As(err, &bad):
		f, outcome = invalidCard(bad), sessions.Malformed
	case x.unsent(err):
		f, outcome = unreachable(x.agent), sessions.Unreachable
	}
	x.outcome = outcomes[outcome]
	if x.run != nil {
		x.run.End(outcome)
		id, _ := x.run.ContextID()
		stampResponse(w.Header(), x.run.Lineage(), id)
	}
	if x.request == nil {
		p.writeHTTP(w, f)
		return
	}
	p.refuse(ctx, w, x, f)
}

// unsent reports whether no byte of a call that failed with err can have
// reached the agent.
func (x *exchange) unsent(err error) bool {
	var op *net.OpError
	return !x.connected || errors.As(err, &op) && op.Op == "dial" // in place of a connection that turned out dead
}
