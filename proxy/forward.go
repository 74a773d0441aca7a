package proxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/http/httputil"
	"net/url"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// relay hands the exchange to the ReverseProxy.
func (p *Proxy) relay(ctx context.Context, w http.ResponseWriter, x *exchange) {
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(c httptrace.GotConnInfo) {
			x.connected = true
			if secure, ok := c.Conn.(*tls.Conn); ok {
				x.http2 = secure.ConnectionState().NegotiatedProtocol == "h2"
			}
		},
	})
	w.Header()["Content-Type"] = nil // or one is made up where the agent gives none
	forward := p.forward
	if x.request != nil && x.request.Op.Streaming() {
		forward = p.stream
	}
	forward.ServeHTTP(w, x.in.WithContext(context.WithValue(ctx, exchangeKey{}, x)))
}

// exchangeKey is the context key of the exchange that a forwarded request
// belongs to.
type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// transport sends each request by the connections of its exchange.
type transport struct{}

func (transport) RoundTrip(r *http.Request) (*http.Response, error) {
	x := exchangeOf(r.Context())
	if x == nil {
		return nil, errors.New("request belongs to no exchange")
	}
	return x.channel().transport.RoundTrip(r)
}

// forwarded are headers that the ReverseProxy drops before Rewrite and that a
// transparent sidecar passes as they came.
var forwarded = [...]string{"Forwarded", "X-Forwarded-For", "X-Forwarded-Host", "X-Forwarded-Proto"}

// rewrite makes the request that leaves.
func (p *Proxy) rewrite(pr *httputil.ProxyRequest) {
	x := exchangeOf(pr.In.Context())
	if x.to != nil {
		to := *x.to.url
		// An escaped path that does not parse was none: it came out of a parsed URL.
		if path, err := url.PathUnescape(x.rest); err == nil {
			to.Path, to.RawPath = path, x.rest
		}
		to.RawQuery = x.in.URL.RawQuery
		pr.Out.URL = &to
	} else {
		pr.Out.URL = x.agent.target(x.rest, x.in.URL.RawQuery)
		pr.Out.URL.ForceQuery = x.in.URL.ForceQuery
	}
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
		setBody(pr.Out, x.body, x.mayRepeat)
		if _, ok := x.binding.(grpcBinding); ok && x.in.ContentLength < 0 {
			pr.Out.ContentLength = -1 // its servers see headers, and clients send none of a length
		}
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
	switch {
	case x.edits():
		wantPlain(pr.Out.Header)
	case x.watcher != nil:
		onlyReadable(pr.Out.Header)
	}
}

// edits reports whether the answer is to be edited.
func (x *exchange) edits() bool { return x.editsCard() || x.editsPush() }

// answered looks at the head of the answer and puts the tap on its body.
func (p *Proxy) answered(resp *http.Response) error {
	x := exchangeOf(resp.Request.Context())
	p.tel.answered(x, resp)
	x.own.began(x.binding, resp.StatusCode)
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return nil // what follows is no answer
	}
	x.letGo(resp.Request)
	x.keepRedirect(resp)
	dropOwn(resp.Header) // an agent that stands behind another sidecar tells of that one's tree
	if x.run != nil {
		id, _ := x.run.ContextID()
		stampResponse(resp.Header, x.run.Lineage(), id)
	}
	switch {
	case x.editsCard():
		return x.rewriteCardResponse(resp)
	case x.editsPush():
		if err := x.restorePush(resp); err != nil {
			return err
		}
	}
	if x.watcher != nil {
		resp.Body = newTap(resp.Request.Context(), resp, x.binding.reading(x.request, resp), x.watcher)
	}
	return nil
}

// keepRedirect makes a redirection to elsewhere at the agent one that leads
// through the sidecar again: the caller would follow it past that, or to where
// the agent is not.
func (x *exchange) keepRedirect(resp *http.Response) {
	location, err := resp.Location()
	if err != nil || x.to != nil || dialAddr(location) != dialAddr(x.agent.URL) {
		return // none, or to somebody else
	}
	if rest, ok := x.agent.below(location.String()); ok {
		if location.Fragment != "" {
			rest += "#" + location.EscapedFragment()
		}
		resp.Header.Set("Location", x.ownURL()+rest)
	}
}

// failed answers a call that got no answer.
func (p *Proxy) failed(w http.ResponseWriter, r *http.Request, err error) {
	x := exchangeOf(r.Context())
	ctx := r.Context()
	if why := x.ended(); why != nil {
		p.cutOff(ctx, w, x, why)
		return
	}
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
		p.answerFault(w, x, x.binding.asked(x.in), f)
		return
	}
	p.refuse(ctx, w, x, f)
}

// cutOff answers a call that got no answer because its session was ended.
func (p *Proxy) cutOff(ctx context.Context, w http.ResponseWriter, x *exchange, why *sessions.Ended) {
	x.outcome = outcomeEnded
	if x.run != nil {
		x.run.End(sessions.CallerGone)
		id, _ := x.run.ContextID()
		stampResponse(w.Header(), x.run.Lineage(), id)
	}
	p.refuse(ctx, w, x, sessionEnded(x.agent, why))
}

// letGo drops what is held of the request when its answer has begun: a stream
// may go on for hours, and what it was asked with may be large.
func (x *exchange) letGo(sent *http.Request) {
	sent.GetBody = nil
	x.body = nil
	if r := x.request; r != nil {
		x.request = &wire.Request{ID: bytes.Clone(r.ID), Method: r.Method, Binding: r.Binding, Version: r.Version, Op: r.Op}
	}
}

// mayRepeat reports whether the transport may send the exchange's request once
// more, on another connection. Over HTTP/1.1 it does so only if nothing was
// written; over HTTP/2 also where the agent reset the stream with all of the
// request read, and as often as that happens.
func (x *exchange) mayRepeat() bool { return x.to == nil && !x.http2 }

// unsent reports whether no byte of a call that failed with err can have
// reached the agent.
func (x *exchange) unsent(err error) bool {
	var op *net.OpError
	return !x.connected || errors.As(err, &op) && op.Op == "dial" // in place of a connection that turned out dead
}
