package wire_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// read reads a body that must be accepted.
func read(tb testing.TB, body string) *wire.Request {
	tb.Helper()
	r, err := wire.Read([]byte(body))
	if err != nil {
		tb.Fatalf("Read(%s) = %v, want no error", body, err)
	}
	return r
}

// withContext is the body after it was made to name that context.
func withContext(r *wire.Request, id string) []byte { return r.Edited(wire.Edit{Context: &id}) }

// same reports whether two slices are one.
func same(a, b []byte) bool { return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0]) }

// call is a request body with these params.
func call(method, params string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":%q,"params":%s}`, method, params)
}

// send is a send whose message has these further members.
func send(members string) string {
	return call("SendMessage", `{"message":{"messageId":"m1"`+members+`}}`)
}

func TestReadMethods(t *testing.T) {
	t.Parallel()
	const params = `{"id":"i","taskId":"t","contextId":"c","message":{"messageId":"m","taskId":"mt","contextId":"mc","parts":[{"text":"x"}]}}`
	for method, want := range map[string]wire.Request{
		"message/send":                        {Version: wire.V03, Op: wire.OpSend, MessageID: "m", ContextID: "mc", TaskID: "mt"},
		"message/stream":                      {Version: wire.V03, Op: wire.OpStream, MessageID: "m", ContextID: "mc", TaskID: "mt"},
		"tasks/get":                           {Version: wire.V03, Op: wire.OpGet, TaskID: "i"},
		"tasks/list":                          {Version: wire.V03, Op: wire.OpList, ContextID: "c"},
		"tasks/cancel":                        {Version: wire.V03, Op: wire.OpCancel, TaskID: "i"},
		"tasks/resubscribe":                   {Version: wire.V03, Op: wire.OpSubscribe, TaskID: "i"},
		"tasks/pushNotificationConfig/set":    {Version: wire.V03, Op: wire.OpPushSet, TaskID: "t"},
		"tasks/pushNotificationConfig/get":    {Version: wire.V03, Op: wire.OpPushGet, TaskID: "i"},
		"tasks/pushNotificationConfig/list":   {Version: wire.V03, Op: wire.OpPushList, TaskID: "i"},
		"tasks/pushNotificationConfig/delete": {Version: wire.V03, Op: wire.OpPushDelete, TaskID: "i"},
		"agent/getAuthenticatedExtendedCard":  {Version: wire.V03, Op: wire.OpCard},
		"SendMessage":                         {Version: wire.V10, Op: wire.OpSend, MessageID: "m", ContextID: "mc", TaskID: "mt"},
		"SendStreamingMessage":                {Version: wire.V10, Op: wire.OpStream, MessageID: "m", ContextID: "mc", TaskID: "mt"},
		"GetTask":                             {Version: wire.V10, Op: wire.OpGet, TaskID: "i"},
		"ListTasks":                           {Version: wire.V10, Op: wire.OpList, ContextID: "c"},
		"CancelTask":                          {Version: wire.V10, Op: wire.OpCancel, TaskID: "i"},
		"SubscribeToTask":                     {Version: wire.V10, Op: wire.OpSubscribe, TaskID: "i"},
		"CreateTaskPushNotificationConfig":    {Version: wire.V10, Op: wire.OpPushSet, TaskID: "t"},
		"GetTaskPushNotificationConfig":       {Version: wire.V10, Op: wire.OpPushGet, TaskID: "t"},
		"ListTaskPushNotificationConfigs":     {Version: wire.V10, Op: wire.OpPushList, TaskID: "t"},
		"DeleteTaskPushNotificationConfig":    {Version: wire.V10, Op: wire.OpPushDelete, TaskID: "t"},
		"GetExtendedAgentCard":                {Version: wire.V10, Op: wire.OpCard},
		"Unheard":                             {Version: wire.V10},
		"un/heard":                            {Version: wire.V03},
		"sendMessage":                         {Version: wire.V03},
		"":                                    {Version: wire.V03},
	} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			want.Method = method
			// The params come first: their reading waits for the method.
			body := fmt.Sprintf(`{"params":%s,"jsonrpc":"2.0","id":1,"method":%q}`, params, method)
			got := *read(t, body)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(got), cmpopts.IgnoreFields(got, "ID", "Push")); diff != "" {
				t.Errorf("Read(%s) (-want +got):\n%s", body, diff)
			}
			if want := `[{"text":"x"}]`; got.Op.Sends() != (string(got.Parts()) == want) || !got.Op.Sends() && got.Parts() != nil {
				t.Errorf("Read(%s).Parts = %s, want %s for sends only", body, got.Parts(), want)
			}
			if (got.Push != nil) != (got.Op == wire.OpPushSet) {
				t.Errorf("Read(%s).Push = %+v, want one for push set only", body, got.Push)
			}
		})
	}
}

func TestReadFields(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		want       wire.Request // of a send: the fields that differ
	}{
		{"aliases", call("SendMessage", `{"message":{"message_id":"m1","context_id":"c","task_id":"t"}}`), wire.Request{ContextID: "c", TaskID: "t"}},
		{"escaped key", send(`,"context\u0049d":"c"`), wire.Request{ContextID: "c"}},
		{"escaped value", send(`,"contextId":"\u0063\/"`), wire.Request{ContextID: "c/"}},
		{"escaped method", strings.Replace(send(""), "SendMessage", `Send\u004dessage`, 1), wire.Request{}},
		{"empty ids", send(`,"contextId":"","taskId":""`), wire.Request{}},
		{"null ids", send(`,"contextId":null,"taskId":null`), wire.Request{}},
		{"longest id", send(`,"contextId":"` + strings.Repeat("c", wire.MaxID) + `"`), wire.Request{ContextID: strings.Repeat("c", wire.MaxID)}},
		{"sender session", send(`,"metadata":{"adk_session_id":"s","other":1}`), wire.Request{SenderSession: "s"}},
		{"sender session of another type", send(`,"metadata":{"adk_session_id":1,"ADK_SESSION_ID":"x"}`), wire.Request{}},
		{"metadata null", send(`,"metadata":null`), wire.Request{}},
		{"metadata keys are the user's", send(`,"metadata":{"contextid":"x","CONTEXTID":"y","METHOD":1}`), wire.Request{}},
		{"unknown fields", send(`,"x":{"contextId":"deep","CONTEXTID":1},"parts":[{"contextId":"deeper"}]`), wire.Request{}},
		{"half a surrogate pair in a text", send(`,"parts":[{"text":"\ud83d"}]`), wire.Request{}},
		{"white space", " \n" + strings.ReplaceAll(send(` , "contextId" : "c" `), ",", " ,\r\n\t") + "\n", wire.Request{ContextID: "c"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			tt.want.Method, tt.want.Version, tt.want.Op, tt.want.MessageID = "SendMessage", wire.V10, wire.OpSend, "m1"
			got := *read(t, tt.body)
			if diff := cmp.Diff(tt.want, got, cmpopts.IgnoreUnexported(got), cmpopts.IgnoreFields(got, "ID", "Push")); diff != "" {
				t.Errorf("Read(%s) (-want +got):\n%s", tt.body, diff)
			}
		})
	}
}

func TestReadID(t *testing.T) {
	t.Parallel()
	for _, id := range []string{`1`, `-1`, `1.50`, `12345678901234567890`, `"x"`, `"\u0041"`, `null`} {
		body := `{"jsonrpc":"2.0","id": ` + id + ` ,"method":"GetTask"}`
		if got := string(read(t, body).ID); got != id {
			t.Errorf("Read(%s).ID = %s, want %s", body, got, id)
		}
	}
	if got := read(t, `{"jsonrpc":"2.0","method":"GetTask"}`).ID; got != nil {
		t.Errorf("Read(notification).ID = %s, want nil", got)
	}
}

func TestReadSlicesCannotGrowIntoBody(t *testing.T) {
	t.Parallel()
	r := read(t, send(`,"parts":[{"text":"x"}]`))
	for name, s := range map[string][]byte{"ID": r.ID, "Parts": r.Parts()} {
		if len(s) == 0 || cap(s) != len(s) {
			t.Errorf("cap(%s) = %d, want its length %d", name, cap(s), len(s))
		}
	}
}

// An unknown method is not ours to judge, as long as it has one reading.
func TestReadOther(t *testing.T) {
	t.Parallel()
	for _, params := range []string{`null`, `[]`, `"x"`, `{"message":"text"}`, `{"MESSAGE":1}`, `{"taskId":1,"task_id":2}`} {
		if r := read(t, call("Nope", params)); r.Op != wire.OpOther {
			t.Errorf("Read(Nope %s).Op = %v, want other", params, r.Op)
		}
	}
}

func TestReadRefuses(t *testing.T) {
	t.Parallel()
	const parse, invalid = wire.CodeParse, wire.CodeInvalid
	long := strings.Repeat("c", wire.MaxID+1)
	for _, tt := range []struct {
		name, body string
		code       int
		id, what   string
		op         wire.Op
	}{
		{"empty", "", parse, "", "body is empty", 0},
		{"spaces", " \n", parse, "", "body is empty", 0},
		{"not JSON", "hello", parse, "", "body is not JSON: syntax error at byte 0", 0},
		{"cut", `{"jsonrpc":"2.0","id":7,"method":"message/stream","params":{`, parse, "7", "body is not JSON: it ends early at byte 60 in params", wire.OpStream},
		{"cut in a value", `{"id":"x","method":"SendMessage","params":{"message":{"parts":["secr`, parse, `"x"`, "body is not JSON: it ends early at byte 68 in params.message.parts.0", wire.OpSend},
		{"invalid UTF-8", `{"id":1,"method":"SendMessage","params":{"x":"` + "\xff" + `"}}`, parse, "1", "body is not JSON: invalid UTF-8", wire.OpSend},
		{"half a surrogate pair in an id", send(`,"contextId":"\ud800"`), invalid, "1", "params.message.contextId is not valid UTF-8", wire.OpSend},
		{"BOM", "\xEF\xBB\xBF" + send(""), parse, "", "body is not JSON: syntax error at byte 0", 0},
		{"batch", "[" + send("") + "]", invalid, "", "body is a batch: batches are not part of A2A", 0},
		{"broken batch", `[{"id":1`, parse, "", "body is not JSON: it ends early at byte 8 in 0", 0},
		{"string", `"x"`, invalid, "", "body is not a JSON object", 0},
		{"null", `null`, invalid, "", "body is not a JSON object", 0},
		{"two values", send("") + send(""), parse, "1", "bytes after the JSON value", wire.OpSend},
		{"bytes after", send("") + "}", parse, "1", "bytes after the JSON value", wire.OpSend},

		{"duplicate contextId", send(`,"contextId":"a","contextId":"b"`), invalid, "1", `duplicate key "contextId" in params.message`, wire.OpSend},
		{"duplicate by escape", send(`,"contextId":"a","context\u0049d":"b"`), invalid, "1", `duplicate key "contextId" in params.message`, wire.OpSend},
		{"duplicate message", call("SendMessage", `{"message":{"messageId":"a"},"message":{"messageId":"b"}}`), invalid, "1", `duplicate key "message" in params`, wire.OpSend},
		{"duplicate deep down", send(`,"parts":[{"data":{"a":1,"a":2}}]`), invalid, "1", `duplicate key "a" in params.message.parts.0.data`, wire.OpSend},
		{"duplicate id", `{"id":1,"id":2,"method":"SendMessage"}`, invalid, "", `duplicate key "id"`, wire.OpSend},
		{"duplicate method", `{"id":1,"method":"SendMessage","method":"GetTask"}`, invalid, "1", `duplicate key "method"`, 0},
		{"id after the fault", `{"jsonrpc":"2.0","params":{"a":1,"a":2},"method":"SendStreamingMessage","id":"late"}`, invalid, `"late"`, `duplicate key "a" in params`, wire.OpStream},
		{"duplicate in a foreign method", call("Nope", `{"a":1,"a":2}`), invalid, "1", `duplicate key "a" in params`, 0},

		{"contextId and alias", send(`,"contextId":"a","context_id":"b"`), invalid, "1", "contextId and context_id are both present in params.message", wire.OpSend},
		{"alias and contextId", send(`,"context_id":"b","contextId":"a"`), invalid, "1", "contextId and context_id are both present in params.message", wire.OpSend},
		{"messageId and alias", send(`,"message_id":"b"`), invalid, "1", "messageId and message_id are both present in params.message", wire.OpSend},
		{"taskId and alias", send(`,"taskId":"a","task_id":"b"`), invalid, "1", "taskId and task_id are both present in params.message", wire.OpSend},
		{"params.taskId and alias", call("GetTaskPushNotificationConfig", `{"taskId":"a","task_id":"b"}`), invalid, "1", "taskId and task_id are both present in params", wire.OpPushGet},
		{"params.contextId and alias", call("ListTasks", `{"contextId":"a","context_id":"b"}`), invalid, "1", "contextId and context_id are both present in params", wire.OpList},
		{"push config and alias", call("SendMessage", `{"message":{"messageId":"m"},"configuration":{"pushNotificationConfig":{},"push_notification_config":{}}}`), invalid, "1", "pushNotificationConfig and push_notification_config are both present in params.configuration", wire.OpSend},
		{"push configs of both versions", call("SendMessage", `{"message":{"messageId":"m"},"configuration":{"taskPushNotificationConfig":{},"pushNotificationConfig":{}}}`), invalid, "1", "pushNotificationConfig and taskPushNotificationConfig are both present in params.configuration", wire.OpSend},
		{"two push urls", call("tasks/pushNotificationConfig/set", `{"taskId":"t","pushNotificationConfig":{"url":"a"},"url":"b"}`), invalid, "1", "a second url is present in params", wire.OpPushSet},

		{"contextId in case", send(`,"CONTEXTID":"a"`), invalid, "1", `key "CONTEXTID" differs from "contextId" only in case in params.message`, wire.OpSend},
		{"beside the right one", send(`,"contextId":"a","ContextId":"b"`), invalid, "1", `key "ContextId" differs from "contextId" only in case in params.message`, wire.OpSend},
		{"alias in case", send(`,"Context_ID":"a"`), invalid, "1", `key "Context_ID" differs from "contextId" only in case in params.message`, wire.OpSend},
		{"messageId in case", send(`,"messageid":"a"`), invalid, "1", `key "messageid" differs from "messageId" only in case in params.message`, wire.OpSend},
		{"taskId in case", send(`,"taskID":"a"`), invalid, "1", `key "taskID" differs from "taskId" only in case in params.message`, wire.OpSend},
		{"Unicode folding", send(`,"ta` + "ſ" + `kId":"a"`), invalid, "1", `key "taſkId" differs from "taskId" only in case in params.message`, wire.OpSend},
		{"Kelvin sign", send(`,"tas` + "\u212a" + `Id":"a"`), invalid, "1", "key \"tas\u212aId\" differs from \"taskId\" only in case in params.message", wire.OpSend},
		{"metadata in case", send(`,"Metadata":{}`), invalid, "1", `key "Metadata" differs from "metadata" only in case in params.message`, wire.OpSend},
		{"params.message in case", call("SendMessage", `{"Message":{"messageId":"m"}}`), invalid, "1", `key "Message" differs from "message" only in case in params`, wire.OpSend},
		{"params.id in case", call("GetTask", `{"ID":"t"}`), invalid, "1", `key "ID" differs from "id" only in case in params`, wire.OpGet},
		{"params.configuration in case", call("SendMessage", `{"Configuration":{},"message":{"messageId":"m"}}`), invalid, "1", `key "Configuration" differs from "configuration" only in case in params`, wire.OpSend},
		{"params.metadata in case", call("SendMessage", `{"METADATA":{},"message":{"messageId":"m"}}`), invalid, "1", `key "METADATA" differs from "metadata" only in case in params`, wire.OpSend},
		{"push url in case", call("SendMessage", `{"configuration":{"pushNotificationConfig":{"URL":"x"}},"message":{"messageId":"m"}}`), invalid, "1", `key "URL" differs from "url" only in case in params.configuration.pushNotificationConfig`, wire.OpSend},
		{"push config in case", call("SendMessage", `{"configuration":{"PushNotificationConfig":{}},"message":{"messageId":"m"}}`), invalid, "1", `key "PushNotificationConfig" differs from "pushNotificationConfig" only in case in params.configuration`, wire.OpSend},
		{"method in case", `{"jsonrpc":"2.0","id":1,"method":"GetTask","Method":"SendMessage"}`, invalid, "1", `key "Method" differs from "method" only in case`, wire.OpGet},
		{"params in case", `{"jsonrpc":"2.0","id":1,"method":"GetTask","PARAMS":{}}`, invalid, "1", `key "PARAMS" differs from "params" only in case`, wire.OpGet},
		{"id in case", `{"jsonrpc":"2.0","Id":1,"method":"GetTask"}`, invalid, "", `key "Id" differs from "id" only in case`, wire.OpGet},
		{"jsonrpc in case", `{"JSONRPC":"2.0","id":1,"method":"GetTask"}`, invalid, "1", `key "JSONRPC" differs from "jsonrpc" only in case`, wire.OpGet},

		{"contextId number", send(`,"contextId":5`), invalid, "1", "params.message.contextId is not a string", wire.OpSend},
		{"contextId object", send(`,"contextId":{}`), invalid, "1", "params.message.contextId is not a string", wire.OpSend},
		{"taskId array", send(`,"taskId":[]`), invalid, "1", "params.message.taskId is not a string", wire.OpSend},
		{"messageId bool", call("SendMessage", `{"message":{"messageId":true}}`), invalid, "1", "params.message.messageId is not a string", wire.OpSend},
		{"params.id number", call("tasks/cancel", `{"id":5}`), invalid, "1", "params.id is not a string", wire.OpCancel},
		{"params.taskId number", call("GetTaskPushNotificationConfig", `{"taskId":5}`), invalid, "1", "params.taskId is not a string", wire.OpPushGet},
		{"params.contextId number", call("ListTasks", `{"contextId":5}`), invalid, "1", "params.contextId is not a string", wire.OpList},
		{"control character", send(`,"contextId":"a\u0000b"`), invalid, "1", "params.message.contextId contains a control character", wire.OpSend},
		{"line break", send(`,"taskId":"a\nb"`), invalid, "1", "params.message.taskId contains a control character", wire.OpSend},
		{"too long", send(`,"contextId":"` + long + `"`), invalid, "1", "params.message.contextId is longer than 512 bytes", wire.OpSend},

		{"no message", call("SendMessage", `{}`), invalid, "1", "params.message is missing", wire.OpSend},
		{"no params", `{"jsonrpc":"2.0","id":1,"method":"SendMessage"}`, invalid, "1", "params.message is missing", wire.OpSend},
		{"null params", call("message/stream", `null`), invalid, "1", "params.message is missing", wire.OpStream},
		{"params array", call("GetTask", `["t"]`), invalid, "1", "params is not an object", wire.OpGet},
		{"message string", call("SendMessage", `{"message":"hi"}`), invalid, "1", "params.message is not an object", wire.OpSend},
		{"message null", call("SendMessage", `{"message":null}`), invalid, "1", "params.message is not an object", wire.OpSend},
		{"no messageId", call("SendMessage", `{"message":{}}`), invalid, "1", "params.message.messageId is missing", wire.OpSend},
		{"empty messageId", call("SendMessage", `{"message":{"messageId":""}}`), invalid, "1", "params.message.messageId is missing", wire.OpSend},
		{"null messageId", call("SendMessage", `{"message":{"messageId":null}}`), invalid, "1", "params.message.messageId is missing", wire.OpSend},

		{"no jsonrpc", `{"id":1,"method":"GetTask"}`, invalid, "1", `jsonrpc is not "2.0"`, wire.OpGet},
		{"jsonrpc 1.0", `{"jsonrpc":"1.0","id":1,"method":"GetTask"}`, invalid, "1", `jsonrpc is not "2.0"`, wire.OpGet},
		{"jsonrpc number", `{"jsonrpc":2.0,"id":1,"method":"GetTask"}`, invalid, "1", `jsonrpc is not "2.0"`, wire.OpGet},
		{"no method", `{"jsonrpc":"2.0","id":1}`, invalid, "1", "method is not a string", 0},
		{"method number", `{"jsonrpc":"2.0","id":1,"method":5}`, invalid, "1", "method is not a string", 0},
		{"id object", `{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, invalid, "", "id is neither a string, a number nor null", wire.OpGet},
		{"id bool", `{"jsonrpc":"2.0","id":true,"method":"GetTask"}`, invalid, "", "id is neither a string, a number nor null", wire.OpGet},
		{"id null beside a fault", `{"jsonrpc":"2.0","id":null,"method":"SendMessage"}`, invalid, "", "params.message is missing", wire.OpSend},
		{"long key", `{"jsonrpc":"2.0","id":1,"` + long + `":1,"` + long + `":2}`, invalid, "1", `duplicate key "` + long[:80] + `…"`, 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r, err := wire.Read([]byte(tt.body))
			var got *wire.Error
			if !errors.As(err, &got) {
				t.Fatalf("Read(%s) = %+v, %v, want an *Error", tt.body, r, err)
			}
			if got.What != tt.what || got.Code != tt.code || string(got.ID) != tt.id || got.Op != tt.op {
				t.Errorf("Read(%s) = %q, code %d, id %s, op %v,\nwant %q, code %d, id %s, op %v", tt.body, got.What, got.Code, got.ID, got.Op, tt.what, tt.code, tt.id, tt.op)
			}
			if got.Foreign {
				t.Errorf("Read(%s).Foreign = true, want false", tt.body)
			}
		})
	}
}

func TestReadForeign(t *testing.T) {
	t.Parallel()
	for body, want := range map[string]bool{
		`{}`:                        true,
		`{"query":"x","n":1}`:       true,
		`{"a":1,"a":2}`:             true, // not ours to refuse
		`{"id":"cfg","url":"x"}`:    true, // a push configuration over HTTP+JSON
		`{"a":1,"a":2}{"id":1}`:     false,
		`{"a":1,"a":2`:              false,
		`{"a":1}{"id":1}`:           false,
		`{"Method":1}`:              false,
		`{"a":1,"a":2,"JSONRPC":1}`: false,
		`[]`:                        false,
		`x`:                         false,
	} {
		_, err := wire.Read([]byte(body))
		var got *wire.Error
		if !errors.As(err, &got) || got.Foreign != want {
			t.Errorf("Read(%s) = %+v, want Foreign %v", body, got, want)
		}
	}
}

func TestCheckID(t *testing.T) {
	t.Parallel()
	for value, want := range map[string]string{
		"":                                  "x is empty",
		"a":                                 "",
		"7126fcd2-a8b7-4a38-9ef3-94ece8234": "",
		"zażółć 漢字":                         "",
		"a\x7f":                             "x contains a control character",
		"a\u0085":                           "x contains a control character",
		"a\t":                               "x contains a control character",
		" a":                                "x begins or ends with a space",
		"a ":                                "x begins or ends with a space",
		"a\xff":                             "x is not valid UTF-8",
		strings.Repeat("a", 512):            "",
		strings.Repeat("a", 513):            "x is longer than 512 bytes",
	} {
		got := ""
		if err := wire.CheckID("x", value); err != nil {
			got = err.Error()
		}
		if got != want {
			t.Errorf("CheckID(x, %q) = %q, want %q", value, got, want)
		}
	}
}
