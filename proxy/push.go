package proxy

import (
	"bytes"
	"context"
	"crypto/aes"
	"crypto/cipher"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/propagation"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// relay stands between agents and the places to which they send push
// notifications (A2A 1.0 §4.3.3). On a call's way out it puts a URL of its own
// in place of the caller's; what the agent sends there goes on, byte for byte,
// to the place that was meant, and into the record.
//
//	caller ─ url ─▶ outgoing ─ url' ─▶ agent
//	caller ◀ url ── original ◀ url' ── agent     a configuration that is asked for
//	target ◀ POST ─ ServeHTTP ◀ POST ─ agent     a notification
//
// It keeps no list of what it has handed out: url' holds what it stands for,
// sealed under a key of the record. So no restart and no replica forgets one,
// nobody can guess or forge one, and the agent does not learn the caller's.
// A nil relay leaves every URL as it is.
type relay struct {
	base       string // of its URLs, without the slash at the end
	seals      cipher.AEAD
	agents     map[string]*sessions.Agent
	maxBody    int64
	within     time.Duration // for a notification to be delivered
	log        *slog.Logger
	propagator propagation.TextMapPropagator
	hearings   *hearings
	transport  *http.Transport
	forward    *httputil.ReverseProxy
	counter    metric.Int64Counter
}

// deliverWithin is what a target gets to answer. SDKs give up after 30 seconds
// or sooner, and a 504 is a better answer to an agent than none.
const deliverWithin = 25 * time.Second

// maxPushURL bounds the URLs that are relayed: sealed, a URL must fit into the
// head of a request, of which servers take 8 KiB or more.
const maxPushURL = 4 << 10

// callbacksPath is in the path of every URL of a relay, before what is sealed.
const callbacksPath = "/callbacks/"

// newRelay returns the relay that opts asks for, nil if none. Its URLs begin
// with opts.PushURL.
func newRelay(opts Options) (*relay, error) {
	if opts.PushURL == "" {
		return nil, nil
	}
	key, err := opts.Record.PushKey()
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, fmt.Errorf("sealing push URLs: %w", err)
	}
	r := &relay{
		base: strings.TrimRight(opts.PushURL, "/"), agents: make(map[string]*sessions.Agent, len(opts.Agents)),
		maxBody: opts.MaxBody, within: deliverWithin, log: opts.Logger, propagator: opts.Propagator,
		hearings: newHearings(opts.Record), transport: targetTransport(),
	}
	if r.maxBody <= 0 {
		r.maxBody = DefaultMaxBody
	}
	if r.seals, err = cipher.NewGCMWithRandomNonce(block); err != nil {
		return nil, fmt.Errorf("sealing push URLs: %w", err)
	}
	if r.counter, err = opts.Meter.Meter(scope).Int64Counter("a2a_sidecar_callbacks",
		metric.WithDescription("Push notifications that agents sent to be relayed, by agent and outcome.")); err != nil {
		return nil, err
	}
	for _, a := range opts.Agents {
		r.agents[a.Session.Name] = &a.Session
	}
	r.forward = &httputil.ReverseProxy{
		Rewrite: r.rewrite, Transport: r.transport, ModifyResponse: r.answered, ErrorHandler: r.failed,
		ErrorLog: slog.NewLogLogger(opts.Logger.Handler(), slog.LevelDebug),
	}
	return r, nil
}

// Callbacks returns the handler for what agents send to the relay's URLs.
func (p *Proxy) Callbacks() http.Handler {
	if p.push == nil {
		return http.NotFoundHandler()
	}
	return p.push
}

// close ends what the relay keeps open.
func (r *relay) close() {
	if r == nil {
		return
	}
	r.hearings.close()
	r.transport.CloseIdleConnections()
}

// sealed is what a URL of the relay stands for.
type sealed struct {
	Agent     string `json:"a"`
	Principal string `json:"p,omitempty"` // whose task it is
	URL       string `json:"u"`           // where notifications are to go
	At        int64  `json:"t"`           // when it was made, in Unix seconds
}

// outgoing returns the URL that is to stand in place of original in a call to
// agent for principal. One that the relay cannot reach stays, and so does one
// that is its own already: a caller may well hand back what an agent told it.
func (r *relay) outgoing(agent, principal, original string) string {
	if r == nil || len(original) > maxPushURL {
		return original
	}
	u, err := url.Parse(original)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
		return original
	}
	// One that was made for another agent or user is not theirs to be read back
	// out of, and means nothing that could be recorded here.
	if strings.HasPrefix(original, r.base+callbacksPath) {
		if s, ours := r.unseal(original); ours && s.Agent == agent && s.Principal == principal {
			return original
		}
	}
	var plain bytes.Buffer
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false) // & is frequent in URLs
	if err := e.Encode(sealed{Agent: agent, Principal: principal, URL: original, At: time.Now().Unix()}); err != nil {
		return original // never: they are strings
	}
	token := r.seals.Seal(nil, nil, plain.Bytes(), nil)
	return r.base + callbacksPath + base64.RawURLEncoding.EncodeToString(token)
}

// original returns the URL in whose place outgoing has put raw; false if raw is
// none of the relay's.
func (r *relay) original(raw string) (string, bool) {
	if r == nil {
		return "", false
	}
	s, ok := r.unseal(raw)
	return s.URL, ok
}

// unseal opens a URL of the relay, or its path. What stands before the last two
// segments does not count: agents normalise URLs, and gateways cut paths.
func (r *relay) unseal(raw string) (sealed, bool) {
	i := strings.LastIndex(raw, callbacksPath)
	if i < 0 {
		return sealed{}, false
	}
	token, err := base64.RawURLEncoding.DecodeString(raw[i+len(callbacksPath):])
	if err != nil {
		return sealed{}, false
	}
	plain, err := r.seals.Open(nil, nil, token, nil)
	if err != nil {
		return sealed{}, false
	}
	var s sealed
	return s, json.Unmarshal(plain, &s) == nil
}

// notification is one request of an agent on its way to its target.
type notification struct {
	sealed
	body    []byte
	target  *url.URL
	outcome string // for metrics
}

// notificationKey is the context key of a *notification.
type notificationKey struct{}

func notificationOf(ctx context.Context) *notification {
	n, _ := ctx.Value(notificationKey{}).(*notification)
	return n
}

// ServeHTTP takes a notification, tells the record of it, and sends it on.
func (r *relay) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	s, ok := r.unseal(req.URL.EscapedPath())
	agent := r.agents[s.Agent]
	target, err := url.Parse(s.URL)
	switch {
	case !ok || agent == nil || err != nil:
		r.count(req.Context(), "", "unknown")
		http.Error(w, "no such callback", http.StatusNotFound)
		return
	case req.Method != http.MethodPost:
		w.Header().Set("Allow", http.MethodPost)
		http.Error(w, "push notifications are sent by POST", http.StatusMethodNotAllowed)
		return
	}
	ctx := req.Context()
	n := &notification{sealed: s, target: target, outcome: outcomes[sessions.CallerGone]}
	defer func() { r.count(ctx, s.Agent, n.outcome) }()
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(r.within)) // a connection that knows none is no agent's
	n.body, err = readBody(w, req, r.maxBody)
	if err == nil {
		// Else it stays: before it answers, the server looks for the rest of the body.
		_ = control.SetReadDeadline(time.Time{})
	}
	switch {
	case errors.Is(err, errTooLarge):
		n.outcome = "too_large"
		drain(w, req, r.maxBody)
		http.Error(w, "push notification is too large", http.StatusRequestEntityTooLarge)
		return
	case err != nil:
		http.Error(w, "push notification broke off", http.StatusBadRequest)
		return
	}
	// The record hears of it first: whoever acts on a notification finds it there.
	delivered, passed := r.hear(req, agent, n), false
	defer func() { delivered(passed && n.outcome == outcomeAnswered) }()
	timed, cancel := context.WithTimeout(ctx, r.within)
	defer cancel()
	r.forward.ServeHTTP(w, req.WithContext(context.WithValue(timed, notificationKey{}, n)))
	passed = ctx.Err() == nil // else the agent has not heard that it was delivered
}

// hear tells the record what a notification says. What cannot be read or
// belongs to no recorded task is relayed all the same.
func (r *relay) hear(req *http.Request, agent *sessions.Agent, n *notification) (delivered func(bool)) {
	ctx := r.propagator.Extract(req.Context(), propagation.HeaderCarrier(req.Header))
	delivered = func(bool) {}
	said, err := unpacked(req.Header, n.body)
	if err == nil {
		delivered, err = r.hearings.hear(ctx, agent, n.Principal, said)
	}
	if err != nil {
		r.log.DebugContext(ctx, "push notification is not recorded", "agent", agent.Name, "error", err)
	}
	return delivered
}

// unpacked returns what a body says that is encoded as its header claims.
func unpacked(h http.Header, body []byte) ([]byte, error) {
	encoding := contentEncoding(h)
	if encoding == "" {
		return body, nil
	}
	return unpackAll(encoding, body, maxSeen)
}

// rewrite makes the request that leaves: what came, but for its hop and what
// was meant for the sidecar.
func (r *relay) rewrite(pr *httputil.ProxyRequest) {
	n := notificationOf(pr.In.Context())
	pr.Out.URL = n.target
	pr.Out.Host = ""
	dropOwn(pr.Out.Header)
	for _, name := range forwarded {
		if values, ok := pr.In.Header[name]; ok {
			pr.Out.Header[name] = values // the ReverseProxy has dropped them
		}
	}
	// Nothing is upgraded here: a connection like that would be bounded by nothing.
	pr.Out.Header.Del("Connection")
	pr.Out.Header.Del("Upgrade")
	if _, has := pr.Out.Header["Authorization"]; !has && n.target.User != nil {
		password, _ := n.target.User.Password()
		pr.Out.SetBasicAuth(n.target.User.Username(), password) // as a client does that is given such a URL
	}
	setBody(pr.Out, n.body, func() bool { return true }) // over HTTP/1.1, see [targetTransport]
}

var errReply = errors.New("target's answer cannot be passed on")

// answered reads the target's answer, which is for the agent and says nothing
// to the record.
func (r *relay) answered(resp *http.Response) error {
	n := notificationOf(resp.Request.Context())
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return fmt.Errorf("%w: it switches protocols", errReply)
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, r.maxBody+1))
	if err == nil && int64(len(body)) > r.maxBody {
		err = fmt.Errorf("%w: it is longer than %d bytes", errReply, r.maxBody)
	}
	if err != nil {
		return err
	}
	_ = resp.Body.Close() // read to its end
	resp.Body = io.NopCloser(bytes.NewReader(body))
	n.outcome = outcomeAnswered
	if resp.StatusCode < http.StatusOK || resp.StatusCode >= http.StatusMultipleChoices {
		n.outcome = outcomes[sessions.HTTPError] // redirects too: they are the agent's to follow, or not
	}
	return nil
}

// failed answers the agent whose notification could not be delivered, so that
// it tries again as it would have without a relay. It is not told why: that is
// about the caller's network.
func (r *relay) failed(w http.ResponseWriter, req *http.Request, err error) {
	ctx := req.Context()
	n := notificationOf(ctx)
	status := http.StatusBadGateway
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		status = http.StatusGatewayTimeout
		n.outcome = "timeout"
	case ctx.Err() != nil:
		w.WriteHeader(http.StatusServiceUnavailable) // the agent has gone, or the sidecar is stopping
		return
	case errors.Is(err, errForbidden):
		n.outcome = "forbidden"
	default:
		n.outcome = outcomes[sessions.Unreachable]
	}
	// Of the target only the host: its path and query may be as good as a password.
	r.log.WarnContext(ctx, "push notification is not delivered",
		"agent", n.Agent, "host", n.target.Host, "registered", time.Unix(n.At, 0).UTC(), "error", err)
	http.Error(w, "push notification is not delivered: its target cannot be reached", status)
}

func (r *relay) count(ctx context.Context, agent, outcome string) {
	r.counter.Add(ctx, 1, metric.WithAttributeSet(attribute.NewSet(
		attribute.String("agent", agent), attribute.String("outcome", outcome))))
}
