// Client plays one scenario of the interop lab with the client of a2a-go 0.3,
// and prints what that SDK made of each answer, one JSON object a line.
//
// The SDK does all that is protocol: it resolves the card under --url, chooses
// the interface, encodes, sends and decodes. The program knows the scenarios
// (scenarios.go) and how a line is written (line.go); it neither judges an
// answer nor repairs one, for the lab compares two runs of it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
	"github.com/a2aproject/a2a-go/a2aclient/agentcard"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Exit codes of the lab's programs.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUnsupported = 3 // this SDK cannot do what was asked
)

// patience bounds a whole scenario, so that a stream that never ends fails the
// run instead of hanging the lab.
const patience = 50 * time.Second

// errUnsupported marks what this SDK cannot do.
var errUnsupported = errors.New("not supported by a2a-go v0.3")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.SetOutput(stderr)
	url := flags.String("url", "", "base address under which the agent card is")
	binding := flags.String("binding", "JSONRPC", "JSONRPC or GRPC")
	version := flags.String("version", "0.3", "protocol version to speak; this SDK knows 0.3 alone")
	name := flags.String("scenario", "message", "what to play")
	count := flags.Int("count", 1, "how often the errors scenario asks")
	if err := flags.Parse(args); err != nil {
		return exitFailed
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()

	err := play(ctx, *url, *binding, *version, *name, *count, stdout)
	switch {
	case errors.Is(err, errUnsupported):
		_, _ = fmt.Fprintln(stderr, "client:", err)
		return exitUnsupported
	case err != nil:
		_, _ = fmt.Fprintln(stderr, "client:", err)
		return exitFailed
	}
	return exitOK
}

// play connects and runs the scenario. What the agent answers, errors among
// it, is printed; an error of play itself means that the scenario did not run.
func play(ctx context.Context, url, binding, version, name string, count int, stdout io.Writer) error {
	scenario, ok := scenarios[name]
	if !ok {
		return fmt.Errorf("scenario %q: %w", name, errUnsupported)
	}
	if version != "0.3" {
		return fmt.Errorf("A2A %q: %w", version, errUnsupported)
	}
	transport := a2a.TransportProtocol(binding)
	if transport != a2a.TransportProtocolJSONRPC && transport != a2a.TransportProtocolGRPC {
		return fmt.Errorf("binding %q: %w", binding, errUnsupported)
	}

	card, err := agentcard.DefaultResolver.Resolve(ctx, url)
	if err != nil {
		return fmt.Errorf("resolving the card: %w", err)
	}
	if !offers(card, transport) {
		return fmt.Errorf("the agent offers no %s, so it is %w", transport, errUnsupported)
	}
	// The SDK's defaults would fall back to another binding, and want TLS for
	// gRPC; the lab asks for one binding and is on loopback.
	option := a2aclient.WithJSONRPCTransport(nil)
	if transport == a2a.TransportProtocolGRPC {
		option = a2aclient.WithGRPCTransport(grpc.WithTransportCredentials(insecure.NewCredentials()))
	}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), option)
	if err != nil {
		return fmt.Errorf("connecting to what the card names: %w", err)
	}

	session := &session{client: client, out: newPrinter(stdout), count: count}
	err = scenario(session, ctx)
	return errors.Join(err, session.out.err, client.Destroy())
}

// offers reports whether the card names an interface of this transport. A card
// without a preferred one means JSON-RPC, by the protocol.
func offers(card *a2a.AgentCard, transport a2a.TransportProtocol) bool {
	preferred := card.PreferredTransport
	if preferred == "" {
		preferred = a2a.TransportProtocolJSONRPC
	}
	return preferred == transport || slices.ContainsFunc(card.AdditionalInterfaces, func(i a2a.AgentInterface) bool {
		return i.Transport == transport
	})
}
