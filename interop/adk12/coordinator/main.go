// Coordinator plays one scenario of the interop lab as an ADK Go 1.2
// application: a root agent without a model that delegates to one
// remoteagent, run by ADK's runner in one session.
//
// The program knows how calls are fanned out (coordinator.go) and how a line
// is written (line.go). The card, the client, and above all which context a
// call carries on are ADK's: it takes the context of the last event that the
// remote agent's name is on, so that the second turn of a fan-out sends all
// its calls into one. That is what the lab is after.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"google.golang.org/adk/agent"
	"google.golang.org/adk/agent/remoteagent"
	"google.golang.org/adk/session"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Exit codes of the lab's programs.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUnsupported = 3 // ADK cannot do what was asked
)

// patience bounds a whole scenario, so that a call that never ends fails the
// run instead of hanging the lab.
const patience = 50 * time.Second

// errUnsupported marks what ADK cannot do.
var errUnsupported = errors.New("not supported by ADK 1.2")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("coordinator", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("url", "", "base address under which the agent card is")
	binding := flags.String("binding", "JSONRPC", "JSONRPC or GRPC")
	version := flags.String("version", "0.3", "protocol version to speak; ADK 1.2 knows 0.3 alone")
	name := flags.String("scenario", "fanout", "what to play")
	flags.Int("count", 1, "taken for the lab's sake; no scenario here repeats")
	if err := flags.Parse(args); err != nil {
		return exitFailed
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	err := play(ctx, *url, *binding, *version, *name, stdout)
	switch {
	case errors.Is(err, errUnsupported):
		_, _ = fmt.Fprintln(stderr, "coordinator:", err)
		return exitUnsupported
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "coordinator:", err)
		return exitFailed
	}
	return exitOK
}

// play runs the scenario. What the agent answers, errors among it, is printed;
// an error of play itself means that the scenario did not run.
func play(ctx context.Context, url, binding, version, name string, stdout io.Writer) error {
	scenario, ok := scenarios[name]
	if !ok {
		return fmt.Errorf("scenario %q: %w", name, errUnsupported)
	}
	if version != "0.3" {
		return fmt.Errorf("A2A %q: %w", version, errUnsupported)
	}
	remote, err := newRemote(url, binding)
	if err != nil {
		return err
	}
	out := newPrinter(stdout)
	return errors.Join(scenario.play(ctx, remote, out), out.err)
}

// newRemote is the remote agent as an application would configure it, but that
// gRPC is told to do without TLS, and JSON-RPC is ADK's default as it stands.
func newRemote(url, binding string) (agent.Agent, error) {
	config := remoteagent.A2AConfig{
		Name:                   "remote",
		Description:            "The agent under test.",
		AgentCardSource:        url,
		BeforeRequestCallbacks: []remoteagent.BeforeA2ARequestCallback{numberText},
	}
	switch a2a.TransportProtocol(binding) {
	case a2a.TransportProtocolJSONRPC:
	case a2a.TransportProtocolGRPC:
		config.ClientFactory = a2aclient.NewFactory(
			a2aclient.WithDefaultsDisabled(),
			a2aclient.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials())),
		)
	default:
		return nil, fmt.Errorf("binding %q: %w", binding, errUnsupported)
	}
	remote, err := remoteagent.NewA2A(config)
	if err != nil {
		return nil, fmt.Errorf("making the remote agent: %w", err)
	}
	return remote, nil
}

// numberText gives each call of a fan-out a text of its own, so that an answer
// tells whose it is. ADK would say the user's words in each of them. All else
// in the request stays as ADK made it.
func numberText(ctx agent.CallbackContext, req *a2a.MessageSendParams) (*session.Event, error) {
	if text, ok := callText(ctx); ok {
		req.Message.Parts = a2a.ContentParts{a2a.TextPart{Text: text}}
	}
	return nil, nil
}
