package adminapi_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// answering returns a client of a server that gives every request one answer,
// and a function that returns what the last request was.
func answering(t *testing.T, base string, status int, mediaType, body string) (*adminapi.Client, func() *http.Request) {
	t.Helper()
	var last *http.Request
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		last = r
		w.Header().Set("Content-Type", mediaType)
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(srv.Close)
	c, err := adminapi.New(srv.URL+base, "sesame", srv.Client())
	if err != nil {
		t.Fatal(err)
	}
	return c, func() *http.Request { return last }
}

func TestClientAsks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		base string
		ask  func(context.Context, *adminapi.Client) error
		want string // the request's target
	}{
		{"trees", "", func(ctx context.Context, c *adminapi.Client) error {
			_, err := c.Trees(ctx, adminapi.TreesQuery{})
			return err
		}, "/api/v1/trees"},
		{"trees, all parameters", "/", func(ctx context.Context, c *adminapi.Client) error {
			_, err := c.Trees(ctx, adminapi.TreesQuery{State: "active", Agent: "w", Text: "a&b", Limit: 7, Cursor: "c="})
			return err
		}, "/api/v1/trees?agent=w&cursor=c%3D&limit=7&q=a%26b&state=active"},
		{"tree below a path", "/side%2Fcar/", func(ctx context.Context, c *adminapi.Client) error {
			_, err := c.Tree(ctx, "a/b {ü}?#%2F")
			return err
		}, "/side%2Fcar/api/v1/trees/a%2Fb%20%7B%C3%BC%7D%3F%23%252F"},
		{"a root of dots", "", func(ctx context.Context, c *adminapi.Client) error {
			_, err := c.Tree(ctx, "..")
			return err
		}, "/api/v1/trees/%2E%2E"},
		{"events, all parameters", "", func(ctx context.Context, c *adminapi.Client) error {
			_, err := c.Events(ctx, "r", adminapi.EventsQuery{
				As: "all", After: 9, Limit: 2, LastN: 3, Types: []string{"x", "y"}, Session: "s", AcrossTurns: "filtered",
			})
			return err
		}, "/api/v1/trees/r/events?acrossTurns=filtered&after=9&as=all&lastN=3&limit=2&session=s&type=x&type=y"},
		{"session", "", func(ctx context.Context, c *adminapi.Client) error {
			_, err := c.Session(ctx, "s/1")
			return err
		}, "/api/v1/sessions/s%2F1"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, last := answering(t, tt.base, http.StatusOK, "application/json; charset=utf-8", "{}")
			if err := tt.ask(t.Context(), c); err != nil {
				t.Fatal(err)
			}
			r := last()
			if r.RequestURI != tt.want {
				t.Errorf("request target = %s, want %s", r.RequestURI, tt.want)
			}
			if got := r.Header.Get("Authorization"); got != "Bearer sesame" {
				t.Errorf("Authorization = %q, want the token", got)
			}
		})
	}
}

func TestClientReads(t *testing.T) {
	t.Parallel()
	c, _ := answering(t, "", http.StatusOK, "application/json", `{"trees":[{"root":"r","sessions":3}],"next":"n","new":1}`)
	got, err := c.Trees(t.Context(), adminapi.TreesQuery{})
	if err != nil {
		t.Fatal(err)
	}
	want := adminapi.TreePage{Trees: []lineage.Tree{{Root: "r", Sessions: 3}}, Next: "n"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Trees() (-want +got):\n%s", diff)
	}
}

func TestClientProblems(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name      string
		status    int
		mediaType string
		body      string
		want      adminapi.Problem
	}{
		{
			"problem", 503, "application/problem+json",
			`{"type":"about:blank","title":"Service Unavailable","status":503,"detail":"down","reason":"STORE_UNAVAILABLE"}`,
			adminapi.Problem{Type: "about:blank", Title: "Service Unavailable", Status: 503, Detail: "down", Reason: "STORE_UNAVAILABLE"},
		},
		{"the status line counts", 404, "application/problem+json", `{"status":200,"detail":"x"}`, adminapi.Problem{Title: "Not Found", Status: 404, Detail: "x"}},
		{"a proxy's page", 502, "text/html", `<h1>no</h1>`, adminapi.Problem{
			Type: "about:blank", Title: "Bad Gateway", Status: 502, Detail: `the answer was "502 Bad Gateway", without a reason`,
		}},
		{"broken problem", 400, "application/problem+json", `{`, adminapi.Problem{
			Type: "about:blank", Title: "Bad Request", Status: 400, Detail: `the answer was "400 Bad Request", without a reason`,
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c, _ := answering(t, "", tt.status, tt.mediaType, tt.body)
			_, err := c.Session(t.Context(), "s")
			p, ok := errors.AsType[*adminapi.Problem](err)
			if !ok {
				t.Fatalf("Session() = %v, want a *Problem", err)
			}
			if diff := cmp.Diff(tt.want, *p); diff != "" {
				t.Errorf("Session() problem (-want +got):\n%s", diff)
			}
			if got := adminapi.StatusOf(fmt.Errorf("wrapped: %w", err)); got != tt.status {
				t.Errorf("StatusOf() = %d, want %d", got, tt.status)
			}
		})
	}
}

func TestProblemError(t *testing.T) {
	t.Parallel()
	if got, want := adminapi.NewProblem(404, "no %s", "x").Error(), "no x"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if got, want := (&adminapi.Problem{Status: 418, Title: "I'm a teapot"}).Error(), "418 I'm a teapot"; got != want {
		t.Errorf("Error() = %q, want %q", got, want)
	}
	if got := adminapi.StatusOf(io.EOF); got != 0 {
		t.Errorf("StatusOf(EOF) = %d, want 0", got)
	}
}

// What is no admin API is no problem document of one either.
func TestClientNoAnswer(t *testing.T) {
	t.Parallel()
	for name, answer := range map[string][2]string{
		"a web page":  {"text/html", "<h1>hi</h1>"},
		"broken JSON": {"application/json", `{"trees":[`},
	} {
		c, _ := answering(t, "", http.StatusOK, answer[0], answer[1])
		if _, err := c.Trees(t.Context(), adminapi.TreesQuery{}); err == nil || adminapi.StatusOf(err) != 0 {
			t.Errorf("Trees() of %s = %v, want an error that is no problem", name, err)
		}
	}

	c, _ := answering(t, "", http.StatusOK, "application/json", "{}")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := c.Tree(ctx, "r"); !errors.Is(err, context.Canceled) {
		t.Errorf("Tree() with an ended context = %v, want context.Canceled", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, base := range []string{"", "127.0.0.1:8402", "ftp://h", "http://", "http://h?x=1", "http://h#x", "http://u:p@h", "http://h\x00"} {
		if _, err := adminapi.New(base, "", nil); err == nil {
			t.Errorf("New(%q) = nil, want an error", base)
		}
	}
}

func ExampleClient() {
	// A stand-in for the admin port of a sidecar.
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, _ := url.PathUnescape(strings.TrimPrefix(r.URL.EscapedPath(), "/api/v1/trees/"))
		if root != "conversation/42" {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(http.StatusNotFound)
			_, _ = io.WriteString(w, `{"status":404,"detail":"there is no such tree"}`)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"root":"conversation/42","sessions":[{"branch":"coordinator","state":"active"},{"branch":"coordinator.worker@1","state":"completed"}]}`)
	}))
	defer srv.Close()

	client, err := adminapi.New(srv.URL, "", nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	tree, err := client.Tree(context.Background(), "conversation/42")
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, s := range tree.Sessions {
		fmt.Println(s.Branch, s.State)
	}
	if _, err := client.Tree(context.Background(), "another"); adminapi.StatusOf(err) == http.StatusNotFound {
		fmt.Println(err)
	}
	// Output:
	// coordinator active
	// coordinator.worker@1 completed
	// there is no such tree
}
