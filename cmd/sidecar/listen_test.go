package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
)

// writeConfig writes a configuration file.
func writeConfig(t *testing.T, yml string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "sidecar.yml")
	if err := os.WriteFile(file, []byte(yml), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestAddressFile(t *testing.T) {
	t.Parallel()
	file := writeConfig(t, `
store: "sqlite::memory:"
push: {listen: "127.0.0.1:0"}
agents:
  - {name: worker, url: http://127.0.0.1:1, push: relay}
  - {name: researcher, url: http://127.0.0.1:1}
  - {name: plain, url: http://127.0.0.1:1, grpc: {listen: "off"}}
`)
	s := startServe(t, "--config", file)
	for _, addr := range []string{s.Outbound, s.Admin, s.Callbacks, s.GRPC["worker"], s.GRPC["researcher"]} {
		if !strings.HasPrefix(addr, "127.0.0.1:") || strings.HasSuffix(addr, ":0") {
			t.Errorf("address file names %q, want an address that is bound", addr)
		}
		if addr != s.Outbound && !strings.Contains(s.stderr.String(), addr) {
			t.Errorf("log does not name %s: %s", addr, s.stderr)
		}
	}
	if len(s.GRPC) != 2 {
		t.Errorf("gRPC ports = %v, want none for the agent whose port is off", s.GRPC)
	}
	if status, _ := get(t, "http://"+s.Callbacks+"/callbacks/x"); status != http.StatusNotFound {
		t.Errorf("GET of a callback that nobody handed out = %d, want 404", status)
	}

	off := startServe(t, "--store", "sqlite::memory:", "--agent", "worker=http://127.0.0.1:1,grpc.listen=off")
	if off.Callbacks != "" || len(off.GRPC) != 0 {
		t.Errorf("callbacks = %q, gRPC = %v, want none", off.Callbacks, off.GRPC)
	}
}

// Members of the address file that are off are there, empty.
func TestAddressesAreAlwaysNamed(t *testing.T) {
	t.Parallel()
	cfg := config.Default()
	cfg.Store = config.NewStoreURL("sqlite::memory:")
	a, stop := startApp(t, cfg, 0, io.Discard)
	b, err := json.Marshal(a.addresses())
	if err != nil {
		t.Fatal(err)
	}
	want := fmt.Sprintf(`{"outbound":%q,"inbound":"","admin":%q,"callbacks":"","grpc":{}}`, a.outbound.addr(), a.admin.addr())
	if diff := cmp.Diff(want, string(b)); diff != "" {
		t.Errorf("addresses (-want +got):\n%s", diff)
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// gRPC clients put every call on one connection: a fan-out must fit on it.
func TestManyStreamsOnOneConnection(t *testing.T) {
	t.Parallel()
	const calls = 300 // Go's own limit is 250
	var arrived sync.WaitGroup
	arrived.Add(calls)
	agent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		arrived.Done()
		arrived.Wait() // for all of them to be here at once
	}))
	defer agent.Close()
	cfg := config.Default()
	cfg.Store = config.NewStoreURL("sqlite::memory:")
	cfg.Agents = []config.Agent{config.NewAgent("worker", agent.URL)}
	a, stop := startApp(t, cfg, 0, io.Discard)

	h2c := new(http.Protocols)
	h2c.SetUnencryptedHTTP2(true)
	client := &http.Transport{Protocols: h2c, HTTP2: &http.HTTP2Config{StrictMaxConcurrentRequests: true}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	var failed sync.WaitGroup
	for range calls {
		failed.Go(func() {
			req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.Outbound()+"/agents/worker/hello", http.NoBody)
			if err != nil {
				t.Error(err)
				return
			}
			resp, err := client.RoundTrip(req)
			if err != nil {
				t.Errorf("call: %v", err)
				arrived.Done() // the others need not wait for it
				return
			}
			drain(resp)
			if resp.StatusCode != http.StatusOK {
				t.Errorf("call = %d, want 200", resp.StatusCode)
			}
		})
	}
	failed.Wait()
	for name, e := range a.grpc {
		if e.server.HTTP2.MaxConcurrentStreams < calls {
			t.Errorf("gRPC port of %s takes %d streams a connection, want as many as the outbound port", name, e.server.HTTP2.MaxConcurrentStreams)
		}
	}
	if len(a.grpc) != 1 {
		t.Errorf("%d gRPC ports, want one for the agent", len(a.grpc))
	}
	if err := stop(); err != nil {
		t.Error(err)
	}
}

// A card that is asked for by gRPC names both ports: the outbound one for calls by
// HTTP.
func TestExtendedCardByGRPC(t *testing.T) {
	t.Parallel()
	card, err := proto.Marshal(&a2apb.AgentCard{SupportedInterfaces: []*a2apb.AgentInterface{
		{Url: "http://agent/rpc", ProtocolBinding: "JSONRPC"}, {Url: "agent:9001", ProtocolBinding: "GRPC"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	agent := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(grpcframe.Append(nil, card))
		w.Header().Set("Grpc-Status", "0")
	}))
	agent.Config.Protocols = new(http.Protocols)
	agent.Config.Protocols.SetUnencryptedHTTP2(true)
	agent.Start()
	defer agent.Close()
	s := startServe(t, "--store", "sqlite::memory:", "--agent", "worker="+agent.URL+",grpc.url="+agent.URL)
	conn, err := grpc.NewClient(s.GRPC["worker"], grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	got, err := a2apb.NewA2AServiceClient(conn).GetExtendedAgentCard(t.Context(), &a2apb.GetExtendedAgentCardRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var urls []string
	for _, i := range got.GetSupportedInterfaces() {
		urls = append(urls, i.GetUrl())
	}
	if diff := cmp.Diff([]string{s.url("worker") + "/rpc", s.GRPC["worker"]}, urls); diff != "" {
		t.Errorf("interfaces (-want +got):\n%s", diff)
	}
}

// A push notification goes through a real sidecar: the agent is given a URL of
// the sidecar's, the caller reads back its own, and what the agent sends there
// arrives, even if the sidecar is told to stop meanwhile.
func TestPushNotificationsAreRelayed(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var pushed string // the URL that the agent was given
	agent := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string
			Params struct{ URL string }
		}
		if err := json.NewDecoder(r.Body).Decode(&call); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", "application/json")
		switch call.Method {
		case "SendMessage":
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}}`)
		default:
			mu.Lock()
			defer mu.Unlock()
			pushed = call.Params.URL
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t1","id":"cfg","url":%q,"token":"tok"}}`, pushed)
		}
	}))
	defer agent.Close()
	arrived, release := make(chan string, 1), make(chan struct{})
	target := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		arrived <- r.URL.String() + " " + string(b)
		<-release
	}))
	defer target.Close()

	store := "sqlite:" + filepath.Join(t.TempDir(), "push.db")
	s := startServe(t, "--config", writeConfig(t, fmt.Sprintf(`
push: {listen: "127.0.0.1:0"}
store: %q
agents:
  - {name: worker, url: %q, push: relay}
`, store, agent.URL)))
	say(t, s.url("worker"), "m-1", "x-kagent-root-context-id", "chat")
	original := target.URL + "/hook?secret=hunter2"
	body := fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"t1","id":"cfg","url":%q,"token":"tok"}}`, original)
	resp, err := http.Post(s.url("worker"), "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	answer, err := io.ReadAll(resp.Body)
	drain(resp)
	if err != nil || !strings.Contains(string(answer), original) || strings.Contains(string(answer), "/callbacks/") {
		t.Errorf("caller got %s, %v, want its own URL back", answer, err)
	}
	mu.Lock()
	url := pushed
	mu.Unlock()
	if !strings.HasPrefix(url, "http://"+s.Callbacks+"/callbacks/") {
		t.Fatalf("agent was given %q, want a URL at %s", url, s.Callbacks)
	}

	const done = `{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}`
	answered := make(chan int, 1)
	go func() {
		resp, err := http.Post(url, "application/json", strings.NewReader(done))
		if err != nil {
			t.Error(err)
			answered <- 0
			return
		}
		drain(resp)
		answered <- resp.StatusCode
	}()
	if got := <-arrived; got != "/hook?secret=hunter2 "+done {
		t.Errorf("target got %s, want what the agent sent", got)
	}
	s.stop()
	within(t, 5*time.Second, "the sidecar begins to stop", func() bool { return strings.Contains(s.stderr.String(), `"calls":1`) })
	close(release)
	if status := <-answered; status != http.StatusOK {
		t.Errorf("agent got %d, want 200: a notification under way may end", status)
	}
	s.shutdown(t)

	var out strings.Builder
	if code := run(t.Context(), []string{"events", "chat", "--store", store, "-o", "json"}, noEnv, nil, &out, io.Discard); code != exitDone {
		t.Fatalf("events ended with %d", code)
	}
	if got := out.String(); !strings.Contains(got, "push.configured") || !strings.Contains(got, "TASK_STATE_COMPLETED") && !strings.Contains(got, `"completed"`) || strings.Contains(got, "hunter2") {
		t.Errorf("record = %s, want the configuration without its query, and the task's end", got)
	}
}
