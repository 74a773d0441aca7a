// Interop runs real A2A clients against real A2A agents, straight and through
// the sidecar, and holds what passed on its two sides against each other:
// `make interop`, or `go run ./interop -h`.
//
//	direct        client ────────────────────────────────────────▶ agent
//	passthrough   client ─▶ near tap ─▶ sidecar ─▶ far tap ─▶ agent
//	isolated      client ─▶ near tap ─▶ sidecar ─▶ far tap ─▶ agent
//
// Every program is a process of its own, written with an SDK that nobody here
// wrote (programs.go lists them), and so is the sidecar. A run is good if the
// client said the same as without the sidecar, and if the taps saw the same on
// both of its sides but for what package compare allows.
//
// The lab knows how to run programs and how to compare. It calls no agent
// itself but for its card, and decides nothing by what a client means.
// It exits 1 if anything differs, and 2 if it was called wrongly.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"sync"
	"syscall"
)

// options is what the flags say.
type options struct {
	short    bool
	only     *regexp.Regexp // nil: everything
	keep     bool
	verbose  bool
	markdown bool
	sidecar  string // built already; empty: build it
	root     string // of the checkout
}

// Errors that say how the lab ends.
var (
	errUsage  = errors.New("wrong usage")
	errDiffer = errors.New("not everything is as it is without the sidecar")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage): // the flag package has said why
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "interop:", err)
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	flags := flag.NewFlagSet("interop", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.BoolVar(&o.short, "short", false, "what CI runs: "+shortIs)
	flags.StringVar(&only, "only", "", "runs that match this `regexp`, each called client/server/binding/version/scenario")
	flags.BoolVar(&o.keep, "keep", false, "keep logs and recordings, and say where")
	flags.BoolVar(&o.verbose, "v", false, "say what each run did")
	flags.BoolVar(&o.markdown, "markdown", false, "print the tables as Markdown")
	flags.StringVar(&o.sidecar, "sidecar", "", "the sidecar's `binary`, instead of building it")
	flags.StringVar(&o.root, "root", ".", "`directory` of the checkout")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage
	}
	if flags.NArg() > 0 {
		return o, wrong(stderr, "interop takes flags only, and got %q\n", flags.Arg(0))
	}
	if only != "" {
		var err error
		if o.only, err = regexp.Compile(only); err != nil {
			return o, wrong(stderr, "-only: %v\n", err)
		}
	}
	return o, nil
}

// wrong says what is wrong with the command line.
func wrong(stderr io.Writer, format string, args ...any) error {
	_, err := fmt.Fprintf(stderr, format, args...)
	return errors.Join(errUsage, err)
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "interop-")
	if err != nil {
		return err
	}
	l := &lab{options: o, work: work, log: stderr}
	if o.keep {
		defer func() { l.say("logs and recordings are in %s", work) }()
	} else {
		defer func() { _ = os.RemoveAll(work) }() // a temporary directory is swept up anyway
	}
	if err := l.prepare(ctx); err != nil {
		return err
	}
	report, err := l.matrix(ctx)
	if err != nil {
		return err
	}
	if err := l.extras(ctx, report); err != nil {
		return err
	}
	if o.markdown {
		err = report.writeMarkdown(stdout)
	} else {
		err = report.writeText(stdout)
	}
	if err == nil && report.failed() {
		err = errDiffer
	}
	return err
}

// lab is one run of the lab.
type lab struct {
	options
	work  string // for logs and recordings
	bin   string // of what was built
	venvs string // Python environments
	log   io.Writer

	saying sync.Mutex       // guards log
	ready  map[string]error // programs by name: nil, or why it cannot run
}

// say tells how it goes. It may be called concurrently.
func (l *lab) say(format string, args ...any) {
	l.saying.Lock()
	defer l.saying.Unlock()
	_, _ = fmt.Fprintf(l.log, format+"\n", args...) // nothing hangs on it
}
