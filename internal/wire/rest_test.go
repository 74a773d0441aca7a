package wire_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// readREST reads a request that must be accepted: a verb and a target, an
// empty line, and a body.
func readREST(tb testing.TB, text string) *wire.Request {
	tb.Helper()
	q, body := parsed(text)
	r, err := wire.ReadREST(q, []byte(body))
	if err != nil {
		tb.Fatalf("ReadREST(%s) = %v, want no error", text, err)
	}
	return r
}

func TestReadREST(t *testing.T) {
	t.Parallel()
	const send = "POST /message:send\n\n"
	sent := wire.Request{Method: "POST /message:send", Op: wire.OpSend, MessageID: "m"}
	with := func(change func(r *wire.Request)) wire.Request {
		r := sent
		change(&r)
		return r
	}
	for _, tt := range []struct {
		name, in string
		want     wire.Request
	}{
		{"send", send + `{"message":{"messageId":"m","contextId":"c","taskId":"t"},"tenant":"x"}`, with(func(r *wire.Request) { r.ContextID, r.TaskID = "c", "t" })},
		{"version", "POST /message:send\nA2A-Version: 1.0\n\n" + `{"message":{"messageId":"m"}}`, with(func(r *wire.Request) { r.Version = wire.V10 })},
		{"snake case", send + `{"message":{"message_id":"m","context_id":"c","task_id":"t"}}`, with(func(r *wire.Request) { r.ContextID, r.TaskID = "c", "t" })},
		{"the proto's names", send + `{"request":{"message_id":"m","content":[{"text":"x"}]}}`, sent},
		{"sender session", send + `{"message":{"messageId":"m","metadata":{"adk_session_id":"s"}}}`, with(func(r *wire.Request) { r.SenderSession = "s" })},
		{"an envelope's keys within", send + `{"params":3,"message":{"messageId":"m","jsonrpc":"2.0","metadata":{"method":1}},"metadata":{"jsonrpc":1}}`, sent},
		{"get", "GET /tasks/t?historyLength=2\n\n", wire.Request{Method: "GET /tasks/{id}", Op: wire.OpGet, TaskID: "t"}},
		{"get with a body of no use", "GET /tasks/t\n\n]", wire.Request{Method: "GET /tasks/{id}", Op: wire.OpGet, TaskID: "t"}},
		{"list", "GET /tasks?pageSize=1&contextId=a%20b+c&tenant=x\n\n", wire.Request{Method: "GET /tasks", Op: wire.OpList, ContextID: "a b c"}},
		{"list in snake case", "GET /tasks?context_id=c\n\n", wire.Request{Method: "GET /tasks", Op: wire.OpList, ContextID: "c"}},
		{"list by an escaped key", "GET /tasks?context%49d=c\n\n", wire.Request{Method: "GET /tasks", Op: wire.OpList, ContextID: "c"}},
		{"list by no context", "GET /tasks?contextId=\n\n", wire.Request{Method: "GET /tasks", Op: wire.OpList}},
		{"list by another key", "GET /tasks?CONTEXTID=a&contextId[]=b\n\n", wire.Request{Method: "GET /tasks", Op: wire.OpList}},
		{"cancel", "POST /tasks/t:cancel\n\n", wire.Request{Method: "POST /tasks/{id}:cancel", Op: wire.OpCancel, TaskID: "t"}},
		{"cancel with an object", "POST /tasks/t:cancel\n\n{}", wire.Request{Method: "POST /tasks/{id}:cancel", Op: wire.OpCancel, TaskID: "t"}},
		{"cancel with null", "POST /tasks/t:cancel\n\n null ", wire.Request{Method: "POST /tasks/{id}:cancel", Op: wire.OpCancel, TaskID: "t"}},
		{"id with an escaped semicolon", "GET /tasks/a%3Bb\n\n", wire.Request{Method: "GET /tasks/{id}", Op: wire.OpGet, TaskID: "a;b"}},
		{"cancel naming the task again", "POST /tasks/t%3A1:cancel\n\n" + `{"id":"t:1","name":"tasks/t:1"}`, wire.Request{Method: "POST /tasks/{id}:cancel", Op: wire.OpCancel, TaskID: "t:1"}},
		{"name of something else", "POST /tasks/t:cancel\n\n" + `{"name":"u","id":""}`, wire.Request{Method: "POST /tasks/{id}:cancel", Op: wire.OpCancel, TaskID: "t"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Binding = wire.REST
			got := *readREST(t, tt.in)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(got)); diff != "" {
				t.Errorf("ReadREST(%s) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestReadRESTRefuses(t *testing.T) {
	t.Parallel()
	const parse, invalid = wire.CodeParse, wire.CodeInvalid
	const send, set, cancel = "POST /message:send\n\n", "POST /tasks/t/pushNotificationConfigs\n\n", "POST /v1/tasks/t:cancel\n\n"
	for _, tt := range []struct {
		name, in string
		code     int
		what     string
		op       wire.Op
	}{
		{"no body", send, parse, "body is empty", wire.OpSend},
		{"not JSON", send + "{", parse, "body is not JSON: it ends early at byte 1", wire.OpSend},
		{"not UTF-8", send + "{\"\xff\":1}", parse, "body is not JSON: invalid UTF-8", wire.OpSend},
		{"array", "POST /v1/message:stream\n\n[]", invalid, "body is not a JSON object", wire.OpStream},
		{"null", send + "null", invalid, "body is not a JSON object", wire.OpSend},
		{"bytes after", send + `{"message":{"messageId":"m"}}{}`, parse, "bytes after the JSON value", wire.OpSend},
		{"duplicate", send + `{"message":{"contextId":"a","contextId":"b"}}`, invalid, `duplicate key "contextId" in message`, wire.OpSend},
		{"duplicate message", send + `{"message":{},"message":{}}`, invalid, `duplicate key "message"`, wire.OpSend},
		{"alias", send + `{"message":{"context_id":"a","contextId":"b"}}`, invalid, "contextId and context_id are both present in message", wire.OpSend},
		{"alias in the proto's message", send + `{"request":{"context_id":"a","contextId":"b"}}`, invalid, "contextId and context_id are both present in request", wire.OpSend},
		{"two messages", send + `{"request":{"messageId":"a"},"message":{"messageId":"b"}}`, invalid, "message and request are both present", wire.OpSend},
		{"two lists of parts", send + `{"message":{"messageId":"b","content":[],"parts":[]}}`, invalid, "parts and content are both present in message", wire.OpSend},
		{"case", send + `{"message":{"messageId":"b","CONTEXTID":"x"}}`, invalid, `key "CONTEXTID" differs from "contextId" only in case in message`, wire.OpSend},
		{"case of message", send + `{"Message":{"messageId":"b"}}`, invalid, `key "Message" differs from "message" only in case`, wire.OpSend},
		{"no message", send + `{}`, invalid, "message is missing", wire.OpSend},
		{"message string", send + `{"message":"x"}`, invalid, "message is not an object", wire.OpSend},
		{"no messageId", send + `{"message":{}}`, invalid, "message.messageId is missing", wire.OpSend},
		{"contextId number", send + `{"message":{"messageId":"m","contextId":1}}`, invalid, "message.contextId is not a string", wire.OpSend},
		{"contextId control character", send + `{"message":{"messageId":"m","contextId":"\u0000"}}`, invalid, "message.contextId contains a control character", wire.OpSend},
		{"task id control character", "GET /tasks/a%0Ab\n\n", invalid, "task id in the path contains a control character", wire.OpGet},
		{"task id of spaces", "POST /tasks/%20t:cancel\n\n", invalid, "task id in the path begins or ends with a space", wire.OpCancel},
		{"task id with a parameter", "GET /tasks/t;a=b\n\n", invalid, "task id in the path contains a semicolon", wire.OpGet},
		{"action after a parameter", "GET /tasks/t;a=b:subscribe\n\n", invalid, "task id in the path contains a semicolon", wire.OpSubscribe},
		{"parameter of an action that may be an id", "GET /tasks/t:subscribe;a=b\n\n", invalid, "task id in the path contains a semicolon", wire.OpGet},
		{"list twice", "GET /tasks?contextId=a&contextId=a\n\n", invalid, "contextId is in the query more than once", wire.OpList},
		{"list twice, once empty", "GET /tasks?contextId=&contextId=a\n\n", invalid, "contextId is in the query more than once", wire.OpList},
		{"list in both spellings", "GET /tasks?context_id=a&contextId=a\n\n", invalid, "contextId is in the query more than once", wire.OpList},
		{"list control character", "GET /tasks?contextId=%00\n\n", invalid, "contextId in the query contains a control character", wire.OpList},
		{"cancel of another", cancel + `{"id":"u"}`, invalid, "body names another task than the path", wire.OpCancel},
		{"cancel of another by name", cancel + `{"name":"tasks/u"}`, invalid, "body names another task than the path", wire.OpCancel},
		{"cancel of a longer name", cancel + `{"name":"tasks/t2"}`, invalid, "body names another task than the path", wire.OpCancel},
		{"cancel not JSON", cancel + `x`, parse, "body is not JSON: syntax error at byte 0", wire.OpCancel},
		{"cancel array", cancel + `[]`, invalid, "body is not a JSON object", wire.OpCancel},
		{"push set without a body", set, parse, "body is empty", wire.OpPushSet},
		{"push set for another", set + `{"taskId":"u"}`, invalid, "body names another task than the path", wire.OpPushSet},
		{"push set for another parent", set + `{"parent":"tasks/u","config":{}}`, invalid, "body names another task than the path", wire.OpPushSet},
		{"push set twice", set + `{"url":"a","config":{"url":"b"}}`, invalid, "a second url is present in config", wire.OpPushSet},
		{"push set boxed twice", set + `{"pushNotificationConfig":{},"config":{"pushNotificationConfig":{}}}`, invalid, "a second pushNotificationConfig is present in config", wire.OpPushSet},
		{"push set case", set + `{"config":{"pushNotificationConfig":{"Url":"x"}}}`, invalid, `key "Url" differs from "url" only in case in config.pushNotificationConfig`, wire.OpPushSet},
		{"push set id", set + `{"id":7}`, invalid, "id is not a string", wire.OpPushSet},
		{"push set config id", set + `{"configId":"\n"}`, invalid, "configId contains a control character", wire.OpPushSet},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			q, body := parsed(tt.in)
			q.Version = wire.V10
			r, err := wire.ReadREST(q, []byte(body))
			var got *wire.Error
			if !errors.As(err, &got) {
				t.Fatalf("ReadREST(%s) = %+v, %v, want an *Error", tt.in, r, err)
			}
			want := &wire.Error{Code: tt.code, What: tt.what, Op: tt.op, Version: wire.V10}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("ReadREST(%s) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

// An agent that serves JSON-RPC at every path would take the envelope, whose
// message nobody has read.
func TestReadRESTRefusesEnvelopes(t *testing.T) {
	t.Parallel()
	const envelope = `"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"messageId":"m","contextId":"c"}}`
	for _, path := range []string{
		"/message:send", "/v1/message:stream", "/tasks/t:cancel", "/tasks/t:subscribe", "/tasks/t/pushNotificationConfigs", "/v1/tasks/t:cancel;a=b",
	} {
		for _, body := range []string{
			"{" + envelope + "}", `{"message":{"messageId":"m"},` + envelope + "}", `{` + envelope + `,"message":{"messageId":"m"},"taskId":"t"}`,
			`{"method":"SendMessage"}`, `{"jsonrpc":null}`, `{"Method":"x"}`, `{"JSONRPC":"2.0"}`, `{"j\u0073onrpc":"2.0"}`, ` {"jſonrpc":"2.0"}`,
			`{"Message":{},"METHOD":1}`,
		} {
			r, err := wire.ReadREST(wire.RESTCall{Verb: "POST", Path: path}, []byte(body))
			const want = "body is a JSON-RPC request, but the path is one of HTTP+JSON"
			var got *wire.Error
			if !errors.As(err, &got) || got.Code != wire.CodeInvalid || got.Foreign || got.What != want {
				t.Errorf("ReadREST(POST %s, %s) = %+v, %v, want %q", path, body, r, err, want)
			}
		}
	}
}

func TestReadRESTForeign(t *testing.T) {
	t.Parallel()
	_, err := wire.ReadREST(wire.RESTCall{Verb: "POST", Path: "/invoke"}, []byte("x"))
	var got *wire.Error
	if !errors.As(err, &got) || !got.Foreign {
		t.Errorf("ReadREST(POST /invoke) = %+v, want a Foreign *Error", err)
	}
}

func TestEditedREST(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"replace", "POST /message:send\n\n" + `{"message":{"messageId":"m","contextId":"old"}}`, `{"message":{"messageId":"m","contextId":"new"}}`},
		{"insert", "POST /v1/message:stream\n\n" + `{"message":{"messageId":"m"}, "metadata":{"contextId":"x"}}`, `{"message":{"messageId":"m","contextId":"new"}, "metadata":{"contextId":"x"}}`},
		{"insert in snake case", "POST /message:send\n\n" + `{"message":{"message_id":"m" }}`, `{"message":{"message_id":"m","context_id":"new" }}`},
		{"insert in escaped snake case", "POST /message:send\n\n" + `{"message":{"message\u005fid":"m"}}`, `{"message":{"message\u005fid":"m","context_id":"new"}}`},
		{"insert in the proto's message", "POST /v1/message:send\n\n" + `{"request":{"messageId":"m"}}`, `{"request":{"messageId":"m","contextId":"new"}}`},
		{"get", "GET /tasks/t\n\n", ""},
		{"list: its context is not in the body", "GET /tasks?contextId=c\n\n", ""},
		{"cancel", "POST /tasks/t:cancel\n\n{ }", "{ }"},
		{"push set", "POST /tasks/t/pushNotificationConfigs\n\n" + `{"contextId":"x"}`, `{"contextId":"x"}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := readREST(t, tt.in)
			if got := string(withContext(r, "new")); got != tt.want {
				t.Errorf("Edited(%s, context new) = %s, want %s", tt.in, got, tt.want)
			}
			if strings.Contains(tt.in, "old") {
				return
			}
			if got := string(withContext(r, "")); !strings.HasSuffix(tt.in, got) {
				t.Errorf("Edited(%s, no context) = %s, want the body", tt.in, got)
			}
		})
	}
}

// The parts of a message have two names in HTTP+JSON.
func TestReadRESTParts(t *testing.T) {
	t.Parallel()
	for _, message := range []string{
		`{"message":{"messageId":"m","parts":[{"text":"x"}]}}`,
		`{"request":{"message_id":"m","content":[{"text":"x"}]}}`,
	} {
		if got := string(readREST(t, "POST /message:send\n\n"+message).Parts()); got != `[{"text":"x"}]` {
			t.Errorf("ReadREST(%s).Parts() = %s, want the array", message, got)
		}
	}
}
