package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
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

// ran is what became of a run of the program.
type ran struct {
	code           int
	stdout, stderr string
}

// sidecar runs the program in this process. Args that begin with NAME= are
// variables.
func sidecar(t *testing.T, args ...string) ran {
	t.Helper()
	return sidecarReading(t, "", args...)
}

func sidecarReading(t *testing.T, stdin string, args ...string) ran {
	t.Helper()
	vars := map[string]string{}
	for len(args) > 0 && regexp.MustCompile(`^[A-Z_]+=`).MatchString(args[0]) {
		name, value, _ := strings.Cut(args[0], "=")
		vars[name] = value
		args = args[1:]
	}
	lookup := func(name string) (string, bool) { v, ok := vars[name]; return v, ok }
	var stdout, stderr strings.Builder
	code := run(t.Context(), args, lookup, strings.NewReader(stdin), &stdout, &stderr)
	return ran{code, stdout.String(), stderr.String()}
}

// recorded is a store in a file, with a tree "conversation/1" of a coordinator
// and two workers, one of them hostile, and a smaller tree "other".
func recorded(t *testing.T) (store *sqlite.Store, url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sidecar.db")
	at := treeTime
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: file, Now: func() time.Time { at = at.Add(time.Second); return at }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("Close() = %v", err)
		}
	})
	calls := []struct{ root, name, text string }{
		{"other", "x", "hello"}, {"conversation/1", "a", "hello"}, {"conversation/1", "b", "\x1b]0;owned\x07\nbye"},
	}
	for _, c := range calls {
		sent, err := json.Marshal(map[string]any{"parts": []any{map[string]string{"text": c.text}}})
		if err != nil {
			t.Fatal(err)
		}
		id := c.root + "/" + c.name
		op := &sessions.Op{Admit: &sessions.Admission{
			Root: c.root, Local: "coordinator", MainID: c.root + "/main", Agent: "worker", Kind: lineage.Worker, Isolated: true,
			Inherit: lineage.InheritNone, ContextID: id + "/ctx", SessionID: id, RunID: id + "/run", MessageID: id + "/msg",
			Source: lineage.FromHeader, Owner: "test", Lease: time.Hour, Sent: sent,
		}}
		if store.Apply(t.Context(), []*sessions.Op{op}); op.Err != nil {
			t.Fatal(op.Err)
		}
	}
	return store, "sqlite:" + file
}

// places are the two ways to look: the flags for each.
func places(t *testing.T) map[string][]string {
	t.Helper()
	store, url := recorded(t)
	srv := httptest.NewServer(admin.New(admin.Options{Reader: store, Token: "sesame"}))
	t.Cleanup(srv.Close)
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("sesame\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return map[string][]string{
		"admin":             {"--admin", srv.URL, "--token-file", token},
		"admin, no scheme":  {"--admin", strings.TrimPrefix(srv.URL, "http://"), "--token-file", token},
		"store, read-only":  {"--store", url},
		"admin, by default": {"SIDECAR_ADMIN=" + srv.URL, "SIDECAR_TOKEN_FILE=" + token},
	}
}

// at puts the flags of a place behind args, and its variables before them.
func at(place []string, args ...string) []string {
	if strings.HasPrefix(place[0], "--") {
		return append(args, place...)
	}
	return append(append([]string{}, place...), args...)
}

func TestLook(t *testing.T) {
	t.Parallel()
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, tt := range []struct {
				args []string
				code int
				want []string // all in the output, or in the errors if the code is not 0
			}{
				{[]string{"trees"}, 0, []string{"ROOT", "conversation/1  active         3     2", "coordinator, worker"}},
				{[]string{"trees", "--query", "other"}, 0, []string{"other"}},
				{[]string{"trees", "--state", "busy"}, 2, []string{`state "busy" is not one of`}},
				{[]string{"tree", "latest"}, 0, []string{"conversation/1   3 sessions · 2 live", "├─ worker@1", "└─ worker@2", "ctx conversation/1/b/ctx"}},
				{[]string{"tree", "-"}, 0, []string{"conversation/1"}},
				{[]string{"tree", "conv"}, 0, []string{"conversation/1"}},
				{[]string{"tree", ""}, 2, []string{"2 root context ids begin with that"}},
				{[]string{"tree", "none"}, 3, []string{`finding tree "none"`, "hint: `sidecar trees` lists them"}},
				{[]string{"events", "conversation/1"}, 0, []string{`coordinator.worker@1  message.sent       "hello"`, `"\x1b]0;owned\a\nbye"`}},
				{[]string{"events", "latest", "--as", "coordinator.worker@1", "--type", "message.sent"}, 0, []string{"hello"}},
				{[]string{"events", "latest", "--as", "nobody"}, 3, []string{`no session with the id or branch "nobody"`}},
				{[]string{"session", "conversation/1/b"}, 0, []string{"branch     coordinator.worker@2", "context    conversation/1/b/ctx", "worker, isolated", "message conversation/1/b/msg"}},
				{[]string{"session", "none"}, 3, []string{"no session with the id"}},
			} {
				got := sidecar(t, at(place, tt.args...)...)
				out := got.stdout
				if tt.code != 0 {
					out = got.stderr
				}
				if got.code != tt.code {
					t.Errorf("%v: exit %d, want %d\n%s%s", tt.args, got.code, tt.code, got.stdout, got.stderr)
				}
				for _, want := range tt.want {
					if !strings.Contains(out, want) {
						t.Errorf("%v printed\n%s\nwant %q in it", tt.args, out, want)
					}
				}
				if strings.ContainsAny(got.stdout+got.stderr, "\x1b\x07") {
					t.Errorf("%v printed %q, want no control characters", tt.args, got.stdout+got.stderr)
				}
			}
		})
	}
}

func parse[T any](t *testing.T, text string) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return v
}

func TestLookJSON(t *testing.T) {
	t.Parallel()
	for name, place := range places(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			trees := parse[adminapi.TreePage](t, sidecar(t, at(place, "trees", "-o", "json", "--limit", "1")...).stdout)
			if len(trees.Trees) != 1 || trees.Trees[0].Root != "conversation/1" || trees.Next == "" {
				t.Errorf("trees = %+v, want the newest and a cursor", trees)
			}
			tree := parse[adminapi.TreeView](t, sidecar(t, at(place, "tree", "latest", "-o", "json")...).stdout)
			if tree.Root != "conversation/1" || len(tree.Sessions) != 3 || tree.Counts.Live != 2 {
				t.Errorf("tree = %+v, want 3 sessions, 2 live", tree)
			}
			if tree.Limits != nil {
				t.Errorf("tree has limits %+v, want none: nobody told them", tree.Limits)
			}
			events := parse[adminapi.EventPage](t, sidecar(t, at(place, "events", "latest", "-o", "json")...).stdout)
			if len(events.Events) != 5 || events.Next != 5 {
				t.Errorf("events = %d, next %d, want 5, next 5", len(events.Events), events.Next)
			}
			last := parse[adminapi.EventPage](t, sidecar(t, at(place, "events", "latest", "--last", "2", "-o", "json")...).stdout)
			if diff := cmp.Diff(events.Events[3:], last.Events); diff != "" {
				t.Errorf("last 2 events (-want +got):\n%s", diff)
			}
			s := parse[lineage.Session](t, sidecar(t, at(place, "session", "conversation/1/a", "-o", "json")...).stdout)
			if s.Branch != "coordinator.worker@1" || len(s.Runs) != 1 {
				t.Errorf("session = %+v, want worker@1 with its run", s)
			}
		})
	}
}

// How the program ends when something is wrong, and what it says then.
func TestFailures(t *testing.T) {
	t.Parallel()
	_, url := recorded(t)
	empty := filepath.Join(t.TempDir(), "empty")
	if err := os.WriteFile(empty, []byte(" \n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refusing := func(status int, reason string) string {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/problem+json")
			w.WriteHeader(status)
			_, _ = fmt.Fprintf(w, `{"detail":"no: %s\u001b[2J"}`, reason)
		}))
		t.Cleanup(srv.Close)
		return srv.URL
	}
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	moved := httptest.NewServer(http.RedirectHandler("http://127.0.0.1:1/", http.StatusFound))
	t.Cleanup(moved.Close)

	for _, tt := range []struct {
		args   []string
		code   int
		stderr string // part of it
	}{
		{[]string{"bogus"}, 2, `unknown command "bogus"`},
		{[]string{"tre"}, 2, "did you mean `sidecar tree`?"},
		{[]string{"tree"}, 2, "ROOT is missing\nhint: `sidecar tree --help` says how"},
		{[]string{"tree", "a", "b"}, 2, `an argument too many: "b"`},
		{[]string{"session"}, 2, "ID is missing"},
		{[]string{"trees", "--bogus"}, 2, "unknown flag: --bogus"},
		{[]string{"trees", "-o", "yaml"}, 2, "it is text or json"},
		{[]string{"trees", "--limit", "-1"}, 2, "--limit is -1"},
		{[]string{"events", "x", "--limit", "-1"}, 2, "--limit is -1"},
		{[]string{"events", "x", "--last", "0"}, 2, "--last is 0, not 1 to 1000"},
		{[]string{"events", "x", "--last", "1001"}, 2, "--last is 1001"},
		{[]string{"events", "x", "--last", "1", "--after", "1"}, 2, "--last does not go together"},
		{[]string{"events", "x", "--follow", "--limit", "1"}, 2, "--follow does not go together"},
		{[]string{"trees", "--admin", "x", "--store", url}, 2, "--admin and --store do not go together"},
		{[]string{"trees", "--admin", "ftp://x"}, 2, "is not of the form http://HOST:PORT"},
		{[]string{"trees", "--store", "mongo://x:secret@y"}, 2, "no such kind of store"},
		{[]string{"trees", "--store", "sqlite::memory:"}, 2, "hint: --admin URL asks that process"},
		{[]string{"trees", "--store", "sqlite:/no/such/file.db"}, 1, "/no/such/file.db"},
		{[]string{"trees", "--token-file", "/no/such/file"}, 1, "reading a secret"},
		{[]string{"trees", "--token-file", empty}, 1, "is empty"},
		{[]string{"trees", "--admin", closed.URL}, 1, "hint: is `sidecar serve` running?"},
		{[]string{"trees", "--admin", moved.URL}, 1, "302 Found"},
		{[]string{"trees", "--admin", refusing(401, "who")}, 1, "hint: --token-file FILE"},
		{[]string{"trees", "--admin", refusing(421, "host")}, 1, "hint: call it by the address"},
		{[]string{"trees", "--admin", refusing(409, "busy")}, 4, "sidecar: listing trees: no: busy\\x1b[2J\n"},
		{[]string{"trees", "--admin", refusing(429, "full")}, 4, "no: full"},
		{[]string{"trees", "--admin", refusing(503, "down")}, 1, "no: down"},
		{[]string{"tree", "x", "--admin", refusing(500, "oops")}, 1, `finding tree "x": no: oops`},
		{[]string{"events", "latest", "--admin", refusing(500, "oops")}, 1, "finding the newest tree: no: oops"},
		{[]string{"session", "x", "--admin", refusing(500, "oops")}, 1, "reading the session: no: oops"},
	} {
		got := sidecar(t, tt.args...)
		if got.code != tt.code || !strings.Contains(got.stderr, tt.stderr) || !strings.HasPrefix(got.stderr, "sidecar: ") {
			t.Errorf("%v: exit %d, %q, want exit %d, %q", tt.args, got.code, got.stderr, tt.code, tt.stderr)
		}
		if got.stdout != "" {
			t.Errorf("%v printed %q to standard output, want nothing", tt.args, got.stdout)
		}
		if strings.ContainsAny(got.stderr, "\x1b") || strings.Contains(got.stderr, "secret@") {
			t.Errorf("%v printed %q, want neither control characters nor passwords", tt.args, got.stderr)
		}
	}
}

func TestNoTrees(t *testing.T) {
	t.Parallel()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: sqlite.Memory})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	srv := httptest.NewServer(admin.New(admin.Options{Reader: store}))
	t.Cleanup(srv.Close)
	if got, want := sidecar(t, "trees", "--admin", srv.URL), (ran{0, "", "no trees\n"}); got != want {
		t.Errorf("trees of nothing = %+v, want %+v", got, want)
	}
	if got := sidecar(t, "trees", "--admin", srv.URL, "-o", "json"); got.stdout != "{\n  \"trees\": []\n}\n" {
		t.Errorf("trees of nothing as JSON = %q, want an empty list", got.stdout)
	}
	if got := sidecar(t, "tree", "latest", "--admin", srv.URL); got.code != 3 || !strings.Contains(got.stderr, "there is none yet") {
		t.Errorf("tree latest of nothing = %+v, want exit 3", got)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	if got := sidecar(t, "version"); got.code != 0 || !regexp.MustCompile(`^sidecar \S+ \(commit \S+, go\S+, \w+/\w+\)\n$`).MatchString(got.stdout) {
		t.Errorf("version = %+v, want version, commit, Go version and platform", got)
	}
	b := parse[build](t, sidecar(t, "version", "-o", "json").stdout)
	if b.Version == "" || b.Commit == "" || b.Go == "" || b.Platform == "" {
		t.Errorf("version -o json = %+v, want every member", b)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	good, bad := filepath.Join(dir, "good.yml"), filepath.Join(dir, "bad.yml")
	for file, text := range map[string]string{
		good: "agents:\n- {name: worker, url: 'http://worker:8080'}\n",
		bad:  "agents:\n- {name: worker, url: 'http://worker:8080', kind: wrker}\nbogus: \"\\e[2J\"\nlimits: {maxDepth: 9}\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got := sidecar(t, "check", "--config", good); got.code != 0 || got.stdout != good+": no faults (1 agent, store sqlite:sidecar.db)\n" {
		t.Errorf("check good = %+v, want no faults", got)
	}
	for _, args := range [][]string{{"check", "--config", bad}, {"SIDECAR_CONFIG=" + bad, "check"}} {
		got := sidecar(t, args...)
		if got.code != 1 || strings.Count(got.stdout, "\n") != 3 || !strings.Contains(got.stdout, bad+":2: agents[0].kind") ||
			got.stderr != "sidecar: checking "+bad+": 3 faults found\n" || strings.Contains(got.stdout, "\x1b") {
			t.Errorf("%v = %+v, want 3 faults, a line each", args, got)
		}
	}
	got := sidecar(t, "check", "--config", bad, "-o", "json")
	doc := parse[checked](t, got.stdout)
	if got.code != 1 || doc.OK || len(doc.Faults) != 3 || doc.Faults[0].Line != 2 || doc.Faults[0].Hint == "" {
		t.Errorf("check bad -o json = %+v, want 3 faults, the first on line 2 with a hint", doc)
	}
	doc = parse[checked](t, sidecar(t, "check", "--config", good, "-o", "json").stdout)
	if !doc.OK || doc.Faults == nil {
		t.Errorf("check good -o json = %+v, want ok and an empty list", doc)
	}
	if got := sidecarReading(t, "bogus: 1\n", "check", "--config", "-"); got.code != 1 || !strings.HasPrefix(got.stdout, "stdin:1: bogus") {
		t.Errorf("check of standard input = %+v, want its fault", got)
	}
	if got := sidecar(t, "SIDECAR_LIMITS_MAX_DEPTH=9", "check"); got.code != 1 || !strings.Contains(got.stdout, "SIDECAR_LIMITS_MAX_DEPTH") {
		t.Errorf("check of the environment = %+v, want its fault", got)
	}
	if got := sidecar(t, "check", "--config", filepath.Join(dir, "none")); got.code != 1 || !strings.HasPrefix(got.stderr, "sidecar: reading the configuration: ") {
		t.Errorf("check of no file = %+v, want exit 1", got)
	}
}

func TestSchema(t *testing.T) {
	t.Parallel()
	got := sidecar(t, "schema")
	if schema := parse[map[string]any](t, got.stdout); got.code != 0 || schema["$schema"] == nil {
		t.Errorf("schema = %+v, want a JSON Schema", got)
	}
}

// Every command says what it is for and shows an example.
func TestHelp(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"trees", "tree", "events", "session", "check", "schema", "version"} {
		got := sidecar(t, name, "--help")
		if got.code != 0 || !strings.Contains(got.stdout, "Examples:\n  sidecar "+name) || got.stderr != "" {
			t.Errorf("%s --help = %+v, want an example", name, got)
		}
	}
	if got := sidecar(t); got.code != 0 || !strings.Contains(got.stdout, "Look:") {
		t.Errorf("no command = %+v, want the help", got)
	}
}

func TestCompletion(t *testing.T) {
	t.Parallel()
	_, url := recorded(t)
	for _, tt := range []struct {
		args []string
		want []string
	}{
		{[]string{"tre"}, []string{"tree\t", "trees\t"}},
		{[]string{"trees", "-o", ""}, []string{"text\n", "json\n"}},
		{[]string{"trees", "--state", ""}, []string{"active\n", "idle\n"}},
		{[]string{"tree", "--store", url, ""}, []string{"latest\t", "conversation/1\t3 sessions", "other\t"}},
	} {
		got := sidecar(t, append([]string{"__complete"}, tt.args...)...)
		for _, want := range tt.want {
			if !strings.Contains(got.stdout, want) {
				t.Errorf("completing %v = %q, want %q in it", tt.args, got.stdout, want)
			}
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if got := sidecar(t, "completion", shell); got.code != 0 || len(got.stdout) < 1000 {
			t.Errorf("completion %s: exit %d, %d bytes, want a script", shell, got.code, len(got.stdout))
		}
	}
}

// A write that fails is an error, not a success without output.
func TestOutputFails(t *testing.T) {
	t.Parallel()
	var stderr strings.Builder
	for _, args := range [][]string{{"version"}, {"version", "-o", "json"}, {"schema"}, {"check"}} {
		if code := run(t.Context(), args, noVars, strings.NewReader(""), brokenWriter{}, &stderr); code != 1 {
			t.Errorf("%v with a broken output: exit %d, want 1", args, code)
		}
	}
}
