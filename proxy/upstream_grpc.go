package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/a2a-sidecar/a2a-sidecar/internal/cardsig"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// errNoGRPC says that nobody has told where an agent's gRPC interface is.
var errNoGRPC = errors.New("its card names no gRPC interface (agents[].grpc.url sets one)")

// noneFor is how long a card that names no gRPC interface is taken at its word.
// Without that, each call would ask for it.
const noneFor = 5 * time.Second

// versions is how many versions of A2A there are on the wire: an agent may serve
// each at a port of its own, and a card for each that names only that one.
const versions = int(wire.V10) + 1

// otherVersion is the one that v is not.
func otherVersion(v wire.Version) wire.Version { return wire.V10 - v }

// grpcPlaces is what is known of where an agent's gRPC interface is. It is safe
// for concurrent use.
type grpcPlaces struct {
	now func() time.Time

	mu      sync.Mutex // guards the fields below
	listens string     // host:port of the sidecar's own gRPC port for the agent; empty: none
	at      [versions]*channel
	none    [versions]time.Time // when the card of a version was seen to name none
}

// addr is the host and port at which this sidecar takes gRPC calls for the
// agent, empty if it takes none. A gRPC client's address has no path, so each
// agent has a port of its own.
func (g *grpcPlaces) addr() string {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.listens
}

func (g *grpcPlaces) listensAt(addr string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listens = addr
}

// known returns the connections for calls of a version, nil if nobody has told
// yet where they lead.
func (g *grpcPlaces) known(v wire.Version) *channel {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.at[v]
}

// all returns the connections to every place that is known, each once.
func (g *grpcPlaces) all() []*channel {
	g.mu.Lock()
	defer g.mu.Unlock()
	var all []*channel
	for v, c := range g.at {
		if c != nil && (v == 0 || c != g.at[v-1]) {
			all = append(all, c)
		}
	}
	return all
}

// noteNone takes note that the card of a version names no gRPC interface.
func (g *grpcPlaces) noteNone(v wire.Version) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.none[v] = g.now()
}

// namedNone reports whether noteNone was told so a moment ago.
func (g *grpcPlaces) namedNone(v wire.Version) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return !g.none[v].IsZero() && g.now().Sub(g.none[v]) < noneFor
}

// learnGRPC takes note of the gRPC interface that the agent's card of a version
// names, unless the configuration says where it is.
func (u *upstream) learnGRPC(v wire.Version, raw string) {
	to := u.grpcTarget(raw)
	if to == nil || u.GRPCURL != nil {
		return
	}
	g := &u.grpc
	g.mu.Lock()
	defer g.mu.Unlock()
	old, other := g.at[v], g.at[otherVersion(v)]
	switch {
	case old != nil && *old.url == *to:
		return
	case other != nil && *other.url == *to:
		g.at[v] = other
	default:
		g.at[v] = newChannel(to, u.TLS, http2)
	}
	if old != nil && old != other {
		old.close() // the agent has moved; calls under way go on
	}
}

// forgetGRPC gives up a place that a card has named, since nobody answers there:
// the agent may have moved, and its card may say where to. It reports whether to
// ask for it again, which is of no use where the configuration says where it is.
// Calls under way go on.
func (u *upstream) forgetGRPC(c *channel) bool {
	if u.GRPCURL != nil {
		return false
	}
	g := &u.grpc
	g.mu.Lock()
	for v := range g.at {
		if g.at[v] == c {
			g.at[v] = nil
			g.none = [versions]time.Time{}
		}
	}
	g.mu.Unlock()
	c.close()
	return true
}

// grpcTarget is where a gRPC interface that the card names is to be found: at
// the host that is configured for the agent, whatever its card calls it, and
// the port of the card. Nil if raw is no URL.
func (u *upstream) grpcTarget(raw string) *url.URL {
	if after, ok := strings.CutPrefix(raw, "dns:"); ok && !strings.HasPrefix(after, "//") {
		if _, _, err := net.SplitHostPort(after); err == nil { // else a host of that name
			raw = after
		}
	}
	t, err := parseInterface(raw)
	if err != nil {
		return nil
	}
	to, port := &url.URL{Scheme: u.URL.Scheme, Host: u.URL.Hostname()}, t.Port()
	switch t.Scheme {
	case "":
	case "http", "https":
		to.Scheme = t.Scheme
	case "grpc":
		to.Scheme = "http"
	case "grpcs":
		to.Scheme = "https"
	default: // a resolver's: dns:///host:port
		if _, port, err = net.SplitHostPort(strings.TrimPrefix(t.Path, "/")); err != nil {
			port = "" // the agent's own
		}
	}
	if port != "" {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return nil
		}
		to.Host = net.JoinHostPort(to.Host, port)
	} else if strings.Contains(to.Host, ":") {
		to.Host = "[" + to.Host + "]"
	}
	return to
}

// grpcChannel returns the connections to the agent's gRPC interface for calls of
// a version. Where nobody has fetched the agent's card of that version through
// this sidecar yet, it does so itself, with the credentials of the call; where
// that names none, the place that the card of the other version has named will
// do. The error is errNoGRPC if cards name none, or says why there is no card.
func (u *upstream) grpcChannel(ctx context.Context, v wire.Version, credentials http.Header) (*channel, error) {
	if c := u.grpc.known(v); c != nil {
		return c, nil
	}
	var err error
	if !u.grpc.namedNone(v) {
		err = u.askForGRPC(ctx, v, credentials)
		if c := u.grpc.known(v); c != nil {
			return c, nil
		}
	}
	if c := u.grpc.known(otherVersion(v)); c != nil {
		return c, nil
	}
	return nil, cmp.Or(err, errNoGRPC)
}

// askForGRPC reads the agent's card of a version for its gRPC interface.
func (u *upstream) askForGRPC(ctx context.Context, v wire.Version, credentials http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	card, err := u.ownCard(ctx, cardPath, v, credentials)
	if errors.Is(err, errNoCard) {
		card, err = u.ownCard(ctx, oldCardPath, v, credentials)
	}
	if errors.Is(err, errNoCard) {
		u.grpc.noteNone(v)
		return errNoGRPC
	}
	if err != nil {
		return fmt.Errorf("its card %w", err)
	}
	named := ""
	_, err = wire.RewriteCard(card, func(binding, url string) (string, bool) {
		if named == "" && bindingNamed(binding) == wire.GRPC && u.grpcTarget(url) != nil {
			named = url
		}
		return url, true
	})
	if err != nil {
		return fmt.Errorf("its card cannot be read: %w", err)
	}
	if named == "" {
		u.grpc.noteNone(v)
		return errNoGRPC
	}
	u.learnGRPC(v, named)
	return nil
}

// errNoCard says that an agent has no card at a path.
var errNoCard = errors.New("is not there")

// ownCard gets the agent's card of a version for the sidecar's own use. The error
// is words to stand after its name.
func (u *upstream) ownCard(ctx context.Context, path string, v wire.Version, credentials http.Header) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.target(path, "").String(), http.NoBody)
	if err != nil {
		return nil, fmt.Errorf("cannot be asked for: %w", err)
	}
	if values, ok := credentials["Authorization"]; ok {
		req.Header["Authorization"] = values
	}
	req.Header.Set(a2a.SvcParamVersion, v.String())
	resp, err := u.base.transport.RoundTrip(req)
	if err != nil {
		return nil, fmt.Errorf("cannot be asked for: %w", err)
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	switch {
	case resp.StatusCode == http.StatusNotFound:
		return nil, errNoCard
	case !holdsCard(resp.StatusCode):
		return nil, fmt.Errorf("cannot be read: HTTP status %d", resp.StatusCode)
	}
	card, err := readEdited(resp.Body)
	if err == nil {
		card, err = plainBody(resp.Header, card)
	}
	if err == nil && len(u.CardKeys) > 0 {
		err = cardsig.Verify(card, u.CardKeys)
	}
	return card, err
}
