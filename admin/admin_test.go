package admin_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/admin"
	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

var started = time.Date(2026, 3, 1, 14, 3, 7, 0, time.UTC)

// openStore returns an empty store in memory, whose clock stands still.
func openStore(t *testing.T) *sqlite.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: sqlite.Memory, Now: func() time.Time { return started }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	return store
}

// call admits one call of the root session of a tree to agent, in an isolated
// session with the id root/name.
func call(t *testing.T, store sessions.Store, root, agent, name string) {
	t.Helper()
	op := &sessions.Op{Admit: &sessions.Admission{
		Root: root, Local: "coordinator", MainID: root + "/main", RemoteID: root + "/" + name + "/caller",
		Agent: agent, Kind: lineage.Worker, Isolated: true, Inherit: lineage.InheritNone, Source: lineage.FromHeader,
		ContextID: root + "/" + name + "/ctx", SessionID: root + "/" + name, RunID: root + "/" + name + "/run",
		MessageID: root + "/" + name + "/msg", Owner: "test", Lease: time.Minute, Sent: json.RawMessage(`{"partCount":1}`),
	}}
	apply(t, store, op)
}

// end ends the run of a session that call made.
func end(t *testing.T, store sessions.Store, root, agent, name string, state lineage.State) {
	t.Helper()
	apply(t, store, &sessions.Op{Progress: &sessions.Progress{
		Root: root, Session: root + "/" + name, Run: root + "/" + name + "/run", Gen: 1, Agent: agent, State: state,
	}})
}

func apply(t *testing.T, store sessions.Store, op *sessions.Op) {
	t.Helper()
	store.Apply(t.Context(), []*sessions.Op{op})
	if op.Err != nil {
		t.Fatalf("Apply() = %v", op.Err)
	}
}

// grown is a store with one tree: coordinator with worker a (completed), worker
// b (running) and reviewer c (failed). Its log has 11 events.
func grown(t *testing.T) *sqlite.Store {
	t.Helper()
	store := openStore(t)
	call(t, store, "r", "worker", "a")
	call(t, store, "r", "worker", "b")
	call(t, store, "r", "reviewer", "c")
	end(t, store, "r", "worker", "a", lineage.Completed)
	end(t, store, "r", "reviewer", "c", lineage.Failed)
	return store
}

// serve returns a handler over o, reached as a loopback address is.
func serve(o admin.Options) func(target string) *httptest.ResponseRecorder {
	h := admin.New(o)
	return func(target string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:8402"+target, nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
}

// read returns the body of a response that has the given status and type.
func read(t *testing.T, resp *httptest.ResponseRecorder, status int, mediaType string) []byte {
	t.Helper()
	if got := resp.Header().Get("Content-Type"); resp.Code != status || got != mediaType {
		t.Fatalf("response = %d %s %s, want %d %s", resp.Code, got, resp.Body, status, mediaType)
	}
	return resp.Body.Bytes()
}

func readJSON[T any](t *testing.T, resp *httptest.ResponseRecorder) T {
	t.Helper()
	var v T
	if err := json.Unmarshal(read(t, resp, http.StatusOK, "application/json"), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// problem returns the problem that a response is.
func problem(t *testing.T, resp *httptest.ResponseRecorder, status int) adminapi.Problem {
	t.Helper()
	var p adminapi.Problem
	if err := json.Unmarshal(read(t, resp, status, "application/problem+json"), &p); err != nil {
		t.Fatal(err)
	}
	if p.Type != "about:blank" || p.Status != status || p.Title != http.StatusText(status) || p.Detail == "" {
		t.Errorf("problem = %+v, want type, title, status %d and a detail", p, status)
	}
	return p
}

func TestTrees(t *testing.T) {
	t.Parallel()
	store := grown(t)
	for i := range 4 {
		call(t, store, fmt.Sprintf("tree-%d", i), "scribe", "x")
	}
	get := serve(admin.Options{Reader: store})

	got := readJSON[adminapi.TreePage](t, get("/api/v1/trees?agent=worker"))
	want := adminapi.TreePage{Trees: []lineage.Tree{{
		Root: "r", StartedAt: started, LastEventAt: started, State: "active", Sessions: 4, Live: 1, Depth: 1,
		Agents: []string{"coordinator", "reviewer", "worker"}, Errors: 1,
	}}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("trees with worker (-want +got):\n%s", diff)
	}

	var roots []string
	target, pages := "/api/v1/trees?limit=2&state=active&q=tree-", 0
	for cursor := ""; ; pages++ {
		page := readJSON[adminapi.TreePage](t, get(target+"&cursor="+url.QueryEscape(cursor)))
		for _, tree := range page.Trees {
			roots = append(roots, tree.Root)
		}
		if cursor = page.Next; cursor == "" {
			break
		}
	}
	if len(roots) != 4 || pages != 1 {
		t.Errorf("all pages = %v in %d more pages, want 4 trees in 1", roots, pages)
	}

	// A list says [], and no cursor where there is no next page.
	if got := string(read(t, get("/api/v1/trees?q=nowhere"), 200, "application/json")); got != `{"trees":[]}`+"\n" {
		t.Errorf("no trees = %s, want an empty list", got)
	}
}

func TestTree(t *testing.T) {
	t.Parallel()
	limits := adminapi.Limits{MaxDepth: 4, MaxChildren: 8}
	get := serve(admin.Options{Reader: grown(t), Limits: func() adminapi.Limits { return limits }})

	flat := readJSON[adminapi.TreeView](t, get("/api/v1/trees/r"))
	var got []string
	for _, s := range flat.Sessions {
		got = append(got, s.Branch+" "+string(s.State))
		if s.Children != nil {
			t.Errorf("session %s has children in a flat view", s.ID)
		}
	}
	want := []string{
		"coordinator active", "coordinator.worker@1 completed", "coordinator.worker@2 active", "coordinator.reviewer@3 failed",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("sessions (-want +got):\n%s", diff)
	}
	wantCounts := adminapi.Counts{Sessions: 4, Live: 1, Errors: 1, Depth: 1, Events: 11}
	if flat.Root != "r" || flat.Counts != wantCounts || flat.Limits == nil || flat.Limits.MaxChildren != 8 {
		t.Errorf("tree = %+v, want root r, counts %+v, maxChildren 8", flat, wantCounts)
	}

	nested := readJSON[adminapi.TreeView](t, get("/api/v1/trees/r?nested=true"))
	if len(nested.Sessions) != 1 || len(nested.Sessions[0].Children) != 3 || nested.Counts != wantCounts {
		t.Errorf("nested tree = %+v, want one session with three children", nested)
	}

	// Lists are lists, never null.
	if body := read(t, get("/api/v1/trees/r"), 200, "application/json"); strings.Contains(string(body), `"runs":null`) {
		t.Errorf("tree = %s, want [] for no runs", body)
	}
}

// A view that knows no caps shows none, rather than caps of 0.
func TestTreeWithoutLimits(t *testing.T) {
	t.Parallel()
	body := read(t, serve(admin.Options{Reader: grown(t)})("/api/v1/trees/r"), 200, "application/json")
	if strings.Contains(string(body), "limits") {
		t.Errorf("tree = %s, want no limits", body)
	}
}

func TestSession(t *testing.T) {
	t.Parallel()
	get := serve(admin.Options{Reader: grown(t)})
	s := readJSON[lineage.Session](t, get("/api/v1/sessions/r%2Fb"))
	if s.ID != "r/b" || s.Tree != "r" || len(s.Runs) != 1 || s.Runs[0].State != lineage.Active {
		t.Errorf("session = %+v, want r/b with its open run", s)
	}
	main := string(read(t, get("/api/v1/sessions/r%2Fmain"), 200, "application/json"))
	if !strings.Contains(main, `"runs":[]`) {
		t.Errorf("main session = %s, want runs []", main)
	}
}

// seqs returns the numbers of the events that a request gives.
func seqs(t *testing.T, resp *httptest.ResponseRecorder) (list []uint64, next uint64) {
	t.Helper()
	page := readJSON[adminapi.EventPage](t, resp)
	for _, e := range page.Events {
		list = append(list, e.Seq)
	}
	return list, page.Next
}

func TestEvents(t *testing.T) {
	t.Parallel()
	// 1 spawned main, 2 spawned a, 3 sent a, 4 spawned b, 5 sent b, 6 spawned
	// c, 7 sent c, 8 a completed, 9 main told so, 10 c failed, 11 main told so
	get := serve(admin.Options{Reader: grown(t)})
	tests := []struct {
		query string
		want  []uint64
		next  uint64
	}{
		{"as=all", []uint64{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 11},
		{"as=all&after=8", []uint64{9, 10, 11}, 11},
		{"as=all&after=11", nil, 11},
		{"as=all&after=0&limit=2", []uint64{1, 2}, 2},
		{"as=all&lastN=2", []uint64{10, 11}, 11},
		{"as=all&lastN=1&type=session.completed", []uint64{8}, 11},
		{"as=all&type=message.sent", []uint64{3, 5, 7}, 11},
		{"as=all&type=session.failed&type=session.completed,session.expired", []uint64{8, 10}, 11},
		{"as=all&session=r%2Fb", []uint64{4, 5}, 11},
		{"as=all&session=coordinator.worker@2", []uint64{4, 5}, 11},
		{"as=r%2Fb", []uint64{1, 4, 5, 9, 11}, 11},
		{"as=coordinator.worker@1", []uint64{1, 2, 3, 8, 9, 11}, 11},
		{"as=coordinator", []uint64{1, 9, 11}, 11},
		{"as=r%2Fa&session=r%2Fb", nil, 11},
		{"as=r%2Fa&acrossTurns=filtered", []uint64{1, 2, 3, 8, 9, 11}, 11},
	}
	for _, tt := range tests {
		t.Run(tt.query, func(t *testing.T) {
			t.Parallel()
			got, next := seqs(t, get("/api/v1/trees/r/events?"+tt.query))
			if diff := cmp.Diff(tt.want, got); diff != "" || next != tt.next {
				t.Errorf("events?%s = %v next %d, want %v next %d", tt.query, got, next, tt.want, tt.next)
			}
		})
	}
	if got := string(read(t, get("/api/v1/trees/r/events?as=all&after=11"), 200, "application/json")); got != `{"events":[],"next":11}`+"\n" {
		t.Errorf("no events = %s, want an empty list", got)
	}
}

// A root context id is what the caller chose: it may hold whatever a path may
// not.
func TestRootsOfAnyShape(t *testing.T) {
	t.Parallel()
	store := openStore(t)
	srv := httptest.NewServer(admin.New(admin.Options{Reader: store}))
	t.Cleanup(srv.Close)
	client, err := adminapi.New(srv.URL, "", srv.Client())
	if err != nil {
		t.Fatal(err)
	}
	for _, root := range []string{
		"a/b", "/", "//", "a//b", "a/", ".", "..", "../..", "a/../b", "with space", "ünï/日本語", "{root}", "{$}", "%2F", "q?x=1#f", "events", "a;b", "a+b&c", `"<>\`,
	} {
		call(t, store, root, "worker", "a")
		tree, err := client.Tree(t.Context(), root)
		if err != nil || tree.Root != root || len(tree.Sessions) != 2 {
			t.Errorf("Tree(%q) = %+v, %v, want it with 2 sessions", root, tree, err)
		}
		page, err := client.Events(t.Context(), root, adminapi.EventsQuery{As: "coordinator.worker@1"})
		if err != nil || len(page.Events) != 3 {
			t.Errorf("Events(%q) = %d events, %v, want 3", root, len(page.Events), err)
		}
		if s, err := client.Session(t.Context(), root+"/a"); err != nil || s.Tree != root {
			t.Errorf("Session(%q) = %+v, %v, want it in its tree", root+"/a", s, err)
		}
	}
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	get := serve(admin.Options{Reader: grown(t)})
	tests := []struct {
		target string
		status int
		detail string // part of it
	}{
		{"/api/v1/trees?state=busy", 400, `state "busy" is not one of active, idle`},
		{"/api/v1/trees?limit=0", 400, `limit "0" is not a whole number from 1 to 1000`},
		{"/api/v1/trees?limit=1001", 400, `limit "1001" is not`},
		{"/api/v1/trees?limit=-1", 400, `limit "-1" is not`},
		{"/api/v1/trees?limit=", 400, `limit "" is not`},
		{"/api/v1/trees?limit=99999999999999999999", 400, "limit"},
		{"/api/v1/trees?cursor=nonsense", 400, "cursor"},
		{"/api/v1/trees?color=red", 400, `unknown query parameter "color"`},
		{"/api/v1/trees?q=a&q=b", 400, "q is given 2 times"},
		{"/api/v1/trees?q=%zz", 400, "malformed"},
		{"/api/v1/trees?q=a;b", 400, "malformed"},
		{"/api/v1/trees/r?nested=yes", 400, `nested "yes" is not true or false`},
		{"/api/v1/trees/r?limit=0", 400, `limit "0" is not a whole number from 1 to 1000`},
		{"/api/v1/trees/r?limit=1001", 400, `limit "1001" is not`},
		{"/api/v1/trees/r?after=-1", 400, `after "-1" is not a whole number from 0`},
		{"/api/v1/trees/r?cursor=1", 400, `unknown query parameter "cursor"`},
		{"/api/v1/trees/r?nested=true&after=1", 400, "nested cannot stand together with after or limit"},
		{"/api/v1/trees/r?nested=true&limit=1", 400, "nested cannot stand together with after or limit"},
		{"/api/v1/trees/none", 404, `"none"`},
		{"/api/v1/trees/r/events", 400, "as is missing"},
		{"/api/v1/trees/r/events?as=", 400, "as is missing"},
		{"/api/v1/trees/r/events?as=nobody", 404, `"nobody"`},
		{"/api/v1/trees/r/events?as=ALL", 404, `"ALL"`},
		{"/api/v1/trees/none/events?as=all", 404, `"none"`},
		{"/api/v1/trees/none/events?as=coordinator", 404, `"none"`},
		{"/api/v1/trees/r/events?as=all&session=nobody", 404, `"nobody"`},
		{"/api/v1/trees/r/events?as=all&after=-1", 400, `after "-1" is not a whole number from 0`},
		{"/api/v1/trees/r/events?as=all&after=x", 400, `after "x"`},
		{"/api/v1/trees/r/events?as=all&after=9223372036854775808", 400, "after"},
		{"/api/v1/trees/r/events?as=all&lastN=0", 400, `lastN "0"`},
		{"/api/v1/trees/r/events?as=all&lastN=1001", 400, `lastN "1001"`},
		{"/api/v1/trees/r/events?as=all&lastN=1&after=0", 400, "lastN cannot stand together with after or limit"},
		{"/api/v1/trees/r/events?as=all&lastN=1&limit=1", 400, "lastN cannot stand together with after or limit"},
		{"/api/v1/trees/r/events?as=all&acrossTurns=visible", 400, "not available in this version"},
		{"/api/v1/trees/r/events?as=all&acrossTurns=some", 400, `acrossTurns "some" is not one of`},
		{"/api/v1/sessions/none", 404, `"none"`},
		{"/api/v1/sessions/r%2Fa?x=1", 400, `"x"`},
		{"/api/v1/sessions", 405, "GET does not go with this path"},
		{"/api/v1/sessions/r%2Fa/complete", 405, "GET does not go with this path"},
		{"/api/v1/sessions/r%2Fa/nonsense", 404, "nothing at this path"},
		{"/api/v1/trees/", 404, "nothing at this path"},
		{"/api/v1//trees/a%2Fb", 404, "nothing at this path"},
		{"/api/v2/trees", 404, "nothing at this path"},
		{"/metrics", 404, "nothing at this path"},
	}
	for _, tt := range tests {
		t.Run(tt.target, func(t *testing.T) {
			t.Parallel()
			if p := problem(t, get(tt.target), tt.status); !strings.Contains(p.Detail, tt.detail) {
				t.Errorf("detail of %s = %q, want %q in it", tt.target, p.Detail, tt.detail)
			}
		})
	}
}

// A session of another tree is nobody in this one, though its id is known.
func TestViewerOfAnotherTree(t *testing.T) {
	t.Parallel()
	store := grown(t)
	call(t, store, "other", "worker", "a")
	problem(t, serve(admin.Options{Reader: store})("/api/v1/trees/r/events?as=other%2Fa"), http.StatusNotFound)
}

func TestMethods(t *testing.T) {
	t.Parallel()
	h := admin.New(admin.Options{Reader: grown(t)})
	for _, path := range []string{"/api/v1/trees", "/api/v1/trees/r", "/api/v1/sessions/x", "/healthz", "/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "http://localhost"+path, strings.NewReader("{}")))
		problem(t, w, http.StatusMethodNotAllowed)
		if got := w.Header().Get("Allow"); got != "GET, HEAD" {
			t.Errorf("Allow of %s = %q, want GET, HEAD", path, got)
		}
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodHead, "http://localhost/api/v1/trees", nil))
	if w.Code != http.StatusOK {
		t.Errorf("HEAD /api/v1/trees = %d, want 200", w.Code)
	}
}

// broken is a reader that fails, wherever it is asked.
type broken struct{ err error }

func (b broken) Trees(context.Context, sessions.TreeQuery) (sessions.TreePage, error) {
	return sessions.TreePage{}, b.err
}
func (b broken) Tree(context.Context, string) (lineage.Tree, error) { return lineage.Tree{}, b.err }
func (b broken) Sessions(context.Context, string, sessions.SessionQuery) (sessions.SessionPage, error) {
	return sessions.SessionPage{}, b.err
}

func (b broken) SessionOf(context.Context, string, sessions.BindingKey) (lineage.Session, error) {
	return lineage.Session{}, b.err
}

func (b broken) Session(context.Context, string) (lineage.Session, error) {
	return lineage.Session{}, b.err
}

func (b broken) Events(context.Context, string, sessions.EventQuery) (sessions.EventPage, error) {
	return sessions.EventPage{}, b.err
}

var targets = []string{
	"/api/v1/trees", "/api/v1/trees/r", "/api/v1/trees/r/events?as=all", "/api/v1/trees/r/events?as=x", "/api/v1/sessions/x",
}

func TestStoreUnavailable(t *testing.T) {
	t.Parallel()
	get := serve(admin.Options{Reader: broken{fmt.Errorf("dial 10.0.0.1: %w", sessions.ErrUnavailable)}})
	for _, target := range targets {
		resp := get(target)
		p := problem(t, resp, http.StatusServiceUnavailable)
		if p.Reason != "STORE_UNAVAILABLE" || resp.Header().Get("Retry-After") == "" || strings.Contains(p.Detail, "10.0.0.1") {
			t.Errorf("%s = %+v, want reason STORE_UNAVAILABLE, Retry-After, and nothing of the cause", target, p)
		}
	}
}

func TestStoreFails(t *testing.T) {
	t.Parallel()
	get := serve(admin.Options{Reader: broken{errors.New("secret detail")}})
	for _, target := range targets {
		if p := problem(t, get(target), http.StatusInternalServerError); strings.Contains(p.Detail, "secret") {
			t.Errorf("%s = %+v, want nothing of the cause", target, p)
		}
	}
}

func TestHealth(t *testing.T) {
	t.Parallel()
	var unready, degraded []string
	get := serve(admin.Options{
		Reader:   broken{errors.New("not asked")},
		Ready:    func(context.Context) []string { return unready },
		Degraded: func(context.Context) []string { return degraded },
		Metrics:  http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "a2a_sidecar_up 1") }),
	})
	if got := string(read(t, get("/healthz"), 200, "text/plain; charset=utf-8")); got != "ok\n" {
		t.Errorf("/healthz = %q, want ok", got)
	}
	if got := string(read(t, get("/readyz"), 200, "application/json")); got != `{"ready":true,"reasons":[]}`+"\n" {
		t.Errorf("/readyz = %s, want ready without reasons", got)
	}
	degraded = []string{"store: down"}
	if got := string(read(t, get("/readyz"), 200, "application/json")); got != `{"ready":true,"reasons":["store: down"]}`+"\n" {
		t.Errorf("/readyz, degraded = %s, want ready with the reason", got)
	}
	unready = []string{"stopping"}
	if got := string(read(t, get("/readyz"), 503, "application/json")); got != `{"ready":false,"reasons":["stopping","store: down"]}`+"\n" {
		t.Errorf("/readyz, stopping = %s, want both reasons", got)
	}
	if got := get("/metrics").Body.String(); got != "a2a_sidecar_up 1" {
		t.Errorf("/metrics = %q, want what the handler says", got)
	}
	if got := string(read(t, get("/"), 200, "text/plain; charset=utf-8")); !strings.Contains(got, "/api/v1/trees") {
		t.Errorf("/ = %q, want an index", got)
	}
}
