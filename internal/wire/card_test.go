package wire_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// toSidecar keeps every interface but gRPC ones, and shows binding and URL.
func toSidecar(binding, url string) (string, bool) {
	return "side:" + binding + ":" + url, binding != "GRPC"
}

func TestRewriteCardTranscripts(t *testing.T) {
	t.Parallel()
	transcripts(t, "cards", func(t *testing.T, in file) []file {
		got, err := wire.RewriteCard([]byte(in.data), func(binding, _ string) (string, bool) {
			return "http://127.0.0.1:8400/agents/worker/" + strings.ToLower(binding), true
		})
		if err != nil {
			t.Fatalf("RewriteCard(%s) = %v, want no error", in.data, err)
		}
		return []file{lines("rewritten.json", got)}
	})
}

func TestRewriteCard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, in, want string }{
		{"no interfaces", `{"name":"a","signatures":[1]}`, `{"name":"a","signatures":[1]}`},
		{"0.3", `{"url":"u","preferredTransport":"HTTP+JSON"}`, `{"url":"side:HTTP+JSON:u","preferredTransport":"HTTP+JSON"}`},
		{"0.3 default binding", `{"url":"u"}`, `{"url":"side:JSONRPC:u"}`},
		{"additional", `{"additionalInterfaces":[{"url":"u","transport":"JSONRPC"},{"transport":"HTTP+JSON","url":"v"}]}`, `{"additionalInterfaces":[{"url":"side:JSONRPC:u","transport":"JSONRPC"},{"transport":"HTTP+JSON","url":"side:HTTP+JSON:v"}]}`},
		{"1.0", `{"supportedInterfaces":[{"url":"u","protocolBinding":"JSONRPC","tenant":"t"}]}`, `{"supportedInterfaces":[{"url":"side:JSONRPC:u","protocolBinding":"JSONRPC","tenant":"t"}]}`},
		{"snake case", `{"preferred_transport":"X","url":"u","supported_interfaces":[{"url":"v","protocol_binding":"JSONRPC"}]}`, `{"preferred_transport":"X","url":"side:X:u","supported_interfaces":[{"url":"side:JSONRPC:v","protocol_binding":"JSONRPC"}]}`},
		{"both spellings", `{"additionalInterfaces":[{"url":"u"}],"additional_interfaces":[{"url":"v"}]}`, `{"additionalInterfaces":[{"url":"side::u"}],"additional_interfaces":[{"url":"side::v"}]}`},
		{"escapes", `{"\u0075rl":"http:\/\/u"}`, `{"\u0075rl":"side:JSONRPC:http://u"}`},
		{"other urls stay", `{"url":"u","provider":{"url":"p"},"documentationUrl":"d","iconUrl":"i"}`, `{"url":"side:JSONRPC:u","provider":{"url":"p"},"documentationUrl":"d","iconUrl":"i"}`},
		{"bytes stay", ` { "n" : 1.0 , "url" : "u" , "caps":{"x":false} , "s":"<\u00e9>" } ` + "\n", ` { "n" : 1.0 , "url" : "side:JSONRPC:u" , "caps":{"x":false} , "s":"<\u00e9>" } ` + "\n"},

		{"signatures first", `{"signatures":[{"x":1}],"url":"u"}`, `{"url":"side:JSONRPC:u"}`},
		{"signatures last", `{"url":"u" , "signatures":[{"x":1}] }`, `{"url":"side:JSONRPC:u"  }`},
		{"signatures between", `{"a":1,"signatures":[],"url":"u"}`, `{"a":1,"url":"side:JSONRPC:u"}`},

		{"drop first", `{"supportedInterfaces":[ {"url":"g","protocolBinding":"GRPC"} , {"url":"u"}]}`, `{"supportedInterfaces":[ {"url":"side::u"}]}`},
		{"drop last", `{"supportedInterfaces":[{"url":"u"} , {"url":"g","protocolBinding":"GRPC"} ]}`, `{"supportedInterfaces":[{"url":"side::u"} ]}`},
		{"drop middle", `{"supportedInterfaces":[{"url":"u"}, {"url":"g","protocolBinding":"GRPC"}, {"url":"v"}]}`, `{"supportedInterfaces":[{"url":"side::u"}, {"url":"side::v"}]}`},
		{"drop two first", `{"supportedInterfaces":[{"url":"g","protocolBinding":"GRPC"},{"url":"h","protocolBinding":"GRPC"},{"url":"u"}]}`, `{"supportedInterfaces":[{"url":"side::u"}]}`},
		{"drop two last", `{"supportedInterfaces":[{"url":"u"},{"url":"g","protocolBinding":"GRPC"},{"url":"h","protocolBinding":"GRPC"}]}`, `{"supportedInterfaces":[{"url":"side::u"}]}`},
		{"drop around", `{"supportedInterfaces":[{"url":"g","protocolBinding":"GRPC"},{"url":"u"},{"url":"h","protocolBinding":"GRPC"}]}`, `{"supportedInterfaces":[{"url":"side::u"}]}`},
		{"drop all", `{"supportedInterfaces":[{"url":"g","protocolBinding":"GRPC"},{"url":"h","protocolBinding":"GRPC"}],"signatures":[]}`, `{"supportedInterfaces":[]}`},
		{"odd elements stay", `{"supportedInterfaces":[1,{"url":"g","protocolBinding":"GRPC"},{"url":""},{"url":5}]}`, `{"supportedInterfaces":[1,{"url":""},{"url":5}]}`},

		{"main dropped, additional kept", `{"url":"g","preferredTransport":"GRPC","additionalInterfaces":[{"url":"g","transport":"GRPC"},{"url":"u","transport":"HTTP+JSON"}]}`, `{"url":"side:HTTP+JSON:u","preferredTransport":"HTTP+JSON","additionalInterfaces":[{"url":"side:HTTP+JSON:u","transport":"HTTP+JSON"}]}`},
		{"main dropped, supported kept", `{"supportedInterfaces":[{"url":"u","protocolBinding":"JSONRPC"}],"url":"g","preferredTransport":"GRPC"}`, `{"supportedInterfaces":[{"url":"side:JSONRPC:u","protocolBinding":"JSONRPC"}],"url":"side:JSONRPC:u","preferredTransport":"JSONRPC"}`},
		{"main dropped, both kept: additional goes first", `{"url":"g","preferredTransport":"GRPC","supportedInterfaces":[{"url":"v","protocolBinding":"JSONRPC"}],"additionalInterfaces":[{"url":"u","transport":"HTTP+JSON"}]}`, `{"url":"side:HTTP+JSON:u","preferredTransport":"HTTP+JSON","supportedInterfaces":[{"url":"side:JSONRPC:v","protocolBinding":"JSONRPC"}],"additionalInterfaces":[{"url":"side:HTTP+JSON:u","transport":"HTTP+JSON"}]}`},
		{"main dropped, none kept", `{"url":"g","preferredTransport":"GRPC"}`, `{"url":"","preferredTransport":"GRPC"}`},
		{"empty url", `{"url":"","supportedInterfaces":[]}`, `{"url":"","supportedInterfaces":[]}`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.RewriteCard([]byte(tt.in), toSidecar)
			if err != nil || string(got) != tt.want {
				t.Errorf("RewriteCard(%s) =\n%s, %v, want\n%s", tt.in, got, err, tt.want)
			}
		})
	}
}

// preferredTransport is absent, so its default would misname the new url.
func TestRewriteCardInsertsTransport(t *testing.T) {
	t.Parallel()
	in := `{"url":"main","signatures":[],"additionalInterfaces":[{"url":"u","transport":"HTTP+JSON"}]}`
	got, err := wire.RewriteCard([]byte(in), func(_, url string) (string, bool) { return url, url != "main" })
	want := `{"url":"u","preferredTransport":"HTTP+JSON","additionalInterfaces":[{"url":"u","transport":"HTTP+JSON"}]}`
	if err != nil || string(got) != want {
		t.Errorf("RewriteCard(%s) = %s, %v, want %s", in, got, err, want)
	}
}

func TestRewriteCardOrder(t *testing.T) {
	t.Parallel()
	in := `{"supportedInterfaces":[{"url":"3","protocolBinding":"C"}],"additionalInterfaces":[{"url":"2","transport":"B"}],"preferredTransport":"A","url":"1"}`
	var calls []string
	got, err := wire.RewriteCard([]byte(in), func(binding, url string) (string, bool) {
		calls = append(calls, binding+url)
		return url, true
	})
	if err != nil || string(got) != in {
		t.Errorf("RewriteCard(%s) = %s, %v, want it unchanged", in, got, err)
	}
	if diff := cmp.Diff([]string{"A1", "B2", "C3"}, calls); diff != "" {
		t.Errorf("RewriteCard(%s) calls rewrite (-want +got):\n%s", in, diff)
	}
}

func TestRewriteCardRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		``:                          "agent card is empty",
		`[]`:                        "agent card is not a JSON object",
		`<html>`:                    "agent card is not JSON: syntax error at byte 0",
		`{"url":"u"`:                "agent card is not JSON: it ends early at byte 10",
		`{"supportedInterfaces":[`:  "agent card is not JSON: it ends early at byte 24 in supportedInterfaces",
		`{"supportedInterfaces":[,`: "agent card is not JSON: syntax error at byte 24 in supportedInterfaces",
		`{"url":"u"}x`:              "bytes after the agent card",
		`{"url":1,"url":"u"}`:       `duplicate key "url"`,
	} {
		if got, err := wire.RewriteCard([]byte(in), toSidecar); err == nil || err.Error() != want {
			t.Errorf("RewriteCard(%s) = %s, %v, want %q", in, got, err, want)
		}
	}
}

func TestRewriteCardResponse(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		`{"jsonrpc":"2.0","id":1,"result":{"url":"u","signatures":[]},"x":1}`: `{"jsonrpc":"2.0","id":1,"result":{"url":"side:JSONRPC:u"},"x":1}`,
		`{"id":1,"result":{"name":"a"}}`:                                      `{"id":1,"result":{"name":"a"}}`,
		`{"id":1,"error":{"code":-32007,"url":"u"}}`:                          `{"id":1,"error":{"code":-32007,"url":"u"}}`,
		`{"id":1,"result":null}`:                                              `{"id":1,"result":null}`,
	} {
		if got, err := wire.RewriteCardResponse([]byte(in), toSidecar); err != nil || string(got) != want {
			t.Errorf("RewriteCardResponse(%s) = %s, %v, want %s", in, got, err, want)
		}
	}
	for in, want := range map[string]string{
		`{"id":1`:                          "response is not JSON: it ends early at byte 7",
		`{"result":{"url":"u","url":"v"}}`: `duplicate key "url" in result`,
	} {
		if got, err := wire.RewriteCardResponse([]byte(in), toSidecar); err == nil || err.Error() != want {
			t.Errorf("RewriteCardResponse(%s) = %s, %v, want %q", in, got, err, want)
		}
	}
}

func FuzzRewriteCard(f *testing.F) {
	for _, b := range seeds(f, "cards", "card.json") {
		f.Add([]byte(b))
	}
	f.Add([]byte(`{"signatures":[1] , "url":"g","preferredTransport":"GRPC","additionalInterfaces":[{"url":"h","transport":"GRPC"},{"url":"u"}]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		same, err := wire.RewriteCard(in, func(_, url string) (string, bool) { return url, true })
		if err != nil {
			return
		}
		if len(same) != len(in) || &same[0] != &in[0] {
			t.Errorf("RewriteCard(%q, nothing to change) is a copy, want the card itself", in)
		}
		out, err := wire.RewriteCard(in, toSidecar)
		if err != nil || !json.Valid(out) {
			t.Fatalf("RewriteCard(%q) = %q, %v, want JSON", in, out, err)
		}
		// Whatever URL is left points at the sidecar.
		_, err = wire.RewriteCard(out, func(binding, url string) (string, bool) {
			if !strings.HasPrefix(url, "side:") {
				t.Errorf("RewriteCard(%q) = %q, want no url %q", in, out, url)
			}
			return url, true
		})
		if err != nil {
			t.Errorf("RewriteCard(%q, rewritten) = %v, want no error", out, err)
		}
	})
}
