package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"github.com/go-json-experiment/json"
	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// maxResult bounds a result that is read from a file: the API takes no more.
const maxResult = 1 << 20

// steer gives cmd the flags that say which sidecar it steers.
func steer(e *env, cmd *cobra.Command) *source {
	s := asks(e, cmd)
	cmd.GroupID = groupSteer
	// Whoever looks with --store will try to change with it, too: better told why
	// not than that there is no such flag.
	const store = "store"
	cmd.Flags().StringVar(&s.store, store, "", "")
	if err := cmd.Flags().MarkHidden(store); err != nil {
		panic(err) // the flag is not there: a slip in this package
	}
	return s
}

// steered returns the client of the sidecar that a command steers.
func (s *source) steered() (*adminapi.Client, error) {
	if s.store != "" {
		return nil, &failure{
			error: errors.New("reading the command line: changes go through a sidecar, not into its store"), code: exitUsage,
			hint: "--admin URL says which sidecar, without --store",
		}
	}
	return s.client()
}

// step is a command that takes sessions a step further.
type step struct {
	verb  lineage.Verb
	doing string // "completing"
	short string
	long  string
	more  string // of the example, and further ones
}

func newCompleteCmd(e *env) *cobra.Command {
	return newEndCmd(e, step{
		verb: lineage.VerbComplete, doing: "completing", short: "End a session that has done its work",
		long: `complete ends a session as completed, with what it leaves to its parent. Its
open calls end with it in the record, and give up their places; their agents are
about to answer, and are not asked to stop. Those of sessions below it are.`,
		more: " --summary 'Three suppliers can deliver.'\n" +
			"  jq '{summary, memoryIds}' report.json | sidecar complete 0198c0de-7a11-7000-8000-000000000001 --result -",
	})
}

func newFailCmd(e *env) *cobra.Command {
	return newEndCmd(e, step{
		verb: lineage.VerbFail, doing: "failing", short: "End a session that has not done its work",
		long: `fail ends a session as failed, for a reason and with what it leaves to its
parent, if anything. Otherwise it is as complete.`,
		more: " --reason no_supplier",
	})
}

func newSuspendCmd(e *env) *cobra.Command {
	return newStepCmd(e, step{
		verb: lineage.VerbSuspend, doing: "suspending", short: "Set a session aside until it is resumed",
		long: `suspend sets a branch aside: its open calls yield their places at the agent and
among the calls of their caller, while the session keeps its own place among its
parent's children. Its agents are not told.`,
	}, func(*adminapi.StepRequest) error { return nil })
}

func newResumeCmd(e *env) *cobra.Command {
	return newStepCmd(e, step{
		verb: lineage.VerbResume, doing: "resuming", short: "Let a suspended session go on",
		long: `resume lets a branch go on that suspend has set aside. One whose agent waits for
an answer goes on with that answer, sent to its task.`,
	}, func(*adminapi.StepRequest) error { return nil })
}

func newCancelCmd(e *env) *cobra.Command {
	return newStepCmd(e, step{
		verb: lineage.VerbCancel, doing: "canceling", short: "Ask the agents of a session to stop, and end it",
		long: `cancel asks the agent of each open task of a session to stop. What it answers
within the grace (limits.grace in the configuration) still counts; then its
calls are cut off. A session in which nothing runs ends at once. Sessions below
it end in the same way.`,
		more: "\n  sidecar tree latest -o json | jq -r '.sessions[] | select(.agent == \"worker\" and .endedAt == null).id' | xargs sidecar cancel",
	}, func(*adminapi.StepRequest) error { return nil })
}

// newEndCmd makes a command for a verb that may leave a result.
func newEndCmd(e *env, st step) *cobra.Command {
	var summary, file, reason string
	cmd := newStepCmd(e, st, func(r *adminapi.StepRequest) error {
		r.Reason = reason
		if file != "" {
			result, err := readResult(file, e.stdin)
			if err != nil {
				return err
			}
			r.Result = result
		}
		if summary != "" {
			if r.Result == nil {
				r.Result = &lineage.Result{}
			}
			r.Result.Summary = summary
		}
		return nil
	})
	cmd.Flags().StringVar(&summary, "summary", "", "what it leaves to its parent, in words; counts more than the result's own")
	cmd.Flags().StringVar(&file, "result", "", "file with its result, JSON {summary, artifacts, memoryIds}; a dash is standard input")
	if st.verb == lineage.VerbFail {
		cmd.Flags().StringVar(&reason, "reason", "", "why, in a word or few")
	}
	return cmd
}

// newStepCmd makes the command for a verb. fill says what goes with the request.
func newStepCmd(e *env, st step, fill func(*adminapi.StepRequest) error) *cobra.Command {
	name := string(st.verb)
	cmd := &cobra.Command{
		Use:     name + " ID...",
		Short:   st.short,
		Long:    st.long + "\n\nEach ID is a session's, as tree -o json and session show it. The sessions are\nprinted as they are then.",
		Example: "  sidecar " + name + " 0198c0de-7a11-7000-8000-000000000001" + st.more,
		Args:    takesSome("ID"),
	}
	from := steer(e, cmd)
	cmd.ValidArgsFunction = from.completeSessions(st.verb)
	cmd.RunE = func(cmd *cobra.Command, ids []string) error {
		client, err := from.steered()
		if err != nil {
			return err
		}
		var r adminapi.StepRequest
		if err := fill(&r); err != nil {
			return err
		}
		return e.takeSteps(cmd.Context(), client, st, r, ids)
	}
	return cmd
}

// takeSteps takes each session a step further, and prints what became of it.
// What fails with one does not keep the others from theirs, unless there is no
// answer at all.
func (e *env) takeSteps(ctx context.Context, client *adminapi.Client, st step, r adminapi.StepRequest, ids []string) error {
	done, errs := []lineage.Session{}, []error(nil)
	for _, id := range ids {
		s, err := client.Step(ctx, id, st.verb, r)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s session %s: %w", st.doing, id, err))
			if adminapi.StatusOf(err) == 0 {
				break
			}
			continue
		}
		done = append(done, s)
		if e.output == outputText {
			if err := e.print(e.outcome(&s)); err != nil {
				return err
			}
		}
	}
	if e.output == outputJSON {
		if err := e.printJSON(done); err != nil {
			return err
		}
	}
	if len(errs) == 0 {
		return nil
	}
	return &failure{error: errors.Join(errs...), code: worst(errs)}
}

// worst is how the program ends on several errors.
func worst(errs []error) int {
	for _, code := range []int{exitFailed, exitUsage, exitRefused} {
		if slices.ContainsFunc(errs, func(err error) bool { return exitCode(err) == code }) {
			return code
		}
	}
	return exitNotFound
}

// outcome is a line about a session that has been taken a step further.
func (e *env) outcome(s *lineage.Session) string {
	st := e.style()
	state := stateOf(s)
	if s.Ending != "" && s.Deadline != nil {
		state += " until " + st.clock(*s.Deadline, e.now())
	}
	var t table
	t.add(
		cell{text: clean(s.ID, st.ascii), sgr: dim},
		cell{text: clean(s.Branch, st.ascii)},
		cell{text: clean(state, st.ascii)},
	)
	return t.draw(st)
}

// readResult reads a result from a file, or from stdin if that is a dash.
func readResult(file string, stdin io.Reader) (*lineage.Result, error) {
	from := stdin
	if file != "-" {
		f, err := os.Open(file)
		if err != nil {
			return nil, fmt.Errorf("reading the result: %w", err)
		}
		defer func() { _ = f.Close() }() // it was only read
		from = f
	}
	text, err := io.ReadAll(io.LimitReader(from, maxResult+1))
	if err != nil {
		return nil, fmt.Errorf("reading the result: %w", err)
	}
	if len(text) > maxResult {
		return nil, fmt.Errorf("reading the result: %s is longer than %d bytes", file, maxResult)
	}
	var result lineage.Result
	if err := json.Unmarshal(text, &result, json.RejectUnknownMembers(true)); err != nil {
		return nil, &failure{
			error: fmt.Errorf("reading the result: %s is not what is wanted: %w", file, err), code: exitUsage,
			hint: `it is JSON such as {"summary": "…", "artifacts": [{"id": "…", "bytes": 3}], "memoryIds": ["…"]}`,
		}
	}
	return &result, nil
}

// Of how many trees, and of how many sessions in each, ids are offered.
const (
	offeredTrees    = 3
	offeredSessions = 200
)

// completeSessions offers the shell the sessions of the newest trees that allow
// the verb.
func (s *source) completeSessions(verb lineage.Verb) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
		defer cancel()
		client, err := s.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		page, err := client.Trees(ctx, adminapi.TreesQuery{Limit: offeredTrees})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		var ids []cobra.Completion
		for _, tree := range page.Trees {
			view, err := client.TreePart(ctx, tree.Root, adminapi.SessionsQuery{Limit: offeredSessions})
			if err != nil {
				return nil, cobra.ShellCompDirectiveError
			}
			for i := range view.Sessions {
				n := &view.Sessions[i].Session
				waits := slices.ContainsFunc(n.Runs, func(r lineage.Run) bool {
					return r.State == lineage.Suspended && r.Reason != lineage.ReasonRequested
				})
				if verb.Check(n, waits) == nil && !slices.Contains(args, n.ID) {
					ids = append(ids, cobra.CompletionWithDesc(n.ID, clean(n.Branch+", "+stateOf(n), false)))
				}
			}
		}
		return ids, cobra.ShellCompDirectiveNoFileComp
	}
}
