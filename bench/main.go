// Bench measures what the sidecar costs: `make bench`, or `go run ./bench -h`.
//
//	                  ┌────────────────────────────▶ agent     "direct"
//	generator ────────┼─▶ httputil.ReverseProxy ───▶ agent     "bare"
//	(this process)    ├─▶ sidecar, SQLite ─────────▶ agent     "sqlite"
//	                  └─▶ sidecar, Redis ──────────▶ agent     "redis"
//
// Every box is a process of its own, on loopback and on the same cores, and
// ends with this one. The sidecars are built from this checkout and run with
// everything on: isolation, lineage, caps that are checked but never reached,
// and the record of texts. Then the stores are measured by themselves, without a
// proxy, in this process: see stores.
//
// Numbers of one machine say nothing about another, and those of one minute
// little about the next. So the targets take turns within each round, in an
// order that rotates; what counts is the ratio to bare and the difference from
// it within a round, and of those the median over the rounds.
//
// Every answer is checked, and so is the sidecars' own word that nothing of the
// record was given up: a fast wrong answer is a failure. Bench judges no speed.
// It exits 1 if something is broken, and 2 if it was called wrongly.
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
	"strings"
	"syscall"
	"time"
)

// options is what the flags say.
type options struct {
	short    bool
	rounds   int
	duration time.Duration // of one measurement
	conns    int           // at saturation
	rate     int           // calls per second where latency is measured
	tree     int           // calls that share a root context
	only     map[string]bool
	streams  int // to hold open instead; 0: none
	json     bool
	profiles string // directory for CPU profiles; empty: none
}

var errUsage = errors.New("wrong usage")

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Stdin, os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage): // the flag package has said why
		os.Exit(2)
	default:
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string, stdin io.Reader, stdout, stderr io.Writer) error {
	if len(args) == 3 && args[0] == roleFlag {
		return play(ctx, args[1], args[2], stdin, stdout)
	}
	opts, err := parse(args, stderr)
	if err != nil {
		return err
	}
	if opts.streams > 0 {
		return measureStreams(ctx, opts, stdout, stderr)
	}
	result, err := measureAll(ctx, opts, stderr)
	if err != nil {
		return err
	}
	if opts.json {
		err = result.writeJSON(stdout)
	} else {
		err = result.writeTable(stdout)
	}
	if err != nil {
		return fmt.Errorf("writing the result: %w", err)
	}
	if len(result.Broken) > 0 {
		return fmt.Errorf("broken: %s", strings.Join(result.Broken, "; "))
	}
	return nil
}

// measureAll measures what -only asks for.
func measureAll(ctx context.Context, o options, stderr io.Writer) (*result, error) {
	res := &result{Machine: machine(&world{})}
	if o.ofProxies() {
		var err error
		if res, err = measure(ctx, o, stderr); err != nil {
			return nil, err
		}
	}
	if o.ofStores() {
		var err error
		if res.Stores, err = measureStores(ctx, o, func(format string, args ...any) { say(stderr, format, args...) }); err != nil {
			return nil, err
		}
	}
	return res, nil
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only, output string
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.short, "short", false, "less of everything: a minute instead of four")
	f.IntVar(&o.rounds, "rounds", 9, "rounds; 3 if short")
	f.DurationVar(&o.duration, "duration", 1500*time.Millisecond, "length of one measurement; 600ms if short")
	f.IntVar(&o.conns, "c", 16, "connections that call without pause, for throughput")
	f.IntVar(&o.rate, "rate", 500, "calls per second at which latency is measured")
	f.IntVar(&o.tree, "tree", 11, "calls that share a root context: the fan-out of one conversation")
	f.StringVar(&only, "only", "", "measure only some of these: "+strings.Join(names, ",")+"; direct and bare always come with sqlite and redis")
	f.IntVar(&o.streams, "streams", 0, "instead of all else, hold `N` streams open through each proxy, and tell what it holds in memory")
	f.StringVar(&output, "o", "text", "output: text or json")
	f.StringVar(&o.profiles, "cpuprofile", "", "after the rounds, profile each sidecar at saturation into `DIR`")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage
	}
	set := map[string]bool{}
	f.Visit(func(f *flag.Flag) { set[f.Name] = true })
	if o.short && !set["rounds"] {
		o.rounds = 3
	}
	if o.short && !set["duration"] {
		o.duration = 600 * time.Millisecond
	}
	o.json = output == "json"
	o.only = map[string]bool{}
	for name := range strings.SplitSeq(only, ",") {
		o.only[name] = true
	}
	if only == "" {
		o.only = map[string]bool{}
		for _, name := range names {
			o.only[name] = true
		}
	}
	for name := range o.only {
		if !slices.Contains(names, name) {
			return o, refuse(stderr, "-only knows %s, not %q", strings.Join(names, ", "), name)
		}
	}
	switch {
	case output != "text" && output != "json":
		return o, refuse(stderr, "-o is text or json, not %q", output)
	case f.NArg() > 0:
		return o, refuse(stderr, "what is %q?", f.Arg(0))
	case o.streams < 0:
		return o, refuse(stderr, "-streams is at least 0")
	case o.rounds < 1 || o.conns < 1 || o.rate < 1 || o.tree < 1 || o.duration < 100*time.Millisecond:
		return o, refuse(stderr, "-rounds, -c, -rate and -tree are at least 1, -duration at least 100ms")
	}
	return o, nil
}

func refuse(stderr io.Writer, format string, args ...any) error {
	say(stderr, format+"\n", args...)
	return errUsage
}

// say tells the user something. That it cannot be told is no reason to stop.
func say(stderr io.Writer, format string, args ...any) {
	_, _ = fmt.Fprintf(stderr, "bench: "+format, args...)
}
