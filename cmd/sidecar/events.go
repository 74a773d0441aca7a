package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

const (
	// followTime is the pause between two looks of --follow.
	followTime = 500 * time.Millisecond
	// eventsPage is how many events are asked for at once.
	eventsPage = 500
)

func newEventsCmd(e *env) *cobra.Command {
	var q adminapi.EventsQuery
	var keepOn bool
	cmd := &cobra.Command{
		Use:   "events ROOT",
		Short: "Print the log of one tree",
		Long: `events prints what happened in a tree, oldest first, a line for each event:
its number, time, branch and type, and what its payload comes to.

ROOT is as for tree. With -o json the output is one document, as the admin API
gives it; with --follow it is one event on each line.`,
		Example: "  sidecar events latest\n  sidecar events latest --follow\n" +
			"  sidecar events conversation-42 --as coordinator.worker@1 --last 20\n" +
			"  sidecar events latest --type session.failed,run.refused -o json",
		Args: takes("ROOT"),
	}
	from := lookAt(e, cmd)
	cmd.ValidArgsFunction = from.completeRoot
	flags := cmd.Flags()
	flags.StringVar(&q.As, "as", adminapi.AsAll, "whose view: a session id, a branch, or all for the whole log")
	flags.Uint64Var(&q.After, "after", 0, "only events with a greater number")
	flags.IntVar(&q.Limit, "limit", 0, "how many at most; 0 for all")
	flags.StringSliceVar(&q.Types, "type", nil, "only events of these types")
	flags.StringVar(&q.Session, "session", "", "only events of this session, by id or branch")
	flags.IntVar(&q.LastN, "last", 0, "only the last N")
	flags.BoolVarP(&keepOn, "follow", "f", false, "go on with what is new, until interrupted")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given, ctx := flags.Changed, cmd.Context()
		switch {
		case given("last") && (given("after") || given("limit")):
			return usage("reading the command line: --last does not go together with --after or --limit")
		case keepOn && given("limit"):
			return usage("reading the command line: --follow does not go together with --limit")
		case given("last") && (q.LastN < 1 || q.LastN > adminapi.MaxPage):
			return usage("reading the command line: --last is %d, not 1 to %d", q.LastN, adminapi.MaxPage)
		case q.Limit < 0:
			return usage("reading the command line: --limit is %d, not a number from 0", q.Limit)
		}
		return from.withTree(ctx, args[0], func(v viewer, root string) error {
			l := &treeLog{viewer: v, root: root, query: q, limit: q.Limit}
			p := &eventPrinter{env: e, style: e.style()}
			switch {
			case keepOn:
				tick := time.NewTicker(followTime)
				defer tick.Stop()
				return l.follow(ctx, tick.C, p.print)
			case e.output == outputJSON:
				return p.printDocument(ctx, l)
			default:
				return l.read(ctx, p.print)
			}
		})
	}
	return cmd
}

// treeLog reads the log of a tree, page by page.
type treeLog struct {
	viewer viewer
	root   string
	query  adminapi.EventsQuery // After and LastN move on
	limit  int                  // events that are still to be read; 0: no bound
}

// next reads a page. More reports whether there may be another.
func (l *treeLog) next(ctx context.Context) (events []lineage.Event, more bool, err error) {
	q := l.query
	if q.LastN == 0 {
		q.Limit = eventsPage
		if l.limit > 0 {
			q.Limit = min(q.Limit, l.limit)
		}
	}
	page, err := l.viewer.Events(ctx, l.root, q)
	if err != nil {
		return nil, false, fmt.Errorf("reading events: %w", err)
	}
	// A page may be short, or empty, though the log goes on: only one that
	// leads no further is the last.
	more = q.LastN == 0 && page.Next > q.After
	l.query.After, l.query.LastN = max(page.Next, q.After), 0
	if l.limit > 0 {
		l.limit -= len(page.Events)
		more = more && l.limit > 0
	}
	return page.Events, more, nil
}

// read hands what there is to do, page by page.
func (l *treeLog) read(ctx context.Context, do func([]lineage.Event) error) error {
	for {
		events, more, err := l.next(ctx)
		if err != nil {
			return err
		}
		if err := do(events); err != nil {
			return err
		}
		if !more {
			return nil
		}
	}
}

// follow does the same, and at every tick again, until ctx ends.
func (l *treeLog) follow(ctx context.Context, tick <-chan time.Time, do func([]lineage.Event) error) error {
	for {
		if err := l.read(ctx, do); err != nil {
			if ctx.Err() != nil {
				return nil // interrupted, as it should be
			}
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick:
		}
	}
}

// eventPrinter prints events as they come, a line each.
type eventPrinter struct {
	*env
	style  style
	branch int // columns of the widest branch so far
}

func (p *eventPrinter) print(events []lineage.Event) error {
	if p.output != outputJSON {
		for i := range events {
			p.branch = max(p.branch, columns(clean(events[i].Branch, p.style.ascii)))
		}
		return p.env.print(p.draw(events))
	}
	var b strings.Builder
	for i := range events {
		line, err := encodeJSON(&events[i], "")
		if err != nil {
			return err
		}
		b.WriteString(line)
	}
	return p.env.print(b.String())
}

// printDocument prints all events as one page.
func (p *eventPrinter) printDocument(ctx context.Context, l *treeLog) error {
	all := adminapi.EventPage{Events: []lineage.Event{}}
	err := l.read(ctx, func(events []lineage.Event) error {
		all.Events = append(all.Events, events...)
		return nil
	})
	if err != nil {
		return err
	}
	all.Next = l.query.After
	return p.printJSON(all)
}

// Columns that events of one log share, whatever page they come on.
const (
	seqColumns  = 5
	typeColumns = 17 // session.completed and most others
	minDigest   = 24
)

// draw returns a line for each event. Pages are aligned with each other, since
// what follows is not known yet.
func (p *eventPrinter) draw(events []lineage.Event) string {
	var b strings.Builder
	for i := range events {
		b.WriteString(p.line(&events[i]))
	}
	return b.String()
}

func (p *eventPrinter) line(e *lineage.Event) string {
	st := p.style
	row := table{}
	row.add(
		cell{text: pad(strconv.FormatUint(e.Seq, 10), -seqColumns), sgr: dim},
		cell{text: st.clock(e.Time, p.now()) + st.local(e.Time).Format(".000"), sgr: dim},
		cell{text: pad(clean(e.Branch, st.ascii), p.branch)},
		cell{text: pad(clean(e.Type, st.ascii), typeColumns), sgr: eventColour(e.Type)},
	)
	room := 0
	if st.width > 0 {
		room = max(st.width-row.columns()-len(gap), minDigest)
	}
	row.rows[0] = append(row.rows[0], cell{text: digest(e.Payload, room, st)})
	return row.draw(st)
}

// pad fills text up to n columns, on its left if n is negative.
func pad(text string, n int) string {
	if n < 0 {
		return fmt.Sprintf("%*s", -n, text)
	}
	return text + fmt.Sprintf("%*s", max(n-columns(text), 0), "")
}

func eventColour(kind string) string {
	switch kind {
	case lineage.EventFailed, lineage.EventRefused, lineage.EventExpired:
		return red
	case lineage.EventCrossed, lineage.EventCollapsed, lineage.EventQueued, lineage.EventSuspended, lineage.EventCancel:
		return yellow
	case lineage.EventCompleted:
		return green
	case lineage.EventSpawned:
		return cyan
	default:
		return plain
	}
}
