package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// within calls ok until it is true.
func within(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for !ok() {
		select {
		case <-ctx.Done():
			t.Fatalf("not within %s: %s", limit, what)
		case <-look.C:
		}
	}
}

func get(t *testing.T, url string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer drain(resp)
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

// say sends one message without a context of its own and returns the headers of
// the answer.
func say(t *testing.T, url, messageID string, headers ...string) http.Header {
	t.Helper()
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":"private words"}]}}}`, messageID)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer drain(resp)
	var r reply
	if err := json.NewDecoder(resp.Body).Decode(&r); err != nil {
		t.Fatal(err)
	}
	if r.Error != nil {
		t.Fatalf("message %s got error %+v", messageID, r.Error)
	}
	return resp.Header
}

// One conversation keeps one session at a stateful agent, over restarts and
// replicas; two conversations never share one.
func TestStableContextSurvivesRestart(t *testing.T) {
	t.Parallel()
	for name, store := range stores(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := startAgent(t, agents.Options{Name: "memory"})
			contexts := map[string][]string{} // by root
			for range 2 {
				s := startServe(t, "--store", store, "--agent", "memory="+agent.URL())
				for _, root := range []string{"chat-1", "chat-2"} {
					said := say(t, s.url("memory"), fmt.Sprintf("%s-%d", root, len(contexts[root])), "x-kagent-root-context-id", root)
					contexts[root] = append(contexts[root], said.Get("x-sidecar-context-id"))
				}
				s.shutdown(t)
			}
			one, two := contexts["chat-1"], contexts["chat-2"]
			if one[0] == "" || one[0] != one[1] || two[0] != two[1] || one[0] == two[0] {
				t.Errorf("contexts before and after the restart: chat-1 %q, chat-2 %q; want one for each", one, two)
			}
			if got := len(agent.Contexts()); got != 2 {
				t.Errorf("agent had %d contexts, want 2", got)
			}
		})
	}
}

// While Redis is away calls go on, and the sidecar says that it does without.
func TestCallsGoOnWithoutTheStore(t *testing.T) {
	t.Parallel()
	agent := startAgent(t, agents.Options{Name: "worker", Behaviour: agents.Echo})
	server := redistest.Start(t)
	s := startServe(t, "--store", server.URL(), "--agent", "worker="+agent.URL()+",isolate")
	say(t, s.url("worker"), "before", "x-kagent-root-context-id", "outage")

	server.Stop()
	say(t, s.url("worker"), "during", "x-kagent-root-context-id", "outage")
	if status, body := get(t, "http://"+s.Admin+"/readyz"); status != http.StatusOK || !strings.Contains(body, "store: ") {
		t.Errorf("/readyz = %d %s, want 200 and the reason", status, body)
	}
	if _, page := get(t, "http://"+s.Admin+"/metrics"); !strings.Contains(page, `a2a_sidecar_unrecorded_total{agent="worker"} 1`) {
		t.Error("/metrics does not count the unrecorded call")
	}

	server.Restart(t)
	within(t, 20*time.Second, "calls are recorded again", func() bool {
		said := say(t, s.url("worker"), fmt.Sprint("after-", time.Now().UnixNano()), "x-kagent-root-context-id", "after-outage")
		return said.Get("x-sidecar-session-id") != ""
	})
}

func TestStoreDownRefuses(t *testing.T) {
	t.Parallel()
	agent := startAgent(t, agents.Options{Name: "worker", Behaviour: agents.Echo})
	server := redistest.Start(t)
	file := filepath.Join(t.TempDir(), "sidecar.yml")
	yml := fmt.Sprintf("agents:\n  - {name: worker, url: %q}\nstore: %s\nonStoreDown: refuse\n", agent.URL(), server.URL())
	if err := os.WriteFile(file, []byte(yml), 0o600); err != nil {
		t.Fatal(err)
	}
	s := startServe(t, "--config", file)
	server.Stop()
	r, err := post(t.Context(), s.url("worker"), sendBody("m", "c"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Error == nil || r.Error.Code != -32052 {
		t.Errorf("call without a store got %+v, want -32052", r.Error)
	}
	if got := len(agent.Calls()); got != 0 {
		t.Errorf("agent got %d calls, want none", got)
	}
	if status, body := get(t, "http://"+s.Admin+"/readyz"); status != http.StatusServiceUnavailable {
		t.Errorf("/readyz = %d %s, want 503", status, body)
	}
}

// A sidecar that is told to stop lets a call that is under way end.
func TestShutdownLetsCallsEnd(t *testing.T) {
	t.Parallel()
	working, release := make(chan struct{}), make(chan struct{})
	agent := startAgent(t, agents.Options{Name: "worker", Work: func(context.Context) error {
		close(working)
		<-release
		return nil
	}})
	store := "sqlite:" + filepath.Join(t.TempDir(), "stop.db")
	s := startServe(t, "--store", store, "--agent", "worker="+agent.URL()+",isolate")
	got := make(chan error, 1)
	go func() {
		r, err := post(context.Background(), s.url("worker"), sendBody("m", "stopping"))
		if err == nil && r.Error != nil {
			err = fmt.Errorf("error %+v", r.Error)
		}
		got <- err
	}()
	<-working
	s.stop()
	within(t, 5*time.Second, "the sidecar begins to stop", func() bool { return strings.Contains(s.stderr.String(), `"stopping"`) })
	if status, body := get(t, "http://"+s.Admin+"/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"stopping"`) {
		t.Errorf("/readyz of a sidecar that stops = %d %s, want 503 and stopping", status, body)
	}
	close(release)
	if err := <-got; err != nil {
		t.Errorf("call under way at the stop: %v", err)
	}
	s.shutdown(t)

	var out bytes.Buffer
	if code := run(t.Context(), []string{"tree", "stopping", "--store", store}, noEnv, nil, &out, io.Discard); code != exitDone {
		t.Fatalf("tree ended with %d", code)
	}
	if !strings.Contains(out.String(), "completed") {
		t.Errorf("record after the stop:\n%s\nwant a completed session", &out)
	}
}

// startApp runs a sidecar that gives calls drain once it is told to stop. Stop
// returns what Run did.
func startApp(t *testing.T, cfg config.Config, drain time.Duration, logs io.Writer) (a *app, stop func() error) {
	t.Helper()
	cfg.Listen.Outbound, cfg.Listen.Admin = "127.0.0.1:0", "127.0.0.1:0"
	a, err := newApp(t.Context(), appOptions{
		Config: cfg, Log: slog.New(slog.NewTextHandler(logs, nil)), Getenv: func(string) string { return "" }, Drain: drain,
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ran })
	t.Cleanup(func() { _ = stop() })
	return a, stop
}

// A stream that outlasts the drain time is cut. Its task may be at work all the
// same (A2A 1.0 §3.1.2): the record has it open, for its end to be seen.
func TestShutdownCutsCalls(t *testing.T) {
	t.Parallel()
	const event = `data: {"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}}` + "\n\n"
	left := make(chan struct{})
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // else the server does not see the caller leave
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, event)
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
		close(left)
	}))
	defer agent.Close()
	store := "sqlite:" + filepath.Join(t.TempDir(), "cut.db")
	cfg := config.Default()
	cfg.Store = config.NewStoreURL(store)
	cfg.Agents = []config.Agent{config.NewAgent("worker", agent.URL)}
	var logs lockedBuffer
	a, stop := startApp(t, cfg, time.Nanosecond, &logs)

	body := strings.Replace(sendBody("m", "cut"), "SendMessage", "SendStreamingMessage", 1)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.Outbound()+"/agents/worker", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer drain(resp)
	if _, err := io.ReadFull(resp.Body, make([]byte, len(event))); err != nil {
		t.Fatalf("reading the first event: %v", err)
	}

	if err := stop(); err != nil {
		t.Errorf("Run() that had to cut a call = %v, want nil", err)
	}
	<-left
	if got := logs.String(); !strings.Contains(got, "calls cut") || !strings.Contains(got, "calls=1") {
		t.Errorf("log = %s, want how many calls were cut", got)
	}
	var out bytes.Buffer
	if code := run(t.Context(), []string{"tree", "cut", "--store", store, "-o", "json"}, noEnv, nil, &out, io.Discard); code != exitDone {
		t.Fatalf("tree ended with %d", code)
	}
	tree := parse[adminapi.TreeView](t, out.String())
	if len(tree.Sessions) != 2 {
		t.Fatalf("record = %s, want two sessions", &out)
	}
	if run := tree.Sessions[1].Runs[0]; run.State != lineage.Active || run.TaskID != "t1" {
		t.Errorf("run that was cut = %s, task %q, want it active, task t1", run.State, run.TaskID)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Store = config.NewStoreURL("sqlite::memory:")
	a, stop := startApp(t, cfg, 0, io.Discard)
	for _, e := range []*endpoint{a.outbound, a.admin} {
		if got := e.server.IdleTimeout; got != 2*time.Minute {
			t.Errorf("idle time-out = %v, want 2m", got)
		}
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A newline at the end of a key's file is no part of the key, or replicas whose
// files come from different hands would derive different contexts.
func TestReadKey(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ text, want, fault string }{
		{"0123456789abcdef", "0123456789abcdef", ""},
		{"0123456789abcdef\n", "0123456789abcdef", ""},
		{" 0123456789 abcdef \r\n", "0123456789 abcdef", ""},
		{"0123456789abcde\n", "", "holds 15 bytes, fewer than the 16"},
		{" \n", "", "is empty"},
	} {
		file := filepath.Join(t.TempDir(), "key")
		if err := os.WriteFile(file, []byte(tt.text), 0o600); err != nil {
			t.Fatal(err)
		}
		got, err := readKey(config.Secret{File: file})
		if string(got) != tt.want || (err == nil) != (tt.fault == "") {
			t.Errorf("readKey(%q) = %q, %v, want %q, %q", tt.text, got, err, tt.want, tt.fault)
		}
		if err != nil && (!strings.Contains(err.Error(), tt.fault) || !strings.Contains(err.Error(), "lineage.key")) {
			t.Errorf("readKey(%q) = %v, want %q and the name of the setting", tt.text, err, tt.fault)
		}
	}
	if key, err := readKey(config.Secret{}); key != nil || err != nil {
		t.Errorf("readKey() of none = %q, %v, want none", key, err)
	}
}

// Spans reach a collector, continue the caller's trace, and hold no message.
func TestTracesAreExported(t *testing.T) {
	var mu sync.Mutex
	var exported bytes.Buffer
	collector := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		_, _ = exported.ReadFrom(r.Body)
	}))
	defer collector.Close()
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.URL)
	t.Setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
	t.Setenv("OTEL_METRICS_EXPORTER", "none")

	agent := startAgent(t, agents.Options{Name: "worker", Behaviour: agents.Echo})
	s := startServeEnv(t, os.LookupEnv, "--store", "sqlite::memory:", "--agent", "worker="+agent.URL()+",isolate")
	const trace = "0af7651916cd43dd8448eb211c80319c"
	say(t, s.url("worker"), "m-1", "traceparent", "00-"+trace+"-b7ad6b7169203331-01", "x-kagent-root-context-id", "traced")
	parent := agent.Calls()[0].Header.Get("traceparent")
	if !strings.Contains(parent, trace) || strings.Contains(parent, "b7ad6b7169203331") {
		t.Errorf("agent got traceparent %q, want the caller's trace and the sidecar's span", parent)
	}
	tree, err := s.client(t).Tree(t.Context(), "traced")
	if err != nil {
		t.Fatal(err)
	}
	if got := tree.Sessions[1].TraceID; got != trace {
		t.Errorf("session's trace = %q, want %q", got, trace)
	}
	s.shutdown(t)
	mu.Lock()
	defer mu.Unlock()
	spans := exported.Bytes()
	if !bytes.Contains(spans, []byte("worker")) {
		t.Errorf("collector got no span of the call (%d bytes)", len(spans))
	}
	if bytes.Contains(spans, []byte("private words")) {
		t.Error("a span holds the message")
	}
}

// What is wrong with the command line alone is wrong usage; with a file, failure.
func TestServeFaultsTellUsageFromFailure(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "sidecar.yml")
	if err := os.WriteFile(file, []byte("log: {level: loud}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want int
	}{
		{[]string{"--agent", "bad"}, exitUsage},
		{[]string{"--agent", "w=ftp://x"}, exitUsage},
		{[]string{"--local-name", "a.b c"}, exitUsage},
		{[]string{"--config", file}, exitFailed},
		{[]string{"--config", file, "--agent", "bad"}, exitFailed},
	} {
		var stderr bytes.Buffer
		if got := run(t.Context(), append([]string{"serve"}, tt.args...), noEnv, nil, io.Discard, &stderr); got != tt.want {
			t.Errorf("serve %v = %d, want %d: %s", tt.args, got, tt.want, &stderr)
		}
	}
}
