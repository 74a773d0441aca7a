package proxy

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// rewriter edits the interfaces of the card in a body.
type rewriter func(body []byte, each func(binding, url string) (string, bool)) ([]byte, error)

// cardSource says where a card comes from that is to be rewritten.
type cardSource uint8

const (
	fromAgent   cardSource = iota // from a well-known path, just now
	fromMemory                    // from there, a while ago
	fromOneUser                   // the extended card, which may be its caller's alone
)

// interfaces returns what becomes of the interface URLs of the card in body,
// which rewrite reaches. What the sidecar reads points at it. Where an agent
// has that, interfaces in any other binding are left out, since calls over them
// would be neither isolated nor counted; an agent with others alone keeps
// those that are HTTP, and its calls pass as they are.
func (x *exchange) interfaces(ctx context.Context, body []byte, from cardSource, rewrite rewriter) func(binding, url string) (string, bool) {
	var grpc []string // the interfaces that can be read
	readable := false
	// A card that cannot be read fails again, with the error, in the rewriting.
	_, _ = rewrite(body, func(binding, raw string) (string, bool) {
		switch kind := bindingNamed(binding); {
		case kind != wire.GRPC:
			readable = readable || kind != unknownBinding
		case x.agent.grpcTarget(raw) != nil:
			grpc = append(grpc, raw)
		}
		return raw, true
	})
	addr := x.agent.grpc.addr()
	if x.own != nil {
		addr = ownName // the sidecar needs no port to itself
	}
	var place *url.URL
	if addr != "" && len(grpc) > 0 {
		place = x.grpcPlace(ctx, grpc[0], from)
	}
	// The agent's gRPC port leads to one place for each version. An interface
	// elsewhere would be a way around, or to the wrong version.
	leads := func(raw string) bool {
		to := x.agent.grpcTarget(raw)
		return place != nil && to != nil && (*to == *place || x.agent.GRPCURL != nil)
	}
	readable = readable || slices.ContainsFunc(grpc, leads)
	return func(binding, raw string) (string, bool) {
		switch kind := bindingNamed(binding); {
		case kind == wire.GRPC:
			return grpcURL(raw, addr), leads(raw)
		case kind == unknownBinding && (readable || !isHTTP(raw)):
			return "", false
		default:
			rest, ok := x.agent.below(raw)
			return x.ownURL() + rest, ok
		}
	}
}

// grpcPlace is where gRPC calls go in the version of the card that x asked for,
// which names first as its first gRPC interface; nil if that is not known. Only
// a card that anybody gets tells where calls of everybody go.
func (x *exchange) grpcPlace(ctx context.Context, first string, from cardSource) *url.URL {
	v := x.cardVersion()
	switch {
	case from == fromAgent:
		x.agent.learnGRPC(v, first)
		return x.agent.grpcTarget(first)
	case x.to != nil: // it came that way
		return x.to.url
	case from == fromMemory:
		if c := x.agent.grpc.known(v); c != nil {
			return c.url
		}
		return x.agent.grpcTarget(first)
	}
	c, err := x.agent.grpcChannel(ctx, v, x.in.Header)
	if err != nil {
		x.proxy.log.DebugContext(ctx, "agent's card is served without gRPC", "agent", x.agent.Session.Name, "error", err)
		return nil
	}
	return c.url
}

// cardVersion is the version of A2A that x asks for a card in.
func (x *exchange) cardVersion() wire.Version {
	if x.request != nil {
		return x.request.Version
	}
	return versionOf(x.in)
}

// ownURL is the URL of the agent as the caller knows it.
func (x *exchange) ownURL() string {
	base := x.outbound
	if base == "" {
		host := x.in.Host
		if addr, ok := x.in.Context().Value(http.LocalAddrContextKey).(net.Addr); ok && host == "" {
			host = addr.String() // HTTP/1.0 needs no Host
		}
		base = "http://" + host
		if x.in.TLS != nil {
			base = "https://" + host
		}
	}
	return base + agentsPrefix + x.agent.Session.Name
}

// outboundFrom is the base URL of the outbound port, which is at a URL or a host
// and port, for the caller of r, which came by another. An address that stands
// for all of a host's is no place to call: the caller's own name for the host is.
func outboundFrom(outbound string, r *http.Request) string {
	scheme, at, ok := strings.Cut(strings.TrimRight(outbound, "/"), "://")
	if !ok {
		scheme, at = "http", scheme
	}
	if host, port, err := net.SplitHostPort(at); err == nil && isUnspecified(host) {
		if known, _, err := net.SplitHostPort(r.Host); err == nil {
			at = net.JoinHostPort(known, port)
		}
	}
	return scheme + "://" + at
}

// isUnspecified reports whether a listener's host is all of them.
func isUnspecified(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "" || err == nil && ip.Unmap().IsUnspecified()
}

// unknownBinding is a binding that the sidecar does not read.
const unknownBinding wire.Binding = 0xff

// bindingNamed is the binding that a card names. 0.3 takes an interface that
// states none for JSON-RPC.
func bindingNamed(name string) wire.Binding {
	if name == "" {
		return wire.JSONRPC
	}
	for _, b := range [...]wire.Binding{wire.JSONRPC, wire.REST, wire.GRPC} {
		if strings.EqualFold(name, b.String()) {
			return b
		}
	}
	return unknownBinding
}

func isHTTP(raw string) bool {
	scheme, _, ok := strings.Cut(raw, "://")
	return ok && (strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https"))
}

// grpcURL is addr in the form of raw, the URL that it stands in for: some
// clients want a scheme there, others none. The sidecar's port is plaintext.
func grpcURL(raw, addr string) string {
	scheme, rest, ok := strings.Cut(raw, "://")
	switch {
	case !ok && strings.HasPrefix(raw, "dns:"): // dns:host:port
		return "dns:" + addr
	case !ok:
		return addr
	case strings.EqualFold(scheme, "https"):
		scheme = "http"
	case strings.EqualFold(scheme, "grpcs"):
		scheme = "grpc"
	}
	if strings.HasPrefix(rest, "/") { // a resolver's, without an authority: dns:///host:port
		addr = "/" + addr
	}
	return scheme + "://" + addr
}
