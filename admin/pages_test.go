package admin_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/admin"
	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// pages makes every session page as small as it says.
type pages struct {
	sessions.Reader
	size int
}

func (p pages) Sessions(ctx context.Context, root string, q sessions.SessionQuery) (sessions.SessionPage, error) {
	if q.Limit == 0 || q.Limit > p.size {
		q.Limit = p.size
	}
	return p.Reader.Sessions(ctx, root, q)
}

// A tree of more than a page is read page by page; each tells the counts of the
// whole.
func TestTreeInPages(t *testing.T) {
	t.Parallel()
	store := grown(t)
	get := serve(admin.Options{Reader: store})
	want := adminapi.Counts{Sessions: 4, Live: 1, Errors: 1, Depth: 1, Events: 11}
	for _, tt := range []struct {
		query string
		want  []string
		next  int
	}{
		{"", []string{"r/main", "r/a", "r/b", "r/c"}, 0},
		{"?limit=4", []string{"r/main", "r/a", "r/b", "r/c"}, 0},
		{"?limit=3", []string{"r/main", "r/a", "r/b"}, 3},
		{"?after=1&limit=2", []string{"r/a", "r/b"}, 3},
		{"?after=3", []string{"r/c"}, 0},
		{"?after=4", nil, 0},
		{"?after=9223372036854775807", nil, 0},
	} {
		view := readJSON[adminapi.TreeView](t, get("/api/v1/trees/r"+tt.query))
		var got []string
		for _, s := range view.Sessions {
			got = append(got, s.ID)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" || view.Next != tt.next || view.Counts != want {
			t.Errorf("tree%s = next %d, counts %+v, want next %d, counts %+v; sessions (-want +got):\n%s", tt.query, view.Next, view.Counts, tt.next, want, diff)
		}
	}

	small := admin.Options{Reader: pages{store, 3}}
	if p := problem(t, serve(small)("/api/v1/trees/r?nested=true"), http.StatusBadRequest); !strings.Contains(p.Detail, "page with after and limit") {
		t.Errorf("nesting more than a page: %q, want to be told to page", p.Detail)
	}
	// By whatever pages they come, all sessions are found.
	srv := httptest.NewServer(admin.New(small))
	t.Cleanup(srv.Close)
	client, err := adminapi.New(srv.URL, "", srv.Client())
	if err != nil {
		t.Fatal(err)
	}
	if tree, err := client.Tree(t.Context(), "r"); err != nil || len(tree.Sessions) != 4 || tree.Next != 0 || tree.Sessions[3].ID != "r/c" {
		t.Errorf("Tree() = %+v, %v, want all 4 sessions", tree, err)
	}
	if page, err := client.Events(t.Context(), "r", adminapi.EventsQuery{As: "coordinator.reviewer@3"}); err != nil || len(page.Events) == 0 {
		t.Errorf("events as a branch on the second page = %+v, %v, want some", page, err)
	}
}
