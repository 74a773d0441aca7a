// Server is an A2A 0.3 agent on the a2a-go SDK of that time, one of the
// programs that the interop lab puts behind the sidecar.
//
// It knows what every server of the lab does (see executor.go) and which of
// a2a-go's bindings there are: JSON-RPC always, gRPC (a2a.v1) when it is given
// a port. It writes no protocol of its own; what goes over the wire is the
// SDK's. The line is worth having because a2a-go 0.3 answers a unary JSON-RPC
// call as text/plain, and a deleted push config with an empty body.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2agrpc"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/push"
	"google.golang.org/grpc"
)

// Exit codes of the lab's programs.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUnsupported = 3 // this SDK cannot do what was asked
)

// drain is how long calls may go on after the signal to end. The lab allows
// two seconds in all.
const drain = time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	port := flags.Int("port", 0, "serve the card and JSON-RPC on this port of 127.0.0.1")
	grpcPort := flags.Int("grpc-port", 0, "serve gRPC on this port too")
	version := flags.String("version", "0.3", "protocol version to speak; this SDK knows 0.3 alone")
	if err := flags.Parse(args); err != nil {
		return exitFailed
	}
	if *version != "0.3" {
		_, _ = fmt.Fprintf(stderr, "server: a2a-go v0.3 speaks A2A 0.3, not %q\n", *version)
		return exitUnsupported
	}
	if err := serve(ctx, *port, *grpcPort, stdout, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "server:", err)
		return exitFailed
	}
	return exitOK
}

// serve listens, says "ready" on stdout, and answers until ctx ends.
func serve(ctx context.Context, port, grpcPort int, stdout, stderr io.Writer) error {
	var listen net.ListenConfig
	httpListener, err := listen.Listen(ctx, "tcp", loopback(port))
	if err != nil {
		return fmt.Errorf("listening for HTTP: %w", err)
	}
	var grpcListener net.Listener
	if grpcPort != 0 {
		if grpcListener, err = listen.Listen(ctx, "tcp", loopback(grpcPort)); err != nil {
			return errors.Join(fmt.Errorf("listening for gRPC: %w", err), httpListener.Close())
		}
	}

	card := newCard(port, grpcPort)
	extended := *card
	extended.Name += " (extended)"
	handler := a2asrv.NewHandler(
		executor{},
		a2asrv.WithExtendedAgentCard(&extended),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)),
		a2asrv.WithLogger(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))),
	)

	mux := http.NewServeMux()
	mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(card))
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(handler))
	httpServer := &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	grpcServer := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(grpcServer)

	failed := make(chan error, 2)
	go func() { failed <- httpServer.Serve(httpListener) }()
	if grpcListener != nil {
		go func() { failed <- grpcServer.Serve(grpcListener) }()
	}
	if _, err = fmt.Fprintln(stdout, "ready"); err != nil {
		err = fmt.Errorf("saying that we are ready: %w", err)
	} else {
		select {
		case err = <-failed:
			err = fmt.Errorf("serving: %w", err)
		case <-ctx.Done():
		}
	}
	return errors.Join(err, shutDown(ctx, httpServer, grpcServer))
}

// shutDown lets the calls in hand end, for a while, then cuts them off.
func shutDown(ctx context.Context, httpServer *http.Server, grpcServer *grpc.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := httpServer.Shutdown(ctx)
	grpcServer.Stop()
	if errors.Is(err, context.DeadlineExceeded) {
		err = httpServer.Close() // an open stream is no failure of ours
	}
	if err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}

// newCard names every interface there is. A gRPC address has no scheme, as
// a2a-go's client wants it.
func newCard(port, grpcPort int) *a2a.AgentCard {
	url := "http://" + loopback(port) + "/rpc"
	card := &a2a.AgentCard{
		Name:               "go03",
		Description:        "The interop lab's agent on a2a-go v0.3.",
		Version:            "1.0.0",
		ProtocolVersion:    "0.3.0",
		URL:                url,
		PreferredTransport: a2a.TransportProtocolJSONRPC,
		AdditionalInterfaces: []a2a.AgentInterface{
			{Transport: a2a.TransportProtocolJSONRPC, URL: url},
		},
		Capabilities:                      a2a.AgentCapabilities{Streaming: true, PushNotifications: true},
		DefaultInputModes:                 []string{"text/plain"},
		DefaultOutputModes:                []string{"text/plain"},
		SupportsAuthenticatedExtendedCard: true,
		Skills: []a2a.AgentSkill{{
			ID: "echo", Name: "Echo", Description: "Says again what it was told.", Tags: []string{"echo"},
		}},
	}
	if grpcPort != 0 {
		card.AdditionalInterfaces = append(card.AdditionalInterfaces,
			a2a.AgentInterface{Transport: a2a.TransportProtocolGRPC, URL: loopback(grpcPort)})
	}
	return card
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
