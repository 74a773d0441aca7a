// Agent is a sub-agent on ADK Go 1.3 or later, served over A2A 0.3, 1.0 or
// both, one of the programs that the interop lab puts behind the sidecar.
//
// It knows an agent without a model (echo.go) and serves it with ADK's own
// executor on a2a-go v2: JSON-RPC and HTTP+JSON of each version, all on one
// port, under one card. Nothing on the wire is its own. What is worth a look
// is what ADK adds: its session id, which is the context id, in the metadata
// of each event.
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

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/a2aproject/a2a-go/v2/a2asrv/taskstore"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/server/adka2a/v2"
	"google.golang.org/adk/session"
	"google.golang.org/genai"
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
	port := flags.Int("port", 0, "serve on this port of 127.0.0.1")
	flags.Int("grpc-port", 0, "taken for the lab's sake, not used: ADK's own client refuses a card that names a second port")
	version := flags.String("version", "both", "protocol version to speak: 0.3, 1.0 or both")
	if err := flags.Parse(args); err != nil {
		return exitFailed
	}
	spoken, ok := versions[*version]
	if !ok {
		_, _ = fmt.Fprintf(stderr, "agent: a2a-go v2 speaks A2A 0.3 and 1.0, not %q\n", *version)
		return exitUnsupported
	}
	if err := serve(ctx, *port, spoken, stdout, stderr); err != nil {
		_, _ = fmt.Fprintln(stderr, "agent:", err)
		return exitFailed
	}
	return exitOK
}

// versions are the protocol versions behind each value of --version, the
// newest first, as a card lists them.
var versions = map[string][]a2a.ProtocolVersion{
	"0.3":  {a2av0.Version},
	"1.0":  {a2a.Version},
	"both": {a2a.Version, a2av0.Version},
}

// serve listens, says "ready" on stdout, and answers until ctx ends.
func serve(ctx context.Context, port int, spoken []a2a.ProtocolVersion, stdout, stderr io.Writer) error {
	echo, err := newEcho()
	if err != nil {
		return fmt.Errorf("making the agent: %w", err)
	}
	var listen net.ListenConfig
	listener, err := listen.Listen(ctx, "tcp", loopback(port))
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}

	executor := adka2a.NewExecutor(adka2a.ExecutorConfig{
		RunnerConfig: runner.Config{
			AppName:        echo.Name(),
			Agent:          echo,
			SessionService: session.InMemoryService(),
		},
		A2APartConverter: answerWithText,
	})
	card := newCard(port, spoken)
	card.Skills = adka2a.BuildAgentSkills(echo)
	extended := *card
	extended.Name += " (extended)"
	handler := a2asrv.NewHandler(
		executor,
		a2asrv.WithExtendedAgentCard(&extended),
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(nil)),
		a2asrv.WithTaskStore(taskstore.NewInMemory(&taskstore.InMemoryStoreConfig{Authenticator: anyone})),
		a2asrv.WithLogger(slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelError}))),
	)

	server := &http.Server{Handler: newMux(card, handler, spoken), ReadHeaderTimeout: 10 * time.Second}
	failed := make(chan error, 1)
	go func() { failed <- server.Serve(listener) }()
	if _, err = fmt.Fprintln(stdout, "ready"); err != nil {
		err = fmt.Errorf("saying that we are ready: %w", err)
	} else {
		select {
		case err = <-failed:
			err = fmt.Errorf("serving: %w", err)
		case <-ctx.Done():
		}
	}
	return errors.Join(err, shutDown(ctx, server))
}

// newMux serves each binding of each version at its own path. Only a card with
// 0.3 in it has the members of that version too.
func newMux(card *a2a.AgentCard, handler a2asrv.RequestHandler, spoken []a2a.ProtocolVersion) *http.ServeMux {
	mux := http.NewServeMux()
	cards := a2asrv.NewStaticAgentCardHandler(card)
	for _, version := range spoken {
		rpc, rest := rpcPath(version), restPath(version)
		if version == a2av0.Version {
			cards = a2asrv.NewAgentCardHandler(a2av0.NewStaticAgentCardProducer(card))
			mux.Handle(rpc, a2av0.NewJSONRPCHandler(handler))
			mux.Handle(rest+"/", http.StripPrefix(rest, a2av0.NewRESTHandler(handler)))
			continue
		}
		mux.Handle(rpc, a2asrv.NewJSONRPCHandler(handler))
		mux.Handle(rest+"/", http.StripPrefix(rest, a2asrv.NewRESTHandler(handler)))
	}
	mux.Handle(a2asrv.WellKnownAgentCardPath, cards)
	return mux
}

// anyone is the user all callers are: the store lists tasks to none without a
// name.
func anyone(context.Context) (string, error) { return "anyone", nil }

// shutDown lets the calls in hand end, for a while, then cuts them off.
func shutDown(ctx context.Context, server *http.Server) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), drain)
	defer cancel()
	err := server.Shutdown(ctx)
	if errors.Is(err, context.DeadlineExceeded) {
		err = server.Close() // an open stream is no failure of ours
	}
	if err != nil {
		return fmt.Errorf("shutting down: %w", err)
	}
	return nil
}

// answerWithText lets a plain text that follows up on a task answer its
// question. ADK takes nothing but a function response there, which no client
// but ADK's own would think of sending.
func answerWithText(_ context.Context, event a2a.Event, part *a2a.Part) (*genai.Part, error) {
	text := part.Text()
	message, isMessage := event.(*a2a.Message)
	if text != "" && isMessage && message.TaskID != "" {
		response := genai.NewPartFromFunctionResponse(questionName, map[string]any{answerKey: text})
		response.FunctionResponse.ID = questionID
		return response, nil
	}
	return adka2a.ToGenAIPart(part)
}

// newCard names both bindings of each version that is spoken.
func newCard(port int, spoken []a2a.ProtocolVersion) *a2a.AgentCard {
	card := &a2a.AgentCard{
		Name:               "adk13",
		Description:        "The interop lab's sub-agent on ADK Go with a2a-go v2.",
		Version:            "1.0.0",
		Capabilities:       a2a.AgentCapabilities{Streaming: true, PushNotifications: true, ExtendedAgentCard: true},
		DefaultInputModes:  []string{"text/plain"},
		DefaultOutputModes: []string{"text/plain"},
	}
	base := "http://" + loopback(port)
	for _, version := range spoken {
		card.SupportedInterfaces = append(card.SupportedInterfaces,
			&a2a.AgentInterface{URL: base + rpcPath(version), ProtocolBinding: a2a.TransportProtocolJSONRPC, ProtocolVersion: version},
			&a2a.AgentInterface{URL: base + restPath(version), ProtocolBinding: a2a.TransportProtocolHTTPJSON, ProtocolVersion: version},
		)
	}
	return card
}

func rpcPath(version a2a.ProtocolVersion) string { return "/" + string(version) + "/rpc" }

func restPath(version a2a.ProtocolVersion) string { return "/" + string(version) + "/rest" }

func loopback(port int) string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(port)) }
