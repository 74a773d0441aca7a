package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// fake is a viewer of trees by name and of one log, in pages as small as it
// likes.
type fake struct {
	viewer
	roots []string // newest first
	page  int      // trees, or numbers of the log, that it looks at in one go; 0: all
	log   []lineage.Event
	err   error
	asked []adminapi.EventsQuery
	lists int // how many pages of trees it was asked for
}

func (f *fake) TreePart(_ context.Context, root string, _ adminapi.SessionsQuery) (adminapi.TreeView, error) {
	if f.err != nil {
		return adminapi.TreeView{}, f.err
	}
	if !slices.Contains(f.roots, root) {
		return adminapi.TreeView{}, adminapi.NewProblem(http.StatusNotFound, "no tree %q", root)
	}
	return adminapi.TreeView{Root: root}, nil
}

func (f *fake) Trees(_ context.Context, q adminapi.TreesQuery) (adminapi.TreePage, error) {
	f.lists++
	if f.err != nil {
		return adminapi.TreePage{}, f.err
	}
	from := 0
	if q.Cursor != "" {
		from = slices.Index(f.roots, q.Cursor) + 1
	}
	page := adminapi.TreePage{}
	for i, root := range f.roots[from:] {
		if len(page.Trees) == q.Limit || f.page > 0 && i == f.page {
			page.Next = f.roots[from+i-1]
			break
		}
		if strings.Contains(root, q.Text) {
			page.Trees = append(page.Trees, lineage.Tree{Root: root})
		}
	}
	return page, nil
}

func (f *fake) Events(_ context.Context, _ string, q adminapi.EventsQuery) (adminapi.EventPage, error) {
	f.asked = append(f.asked, q)
	if f.err != nil {
		return adminapi.EventPage{}, f.err
	}
	page := adminapi.EventPage{Next: q.After}
	for _, e := range f.log {
		if e.Seq <= q.After {
			continue
		}
		if q.Limit > 0 && len(page.Events) == q.Limit || f.page > 0 && e.Seq > q.After+uint64(f.page) {
			return page, nil
		}
		page.Next = e.Seq
		if len(q.Types) == 0 || slices.Contains(q.Types, e.Type) {
			page.Events = append(page.Events, e)
		}
	}
	if q.LastN > 0 {
		page.Events = page.Events[max(0, len(page.Events)-q.LastN):]
	}
	return page, nil
}

func TestFindRoot(t *testing.T) {
	t.Parallel()
	v := &fake{roots: []string{"zeta", "alpha-2", "alpha", "alpha-1", "beta", "a/b", "in-beta"}, page: 2}
	for _, tt := range []struct {
		name, want string
		code       int
	}{
		{"latest", "zeta", exitDone},
		{"-", "zeta", exitDone},
		{"beta", "beta", exitDone},
		{"alpha", "alpha", exitDone}, // itself, though others begin with it
		{"b", "beta", exitDone},
		{"a/", "a/b", exitDone},
		{"alpha-", "", exitUsage},
		{"gamma", "", exitNotFound},
		{"eta", "", exitNotFound}, // within, not at the beginning
	} {
		got, err := findRoot(t.Context(), v, tt.name)
		code := exitDone
		if err != nil {
			code = exitCode(err)
		}
		if got != tt.want || code != tt.code {
			t.Errorf("findRoot(%q) = %q, %v (exit %d), want %q, exit %d", tt.name, got, err, code, tt.want, tt.code)
		}
	}
	v.lists = 0
	if _, err := findRoot(t.Context(), v, "in-beta"); err != nil || v.lists != 0 {
		t.Errorf("findRoot(in-beta) = %v and listed trees %d times, want a whole id to be looked up at once", err, v.lists)
	}
	if _, err := findRoot(t.Context(), v, "alpha-"); err == nil || !strings.Contains(hintFor(err), "alpha-2, alpha-1") {
		t.Errorf("findRoot(alpha-) = %v, hint %q, want a hint that names both", err, hintFor(err))
	}
	if _, err := findRoot(t.Context(), &fake{}, "latest"); exitCode(err) != exitNotFound {
		t.Errorf("findRoot(latest) of nothing = %v, want exit %d", err, exitNotFound)
	}
	for _, name := range []string{"latest", "beta"} {
		if _, err := findRoot(t.Context(), &fake{err: errBroken}, name); !errors.Is(err, errBroken) {
			t.Errorf("findRoot(%s) of a broken viewer = %v, want its error", name, err)
		}
	}
}

func TestListTrees(t *testing.T) {
	t.Parallel()
	v := &fake{roots: []string{"a", "b", "c", "d", "e"}, page: 2}
	for _, tt := range []struct {
		limit int
		want  string
		next  string
	}{
		{0, "abcde", ""},
		{1, "a", "a"},
		{3, "abc", "c"},
		{5, "abcde", ""},
		{9, "abcde", ""},
	} {
		got, err := listTrees(t.Context(), v, adminapi.TreesQuery{Limit: tt.limit})
		if err != nil {
			t.Fatal(err)
		}
		var roots string
		for _, tree := range got.Trees {
			roots += tree.Root
		}
		if roots != tt.want || got.Next != tt.next {
			t.Errorf("listTrees(%d) = %s next %q, want %s next %q", tt.limit, roots, got.Next, tt.want, tt.next)
		}
	}
}

func logOf(n int) []lineage.Event {
	events := make([]lineage.Event, n)
	for i := range events {
		events[i] = lineage.Event{Seq: uint64(i + 1), Type: "odd"}
		if i%2 == 1 {
			events[i].Type = "even"
		}
	}
	return events
}

// readAll reads a log to its end and returns the numbers of its events.
func readAll(t *testing.T, l *treeLog) (seqs []uint64) {
	t.Helper()
	err := l.read(t.Context(), func(events []lineage.Event) error {
		for _, e := range events {
			seqs = append(seqs, e.Seq)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

// A page that is short or empty is not the end of a log.
func TestReadLog(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		page  int
		query adminapi.EventsQuery
		limit int
		want  []uint64
	}{
		{"all", 0, adminapi.EventsQuery{}, 0, []uint64{1, 2, 3, 4, 5}},
		{"page by page", 2, adminapi.EventsQuery{}, 0, []uint64{1, 2, 3, 4, 5}},
		{"empty pages between", 1, adminapi.EventsQuery{Types: []string{"even"}}, 0, []uint64{2, 4}},
		{"after", 2, adminapi.EventsQuery{After: 3}, 0, []uint64{4, 5}},
		{"limit", 2, adminapi.EventsQuery{}, 3, []uint64{1, 2, 3}},
		{"limit over empty pages", 1, adminapi.EventsQuery{Types: []string{"even"}}, 2, []uint64{2, 4}},
		{"last", 0, adminapi.EventsQuery{LastN: 2}, 0, []uint64{4, 5}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			v := &fake{log: logOf(5), page: tt.page}
			got := readAll(t, &treeLog{viewer: v, root: "r", query: tt.query, limit: tt.limit})
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("read() (-want +got):\n%s", diff)
			}
			for _, q := range v.asked {
				if q.LastN == 0 && (q.Limit < 1 || q.Limit > eventsPage) {
					t.Errorf("read() asked for %d events at once, want 1 to %d", q.Limit, eventsPage)
				}
			}
		})
	}
}

// Following prints what is there, then at each tick what is new, once.
func TestFollowLog(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	v := &fake{log: logOf(3)}
	l := &treeLog{viewer: v, root: "r", query: adminapi.EventsQuery{LastN: 2}}
	tick := make(chan time.Time)
	seen := make(chan []uint64, 1)
	ended := make(chan error, 1)
	go func() {
		ended <- l.follow(ctx, tick, func(events []lineage.Event) error {
			if len(events) == 0 {
				return nil
			}
			var seqs []uint64
			for _, e := range events {
				seqs = append(seqs, e.Seq)
			}
			seen <- seqs
			return nil
		})
	}()
	if diff := cmp.Diff([]uint64{2, 3}, <-seen); diff != "" {
		t.Errorf("first look (-want +got):\n%s", diff)
	}
	tick <- treeTime // follow is now past its first look
	tick <- treeTime // and past one at which nothing was new
	stop()
	if err := <-ended; err != nil {
		t.Errorf("follow() that is interrupted = %v, want nil", err)
	}

	v.log = logOf(5)
	if diff := cmp.Diff([]uint64{4, 5}, readAll(t, l)); diff != "" {
		t.Errorf("what is new (-want +got):\n%s", diff)
	}
}

func TestFollowTellsErrors(t *testing.T) {
	t.Parallel()
	l := &treeLog{viewer: &fake{err: errBroken}, root: "r"}
	if err := l.follow(t.Context(), nil, nil); !errors.Is(err, errBroken) {
		t.Errorf("follow(broken viewer) = %v, want its error", err)
	}
	l = &treeLog{viewer: &fake{log: logOf(1)}, root: "r"}
	if err := l.follow(t.Context(), nil, func([]lineage.Event) error { return errBroken }); !errors.Is(err, errBroken) {
		t.Errorf("follow(broken output) = %v, want its error", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	l = &treeLog{viewer: &fake{err: ctx.Err()}, root: "r"}
	if err := l.follow(ctx, nil, nil); err != nil {
		t.Errorf("follow() interrupted in the middle = %v, want nil", err)
	}
}
