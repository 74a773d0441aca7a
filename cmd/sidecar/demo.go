package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/config"
)

const (
	demoDelay   = 400 * time.Millisecond // that a sub-agent works on a message
	demoTimeout = time.Minute            // for all calls of the demo
	maxDemoFan  = 64                     // calls at once that still make a readable tree
)

// demoOptions is a run of the demo.
type demoOptions struct {
	Once  bool
	Store string
	Calls int           // at once, in each scene
	Delay time.Duration // that a sub-agent works on a message
}

func newDemoCmd(e *env) *cobra.Command {
	o := demoOptions{Delay: demoDelay}
	cmd := &cobra.Command{
		Use:     "demo",
		Short:   "Show it: a coordinator, sub-agents and a sidecar in one process",
		GroupID: groupRun,
		Long: `demo runs a whole world in one process: real A2A sub-agents on loopback, a
sidecar, and a coordinator that calls the sub-agents through it, many at once.

First they share a session, then each call has its own, then more calls come
than the caps let through. What is printed are the agents' own counts; demo
fails if these are not what they should be. Afterwards the sidecar stays up, to
look around, until Ctrl-C.`,
		Example: "  sidecar demo\n  sidecar demo --once\n  sidecar demo --store sqlite:demo.db",
		Args:    takes(),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.Calls < 1 || o.Calls > maxDemoFan {
				return usage("reading the command line: --calls is %d, not 1 to %d", o.Calls, maxDemoFan)
			}
			return demo(cmd.Context(), e, o)
		},
	}
	cmd.Flags().BoolVar(&o.Once, "once", false, "end when all is shown")
	cmd.Flags().StringVar(&o.Store, "store", demoStore, "where the record is; by default nothing of it stays")
	cmd.Flags().IntVar(&o.Calls, "calls", 11, "how many calls the coordinator makes at once")
	return cmd
}

// demo shows everything once and then, unless told otherwise, stays up until
// ctx ends.
func demo(ctx context.Context, e *env, o demoOptions) (err error) {
	log := slog.New(slog.NewTextHandler(e.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	world, err := startDemoWorld(ctx, o, log, e.getenv)
	if err != nil {
		return fmt.Errorf("starting the demo: %w", err)
	}
	defer func() {
		if stopped := world.stop(); err == nil && stopped != nil {
			err = fmt.Errorf("ending the demo: %w", stopped)
		}
	}()
	outcome, err := world.play(ctx, o.Calls)
	if err != nil {
		return fmt.Errorf("playing the demo: %w", err)
	}
	if !o.Once {
		outcome.Outbound, outcome.Admin = world.app.Outbound(), world.app.Admin()
	}
	if o.Store != demoStore {
		outcome.Store = config.NewStoreURL(o.Store).String()
	}
	if e.output == outputJSON {
		err = e.printJSON(outcome)
	} else {
		var text string
		if text, err = describeDemo(outcome, e.demoStyle(), e.now()); err == nil {
			err = e.print(text)
		}
	}
	if err != nil {
		return err
	}
	if err := outcome.verify(); err != nil {
		return fmt.Errorf("checking the demo: %w", err)
	}
	if o.Once {
		return nil
	}
	return world.wait(ctx)
}

// demoWidth is how wide the demo prints at most, so that it can be quoted.
const demoWidth = 100

// demoStyle is the style of standard output within demoWidth columns.
func (e *env) demoStyle() style {
	st := e.style()
	if st.width == 0 || st.width > demoWidth {
		st.width = demoWidth
	}
	return st
}
