package sessions_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// recorded sends parts under a policy and returns the payload of message.sent.
func recorded(t *testing.T, c sessions.Content, parts string) (got map[string]any) {
	t.Helper()
	inWorld(t, func(o *sessions.Options) { o.Content = c }, func(t *testing.T, w *world) {
		w.begin(message{root: "root", parts: parts})
		sent := w.events("root", lineage.EventSent)
		if len(sent) != 1 {
			t.Fatalf("message.sent events = %v, want one", sent)
		}
		if !utf8.Valid(sent[0].Payload) || !json.Valid(sent[0].Payload) {
			t.Errorf("payload %q is not JSON in UTF-8", sent[0].Payload)
		}
		got = payload(t, sent[0])
	})
	if got["method"] != "SendMessage" || got["messageId"] != "m1" || got["run"] == "" {
		t.Errorf("message.sent = %v, want method, message and run", got)
	}
	return got
}

func text(max int) sessions.Content { return sessions.Content{Keep: sessions.KeepText, MaxBytes: max} }

const file = "the bytes of a file"

func TestKeepText(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte(file))
	b64 := base64.StdEncoding.EncodeToString([]byte(file))
	got := recorded(t, text(1000), `[
		{"kind":"text","text":"hello"},
		{"data":{"b":1,"a":12345678901234567890}},
		{"kind":"file","file":{"name":"a.txt","mimeType":"text/plain","bytes":"`+b64+`"}},
		{"url":"https://example.org/x","mediaType":"image/png"},
		{"strange":true}]`)
	same(t, "parts", got["parts"], []any{
		map[string]any{"kind": "text", "text": "hello"},
		map[string]any{"kind": "data", "data": map[string]any{"b": 1.0, "a": 12345678901234567890.0}},
		map[string]any{
			"kind": "file", "name": "a.txt", "mediaType": "text/plain",
			"bytes": float64(len(file)), "sha256": hex.EncodeToString(sum[:]),
		},
		map[string]any{"kind": "file", "uri": "https://example.org/x", "mediaType": "image/png"},
		map[string]any{},
	})
	if got["partCount"] != 5.0 {
		t.Errorf("partCount = %v, want 5", got["partCount"])
	}
}

func TestKeepTextUpToASize(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		max  int
		want []any
	}{
		"all":                    {20, []any{map[string]any{"kind": "text", "text": "aéz"}, map[string]any{"kind": "text", "text": "0123456789"}, map[string]any{"kind": "data", "data": "data"}}},
		"data does not fit":      {19, []any{map[string]any{"kind": "text", "text": "aéz"}, map[string]any{"kind": "text", "text": "0123456789"}, map[string]any{"kind": "data", "cut": 6.0}}},
		"in the second":          {10, []any{map[string]any{"kind": "text", "text": "aéz"}, map[string]any{"kind": "text", "text": "012345", "cut": 4.0}, map[string]any{"kind": "data", "cut": 6.0}}},
		"between characters":     {3, []any{map[string]any{"kind": "text", "text": "aé", "cut": 1.0}, map[string]any{"kind": "text", "cut": 10.0}, map[string]any{"kind": "data", "cut": 6.0}}},
		"not within a character": {2, []any{map[string]any{"kind": "text", "text": "a", "cut": 3.0}, map[string]any{"kind": "text", "text": "0", "cut": 9.0}, map[string]any{"kind": "data", "cut": 6.0}}},
		"nothing":                {0, []any{map[string]any{"kind": "text", "cut": 4.0}, map[string]any{"kind": "text", "cut": 10.0}, map[string]any{"kind": "data", "cut": 6.0}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := recorded(t, text(tc.max), `[{"text":"aéz"},{"text":"0123456789"},{"data":"data"}]`)
			same(t, "parts", got["parts"], tc.want)
		})
	}
}

func TestKeepFull(t *testing.T) {
	t.Parallel()
	parts := `[{"text":"hello","metadata":{"z":1,"a":2}},{"raw":"YWJj","filename":"x"},{"data":12345678901234567890123}]`
	inWorld(t, func(o *sessions.Options) { o.Content = sessions.Content{Keep: sessions.KeepFull} }, func(t *testing.T, w *world) {
		w.begin(message{root: "root", parts: parts})
		if got := string(w.events("root", lineage.EventSent)[0].Payload); !strings.Contains(got, `"parts":`+parts) {
			t.Errorf("payload = %s, want the parts as they came: %s", got, parts)
		}
	})
}

const secret = "hunter2"

func redacting(keep sessions.Keep, patterns ...string) sessions.Content {
	c := sessions.Content{Keep: keep, MaxBytes: 1 << 14}
	for _, p := range patterns {
		c.Redact = append(c.Redact, regexp.MustCompile(p))
	}
	return c
}

func TestRedaction(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		patterns []string
		parts    string
		leak     string
		want     string // in the payload, if not empty
	}{
		"text":                  {[]string{"hunter[0-9]"}, `[{"text":"pw hunter2!"}]`, "hunter", `pw [redacted]!`},
		"data":                  {[]string{"hunter[0-9]"}, `[{"data":{"z":12345678901234567890,"pw":"hunter2","a":1}}]`, "hunter", `{"z":12345678901234567890,"pw":"[redacted]","a":1}`},
		"data, escaped":         {[]string{"hunter2"}, `[{"data":{"pw":"h\u0075nter2"}}]`, `nter2`, `"pw":"[redacted]"`},
		"text, escaped":         {[]string{"hunter2"}, `[{"text":"h\u0075nter2"}]`, `nter2`, ""},
		"a member's name":       {[]string{"hunter2"}, `[{"data":{"hunter2":1,"hunter22":2}}]`, `hunter2`, ""},
		"line break":            {[]string{`key\s+\w+`}, `[{"text":"key\nabc"},{"data":["key\nabc"]}]`, `abc`, ""},
		"a value by its name":   {[]string{`"pw":\s*"[^"]*"`}, `[{"data":{"pw" : "hunter2"}}]`, "hunter", ""},
		"JSON that then breaks": {[]string{`hunter2"`}, `[{"data":{"pw":"hunter2"}}]`, "hunter", `[redacted]`},
		"braces":                {[]string{`\{`}, `[{"data":{"pw":"hunter2"}}]`, `{\"pw`, ""},
		"non-ASCII":             {[]string{`п\S+`}, `[{"data":{"a":"\u043f\u0430\u0440\u043e\u043b\u044c"}},{"text":"\u043f\u0430\u0440"}]`, `\u0430`, ""},
		"URI":                   {[]string{"hunter2"}, `[{"url":"https://u:hunter2@example.org/"}]`, "hunter", "https://u:[redacted]@example.org/"},
		"file name":             {[]string{"hunter2"}, `[{"raw":"YWJj","filename":"hunter2.txt"}]`, "hunter", "[redacted].txt"},
		"several":               {[]string{"hunter2", "redacted"}, `[{"text":"hunter2"}]`, "hunter", "[[redacted]]"},
		"half a surrogate pair": {[]string{"hunter2"}, `[{"data":{"a":"\ud83d","pw":"hunter2"}}]`, "hunter", ""},
	} {
		for _, keep := range []sessions.Keep{sessions.KeepText, sessions.KeepFull} {
			t.Run(name+"/"+string(keep), func(t *testing.T) {
				t.Parallel()
				p := recorded(t, redacting(keep, tc.patterns...), tc.parts)
				var buf strings.Builder
				enc := json.NewEncoder(&buf)
				enc.SetEscapeHTML(false)
				if err := enc.Encode(p["parts"]); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(buf.String(), tc.leak) {
					t.Errorf("parts = %s, want nothing of %q", buf.String(), tc.leak)
				}
				if name == "data" {
					return // what follows would compare numbers that Go has rounded
				}
				if !strings.Contains(buf.String(), tc.want) {
					t.Errorf("parts = %s, want %s in it", buf.String(), tc.want)
				}
			})
		}
	}
}

// Beside the patterns' places everything stays as it was, big numbers and the
// order of members too.
func TestRedactionKeepsTheRest(t *testing.T) {
	t.Parallel()
	for _, keep := range []sessions.Keep{sessions.KeepText, sessions.KeepFull} {
		inWorld(t, func(o *sessions.Options) { o.Content = redacting(keep, secret) }, func(t *testing.T, w *world) {
			w.begin(message{root: "root", parts: `[{"data":{"z":12345678901234567890123,"pw":"hunter2","a":1.50}}]`})
			got := string(w.events("root", lineage.EventSent)[0].Payload)
			if want := `{"z":12345678901234567890123,"pw":"[redacted]","a":1.50`; !strings.Contains(got, want) {
				t.Errorf("%s: payload = %s, want %s in it", keep, got, want)
			}
		})
	}
}

// everything lets an agent say all that it can say, with the secret in every text.
func everything(w *world) {
	w.Helper()
	parts := fmt.Sprintf(`[{"text":"%s"},{"data":{"pw":"%s"}},{"raw":"%s"}]`, secret, secret, base64.StdEncoding.EncodeToString([]byte(secret)))
	for i, last := range []string{
		`{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"r1","parts":` + parts + `}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"tN","status":{"state":"completed","message":{"messageId":"q","parts":` + parts + `}}}}}`,
		`{"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"tN","status":{"state":"completed"}}}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"` + secret + ` is not the password"}}`,
	} {
		run := w.begin(message{root: "root", parts: parts})
		id := fmt.Sprintf("t%d", i)
		for _, response := range []string{
			`{"jsonrpc":"2.0","id":1,"result":{"statusUpdate":{"taskId":"tN","status":{"state":"working","message":{"messageId":"p","parts":` + parts + `}}}}}`,
			`{"jsonrpc":"2.0","id":1,"result":{"artifactUpdate":{"taskId":"tN","artifact":{"artifactId":"a","name":"x","parts":` + parts + `}}}}`,
			last,
		} {
			w.saw(run, strings.ReplaceAll(response, "tN", id))
		}
		w.end(run, sessions.Answered)
	}
}

// holds reports whether anything in the record of the tree contains s.
func (w *world) holds(s string) bool {
	w.Helper()
	b, err := json.Marshal([]any{w.events("root"), w.tree("root")})
	if err != nil {
		w.Fatal(err)
	}
	return strings.Contains(string(b), s)
}

func TestKeepNoneKeepsNoText(t *testing.T) {
	t.Parallel()
	inWorld(t, func(o *sessions.Options) { o.Content = sessions.Content{Keep: sessions.KeepNone} }, func(t *testing.T, w *world) {
		everything(w)
		if w.holds(secret) || w.holds(base64.StdEncoding.EncodeToString([]byte(secret))) {
			t.Errorf("text is kept")
		}
		for _, e := range w.events("root", lineage.EventSent, lineage.EventReceived, lineage.EventArtifact) {
			if p := payload(t, e); p["partCount"] != 3.0 || p["parts"] != nil {
				t.Errorf("%s = %v, want partCount 3 and no parts", e.Type, p)
			}
		}
		if strings.Contains(w.logs.String(), secret) {
			t.Errorf("text is logged: %s", w.logs)
		}
	})
}

func TestNothingEscapesRedaction(t *testing.T) {
	t.Parallel()
	for _, keep := range []sessions.Keep{sessions.KeepText, sessions.KeepFull} {
		inWorld(t, func(o *sessions.Options) { o.Content = redacting(keep, secret) }, func(t *testing.T, w *world) {
			everything(w)
			if w.holds(secret) {
				t.Errorf("%s: the secret is kept", keep)
			}
			if !w.holds("[redacted] is not the password") || !w.holds(`"summary":"[redacted]"`) {
				t.Errorf("%s: what stands around it is gone", keep)
			}
		})
	}
}

func TestHostileParts(t *testing.T) {
	t.Parallel()
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	long := strings.Repeat("n", 64<<10)
	for name, parts := range map[string]string{
		"very many":   "[" + strings.Repeat(`{"text":""},`, 5_000) + "{}]",
		"very deep":   `[{"data":` + deep + `}]`,
		"long names":  `[{"raw":"YQ","filename":"` + long + `","mediaType":"` + long + `"},{"url":"data:` + long + `"}]`,
		"no objects":  `[1,null,"x",[],true]`,
		"wrong types": `[{"text":1},{"text":null},{"file":"x"},{"data":null},{"raw":{}}]`,
		"no array":    `{"text":"x"}`,
		"null":        `null`,
		"controls":    `[{"text":"\u0000\u001b[31m\u2028"}]`,
		"halves":      `[{"text":"\ud83d"},{"data":"\ud83d"}]`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, c := range []sessions.Content{text(1 << 14), redacting(sessions.KeepText, secret)} {
				b, err := json.Marshal(recorded(t, c, parts))
				if err != nil || len(b) > 32<<10 {
					t.Errorf("payload has %d bytes (%v), want it bounded", len(b), err)
				}
			}
			recorded(t, sessions.Content{Keep: sessions.KeepFull}, parts)
			recorded(t, redacting(sessions.KeepFull, secret), parts)
			recorded(t, sessions.Content{Keep: sessions.KeepNone}, parts)
		})
	}
}

// What agents answer is read more leniently than what callers send.
func TestInvalidUTF8InAnswers(t *testing.T) {
	t.Parallel()
	for _, c := range []sessions.Content{
		text(1 << 14), redacting(sessions.KeepText, secret), {Keep: sessions.KeepFull}, redacting(sessions.KeepFull, secret),
	} {
		inWorld(t, func(o *sessions.Options) { o.Content = c }, func(t *testing.T, w *world) {
			run := w.begin(message{root: "root"})
			run.Saw(wire.Update{Kind: wire.UpdateMessage, MessageID: "r", Parts: []byte("[{\"text\":\"a\xffb\"},{\"data\":\"c\xffd\"}]")})
			w.end(run, sessions.Answered)
			for _, e := range w.events("root") {
				if !utf8.Valid(e.Payload) || !json.Valid(e.Payload) {
					t.Errorf("%+v: payload of %s is not JSON in UTF-8: %q", c, e.Type, e.Payload)
				}
			}
			if got := w.session(run).Result; got == nil || got.Summary != "a\uFFFDb" {
				t.Errorf("%+v: result = %+v, want the text, mended", c, got)
			}
		})
	}
}

func TestSummaryIsBounded(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		for name, response := range map[string]string{
			"message": `{"jsonrpc":"2.0","id":1,"result":{"message":{"messageId":"r","parts":[{"text":"` + strings.Repeat("é", 4000) + `"}]}}}`,
			"error":   `{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"` + strings.Repeat("é", 4000) + `"}}`,
		} {
			run := w.begin(message{root: "root-" + name})
			w.saw(run, response)
			w.end(run, sessions.Answered)
			got := w.session(run).Result.Summary
			if len(got) > 2048 || len(got) < 2040 || !utf8.ValidString(got) {
				t.Errorf("%s: summary has %d bytes, want 2048 or as near as whole characters come", name, len(got))
			}
		}
	})
}

// Whatever an agent names may hold what must not be kept: ids, too.
func TestRedactionOfArtifactIDs(t *testing.T) {
	t.Parallel()
	inWorld(t, func(o *sessions.Options) { o.Content = redacting(sessions.KeepText, "sk-live-[0-9]+") }, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.say(run, `{"task":{"id":"t1","artifacts":[{"artifactId":"sk-live-12345","parts":[{"text":"x"}]}],"status":{"state":"TASK_STATE_COMPLETED"}}}`)
		w.end(run, sessions.Answered)
		kept, err := json.Marshal(struct {
			S lineage.Session
			E []lineage.Event
		}{w.session(run), w.events("root")})
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(kept), "sk-live") {
			t.Errorf("the record holds the secret: %s", kept)
		}
	})
}
