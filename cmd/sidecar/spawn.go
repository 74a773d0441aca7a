package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func newSpawnCmd(e *env) *cobra.Command {
	var r adminapi.SpawnRequest
	var kind, inherit string
	var ttl time.Duration
	var isolate bool
	cmd := &cobra.Command{
		Use:   "spawn ROOT AGENT",
		Short: "Make a session ahead of the first call to it",
		Long: `spawn makes a session at an agent before anything is sent to it, and prints it.
The first call to the agent that names the session's context runs in it; until
then the session holds a place among its parent's children, for as long as its
time to live.

ROOT is a whole root context id, whose tree is made if it is not there; latest,
or a dash, is the newest tree. What no flag says is as the agent's configuration
says.`,
		Example: `  sidecar spawn conversation-42 worker --request-id step-7
  sidecar spawn latest worker --kind worker --ttl 2m --summary 'They want it by Friday.'
  sidecar spawn latest helper --parent 0198c0de-7a11-7000-8000-000000000001 -o json`,
		Args: takes("ROOT", "AGENT"),
	}
	from := steer(e, cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.Parent, "parent", "", "id of the session that it hangs under (default: the root)")
	flags.StringVar(&kind, "kind", "", "branch or worker")
	flags.DurationVar(&ttl, "ttl", 0, "time to live, such as 5m")
	flags.StringVar(&inherit, "inherit", "", "what it may read of its parent's history: full, summary or none")
	flags.StringVar(&r.ContextSummary, "summary", "", "what it may know of its parent's history, as its first event")
	flags.BoolVar(&isolate, "isolate", false, "end it with its first call (--isolate=false: it goes on, for calls that name its context at an agent without isolateSessions)")
	flags.StringVar(&r.RequestID, "request-id", "", "name of this request: the same again finds the same session")
	flags.StringVar(&r.User, "user", "", "whose tree it is, as x-user-id says it in calls, if it must be made")
	complete(cmd, "kind", string(lineage.Branch), string(lineage.Worker))
	complete(cmd, "inherit", string(lineage.InheritFull), string(lineage.InheritSummary), string(lineage.InheritNone))
	cmd.ValidArgsFunction = from.completeSpawn
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		client, err := from.steered()
		if err != nil {
			return err
		}
		r.Kind, r.Inherit = lineage.Kind(kind), lineage.Inherit(inherit)
		if flags.Changed("ttl") {
			r.TTL = new(adminapi.Duration(ttl))
		}
		if flags.Changed("isolate") {
			r.Isolate = &isolate
		}
		r.Root, r.Agent = args[0], args[1]
		if r.Root == newest || r.Root == "-" {
			if r.Root, err = findRoot(cmd.Context(), client, newest); err != nil {
				return err
			}
		}
		s, _, err := client.Spawn(cmd.Context(), r)
		if err != nil {
			return fmt.Errorf("spawning a session: %w", err)
		}
		if e.output == outputJSON {
			return e.printJSON(s)
		}
		return e.print(describeSession(&s, e.now(), e.style()))
	}
	return cmd
}

// completeSpawn offers the newest trees to the shell, then the agents of the
// one that was chosen.
func (s *source) completeSpawn(cmd *cobra.Command, args []string, begun string) ([]cobra.Completion, cobra.ShellCompDirective) {
	if len(args) != 1 {
		return s.completeRoot(cmd, args, begun)
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), completeTime)
	defer cancel()
	client, err := s.client()
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	page, err := client.Trees(ctx, adminapi.TreesQuery{})
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []cobra.Completion
	for i := range page.Trees {
		tree := &page.Trees[i]
		if args[0] != newest && tree.Root != args[0] {
			continue
		}
		for _, agent := range tree.Agents {
			if !slices.Contains(names, agent) {
				names = append(names, agent)
			}
		}
		break
	}
	return names, cobra.ShellCompDirectiveNoFileComp
}
