package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// Paths of agent cards below an agent. An agent that has its card under one of
// the two well-known paths is taken to have it under both: 0.2 clients ask for
// one, later ones for the other.
const (
	cardPath    = "/.well-known/agent-card.json"
	oldCardPath = "/.well-known/agent.json"
)

// cardPaths are those and the paths of the card for authenticated callers in
// the HTTP+JSON binding of 1.0 and 0.3. Anything may stand before them: more
// agents behind one base URL, a version, a tenant.
var cardPaths = []string{cardPath, oldCardPath, "/extendedAgentCard", "/v1/card"}

// isCard reports whether a request asks for an agent card. The agent sees
// through escapes, and so does this.
func isCard(r *http.Request, rest string) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	path, err := url.PathUnescape(rest)
	return err == nil && slices.ContainsFunc(cardPaths, func(p string) bool { return strings.HasSuffix(path, p) })
}

// otherPath is rest with the other well-known path at its end, or empty.
func otherPath(rest string) string {
	if before, ok := strings.CutSuffix(rest, cardPath); ok {
		return before + oldCardPath
	}
	if before, ok := strings.CutSuffix(rest, oldCardPath); ok {
		return before + cardPath
	}
	return ""
}

// cardError says what is wrong with an agent's card.
type cardError struct {
	agent string
	err   error
	cut   bool // it broke off: the agent is down rather than wrong
}

func (e *cardError) Error() string { return "the card of agent " + e.agent + " " + e.err.Error() }
func (e *cardError) Unwrap() error { return e.err }

// wrongCard says what is wrong with the card of x's agent.
func (x *exchange) wrongCard(err error) error {
	return &cardError{x.agent.Session.Name, err, errors.Is(err, errCut)}
}

// sentCard is an agent's answer to a request for its card: the card, if the
// status says so, or else what the agent has to say instead.
type sentCard struct {
	status int
	header http.Header // without those of the connection, and the sidecar's own
	body   []byte
	stale  bool // it was kept
}

// holdsCard reports whether an answer of a status has a card as its body, or
// around it. Callers take others than 200 for one, too.
func holdsCard(status int) bool { return status/100 == 2 && status != http.StatusNoContent }

// card serves an agent's card with every interface pointing at the sidecar, so
// that clients, which take their URLs from the card, stay on it. If the agent
// is down, that is the last card it had: clients that find none when they start
// give up for good.
func (p *Proxy) card(ctx context.Context, w http.ResponseWriter, x *exchange) {
	c, err := p.refreshCard(ctx, x)
	switch {
	case ctx.Err() != nil:
		p.gone(w, x)
		return
	case isDown(c, err):
		if last := x.lastCard(p.tel.now()); last != nil {
			p.log.WarnContext(ctx, "agent is down: its last card is served", "agent", x.agent.Session.Name, "age", last.header.Get("Age"), "error", err)
			p.tel.stale(ctx, x)
			c, err = last, nil
		}
	}
	if err == nil {
		err = p.serveCard(ctx, w, x, c)
	}
	if err == nil {
		if !c.stale {
			x.keepCard(c, p.tel.now()) // one that could be served, and may be again
		}
		return
	}
	p.log.WarnContext(ctx, "agent card cannot be served", "agent", x.agent.Session.Name, "error", err)
	f := unreachable(x.agent)
	if bad, ok := errors.AsType[*cardError](err); ok {
		f = invalidCard(bad)
	}
	p.reject(ctx, w, x, x.binding.asked(x.in), f)
}

// refreshCard is getCard, but gives up on an agent that hangs if there is its
// last card to serve in place of a newer one.
func (p *Proxy) refreshCard(ctx context.Context, x *exchange) (*sentCard, error) {
	if x.lastCard(p.tel.now()) != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, x.agent.cards.patience)
		defer cancel()
	}
	return p.getCard(ctx, x)
}

// getCard gets the card that x asks for from the agent, and checks its
// signatures.
func (p *Proxy) getCard(ctx context.Context, x *exchange) (*sentCard, error) {
	resp, err := p.fetchCard(ctx, x, x.rest)
	if other := otherPath(x.rest); err == nil && resp.StatusCode == http.StatusNotFound && other != "" {
		_ = resp.Body.Close() // a 404 says no more
		resp, err = p.fetchCard(ctx, x, other)
	}
	if err != nil {
		return nil, err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	body, err := readEdited(resp.Body)
	if err != nil {
		return nil, x.wrongCard(err)
	}
	dropHopByHop(resp.Header)
	dropOwn(resp.Header) // what is said of the card here is the sidecar's to say
	c := &sentCard{status: resp.StatusCode, header: resp.Header, body: body}
	if holdsCard(c.status) && !x.agent.CardsAsSent {
		if c.body, err = plainBody(c.header, body); err != nil {
			return nil, x.wrongCard(err)
		}
		c.header.Del("Content-Encoding")
	}
	return c, x.verifySent(c)
}

// fetchCard gets the card as the agent has it, with the caller's headers: cards
// vary by version and by credentials.
func (p *Proxy) fetchCard(ctx context.Context, x *exchange, rest string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.agent.target(rest, x.in.URL.RawQuery).String(), http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header = x.in.Header.Clone()
	dropHopByHop(req.Header)
	dropOwn(req.Header)
	x.proxy.dropLineage(req.Header, x.agent.Told)
	if _, ok := req.Header["User-Agent"]; !ok {
		req.Header["User-Agent"] = nil // or the transport makes one up
	}
	if !x.agent.CardsAsSent {
		// The caller's validators are for the card as served here, and its
		// encodings for one that needs no reading.
		for _, name := range [...]string{"Accept-Encoding", "If-None-Match", "If-Modified-Since"} {
			req.Header.Del(name)
		}
	}
	if x.readsCards() {
		req.Header.Del("Range")
		req.Header.Del("If-Range")
	}
	return x.channel().transport.RoundTrip(req)
}

// readsCards reports whether cards are more to the sidecar than bytes.
func (x *exchange) readsCards() bool { return !x.agent.CardsAsSent || x.verifies() }

// dropHopByHop removes the headers of one connection, and those that it names.
func dropHopByHop(h http.Header) {
	for _, value := range h["Connection"] {
		for name := range strings.SplitSeq(value, ",") {
			h.Del(textproto.TrimString(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
}

// hopByHop are the headers of one connection (RFC 9110 §7.6.1).
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

// stale are the headers that tell of the bytes as the agent sent them.
var stale = [...]string{
	"Content-Length", "Etag", "Last-Modified", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges",
	"Age", "Expires",
}

// cardSource says where the card that x asked for comes from.
func (x *exchange) cardSource(c *sentCard) cardSource {
	switch _, public := x.publicPath(); {
	case !public:
		return fromOneUser
	case c.stale:
		return fromMemory
	default:
		return fromAgent
	}
}

// serveCard writes a card as the agent sent it, or as the caller is to see it.
func (p *Proxy) serveCard(ctx context.Context, w http.ResponseWriter, x *exchange, c *sentCard) error {
	body := c.body
	edit := holdsCard(c.status) && !x.agent.CardsAsSent
	if edit {
		var err error
		if body, err = wire.RewriteCard(body, x.interfaces(ctx, body, x.cardSource(c), wire.RewriteCard)); err != nil {
			return x.wrongCard(fmt.Errorf("cannot be read: %w", err))
		}
	}
	h := w.Header()
	maps.Copy(h, c.header)
	if edit {
		fresh(h, body, c.stale)
	}
	if (edit || c.stale) && matches(x.in.Header.Values("If-None-Match"), h.Get("Etag")) {
		h.Del("Content-Type")
		h.Del("Content-Length")
		w.WriteHeader(http.StatusNotModified)
		return nil
	}
	if c.status != http.StatusNotModified && c.status != http.StatusNoContent {
		h.Set("Content-Length", strconv.Itoa(len(body)))
	}
	w.WriteHeader(c.status)
	if x.in.Method != http.MethodHead {
		_, _ = w.Write(body) // a caller that has gone needs no card
	}
	return nil
}

// fresh makes the headers of a card those of its edited bytes. How long it may
// be kept is the agent's to say; if it does not, it is to be asked for again,
// since the sidecar may move. The age of a card that was kept here stays.
func fresh(h http.Header, body []byte, kept bool) {
	age := h["Age"]
	for _, name := range stale {
		h.Del(name)
	}
	if kept {
		h["Age"] = age
	}
	h.Set("Etag", etag(body))
	if len(h["Cache-Control"]) == 0 {
		h.Set("Cache-Control", "no-cache")
	}
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches reports whether If-None-Match names tag (RFC 9110 §13.1.2).
func matches(values []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, v := range values {
		for candidate := range strings.SplitSeq(v, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == tag && tag != "" || candidate == "*" {
				return true
			}
		}
	}
	return false
}
