package proxy_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// raw sends a request as it stands, which Go's client would tidy up, and
// returns the answer. The last line break of the head is added.
func raw(t *testing.T, addr, head, body string) answer {
	t.Helper()
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := io.WriteString(conn, strings.ReplaceAll(head, "\n", "\r\n")+"\r\n\r\n"+body); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("answer to %q: %v", head, err)
	}
	defer func() { _ = resp.Body.Close() }()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, resp.Trailer, string(b)}
}

// rawPost sends a JSON-RPC body with a head of its own making.
func (w *world) rawPost(t *testing.T, target, body string, headers ...string) answer {
	t.Helper()
	head := fmt.Sprintf("POST %s HTTP/1.1\nHost: sidecar\nContent-Type: application/json\nContent-Length: %d", target, len(body))
	for _, h := range headers {
		head += "\n" + h
	}
	return raw(t, w.Listener.Addr().String(), head, body)
}

func TestPaths(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ base, sent, want string }{
		// The base URL is where the agent is; the rest goes below it.
		{"", "/agents/worker", "/"},
		{"", "/agents/worker/", "/"},
		{"", "/agents/worker/a/b", "/a/b"},
		{"/", "/agents/worker", "/"},
		{"/", "/agents/worker/a", "/a"},
		{"/rpc", "/agents/worker", "/rpc"},
		{"/rpc", "/agents/worker/", "/rpc/"},
		{"/rpc", "/agents/worker/a", "/rpc/a"},
		{"/rpc/", "/agents/worker", "/rpc/"},
		{"/rpc/", "/agents/worker/", "/rpc/"},
		{"/rpc/", "/agents/worker/a/", "/rpc/a/"},
		{"/a%2Fb", "/agents/worker/c", "/a%2Fb/c"},

		// Escapes arrive as they were sent.
		{"", "/agents/worker/a%2Fb", "/a%2Fb"},
		{"", "/agents/worker/a%2fb", "/a%2fb"},
		{"", "/agents/worker/a%20b", "/a%20b"},
		{"", "/agents/worker/%C3%BC%E2%82%AC", "/%C3%BC%E2%82%AC"},
		{"", "/agents/worker/%61", "/%61"},
		{"", "/agents/worker/a:b;c=d,e@f", "/a:b;c=d,e@f"},
		{"", "/agents/worker//a//b", "//a//b"},
		{"/rpc", "/agents/worker/../x/./y", "/rpc/../x/./y"},
		{"", "/agents/work%65r/a", "/a"},

		// So does the query.
		{"", "/agents/worker?a=1&b=2", "/?a=1&b=2"},
		{"/rpc", "/agents/worker?a;b&c=%zz", "/rpc?a;b&c=%zz"},
		{"", "/agents/worker/x?", "/x?"},
		{"", "/agents/worker/x??a=?", "/x??a=?"},
		{"", "/agents/worker?a=%2F+%20", "/?a=%2F+%20"},

		// A tilde is the root of the agent's host.
		{"/rpc", "/agents/worker/~/other", "/other"},
		{"/rpc", "/agents/worker/~/", "/"},
		{"/rpc", "/agents/worker/~", "/"},
		{"/rpc", "/agents/worker/~/a%2Fb?q", "/a%2Fb?q"},
		{"/rpc", "/agents/worker/~other", "/rpc/~other"},
		{"/rpc", "/agents/worker/a/~/b", "/rpc/a/~/b"},
	} {
		t.Run(tt.base+" "+tt.sent, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(message10))
			w := newWorld(t, agentAt("worker", agent.URL+tt.base))
			for _, body := range []string{send10("m1", ""), `{"not":"json-rpc"}`} {
				if got := w.rawPost(t, tt.sent, body); got.status != http.StatusOK {
					t.Fatalf("POST %s = %d %s, want 200", tt.sent, got.status, got.body)
				}
			}
			for _, got := range agent.received() {
				if got.uri != tt.want {
					t.Errorf("agent got %s of %s, want %s", got.uri, got.body, tt.want)
				}
				if want := agent.Listener.Addr().String(); got.host != want {
					t.Errorf("agent got host %s, want its own, %s", got.host, want)
				}
			}
		})
	}
}

// rpcError is a refusal as callers read it.
type rpcError struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Error   struct {
		Code    int              `json:"code"`
		Message string           `json:"message"`
		Data    []map[string]any `json:"data"`
	} `json:"error"`
}

// readError reads a JSON-RPC error out of a body, or out of the one event of a stream.
func readError(t *testing.T, a answer, stream bool) rpcError {
	t.Helper()
	body, want := a.body, "application/json"
	if stream {
		want = "text/event-stream"
		data, ok := strings.CutPrefix(body, "data: ")
		event, rest, end := strings.Cut(data, "\n\n")
		if !ok || !end || rest != "" || strings.Contains(event, "\n") {
			t.Fatalf("body %q is not one event", body)
		}
		body = event
	}
	if got := a.header.Get("Content-Type"); got != want {
		t.Errorf("content type = %q, want %q", got, want)
	}
	var e rpcError
	if err := json.Unmarshal([]byte(body), &e); err != nil {
		t.Fatalf("body %q: %v", body, err)
	}
	if e.JSONRPC != "2.0" {
		t.Errorf("jsonrpc = %q, want 2.0", e.JSONRPC)
	}
	return e
}

func TestUnknownAgents(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorld(t, agentAt("worker", agent.URL))
	call := func(id, method string) string {
		return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `","params":{"message":{"messageId":"m"}}}`
	}
	for _, tt := range []struct {
		name, path, body, wantID string
		stream, data             bool
	}{
		{"string id", "/agents/nobody", call(`"q"`, "SendMessage"), `"q"`, false, true},
		{"number id", "/agents/nobody/x", call(`7`, "SendMessage"), `7`, false, true},
		{"number spelt oddly", "/agents/nobody", call(`1.50e2`, "message/send"), `1.50e2`, false, false},
		{"null id", "/agents/nobody", call(`null`, "message/send"), `null`, false, false},
		{"stream", "/agents/nobody", call(`7`, "SendStreamingMessage"), `7`, true, true},
		{"0.3 stream", "/agents/nobody", call(`7`, "message/stream"), `7`, true, false},
		{"not JSON", "/agents/nobody", `{"jsonrpc":"2.0","id":3,`, `3`, false, false},
		{"too large", "/agents/nobody", strings.Repeat(" ", maxBody+1), `null`, false, false},
		{"no name", "/agents/", call(`7`, "SendMessage"), `7`, false, true},
		{"case", "/agents/Worker", call(`7`, "SendMessage"), `7`, false, true},
		{"an escaped slash is no slash", "/agents/worker%2Fx", call(`7`, "SendMessage"), `7`, false, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got := w.rawPost(t, tt.path, tt.body)
			if got.status != http.StatusNotFound {
				t.Errorf("status = %d, want 404", got.status)
			}
			e := readError(t, got, tt.stream)
			if string(e.ID) != tt.wantID || e.Error.Code != -32600 || !strings.Contains(e.Error.Message, "no agent named") {
				t.Errorf("error = %+v, want code -32600, id %s and what is wrong", e, tt.wantID)
			}
			if has := e.Error.Data != nil; has != tt.data {
				t.Errorf("error has data: %v, want %v", has, tt.data)
			}
		})
	}
	t.Cleanup(func() {
		if n := len(agent.received()); n != 0 {
			t.Errorf("agent got %d requests, want none", n)
		}
	})
}

func TestUnknownPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t, agentAt("worker", "http://127.0.0.1:1"))
	for _, tt := range []struct{ method, path, message string }{
		{http.MethodGet, "/agents/nobody/.well-known/agent-card.json", `no agent named "nobody" is configured`},
		{http.MethodDelete, "/agents/nobody", `no agent named "nobody" is configured`},
		{http.MethodGet, "/", "no such path; agents are at /agents/{name}/"},
		{http.MethodGet, "/agents", "no such path; agents are at /agents/{name}/"},
		{http.MethodPost, "/agent/worker", "no such path; agents are at /agents/{name}/"},
		{http.MethodGet, "/Agents/worker", "no such path; agents are at /agents/{name}/"},
	} {
		got := w.do(t, tt.method, tt.path, "")
		var problem map[string]any
		if err := json.Unmarshal([]byte(got.body), &problem); err != nil {
			t.Fatalf("%s %s = %q: %v", tt.method, tt.path, got.body, err)
		}
		want := map[string]any{"error": map[string]any{
			"code": 404.0, "status": "NOT_FOUND", "message": tt.message,
			"details": []any{map[string]any{"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "UNKNOWN_AGENT", "domain": "a2a-sidecar"}},
		}}
		if diff := cmp.Diff(want, problem); got.status != http.StatusNotFound || diff != "" {
			t.Errorf("%s %s = %d (-want +got):\n%s", tt.method, tt.path, got.status, diff)
		}
	}
}
