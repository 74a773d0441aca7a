package wire_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// errorer is what checkEdits needs of *testing.T and *rapid.T.
type errorer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// reader reads a body: wire.Read, or wire.ReadREST for some call.
type reader func(body []byte) (*wire.Request, error)

func readerOf(q wire.RESTCall) reader {
	return func(body []byte) (*wire.Request, error) { return wire.ReadREST(q, body) }
}

// checkEdits holds what must be true of every body.
func checkEdits(t errorer, read reader, body []byte, id, url string) {
	t.Helper()
	r, err := read(body)
	if err != nil {
		var e *wire.Error
		if !errors.As(err, &e) || e.What == "" || e.Code != wire.CodeParse && e.Code != wire.CodeInvalid {
			t.Errorf("reading %q = %#v, want an *Error with a code and words", body, err)
		}
		return
	}
	idle := wire.Edit{Context: &r.ContextID}
	if r.Push != nil {
		idle.PushURL = r.Push.URL
	}
	for _, e := range []wire.Edit{{}, idle} {
		if got := r.Edited(e); !same(got, body) {
			t.Errorf("Edited(%q, nothing) is a copy, want the body itself", body)
		}
	}
	if wire.CheckID("id", id) != nil {
		id = ""
	}
	checkContext(t, read, r, body, id)
	if url == "" || !utf8.ValidString(url) {
		url = "http://new/"
	}
	out := r.Edited(wire.Edit{Context: &id, PushURL: url})
	if same(out, body) {
		return
	}
	again, err := read(out)
	if err != nil {
		t.Fatalf("reading %q, after Edited to %q and %q = %v, want no error", out, id, url, err)
	}
	if again.Push != nil && again.Push.URL != "" && again.Push.URL != url {
		t.Errorf("reading %q has the push URL %q, want %q", out, again.Push.URL, url)
	}
	if diff := cmp.Diff(forgetful(t, r, body), forgetful(t, r, out)); diff != "" {
		t.Errorf("Edited(%q, %q, %q) changed more (-want +got):\n%s", body, id, url, diff)
	}
}

// checkContext holds what must be true of an edit of the context alone.
func checkContext(t errorer, read reader, r *wire.Request, body []byte, id string) {
	t.Helper()
	out := withContext(r, id)
	if same(out, body) {
		return // nothing to change, or no place for it
	}
	again, err := read(out)
	if err != nil {
		t.Fatalf("reading %q, after Edited to context %q = %v, want no error", out, id, err)
	}
	if again.ContextID != id {
		t.Errorf("reading %q has the context %q, want %q", out, again.ContextID, id)
	}
	want := *r
	want.ContextID = id
	if diff := cmp.Diff(&want, again, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".body" }, cmp.Ignore())); diff != "" {
		t.Errorf("reading %q (-want +got):\n%s", out, diff)
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
		t.Errorf("Edited(%q, context %q) replaces %q by %q, want only the id", body, id, gone, added)
	}
	if r.ContextID != "" && id != "" {
		if back := withContext(again, r.ContextID); string(back) != string(body) && !bytes.Contains(body, []byte(`\`)) {
			t.Errorf("Edited there and back = %q, want %q", back, body)
		}
	}
}

// forgetful decodes a body and drops what an edit may touch.
func forgetful(t errorer, r *wire.Request, body []byte) any {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var root map[string]any
	if err := d.Decode(&root); err != nil {
		t.Fatalf("Decode(%q) = %v, want no error", body, err)
	}
	params := root
	if r.Binding == wire.JSONRPC {
		params, _ = root["params"].(map[string]any)
	}
	drop := func(from any, keys ...string) {
		object, _ := from.(map[string]any)
		for _, key := range keys {
			delete(object, key)
		}
	}
	if r.Op.Sends() {
		drop(params["message"], "contextId", "context_id")
		drop(params["request"], "contextId", "context_id")
		configuration, _ := params["configuration"].(map[string]any)
		for _, push := range configuration {
			drop(push, "url")
		}
		return root
	}
	drop(params, "contextId", "context_id")
	config, _ := params["config"].(map[string]any)
	for _, box := range []map[string]any{params, config} {
		drop(box, "url")
		drop(box["pushNotificationConfig"], "url")
		drop(box["push_notification_config"], "url")
	}
	return root
}

func TestEditedProperty(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		rest := rapid.Bool().Draw(t, "rest")
		space := rapid.SampledFrom([]string{"", " ", "\n\t", "\r\n"})
		members := rapid.Permutation([]string{
			rapid.SampledFrom([]string{`"messageId"§:"m"`, `"message_id":"m"`}).Draw(t, "messageId"), `"parts":[{"text":"a,b}"}§,{"data":{"contextId":1.0}}]`, `"role":"user"`,
			rapid.SampledFrom([]string{`"contextId"§:§"c"`, `"context_id":""`, `"contextId":null`, `"x":{}`, `"context\u0049d":"c\/"`}).Draw(t, "context"),
		}).Draw(t, "members")
		sent := rapid.Permutation([]string{
			`"message":§{§` + strings.Join(members, "§,§") + `§}§`,
			`"x":[]`,
			rapid.SampledFrom([]string{
				`"configuration":{}`, `"y":1`,
				`"configuration":{"pushNotificationConfig":{"id":"p"§,§"url"§:§"http:\/\/u"}}`,
				`"configuration":{"historyLength":1.0,"task_push_notification_config":{"url":""}}`,
			}).Draw(t, "configuration"),
		}).Draw(t, "params")
		body := `§{§` + strings.Join(sent, "§,§") + `§}§`
		read := readerOf(wire.RESTCall{Verb: "POST", Path: "/message:send"})
		if !rest {
			read = wire.Read
			body = fmt.Sprintf(`§{§"params":%s,"method":%q,"id":1e0§,"jsonrpc":"2.0"}§`,
				body, rapid.SampledFrom([]string{"SendMessage", "message/stream"}).Draw(t, "method"))
		}
		for strings.Contains(body, "§") {
			body = strings.Replace(body, "§", space.Draw(t, "space"), 1)
		}
		if _, err := read([]byte(body)); err != nil {
			t.Fatalf("reading %q = %v, want no error", body, err)
		}
		checkEdits(t, read, []byte(body), rapid.String().Draw(t, "id"), rapid.String().Draw(t, "url"))
	})
}

func FuzzRead(f *testing.F) {
	for _, b := range seeds(f, "requests", "request.json") {
		f.Add([]byte(b), "ctx", "http://new/")
	}
	f.Add([]byte(send(`, "context_id" : null , "metadata":{"adk_session_id":"s"}`)), `q"\`, "")
	f.Add([]byte(call("ListTasks", `{ "contextId":"c" }`)), "", "u")
	f.Add([]byte(`{"jsonrpc":"2.0","params":{"a":1,"a":2},"method":"SendStreamingMessage","id":"late"}`), "c", "u")
	f.Add([]byte(call("message/send", `{"configuration":{"pushNotificationConfig":{"url":"u"}},"message":{"message_id":"m"}}`)), "c", `"`)
	f.Fuzz(func(t *testing.T, body []byte, id, url string) {
		checkEdits(t, wire.Read, body, id, url)
	})
}

func FuzzReadREST(f *testing.F) {
	for _, text := range seeds(f, "requests", "request.http") {
		q, body := parsed(text)
		f.Add(q.Verb, q.Path, q.Query, []byte(body), "ctx", "http://new/")
	}
	f.Add("GET", "/v1%2Ftasks/a%2Fb/../%zz:subscribe/", "context%49d=%zz&context_id", []byte(nil), "c", "u")
	f.Add("POST", "/TASKS/a:b/pushNotificationConfigs", "", []byte(`{"parent":"tasks/a:b","config":{"url":"u"}}`), "", "")
	f.Fuzz(func(t *testing.T, verb, path, query string, body []byte, id, url string) {
		q := wire.RESTCall{Verb: verb, Path: path, Query: query, Version: wire.V10}
		route, ok := wire.MatchREST(verb, path)
		if !ok {
			if route != (wire.Route{}) {
				t.Errorf("MatchREST(%q, %q) = %+v, false, want no route", verb, path, route)
			}
			return
		}
		if !strings.HasPrefix(route.Method, verb+" /") || route.Op == wire.OpOther || strings.Contains(route.Method, "{id}") != (route.TaskID != "") {
			t.Errorf("MatchREST(%q, %q) = %+v, want a route that fits", verb, path, route)
		}
		// What stands before a call does not change it.
		if before, ok := wire.MatchREST(verb, "/base/v1/"+path); ok && before != route && !strings.Contains(path, "..") && !strings.Contains(path, "%") {
			t.Errorf("MatchREST(%q, /base/v1/%q) = %+v, want %+v", verb, path, before, route)
		}
		checkEdits(t, readerOf(q), body, id, url)
	})
}
