package proxy

import (
	"cmp"
	"context"
	"errors"
	"net/http"
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
	proxy   *Proxy
	agent   *upstream
	own     *ownCall // of the sidecar's own accord; nil: somebody else's
	to      *channel // where it goes; nil: the agent's base
	binding binding  // in which it is answered
	in      *http.Request
	rest    string // escaped path below the agent
	began   time.Time

	outbound string // base URL of the outbound port, if it came by another; empty: it came by that

	// Set for calls that are A2A.
	request   *wire.Request
	life      context.Context // of a send: ends with an [sessions.Ended] if the record cuts it off
	body      []byte          // as it leaves; nil: as it came
	run       *sessions.Run   // that it holds or asks about; nil if none
	watcher   watcher         // of the answer; nil: nobody reads it
	span      trace.Span
	traced    bool   // span is a span of ours, not the caller's
	continued bool   // the caller's trace could be read
	connected bool   // the transport had a connection for it
	http2     bool   // which speaks HTTP/2
	outcome   string // for metrics
}

// channel returns the connections that the exchange leaves by.
func (x *exchange) channel() *channel {
	if x.to != nil {
		return x.to
	}
	return x.agent.base
}

// carried is the run of an exchange. What ends it is the call's outcome, too.
type carried struct {
	*sessions.Run
	x *exchange
}

// Saw implements [watcher].
func (c carried) Saw(u wire.Update) {
	c.x.own.saw(u)
	c.Run.Saw(u)
}

// End implements [watcher].
func (c carried) End(o sessions.Outcome) {
	outcome := outcomes[o]
	if o != sessions.Answered && c.x.ended() != nil {
		outcome = outcomeEnded
	}
	c.x.outcome = cmp.Or(c.x.outcome, outcome)
	c.Run.End(o)
}

// ended returns why the record has cut the exchange off, nil if it has not.
func (x *exchange) ended() *sessions.Ended {
	if x.life == nil {
		return nil
	}
	e, _ := errors.AsType[*sessions.Ended](context.Cause(x.life))
	return e
}

// watch has the answer of an exchange told to run.
func (x *exchange) watch(run *sessions.Run) { x.run, x.watcher = run, carried{run, x} }

// call carries a call of A2A: it reads the whole of the request, and by what it
// asks decides what becomes of it.
func (p *Proxy) call(ctx context.Context, w http.ResponseWriter, x *exchange) {
	body, err := readBody(w, x.in, p.maxBody)
	switch {
	case errors.Is(err, errTooLarge):
		drain(w, x.in, p.maxBody)
		p.reject(ctx, w, x, x.binding.asked(x.in), tooLarge(p.maxBody))
		return
	case err != nil:
		p.reject(ctx, w, x, x.binding.asked(x.in), malformed(wire.CodeParse, "request body broke off"))
		return
	}
	if len(body) > 0 && contentEncoding(x.in.Header) != "" {
		p.reject(ctx, w, x, x.binding.asked(x.in), malformed(codeInvalid, "request body is encoded (content-encoding); the sidecar must read it: send it as it is"))
		return
	}
	if len(body) > 0 || x.in.ContentLength != 0 {
		x.body = body
	}
	req, err := x.binding.read(x.in, x.rest, body)
	if errors.Is(err, errTooLarge) { // once unpacked
		p.reject(ctx, w, x, x.binding.asked(x.in), tooLarge(p.maxBody))
		return
	}
	if bad, ok := errors.AsType[*wire.Error](err); ok {
		if bad.Foreign {
			p.pass(ctx, w, x)
			return
		}
		p.reject(ctx, w, x, x.askedBy(bad), malformed(bad.Code, bad.What))
		return
	}
	x.request = req
	if req.Binding == wire.GRPC {
		if f := p.findGRPC(ctx, x, req.Version); f != nil {
			p.refuse(ctx, w, x, *f)
			return
		}
	}
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
	case req.Op == wire.OpList:
		p.list(ctx, w, x, said)
	case req.TaskID != "":
		p.follow(ctx, w, x, said)
	default:
		p.splice(x, said, wire.Edit{})
		p.relay(ctx, w, x)
	}
}

// askedBy is what is known of a request whose body was refused.
func (x *exchange) askedBy(bad *wire.Error) asked {
	if bad.Op == wire.OpOther { // the method could not be read
		q := x.binding.asked(x.in)
		q.id = bad.ID
		return q
	}
	return asked{id: bad.ID, version: bad.Version, streaming: bad.Op.Streaming()}
}

// send admits a message and carries it.
func (p *Proxy) send(ctx context.Context, w http.ResponseWriter, x *exchange, s said) {
	if err := p.look(ctx, x); err != nil {
		if ctx.Err() != nil {
			p.gone(w, x)
			return
		}
		p.log.WarnContext(ctx, "agent cannot be reached", "agent", x.agent.Session.Name, "error", err)
		p.refuse(ctx, w, x, unreachable(x.agent))
		return
	}
	ctx, abort := context.WithCancelCause(ctx)
	defer abort(nil)
	x.life = ctx
	run, err := p.record.Begin(ctx, sessions.Call{
		Agent: &x.agent.Session, Principal: s.principal, Root: s.root, Parent: s.parent, Depth: s.depth, Turn: s.turn,
		TraceID: traceID(ctx), Request: x.request, As: x.voice(), Abort: abort,
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
	x.watch(run)
	var e wire.Edit
	if id, edit := run.ContextID(); edit {
		e.Context = &id
	}
	p.splice(x, s, e)
	p.tel.admitted(ctx, x)
	// Not every way out of the ReverseProxy passes its hooks (a panic of the
	// copying, say). Ending a run twice is harmless.
	defer run.End(sessions.CallerGone)
	p.relay(ctx, w, x)
}

// look returns nil if the agent can be reached where the exchange is to go. A
// gRPC interface that cannot may have moved.
func (p *Proxy) look(ctx context.Context, x *exchange) error {
	err := x.channel().reach.look(ctx)
	if err == nil || x.to == nil || ctx.Err() != nil || !x.agent.forgetGRPC(x.to) {
		return err
	}
	if p.findGRPC(ctx, x, x.request.Version) != nil {
		return err
	}
	return x.channel().reach.look(ctx)
}

// follow carries a call about a task and reads along.
func (p *Proxy) follow(ctx context.Context, w http.ResponseWriter, x *exchange, s said) {
	run, err := p.record.Follow(ctx, &x.agent.Session, s.principal, traceID(ctx), x.request.TaskID)
	switch {
	case errors.Is(err, sessions.ErrNotFound):
	case ctx.Err() != nil:
		p.gone(w, x)
		return
	case err != nil && x.own != nil && x.own.voice == nil:
		// The record's own errand, in the name of a user whom it does not know any
		// more: what the agent does of it counts, though it is not taken note of.
	case err != nil:
		p.refuse(ctx, w, x, refusal(err))
		return
	default:
		x.watch(run)
		defer run.End(sessions.CallerGone)
	}
	p.splice(x, s, wire.Edit{})
	p.relay(ctx, w, x)
}

// list carries a call for a list of tasks and reads it, unless it asks for
// those of another user's context: to know a context's id is not to own it.
func (p *Proxy) list(ctx context.Context, w http.ResponseWriter, x *exchange, s said) {
	listing, err := p.record.List(ctx, &x.agent.Session, s.principal, traceID(ctx), x.request.ContextID)
	switch {
	case ctx.Err() != nil:
		p.gone(w, x)
	case err != nil:
		p.refuse(ctx, w, x, refusal(err))
	default:
		x.watcher = listing
		p.relay(ctx, w, x)
	}
}

// splice makes the edits of a request, and takes note of a push configuration
// in it.
func (p *Proxy) splice(x *exchange, s said, e wire.Edit) {
	if push := x.request.Push; push != nil && push.URL != "" {
		if x.run != nil {
			x.run.NotePush(*push)
		}
		if x.agent.RelayPush {
			e.PushURL = p.push.outgoing(x.agent.Session.Name, s.principal, push.URL)
		}
	}
	message := x.request.Edited(wire.Edit{})
	if edited := x.request.Edited(e); !same(message, edited) {
		x.body = x.binding.encode(edited)
	}
}

// same reports whether two slices are the same bytes in memory.
func same(a, b []byte) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}

// pass carries what is not A2A as it came, and counts it.
func (p *Proxy) pass(ctx context.Context, w http.ResponseWriter, x *exchange) {
	p.tel.passed(ctx, x)
	p.relay(ctx, w, x)
}

// reject answers a request that cannot be carried as it is.
func (p *Proxy) reject(ctx context.Context, w http.ResponseWriter, x *exchange, q asked, f fault) {
	p.noteRefusal(ctx, x, f)
	p.answerFault(w, x, q, f)
}

// noteRefusal counts a refusal, or tells the sidecar of it whose own call it is.
func (p *Proxy) noteRefusal(ctx context.Context, x *exchange, f fault) {
	if x.own != nil {
		x.own.refusedBy(f)
		return
	}
	p.tel.refused(ctx, x.agent.Session.Name, f.reason)
}

// refuse answers a call that may not go on.
func (p *Proxy) refuse(ctx context.Context, w http.ResponseWriter, x *exchange, f fault) {
	x.outcome = cmp.Or(x.outcome, outcomeRefused)
	p.noteRefusal(ctx, x, f)
	p.log.InfoContext(ctx, "call refused", "agent", x.agent.Session.Name, "reason", string(f.reason), "error", f.message)
	q := askedOf(x.request)
	q.unversioned = q.version == wire.V03 && !strings.Contains(x.rest, "/v1/")
	if x.agent.RefuseTask && x.request.Op.Sends() {
		p.wrote(w, x.binding.task(w, q, newFailedTask(x.request.ContextID, f.message)))
		return
	}
	p.answerFault(w, x, q, f)
}

func (p *Proxy) answerFault(w http.ResponseWriter, x *exchange, q asked, f fault) {
	p.wrote(w, x.binding.fault(w, q, f))
}

// wrote takes care of an answer that could not be encoded.
func (p *Proxy) wrote(w http.ResponseWriter, err error) {
	if err != nil {
		p.log.Error("encoding an answer failed", "error", err)
		http.Error(w, "internal error", http.StatusInternalServerError)
	}
}

// gone ends an exchange whose caller went away, or whose sidecar shuts down.
// An empty answer of success would be a lie to the second.
func (p *Proxy) gone(w http.ResponseWriter, x *exchange) {
	x.outcome = outcomes[sessions.CallerGone]
	if _, ok := x.binding.(grpcBinding); ok {
		p.answerFault(w, x, asked{}, stopping)
		return
	}
	w.WriteHeader(http.StatusServiceUnavailable)
}
