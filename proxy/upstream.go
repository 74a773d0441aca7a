package proxy

import (
	"crypto/tls"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Agent is one configured agent.
type Agent struct {
	Session     sessions.Agent // name, isolation, limits
	URL         *url.URL       // base; absolute, http or https
	TLS         *tls.Config    // for https; nil: the system's roots
	CardsAsSent bool           // agent cards pass byte for byte
	Told        lineage.Told   // how much of the lineage it is told
	RefuseTask  bool           // its callers get refusals as failed tasks
}

// Connections kept to one agent. Go's default of 2 makes a fan-out of 11 dial
// nine times each round.
const (
	maxIdle     = 256
	idleTimeout = 90 * time.Second
)

// upstream is an agent with the connections to it.
type upstream struct {
	Agent
	reach     *reach
	transport *http.Transport
}

func newUpstream(a Agent) *upstream {
	u := &upstream{Agent: a, reach: newReach(dialAddr(a.URL))}
	u.transport = &http.Transport{
		DialContext:         u.reach.DialContext,
		TLSClientConfig:     a.TLS,
		TLSHandshakeTimeout: dialTimeout,
		ForceAttemptHTTP2:   true,
		MaxIdleConnsPerHost: maxIdle,
		IdleConnTimeout:     idleTimeout,
		DisableCompression:  true, // bytes are the caller's: none is unpacked for it
		// No Proxy: an agent is where its URL says. No time-outs for answers:
		// agents think for as long as they like.
	}
	return u
}

func (u *upstream) close() {
	u.transport.CloseIdleConnections()
	u.reach.close()
}

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
	if !strings.Contains(raw, "://") {
		raw = "//" + raw // gRPC interfaces come without a scheme
	}
	t, err := url.Parse(raw)
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

// newBuffers pools the buffers that bodies are copied through.
func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any { b := make([]byte, 32<<10); return &b }}}
}

type buffers struct{ pool sync.Pool }

func (b *buffers) Get() []byte  { return *b.pool.Get().(*[]byte) }
func (b *buffers) Put(p []byte) { b.pool.Put(&p) }
