package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// world is a sidecar with an agent, and the commands that steer it.
type world struct {
	sidecar *served
	agent   *agents.Agent
	began   chan struct{} // an agent has a message, and works on it until it is cancelled
}

func startWorld(t *testing.T, store string) *world {
	t.Helper()
	w := &world{began: make(chan struct{}, 16)}
	w.agent = startAgent(t, agents.Options{Name: "worker", Work: func(ctx context.Context) error {
		w.began <- struct{}{}
		<-ctx.Done()
		return ctx.Err()
	}})
	file := filepath.Join(t.TempDir(), "sidecar.yml")
	yml := fmt.Sprintf("agents:\n  - {name: worker, url: %[1]q, isolateSessions: true}\n  - {name: helper, url: %[1]q, onParentEnd: abandon}\n"+
		"  - {name: namer, url: %[1]q, contextIds: agent}\nlimits: {maxChildren: 3}\nstore: %[2]q\n", w.agent.URL(), store)
	if err := os.WriteFile(file, []byte(yml), 0o600); err != nil {
		t.Fatal(err)
	}
	w.sidecar = startServe(t, "--config", file)
	return w
}

// run runs a command that asks the sidecar's admin API.
func (w *world) run(t *testing.T, args ...string) ran {
	t.Helper()
	return sidecar(t, append([]string{"SIDECAR_ADMIN=http://" + w.sidecar.Admin}, args...)...)
}

// must is run for a command that must do what it is told, and prints JSON.
func must[T any](t *testing.T, w *world, args ...string) T {
	t.Helper()
	got := w.run(t, append(args, "-o", "json")...)
	if got.code != 0 || got.stderr != "" {
		t.Fatalf("%v = %+v, want exit 0", args, got)
	}
	return parse[T](t, got.stdout)
}

var (
	anyID   = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	anyTime = regexp.MustCompile(`(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d|\b\d+ms|\b\d+\.\d+s`)
	anyHost = regexp.MustCompile(`(?m)^(owner +).*$`)
	blanks  = regexp.MustCompile(`  +`)
)

// settled is what a command prints but for ids, times and the columns they take.
func settled(out string) string {
	out = anyTime.ReplaceAllString(anyID.ReplaceAllString(out, "ID"), "TIME")
	return blanks.ReplaceAllString(anyHost.ReplaceAllString(out, "${1}HOST"), "  ")
}

// What the commands print, and what comes of them, over each store.
func TestSteer(t *testing.T) {
	t.Parallel()
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := startWorld(t, store)
			var script strings.Builder // what a user sees
			see := func(code int, args ...string) ran {
				t.Helper()
				got := w.run(t, args...)
				if got.code != code {
					t.Errorf("%v = exit %d, want %d\n%s%s", args, got.code, code, got.stdout, got.stderr)
				}
				fmt.Fprintf(&script, "$ sidecar %s\n%s%s", anyID.ReplaceAllString(strings.Join(args, " "), "ID"), settled(got.stdout), settled(got.stderr))
				return got
			}

			see(0, "spawn", "conversation-42", "worker", "--request-id", "step-1", "--ttl", "2m", "--summary", "They want it by Friday.")
			first := must[lineage.Session](t, w, "spawn", "conversation-42", "worker", "--request-id", "step-1")
			branch := must[lineage.Session](t, w, "spawn", "latest", "helper")
			below := must[lineage.Session](t, w, "spawn", "-", "worker", "--parent", branch.ID, "--kind", "worker", "--inherit", "none", "--isolate=false")
			if below.Parent != branch.ID || below.Kind != lineage.Worker || below.Inherit != lineage.InheritNone || below.Isolated {
				t.Errorf("spawn = %+v, want what the flags say", below)
			}
			last := must[lineage.Session](t, w, "spawn", "conversation-42", "helper")
			see(4, "spawn", "conversation-42", "worker")
			see(4, "spawn", "conversation-42", "worker", "--parent", below.ID)
			see(3, "spawn", "conversation-42", "worker", "--parent", "nobody")
			see(3, "spawn", "conversation-42", "nobody")
			see(4, "spawn", "conversation-42", "namer")

			// A call runs in the first, until it is cancelled.
			ended := make(chan struct{})
			go func() {
				defer close(ended)
				resp, err := streamAs(t.Context(), w.sidecar.url("worker"), first.ContextID, "")
				if err != nil {
					t.Error(err)
					return
				}
				defer drain(resp)
				if _, err := io.Copy(io.Discard, resp.Body); err != nil {
					t.Error(err)
				}
			}()
			<-w.began
			see(0, "tree", "conversation-42")

			see(0, "suspend", branch.ID)
			see(4, "suspend", branch.ID)
			see(4, "suspend", below.ID)
			see(0, "resume", branch.ID)
			see(4, "resume", branch.ID)
			see(0, "complete", below.ID, "--summary", "Three suppliers.")
			see(4, "complete", below.ID)
			see(0, "fail", last.ID, "--reason", "no_supplier")
			got := see(4, "cancel", branch.ID, "nobody", below.ID)
			if !strings.Contains(got.stdout, branch.ID) || !strings.Contains(got.stderr, "nobody") || !strings.Contains(got.stderr, below.ID) {
				t.Errorf("cancel of three = %+v, want the outcome of each", got)
			}
			see(3, "cancel", "nobody")
			if done := must[[]lineage.Session](t, w, "cancel", first.ID); len(done) != 1 || done[0].Ending != lineage.ReasonCanceled && done[0].State != lineage.Failed {
				t.Errorf("cancel = %+v, want the session, being ended", done)
			}
			<-ended
			within(t, 20*time.Second, "the session ends", func() bool {
				s := must[lineage.Session](t, w, "session", first.ID)
				return s.State == lineage.Failed && s.Reason == lineage.ReasonCanceled
			})
			see(0, "tree", "conversation-42")
			if _, page := get(t, "http://"+w.sidecar.Admin+"/metrics"); !strings.Contains(page, `a2a_sidecar_cancels_total{agent="worker",outcome="answered"} 1`) {
				t.Error("/metrics does not count the agent that was asked to stop")
			}
			checkGolden(t, filepath.Join("testdata", "steer.golden"), script.String())
		})
	}
}

// The tree is the user's that made it: calls of others stay out.
func TestSpawnForAUser(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "sqlite::memory:")
	s := must[lineage.Session](t, w, "spawn", "hers", "helper", "--user", "alice")
	for user, want := range map[string]string{"alice": s.ID, "bob": ""} {
		ctx, leave := context.WithCancel(t.Context())
		resp, err := streamAs(ctx, w.sidecar.url("helper"), s.ContextID, user)
		if err != nil {
			t.Fatal(err)
		}
		if got := resp.Header.Get(lineage.HeaderSession); (got == s.ID) != (want != "") {
			t.Errorf("call of %s ran in %q, want in the session of alice (%s): %t", user, got, s.ID, want != "")
		}
		leave()
		drain(resp)
	}
}

// streamAs sends a message of a user that names a context, and returns once the
// answer, a stream, has begun.
func streamAs(ctx context.Context, url, contextID, user string) (*http.Response, error) {
	body := strings.Replace(sendBody("m-"+user, contextID), "SendMessage", "SendStreamingMessage", 1)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if user != "" {
		req.Header.Set(lineage.HeaderPrincipal, user)
	}
	return http.DefaultClient.Do(req)
}

func TestCompleteWithResult(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "sqlite::memory:")
	dir := t.TempDir()
	const text = `{"summary":"from the file","memoryIds":["m-1"],"artifacts":[{"id":"a","name":"n","mediaType":"text/plain","bytes":3}]}`
	file := filepath.Join(dir, "result.json")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	want := &lineage.Result{
		Status: lineage.Completed, Summary: "from the file", MemoryIDs: []string{"m-1"},
		Artifacts: []lineage.Artifact{{ID: "a", Name: "n", MediaType: "text/plain", Bytes: 3}},
	}
	for _, tt := range []struct {
		args  []string
		stdin string
		want  *lineage.Result
	}{
		{nil, "", nil},
		{[]string{"--summary", "in words"}, "", &lineage.Result{Status: lineage.Completed, Summary: "in words"}},
		{[]string{"--result", file}, "", want},
		{[]string{"--result", "-"}, text, want},
		{[]string{"--result", "-", "--summary", "from the file"}, strings.Replace(text, "from the file", "else", 1), want},
	} {
		s := must[lineage.Session](t, w, "spawn", "results", "worker")
		got := sidecarReading(t, tt.stdin, append([]string{"SIDECAR_ADMIN=" + w.sidecar.Admin, "complete", s.ID, "-o", "json"}, tt.args...)...)
		if got.code != 0 {
			t.Fatalf("complete %v = %+v", tt.args, got)
		}
		if diff := cmp.Diff(tt.want, parse[[]lineage.Session](t, got.stdout)[0].Result); diff != "" {
			t.Errorf("complete %v left (-want +got):\n%s", tt.args, diff)
		}
	}

	s := must[lineage.Session](t, w, "spawn", "results", "worker")
	for _, tt := range []struct {
		text string
		code int
		want string
	}{
		{`{"abstract":"x"}`, 2, `hint: it is JSON such as {"summary"`},
		{`{"summary":"x","summary":"y"}`, 2, "duplicate"},
		{`nonsense`, 2, "- is not what is wanted"},
		{`{"artifacts":[{}]}`, 2, "result.artifacts[0].id is missing"},
		{`{"status":"failed"}`, 2, "is not one of completed"},
		{`{"summary":"` + strings.Repeat("x", maxResult) + `"}`, 1, "is longer than"},
	} {
		got := sidecarReading(t, tt.text, "SIDECAR_ADMIN="+w.sidecar.Admin, "complete", s.ID, "--result", "-")
		if got.code != tt.code || !strings.Contains(got.stderr, tt.want) {
			t.Errorf("complete with %.40s = %d, %q, want exit %d, %q", tt.text, got.code, got.stderr, tt.code, tt.want)
		}
	}
	if got := w.run(t, "complete", s.ID, "--result", filepath.Join(dir, "none")); got.code != 1 || !strings.Contains(got.stderr, "reading the result: ") {
		t.Errorf("complete with no file = %+v, want exit 1", got)
	}
	if now := must[lineage.Session](t, w, "session", s.ID); now.State != lineage.Active {
		t.Errorf("session that nobody could complete is %s, want active", now.State)
	}
}

// How the commands end when something is wrong.
func TestSteerFailures(t *testing.T) {
	t.Parallel()
	asked := 0
	refusing := func(status int, reason string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			asked++
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"detail":"no","reason":%q}`, reason)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	const through = "changes go through a sidecar, not into its store\nhint: --admin URL says which sidecar"
	for _, tt := range []struct {
		args   []string
		code   int
		stderr string // part of it
	}{
		{[]string{"spawn"}, 2, "ROOT is missing"},
		{[]string{"spawn", "r"}, 2, "AGENT is missing"},
		{[]string{"spawn", "r", "a", "b"}, 2, `an argument too many: "b"`},
		{[]string{"spawn", "r", "a", "--ttl", "soon"}, 2, "--ttl"},
		{[]string{"spawn", "r", "a", "--isolate=perhaps"}, 2, "--isolate"},
		{[]string{"cancel"}, 2, "ID is missing\nhint: `sidecar cancel --help` says how"},
		{[]string{"suspend", "x", "--reason", "y"}, 2, "unknown flag: --reason"},
		{[]string{"spawn", "r", "a", "--store", "sqlite:x.db"}, 2, through},
		{[]string{"cancel", "x", "--store", "sqlite:x.db"}, 2, through},
		{[]string{"complete", "x", "--admin", "ftp://x"}, 2, "is not of the form"},
		{[]string{"complete", "x", "--admin", closed.URL}, 1, "hint: is `sidecar serve` running?"},
		{[]string{"spawn", "latest", "a", "--admin", closed.URL}, 1, "finding the newest tree: "},
		{[]string{"spawn", "r", "a", "--admin", refusing(400, "")}, 2, "spawning a session: no"},
		{[]string{"spawn", "r", "a", "--admin", refusing(400, "DEPTH_LIMIT")}, 4, "spawning a session: no"},
		{[]string{"spawn", "r", "a", "--admin", refusing(403, "CONTEXT_FORBIDDEN")}, 4, "no"},
		{[]string{"spawn", "r", "a", "--admin", refusing(403, "")}, 1, "no"},
		{[]string{"spawn", "r", "a", "--admin", refusing(404, "UNKNOWN_AGENT")}, 3, "hint: it is one of the names under agents"},
		{[]string{"spawn", "r", "a", "--admin", refusing(409, "PARENT_ENDED")}, 4, "no"},
		{[]string{"spawn", "r", "a", "--admin", refusing(429, "CHILDREN_LIMIT")}, 4, "no"},
		{[]string{"spawn", "r", "a", "--admin", refusing(501, "READ_ONLY")}, 1, "no"},
		{[]string{"spawn", "r", "a", "--admin", refusing(503, "STORE_UNAVAILABLE")}, 1, "no"},
		{[]string{"fail", "x", "--admin", refusing(409, "Conflict")}, 4, "failing session x: no\nhint: `sidecar session ID` shows how it stands"},
		{[]string{"cancel", "x", "y", "--admin", refusing(404, "")}, 3, "canceling session x: no; canceling session y: no"},
	} {
		got := sidecar(t, tt.args...)
		if got.code != tt.code || !strings.Contains(got.stderr, tt.stderr) || !strings.HasPrefix(got.stderr, "sidecar: ") || got.stdout != "" {
			t.Errorf("%v: exit %d, %q %q, want exit %d, %q", tt.args, got.code, got.stdout, got.stderr, tt.code, tt.stderr)
		}
	}
	// A sidecar that is not there is not asked about each session.
	if got := sidecar(t, "cancel", "x", "y", "--admin", closed.URL); got.code != 1 || strings.Contains(got.stderr, "session y") {
		t.Errorf("cancel at a sidecar that is not there = %+v, want to hear of it once", got)
	}
	if got := sidecar(t, "cancel", "x", "--admin", refusing(404, ""), "-o", "json"); got.code != 3 || got.stdout != "[]\n" {
		t.Errorf("cancel of nothing as JSON = %+v, want an empty list", got)
	}
}

func TestSteerHelp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"spawn", "complete", "fail", "suspend", "resume", "cancel"} {
		got := sidecar(t, name, "--help")
		if got.code != 0 || !strings.Contains(got.stdout, "Examples:\n  sidecar "+name) || strings.Contains(got.stdout, "--store") || got.stderr != "" {
			t.Errorf("%s --help = %+v, want an example, and nothing of --store", name, got)
		}
	}
	if got := sidecar(t, "help"); !strings.Contains(got.stdout, "Steer:") {
		t.Errorf("help = %s, want the commands that steer", got.stdout)
	}
}

func TestSteerCompletion(t *testing.T) {
	t.Parallel()
	w := startWorld(t, "sqlite::memory:")
	s := must[lineage.Session](t, w, "spawn", "conversation-42", "helper")
	leaf := must[lineage.Session](t, w, "spawn", "conversation-42", "worker", "--kind", "worker")
	done := must[lineage.Session](t, w, "spawn", "conversation-42", "worker")
	must[[]lineage.Session](t, w, "complete", done.ID)
	for _, tt := range []struct {
		args      []string
		want, not []string
	}{
		{[]string{"spawn", ""}, []string{"latest\t", "conversation-42\t"}, nil},
		{[]string{"spawn", "latest", ""}, []string{"helper\n", "worker\n"}, nil},
		{[]string{"spawn", "conversation-42", ""}, []string{"helper\n"}, nil},
		{[]string{"spawn", "other", ""}, nil, []string{"helper"}},
		{[]string{"spawn", "r", "a", "--kind", ""}, []string{"branch\n", "worker\n"}, []string{"main"}},
		{[]string{"spawn", "r", "a", "--inherit", ""}, []string{"full\n", "summary\n", "none\n"}, nil},
		{[]string{"cancel", ""}, []string{s.ID + "\tcoordinator.helper@1, reserved", leaf.ID}, []string{done.ID}},
		{[]string{"cancel", s.ID, ""}, []string{leaf.ID}, []string{s.ID, done.ID}},
		{[]string{"suspend", ""}, []string{s.ID}, []string{leaf.ID, done.ID}},
		{[]string{"resume", ""}, nil, []string{s.ID, leaf.ID, done.ID}},
	} {
		got := w.run(t, append([]string{"__complete"}, tt.args...)...)
		for _, want := range tt.want {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("completing %v = %q, want %q in it", tt.args, got.stdout, want)
			}
		}
		for _, not := range tt.not {
			if strings.Contains(got.stdout, not) {
				t.Errorf("completing %v = %q, want no %q in it", tt.args, got.stdout, not)
			}
		}
	}
}

// Trees of many sessions are drawn in part, unless all are asked for.
func TestTreeInPart(t *testing.T) {
	t.Parallel()
	store, url := recorded(t)
	if err := store.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	const more = "there are 1 session more: --limit N shows so many, --limit 0 all\n"
	got := sidecar(t, "tree", "latest", "--store", url, "--limit", "2")
	if got.code != 0 || strings.Contains(got.stdout, "worker@2") || !strings.Contains(got.stdout, "conversation/1   3 sessions · 2 live · depth 1 · started") ||
		!strings.Contains(got.stdout, "the first 2 drawn") || got.stderr != more {
		t.Errorf("tree --limit 2 = %+v, want the counts of the whole, 2 sessions, and to hear of the third", got)
	}
	got = sidecar(t, "tree", "latest", "--store", url, "--limit", "2", "-o", "json")
	if view := parse[adminapi.TreeView](t, got.stdout); len(view.Sessions) != 2 || view.Next != 2 || view.Counts.Sessions != 3 || got.stderr != more {
		t.Errorf("tree --limit 2 -o json = %+v, want 2 sessions, next 2", got)
	}
	for _, limit := range []string{"0", "3", "1000"} {
		got := sidecar(t, "tree", "latest", "--store", url, "--limit", limit)
		if got.code != 0 || !strings.Contains(got.stdout, "worker@2") || strings.Contains(got.stdout, "drawn") || got.stderr != "" {
			t.Errorf("tree --limit %s = %+v, want all of it", limit, got)
		}
	}
	if got := sidecar(t, "tree", "latest", "--store", url, "--limit", "-1"); got.code != 2 || !strings.Contains(got.stderr, "--limit is -1") {
		t.Errorf("tree --limit -1 = %+v, want exit 2", got)
	}
}
