package proxy

import (
	"net/url"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// rewriter edits the interfaces of the card in a body.
type rewriter func(body []byte, each func(binding, url string) (string, bool)) ([]byte, error)

// interfaces returns what becomes of the interface URLs of the card in body,
// which rewrite reaches. What the sidecar reads points at it. Where an agent
// has that, interfaces in any other binding are left out, since calls over them
// would be neither isolated nor counted; an agent with others alone keeps
// those that are HTTP, and its calls pass as they are.
func (x *exchange) interfaces(body []byte, rewrite rewriter) func(binding, url string) (string, bool) {
	addr := x.agent.grpcAddr()
	var grpc *url.URL // where the agent's gRPC interface is
	readable := false
	// A card that cannot be read fails again, with the error, in the rewriting.
	_, _ = rewrite(body, func(binding, raw string) (string, bool) {
		switch kind := bindingNamed(binding); {
		case kind != wire.GRPC:
			readable = readable || kind != unknownBinding
		case addr != "" && grpc == nil:
			if grpc = x.agent.grpcTarget(raw); grpc != nil {
				readable = true
				x.agent.learnGRPC(raw)
			}
		}
		return raw, true
	})
	return func(binding, raw string) (string, bool) {
		switch kind := bindingNamed(binding); {
		case kind == wire.GRPC:
			// The agent's gRPC port leads to one place. An interface elsewhere
			// would be a way around, or to the wrong version.
			to := x.agent.grpcTarget(raw)
			if grpc == nil || to == nil || *to != *grpc && x.agent.GRPCURL == nil {
				return "", false
			}
			return grpcURL(raw, addr), true
		case kind == unknownBinding && (readable || !isHTTP(raw)):
			return "", false
		default:
			rest, ok := x.agent.below(raw)
			return x.ownURL() + rest, ok
		}
	}
}

// ownURL is the URL of the agent as the caller knows it.
func (x *exchange) ownURL() string {
	scheme := "http://"
	if x.in.TLS != nil {
		scheme = "https://"
	}
	return scheme + x.in.Host + agentsPrefix + x.agent.Session.Name
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
