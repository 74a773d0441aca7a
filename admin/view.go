package admin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// View answers the API's questions from a record, without HTTP: its methods
// are those of an [adminapi.Client]. It may be used concurrently if the reader
// may.
//
// What the asker got wrong, and what is not there, is an [*adminapi.Problem];
// any other error is the reader's.
type View struct {
	reader sessions.Reader
	limits func() adminapi.Limits // nil: unknown
}

// NewView returns a view of what reader reads. Limits may be nil: no caps are
// shown then.
func NewView(reader sessions.Reader, limits func() adminapi.Limits) *View {
	return &View{reader: reader, limits: limits}
}

// Trees lists trees, newest first.
func (v *View) Trees(ctx context.Context, q adminapi.TreesQuery) (adminapi.TreePage, error) {
	if err := oneOf("state", q.State, lineage.TreeActive, lineage.TreeIdle); err != nil {
		return adminapi.TreePage{}, err
	}
	if err := atMost("limit", q.Limit); err != nil {
		return adminapi.TreePage{}, err
	}
	page, err := v.reader.Trees(ctx, sessions.TreeQuery{
		State: q.State, Agent: q.Agent, Text: q.Text, Limit: q.Limit, Cursor: q.Cursor,
	})
	if errors.Is(err, sessions.ErrBadCursor) {
		return adminapi.TreePage{}, bad("cursor", q.Cursor, "is not the next of a page of trees")
	}
	if err != nil {
		return adminapi.TreePage{}, fmt.Errorf("listing trees: %w", err)
	}
	trees := orEmpty(page.Trees)
	for i := range trees {
		trees[i].Agents = orEmpty(trees[i].Agents)
	}
	return adminapi.TreePage{Trees: trees, Next: page.Next}, nil
}

// TreePart returns the tree with the root context id root and a page of its
// sessions, flat.
func (v *View) TreePart(ctx context.Context, root string, q adminapi.SessionsQuery) (adminapi.TreeView, error) {
	if err := atMost("limit", q.Limit); err != nil {
		return adminapi.TreeView{}, err
	}
	tree, err := v.reader.Tree(ctx, root)
	if err != nil {
		return adminapi.TreeView{}, readingTree(root, err)
	}
	page, err := v.reader.Sessions(ctx, root, sessions.SessionQuery{After: q.After, Limit: q.Limit})
	if err != nil {
		return adminapi.TreeView{}, readingTree(root, err)
	}
	for i := range page.Sessions {
		tidy(&page.Sessions[i])
	}
	view := adminapi.TreeView{Root: root, Sessions: adminapi.Flat(page.Sessions), Next: page.Next}
	if q.After == 0 && page.Next == 0 {
		view.Counts = count(page.Sessions, tree.Errors)
	} else {
		// The last event, whoever may see it: its number is how many there are.
		last, err := v.reader.Events(ctx, root, sessions.EventQuery{All: true, LastN: 1})
		if err != nil {
			return adminapi.TreeView{}, readingTree(root, err)
		}
		view.Counts = adminapi.Counts{
			Sessions: tree.Sessions, Live: tree.Live, Errors: tree.Errors, Depth: tree.Depth, Events: last.Next,
		}
	}
	if v.limits != nil {
		view.Limits = new(v.limits())
	}
	return view, nil
}

// count counts the sessions of a whole tree. These are one look at the tree,
// its summary another: where all sessions are shown, the counts must be theirs.
func count(all []lineage.Session, errs int) adminapi.Counts {
	counts := adminapi.Counts{Sessions: len(all), Errors: errs}
	for i := range all {
		s := &all[i]
		if s.Kind != lineage.Main && s.Live() {
			counts.Live++
		}
		counts.Depth = max(counts.Depth, s.Depth)
		counts.Events = max(counts.Events, s.Version) // every event is some session's, and numbers are dense
	}
	return counts
}

// nest returns view with every session inside its parent.
func nest(view adminapi.TreeView) adminapi.TreeView {
	flat := make([]lineage.Session, len(view.Sessions))
	for i := range view.Sessions {
		flat[i] = view.Sessions[i].Session
	}
	view.Sessions = adminapi.Nest(flat)
	return view
}

// Events returns a page of the log of the tree root, as much of it as q.As may
// see. A viewer is required: nobody sees everything by leaving it out.
func (v *View) Events(ctx context.Context, root string, q adminapi.EventsQuery) (adminapi.EventPage, error) {
	if err := checkEvents(q); err != nil {
		return adminapi.EventPage{}, err
	}
	eq := sessions.EventQuery{After: q.After, Limit: q.Limit, LastN: q.LastN, Types: q.Types}
	if q.As == adminapi.AsAll {
		eq.All = true
	} else {
		viewer, err := v.find(ctx, root, q.As)
		if err != nil {
			return adminapi.EventPage{}, err
		}
		eq.Read = viewer.Read
	}
	if q.Session != "" {
		s, err := v.find(ctx, root, q.Session)
		if err != nil {
			return adminapi.EventPage{}, err
		}
		eq.Session = s.ID
	}
	page, err := v.reader.Events(ctx, root, eq)
	if err != nil {
		return adminapi.EventPage{}, readingTree(root, err)
	}
	events := orEmpty(page.Events)
	for i := range events {
		if len(events[i].Payload) == 0 {
			events[i].Payload = json.RawMessage("{}")
		}
	}
	return adminapi.EventPage{Events: events, Next: page.Next}, nil
}

// checkEvents returns what is wrong with q, nil if nothing is.
func checkEvents(q adminapi.EventsQuery) error {
	if q.As == "" {
		return adminapi.NewProblem(http.StatusBadRequest, "as is missing: say who looks, by a session id or a branch label, or all for the whole log")
	}
	if q.LastN != 0 && (q.After != 0 || q.Limit != 0) {
		return notTogether("lastN", "after", "limit")
	}
	if err := atMost("limit", q.Limit); err != nil {
		return err
	}
	if err := atMost("lastN", q.LastN); err != nil {
		return err
	}
	if q.AcrossTurns == adminapi.AcrossTurnsVisible {
		return bad("acrossTurns", q.AcrossTurns, "is not available in this version")
	}
	return oneOf("acrossTurns", q.AcrossTurns, adminapi.AcrossTurnsFiltered, adminapi.AcrossTurnsVisible)
}

// find returns the session of the tree root that name names, by id or by
// branch label.
func (v *View) find(ctx context.Context, root, name string) (lineage.Session, error) {
	s, err := v.reader.Session(ctx, name)
	if err == nil && s.Tree == root {
		return s, nil
	}
	if err != nil && !errors.Is(err, sessions.ErrNotFound) {
		return lineage.Session{}, fmt.Errorf("reading session %q: %w", name, err)
	}
	var q sessions.SessionQuery
	for {
		page, err := v.reader.Sessions(ctx, root, q)
		if err != nil {
			return lineage.Session{}, readingTree(root, err)
		}
		for i := range page.Sessions {
			if page.Sessions[i].Branch == name {
				return page.Sessions[i], nil
			}
		}
		if q.After = page.Next; q.After == 0 {
			break
		}
	}
	return lineage.Session{}, adminapi.NewProblem(http.StatusNotFound, "tree %q has no session with the id or branch %q", root, name)
}

// Session returns the session with the given id.
func (v *View) Session(ctx context.Context, id string) (lineage.Session, error) {
	s, err := v.reader.Session(ctx, id)
	if errors.Is(err, sessions.ErrNotFound) {
		return lineage.Session{}, noSession(id)
	}
	if err != nil {
		return lineage.Session{}, fmt.Errorf("reading session %q: %w", id, err)
	}
	tidy(&s)
	return s, nil
}

func noSession(id string) error {
	return adminapi.NewProblem(http.StatusNotFound, "there is no session with the id %q", id)
}

func readingTree(root string, err error) error {
	if errors.Is(err, sessions.ErrNotFound) {
		return adminapi.NewProblem(http.StatusNotFound, "there is no tree with the root context id %q", root)
	}
	return fmt.Errorf("reading tree %q: %w", root, err)
}

// tidy makes s say [] where it has none, so that readers need not know null.
func tidy(s *lineage.Session) { s.Runs = orEmpty(s.Runs) }

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}
