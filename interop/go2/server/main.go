// Server is the a2a-go v2 agent of the interop lab: every binding of the SDK's
// server, in both versions of the protocol (the contract is in
// interop/README.md).
//
//	/           JSON-RPC of the first version that it speaks
//	/v0.3       JSON-RPC 0.3, beside 1.0
//	/rest       HTTP+JSON of the first version
//	/rest03     HTTP+JSON 0.3, beside 1.0
//	--grpc-port lf.a2a.v1, a2a.v1, or both
//
// It knows the protocol through the SDK alone, and nothing of a sidecar.
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
	"strings"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpc03 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpc10 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("server", flag.ContinueOnError)
	flags.SetOutput(stderr)
	port := flags.Int("port", 0, "port of 127.0.0.1 for HTTP")
	grpcPort := flags.Int("grpc-port", 0, "port of 127.0.0.1 for gRPC; 0: none")
	version := flags.String("version", "1.0", "0.3, 1.0 or both")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *port == 0 {
		return errors.New("--port is missing")
	}
	a := agent{http: "127.0.0.1:" + strconv.Itoa(*port), mux: http.NewServeMux()}
	if *grpcPort != 0 {
		a.grpc, a.grpcServer = "127.0.0.1:"+strconv.Itoa(*grpcPort), grpc.NewServer()
	}
	if err := a.offer(*version); err != nil {
		return err
	}
	return a.serve(ctx, stdout)
}

// agent is what the server offers, and where.
type agent struct {
	http, grpc string // addresses; no gRPC if that is empty
	mux        *http.ServeMux
	grpcServer *grpc.Server
	card       a2a.AgentCard
}

// offer lays out the interfaces for a version, and the card.
func (a *agent) offer(version string) error {
	a.card = a2a.AgentCard{
		Name: "go2", Description: "a2a-go v2 in the interop lab", Version: "1.0.0",
		Capabilities:      a2a.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []a2a.AgentSkill{{ID: "echo", Name: "echo", Description: "says it again", Tags: []string{"lab"}}},
	}
	handler := a2asrv.NewHandler(
		executor{},
		a2asrv.WithLogger(slog.New(slog.DiscardHandler)),
		a2asrv.WithExtendedAgentCard(&a.card),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(&push.HTTPSenderConfig{Timeout: time.Second})),
		// Without a user the SDK's store lists nothing, and errs.
		a2asrv.WithTaskStore(taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{
			Authenticator: func(context.Context) (string, error) { return "lab", nil },
		})),
	)
	switch version {
	case "1.0":
		a.offer10(handler)
	case "0.3":
		a.offer03(handler, "", "/rest")
	case "both":
		a.offer10(handler)
		a.offer03(handler, "/v0.3", "/rest03")
	default:
		return fmt.Errorf("no such version: %q", version)
	}
	if version == "1.0" {
		a.mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewStaticAgentCardHandler(&a.card))
	} else {
		a.mux.Handle(a2asrv.WellKnownAgentCardPath, a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(&a.card)))
	}
	return nil
}

func (a *agent) offer10(handler a2asrv.RequestHandler) {
	a.mount("", a2a.TransportProtocolJSONRPC, a2a.Version, a2asrv.NewJSONRPCHandler(handler))
	a.mount("/rest", a2a.TransportProtocolHTTPJSON, a2a.Version, a2asrv.NewRESTHandler(handler))
	if a.grpc != "" {
		grpc10.NewHandler(handler).RegisterWith(a.grpcServer)
		a.list(a.grpc, a2a.TransportProtocolGRPC, a2a.Version)
	}
}

func (a *agent) offer03(handler a2asrv.RequestHandler, rpc, rest string) {
	a.mount(rpc, a2a.TransportProtocolJSONRPC, a2av0.Version, a2av0.NewJSONRPCHandler(handler))
	a.mount(rest, a2a.TransportProtocolHTTPJSON, a2av0.Version, a2av0.NewRESTHandler(handler))
	if a.grpc != "" {
		grpc03.NewHandler(handler).RegisterWith(a.grpcServer)
		a.list(a.grpc, a2a.TransportProtocolGRPC, a2av0.Version)
	}
}

// mount puts a handler below a path, and its interface into the card.
func (a *agent) mount(path string, binding a2a.TransportProtocol, version a2a.ProtocolVersion, h http.Handler) {
	if binding == a2a.TransportProtocolHTTPJSON {
		a.mux.Handle(path+"/", http.StripPrefix(path, h))
	} else {
		a.mux.Handle(path+"/{$}", h)
		if path != "" {
			a.mux.Handle(path, h)
		}
	}
	a.list("http://"+a.http+path, binding, version)
}

func (a *agent) list(url string, binding a2a.TransportProtocol, version a2a.ProtocolVersion) {
	i := a2a.NewAgentInterface(url, binding)
	i.ProtocolVersion = version
	a.card.SupportedInterfaces = append(a.card.SupportedInterfaces, i)
}

// serve listens, says so, and serves until ctx ends. What is under way then is
// cut off.
func (a *agent) serve(ctx context.Context, stdout io.Writer) error {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.http)
	if err != nil {
		return err
	}
	var group errgroup.Group
	server := &http.Server{Handler: a.mux, ReadHeaderTimeout: 10 * time.Second}
	if a.grpc != "" {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", a.grpc)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		group.Go(func() error { return a.grpcServer.Serve(l) })
	}
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	if _, err := fmt.Fprintln(stdout, "ready"); err != nil {
		return err
	}
	<-ctx.Done()
	if a.grpcServer != nil {
		a.grpcServer.Stop()
	}
	return errors.Join(server.Close(), group.Wait())
}

// textOf is the text of a message, without what is not text.
func textOf(m *a2a.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text())
	}
	return b.String()
}
