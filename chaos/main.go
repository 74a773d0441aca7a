// Chaos breaks a running system and then balances its books: `make chaos`, or
// `go run ./chaos -h`.
//
//	coordinators ──▶ sidecar 1 ┐                  ┌─▶ agents ── mid-chain ──▶ a sidecar
//	(this process)─▶ sidecar 2 ├─ one store       │   (this process: they outlive
//	             ──▶ sidecar 3 ┘   kill -9 ▲ ▲    │    the sidecars, and count)
//	                   kill -9 ▲───────────┘ └────┘
//
// Sidecars and the servers of the store are processes of their own, killed with
// SIGKILL and started again while calls run. What truly runs at once is counted
// at the agents, which know nothing of the record; see ledger. When the load has
// stopped and leases, grace and deadlines have passed, the record is read by the
// admin API and held against what the callers and the agents saw; see books.
//
// Everything random comes from one seed, which is printed. That fixes what is
// called and what is broken, though not how the processes' steps interleave.
//
// Chaos exits 1 if the books do not balance, a cap was exceeded, or a check
// failed, and 2 if it was called wrongly.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// options is what the flags say.
type options struct {
	short    bool
	duration time.Duration // of everything, about
	seed     uint64
	worlds   []string
	cases    bool
	race     bool
	sidecar  string // built already; empty: build it
	keep     bool
}

// Errors that say how chaos ends.
var (
	errUsage     = errors.New("wrong usage")
	errImbalance = errors.New("the books do not balance")
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, os.Args[1:], os.Environ(), os.Stdout, os.Stderr)
	stop()
	switch {
	case err == nil || errors.Is(err, flag.ErrHelp):
	case errors.Is(err, errUsage): // the flag package has said why
		os.Exit(2)
	default:
		_, _ = fmt.Fprintln(os.Stderr, "chaos:", err) // there is nobody else to tell
		os.Exit(1)
	}
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var only string
	f := flag.NewFlagSet("chaos", flag.ContinueOnError)
	f.SetOutput(stderr)
	f.BoolVar(&o.short, "short", false, "what CI runs, in some minutes: redis, cluster and sqlite for a little while, and the conformance cases")
	f.DurationVar(&o.duration, "duration", 10*time.Minute, "about how long all of it takes, shared between the worlds; not with -short")
	f.Uint64Var(&o.seed, "seed", 0, "of everything random; 0: another each time")
	f.StringVar(&only, "world", "", "only these worlds: "+strings.Join(worldNames, ", ")+"; or cases, for the conformance cases alone")
	f.BoolVar(&o.race, "race", false, "build the sidecar with the race detector")
	f.StringVar(&o.sidecar, "sidecar", "", "the sidecar's `binary`, instead of building it")
	f.BoolVar(&o.keep, "keep", false, "keep the sidecars' logs, and say where")
	if err := f.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return o, err
		}
		return o, errUsage
	}
	wrong := func(format string, a ...any) (options, error) {
		_, err := fmt.Fprintf(stderr, "chaos: "+format+"\n", a...)
		return o, errors.Join(errUsage, err)
	}
	if f.NArg() > 0 {
		return wrong("what is %q?", f.Arg(0))
	}
	o.worlds, o.cases = worldNames, true
	if o.short {
		o.worlds = shortWorlds
	}
	if only != "" {
		o.worlds, o.cases = nil, false
		for name := range strings.SplitSeq(only, ",") {
			switch {
			case name == "cases":
				o.cases = true
			case slices.Contains(worldNames, name):
				o.worlds = append(o.worlds, name)
			default:
				return wrong("-world knows %s and cases, not %q", strings.Join(worldNames, ", "), name)
			}
		}
	}
	if o.duration < minLoad {
		return wrong("-duration is at least %s", minLoad)
	}
	for o.seed == 0 {
		o.seed = rand.Uint64()
	}
	return o, nil
}

// lab is one run of chaos.
type lab struct {
	options
	bin  string // the sidecar
	dir  string
	env  []string // of the sidecars
	say  *teller
	load time.Duration // of each world
}

// teller tells how it goes. It may be used concurrently.
type teller struct {
	mu    sync.Mutex // guards out
	out   io.Writer
	began time.Time
}

func (t *teller) say(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	_, _ = fmt.Fprintf(t.out, "%5.0f s  "+format+"\n", append([]any{time.Since(t.began).Seconds()}, args...)...) // nothing hangs on it
}

func run(ctx context.Context, args, environ []string, stdout, stderr io.Writer) (err error) {
	o, err := parse(args, stderr)
	if err != nil {
		return err
	}
	redis.SetLogger(quiet{})
	l := &lab{options: o, say: &teller{out: stderr, began: time.Now()}}
	l.say.say("seed %d", l.seed)
	if l.dir, err = os.MkdirTemp("", "a2a-chaos-"); err != nil {
		return fmt.Errorf("making a directory: %w", err)
	}
	defer func() {
		if l.keep {
			l.say.say("logs are in %s", l.dir)
			return
		}
		err = errors.Join(err, os.RemoveAll(l.dir))
	}()
	for _, kv := range environ {
		if !strings.HasPrefix(kv, "SIDECAR_") && !strings.HasPrefix(kv, "OTEL_") {
			l.env = append(l.env, kv) // what would configure a sidecar behind our back is left out
		}
	}
	if err := l.build(ctx); err != nil {
		return err
	}
	l.load = shortLoad
	if !l.short {
		l.load = max(minLoad, l.duration/time.Duration(max(1, len(l.worlds)))-afterLoad)
	}
	good, err := l.all(ctx, stdout)
	if err == nil && !good {
		err = fmt.Errorf("%w; seed %d", errImbalance, l.seed)
	}
	return err
}

const (
	shortLoad = 25 * time.Second // of one world, with -short
	minLoad   = 15 * time.Second
	afterLoad = 30 * time.Second // that a world takes beside its load, about
)

// all runs the conformance cases beside the worlds, which come one after the
// other: the cases wait for a lease most of the time.
func (l *lab) all(ctx context.Context, stdout io.Writer) (good bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var cases []verdict
	var casesErr error
	var beside sync.WaitGroup
	if l.cases {
		beside.Go(func() { cases, casesErr = l.conformance(ctx) })
	}
	good = true
	for i, name := range l.worlds {
		var balanced bool
		if balanced, err = l.inWorld(ctx, name, rand.New(rand.NewPCG(l.seed, uint64(i))), stdout); err != nil {
			err = fmt.Errorf("world %s: %w", name, err)
			cancel()
			break
		}
		good = good && balanced
	}
	beside.Wait()
	if err == nil {
		err = casesErr
	}
	if err != nil {
		return false, fmt.Errorf("%w (seed %d)", err, l.seed)
	}
	passed, err := writeVerdicts(stdout, cases)
	return good && passed, err
}

// build builds the sidecar as it ships, but for the race detector.
func (l *lab) build(ctx context.Context) error {
	if l.bin = l.sidecar; l.bin != "" {
		return nil
	}
	l.bin = filepath.Join(l.dir, "sidecar")
	args := []string{"build", "-o", l.bin}
	if l.race {
		args = append(args, "-race")
	}
	said, err := exec.CommandContext(ctx, "go", append(args, "github.com/a2a-sidecar/a2a-sidecar/cmd/sidecar")...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("building the sidecar: %w:\n%s", cmp.Or(ctx.Err(), err), said)
	}
	return nil
}
