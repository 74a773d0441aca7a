package storetest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// dump is all that can be read of one tree.
type dump struct {
	Tree     lineage.Tree
	Sessions []lineage.Session
	Log      []lineage.Event
}

func read(ctx context.Context, r sessions.Reader, root string) (*dump, error) {
	var d dump
	var err error
	if d.Tree, err = r.Tree(ctx, root); err != nil {
		return nil, err
	}
	if d.Sessions, err = sessions.AllSessions(ctx, r, root); err != nil {
		return nil, err
	}
	q := sessions.EventQuery{All: true, Limit: sessions.MaxPage}
	for {
		page, err := r.Events(ctx, root, q)
		if err != nil {
			return nil, err
		}
		d.Log = append(d.Log, page.Events...)
		if len(page.Events) < q.Limit { // nothing is left out: the last page
			return &d, nil
		}
		q.After = page.Next
	}
}

// Consistent returns what is wrong with a store's trees, whatever happened in
// them: above all, that the state of one is not what its log tells.
func Consistent(ctx context.Context, r sessions.Reader) error {
	var q sessions.TreeQuery
	for {
		page, err := r.Trees(ctx, q)
		if err != nil {
			return err
		}
		for _, tree := range page.Trees {
			d, err := read(ctx, r, tree.Root)
			if err == nil {
				err = d.consistent(ctx, r)
			}
			if err != nil {
				return fmt.Errorf("tree %s: %w", tree.Root, err)
			}
		}
		if q.Cursor = page.Next; q.Cursor == "" {
			return nil
		}
	}
}

func (w *world) dump(root string) *dump {
	w.Helper()
	d, err := read(w.Context(), w.store, root)
	if err != nil {
		w.Fatalf("reading tree %s: %v", root, err)
	}
	return d
}

// consistent checks all trees of the case against what always holds.
func (w *world) consistent() {
	w.Helper()
	for _, root := range append([]string{w.root}, w.extra...) {
		d, err := read(w.Context(), w.store, root)
		if errors.Is(err, sessions.ErrNotFound) {
			continue // the case made no tree
		}
		if err != nil {
			w.Fatalf("reading tree %s: %v", root, err)
		}
		if err := d.consistent(w.Context(), w.store); err != nil {
			w.Errorf("tree %s: %v", root, err)
		}
	}
}

// consistent returns what is wrong in a tree whatever happened in it.
func (d *dump) consistent(ctx context.Context, r sessions.Reader) error {
	if err := d.balanced(); err != nil {
		return err
	}
	for _, want := range d.Sessions {
		got, err := r.Session(ctx, want.ID)
		if err != nil {
			return fmt.Errorf("Session(%s): %w", want.ID, err)
		}
		if diff := diff(want, got); diff != "" {
			return fmt.Errorf("Session(%s) is not the one of Sessions (-Sessions +Session):\n%s", want.ID, diff)
		}
	}
	return nil
}

// balanced returns what is wrong in what was read of a tree.
func (d *dump) balanced() error {
	root := d.Tree.Root
	if diff := diff(shown(sessions.Project(root, d.Log)), told(d.Sessions)); diff != "" {
		return fmt.Errorf("its state is not what its log tells (-Project +Sessions):\n%s", diff)
	}
	for _, check := range []func() error{d.logIsSound, d.spawnsAreSound, d.endsAreSound, d.summaryIsRight} {
		if err := check(); err != nil {
			return err
		}
	}
	return nil
}

// told are sessions without what no event tells.
func told(all []lineage.Session) []lineage.Session {
	all = slices.Clone(all)
	for i := range all {
		s := &all[i]
		s.Owner, s.Deadline = "", nil
		s.UpdatedAt = s.CreatedAt
	}
	return all
}

// shown are sessions as a reader shows them, as far as events tell it: with
// their newest runs.
func shown(all []lineage.Session) []lineage.Session {
	all = told(all)
	for i := range all {
		all[i].Runs = all[i].Runs[max(0, len(all[i].Runs)-sessions.MaxRuns):]
	}
	return all
}

func (d *dump) session(id string) *lineage.Session {
	for i := range d.Sessions {
		if d.Sessions[i].ID == id {
			return &d.Sessions[i]
		}
	}
	return nil
}

func (d *dump) logIsSound() error {
	ids := map[string]bool{}
	for i, e := range d.Log {
		switch s := d.session(e.Session); {
		case e.Seq != uint64(i)+1:
			return fmt.Errorf("event %d has seq %d", i+1, e.Seq)
		case ids[e.ID]:
			return fmt.Errorf("event %d: id %s is there twice", e.Seq, e.ID)
		case i > 0 && e.Time.Before(d.Log[i-1].Time):
			return fmt.Errorf("event %d of %s is before its predecessor of %s", e.Seq, e.Time, d.Log[i-1].Time)
		case s == nil:
			return fmt.Errorf("event %d is of session %s, which is not there", e.Seq, e.Session)
		case e.Branch != s.Branch || !slices.Equal(e.Tokens, s.Tokens):
			return fmt.Errorf("event %d bears %s %v, its session %s %v", e.Seq, e.Branch, e.Tokens, s.Branch, s.Tokens)
		}
		ids[e.ID] = true
	}
	for _, s := range d.Sessions {
		if last := d.Log[s.Version-1]; last.Session != s.ID || !last.Time.Equal(s.UpdatedAt) {
			return fmt.Errorf("session %s was updated at %s with event %d, which is of %s at %s",
				s.ID, s.UpdatedAt, s.Version, last.Session, last.Time)
		}
	}
	return nil
}

func (d *dump) spawnsAreSound() error {
	children := map[string]int{}
	tokens := map[string]bool{}
	for i, s := range d.Sessions {
		key := s.Tokens.String()
		if tokens[key] {
			return fmt.Errorf("session %s: another has the tokens %s", s.ID, key)
		}
		tokens[key] = true
		if s.Tree != d.Tree.Root {
			return fmt.Errorf("session %s is of tree %s", s.ID, s.Tree)
		}
		if i == 0 {
			if s.Kind != lineage.Main || s.Edge != lineage.EdgeRoot || s.Depth != 0 || s.Parent != "" || key != "" {
				return fmt.Errorf("the first session is no root: %+v", s)
			}
			continue
		}
		parent := d.session(s.Parent)
		if parent == nil {
			return fmt.Errorf("session %s has no parent %s", s.ID, s.Parent)
		}
		children[s.Parent]++
		if s.Ordinal != children[s.Parent] || s.Branch != lineage.Label(parent.Branch, s.Agent, s.Ordinal) {
			return fmt.Errorf("session %s is number %d of its parent, and has ordinal %d and label %s under %s",
				s.ID, children[s.Parent], s.Ordinal, s.Branch, parent.Branch)
		}
		if !s.Remote && s.Depth != parent.Depth+1 {
			return fmt.Errorf("session %s has depth %d, its parent %d", s.ID, s.Depth, parent.Depth)
		}
	}
	return nil
}

// endsAreSound: whoever is to end has a time until when, and nothing goes on
// below what has ended but what was given leave to, or was begun after that: by
// a caller of its own, who goes on.
func (d *dump) endsAreSound() error {
	for _, s := range d.Sessions {
		switch parent := d.session(s.Parent); {
		case s.Ending != "" && s.Deadline == nil:
			return fmt.Errorf("session %s is being ended (%s), and has for ever to", s.ID, s.Ending)
		case s.State.Terminal() && s.Reserved:
			return fmt.Errorf("session %s has ended, and is reserved", s.ID)
		case s.State.Terminal() && s.Ending != "" && len(openRuns(s)) == 0:
			return fmt.Errorf("session %s has ended, and is ending (%s) with nothing open in it", s.ID, s.Ending)
		case s.Reserved && len(s.Runs) > 0:
			return fmt.Errorf("session %s is reserved for its first run, and has %d", s.ID, len(s.Runs))
		case s.Ending != "" || s.Abandon || parent == nil || !parent.State.Terminal():
		case !s.State.Terminal():
			return fmt.Errorf("session %s goes on below %s, which has ended", s.ID, parent.ID)
		default:
			for _, run := range openRuns(s) {
				if d.opened(run) < d.ended(parent.ID) {
					return fmt.Errorf("run %s in session %s goes on below %s, which has ended since", run, s.ID, parent.ID)
				}
			}
		}
	}
	return nil
}

// openRuns are the ids of the runs that are open in s.
func openRuns(s lineage.Session) []string {
	var open []string
	for _, r := range s.Runs {
		if r.State == lineage.Active {
			open = append(open, r.ID)
		}
	}
	return open
}

// opened is the number of the event that opened a run.
func (d *dump) opened(run string) uint64 {
	for _, e := range d.Log {
		var sent sessions.SentPayload
		if e.Type == lineage.EventSent && json.Unmarshal(e.Payload, &sent) == nil && sent.Run == run {
			return e.Seq
		}
	}
	return 0
}

// ended is the number of the event that ended a session: the last, should its
// loss have been corrected.
func (d *dump) ended(session string) uint64 {
	for _, e := range slices.Backward(d.Log) {
		switch e.Type {
		case lineage.EventCompleted, lineage.EventFailed, lineage.EventExpired:
			if e.Session == session {
				return e.Seq
			}
		}
	}
	return 0
}

func (d *dump) summaryIsRight() error {
	want := lineage.Tree{
		Root: d.Tree.Root, CatchAll: d.Tree.CatchAll, State: lineage.TreeIdle, Sessions: len(d.Sessions),
		StartedAt: d.Log[0].Time, LastEventAt: d.Log[len(d.Log)-1].Time,
	}
	for i := range d.Sessions {
		s := &d.Sessions[i]
		if s.Kind != lineage.Main && s.Live() {
			want.Live++
			want.State = lineage.TreeActive
		}
		want.Depth = max(want.Depth, s.Depth)
		want.Agents = append(want.Agents, s.Agent)
		for _, r := range s.Runs {
			if r.State == lineage.Failed {
				want.Errors++
			}
		}
	}
	slices.Sort(want.Agents)
	want.Agents = slices.Compact(want.Agents)
	if d := diff(want, d.Tree); d != "" {
		return fmt.Errorf("its summary does not sum up its sessions (-want +Tree):\n%s", d)
	}
	return nil
}

// diff is what differs between two values, JSON compared by its meaning. Most
// are equal to the byte as JSON, which takes a tenth of the time to find out.
func diff(want, got any) string {
	a, errWant := json.Marshal(want)
	b, errGot := json.Marshal(got)
	if errWant == nil && errGot == nil && bytes.Equal(a, b) {
		return ""
	}
	return cmp.Diff(want, got, sameMeaning...)
}

var sameMeaning = cmp.Options{
	cmpopts.EquateEmpty(),
	cmp.Transformer("event", func(e lineage.Event) eventView {
		return eventView{e.Seq, e.ID, e.Time.UTC().String(), e.Type, e.Session, e.Branch, e.Tokens.String(), e.Turn, e.TraceID, meaning(e)}
	}),
	cmp.FilterValues(func(a, b json.RawMessage) bool { return len(a) > 0 || len(b) > 0 }, // else EquateEmpty's
		cmp.Transformer("json", func(raw json.RawMessage) any { return decode(raw) })),
}

type eventView struct {
	Seq                                                    uint64
	ID, Time, Type, Session, Branch, Tokens, Turn, TraceID string
	Payload                                                any
}

// meaning is the payload of e: as its type where a store writes it, so that
// members left out and empty ones are the same.
func meaning(e lineage.Event) any {
	switch e.Type {
	case lineage.EventSpawned:
		return into[sessions.SpawnPayload](e)
	case lineage.EventSuspended, lineage.EventResumed:
		return into[sessions.RunPayload](e)
	case lineage.EventBound:
		return into[sessions.BoundPayload](e)
	case lineage.EventRunEnded, lineage.EventCompleted, lineage.EventFailed, lineage.EventExpired:
		return into[sessions.EndPayload](e)
	case lineage.EventCancel:
		return into[sessions.CancelPayload](e)
	case lineage.EventResult:
		return into[resultPayload](e)
	default:
		return decode(e.Payload)
	}
}

// resultPayload is [sessions.ResultPayload] with a result that may be spelled as
// it came or as it was understood.
type resultPayload struct {
	Session string          `json:"session"`
	Agent   string          `json:"agent"`
	State   lineage.State   `json:"state"`
	Reason  string          `json:"reason"`
	Result  *lineage.Result `json:"result"`
}

func into[T any](e lineage.Event) any {
	var v T
	dec := json.NewDecoder(bytes.NewReader(e.Payload))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&v); err != nil {
		return fmt.Sprintf("no %T: %v in %s", v, err, e.Payload)
	}
	return v
}

// decode keeps numbers as they are spelled.
func decode(raw []byte) any {
	if len(raw) == 0 {
		return nil
	}
	var v any
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return fmt.Sprintf("no JSON: %v in %s", err, raw)
	}
	return v
}
