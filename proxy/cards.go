package proxy

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
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

// extendedCards are the paths of the card for authenticated callers in the
// HTTP+JSON binding of 1.0 and 0.3.
var extendedCards = []string{"/extendedAgentCard", "/v1/card"}

// isCard reports whether a request asks for an agent card.
func isCard(r *http.Request, rest string) bool {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return false
	}
	return rest == cardPath || rest == oldCardPath || slices.Contains(extendedCards, rest)
}

// otherPath is the other well-known path, or empty.
func otherPath(rest string) string {
	switch rest {
	case cardPath:
		return oldCardPath
	case oldCardPath:
		return cardPath
	default:
		return ""
	}
}

// card serves an agent's card with every interface pointing at the sidecar, so
// that clients, which take their URLs from the card, stay on it.
func (p *Proxy) card(w http.ResponseWriter, x *exchange) {
	ctx := x.in.Context()
	resp, err := p.fetchCard(ctx, x, x.rest)
	if other := otherPath(x.rest); err == nil && resp.StatusCode == http.StatusNotFound && other != "" {
		_ = resp.Body.Close() // a 404 says no more
		resp, err = p.fetchCard(ctx, x, other)
	}
	if err != nil {
		if ctx.Err() == nil {
			p.log.WarnContext(ctx, "agent card cannot be fetched", "agent", x.agent.Session.Name, "error", err)
			p.writeHTTP(w, refusal(&lineage.Refusal{Reason: lineage.AgentUnreachable, Agent: x.agent.Session.Name}))
		}
		return
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if err := p.serveCard(w, x, resp); err != nil && ctx.Err() == nil {
		p.log.WarnContext(ctx, "agent card cannot be served", "agent", x.agent.Session.Name, "error", err)
		p.writeHTTP(w, fault{status: http.StatusBadGateway, reason: "INVALID_AGENT_CARD", message: "the card of agent " + x.agent.Session.Name + " " + err.Error()})
	}
}

// fetchCard gets the card as the agent has it, with the caller's headers: cards
// vary by version and by credentials.
func (p *Proxy) fetchCard(ctx context.Context, x *exchange, rest string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, x.agent.target(rest, x.in.URL.RawQuery).String(), nil)
	if err != nil {
		return nil, err
	}
	req.Header = x.in.Header.Clone()
	for _, name := range hopByHop {
		req.Header.Del(name)
	}
	for name := range req.Header {
		if strings.HasPrefix(name, ownPrefix) {
			req.Header.Del(name)
		}
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

// hopByHop are the headers of one connection (RFC 9110 §7.6.1).
var hopByHop = [...]string{
	"Connection", "Proxy-Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Te", "Trailer",
	"Transfer-Encoding", "Upgrade",
}

// stale are the headers that tell of the bytes as the agent sent them.
var stale = [...]string{"Content-Length", "Etag", "Last-Modified", "Content-Md5", "Digest", "Content-Digest", "Repr-Digest", "Accept-Ranges"}

// serveCard writes a fetched card. The error says what is wrong with the card.
func (p *Proxy) serveCard(w http.ResponseWriter, x *exchange, resp *http.Response) error {
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxCard+1))
	if err != nil {
		return fmt.Errorf("broke off: %w", err)
	}
	if len(body) > maxCard {
		return fmt.Errorf("is larger than %d bytes", maxCard)
	}
	h := w.Header()
	for name, values := range resp.Header {
		if !slices.Contains(hopByHop[:], name) {
			h[name] = values
		}
	}
	if resp.StatusCode == http.StatusOK && !x.agent.CardsAsSent {
		if body, err = wire.RewriteCard(body, x.interfaces(body)); err != nil {
			clear(h)
			return fmt.Errorf("cannot be read: %w", err)
		}
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

// interfaces returns what becomes of the interface URLs of a card. JSON-RPC is
// what the sidecar reads. Where the agent offers it, other bindings are left
// out, since calls over them would be neither isolated nor counted; an agent
// with HTTP+JSON alone keeps that, and its calls pass as they are.
func (x *exchange) interfaces(card []byte) func(binding, url string) (string, bool) {
	rpc := false
	// A card that cannot be read fails again, with the error, in the rewriting.
	_, _ = wire.RewriteCard(card, func(binding, url string) (string, bool) {
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

// rewriteCardResponse does the same for the extended card in a JSON-RPC answer.
func (p *Proxy) rewriteCardResponse(x *exchange, resp *http.Response) error {
	media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode != http.StatusOK || media == "text/event-stream" {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxCard+1))
	if err != nil {
		return err
	}
	if len(body) > maxCard {
		return errors.New("agent card too large")
	}
	if err := resp.Body.Close(); err != nil {
		return err
	}
	edited, err := wire.RewriteCardResponse(body, x.interfaces(body))
	if err != nil {
		return fmt.Errorf("agent card cannot be read: %w", err)
	}
	for _, name := range stale {
		resp.Header.Del(name)
	}
	resp.Body, resp.ContentLength = io.NopCloser(strings.NewReader(string(edited))), int64(len(edited))
	resp.Header.Set("Content-Length", strconv.Itoa(len(edited)))
	return nil
}

var _ watcher = (*sessions.Run)(nil)
