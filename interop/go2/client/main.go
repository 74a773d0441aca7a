// Client is the a2a-go v2 client of the interop lab: one scenario per run, over
// one binding in one version of the protocol (the contract is in
// interop/README.md). The card is resolved, the interface chosen and every call
// made by the SDK.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpc03 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpc10 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// exitUnsupported says that the SDK cannot do what was asked.
const exitUnsupported = 3

// unsupported is why it cannot.
type unsupported string

func (e unsupported) Error() string { return string(e) }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	if err == nil || errors.Is(err, flag.ErrHelp) {
		return
	}
	fmt.Fprintln(os.Stderr, "client:", err)
	if _, ok := errors.AsType[unsupported](err); ok {
		os.Exit(exitUnsupported)
	}
	os.Exit(1)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	flags := flag.NewFlagSet("client", flag.ContinueOnError)
	flags.SetOutput(stderr)
	var how dialing
	flags.StringVar(&how.url, "url", "", "base URL of the agent's card")
	flags.StringVar(&how.binding, "binding", "JSONRPC", "JSONRPC, HTTP+JSON or GRPC")
	flags.StringVar(&how.version, "version", "1.0", "0.3 or 1.0")
	scenario := flags.String("scenario", "message", strings.Join(names(), ", "))
	count := flags.Int("count", 1, "how often, for errors")
	fresh := flags.Bool("fresh", false, "a connection for each, for errors")
	if err := flags.Parse(args); err != nil {
		return err
	}
	play, ok := scenarios[*scenario]
	if !ok {
		return unsupported("no such scenario: " + *scenario)
	}
	client, err := how.dial(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = client.Destroy() }() // the process ends with it
	return play(ctx, &session{Client: client, count: *count, fresh: *fresh, how: how, out: &printer{w: stdout}})
}

// dialing is how to reach an agent.
type dialing struct{ url, binding, version string }

// dial makes the SDK's client for the interface of one binding and version.
func (d dialing) dial(ctx context.Context) (*a2aclient.Client, error) {
	// An own transport: a fresh client is to have a fresh connection.
	hc := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	insecure := grpc.WithTransportCredentials(insecure.NewCredentials())
	var speak a2aclient.FactoryOption
	resolver := agentcard.NewResolver(hc)
	switch d.version + " " + d.binding {
	case "1.0 JSONRPC":
		speak = a2aclient.WithJSONRPCTransport(hc)
	case "1.0 HTTP+JSON":
		speak = a2aclient.WithRESTTransport(hc)
	case "1.0 GRPC":
		speak = grpc10.WithGRPCTransport(insecure)
	case "0.3 JSONRPC":
		speak = a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: hc})
	case "0.3 HTTP+JSON":
		speak = a2av0.WithRESTTransport(a2av0.RESTTransportConfig{Client: hc})
	case "0.3 GRPC":
		speak = grpc03.WithGRPCTransport(insecure)
	default:
		return nil, unsupported("no such binding and version: " + d.binding + " " + d.version)
	}
	if d.version == "0.3" {
		resolver.CardParser = a2av0.NewAgentCardParser()
	}
	card, err := resolver.Resolve(ctx, d.url)
	if err != nil {
		return nil, fmt.Errorf("resolving the card: %w", err)
	}
	client, err := a2aclient.NewFromCard(ctx, card, a2aclient.WithDefaultsDisabled(), speak)
	if err != nil && strings.Contains(err.Error(), "no compatible transports") {
		return nil, unsupported(err.Error())
	}
	return client, err
}
