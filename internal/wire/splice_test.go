package wire_test

import (
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

func TestEditedContext(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, id, want string }{
		{"replace", send(`,"contextId":"old","x":1`), "new", send(`,"contextId":"new","x":1`)},
		{"replace empty", send(`,"contextId":""`), "new", send(`,"contextId":"new"`)},
		{"replace null", send(`,"contextId":null`), "new", send(`,"contextId":"new"`)},
		{"replace alias", send(`,"context_id":"old"`), "new", send(`,"context_id":"new"`)},
		{"replace escaped", send(`,"context\u0049d":"\u006fld"`), "new", send(`,"context\u0049d":"new"`)},
		{"needs escapes", send(`,"contextId":"old"`), `n"e\w`, send(`,"contextId":"n\"e\\w"`)},
		{"insert", send(""), "new", send(`,"contextId":"new"`)},
		{"insert after space", send(" , \"x\":1\n "), "new", send(" , \"x\":1,\"contextId\":\"new\"\n ")},
		{"insert last: kind stays first", call("message/send", `{"message":{"kind":"message","messageId":"m"}}`), "new", call("message/send", `{"message":{"kind":"message","messageId":"m","contextId":"new"}}`)},
		{"remove last", send(`,"contextId":"old"`), "", send("")},
		{"remove with space", send(" , \"contextId\" : \"old\" "), "", send("  ")},
		{"remove first", call("SendMessage", `{"message":{ "contextId":"old" , "messageId":"m"}}`), "", call("SendMessage", `{"message":{ "messageId":"m"}}`)},
		{"remove middle", send(`,"contextId":"old","x":1`), "", send(`,"x":1`)},
		{"remove absent", send(""), "", send("")},
		{"remove empty: already absent", send(`,"contextId":""`), "", send(`,"contextId":""`)},
		{"list replace", call("ListTasks", `{"contextId":"old"}`), "new", call("ListTasks", `{"contextId":"new"}`)},
		{"list insert", call("ListTasks", `{ }`), "new", call("ListTasks", `{"contextId":"new" }`)},
		{"list remove only", call("ListTasks", `{ "contextId":"old" }`), "", call("ListTasks", `{  }`)},
		{"list without params", call("ListTasks", `null`), "new", call("ListTasks", `null`)},
		{"get has no place for it", call("GetTask", `{"id":"t"}`), "new", call("GetTask", `{"id":"t"}`)},
		{"other has no place for it", call("Nope", `{"message":{}}`), "new", call("Nope", `{"message":{}}`)},
		{
			"everything else survives",
			" {\"zz\":1e2,\"jsonrpc\":\"2.0\",\"id\":12345678901234567890,\"method\":\"SendMessage\",\"params\":{\"message\":{\"contextId\":\"old\",\"messageId\":\"m\",\"n\":1.0,\"u\":\"<\\u00e9é>\",\"a\":[ ]}}}\r\n",
			"new",
			" {\"zz\":1e2,\"jsonrpc\":\"2.0\",\"id\":12345678901234567890,\"method\":\"SendMessage\",\"params\":{\"message\":{\"contextId\":\"new\",\"messageId\":\"m\",\"n\":1.0,\"u\":\"<\\u00e9é>\",\"a\":[ ]}}}\r\n",
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := string(withContext(read(t, tt.in), tt.id)); got != tt.want {
				t.Errorf("Edited(%s, context %q) =\n%s, want\n%s", tt.in, tt.id, got, tt.want)
			}
		})
	}
}

func TestEditedLeavesBody(t *testing.T) {
	t.Parallel()
	in := send(`,"contextId":"old"`)
	body := []byte(in)
	r, err := wire.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"new", "", strings.Repeat("n", 99)} {
		withContext(r, id)
	}
	if string(body) != in {
		t.Errorf("after Edited the body is %s, want %s", body, in)
	}
	if got := withContext(r, "old"); &got[0] != &body[0] || len(got) != len(body) {
		t.Errorf("Edited(context old) is a copy, want the body itself")
	}
}
