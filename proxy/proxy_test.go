package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// fake is an agent that keeps what it was sent and answers as it is told.
type fake struct {
	*httptest.Server
	mu   sync.Mutex
	seen []received
}

type received struct {
	path   string
	header http.Header
	body   string
}

func (f *fake) received() []received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return append([]received(nil), f.seen...)
}

// newFake starts an agent that hands each request to answer once it is kept.
func newFake(t *testing.T, answer func(w http.ResponseWriter, body string)) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.seen = append(f.seen, received{r.URL.RequestURI(), r.Header.Clone(), string(b)})
		f.mu.Unlock()
		answer(w, string(b))
	}))
	t.Cleanup(f.Close)
	return f
}

// message10 answers with a 1.0 message.
func message10(w http.ResponseWriter, _ string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"r1","role":"ROLE_AGENT","parts":[{"text":"hello"}]}}}`)
}

// world is a sidecar in front of fakes.
type world struct {
	*httptest.Server
	store  sessions.Store
	record *sessions.Record
}

func defaultAgent(name, rawURL string) proxy.Agent {
	u, err := url.Parse(rawURL)
	if err != nil {
		panic(err)
	}
	return proxy.Agent{
		Session: sessions.Agent{
			Name: name, ContextIDs: contextid.Sidecar, Kind: lineage.Branch, Inherit: lineage.InheritFull,
			TTL: time.Minute, Limits: lineage.Limits{MaxDepth: 4, MaxChildren: 8, MaxVisits: 2, MaxSessions: 1000},
		},
		URL: u, Told: lineage.ToldFull,
	}
}

func newWorld(t *testing.T, agents ...proxy.Agent) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	store := storetest.NewModel(time.Now)
	record, err := sessions.New(t.Context(), sessions.Options{
		Store: store, Local: "coordinator", Owner: "test", CatchAll: "0198c0de-0000-7000-8000-000000000000",
		Content: sessions.Content{Keep: sessions.KeepText, MaxBytes: 16 << 10}, OnStoreDown: sessions.StoreDownLocal, Logger: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := proxy.New(proxy.Options{
		Agents: agents, Record: record, MaxBody: 1 << 20, Logger: log,
		Tracer: tracenoop.NewTracerProvider(), Meter: noop.NewMeterProvider(), Propagator: propagation.TraceContext{},
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &world{Server: httptest.NewServer(p), store: store, record: record}
	t.Cleanup(func() {
		w.Close()
		p.Close()
		if err := record.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return w
}

// post sends a JSON-RPC body to an agent.
func (w *world) post(t *testing.T, agent, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+"/agents/"+agent, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp, string(b)
}

func send10(messageID, extra string) string {
	return `{"jsonrpc":"2.0","id":"q1","method":"SendMessage","params":{"message":{"messageId":"` + messageID +
		`","role":"ROLE_USER","parts":[{"text":"hi"}]` + extra + `},"x-unknown":1.0}}`
}

func contextIn(t *testing.T, body string) string {
	t.Helper()
	var m struct {
		Params struct {
			Message struct {
				ContextID string `json:"contextId"`
			} `json:"message"`
		} `json:"params"`
	}
	if err := json.Unmarshal([]byte(body), &m); err != nil {
		t.Fatalf("agent got %q: %v", body, err)
	}
	return m.Params.Message.ContextID
}

func TestIsolatedCallsGetContextsOfTheirOwn(t *testing.T) {
	t.Parallel()
	agent := newFake(t, message10)
	isolated := defaultAgent("worker", agent.URL)
	isolated.Session.Isolate = true
	w := newWorld(t, isolated)

	contexts := map[string]bool{}
	for _, id := range []string{"m1", "m2", "m3"} {
		resp, _ := w.post(t, "worker", send10(id, `,"contextId":"chat-1"`))
		contexts[resp.Header.Get("x-sidecar-context-id")] = true
		if got := resp.Header.Get("x-sidecar-root-context-id"); got != "chat-1" {
			t.Errorf("root context = %q, want chat-1", got)
		}
	}
	for _, r := range agent.received() {
		id := contextIn(t, r.body)
		if !contexts[id] || id == "chat-1" {
			t.Errorf("agent got context %q, want one of %v", id, contexts)
		}
		if want := `"x-unknown":1.0`; !strings.Contains(r.body, want) {
			t.Errorf("forwarded body %s lost %s", r.body, want)
		}
		if got := r.header.Get("x-kagent-root-context-id"); got != "chat-1" {
			t.Errorf("root header = %q, want chat-1", got)
		}
		if got := r.header.Get("x-sidecar-branch"); !strings.HasPrefix(got, "coordinator.worker@") {
			t.Errorf("branch header = %q", got)
		}
	}
	if len(contexts) != 3 {
		t.Errorf("3 isolated calls ran in %d contexts, want 3", len(contexts))
	}
}
