package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// drawnSessions is how many sessions of a tree are drawn unless more are asked
// for: what nobody reads need not be fetched.
const drawnSessions = 1000

func newTreeCmd(e *env) *cobra.Command {
	var limit int
	cmd := &cobra.Command{
		Use:   "tree ROOT",
		Short: "Draw one tree of sessions",
		Long: `tree draws the sessions that grew from one root context: one user
conversation over all agents.

ROOT is a root context id or enough of its beginning; latest, or a dash, is the
newest tree. A hollow mark stands beside an active session in which nothing
runs at the moment, and one that is reserved for its first call.`,
		Example: "  sidecar tree latest\n  sidecar tree conversation-42 -o json\n  sidecar tree 0198c0de --store sqlite:sidecar.db",
		Args:    takes("ROOT"),
	}
	from := lookAt(e, cmd)
	cmd.ValidArgsFunction = from.completeRoot
	cmd.Flags().IntVar(&limit, "limit", drawnSessions, "how many sessions at most, oldest first; 0 for all")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if limit < 0 {
			return usage("reading the command line: --limit is %d, not a number from 0", limit)
		}
		return from.withTree(cmd.Context(), args[0], func(v viewer, root string) error {
			view, err := adminapi.ReadTree(cmd.Context(), v.TreePart, root, limit)
			if err != nil {
				return fmt.Errorf("reading the tree: %w", err)
			}
			if e.output == outputJSON {
				err = e.printJSON(view)
			} else {
				err = e.printTree(&view)
			}
			if err != nil {
				return err
			}
			if more := view.Counts.Sessions - len(view.Sessions); view.Next != 0 && more > 0 {
				e.tell("there are " + plural(more, "session") + " more: --limit N shows so many, --limit 0 all")
			}
			return nil
		})
	}
	return cmd
}

// printTree draws view to standard output.
func (e *env) printTree(view *adminapi.TreeView) error {
	flat := make([]lineage.Session, len(view.Sessions))
	for i := range view.Sessions {
		flat[i] = view.Sessions[i].Session
	}
	var whole *adminapi.Counts
	if view.Next != 0 {
		whole = &view.Counts
	}
	var b strings.Builder
	if err := drawPart(&b, flat, whole, e.now(), e.style()); err != nil {
		return err
	}
	return e.print(b.String())
}
