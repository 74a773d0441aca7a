package adminapi_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// What the client sends for a change, and how it reads the answer.
func TestClientChanges(t *testing.T) {
	t.Parallel()
	type sent struct{ Method, Target, Type, User, Token, Body string }
	step := func(verb lineage.Verb, r adminapi.StepRequest) func(context.Context, *adminapi.Client) (lineage.Session, bool, error) {
		return func(ctx context.Context, c *adminapi.Client) (lineage.Session, bool, error) {
			s, err := c.Step(ctx, "s/1", verb, r)
			return s, false, err
		}
	}
	spawn := func(r adminapi.SpawnRequest) func(context.Context, *adminapi.Client) (lineage.Session, bool, error) {
		return func(ctx context.Context, c *adminapi.Client) (lineage.Session, bool, error) { return c.Spawn(ctx, r) }
	}
	tests := []struct {
		name   string
		status int
		ask    func(context.Context, *adminapi.Client) (lineage.Session, bool, error)
		made   bool
		want   sent
	}{
		{
			"spawn", http.StatusCreated, spawn(adminapi.SpawnRequest{Root: "r", Agent: "w"}), true,
			sent{Target: "/api/v1/sessions", Body: `{"root":"r","agent":"w"}`},
		},
		{
			"spawn, all members", http.StatusOK, spawn(adminapi.SpawnRequest{
				Root: "r", Parent: "p", Agent: "w", Kind: lineage.Worker, TTL: new(adminapi.Duration(5 * time.Minute)), Inherit: lineage.InheritNone,
				ContextSummary: "so far", Isolate: new(false), RequestID: "q", User: "alice",
			}), false,
			sent{
				Target: "/api/v1/sessions", User: "alice",
				Body: `{"root":"r","parent":"p","agent":"w","kind":"worker","ttl":"5m0s","inherit":"none","contextSummary":"so far","isolate":false,"requestId":"q"}`,
			},
		},
		{"cancel", http.StatusOK, step(lineage.VerbCancel, adminapi.StepRequest{}), false, sent{Target: "/api/v1/sessions/s%2F1/cancel", Body: "{}"}},
		{
			"fail", http.StatusOK, step(lineage.VerbFail, adminapi.StepRequest{Reason: "x", Result: &lineage.Result{Summary: "y"}}), false,
			sent{Target: "/api/v1/sessions/s%2F1/fail", Body: `{"reason":"x","result":{"status":"","summary":"y"}}`},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var got sent
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				body, err := io.ReadAll(r.Body)
				if err != nil {
					t.Error(err)
				}
				h := r.Header
				got = sent{r.Method, r.RequestURI, h.Get("Content-Type"), h.Get("X-User-Id"), h.Get("Authorization"), string(body)}
				w.Header().Set("Content-Type", "application/json")
				w.WriteHeader(tt.status)
				_, _ = io.WriteString(w, `{"id":"s/1","contextId":"ctx"}`)
			}))
			t.Cleanup(srv.Close)
			c, err := adminapi.New(srv.URL, "sesame", srv.Client())
			if err != nil {
				t.Fatal(err)
			}
			s, made, err := tt.ask(t.Context(), c)
			if err != nil || s.ContextID != "ctx" || made != tt.made {
				t.Errorf("answer = %+v, made %t, %v, want the session, made %t", s, made, err, tt.made)
			}
			tt.want.Method, tt.want.Type, tt.want.Token = "POST", "application/json", "Bearer sesame"
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("request (-want +got):\n%s", diff)
			}
		})
	}
}

// The members of a problem about a cap reach whoever asked.
func TestClientRefused(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, "", http.StatusTooManyRequests, "application/problem+json",
		`{"type":"about:blank","title":"Too Many Requests","status":429,"detail":"full","reason":"CHILDREN_LIMIT","limit":"maxChildren","value":8,"count":8,"parent":"coordinator"}`)
	_, made, err := c.Spawn(t.Context(), adminapi.SpawnRequest{Root: "r", Agent: "w"})
	p, ok := errors.AsType[*adminapi.Problem](err)
	want := adminapi.Problem{
		Type: "about:blank", Title: "Too Many Requests", Status: 429, Detail: "full", Reason: "CHILDREN_LIMIT",
		Limit: "maxChildren", Value: 8, Count: 8, Parent: "coordinator",
	}
	if !ok || made || *p != want {
		t.Errorf("Spawn() = %t, %+v, want %+v", made, err, want)
	}
}

func TestReadTree(t *testing.T) {
	t.Parallel()
	const size = 2*adminapi.MaxPage + 1
	for _, tt := range []struct {
		limit int
		want  []adminapi.SessionsQuery // the pages it asks for
		n     int
		next  int
	}{
		{0, []adminapi.SessionsQuery{{}, {After: 1000}, {After: 2000}}, size, 0},
		{1, []adminapi.SessionsQuery{{Limit: 1}}, 1, 1},
		{1000, []adminapi.SessionsQuery{{Limit: 1000}}, 1000, 1000},
		{1001, []adminapi.SessionsQuery{{Limit: 1000}, {After: 1000, Limit: 1}}, 1001, 1001},
		{size, []adminapi.SessionsQuery{{Limit: 1000}, {After: 1000, Limit: 1000}, {After: 2000, Limit: 1}}, size, 0},
		{9000, []adminapi.SessionsQuery{{Limit: 1000}, {After: 1000, Limit: 1000}, {After: 2000, Limit: 1000}}, size, 0},
	} {
		var asked []adminapi.SessionsQuery
		tree, err := adminapi.ReadTree(t.Context(), func(_ context.Context, root string, q adminapi.SessionsQuery) (adminapi.TreeView, error) {
			asked = append(asked, q)
			page := adminapi.TreeView{Root: root, Counts: adminapi.Counts{Sessions: size, Events: uint64(len(asked))}}
			limit := q.Limit
			if limit == 0 {
				limit = adminapi.MaxPage
			}
			for i := q.After; i < min(q.After+limit, size); i++ {
				page.Sessions = append(page.Sessions, adminapi.Session{Session: lineage.Session{ID: strconv.Itoa(i)}})
			}
			if end := q.After + limit; end < size {
				page.Next = end
			}
			return page, nil
		}, "r", tt.limit)
		if err != nil || tree.Root != "r" || len(tree.Sessions) != tt.n || tree.Next != tt.next || tree.Counts.Events != uint64(len(tt.want)) {
			t.Errorf("ReadTree(limit %d) = %d sessions, next %d, %v, want %d, next %d and the last page's counts", tt.limit, len(tree.Sessions), tree.Next, err, tt.n, tt.next)
		}
		if diff := cmp.Diff(tt.want, asked); diff != "" {
			t.Errorf("ReadTree(limit %d) asked for (-want +got):\n%s", tt.limit, diff)
		}
		if !slices.IsSortedFunc(tree.Sessions, func(a, b adminapi.Session) int {
			x, _ := strconv.Atoi(a.ID)
			y, _ := strconv.Atoi(b.ID)
			return x - y
		}) {
			t.Errorf("ReadTree(limit %d) gave sessions out of order", tt.limit)
		}
	}
	broken := errors.New("broken")
	if _, err := adminapi.ReadTree(t.Context(), func(context.Context, string, adminapi.SessionsQuery) (adminapi.TreeView, error) {
		return adminapi.TreeView{}, broken
	}, "r", 0); !errors.Is(err, broken) {
		t.Errorf("ReadTree() = %v, want what reading a page gave", err)
	}
}
