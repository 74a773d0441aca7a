package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func newTreesCmd(e *env) *cobra.Command {
	var q adminapi.TreesQuery
	cmd := &cobra.Command{
		Use:   "trees",
		Short: "List the trees of sessions, newest first",
		Example: "  sidecar trees\n  sidecar trees --state active --agent worker\n" +
			"  sidecar trees --store sqlite:sidecar.db -o json",
		Args: takes(),
	}
	from := lookAt(e, cmd)
	cmd.Flags().StringVar(&q.State, "state", "", "only trees that are active or idle")
	cmd.Flags().StringVar(&q.Agent, "agent", "", "only trees in which this agent has a session")
	cmd.Flags().StringVar(&q.Text, "query", "", "only trees whose root context id has this in it")
	cmd.Flags().IntVar(&q.Limit, "limit", 50, "how many at most; 0 for all")
	complete(cmd, "state", lineage.TreeActive, lineage.TreeIdle)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if q.Limit < 0 {
			return usage("reading the command line: --limit is %d, not a number from 0", q.Limit)
		}
		v, done, err := from.open(cmd.Context())
		if err != nil {
			return err
		}
		defer done()
		page, err := listTrees(cmd.Context(), v, q)
		if err != nil {
			return fmt.Errorf("listing trees: %w", err)
		}
		if e.output == outputJSON {
			return e.printJSON(page)
		}
		if err := e.print(e.drawTrees(page.Trees)); err != nil {
			return err
		}
		switch {
		case len(page.Trees) == 0:
			e.tell("no trees")
		case page.Next != "":
			e.tell("there are more: --limit N shows so many, --limit 0 all")
		}
		return nil
	}
	return cmd
}

// listTrees reads pages until it has q.Limit trees, or all if that is 0.
func listTrees(ctx context.Context, v viewer, q adminapi.TreesQuery) (adminapi.TreePage, error) {
	all, limit := adminapi.TreePage{Trees: []lineage.Tree{}}, q.Limit
	for {
		q.Limit = adminapi.MaxPage
		if limit > 0 {
			q.Limit = min(q.Limit, limit-len(all.Trees))
		}
		page, err := v.Trees(ctx, q)
		if err != nil {
			return adminapi.TreePage{}, err
		}
		all.Trees, all.Next = append(all.Trees, page.Trees...), page.Next
		if page.Next == "" || limit > 0 && len(all.Trees) >= limit {
			return all, nil
		}
		q.Cursor = page.Next
	}
}

func (e *env) drawTrees(trees []lineage.Tree) string {
	if len(trees) == 0 {
		return ""
	}
	st, now := e.style(), e.now()
	var t table
	heads := []cell{
		{text: "ROOT"},
		{text: "STATE"},
		{text: "SESSIONS", right: true},
		{text: "LIVE", right: true},
		{text: "DEPTH", right: true},
		{text: "ERRORS", right: true},
		{text: "STARTED"},
		{text: "LAST", right: true},
		{text: "AGENTS"},
	}
	for i := range heads {
		heads[i].sgr = dim
	}
	t.add(heads...)
	for i := range trees {
		tree := &trees[i]
		state, errs := plain, plain
		if tree.State == lineage.TreeActive {
			state = cyan
		}
		if tree.Errors > 0 {
			errs = red
		}
		root := clean(tree.Root, st.ascii)
		if st.width > 0 {
			root = st.squeeze(root, max(st.width/3, 20))
		}
		t.add(
			cell{text: root, sgr: bold},
			cell{text: clean(tree.State, st.ascii), sgr: state},
			cell{text: strconv.Itoa(tree.Sessions), right: true},
			cell{text: strconv.Itoa(tree.Live), right: true},
			cell{text: strconv.Itoa(tree.Depth), right: true},
			cell{text: strconv.Itoa(tree.Errors), sgr: errs, right: true},
			cell{text: st.clock(tree.StartedAt, now)},
			cell{text: span(now.Sub(tree.LastEventAt)) + " ago", right: true},
			cell{text: clean(strings.Join(tree.Agents, ", "), st.ascii)},
		)
	}
	return t.draw(st)
}
