package proxy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"

	"github.com/a2a-sidecar/a2a-sidecar/internal/cardsig"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// errNoGRPC says that nobody has told where an agent's gRPC interface is.
var errNoGRPC = errors.New("its card names no gRPC interface (agents[].grpc.url sets one)")

// grpcAddr is the host and port at which this sidecar takes gRPC calls for the
// agent, empty if it takes none. A gRPC client's address has no path, so each
// agent has a port of its own.
func (u *upstream) grpcAddr() string {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.grpcPort
}

func (u *upstream) listensAt(addr string) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.grpcPort = addr
}

// learnGRPC takes note of a gRPC interface that the agent's card names, unless
// the configuration says where it is.
func (u *upstream) learnGRPC(raw string) {
	to := u.grpcTarget(raw)
	u.mu.Lock()
	defer u.mu.Unlock()
	if to == nil || u.GRPCURL != nil || u.grpc != nil && *u.grpc.url == *to {
		return
	}
	if u.grpc != nil {
		u.grpc.close() // the agent has moved; calls under way go on
	}
	u.grpc = newChannel(to, u.TLS, http2)
}

// grpcTarget is where a gRPC interface that the card names is to be found: at
// the host that is configured for the agent, whatever its card calls it, and
// the port of the card. Nil if raw is no URL.
func (u *upstream) grpcTarget(raw string) *url.URL {
	t, err := parseInterface(raw)
	if err != nil {
		return nil
	}
	to := &url.URL{Scheme: t.Scheme, Host: u.URL.Hostname()}
	if to.Scheme != "http" && to.Scheme != "https" { // none, or a resolver's, such as dns:///
		to.Scheme = u.URL.Scheme
	}
	port := t.Port()
	if port == "" && t.Host == "" {
		_, port, _ = strings.Cut(strings.TrimPrefix(t.Path, "/"), ":") // dns:///host:port
	}
	if port != "" {
		to.Host = net.JoinHostPort(to.Host, port)
	} else if strings.Contains(to.Host, ":") {
		to.Host = "[" + to.Host + "]"
	}
	return to
}

// grpcChannel returns the connections to the agent's gRPC interface. Where
// nobody has fetched the agent's card through this sidecar yet, it does so
// itself, with the credentials of the call.
func (u *upstream) grpcChannel(ctx context.Context, credentials http.Header) (*channel, error) {
	if c := u.knownGRPC(); c != nil {
		return c, nil
	}
	var errs error
	for _, path := range [...]string{cardPath, oldCardPath} {
		err := u.askForGRPC(ctx, path, credentials)
		if c := u.knownGRPC(); c != nil {
			return c, nil
		}
		errs = cmp.Or(errs, err)
	}
	return nil, cmp.Or(errs, errNoGRPC)
}

func (u *upstream) knownGRPC() *channel {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.grpc
}

// askForGRPC reads the agent's card for its gRPC interface.
func (u *upstream) askForGRPC(ctx context.Context, path string, credentials http.Header) error {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, u.target(path, "").String(), http.NoBody)
	if err != nil {
		return err
	}
	for _, name := range [...]string{"Authorization", "A2a-Version"} {
		if values, ok := credentials[name]; ok {
			req.Header[name] = values
		}
	}
	resp, err := u.base.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	defer func() { _ = resp.Body.Close() }() // read to its end, or given up
	if resp.StatusCode != http.StatusOK {
		return fmt.Errorf("its card cannot be read: HTTP status %d", resp.StatusCode)
	}
	card, err := io.ReadAll(io.LimitReader(resp.Body, maxCard))
	if err != nil {
		return err
	}
	if len(u.CardKeys) > 0 {
		if err := cardsig.Verify(card, u.CardKeys); err != nil {
			return fmt.Errorf("its card is not trusted: %w", err)
		}
	}
	_, err = wire.RewriteCard(card, func(binding, url string) (string, bool) {
		if strings.EqualFold(binding, wire.GRPC.String()) {
			u.learnGRPC(url)
		}
		return url, true
	})
	return err
}
