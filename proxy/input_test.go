package proxy_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Whatever is wrong with a request, its caller gets an answer that it can
// read, the agent gets nothing, and the record stays as it is.
func TestBadInput(t *testing.T) {
	t.Parallel()
	const parse, invalid = -32700, -32600
	message := func(members string) string { return send10("m1", members) }
	for _, tt := range []struct {
		name, body string
		headers    []string
		code       int
		id, what   string
		stream     bool // answered with an event
		data       bool // 1.0
		status     int  // 0: 200
	}{
		{name: "empty", body: "", code: parse, id: "null", what: "body is empty"},
		{name: "white space", body: " \n", code: parse, id: "null", what: "body is empty"},
		{name: "not JSON", body: "hello", code: parse, id: "null", what: "body is not JSON"},
		{name: "not JSON, of a stream", body: "hello", headers: []string{"Accept", "text/event-stream"}, code: parse, id: "null", what: "body is not JSON", stream: true},
		{name: "not JSON, of either", body: "hello", headers: []string{"Accept", "application/json, text/event-stream"}, code: parse, id: "null", what: "body is not JSON"},
		{name: "not JSON, of 1.0", body: "hello", headers: []string{"A2A-Version", "1.0"}, code: parse, id: "null", what: "body is not JSON", data: true},
		{name: "not JSON, of 0.3", body: "hello", headers: []string{"A2A-Version", "0.3"}, code: parse, id: "null", what: "body is not JSON"},
		{name: "batch of 1.0 as a stream", body: "[]", headers: []string{"A2A-Version", "1.0", "Accept", "text/event-stream"}, code: invalid, id: "null", what: "body is a batch: batches are not part of A2A", stream: true, data: true},
		{name: "cut short", body: `{"jsonrpc":"2.0","id":"a","method":"SendMessage","params":{"mess`, code: parse, id: `"a"`, what: "it ends early", data: true},
		{name: "cut short, streaming", body: `{"jsonrpc":"2.0","id":12,"method":"SendStreamingMessage","params":{`, code: parse, id: `12`, what: "it ends early", stream: true, data: true},
		{name: "cut short, 0.3", body: `{"jsonrpc":"2.0","id":12,"method":"message/stream","params":{`, code: parse, id: `12`, what: "it ends early", stream: true},
		{name: "no UTF-8", body: "{\"jsonrpc\":\"2.0\",\"id\":4,\"method\":\"SendMessage\",\"x\":\"\xff\"}", code: parse, id: "4", what: "invalid UTF-8", data: true},
		{name: "no UTF-8 in the id", body: "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"GetTask\"}", code: parse, id: "null", what: "invalid UTF-8", data: true},
		{name: "byte order mark", body: "\ufeff" + message(""), code: parse, id: "null", what: "body is not JSON"},
		{name: "bytes after", body: message("") + "x", code: parse, id: "1", what: "bytes after the JSON value", data: true},
		{name: "another call after", body: stream10("m1", "") + stream10("m2", ""), code: parse, id: "1", what: "bytes after the JSON value", stream: true, data: true},
		{name: "batch", body: "[" + message("") + "]", code: invalid, id: "null", what: "body is a batch: batches are not part of A2A"},
		{name: "a string", body: `"x"`, code: invalid, id: "null", what: "body is not a JSON object"},
		{name: "context twice", body: message(`,"contextId":"a","contextId":"b"`), code: invalid, id: "1", what: `duplicate key "contextId" in params.message`, data: true},
		{name: "id twice", body: `{"jsonrpc":"2.0","id":1,"id":2,"method":"GetTask"}`, code: invalid, id: "null", what: `duplicate key "id"`, data: true},
		{name: "duplicate far below", body: message(`,"metadata":{"a":[{"b":1,"b":1}]}`), code: invalid, id: "1", what: `duplicate key "b" in params.message.metadata.a.0`, data: true},
		{name: "context and alias", body: message(`,"contextId":"a","context_id":"b"`), code: invalid, id: "1", what: "contextId and context_id are both present in params.message", data: true},
		{name: "task and alias, 0.3 stream", body: call03("message/stream", "m1", `,"task_id":"a","taskId":"a"`), code: invalid, id: "1", what: "taskId and task_id are both present in params.message", stream: true},
		{name: "case variant", body: message(`,"ContextID":"b"`), code: invalid, id: "1", what: `key "ContextID" differs from "contextId" only in case in params.message`, data: true},
		{name: "case variant of the envelope", body: `{"jsonrpc":"2.0","id":1,"method":"GetTask","Params":{"id":"t"}}`, code: invalid, id: "1", what: `key "Params" differs from "params" only in case`, data: true},
		{name: "no messageId", body: strings.Replace(message(""), `"messageId":"m1",`, "", 1), code: invalid, id: "1", what: "params.message.messageId is missing", data: true},
		{name: "no message", body: `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{}}`, code: invalid, id: "1", what: "params.message is missing"},
		{name: "control character in an id", body: message(`,"contextId":"a\u0000b"`), code: invalid, id: "1", what: "params.message.contextId contains a control character", data: true},
		{name: "long id", body: message(`,"taskId":"` + strings.Repeat("x", 10<<10) + `"`), code: invalid, id: "1", what: "params.message.taskId is longer than 512 bytes", data: true},
		{name: "id that is none", body: message(`,"contextId":7`), code: invalid, id: "1", what: "params.message.contextId is not a string", data: true},
		{name: "object as request id", body: `{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, code: invalid, id: "null", what: "id is neither a string, a number nor null", data: true},
		{name: "other JSON-RPC", body: `{"jsonrpc":"1.0","id":"<&>","method":"GetTask"}`, code: invalid, id: `"\u003c\u0026\u003e"`, what: `jsonrpc is not "2.0"`, data: true},
		{name: "gzip", body: zipped(message("")), headers: []string{"Content-Encoding", "gzip"}, code: invalid, id: "null", what: "request body is encoded (content-encoding)"},
		{name: "encodings", body: message(""), headers: []string{"Content-Encoding", "identity, br"}, code: invalid, id: "null", what: "request body is encoded (content-encoding)"},
		{name: "header twice", body: stream10("m1", ""), headers: []string{"x-user-id", "a", "x-user-id", "b"}, code: invalid, id: "1", what: "header x-user-id occurs 2 times", stream: true, data: true},
		{name: "too large", body: message("") + strings.Repeat(" ", maxBody), code: invalid, id: "null", what: "request body is larger than 65536 bytes (limitsHTTP.maxBody)", status: http.StatusRequestEntityTooLarge},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(message10))
			w := newWorld(t, agentAt("worker", agent.URL))
			before := w.recorded(t)
			got := w.post(t, tt.body, tt.headers...)
			e := readError(t, got, tt.stream)
			if want := max(tt.status, http.StatusOK); got.status != want {
				t.Errorf("status = %d, want %d", got.status, want)
			}
			if e.Error.Code != tt.code || string(e.ID) != tt.id || !strings.Contains(e.Error.Message, tt.what) {
				t.Errorf("error = %s, want code %d, id %s, and %q", got.body, tt.code, tt.id, tt.what)
			}
			if has := e.Error.Data != nil; has != tt.data {
				t.Errorf("error %s has data: %v, want %v", got.body, has, tt.data)
			}
			if n := len(agent.received()); n != 0 {
				t.Errorf("agent got %d requests, want none", n)
			}
			w.unchanged(t, before)
		})
	}
}

func zipped(s string) string {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	_, _ = z.Write([]byte(s)) // into memory
	_ = z.Close()
	return b.String()
}

// The limit holds for bodies of unknown length, too, and not a byte below it.
func TestMaxBody(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorld(t, agentAt("worker", agent.URL))
	message := send10("m1", "")
	for _, tt := range []struct{ size, status int }{{maxBody, http.StatusOK}, {maxBody + 1, http.StatusRequestEntityTooLarge}} {
		body := message + strings.Repeat(" ", tt.size-len(message))
		chunks := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body)
		for _, got := range []answer{
			w.post(t, body),
			raw(t, w.Listener.Addr().String(), "POST /agents/worker HTTP/1.1\nHost: sidecar\nTransfer-Encoding: chunked", chunks),
		} {
			if got.status != tt.status {
				t.Errorf("body of %d bytes = %d, want %d", tt.size, got.status, tt.status)
			}
		}
	}
}

// nowhere is an address where nobody listens.
func nowhere(t *testing.T) string {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = l.Close() }()
	return "http://" + l.Addr().String()
}

func TestAgentThatIsDown(t *testing.T) {
	t.Parallel()
	w := newWorld(t, isolated("worker", nowhere(t)))
	before := w.recorded(t)
	for _, tt := range []struct {
		body   string
		stream bool
	}{
		{send10("m1", ""), false},
		{stream10("m1", ""), true},
		{call03("message/send", "m1", ""), false},
		{call03("message/stream", "m1", ""), true},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t1"}}`, true},
	} {
		got := w.post(t, tt.body)
		e := readError(t, got, tt.stream)
		if got.status != http.StatusOK || e.Error.Code != -32052 || e.Error.Message != "agent worker cannot be reached; retry later" {
			t.Errorf("answer to %s = %d %s", tt.body, got.status, got.body)
		}
	}
	if got := w.do(t, http.MethodGet, "/agents/worker/files", ""); got.status != http.StatusServiceUnavailable || got.header.Get("Retry-After") != "1" {
		t.Errorf("other request = %d %v, want 503, Retry-After 1", got.status, got.header)
	}
	if got := w.do(t, http.MethodGet, "/agents/worker/.well-known/agent-card.json", ""); got.status != http.StatusServiceUnavailable {
		t.Errorf("card = %d %s, want 503", got.status, got.body)
	}
	w.unchanged(t, before)
}

func TestAgentThatGoesDown(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorld(t, isolated("worker", agent.URL))
	w.post(t, send10("m1", `,"contextId":"chat"`))
	w.state(t, "chat", lineage.Completed, "")
	before := w.recorded(t)
	agent.Close()
	within(t, "the sidecar has noticed", func() bool { return w.proxy.Connections("worker") == 0 })
	if e := readError(t, w.post(t, send10("m2", `,"contextId":"chat"`)), false); e.Error.Code != -32052 {
		t.Errorf("error = %+v, want -32052", e)
	}
	w.unchanged(t, before)
}

// To know a task's id is not to own it.
func TestTaskOfAnotherUser(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		body   string
		stream bool
	}{
		{send10("m2", `,"taskId":"t1"`), false},
		{stream10("m2", `,"taskId":"t1"`), true},
		{call03("message/send", "m2", `,"taskId":"t1","contextId":"c1"`), false},
		{`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"t1"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"t1"}}`, false},
		{`{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t1"}}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"tasks/resubscribe","params":{"id":"t1"}}`, true},
		{`{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"t1","url":"http://x"}}`, false},
	} {
		t.Run(tt.body, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, says(completed10))
			w := newWorld(t, agentAt("worker", agent.URL))
			w.post(t, send10("m1", ""), "x-user-id", "ada", "x-kagent-root-context-id", "top")
			within(t, "the first call is recorded to its end", func() bool {
				s := w.session(t, "top")
				return len(s.Runs) == 1 && s.Runs[0].State == lineage.Completed
			})
			before := w.recorded(t)
			for _, user := range []string{"bob", "Ada", ""} {
				var headers []string
				if user != "" {
					headers = []string{"x-user-id", user}
				}
				got := w.post(t, tt.body, headers...)
				e := readError(t, got, tt.stream)
				if got.status != http.StatusOK || e.Error.Code != -32051 || !strings.Contains(e.Error.Message, "another user's") {
					t.Errorf("%q got %d %s, want -32051", user, got.status, got.body)
				}
			}
			if n := len(agent.received()); n != 1 {
				t.Errorf("agent got %d requests, want the first only", n)
			}
			w.unchanged(t, before)
		})
	}
}

// Many clients read no answer before all of their body is sent: one that is too
// large must not be cut off in the middle.
func TestTooLargeIsHeardToTheEnd(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorld(t, agentAt("worker", agent.URL))
	conn, err := net.Dial("tcp", strings.TrimPrefix(w.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	body := send10("m1", "") + strings.Repeat(" ", 3*maxBody)
	if _, err := fmt.Fprintf(conn, "POST /agents/worker HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", len(body)); err != nil {
		t.Fatal(err)
	}
	// In pieces, so that an early close is noticed while there is more to send.
	for piece := range slices.Chunk([]byte(body), 4<<10) {
		if _, err := conn.Write(piece); err != nil {
			t.Fatalf("sending the body: %v", err)
		}
	}
	resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
	if err != nil {
		t.Fatalf("reading the answer: %v", err)
	}
	if err := resp.Body.Close(); err != nil || resp.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("answer = %d, %v, want 413", resp.StatusCode, err)
	}
}

// To know the id of another user's context is not to be told its tasks.
func TestListOfAnotherUsersContext(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	w := newWorld(t, agentAt("worker", agent.URL))
	w.post(t, send10("m1", `,"contextId":"hers"`), "x-user-id", "ann", "x-kagent-root-context-id", "top")
	list := func(contextID, user string) answer {
		return w.post(t, `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{"contextId":"`+contextID+`"}}`, "x-user-id", user)
	}
	if got := list("hers", "bob"); !strings.Contains(got.body, "CONTEXT_FORBIDDEN") {
		t.Errorf("bob's list of ann's context = %s, want CONTEXT_FORBIDDEN", got.body)
	}
	for _, ok := range []answer{list("hers", "ann"), list("nobodys", "bob")} {
		if ok.body != message10 {
			t.Errorf("list = %s, want the agent's answer", ok.body)
		}
	}
	if got := len(agent.received()); got != 3 {
		t.Errorf("agent got %d calls, want the message and two lists", got)
	}
}
