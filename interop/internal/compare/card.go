package compare

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/tap"
)

// cardPaths are where agents keep their cards, for callers of any kind.
var cardPaths = []string{"/.well-known/agent-card.json", "/.well-known/agent.json", "/extendedAgentCard", "/v1/card", "/card"}

// cardMethods are the calls that answer with a card.
var cardMethods = []string{
	"agent/getAuthenticatedExtendedCard", "GetExtendedAgentCard",
	"/lf.a2a.v1.A2AService/GetExtendedAgentCard", "/a2a.v1.A2AService/GetAgentCard",
}

// isCard reports whether an exchange fetches a card by its URL: the sidecar
// serves it as its own, so the two sides need not even have the same number.
func isCard(e tap.Exchange) bool {
	path, _, _ := strings.Cut(e.Target, "?")
	return e.Method == http.MethodGet && slices.ContainsFunc(cardPaths, func(p string) bool { return strings.HasSuffix(path, p) })
}

// asksCard reports whether an exchange is a call that answers with a card.
func asksCard(e tap.Exchange) bool { return slices.Contains(cardMethods, method(e)) }

// method is the name of the call: that of JSON-RPC, or the path of gRPC.
func method(e tap.Exchange) string {
	if isGRPC(e) {
		return e.Target
	}
	var call struct{ Method string }
	_ = json.Unmarshal(e.Request.Body, &call) // what is no JSON has no method
	return call.Method
}

// Interface is one entry of a card.
type Interface struct{ Binding, URL string }

// Interfaces returns what a card names as interfaces, in 0.3 and in 1.0. The
// card may be the result of a JSON-RPC answer.
func Interfaces(card []byte) ([]Interface, error) {
	var c cardShape
	if err := json.Unmarshal(card, &c); err != nil {
		return nil, err
	}
	if c.Result != nil {
		c = *c.Result
	}
	var all []Interface
	if c.URL != "" {
		all = append(all, Interface{c.PreferredTransport, c.URL})
	}
	for _, i := range append(c.AdditionalInterfaces, c.SupportedInterfaces...) {
		if i.URL != "" {
			all = append(all, Interface{i.ProtocolBinding + i.Transport, i.URL})
		}
	}
	return all, nil
}

// cardShape is where a card names interfaces, in 0.3 and in 1.0; and the answer
// of JSON-RPC that holds one.
type cardShape struct {
	URL                                       string
	PreferredTransport                        string
	AdditionalInterfaces, SupportedInterfaces []struct{ URL, ProtocolBinding, Transport string }
	Result                                    *cardShape
}

// hasInterfaces reports whether an answer holds a card: it may be an error.
func hasInterfaces(body []byte) bool {
	return bytes.Contains(body, []byte("nterfaces")) || bytes.Contains(body, []byte(`"url"`)) || !bytes.HasPrefix(body, []byte("{"))
}

// card checks that a card which the client got leads to the sidecar.
func (c *comparison) card(e tap.Exchange) {
	if e.Status != http.StatusOK {
		return
	}
	for _, address := range c.Around {
		if bytes.Contains(e.Response.Body, []byte(address)) {
			c.say("the card leads around the sidecar, to %s", address)
		}
	}
	if e.Response.Header.Get("Content-Encoding") != "" || isGRPC(e) {
		return // not to be read here; the addresses above stand in it as they are
	}
	interfaces, err := Interfaces(e.Response.Body)
	if err != nil {
		c.say("the card cannot be read: %v", err)
	}
	for _, i := range interfaces {
		c.leads(i.Binding, i.URL)
	}
}

// leads checks one URL of a card. gRPC has a port of its own on loopback, which
// [Rules].Around has caught if it is the agent's.
func (c *comparison) leads(binding, to string) {
	switch {
	case to == c.Base || strings.HasPrefix(to, c.Base+"/") || strings.HasPrefix(to, c.Base+"?"):
	case strings.EqualFold(binding, "GRPC"):
		if !strings.Contains(to, "://") {
			to = "//" + to
		}
		if u, err := url.Parse(to); err != nil || u.Hostname() != "127.0.0.1" {
			c.say("the card's gRPC interface is not on loopback: %s", to)
		}
	default:
		c.say("the card has an interface elsewhere: %s at %s", binding, to)
	}
}
