package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func newTreeCmd(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "tree ROOT",
		Short: "Draw one tree of sessions",
		Long: `tree draws the sessions that grew from one root context: one user
conversation over all agents.

ROOT is a root context id or enough of its beginning; latest, or a dash, is the
newest tree. A hollow mark stands beside an active session in which nothing
runs at the moment.`,
		Example: "  sidecar tree latest\n  sidecar tree conversation-42 -o json\n  sidecar tree 0198c0de --store sqlite:sidecar.db",
		Args:    takes("ROOT"),
	}
	from := lookAt(e, cmd)
	cmd.ValidArgsFunction = from.completeRoot
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		return from.withTree(cmd.Context(), args[0], func(v viewer, root string) error {
			view, err := v.Tree(cmd.Context(), root)
			if err != nil {
				return fmt.Errorf("reading the tree: %w", err)
			}
			if e.output == outputJSON {
				return e.printJSON(view)
			}
			flat := make([]lineage.Session, len(view.Sessions))
			for i := range view.Sessions {
				flat[i] = view.Sessions[i].Session
			}
			var b strings.Builder
			if err := drawTree(&b, flat, e.now(), e.style()); err != nil {
				return err
			}
			return e.print(b.String())
		})
	}
	return cmd
}
