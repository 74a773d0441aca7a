package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
)

// runDemo runs `sidecar demo` with args to its end.
func runDemo(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	code = run(t.Context(), append([]string{"demo"}, args...), noEnv, strings.NewReader(""), &out, &errs)
	return code, out.String(), errs.String()
}

// Not parallel: another test's goroutines would look like the demo's.
func TestDemoOnce(t *testing.T) {
	before := goleak.IgnoreCurrent()
	code, stdout, stderr := runDemo(t, "--once")
	if code != exitDone || stderr != "" {
		t.Fatalf("demo --once = %d, stderr %q, want %d and none; it printed:\n%s", code, stderr, exitDone, stdout)
	}
	// How many of the calls meet depends on how fast the machine is; that some do
	// is what the demo itself makes sure of.
	for _, want := range []string{
		`(?m)^One conversation, 11 calls at once\. Twice\.$`,
		`(?m)^ +shared +isolated$`,
		`(?m)^isolateSessions +false +true$`,
		`(?m)^calls sent +11 +11$`,
		`(?m)^context id sent +the conversation's, …(\w{12}) +the conversation's, …\w{12}$`,
		`(?m)^contexts at the agent +1 +11$`,
		`(?m)^messages in each +11 +1$`,
		`(?m)^others' messages read +(\d+ to )?\d+ by each call +none$`,
		`(?m)^"tidal power" also read +\S.* +nothing else$`,
		`(?m)^the sidecar's record +context\.collapsed × \d+ +nothing to note$`,
		`(?m)^ +✗ tangled: 11 calls in 1 session +✓ clean: 11 calls in 11 sessions$`,
		`(?m)13 sessions · 0 live · depth 1 · 3 agents`,
		`(?m)^├─ shared@1 .* 11 runs`,
		`(?m)^└─ isolated@12 .* completed`,
		`(?m)^isolated +5m00s +11 +[1-8] +\d+ +0$`,
		`(?m)^no-queue +0 +11 +[1-8] +0 +\d+$`,
		`fan-out limit reached: session coordinator has 8 of 8 children running \(maxChildren\); retry when\n  one ends`,
		`(?m)^sidecar demo +stays up`,
	} {
		if !regexp.MustCompile(want).MatchString(stdout) {
			t.Errorf("demo --once does not print %q; it printed:\n%s", want, stdout)
		}
	}
	if strings.Contains(stdout, "\x1b") {
		t.Error("demo --once prints colours to what is no terminal")
	}
	for line := range strings.Lines(stdout) {
		if n := columns(strings.TrimSuffix(line, "\n")); n > demoWidth {
			t.Errorf("a line has %d columns, want at most %d: %s", n, demoWidth, line)
		}
	}
	goleak.VerifyNone(t, before)
}

func TestDemoJSON(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runDemo(t, "--once", "--calls", "3", "-o", "json")
	if code != exitDone || stderr != "" {
		t.Fatalf("demo --once -o json = %d, stderr %q, want %d and none", code, stderr, exitDone)
	}
	var o demoOutcome
	if err := json.Unmarshal([]byte(stdout), &o); err != nil {
		t.Fatalf("decoding %s: %v", stdout, err)
	}
	if err := o.verify(); err != nil {
		t.Errorf("the printed outcome is not what the demo claims: %v", err)
	}
	if o.Calls != 3 || o.Shared.Contexts != 1 || o.Isolated.Contexts != 3 || o.Hasty.Refused == 0 || len(o.Sessions) != 5 {
		t.Errorf("outcome of 3 calls = %+v", o)
	}
	if o.Admin != "" || o.Outbound != "" || o.Store != "" {
		t.Errorf("outcome names what has ended: admin %q, outbound %q, store %q", o.Admin, o.Outbound, o.Store)
	}
}

// One call has nobody to be tangled with.
func TestDemoOfOneCall(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := runDemo(t, "--once", "--calls", "1")
	if code != exitDone || stderr != "" {
		t.Fatalf("demo --once --calls 1 = %d, stderr %q, want %d and none", code, stderr, exitDone)
	}
	if want := "✓ clean: 1 call in 1 session "; !strings.Contains(stdout, want) {
		t.Errorf("demo --once --calls 1 does not print %q; it printed:\n%s", want, stdout)
	}
}

func TestDemoStaysUp(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	stdout, w := io.Pipe()
	code := make(chan int, 1)
	var stderr lockedBuffer
	go func() {
		code <- run(ctx, []string{"demo", "--calls", "2", "-o", "json"}, noEnv, strings.NewReader(""), w, &stderr)
		_ = w.Close() // the end of the output
	}()
	var o demoOutcome
	if err := json.NewDecoder(stdout).Decode(&o); err != nil {
		t.Fatalf("decoding the outcome: %v; stderr: %s", err, stderr.String())
	}
	go func() { _, _ = io.Copy(io.Discard, stdout) }() // what comes after it

	transport := &http.Transport{}
	defer transport.CloseIdleConnections()
	client, err := adminapi.New(o.Admin, "", &http.Client{Transport: transport})
	if err != nil {
		t.Fatal(err)
	}
	tree, err := client.Tree(ctx, o.Conversation)
	if err != nil {
		t.Fatalf("asking the sidecar that stays up: %v", err)
	}
	if len(tree.Sessions) != len(o.Sessions) {
		t.Errorf("the tree has %d sessions, the demo printed %d", len(tree.Sessions), len(o.Sessions))
	}
	card, err := http.NewRequestWithContext(ctx, http.MethodGet, o.Outbound+"/agents/shared/.well-known/agent-card.json", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := (&http.Client{Transport: transport}).Do(card)
	if err != nil {
		t.Fatalf("asking for a card: %v", err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the card of an agent = %s, want 200", resp.Status)
	}
	interrupt()
	if got := <-code; got != exitDone {
		t.Errorf("demo, interrupted = %d, want %d; stderr: %s", got, exitDone, stderr.String())
	}
}

func TestDemoKeepsTheRecordOfAStore(t *testing.T) {
	t.Parallel()
	store := "sqlite:" + filepath.Join(t.TempDir(), "demo.db")
	code, stdout, stderr := runDemo(t, "--once", "--calls", "2", "--store", store)
	if code != exitDone || stderr != "" {
		t.Fatalf("demo --once --store = %d, stderr %q, want %d and none", code, stderr, exitDone)
	}
	look := regexp.MustCompile(`(?m)^sidecar tree (\S+) --store (\S+)$`).FindStringSubmatch(stdout)
	if look == nil {
		t.Fatalf("demo does not say how to look at the tree; it printed:\n%s", stdout)
	}
	var tree, errs bytes.Buffer
	code = run(t.Context(), []string{"tree", look[1], "--store", look[2]}, noEnv, strings.NewReader(""), &tree, &errs)
	if code != exitDone || !strings.Contains(tree.String(), "isolated@3") {
		t.Errorf("%s = %d, %q, stderr %q; want the tree", look[0], code, tree.String(), errs.String())
	}
}

func TestDemoRefusesWrongUsage(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--calls", "0"}, exitUsage, "--calls is 0"},
		{[]string{"--calls", "65"}, exitUsage, "--calls is 65"},
		{[]string{"--once", "--store", "mongo:x"}, exitFailed, "mongo"},
		{[]string{"extra"}, exitUsage, "extra"},
	} {
		code, stdout, stderr := runDemo(t, tt.args...)
		if code != tt.code || !strings.Contains(stderr, tt.says) || stdout != "" {
			t.Errorf("demo %q = %d, stderr %q, stdout %q; want %d, stderr with %q", tt.args, code, stderr, stdout, tt.code, tt.says)
		}
	}
}

func TestDemoInterrupted(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	interrupt()
	var out, errs bytes.Buffer
	code := run(ctx, []string{"demo"}, noEnv, strings.NewReader(""), &out, &errs)
	if code != exitFailed || !strings.Contains(errs.String(), "context canceled") {
		t.Errorf("demo under an ended context = %d, stderr %q, want %d, canceled", code, errs.String(), exitFailed)
	}
}

// What the agents hear of lineage: in every scene the conversation, told by the
// coordinator or found by the sidecar, and a session for each call.
func TestDemoTellsLineage(t *testing.T) {
	t.Parallel()
	const calls = 3
	world, err := startDemoWorld(t.Context(), demoOptions{Store: demoStore, Calls: calls, Delay: demoDelay / 4},
		slog.New(slog.DiscardHandler), func(string) string { return "" })
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := world.stop(); err != nil {
			t.Errorf("stop() = %v", err)
		}
	}()
	o, err := world.play(t.Context(), calls)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		agent    *agents.Agent
		root     string
		sessions int
	}{
		{world.agents[demoShared], o.Conversation, 1},
		{world.agents[demoIsolated], o.Conversation, calls},
		{world.agents[demoHasty], o.Burst, o.Hasty.Answered},
	} {
		sessions := map[string]bool{}
		for _, call := range tt.agent.Calls() {
			for _, name := range []string{"x-kagent-root-context-id", "x-kagent-parent-context-id"} {
				if got := call.Header.Values(name); len(got) != 1 || got[0] != tt.root {
					t.Errorf("header %s at %s = %q, want %q once", name, tt.agent.URL(), got, tt.root)
				}
			}
			sessions[call.Header.Get("x-sidecar-session-id")] = true
		}
		if len(sessions) != tt.sessions {
			t.Errorf("calls to %s ran in sessions %v, want %d", tt.agent.URL(), sessions, tt.sessions)
		}
	}
}
