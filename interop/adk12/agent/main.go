// Agent is an ADK Go 1.2 sub-agent served over A2A 0.3, one of the programs
// that the interop lab puts behind the sidecar.
//
// It knows an agent without a model (echo.go) and serves it with ADK's own
// executor on a2a-go v0.3: JSON-RPC always, gRPC (a2a.v1) when it is given a
// port. Nothing on the wire is its own. What is worth a look is what ADK adds:
// its session id, which is the context id, in the metadata of each event.
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
	"google.golang.org/adk/runner"
	"google.golang.org/adk/server/adka2a"
	"google.golang.org/adk/session"
	"google.golang.org/genai"
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
	flags := flag.NewFlagSet("agent", flag.ContinueOnError)
	flags.SetOutput(stderr)
	port := flags.Int("port", 0, "serve the card and JSON-RPC on this port of 127.0.0.1")
	grpcPort := flags.Int("grpc-port", 0, "serve gRPC on this port too")
	version := flags.String("version", "0.3", "protocol version to speak; ADK 1.2 knows 0.3 alone")
	if err := flags.Parse(args); err != nil {
		return exitFailed
	}
	if *version != "0.3" {
		_, _ = fmt.Fprintf(stderr, "agent: ADK 1.2 speaks A2A 0.3, not %q\n", *version)
		return exitUnsupported
	}
	if err := serve(ctx, *port, *grpcPort, stdout, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "agent:", err)
		return exitFailed
	}
	return exitOK
}

// serve listens, says "ready" on stdout, and answers until ctx ends.
func serve(ctx context.Context, port, grpcPort int, stdout, stderr io.Writer) error {
	echo, err := newEcho()
	if err != nil {
		return fmt.Errorf("making the agent: %w", err)
	}
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
	card.Skills = adka2a.BuildAgentSkills(echo)
	extended := *card
	extended.Name += " (extended)"
	executor := adka2a.NewExecutor(adka2a.ExecutorConfig{
		RunnerConfig: runner.Config{
			AppName:        echo.Name(),
			Agent:          echo,
			SessionService: session.InMemoryService(),
		},
		A2APartConverter: answerWithText,
	})
	handler := a2asrv.NewHandler(
		executor,
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

// answerWithText lets a plain text that follows up on a task answer its
// question. ADK takes nothing but a function response there, which no client
// but ADK's own would think of sending.
func answerWithText(_ context.Context, event a2a.Event, part a2a.Part) (*genai.Part, error) {
	text, isText := part.(a2a.TextPart)
	message, isMessage := event.(*a2a.Message)
	if isText && isMessage && message.TaskID != "" {
		response := genai.NewPartFromFunctionResponse(questionName, map[string]any{answerKey: text.Text})
		response.FunctionResponse.ID = questionID
		return response, nil
	}
	return adka2a.ToGenAIPart(part)
}

// newCard names every interface there is. A gRPC address has no scheme, as
// a2a-go's client wants it.
func newCard(port, grpcPort int) *a2a.AgentCard {
	url := "http://" + loopback(port) + "/rpc"
	card := &a2a.AgentCard{
		Name:               "adk12",
		Description:        "The interop lab's sub-agent on ADK Go 1.2.",
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
	}
	if grpcPort != 0 {
		card.AdditionalInterfaces = append(card.AdditionalInterfaces,
			a2a.AgentInterface{Transport: a2a.TransportProtocolGRPC, URL: loopback(grpcPort)})
	}
	return card
}

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
