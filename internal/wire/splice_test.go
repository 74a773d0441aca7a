package wire_test

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

func TestWithContextID(t *testing.T) {
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
			if got := string(read(t, tt.in).WithContextID(tt.id)); got != tt.want {
				t.Errorf("WithContextID(%s, %q) =\n%s, want\n%s", tt.in, tt.id, got, tt.want)
			}
		})
	}
}

func TestWithContextIDLeavesBody(t *testing.T) {
	t.Parallel()
	in := send(`,"contextId":"old"`)
	body := []byte(in)
	r, err := wire.Read(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{"new", "", strings.Repeat("n", 99)} {
		r.WithContextID(id)
	}
	if string(body) != in {
		t.Errorf("after WithContextID the body is %s, want %s", body, in)
	}
	if got := r.WithContextID("old"); &got[0] != &body[0] || len(got) != len(body) {
		t.Errorf("WithContextID(old) is a copy, want the body itself")
	}
}

// checkSplice holds what must be true of every body that Read accepts.
func checkSplice(t errorer, body []byte, id string) {
	t.Helper()
	r, err := wire.Read(body)
	if err != nil {
		var e *wire.Error
		if !errors.As(err, &e) || e.What == "" || e.Code != wire.CodeParse && e.Code != wire.CodeInvalid {
			t.Errorf("Read(%q) = %#v, want an *Error with a code and words", body, err)
		}
		return
	}
	if got := r.WithContextID(r.ContextID); len(got) != len(body) || &got[0] != &body[0] {
		t.Errorf("WithContextID(%q, its own id) is a copy, want the body itself", body)
	}
	if wire.CheckID("id", id) != nil {
		id = ""
	}
	out := r.WithContextID(id)
	again, err := wire.Read(out)
	if err != nil {
		t.Fatalf("Read(%q, after WithContextID %q) = %v, want no error", out, id, err)
	}
	if &out[0] == &body[0] {
		return // nothing to change, or no place for it
	}
	if again.ContextID != id {
		t.Errorf("Read(%q).ContextID = %q, want %q", out, again.ContextID, id)
	}
	if again.MessageID != r.MessageID || again.TaskID != r.TaskID || again.Op != r.Op || again.Version != r.Version ||
		!bytes.Equal(again.ID, r.ID) || again.SenderSession != r.SenderSession || again.NonBlocking != r.NonBlocking {
		t.Errorf("Read(%q) = %+v, want %+v but for the context", out, again, r)
	}
	// One span differs. It holds an id and, when a member came or went, its key
	// and punctuation; six bytes at most for each character, and space.
	head := 0
	for head < min(len(body), len(out)) && body[head] == out[head] {
		head++
	}
	tail := 0
	for tail < min(len(body), len(out))-head && body[len(body)-1-tail] == out[len(out)-1-tail] {
		tail++
	}
	gone, added := body[head:len(body)-tail], out[head:len(out)-tail]
	const rest = 6*len("context_id") + len(`,"":""`)
	if len(bytes.Join(bytes.Fields(gone), nil)) > 6*len(r.ContextID)+rest || len(added) > 6*len(id)+rest {
		t.Errorf("WithContextID(%q, %q) replaces %q by %q, want only the id", body, id, gone, added)
	}
	if r.ContextID != "" && id != "" {
		if back := again.WithContextID(r.ContextID); string(back) != string(body) && !bytes.Contains(body, []byte(`\`)) {
			t.Errorf("WithContextID there and back = %q, want %q", back, body)
		}
	}
}

// errorer is what checkSplice needs of *testing.T and *rapid.T.
type errorer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

func TestSpliceProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		space := rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n"})
		members := rapid.Permutation([]string{
			`"messageId"§:"m"`, `"parts":[{"text":"a,b}"}§,{"data":{"contextId":1.0}}]`, `"role":"user"`,
			rapid.SampledFrom([]string{`"contextId"§:§"c"`, `"context_id":""`, `"contextId":null`, `"x":{}`, `"context\u0049d":"c\/"`}).Draw(t, "context"),
		}).Draw(t, "members")
		body := fmt.Sprintf(`§{§"params":§{"message":§{§%s§}§,"x":[]},"method":%q,"id":1e0§,"jsonrpc":"2.0"}§`,
			strings.Join(members, "§,§"), rapid.SampledFrom([]string{"SendMessage", "message/stream"}).Draw(t, "method"))
		for strings.Contains(body, "§") {
			body = strings.Replace(body, "§", space.Draw(t, "space"), 1)
		}
		if _, err := wire.Read([]byte(body)); err != nil {
			t.Fatalf("Read(%q) = %v, want no error", body, err)
		}
		checkSplice(t, []byte(body), rapid.String().Draw(t, "id"))
	})
}

func FuzzRead(f *testing.F) {
	for _, b := range seeds(f, "requests") {
		f.Add(b, "ctx")
	}
	f.Add([]byte(send(`, "context_id" : null , "metadata":{"adk_session_id":"s"}`)), `q"\`)
	f.Add([]byte(call("ListTasks", `{ "contextId":"c" }`)), "")
	f.Add([]byte(`{"jsonrpc":"2.0","params":{"a":1,"a":2},"method":"SendStreamingMessage","id":"late"}`), "c")
	f.Fuzz(func(t *testing.T, body []byte, id string) {
		checkSplice(t, body, id)
	})
}

// body is a send of about that many bytes, with the context near its end, as
// real ones have it.
func body(size int) []byte {
	const frame = `{"jsonrpc":"2.0","id":"01a1f815-682b-7f5c-8a38-5c1f63b0ae55","method":"message/send","params":{"configuration":{"acceptedOutputModes":["text/plain"],"blocking":true},"message":{"kind":"message","messageId":"01a1f815-682b-7f5c-8a38-5c1f63b0ae56","role":"user","parts":[%s],"taskId":"01a1f815-682b-7f5c-8a38-5c1f63b0ae57","contextId":"01a1f815-682b-7f5c-8a38-5c1f63b0ae58","metadata":{"adk_session_id":"01a1f815-682b-7f5c-8a38-5c1f63b0ae59","adk_user_id":"u"}}}}`
	var parts []string
	for n := len(frame); n < size; n += 1000 {
		parts = append(parts, `{"kind":"text","text":"`+strings.Repeat("lorem ipsum ", min(size-n, 1000)/12)+`"}`)
	}
	return fmt.Appendf(nil, frame, strings.Join(parts, ","))
}

func BenchmarkReadSplice(b *testing.B) {
	for _, bb := range []struct {
		name string
		size int
	}{{"1KB", 1 << 10}, {"100KB", 100 << 10}, {"1MB", 1 << 20}} {
		b.Run(bb.name, func(b *testing.B) {
			in := body(bb.size)
			b.SetBytes(int64(len(in)))
			b.ReportAllocs()
			for b.Loop() {
				r, err := wire.Read(in)
				if err != nil {
					b.Fatal(err)
				}
				r.WithContextID("01a1f815-682b-7f5c-8a38-5c1f63b0aeff")
			}
		})
	}
}
