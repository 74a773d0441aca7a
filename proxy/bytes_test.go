package proxy_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
)

// odd is a message with everything in it that a decoder would lose: unknown
// members, big numbers, spellings, order, white space, a line feed at the end.
const odd = "\t{ \"x-extra\" : [1.0, 1e400, -0, 12345678901234567890123], \"params\" :\r\n {\"message\": {\"parts\":[{\"text\":\"\\u00fc \\/ ü \\ud83d\\ude00\"}]," +
	" \"messageId\":\"m\\u0031\", \"role\":\"ROLE_USER\" %s, \"z\":null, \"a\":{}}, \"configuration\":{\"future\":true}}\n,\"method\":\"SendMessage\", \"id\": 1.50e1, \"jsonrpc\":\"2.0\"} \n"

func TestBodiesThatNeedNoEditPassAsTheyAre(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, body string }{
		{"kept context", fmt.Sprintf(odd, `,"contextId" : "chat\u002d1"`)},
		{"alias", fmt.Sprintf(odd, `,"context_id":"chat-1"`)},
		{"task", fmt.Sprintf(odd, `,"taskId":"t1","contextId":"chat-1"`)},
		{"no context", fmt.Sprintf(odd, ``)},
		{"0.3", call03("message/send", "m1", `,"contextId":"chat-1"`) + "\n\n"},
		{"get", ` {"jsonrpc":"2.0","method":"GetTask","id":null,"params":{"id":"t1","historyLength":1e1}} `},
		{"list", `{"jsonrpc":"2.0","method":"ListTasks","id":9007199254740993,"params":{"contextId":"c"}}`},
		{"notification", `{"jsonrpc":"2.0","method":"GetTask","params":{"id":"t1"}}`},
		{"unknown method", `{"jsonrpc":"2.0","method":"x/y","id":"1","params":[1.0]}` + "\n"},
		{"no call", `{"a" : 1.0, "A" : 2 }` + "\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(message10))
			w := newWorld(t, agentAt("worker", agent.URL))
			w.post(t, tt.body)
			got := agent.only(t)
			if got.body != tt.body {
				t.Errorf("agent got\n%q, want\n%q", got.body, tt.body)
			}
			if got.length != int64(len(tt.body)) {
				t.Errorf("content length = %d, want %d", got.length, len(tt.body))
			}
		})
	}
}

func TestOnlyTheContextIsEdited(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, members, want string // of the message, before and after; ID stands for the context
		agent               func(name, url string) proxy.Agent
	}{
		{"a fresh one replaces what was sent", `,"contextId" : "chat\u002d1"`, `,"contextId" : "ID"`, isolated},
		{"an alias keeps its name", `,"context_id":"chat-1"`, `,"context_id":"ID"`, isolated},
		{"null is none", `,"contextId":null`, `,"contextId":"ID"`, isolated},
		{"the empty one is none", `,"contextId": ""`, `,"contextId": "ID"`, isolated},
		{"left to the agent", `,"contextId":"chat-1"`, ``, leftToAgent},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(message10))
			w := newWorld(t, tt.agent("worker", agent.URL))
			got := w.post(t, fmt.Sprintf(odd, tt.members), "x-kagent-root-context-id", "top")
			id := got.header.Get("x-sidecar-context-id")
			want := fmt.Sprintf(odd, strings.Replace(tt.want, "ID", id, 1))
			sent := agent.only(t)
			if sent.body != want || sent.length != int64(len(want)) {
				t.Errorf("agent got %d bytes\n%q, want %d\n%q", sent.length, sent.body, len(want), want)
			}
		})
	}
	t.Run("none was sent", func(t *testing.T) {
		t.Parallel()
		agent := newFake(t, says(message10))
		w := newWorld(t, isolated("worker", agent.URL))
		got := w.post(t, fmt.Sprintf(odd, ""))
		want := strings.Replace(fmt.Sprintf(odd, ""), `"a":{}}`, `"a":{},"contextId":"`+got.header.Get("x-sidecar-context-id")+`"}`, 1)
		if sent := agent.only(t); sent.body != want {
			t.Errorf("agent got\n%q, want\n%q", sent.body, want)
		}
	})
}

// leftToAgent is an isolated agent that makes its own context ids.
func leftToAgent(name, url string) proxy.Agent {
	a := isolated(name, url)
	a.Session.ContextIDs = contextid.Agent
	return a
}

// However a body comes, it is read whole before the agent hears of it.
func TestBodiesComeInAnyForm(t *testing.T) {
	t.Parallel()
	body := send10("m1", `,"contextId":"chat"`)
	chunked := fmt.Sprintf("%x\r\n%s\r\n1\r\n%s\r\n%x;ext=1\r\n%s\r\n0\r\nX-Trailer: 1\r\n\r\n", 10, body[:10], body[10:11], len(body)-11, body[11:])
	for _, tt := range []struct{ name, head, body string }{
		{"chunked", "Transfer-Encoding: chunked\nTrailer: X-Trailer", chunked},
		{"length", "Content-Length: " + itoa(len(body)), body},
		{"no content type", "Content-Type:\nContent-Length: " + itoa(len(body)), body},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(message10))
			w := newWorld(t, agentAt("worker", agent.URL))
			got := raw(t, w.Listener.Addr().String(), "POST /agents/worker HTTP/1.1\nHost: sidecar\n"+tt.head, tt.body)
			if got.status != http.StatusOK || got.body != message10 {
				t.Errorf("answer = %d %s", got.status, got.body)
			}
			if sent := agent.only(t); sent.body != body || sent.length != int64(len(body)) {
				t.Errorf("agent got %d bytes %q, want %d %q", sent.length, sent.body, len(body), body)
			}
		})
	}
}

// The caller that waits for leave to send its body gets it from the sidecar,
// once, and the agent is not asked.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorld(t, agentAt("worker", agent.URL))
	conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", w.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := send10("m1", "")
	if _, err := fmt.Fprintf(conn, "POST /agents/worker HTTP/1.1\r\nHost: sidecar\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body)); err != nil {
		t.Fatal(err)
	}
	in := bufio.NewReader(conn)
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 100 Continue\r\n" {
		t.Fatalf("first line = %q, %v; want 100 Continue", line, err)
	}
	_, _ = in.ReadString('\n')
	if _, err := io.WriteString(conn, body); err != nil {
		t.Fatal(err)
	}
	if line, err := in.ReadString('\n'); err != nil || line != "HTTP/1.1 200 OK\r\n" {
		t.Errorf("next line = %q, %v; want 200 OK", line, err)
	}
	if sent := agent.only(t); sent.body != body || sent.header.Get("Expect") != "" {
		t.Errorf("agent got %q, Expect %q; want the body and no Expect", sent.body, sent.header.Get("Expect"))
	}
}

// JSON-RPC is read whatever its body is called, as agents do.
func TestContentTypes(t *testing.T) {
	t.Parallel()
	for _, contentType := range []string{
		"application/json",
		"Application/JSON; charset=utf-8",
		"application/json; charset=utf-8; charset=utf-8", // which mime.ParseMediaType refuses
		"application/json-rpc+json",
		"application/a2a+json",
		"application/x-www-form-urlencoded", // curl -d
		"text/plain; charset=utf-8",
		"application/octet-stream",
		"multipart/form-data; boundary=x",
		"application/grpc", // which it is not: HTTP/1.1
	} {
		agent := newFake(t, says(message10))
		w := newWorld(t, agentAt("worker", agent.URL))
		body := " \r\n\t" + send10("m1", "")
		got := w.do(t, http.MethodPost, "/agents/worker", body, "Content-Type", contentType)
		if got.header.Get("x-sidecar-session-id") == "" {
			t.Errorf("a call of type %q is not recorded", contentType)
		}
		if sent := agent.only(t); sent.body != body {
			t.Errorf("agent got %q, want %q", sent.body, body)
		}
	}
}

// What is not JSON-RPC passes without being held: of any size, and as it comes.
func TestOtherBodiesPass(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(`ok`))
	w := newWorld(t, agentAt("worker", agent.URL))
	for _, tt := range []struct{ method, contentType, body string }{
		{http.MethodPost, "text/plain", "hello {}"},
		{http.MethodPost, "text/plain", strings.Repeat(" ", 600) + "{}"},
		{http.MethodPost, "application/x-www-form-urlencoded", "a=1&b=2"},
		{http.MethodPost, "application/x-www-form-urlencoded", ""},
		{http.MethodPost, "application/octet-stream", strings.Repeat("\x00", 2*maxBody)},
		{http.MethodPut, "application/json", strings.Repeat("[", 2*maxBody)},
	} {
		got := w.do(t, tt.method, "/agents/worker/files", tt.body, "Content-Type", tt.contentType)
		all := agent.received()
		if sent := all[len(all)-1]; got.status != http.StatusOK || sent.body != tt.body || sent.method != tt.method {
			t.Errorf("%s of %d bytes of %s: %d, agent got %s of %d bytes", tt.method, len(tt.body), tt.contentType, got.status, sent.method, len(sent.body))
		}
	}
}

// A send is never sent twice, though Go's transport would send one that bears
// an Idempotency-Key again: the agent may have acted on it.
func TestSendsAreSentOnce(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"Idempotency-Key", "X-Idempotency-Key", "X-None"} {
		t.Run(key, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int32
			agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if calls.Add(1) > 1 {
					panic(http.ErrAbortHandler) // having read it all
				}
				says(message10)(w, r)
			})
			w := newWorld(t, isolated("worker", agent.URL))
			w.post(t, send10("m1", ""), key, "k1") // so that the next finds a connection
			got := w.post(t, send10("m2", `,"contextId":"chat"`), key, "k2")
			// Nor is the caller told to: there is no RetryInfo.
			if e := readError(t, got, false); e.Error.Code != -32052 || len(e.Error.Data) != 1 ||
				e.Error.Message != "agent worker broke off before it answered; it may have acted on the call" {
				t.Errorf("answer = %s", got.body)
			}
			for _, name := range []string{"x-sidecar-session-id", "x-sidecar-context-id", "x-sidecar-root-context-id", "x-sidecar-branch"} {
				if got.header.Get(name) == "" {
					t.Errorf("answer to a call that is recorded has no %s", name)
				}
			}
			if got := w.do(t, http.MethodPut, "/agents/worker/files", "x", key, "k3"); got.status != http.StatusBadGateway || got.header.Get("Retry-After") != "" {
				t.Errorf("other request = %d %v, want 502", got.status, got.header)
			}
			if n := calls.Load(); n != 3 {
				t.Errorf("agent got %d requests, want 3: one each", n)
			}
			w.state(t, "chat", "failed", "lost")
		})
	}
}

// Between two calls, an agent may close a connection that it has no use for.
func TestIdleConnectionClosedByTheAgent(t *testing.T) {
	t.Parallel()
	for _, key := range []string{"Idempotency-Key", "X-None"} {
		agent := newFake(t, says(message10))
		w := newWorld(t, agentAt("worker", agent.URL))
		for i := range 5 {
			if got := w.post(t, send10("m"+itoa(i), ""), key, "k"); got.status != http.StatusOK || got.body != message10 {
				t.Fatalf("call %d = %d %s", i, got.status, got.body)
			}
			agent.CloseClientConnections()
			within(t, "the sidecar has noticed", func() bool { return w.proxy.Connections("worker") == 0 })
		}
		if n := len(agent.received()); n != 5 {
			t.Errorf("agent got %d requests, want 5", n)
		}
	}
}

// A body that breaks off is refused, not taken for a call that succeeded.
func TestBodyBreaksOff(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorld(t, agentAt("worker", agent.URL))
	before := w.recorded(t)
	got := raw(t, w.Listener.Addr().String(), "POST /agents/worker HTTP/1.1\nHost: sidecar\nTransfer-Encoding: chunked", "zz\r\n")
	if e := readError(t, got, false); e.Error.Code != -32700 || e.Error.Message != "request body broke off" {
		t.Errorf("answer = %d %s, want -32700", got.status, got.body)
	}
	if n := len(agent.received()); n != 0 {
		t.Errorf("agent got %d requests, want none", n)
	}
	w.unchanged(t, before)
}
