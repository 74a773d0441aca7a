package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/compare"
	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/tap"
)

// world is an agent with a sidecar before it, which knows it twice: once as it
// is, once isolated.
//
//	127.0.0.1:AGENT          the agent, as its card says
//	127.0.0.1:AGENT-GRPC
//	127.0.0.2, 127.0.0.4     far taps, at the agent's own ports: it stands there for the sidecar
//	127.0.0.3, 127.0.0.5     near taps: the sidecar stands there for clients
//
// Cards name ports, so an address of its own is what lets a tap stand in for a
// program. The sidecar finds an agent's gRPC port at the host that it knows the
// agent by, the far tap's; its own it names as 127.0.0.1, which the near tap
// changes to its own host on the way to the client. That takes a system where
// all of 127.0.0.0/8 is loopback: Linux.
type world struct {
	agent   *process
	sidecar *process
	base    string // of the agent
	ways    []*way // through the sidecar
}

// way is one way through the sidecar.
type way struct {
	name       string // of the agent at the sidecar
	near, far  string // hosts of the taps
	base       string // for clients
	nears      []*tap.Tap
	fars       []*tap.Tap
	rules      compare.Rules
	configured string // how the agent is configured
}

const agentHost = "127.0.0.1"

func newWays() []*way {
	return []*way{
		{name: "passthrough", near: "127.0.0.3", far: "127.0.0.2", configured: "contextIds: passthrough"},
		{name: "isolated", near: "127.0.0.5", far: "127.0.0.4", configured: "isolateSessions: true", rules: compare.Rules{Isolated: true}},
	}
}

// open starts an agent in one mode, and all that stands before it.
func (l *lab) open(ctx context.Context, p *program, mode mode) (_ *world, err error) {
	w := &world{ways: newWays()}
	defer func() {
		if err != nil {
			err = errors.Join(fmt.Errorf("starting %s (%s): %w", p.name, mode, err), w.close())
		}
	}()
	ports, err := freePorts(ctx, 2)
	if err != nil {
		return w, err
	}
	w.base = "http://" + net.JoinHostPort(agentHost, ports[0])
	argv := append(l.expand(p.agent), "--port", ports[0], "--version", mode.version)
	if p.hasGRPC() && !mode.noGRPC {
		argv = append(argv, "--grpc-port", ports[1])
	}
	name := strings.ReplaceAll(p.name+"-"+mode.String(), " ", "-")
	ready := make(chan struct{})
	w.agent, err = l.start(ctx, name, argv, func(line string) {
		if strings.TrimSpace(line) == "ready" {
			close(ready)
		}
	})
	if err != nil {
		return w, err
	}
	if err := w.agent.await(ctx, ready); err != nil {
		return w, err
	}
	for _, way := range w.ways {
		for _, port := range ports {
			t, err := tap.Listen(ctx, net.JoinHostPort(way.far, port), net.JoinHostPort(agentHost, port))
			if err != nil {
				return w, err
			}
			way.fars = append(way.fars, t)
			way.rules.Around = append(way.rules.Around, net.JoinHostPort(agentHost, port), net.JoinHostPort(way.far, port))
		}
	}
	outbound, err := l.openSidecar(ctx, w, name+"-sidecar")
	if err != nil {
		return w, err
	}
	for _, way := range w.ways {
		if err := way.open(ctx, outbound); err != nil {
			return w, err
		}
		if _, _, err := way.cut(); err != nil { // the lab's own look at the card
			return w, err
		}
	}
	return w, nil
}

// open puts the near taps before the sidecar.
func (y *way) open(ctx context.Context, outbound string) error {
	t, err := tap.Listen(ctx, net.JoinHostPort(y.near, "0"), outbound)
	if err != nil {
		return err
	}
	y.nears = append(y.nears, t)
	y.rules.Prefix = "/agents/" + y.name
	y.rules.Base = "http://" + t.Addr() + y.rules.Prefix
	y.base = y.rules.Base + "/"
	// The sidecar's gRPC port for this agent stands in the card alone.
	address, err := grpcOf(ctx, y.base)
	if err != nil || address == "" {
		return err
	}
	_, port, err := net.SplitHostPort(address)
	if err != nil {
		return fmt.Errorf("the card's gRPC interface: %w", err)
	}
	if t, err = tap.Listen(ctx, net.JoinHostPort(y.near, port), address); err != nil {
		return err
	}
	y.nears = append(y.nears, t)
	for _, t := range y.nears {
		if err := t.Swap(address, net.JoinHostPort(y.near, port)); err != nil {
			return err
		}
	}
	return nil
}

// grpcOf is the address of the first gRPC interface in the card below base.
func grpcOf(ctx context.Context, base string) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, base+".well-known/agent-card.json", nil)
	if err != nil {
		return "", err
	}
	req.Close = true
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", fmt.Errorf("getting the card through the sidecar: %w", err)
	}
	card, err := io.ReadAll(resp.Body)
	if err = errors.Join(err, resp.Body.Close()); err != nil {
		return "", fmt.Errorf("getting the card through the sidecar: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("getting the card through the sidecar: %s: %s", resp.Status, last(string(card), 300))
	}
	interfaces, err := compare.Interfaces(card)
	if err != nil {
		return "", fmt.Errorf("reading the card that came through the sidecar: %w", err)
	}
	for _, i := range interfaces {
		if strings.EqualFold(i.Binding, grpc) {
			_, address, found := strings.Cut(i.URL, "://")
			if !found {
				address = i.URL
			}
			return strings.TrimRight(address, "/"), nil
		}
	}
	return "", nil
}

// openSidecar starts the sidecar, and returns where clients call it.
func (l *lab) openSidecar(ctx context.Context, w *world, name string) (outbound string, err error) {
	var config strings.Builder
	config.WriteString("listen: {outbound: 127.0.0.1:0, admin: 127.0.0.1:0}\nstore: \"sqlite::memory:\"\n" +
		"log: {level: info, format: text}\nlimits: {maxChildren: 0, maxSessions: 0}\nagents:\n")
	_, port, err := net.SplitHostPort(strings.TrimPrefix(w.base, "http://"))
	if err != nil {
		return "", err
	}
	for _, y := range w.ways {
		fmt.Fprintf(&config, "  - {name: %s, url: %q, %s}\n", y.name, "http://"+net.JoinHostPort(y.far, port), y.configured)
	}
	file, addrs := filepath.Join(l.work, name+".yml"), filepath.Join(l.work, name+".addrs")
	if err := os.WriteFile(file, []byte(config.String()), 0o600); err != nil {
		return "", err
	}
	if err := os.Remove(addrs); err != nil && !errors.Is(err, os.ErrNotExist) { // of an earlier one
		return "", err
	}
	w.sidecar, err = l.start(ctx, name, []string{l.sidecar, "serve", "--config", file, "--addr-file", addrs}, func(string) {})
	if err != nil {
		return "", err
	}
	ready := make(chan struct{})
	go func() { // until the file is there, or the sidecar is not
		for {
			if _, err := os.Stat(addrs); err == nil {
				close(ready)
				return
			}
			select {
			case <-w.sidecar.done:
				return
			case <-time.After(5 * time.Millisecond):
			}
		}
	}()
	if err := w.sidecar.await(ctx, ready); err != nil {
		return "", err
	}
	b, err := os.ReadFile(addrs)
	if err != nil {
		return "", err
	}
	var bound struct{ Outbound string }
	if err := json.Unmarshal(b, &bound); err != nil {
		return "", fmt.Errorf("reading where the sidecar listens: %w", err)
	}
	return bound.Outbound, nil
}

// close ends everything, the agent last.
func (w *world) close() error {
	if w.sidecar != nil {
		w.sidecar.stop()
	}
	var errs []error
	for _, y := range w.ways {
		for _, t := range append(y.nears, y.fars...) {
			errs = append(errs, t.Close())
		}
	}
	if w.agent != nil {
		w.agent.stop()
	}
	return errors.Join(errs...)
}

// cut returns what passed on the two sides since the last cut.
func (y *way) cut() (near, far []tap.Exchange, err error) {
	y.settle()
	side := func(taps []*tap.Tap) []tap.Exchange {
		var conns []tap.Conn
		for _, t := range taps {
			conns = append(conns, t.Cut()...)
		}
		exchanges, failed := tap.Parse(conns)
		err = errors.Join(err, failed)
		return exchanges
	}
	return side(y.nears), side(y.fars), err
}

// settle waits until nothing passes any more. The client has ended by now; what
// it left behind (a stream given up, say) ends at once.
func (y *way) settle() {
	const quiet, most = 15 * time.Millisecond, time.Second
	passed := func() (n int64) {
		for _, t := range append(slices.Clone(y.nears), y.fars...) {
			n += t.Passed()
		}
		return n
	}
	for began, n := time.Now(), passed(); time.Since(began) < most; {
		time.Sleep(quiet)
		now := passed()
		if now == n {
			return
		}
		n = now
	}
}

// freePorts returns ports that nobody listens on.
func freePorts(ctx context.Context, n int) ([]string, error) {
	ports := make([]string, 0, n)
	for range n {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":0") // on every address: taps take the port elsewhere
		if err != nil {
			return nil, fmt.Errorf("finding a free port: %w", err)
		}
		ports = append(ports, strconv.Itoa(l.Addr().(*net.TCPAddr).Port))
		defer func() { _ = l.Close() }() // only now: the same port is not to come twice
	}
	return ports, nil
}
