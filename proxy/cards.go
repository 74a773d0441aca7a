package proxy

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/textproto"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// maxCard bounds an agent card, in bytes.
const maxCard = 4 << 20

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
}

func (e *cardError) Error() string { return "the card of agent " + e.agent + " " + e.err.Error() }
func (e *cardError) Unwrap() error { return e.err }

// card serves an agent's card with every interface pointing at the sidecar, so
// that clients, which take their URLs from the card, stay on it.
func (p *Proxy) card(ctx context.Context, w http.ResponseWriter, x *exchange) {
	resp, err := p.fetchCard(ctx, x, x.rest)
	if other := otherPath(x.rest); err == nil && resp.StatusCode == http.StatusNotFound && other != "" {
		_ = resp.Body.Close() // a 404 says no more
		resp, err = p.fetchCard(ctx, x, other)
	}
	if err == nil {
		defer func() { _ = resp.Body.Close() }() // read to its end, or given up
		err = p.serveCard(w, x, resp)
	}
	var bad *cardError
	switch {
	case err == nil:
		return
	case ctx.Err() != nil:
		p.gone(w, x)
		return
	case errors.As(err, &bad):
		p.writeHTTP(w, invalidCard(bad))
	default:
		p.writeHTTP(w, unreachable(x.agent))
	}
	p.log.WarnContext(ctx, "agent card cannot be served", "agent", x.agent.Session.Name, "error", err)
}

// fetchCard gets the card as the agent has it, with the caller's headers: cards
// vary by version and by credentials.
func (p *Proxy) fetchCard(ctx context.Context, x *exchange, rest string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.agent.target(rest, x.in.URL.RawQuery).String(), nil)
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
		for _, name := range [...]string{"Accept-Encoding", "If-None-Match", "If-Modified-Since", "Range", "If-Range"} {
			req.Header.Del(name)
		}
	}
	return x.agent.transport.RoundTrip(req)
}

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
var stale = [...]string{"Content-Length", "Etag", "Last-Modified", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges"}

// readCard reads the body of an answer that holds a card, unpacked if it is to
// be edited: without Accept-Encoding an agent may send what it likes.
func (x *exchange) readCard(resp *http.Response, edit bool) ([]byte, error) {
	bad := func(err error) ([]byte, error) { return nil, &cardError{x.agent.Session.Name, err} }
	body := io.Reader(resp.Body)
	if edit && strings.EqualFold(resp.Header.Get("Content-Encoding"), "gzip") {
		var err error
		if body, err = gzip.NewReader(resp.Body); err != nil {
			return bad(fmt.Errorf("cannot be unpacked: %w", err))
		}
		resp.Header.Del("Content-Encoding")
	}
	card, err := io.ReadAll(io.LimitReader(body, maxCard+1))
	if err != nil {
		return bad(fmt.Errorf("broke off: %w", err))
	}
	if len(card) > maxCard {
		return bad(fmt.Errorf("is larger than %d bytes", maxCard))
	}
	return card, nil
}

// serveCard writes a fetched card.
func (p *Proxy) serveCard(w http.ResponseWriter, x *exchange, resp *http.Response) error {
	edit := resp.StatusCode == http.StatusOK && !x.agent.CardsAsSent
	body, err := x.readCard(resp, edit)
	if err != nil {
		return err
	}
	if edit {
		if body, err = wire.RewriteCard(body, x.interfaces(body, wire.RewriteCard)); err != nil {
			return &cardError{x.agent.Session.Name, fmt.Errorf("cannot be read: %w", err)}
		}
	}
	h := w.Header()
	dropHopByHop(resp.Header)
	maps.Copy(h, resp.Header)
	if edit {
		for _, name := range stale {
			h.Del(name)
		}
		tag := etag(body)
		h.Set("Etag", tag)
		if matches(x.in.Header.Values("If-None-Match"), tag) {
			h.Del("Content-Type")
			w.WriteHeader(http.StatusNotModified)
			return nil
		}
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(resp.StatusCode)
	if x.in.Method != http.MethodHead {
		_, _ = w.Write(body) // a caller that has gone needs no card
	}
	return nil
}

func etag(body []byte) string {
	sum := sha256.Sum256(body)
	return `"` + hex.EncodeToString(sum[:16]) + `"`
}

// matches reports whether If-None-Match names tag (RFC 9110 §13.1.2).
func matches(values []string, tag string) bool {
	for _, v := range values {
		for candidate := range strings.SplitSeq(v, ",") {
			candidate = strings.TrimPrefix(strings.TrimSpace(candidate), "W/")
			if candidate == tag || candidate == "*" {
				return true
			}
		}
	}
	return false
}

// rewriter is wire.RewriteCard or wire.RewriteCardResponse.
type rewriter func(body []byte, each func(binding, url string) (string, bool)) ([]byte, error)

// interfaces returns what becomes of the interface URLs of a card. JSON-RPC is
// what the sidecar reads. Where the agent offers it, other bindings are left
// out, since calls over them would be neither isolated nor counted; an agent
// with HTTP+JSON alone keeps that, and its calls pass as they are. rewrite is
// how the card in body is reached.
func (x *exchange) interfaces(body []byte, rewrite rewriter) func(binding, url string) (string, bool) {
	rpc := false
	// A card that cannot be read fails again, with the error, in the rewriting.
	_, _ = rewrite(body, func(binding, url string) (string, bool) {
		rpc = rpc || readable(binding)
		return url, true
	})
	base := "http://" + x.in.Host + agentsPrefix + x.agent.Session.Name
	if x.in.TLS != nil {
		base = "https://" + x.in.Host + agentsPrefix + x.agent.Session.Name
	}
	return func(binding, url string) (string, bool) {
		if !readable(binding) && (rpc || !strings.EqualFold(binding, "HTTP+JSON")) {
			return "", false
		}
		rest, ok := x.agent.below(url)
		return base + rest, ok
	}
}

// readable reports whether the sidecar reads the messages of a binding. 0.3
// takes an interface that states none for JSON-RPC.
func readable(binding string) bool { return binding == "" || strings.EqualFold(binding, "JSONRPC") }

// editsCard reports whether an exchange is a JSON-RPC call for the extended
// card, which is edited on its way back.
func (x *exchange) editsCard() bool {
	return x.request != nil && x.request.Op == wire.OpCard && !x.agent.CardsAsSent
}

// rewriteCardResponse does for the card in a JSON-RPC answer what serveCard
// does for the one at a well-known path.
func (x *exchange) rewriteCardResponse(resp *http.Response) error {
	if resp.StatusCode != http.StatusOK {
		return nil
	}
	body, err := x.readCard(resp, true)
	if err != nil {
		return err
	}
	edited, err := wire.RewriteCardResponse(body, x.interfaces(body, wire.RewriteCardResponse))
	if err != nil {
		return &cardError{x.agent.Session.Name, fmt.Errorf("cannot be read: %w", err)}
	}
	_ = resp.Body.Close() // read to its end
	for _, name := range stale {
		resp.Header.Del(name)
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(edited)), int64(len(edited))
	resp.Header.Set("Content-Length", strconv.Itoa(len(edited)))
	return nil
}
