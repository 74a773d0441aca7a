package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
)

// manyStreams is how many calls may be under way on one HTTP/2 connection. gRPC
// clients send all of theirs on one, and hold back those beyond the server's
// limit in silence. What is too many is for the caps to say.
const manyStreams = 100_000

// endpoint is a bound listener with the server for it.
type endpoint struct {
	listener net.Listener
	server   *http.Server // whose handler is set before it serves
}

func (e *endpoint) addr() string { return e.listener.Addr().String() }
func (e *endpoint) url() string  { return "http://" + e.addr() }

// bind opens a listener, so that all are known to be free before any serves.
func (a *app) bind(ctx context.Context, name, addr string, limits config.LimitsHTTP) (*endpoint, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("binding the %s port: %w", name, err)
	}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true)
	e := &endpoint{listener: l, server: &http.Server{
		Protocols:         protocols,
		ReadHeaderTimeout: limits.HeaderTimeout, MaxHeaderBytes: int(limits.MaxHeader), IdleTimeout: idleTime,
		ErrorLog: slog.NewLogLogger(a.log.Handler(), slog.LevelDebug),
		// No time-outs for bodies: streams last as long as agents think.
	}}
	a.onStop("closing the "+name+" port", func(context.Context) error {
		if err := l.Close(); !errors.Is(err, net.ErrClosed) {
			return err
		}
		return nil
	})
	return e, nil
}

// bindCallbacks opens the port for push notifications, if there is to be one,
// and returns the URL under which agents reach it.
func (a *app) bindCallbacks(ctx context.Context, cfg *config.Config) (url string, err error) {
	if cfg.Push.Listen == "" {
		return "", nil
	}
	if a.callbacks, err = a.bind(ctx, "callback", cfg.Push.Listen, cfg.LimitsHTTP); err != nil {
		return "", err
	}
	if cfg.Push.URL != "" {
		return cfg.Push.URL, nil
	}
	return a.callbacks.url(), nil
}

// listen opens the ports that calls come by, and says who answers at each.
func (a *app) listen(ctx context.Context, cfg *config.Config, p *proxy.Proxy) (err error) {
	if a.outbound, err = a.bind(ctx, "outbound", cfg.Listen.Outbound, cfg.LimitsHTTP); err != nil {
		return err
	}
	a.outbound.server.Handler = a.calls.of(p)
	a.outbound.server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: manyStreams}
	if a.callbacks != nil {
		a.callbacks.server.Handler = a.calls.of(p.Callbacks())
	}
	a.grpc = map[string]*endpoint{}
	for _, agent := range cfg.Agents {
		addr, on := agent.GRPC.Addr()
		if !on {
			continue
		}
		e, err := a.bind(ctx, "gRPC port of "+agent.Name, addr, cfg.LimitsHTTP)
		if err != nil {
			return err
		}
		e.server.Handler = a.calls.of(p.GRPC(agent.Name, e.addr(), a.outbound.addr()))
		e.server.HTTP2 = &http.HTTP2Config{MaxConcurrentStreams: manyStreams}
		a.grpc[agent.Name] = e
	}
	return nil
}

// callPorts are the endpoints that calls come by, agents' calls back included.
func (a *app) callPorts() []*endpoint {
	ports := []*endpoint{a.outbound}
	if a.callbacks != nil {
		ports = append(ports, a.callbacks)
	}
	for _, e := range a.grpc {
		ports = append(ports, e)
	}
	return ports
}

// addresses are where a running sidecar listens, as its address file tells.
// What is off is empty.
type addresses struct {
	Outbound  string            `json:"outbound"`
	Inbound   string            `json:"inbound"`
	Admin     string            `json:"admin"`
	Callbacks string            `json:"callbacks"`
	GRPC      map[string]string `json:"grpc"` // by agent
}

func (a *app) addresses() addresses {
	at := addresses{Outbound: a.outbound.addr(), Admin: a.admin.addr(), GRPC: make(map[string]string, len(a.grpc))}
	if a.callbacks != nil {
		at.Callbacks = a.callbacks.addr()
	}
	for agent, e := range a.grpc {
		at.GRPC[agent] = e.addr()
	}
	return at
}
