package proxy

import (
	"crypto/tls"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/cardsig"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Agent is one configured agent.
type Agent struct {
	Session     sessions.Agent // name, isolation, limits
	URL         *url.URL       // base; absolute, http or https
	GRPCURL     *url.URL       // of its gRPC interface; nil: where its card says, at the host of URL
	TLS         *tls.Config    // for https; nil: the system's roots
	CardsAsSent bool           // agent cards pass byte for byte
	CardKeys    cardsig.Keys   // that cards must be signed with; empty: signatures are not looked at
	Told        lineage.Told   // how much of the lineage it is told
	RefuseTask  bool           // its callers get refusals as failed tasks
	RelayPush   bool           // push notifications pass the sidecar
}

// upstream is an agent with the connections to it.
type upstream struct {
	Agent
	base  *channel // JSON-RPC, HTTP+JSON, cards, and all that is not A2A
	cards keptCards
	grpc  grpcPlaces
}

func newUpstream(a Agent) *upstream {
	u := &upstream{Agent: a, base: newChannel(a.URL, a.TLS, http1), cards: newKeptCards()}
	u.grpc.now = time.Now
	if a.GRPCURL != nil {
		c := newChannel(a.GRPCURL, a.TLS, http2)
		u.grpc.at = [versions]*channel{c, c}
	}
	return u
}

func (u *upstream) close() {
	u.base.close()
	for _, c := range u.grpc.all() {
		c.close()
	}
}

// hostRoot, as the first segment below an agent, names a path from the root of
// the agent's host instead of one below its base URL: cards may point there.
const hostRoot = "/~"

// target is where a request for the escaped path rest, below the agent, goes.
func (u *upstream) target(rest, rawQuery string) *url.URL {
	t := *u.URL
	escaped := strings.TrimSuffix(u.URL.EscapedPath(), "/") + rest
	if below, ok := strings.CutPrefix(rest, hostRoot); ok && (below == "" || below[0] == '/') {
		escaped = below
	}
	if rest == "" {
		escaped = u.URL.EscapedPath() // the base as configured, slash or not
	}
	if escaped == "" {
		escaped = "/"
	}
	// An escaped path that does not parse was none: it came out of a parsed URL.
	if path, err := url.PathUnescape(escaped); err == nil {
		t.Path, t.RawPath = path, escaped
	}
	t.RawQuery = rawQuery
	return &t
}

// below is the inverse of target for a URL that the agent's card names: the
// path of it below the agent's name at the sidecar. Host and port of the URL do
// not matter: the agent is where it is configured to be, whatever it calls itself.
func (u *upstream) below(raw string) (string, bool) {
	t, err := parseInterface(raw)
	if err != nil {
		return "", false
	}
	path, base := t.EscapedPath(), strings.TrimSuffix(u.URL.EscapedPath(), "/")
	rest, ok := strings.CutPrefix(path, base)
	if !ok || rest != "" && rest[0] != '/' {
		rest = hostRoot + path
	}
	if t.RawQuery != "" {
		rest += "?" + t.RawQuery
	}
	return rest, true
}

// parseInterface parses a URL as cards have them: gRPC interfaces may come
// without a scheme.
func parseInterface(raw string) (*url.URL, error) {
	if !strings.Contains(raw, "://") {
		raw = "//" + raw
	}
	return url.Parse(raw)
}

// dialAddr is the host and port that a URL names.
func dialAddr(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(u.Hostname(), port)
}
