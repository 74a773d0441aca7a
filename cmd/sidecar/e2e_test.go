package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// served is a sidecar that runs the serve command in this process.
type served struct {
	Outbound, Admin, Callbacks string            // host:port
	GRPC                       map[string]string // by agent

	stop   context.CancelFunc
	code   chan int
	stderr *lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// noEnv is an environment without variables.
func noEnv(string) (string, bool) { return "", false }

// startServe runs `sidecar serve` on free ports until the test ends.
func startServe(t *testing.T, args ...string) *served {
	t.Helper()
	return startServeEnv(t, noEnv, args...)
}

func startServeEnv(t *testing.T, lookupEnv func(string) (string, bool), args ...string) *served {
	t.Helper()
	addrs := filepath.Join(t.TempDir(), "addrs.json")
	ctx, stop := context.WithCancel(context.Background())
	s := &served{stop: stop, code: make(chan int, 1), stderr: &lockedBuffer{}}
	args = append([]string{"serve", "--outbound", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--addr-file", addrs}, args...)
	go func() { s.code <- run(ctx, args, lookupEnv, strings.NewReader(""), io.Discard, s.stderr) }()
	t.Cleanup(func() { s.shutdown(t) })

	look := time.NewTicker(5 * time.Millisecond)
	defer look.Stop()
	give, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for {
		b, err := os.ReadFile(addrs)
		if err == nil {
			if err := json.Unmarshal(b, s); err != nil {
				t.Fatalf("address file %q: %v", b, err)
			}
			return s
		}
		select {
		case code := <-s.code:
			s.code <- code
			t.Fatalf("serve %v ended with %d: %s", args, code, s.stderr)
		case <-give.Done():
			t.Fatalf("serve %v did not come up: %s", args, s.stderr)
		case <-look.C:
		}
	}
}

// shutdown stops the sidecar and checks that it ended well.
func (s *served) shutdown(t *testing.T) {
	t.Helper()
	s.stop()
	if code := <-s.code; code != exitDone {
		t.Errorf("serve ended with %d: %s", code, s.stderr)
	}
	s.code <- exitDone
}

func (s *served) url(agent string) string { return "http://" + s.Outbound + "/agents/" + agent }

func (s *served) client(t *testing.T) *adminapi.Client {
	t.Helper()
	c, err := adminapi.New("http://"+s.Admin, "", http.DefaultClient)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func startAgent(t *testing.T, o agents.Options) *agents.Agent {
	t.Helper()
	a, err := agents.Start(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// stores are the stores that every sidecar must work with.
func stores(t *testing.T) map[string]string {
	t.Helper()
	return map[string]string{
		"sqlite": "sqlite:" + filepath.Join(t.TempDir(), "e2e.db"),
		"redis":  redistest.Start(t).URL(),
	}
}

func sendBody(messageID, contextID string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":%q,"contextId":%q,"role":"ROLE_USER","parts":[{"text":"go"}]}}}`, messageID, contextID)
}

// reply is a JSON-RPC response, as far as these tests look.
type reply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Code    int    `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
}

// drain ends a response. What could go wrong with that is no concern of a test.
func drain(resp *http.Response) { _ = resp.Body.Close() }

func post(ctx context.Context, url, body string) (reply, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return reply{}, err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return reply{}, err
	}
	defer drain(resp)
	var r reply
	return r, json.NewDecoder(resp.Body).Decode(&r)
}

// Sixty-four calls race through two sidecars over one Redis for eight places.
func TestCapHoldsAcrossSidecars(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	agent := startAgent(t, agents.Options{Name: "worker", Work: func(ctx context.Context) error {
		select {
		case <-release:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}})
	store := redistest.Start(t).URL()
	file := filepath.Join(t.TempDir(), "sidecar.yml")
	yml := fmt.Sprintf("agents:\n  - {name: worker, url: %q, isolateSessions: true}\nlimits: {maxChildren: 8, queueTimeout: 0s}\nstore: %s\n", agent.URL(), store)
	if err := os.WriteFile(file, []byte(yml), 0o600); err != nil {
		t.Fatal(err)
	}
	sidecars := []*served{startServe(t, "--config", file), startServe(t, "--config", file)}

	const calls, places = 64, 8
	type outcome struct {
		reply reply
		err   error
	}
	outcomes := make(chan outcome, calls)
	for i := range calls {
		go func() {
			r, err := post(t.Context(), sidecars[i%2].url("worker"), sendBody(fmt.Sprintf("m-%d", i), "race"))
			outcomes <- outcome{r, err}
		}()
	}
	const words = "fan-out limit reached: session coordinator has 8 of 8 children running (maxChildren); retry when one ends"
	for range calls - places {
		o := <-outcomes
		if o.err != nil {
			t.Fatal(o.err)
		}
		if o.reply.Error == nil || o.reply.Error.Code != -32050 || o.reply.Error.Message != words {
			t.Fatalf("refused call got %+v, want -32050 %q", o.reply.Error, words)
		}
	}
	// Those with a place may still be on their way to the agent.
	within(t, 10*time.Second, "the agent has the admitted calls", func() bool { return len(agent.Calls()) >= places })
	close(release)
	for range places {
		if o := <-outcomes; o.err != nil || o.reply.Error != nil {
			t.Errorf("admitted call got %+v, %v", o.reply.Error, o.err)
		}
	}
	if got := len(agent.Calls()); got != places {
		t.Errorf("agent got %d calls, want %d", got, places)
	}
	if got := len(agent.Contexts()); got != places {
		t.Errorf("agent had %d contexts, want %d", got, places)
	}
	// One sidecar's reads come after its own writes; the other's may take a moment.
	within(t, 10*time.Second, "the tree is whole", func() bool {
		tree, err := sidecars[0].client(t).Tree(t.Context(), "race")
		if err != nil {
			t.Fatal(err)
		}
		if len(tree.Sessions) != 1+places {
			t.Fatalf("tree has %d sessions, want the coordinator's and %d", len(tree.Sessions), places)
		}
		return !slices.ContainsFunc(tree.Sessions[1:], func(s adminapi.Session) bool { return s.State != lineage.Completed })
	})
}

// The places of calls whose caller has gone are free for the next.
func TestCallerThatLeavesFreesItsPlace(t *testing.T) {
	t.Parallel()
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			working := make(chan struct{}, 16)
			agent := startAgent(t, agents.Options{Name: "worker", Work: func(ctx context.Context) error {
				working <- struct{}{}
				<-ctx.Done()
				return ctx.Err()
			}})
			file := filepath.Join(t.TempDir(), "sidecar.yml")
			yml := fmt.Sprintf("agents:\n  - {name: worker, url: %q, isolateSessions: true}\nlimits: {maxChildren: 2}\nstore: %q\n", agent.URL(), store)
			if err := os.WriteFile(file, []byte(yml), 0o600); err != nil {
				t.Fatal(err)
			}
			s := startServe(t, "--config", file)
			// Six calls, two places: each caller leaves once its call has reached
			// the agent, so all six get there only if every place comes free.
			for i := range 6 {
				ctx, leave := context.WithCancel(t.Context())
				gone := make(chan error, 1)
				go func() {
					_, err := post(ctx, s.url("worker"), sendBody(fmt.Sprintf("m-%d", i), "leaving"))
					gone <- err
				}()
				<-working
				leave()
				if err := <-gone; !errors.Is(err, context.Canceled) {
					t.Fatalf("call %d ended with %v", i, err)
				}
			}
		})
	}
}

// Ids and times differ from call to call; nothing else may.
var varying = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|\d{4}-\d\d-\d\dT[0-9:.]+Z|127\.0\.0\.1:\d+(/agents/worker)?`)

// The a2a command of the a2a-go SDK works through the sidecar as it does directly.
func TestA2ACommandWorksAsDirectly(t *testing.T) {
	t.Parallel()
	bin := filepath.Join(t.TempDir(), "a2a")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", bin, "github.com/a2aproject/a2a-go/v2/cmd/a2a")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building a2a: %v\n%s", err, out)
	}
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := startAgent(t, agents.Options{Name: "worker", Version: agents.V10, Delay: time.Millisecond})
			asker := startAgent(t, agents.Options{Name: "asker", Behaviour: agents.Ask})
			s := startServe(t, "--store", store, "--agent", "worker="+agent.URL()+",isolate", "--agent", "asker="+asker.URL())
			task := regexp.MustCompile(`"id": "([^"]+)"`)
			// each runs a2a with args at base and returns what it printed.
			each := func(base string, args ...string) string {
				cmd := exec.CommandContext(t.Context(), bin, append([]string{args[0]}, append(args[1:], "-o", "json")...)...)
				var out bytes.Buffer
				cmd.Stdout, cmd.Stderr = &out, &out
				err := cmd.Run()
				fmt.Fprintf(&out, "[%v]", err)
				return strings.ReplaceAll(out.String(), base, "BASE")
			}
			// A conversation for each message: directly, two in one would share a session.
			const conversation, another = "0198c0de-7d3c-7b61-9a57-5b1f2f1f6f6e", "0198c0de-7d3c-7b61-9a57-5b1f2f1f6f6f"
			talk := func(worker, asker string) []string {
				var said []string
				out := each(worker, "send", worker, "hello", "--context", conversation)
				said = append(said, out)
				m := task.FindStringSubmatch(out)
				if m == nil {
					t.Fatalf("send printed no task: %s", out)
				}
				said = append(said, each(worker, "get", "task", worker, m[1]))
				said = append(said, each(worker, "cancel", worker, m[1])) // too late: an error
				said = append(said, each(worker, "send", worker, "hello", "--context", another, "--stream"))
				out = each(asker, "send", asker, "question")
				said = append(said, out)
				if m = task.FindStringSubmatch(out); m == nil {
					t.Fatalf("send printed no task: %s", out)
				}
				said = append(said, each(asker, "cancel", asker, m[1]))
				for i := range said {
					said[i] = varying.ReplaceAllString(said[i], "*")
				}
				return said
			}
			direct := talk(agent.URL(), asker.URL())
			through := talk(s.url("worker"), s.url("asker"))
			if diff := cmp.Diff(direct, through); diff != "" {
				t.Errorf("a2a through the sidecar (-direct +through):\n%s", diff)
			}
			for _, c := range agent.Calls()[len(agent.Calls())-2:] {
				if c.Header.Get("x-sidecar-session-id") == "" {
					t.Error("a call went around the sidecar")
				}
			}
		})
	}
}
