package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	tracenoop "go.opentelemetry.io/otel/trace/noop"
	"go.uber.org/goleak"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// maxBody is the limit of every world here: small, so that tests can pass it.
const maxBody = 64 << 10

// fake is an agent that keeps what it was sent and answers as it is told.
type fake struct {
	*httptest.Server
	mu   sync.Mutex
	seen []received
}

// received is a request as it came to an agent.
type received struct {
	method, uri, host, body string
	length                  int64
	header, trailer         http.Header
}

// newFake starts an agent that keeps each request and then hands it to answer.
func newFake(t *testing.T, answer http.HandlerFunc) *fake {
	t.Helper()
	f := &fake{}
	f.Server = httptest.NewServer(f.handler(answer))
	t.Cleanup(f.Close)
	return f
}

func (f *fake) handler(answer http.HandlerFunc) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		f.mu.Lock()
		f.seen = append(f.seen, received{r.Method, r.RequestURI, r.Host, string(b), r.ContentLength, r.Header.Clone(), r.Trailer.Clone()})
		f.mu.Unlock()
		r.Body = io.NopCloser(strings.NewReader(string(b)))
		answer(w, r)
	})
}

func (f *fake) received() []received {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.seen)
}

// only returns the one request that came.
func (f *fake) only(t *testing.T) received {
	t.Helper()
	seen := f.received()
	if len(seen) != 1 {
		t.Fatalf("agent got %d requests, want 1: %+v", len(seen), seen)
	}
	return seen[0]
}

// Answers of agents, both versions.
const (
	message10   = `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"r1","role":"ROLE_AGENT","parts":[{"text":"hello"}]}}}`
	message03   = `{"jsonrpc":"2.0","id":1,"result":{"kind":"message","messageId":"r1","role":"agent","parts":[{"kind":"text","text":"hello"}]}}`
	completed10 = `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}}`
	working10   = `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}}`
)

// says answers every request with a JSON body.
func says(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}
}

// streams answers every request with a stream.
func streams(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, body)
	}
}

// agentAt is an agent with the defaults of a configuration.
func agentAt(name, rawURL string) proxy.Agent {
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

// isolated is an agent with isolateSessions.
func isolated(name, rawURL string) proxy.Agent {
	a := agentAt(name, rawURL)
	a.Session.Isolate = true
	return a
}

// world is a sidecar in front of agents.
type world struct {
	*httptest.Server
	store  sessions.Store
	record *sessions.Record
	proxy  *proxy.Proxy
	close  func() // the proxy and the record; done at the end of the test in any case
}

func newWorld(t *testing.T, agents ...proxy.Agent) *world {
	t.Helper()
	return newWorldWith(t, func(*sessions.Options, *proxy.Options) {}, agents...)
}

// newWorldWith lets the test change the options.
func newWorldWith(t *testing.T, change func(*sessions.Options, *proxy.Options), agents ...proxy.Agent) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	recording := sessions.Options{
		Store: storetest.NewModel(time.Now), Local: "coordinator", Owner: "test", CatchAll: "0198c0de-0000-7000-8000-000000000000",
		Content: sessions.Content{Keep: sessions.KeepText, MaxBytes: 16 << 10}, OnStoreDown: sessions.StoreDownLocal, Logger: log,
	}
	opts := proxy.Options{
		Agents: agents, MaxBody: maxBody, Logger: log,
		Tracer: tracenoop.NewTracerProvider(), Meter: noop.NewMeterProvider(), Propagator: propagation.TraceContext{},
	}
	change(&recording, &opts)
	record, err := sessions.New(t.Context(), recording)
	if err != nil {
		t.Fatal(err)
	}
	opts.Record = record
	p, err := proxy.New(opts)
	if err != nil {
		t.Fatalf("New = %v", err)
	}
	w := &world{Server: httptest.NewServer(p), store: recording.Store, record: record, proxy: p}
	w.Client().Transport.(*http.Transport).DisableCompression = true // bytes are compared
	w.close = sync.OnceFunc(func() {
		w.Close()
		p.Close()
		if err := record.Close(context.Background()); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(w.close)
	return w
}

// listenGRPC starts the sidecar's gRPC port for the agent named worker and
// returns its address.
func (w *world) listenGRPC(t *testing.T) string {
	t.Helper()
	s := httptest.NewUnstartedServer(nil)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetHTTP1(true)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	addr := s.Listener.Addr().String()
	s.Config.Handler = w.proxy.GRPC("worker", addr, w.URL)
	s.Start()
	t.Cleanup(s.Close)
	return addr
}

// answer is a response, read to its end.
type answer struct {
	status          int
	header, trailer http.Header
	body            string
}

// do sends a request. Headers come as name and value, in turn.
func (w *world) do(t *testing.T, method, path, body string, headers ...string) answer {
	t.Helper()
	a, err := w.try(t, method, path, body, headers...)
	if err != nil {
		t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

// try is do for calls that may fail, and for other goroutines than the test's.
func (w *world) try(t *testing.T, method, path, body string, headers ...string) (answer, error) {
	t.Helper()
	var content io.Reader
	if body != "" {
		content = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, w.URL+path, content)
	if err != nil {
		return answer{}, err
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := w.Client().Transport.RoundTrip(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Header, resp.Trailer, string(b)}, err
}

// post sends a JSON-RPC body to the agent named worker.
func (w *world) post(t *testing.T, body string, headers ...string) answer {
	t.Helper()
	return w.do(t, http.MethodPost, "/agents/worker", body, append([]string{"Content-Type", "application/json"}, headers...)...)
}

// send10 is a 1.0 message with more members in it.
func send10(messageID, members string) string { return call10("SendMessage", messageID, members) }

func stream10(messageID, members string) string {
	return call10("SendStreamingMessage", messageID, members)
}

func call10(method, messageID, members string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"message":{"messageId":"` + messageID +
		`","role":"ROLE_USER","parts":[{"text":"hi"}]` + members + `}}}`
}

func call03(method, messageID, members string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"` + method + `","params":{"message":{"kind":"message","messageId":"` + messageID +
		`","role":"user","parts":[{"kind":"text","text":"hi"}]` + members + `}}}`
}

// recorded is everything that the store holds.
type recorded struct {
	Trees    []lineage.Tree
	Sessions map[string][]lineage.Session
	Events   map[string][]lineage.Event
}

// recorded reads all that the store holds at this moment.
func (w *world) recorded(t *testing.T) recorded {
	t.Helper()
	page, err := w.store.Trees(t.Context(), sessions.TreeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	r := recorded{page.Trees, map[string][]lineage.Session{}, map[string][]lineage.Event{}}
	for _, tree := range page.Trees {
		r.Sessions[tree.Root], err = sessions.AllSessions(t.Context(), w.store, tree.Root)
		if err != nil {
			t.Fatal(err)
		}
		events, err := w.store.Events(t.Context(), tree.Root, sessions.EventQuery{All: true, Limit: sessions.MaxPage})
		if err != nil {
			t.Fatal(err)
		}
		r.Events[tree.Root] = events.Events
	}
	return r
}

// unchanged stops the sidecar, so that all is written that ever will be, and
// fails the test if the store holds anything else than before.
func (w *world) unchanged(t *testing.T, before recorded) {
	t.Helper()
	w.close()
	if diff := cmp.Diff(before, w.recorded(t)); diff != "" {
		t.Errorf("the record has changed (-before +after):\n%s", diff)
	}
}

// session returns the one session of a tree that is not its root.
func (w *world) session(t *testing.T, root string) lineage.Session {
	t.Helper()
	all, err := sessions.AllSessions(t.Context(), w.store, root)
	if err != nil {
		t.Fatalf("sessions of %s: %v", root, err)
	}
	if len(all) != 2 {
		t.Fatalf("tree %s has %d sessions, want 2", root, len(all))
	}
	return all[1]
}

// within waits until what is true.
func within(t *testing.T, what string, is func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	timeout := time.NewTimer(10 * time.Second)
	defer timeout.Stop()
	for !is() {
		select {
		case <-tick.C:
		case <-timeout.C:
			t.Fatalf("after 10 s still not: %s", what)
		}
	}
}

// state waits until the one session of a tree is in a state.
func (w *world) state(t *testing.T, root string, want lineage.State, reason string) {
	t.Helper()
	within(t, "session of "+root+" is "+string(want)+" "+reason, func() bool {
		all, err := sessions.AllSessions(t.Context(), w.store, root)
		return err == nil && len(all) == 2 && all[1].State == want && all[1].Reason == reason
	})
}

// methodIn is the method of a JSON-RPC request, empty if it is none.
func methodIn(body string) string {
	var call struct{ Method string }
	_ = json.Unmarshal([]byte(body), &call) // it may be anything
	return call.Method
}

// methodOf is the method of a request to a fake, which reads it.
func methodOf(r *http.Request) string {
	b, _ := io.ReadAll(r.Body) // in memory
	return methodIn(string(b))
}

func itoa(n int) string { return strconv.Itoa(n) }

// brokenStore is a store that answers no longer.
type brokenStore struct{ sessions.Store }

func (brokenStore) Apply(_ context.Context, ops []*sessions.Op) {
	for _, op := range ops {
		op.Err = sessions.ErrUnavailable
	}
}

func (brokenStore) Ping(context.Context) error { return sessions.ErrUnavailable }
