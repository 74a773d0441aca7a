package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// env is what a command has of the world around it.
type env struct {
	lookupEnv func(string) (string, bool)
	stdin     io.Reader
	stdout    io.Writer
	stderr    io.Writer
	now       func() time.Time

	output  output // --output
	started bool   // the command line was right: what fails now is the command
}

func (e *env) getenv(name string) string {
	v, _ := e.lookupEnv(name)
	return v
}

// run is the whole program, but for signals and the exit itself.
func run(ctx context.Context, args []string, lookupEnv func(string) (string, bool), stdin io.Reader, stdout, stderr io.Writer) int {
	e := &env{
		lookupEnv: lookupEnv, stdin: stdin, stdout: stdout, stderr: stderr,
		now: time.Now, output: outputText,
	}
	root := newRootCmd(e) //nolint:contextcheck // cobra hands ctx to the command
	root.SetArgs(args)
	cmd, err := root.ExecuteContextC(ctx)
	if err != nil && !e.started {
		err = misused(cmd, args, err)
	}
	return e.report(err)
}

// newRootCmd puts the commands together.
func newRootCmd(e *env) *cobra.Command {
	root := &cobra.Command{
		Use:   "sidecar",
		Short: "Isolated, recorded and capped sub-agent sessions for any A2A coordinator",
		Long: `sidecar stands beside a coordinator agent that calls other agents over A2A.
It decides which context each call runs in, records the tree of sessions that
the calls grow, and holds the fan-out within caps.

Exit codes: 0 done, 1 failed, 2 wrong usage, 3 not found, 4 refused by a limit
or a conflict.`,
		Example:       "  sidecar serve --agent worker=http://worker:8080,isolate\n  sidecar tree latest",
		Version:       buildVersion().Version,
		SilenceErrors: true,
		SilenceUsage:  true,
	}
	root.SetIn(e.stdin)
	root.SetOut(e.stdout)
	root.SetErr(e.stderr)
	root.PersistentFlags().VarP(&e.output, "output", "o", "how to print: text or json")
	complete(root, "output", string(outputText), string(outputJSON))
	root.AddGroup(
		&cobra.Group{ID: groupRun, Title: "Run:"},
		&cobra.Group{ID: groupLook, Title: "Look:"},
		&cobra.Group{ID: groupSteer, Title: "Steer:"},
		&cobra.Group{ID: groupConfig, Title: "Configure:"},
	)
	root.AddCommand(
		newServeCmd(e),
		newDemoCmd(e),
		newTreesCmd(e),
		newTreeCmd(e),
		newEventsCmd(e),
		newSessionCmd(e),
		newSpawnCmd(e),
		newCompleteCmd(e),
		newFailCmd(e),
		newSuspendCmd(e),
		newResumeCmd(e),
		newCancelCmd(e),
		newCheckCmd(e),
		newSchemaCmd(e),
		newVersionCmd(e),
	)
	markStart(e, root)
	return root
}

// Groups of commands in the help.
const (
	groupRun    = "run"
	groupLook   = "look"
	groupSteer  = "steer"
	groupConfig = "config"
)

// markStart makes every command below cmd note that it has begun. Whatever
// cobra finds wrong before that is wrong usage.
func markStart(e *env, cmd *cobra.Command) {
	if do := cmd.RunE; do != nil {
		cmd.RunE = func(cmd *cobra.Command, args []string) error {
			e.started = true
			return do(cmd, args)
		}
	}
	for _, sub := range cmd.Commands() {
		markStart(e, sub)
	}
}

// takes wants one argument for each name, and says which is missing.
func takes(names ...string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) < len(names) {
			return fmt.Errorf("%s is missing", names[len(args)])
		}
		if len(args) > len(names) {
			return fmt.Errorf("there is an argument too many: %q", args[len(names)])
		}
		return nil
	}
}

// takesSome wants one argument or more.
func takesSome(name string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 0 {
			return fmt.Errorf("%s is missing", name)
		}
		return nil
	}
}

// complete offers values for a flag in the shell.
func complete(cmd *cobra.Command, flag string, values ...string) {
	err := cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
	if err != nil {
		panic(err) // the flag is not there: a slip in this package
	}
}

// output is the value of --output.
type output string

const (
	outputText output = "text"
	outputJSON output = "json"
)

func (o *output) String() string { return string(*o) }
func (o *output) Type() string   { return "text|json" }

func (o *output) Set(s string) error {
	if s != string(outputText) && s != string(outputJSON) {
		return fmt.Errorf("it is text or json")
	}
	*o = output(s)
	return nil
}

// print writes text to standard output.
func (e *env) print(text string) error {
	if _, err := io.WriteString(e.stdout, text); err != nil {
		return fmt.Errorf("writing the output: %w", err)
	}
	return nil
}

// printJSON writes v to standard output, indented.
func (e *env) printJSON(v any) error {
	text, err := encodeJSON(v, "  ")
	if err != nil {
		return err
	}
	return e.print(text)
}

// encodeJSON encodes v on lines of its own. Characters that a terminal might
// obey are escaped: the value is the same, and harmless.
func encodeJSON(v any, indent string) (string, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	if err := enc.Encode(v); err != nil {
		return "", fmt.Errorf("encoding the output: %w", err)
	}
	return cleanJSON(b.String()), nil
}
