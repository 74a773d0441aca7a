package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// Where each version and binding has a push configuration. The URL is named
// URL, so that the place an edit touches is plain.
func TestReadPush(t *testing.T) {
	t.Parallel()
	const post = "POST /tasks/t/pushNotificationConfigs\n\n"
	const v03 = `{"id":"p","url":"URL","token":"x","authentication":{"schemes":["Bearer"],"credentials":"s"}}`
	const v10 = `"id":"p","url":"URL","token":"x","authentication":{"scheme":"Bearer","credentials":"s"}`
	full := &wire.Push{ID: "p", URL: "URL", HasToken: true, HasScheme: true}
	message := func(configuration string) string {
		return call("SendMessage", `{"configuration":`+configuration+`,"message":{"messageId":"m"}}`)
	}
	for _, tt := range []struct {
		name, in string // a body of JSON-RPC, or an HTTP+JSON request
		want     *wire.Push
	}{
		{"0.3 send", message(`{"pushNotificationConfig":` + v03 + `}`), full},
		{"0.3 send in snake case", message(`{"push_notification_config":` + v03 + `}`), full},
		{"0.3 send as the proto has it", "POST /v1/message:send\n\n" + `{"request":{"messageId":"m"},"configuration":{"push_notification":` + v03 + `}}`, full},
		{"1.0 send", message(`{"taskPushNotificationConfig":{"taskId":"t",` + v10 + `}}`), full},
		{"1.0 send in snake case", message(`{"task_push_notification_config":{` + v10 + `}}`), full},
		{"send with null", message(`{"pushNotificationConfig":null}`), nil},
		{"send without", message(`{}`), nil},
		{"send with a configuration of no object", message(`[]`), nil},
		{"send with an empty one", message(`{"pushNotificationConfig":{}}`), &wire.Push{}},
		{"a url elsewhere is none", call("SendMessage", `{"url":"x","configuration":{"pushNotificationConfig":{}},"message":{"messageId":"m","url":"y"}}`), &wire.Push{}},
		{"empty secrets", message(`{"pushNotificationConfig":{"token":"","authentication":{"schemes":[ ]}}}`), &wire.Push{}},
		{"no scheme", message(`{"taskPushNotificationConfig":{"authentication":{"scheme":""}}}`), &wire.Push{}},
		{"schemes of both versions", message(`{"taskPushNotificationConfig":{"authentication":{"scheme":"a","schemes":["a"],"SCHEME":1}}}`), &wire.Push{HasScheme: true}},
		{"odd types", message(`{"pushNotificationConfig":{"url":1,"token":{},"authentication":"x"}}`), &wire.Push{}},
		{"null secrets", message(`{"pushNotificationConfig":{"id":null,"url":null,"token":null,"authentication":null}}`), &wire.Push{}},

		{"0.3 set", call("tasks/pushNotificationConfig/set", `{"taskId":"t","pushNotificationConfig":`+v03+`}`), full},
		{"1.0 set", call("CreateTaskPushNotificationConfig", `{"taskId":"t",`+v10+`}`), full},
		{"1.0 set over HTTP+JSON", post + `{"taskId":"t",` + v10 + `}`, full},
		{"0.3 set over HTTP+JSON", post + `{"parent":"tasks/t","configId":"q","config":{"name":"n","pushNotificationConfig":` + v03 + `}}`, full},
		{"0.3 set over HTTP+JSON, id beside it", post + `{"parent":"tasks/t","config_id":"p","config":{"pushNotificationConfig":` + strings.Replace(v03, `"id":"p",`, "", 1) + `}}`, full},
		{"0.3 set over HTTP+JSON, unboxed", post + `{"name":"tasks/t/pushNotificationConfigs/p","push_notification_config":` + v03 + `}`, full},
		{"0.3 set over HTTP+JSON, bare", post + v03, full},
		{"get has none", call("GetTaskPushNotificationConfig", `{"taskId":"t",`+v10+`}`), nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var r *wire.Request
			body := tt.in
			if strings.HasPrefix(tt.in, "POST") {
				r = readREST(t, tt.in)
				_, body = parsed(tt.in)
			} else {
				r = read(t, tt.in)
			}
			if diff := cmp.Diff(tt.want, r.Push); diff != "" {
				t.Errorf("Push of %s (-want +got):\n%s", tt.in, diff)
			}
			want := body
			if tt.want != nil && tt.want.URL != "" {
				want = strings.Replace(body, `"URL"`, `"http://new/?a=\"b\""`, 1)
			}
			if got := string(r.Edited(wire.Edit{PushURL: `http://new/?a="b"`})); got != want {
				t.Errorf("Edited(%s, a push URL) = %s, want %s", body, got, want)
			}
			if got := r.Edited(wire.Edit{PushURL: "URL"}); string(got) != body {
				t.Errorf("Edited(%s, its own push URL) = %s, want the body", body, got)
			}
		})
	}
}

// Both edits are one pass, whichever comes first in the body.
func TestEditedTwice(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"message":{"messageId":"m","contextId":"c"},"configuration":{"pushNotificationConfig":{"url":"u"}}}`:                 `{"message":{"messageId":"m","contextId":"new"},"configuration":{"pushNotificationConfig":{"url":"http://new"}}}`,
		`{"configuration":{"pushNotificationConfig":{"url":"u"}},"message":{"messageId":"m"}}`:                                 `{"configuration":{"pushNotificationConfig":{"url":"http://new"}},"message":{"messageId":"m","contextId":"new"}}`,
		`{"configuration":{"pushNotificationConfig":{"url":"u"}},"message":{"contextId":"new","messageId":"m"},"contextId":1}`: `{"configuration":{"pushNotificationConfig":{"url":"http://new"}},"message":{"contextId":"new","messageId":"m"},"contextId":1}`,
	} {
		id := "new"
		if got := string(read(t, call("SendMessage", in)).Edited(wire.Edit{Context: &id, PushURL: "http://new"})); got != call("SendMessage", want) {
			t.Errorf("Edited(%s) = %s, want %s", in, got, want)
		}
	}
}

func TestRewritePush(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		binding  wire.Binding
		in, want string
	}{
		{"0.3", wire.JSONRPC, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","pushNotificationConfig":{"id":"p","url":"ours"}}}`, `{"jsonrpc":"2.0","id":1,"result":{"taskId":"t","pushNotificationConfig":{"id":"p","url":"the\"irs"}}}`},
		{"0.3 list", wire.JSONRPC, `{"result":[{"pushNotificationConfig":{"url":"ours"}},{"pushNotificationConfig":{"url":"other"}},{"pushNotificationConfig":{"url":"our\u0073"}}]}`, `{"result":[{"pushNotificationConfig":{"url":"the\"irs"}},{"pushNotificationConfig":{"url":"other"}},{"pushNotificationConfig":{"url":"the\"irs"}}]}`},
		{"1.0", wire.JSONRPC, ` { "result" : { "url" : "ours" , "n" : 1.0 } } `, ` { "result" : { "url" : "the\"irs" , "n" : 1.0 } } `},
		{"1.0 list", wire.JSONRPC, `{"result":{"configs":[{"url":"ours"},{"url":"ours"}],"nextPageToken":""}}`, `{"result":{"configs":[{"url":"the\"irs"},{"url":"the\"irs"}],"nextPageToken":""}}`},
		{"not ours", wire.JSONRPC, `{"result":{"url":"other"}}`, `{"result":{"url":"other"}}`},
		{"not in the result", wire.JSONRPC, `{"url":"ours","error":{"url":"ours"}}`, `{"url":"ours","error":{"url":"ours"}}`},
		{"not a string", wire.JSONRPC, `{"result":{"url":["ours"],"urls":"ours"}}`, `{"result":{"url":["ours"],"urls":"ours"}}`},
		{"null", wire.JSONRPC, `{"result":null}`, `{"result":null}`},
		{"duplicates", wire.JSONRPC, `{"result":{"url":"other","url":"ours"}}`, `{"result":{"url":"other","url":"the\"irs"}}`},
		{"HTTP+JSON", wire.REST, `{"taskId":"t","url":"ours"}`, `{"taskId":"t","url":"the\"irs"}`},
		{"HTTP+JSON 0.3", wire.REST, `{"name":"n","push_notification_config":{"url":"ours"}}`, `{"name":"n","push_notification_config":{"url":"the\"irs"}}`},
		{"HTTP+JSON list", wire.REST, `{"configs":[{"pushNotificationConfig":{"\u0075rl":"ours"}}]}`, `{"configs":[{"pushNotificationConfig":{"\u0075rl":"the\"irs"}}]}`},
		{"HTTP+JSON array", wire.REST, `[{"url":"ours"},7,"url",null]`, `[{"url":"the\"irs"},7,"url",null]`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			in := []byte(tt.in)
			got, err := wire.RewritePush(tt.binding, in, func(url string) string {
				if url == "ours" {
					return `the"irs`
				}
				return url
			})
			if string(got) != tt.want || err != nil || tt.in == tt.want && !same(got, in) {
				t.Errorf("RewritePush(%s) = %s, %v, want %s", tt.in, got, err, tt.want)
			}
		})
	}
	for in, want := range map[string]string{
		"":                            "response is empty",
		"<html>":                      "response is not JSON: syntax error at byte 0",
		`{"result":{"url":"secret"]}`: "response is not JSON: syntax error at byte 25",
	} {
		if got, err := wire.RewritePush(wire.JSONRPC, []byte(in), strings.ToUpper); err == nil || err.Error() != want {
			t.Errorf("RewritePush(%s) = %s, %v, want %q", in, got, err, want)
		}
	}
}
