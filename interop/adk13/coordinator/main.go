// Coordinator plays one scenario of the interop lab as an application on ADK
// Go 1.3 or later: a root agent without a model that delegates to one
// remoteagent, run by ADK's runner in one session.
//
// The program knows how calls are fanned out (coordinator.go), which of ADK's
// two remoteagent packages speaks a version (remote.go) and how a line is
// written (line.go). The card, the client, and above all which context a call
// carries on are ADK's: it takes the context of the last event that the remote
// agent's name is on, so that the second turn of a fan-out sends all its calls
// into one. That is what the lab is after.
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
var errUnsupported = errors.New("not supported by ADK 1")

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
	binding := flags.String("binding", "JSONRPC", "JSONRPC or HTTP+JSON")
	version := flags.String("version", "1.0", "protocol version to speak: 0.3 or 1.0")
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
	remote, err := newRemote(url, binding, version)
	if err != nil {
		return err
	}
	out := newPrinter(stdout)
	return errors.Join(scenario.play(ctx, remote, out), out.err)
}
