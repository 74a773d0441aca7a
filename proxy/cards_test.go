package proxy_test

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	newPath = "/.well-known/agent-card.json"
	oldPath = "/.well-known/agent.json"
)

// cardAt serves a card at one path only.
func cardAt(path, card string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.URL.EscapedPath() != path {
			http.NotFound(w, r)
			return
		}
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		says(card)(w, r)
	}
}

func TestCards(t *testing.T) {
	t.Parallel()
	// AGENT stands for the host of the agent, SIDE for the sidecar's URL of it.
	for _, tt := range []struct{ name, base, card, want string }{
		{
			"0.3", "",
			`{"name":"x","url":"http://AGENT/invoke","preferredTransport":"JSONRPC","skills":[{"id":"s","url":"http://AGENT/docs"}],"big":1e400}`,
			`{"name":"x","url":"SIDE/invoke","preferredTransport":"JSONRPC","skills":[{"id":"s","url":"http://AGENT/docs"}],"big":1e400}`,
		},
		{
			"1.0", "",
			`{"supportedInterfaces":[{"url":"http://AGENT/invoke","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"name":"x"}`,
			`{"supportedInterfaces":[{"url":"SIDE/invoke","protocolBinding":"JSONRPC","protocolVersion":"1.0"}],"name":"x"}`,
		},
		{
			"JavaScript's for both", "",
			`{"url":"http://AGENT/a2a/jsonrpc","preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"http://AGENT/a2a/rest","transport":"HTTP+JSON"}],` +
				`"supportedInterfaces":[{"url":"http://AGENT/a2a/jsonrpc","protocolBinding":"JSONRPC","tenant":"","protocolVersion":"1.0"},` +
				`{"url":"http://AGENT/a2a/jsonrpc","protocolBinding":"JSONRPC","tenant":"","protocolVersion":"0.3"},{"url":"http://AGENT/a2a/rest","protocolBinding":"HTTP+JSON","tenant":"","protocolVersion":"1.0"}]}`,
			`{"url":"SIDE/a2a/jsonrpc","preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"SIDE/a2a/rest","transport":"HTTP+JSON"}],` +
				`"supportedInterfaces":[{"url":"SIDE/a2a/jsonrpc","protocolBinding":"JSONRPC","tenant":"","protocolVersion":"1.0"},` +
				`{"url":"SIDE/a2a/jsonrpc","protocolBinding":"JSONRPC","tenant":"","protocolVersion":"0.3"},{"url":"SIDE/a2a/rest","protocolBinding":"HTTP+JSON","tenant":"","protocolVersion":"1.0"}]}`,
		},
		{
			"HTTP+JSON first, gRPC with no port here", "",
			`{"url":"http://AGENT/rest","preferredTransport":"HTTP+JSON","additionalInterfaces":[{"url":"127.0.0.1:9200","transport":"GRPC"},{"url":"http://AGENT/rpc","transport":"JSONRPC"}]}`,
			`{"url":"SIDE/rest","preferredTransport":"HTTP+JSON","additionalInterfaces":[{"url":"SIDE/rpc","transport":"JSONRPC"}]}`,
		},
		{
			"gRPC first, with no port here", "",
			`{"url":"http://AGENT","preferredTransport":"GRPC","additionalInterfaces":[{"url":"http://AGENT/rest","transport":"http+json"}]}`,
			`{"url":"SIDE/rest","preferredTransport":"http+json","additionalInterfaces":[{"url":"SIDE/rest","transport":"http+json"}]}`,
		},
		{
			"unheard bindings beside", "",
			`{"supportedInterfaces":[{"url":"http://AGENT/x","protocolBinding":"X"},{"url":"http://AGENT/rest","protocolBinding":"HTTP+JSON"}]}`,
			`{"supportedInterfaces":[{"url":"SIDE/rest","protocolBinding":"HTTP+JSON"}]}`,
		},
		{
			"unheard bindings alone", "",
			`{"supportedInterfaces":[{"url":"ws://AGENT/x","protocolBinding":"X"},{"url":"http://AGENT/y","protocolBinding":"Y"},{"url":"AGENT","protocolBinding":"GRPC"}]}`,
			`{"supportedInterfaces":[{"url":"SIDE/y","protocolBinding":"Y"}]}`,
		},
		{
			"HTTP+JSON alone", "",
			`{"supportedInterfaces":[{"url":"http://AGENT","protocolBinding":"HTTP+JSON"},{"url":"AGENT","protocolBinding":"GRPC"}]}`,
			`{"supportedInterfaces":[{"url":"SIDE","protocolBinding":"HTTP+JSON"}]}`,
		},
		{
			"gRPC alone", "",
			`{"supportedInterfaces":[{"url":"AGENT","protocolBinding":"GRPC"}]}`,
			`{"supportedInterfaces":[]}`,
		},
		{
			"signed", "",
			`{"url":"http://AGENT/","signatures":[{"protected":"e30","signature":"x"}],"name":"x"}`,
			`{"url":"SIDE/","name":"x"}`,
		},
		{"signed, but nothing to change", "", `{"signatures":[{"signature":"x"}],"name":"x"}`, `{"signatures":[{"signature":"x"}],"name":"x"}`},
		{
			"below a path", "/base",
			`{"url":"http://AGENT/base/rpc?a=1","additionalInterfaces":[{"url":"http://AGENT/base"},{"url":"http://AGENT/base/"},{"url":"http://other.example:1/base/x%2Fy"}]}`,
			`{"url":"SIDE/rpc?a=1","additionalInterfaces":[{"url":"SIDE"},{"url":"SIDE/"},{"url":"SIDE/x%2Fy"}]}`,
		},
		{
			"outside the base", "/base/",
			`{"url":"https://AGENT/other","additionalInterfaces":[{"url":"http://AGENT/basement"},{"url":"http://AGENT"}]}`,
			`{"url":"SIDE/~/other","additionalInterfaces":[{"url":"SIDE/~/basement"},{"url":"SIDE/~"}]}`,
		},
	} {
		for _, path := range []string{newPath, oldPath} {
			t.Run(tt.name+" at "+path, func(t *testing.T) {
				t.Parallel()
				var agent *fake
				agent = newFake(t, func(w http.ResponseWriter, r *http.Request) {
					cardAt(strings.TrimSuffix(tt.base, "/")+path, strings.ReplaceAll(tt.card, "AGENT", agent.Listener.Addr().String()))(w, r)
				})
				w := newWorld(t, agentAt("worker", agent.URL+tt.base))
				side := w.URL + "/agents/worker"
				want := strings.NewReplacer("AGENT", agent.Listener.Addr().String(), "SIDE", side).Replace(tt.want)
				for _, asked := range []string{newPath, oldPath} { // whichever the agent has
					got := w.do(t, http.MethodGet, "/agents/worker"+asked, "")
					if diff := cmp.Diff(want, got.body); diff != "" || got.status != http.StatusOK {
						t.Errorf("card at %s = %d (-want +got):\n%s", asked, got.status, diff)
					}
					if got.header.Get("Content-Length") != itoa(len(want)) || got.header.Get("Content-Type") != "application/json" {
						t.Errorf("card at %s has headers %v", asked, got.header)
					}
				}
			})
		}
	}
}

// No URL of an agent is left in the interfaces of a card as real SDKs serve it.
func TestCardsOfRealAgents(t *testing.T) {
	t.Parallel()
	paths, err := filepath.Glob("../internal/wire/testdata/cards/*.txtar")
	if err != nil || len(paths) < 8 {
		t.Fatalf("cards = %v, %v; want 8 or more", paths, err)
	}
	for _, path := range paths {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			_, card, _ := strings.Cut(string(b), "-- card.json --\n")
			card, _, _ = strings.Cut(card, "\n-- ")
			agent := newFake(t, cardAt(newPath, card))
			w := newWorld(t, agentAt("worker", agent.URL))
			got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
			var c struct {
				URL                                       string
				AdditionalInterfaces, SupportedInterfaces []struct{ URL, ProtocolBinding, Transport string }
			}
			if err := json.Unmarshal([]byte(got.body), &c); err != nil {
				t.Fatalf("card %s: %v", got.body, err)
			}
			n := 0
			for _, i := range append(c.AdditionalInterfaces, c.SupportedInterfaces...) {
				n++
				if !strings.HasPrefix(i.URL, w.URL+"/agents/worker") || i.ProtocolBinding+i.Transport == "GRPC" {
					t.Errorf("interface %+v is not the sidecar's", i)
				}
			}
			if c.URL != "" {
				n++
				if !strings.HasPrefix(c.URL, w.URL+"/agents/worker") {
					t.Errorf("url %s is not the sidecar's", c.URL)
				}
			}
			if n == 0 {
				t.Errorf("card %s has no interface", got.body)
			}
		})
	}
}

// Interfaces stand under the name that the client knows the sidecar by.
func TestCardHost(t *testing.T) {
	t.Parallel()
	agent := newFake(t, cardAt(newPath, `{"url":"http://agent/rpc"}`))
	w := newWorld(t, agentAt("worker", agent.URL))
	got := raw(t, w.Listener.Addr().String(), "GET /agents/worker"+newPath+" HTTP/1.1\nHost: side.example:8400\nConnection: close", "")
	if want := `{"url":"http://side.example:8400/agents/worker/rpc"}`; got.body != want {
		t.Errorf("card = %s, want %s", got.body, want)
	}
	if host := agent.only(t).host; host != agent.Listener.Addr().String() {
		t.Errorf("agent got host %s, want its own", host)
	}
}

// Cards deeper down, under a tenant or a version, are cards, too.
func TestCardPaths(t *testing.T) {
	t.Parallel()
	for _, path := range []string{
		"/extendedAgentCard", "/v1/card", "/tenant/extendedAgentCard", "/v1/extendedAgentCard", "/tenant/v1/card",
		"/sub/.well-known/agent.json", "/sub" + newPath, "/.well-known/agent%2Dcard.json",
	} {
		agent := newFake(t, cardAt(path, `{"url":"http://agent/rpc"}`))
		w := newWorld(t, agentAt("worker", agent.URL))
		got := w.do(t, http.MethodGet, "/agents/worker"+path, "")
		if want := `{"url":"` + w.URL + `/agents/worker/rpc"}`; got.body != want {
			t.Errorf("card at %s = %d %s, want %s", path, got.status, got.body, want)
		}
	}
	agent := newFake(t, says(`{"url":"http://agent/rpc"}`))
	w := newWorld(t, agentAt("worker", agent.URL))
	if got := w.do(t, http.MethodPost, "/agents/worker"+newPath, "x", "Content-Type", "text/plain"); got.body != `{"url":"http://agent/rpc"}` {
		t.Errorf("POST to a card's path = %s, want the agent's answer", got.body)
	}
}

func TestCardHeaders(t *testing.T) {
	t.Parallel()
	agent := newFake(t, cardAt(newPath, `{"url":"http://agent/rpc"}`,
		"ETag", `W/"agent's"`, "Vary", "A2A-Version", "Cache-Control", "public, max-age=3600", "Last-Modified", "Fri, 20 Nov 2026 08:30:06 GMT",
		"Age", "60", "Expires", "Fri, 20 Nov 2026 09:30:06 GMT", "X-Agent", "a"))
	w := newWorld(t, agentAt("worker", agent.URL))
	const path = "/agents/worker" + newPath
	first := w.do(t, http.MethodGet, path, "", "A2A-Version", "1.0", "Authorization", "Bearer x",
		"Accept-Encoding", "gzip", "If-None-Match", `W/"agent's"`, "If-Modified-Since", "Fri, 20 Nov 2026 08:30:06 GMT", "Range", "bytes=0-1")
	want := http.Header{"A2a-Version": {"1.0"}, "Authorization": {"Bearer x"}}
	sent := agent.only(t).header
	sent.Del("User-Agent")
	if diff := cmp.Diff(want, sent); diff != "" {
		t.Errorf("headers at the agent (-want +got):\n%s", diff)
	}
	tag := first.header.Get("ETag")
	if first.status != http.StatusOK || tag == "" || strings.Contains(tag, "agent's") {
		t.Fatalf("card = %d, ETag %q; want 200 and an ETag of the sidecar's own", first.status, tag)
	}
	wantHeader := map[string][]string{"Vary": {"A2A-Version"}, "Cache-Control": {"public, max-age=3600"}, "X-Agent": {"a"}, "Last-Modified": nil, "Age": nil, "Expires": nil}
	for name, want := range wantHeader {
		if diff := cmp.Diff(want, first.header.Values(name)); diff != "" {
			t.Errorf("header %s (-want +got):\n%s", name, diff)
		}
	}
	for _, match := range []string{tag, "W/" + tag, `"x", ` + tag, "*"} {
		got := w.do(t, http.MethodGet, path, "", "If-None-Match", match)
		if got.status != http.StatusNotModified || got.body != "" || got.header.Get("ETag") != tag || got.header.Get("Vary") != "A2A-Version" {
			t.Errorf("card if none matches %s = %d %q, %v; want 304", match, got.status, got.body, got.header)
		}
	}
	if got := w.do(t, http.MethodGet, path, "", "If-None-Match", `"x"`); got.status != http.StatusOK || got.body != first.body {
		t.Errorf("card if another matches = %d %s, want 200", got.status, got.body)
	}
	if got := w.do(t, http.MethodHead, path, "", "If-None-Match", tag); got.status != http.StatusNotModified || got.header.Get("ETag") != tag {
		t.Errorf("HEAD if none matches %s = %d, %v; want 304", tag, got.status, got.header)
	}
	if got := w.do(t, http.MethodGet, path, "", "If-Modified-Since", "Fri, 20 Nov 2026 08:30:06 GMT"); got.status != http.StatusOK {
		t.Errorf("card if modified since = %d, want 200: nobody knows when the edited card was", got.status)
	}
	head := w.do(t, http.MethodHead, path, "")
	if head.status != http.StatusOK || head.body != "" || head.header.Get("Content-Length") != itoa(len(first.body)) || head.header.Get("ETag") != tag {
		t.Errorf("HEAD = %d %q, %v; want what GET says of %d bytes", head.status, head.body, head.header, len(first.body))
	}
}

// An agent that does not say how long its card may be kept gets asked again:
// the sidecar's address in it may change.
func TestCardCacheControl(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name   string
		header []string
		want   []string
	}{
		{"none", nil, []string{"no-cache"}},
		{"Expires alone", []string{"Expires", "Fri, 20 Nov 2026 09:30:06 GMT"}, []string{"no-cache"}},
		{"its own", []string{"Cache-Control", "max-age=60"}, []string{"max-age=60"}},
	} {
		agent := newFake(t, cardAt(newPath, `{"url":"http://agent/rpc"}`, tt.header...))
		w := newWorld(t, agentAt("worker", agent.URL))
		got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
		if diff := cmp.Diff(tt.want, got.header.Values("Cache-Control")); diff != "" || got.header.Get("Expires") != "" {
			t.Errorf("card with %s: Expires %q, Cache-Control (-want +got):\n%s", tt.name, got.header.Get("Expires"), diff)
		}
	}
}

// A card that comes with another success than 200 is one to clients, too.
func TestCardsWithOtherStatuses(t *testing.T) {
	t.Parallel()
	agent := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNonAuthoritativeInfo)
		_, _ = w.Write([]byte(`{"url":"http://agent/rpc"}`))
	})
	w := newWorld(t, agentAt("worker", agent.URL))
	got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
	if want := `{"url":"` + w.URL + `/agents/worker/rpc"}`; got.status != http.StatusNonAuthoritativeInfo || got.body != want {
		t.Errorf("card = %d %s, want 203 %s", got.status, got.body, want)
	}
}

func TestCardsThatCannotBeServed(t *testing.T) {
	t.Parallel()
	card := `{"url":"http://agent/rpc"}`
	for _, tt := range []struct {
		name   string
		answer http.HandlerFunc
		status int
		want   string // in the body
	}{
		{"packed", cardAt(newPath, zipped(card), "Content-Encoding", "gzip"), http.StatusOK, "/agents/worker/rpc"},
		{"packed badly", cardAt(newPath, card, "Content-Encoding", "gzip"), http.StatusBadGateway, "the card of agent worker cannot be read: "},
		{"packed otherwise", cardAt(newPath, "\x00\x01", "Content-Encoding", "br"), http.StatusBadGateway, "the card of agent worker cannot be read: "},
		{"not JSON", cardAt(newPath, "<html>"), http.StatusBadGateway, "the card of agent worker cannot be read: agent card is not JSON"},
		{"two readings", cardAt(newPath, `{"url":"a","url":"b"}`), http.StatusBadGateway, `the card of agent worker cannot be read: duplicate key \"url\"`},
		{"too large", cardAt(newPath, `{"x":"`+strings.Repeat("x", 4<<20)+`"}`), http.StatusBadGateway, "the card of agent worker is larger than 4194304 bytes"},
		{"cut short", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte(card))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}, http.StatusBadGateway, "the card of agent worker broke off"},
		{"none", http.NotFound, http.StatusNotFound, "404 page not found"},
		{"forbidden", func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "who are you?", http.StatusForbidden) }, http.StatusForbidden, "who are you?"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, tt.answer)
			w := newWorld(t, agentAt("worker", agent.URL))
			got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
			if got.status != tt.status || !strings.Contains(got.body, tt.want) || got.header.Get("Content-Encoding") != "" {
				t.Errorf("card = %d %q, want %d and %q", got.status, got.body, tt.status, tt.want)
			}
		})
	}
}

// With cards.rewrite off, a card passes as the agent has it.
func TestCardsAsSent(t *testing.T) {
	t.Parallel()
	const card = ` {"url" : "http://agent/rpc","signatures":[{"signature":"x"}]}` + "\n"
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"agent's"`)
		if r.Header.Get("If-None-Match") != "" {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		if r.Header.Get("Accept-Encoding") == "gzip" {
			w.Header().Set("Content-Encoding", "gzip")
			says(zipped(card))(w, r)
			return
		}
		if strings.Contains(r.Header.Get("Content-Type"), "json") {
			says(`{"jsonrpc":"2.0","id":1,"result":`+card+`}`)(w, r)
			return
		}
		says(card)(w, r)
	})
	a := agentAt("worker", agent.URL)
	a.CardsAsSent = true
	w := newWorld(t, a)
	const path = "/agents/worker" + newPath
	if got := w.do(t, http.MethodGet, path, ""); got.body != card || got.header.Get("ETag") != `"agent's"` {
		t.Errorf("card = %q, %v; want the agent's", got.body, got.header)
	}
	if got := w.do(t, http.MethodGet, path, "", "Accept-Encoding", "gzip"); got.body != zipped(card) || got.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("packed card = %q, %v; want the agent's", got.body, got.header)
	}
	if got := w.do(t, http.MethodGet, path, "", "If-None-Match", `"agent's"`); got.status != http.StatusNotModified || got.header.Get("ETag") != `"agent's"` {
		t.Errorf("card that is known = %d, %v; want the agent's 304", got.status, got.header)
	}
	if got := w.post(t, `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`); got.body != `{"jsonrpc":"2.0","id":1,"result":`+card+`}` {
		t.Errorf("extended card = %q, want the agent's", got.body)
	}
}

// The extended card by JSON-RPC is the same card by another way.
func TestExtendedCardByJSONRPC(t *testing.T) {
	t.Parallel()
	card := `{"url":"http://agent/rpc","preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"http://agent/rest","transport":"HTTP+JSON"}],"signatures":[{}]}`
	for _, tt := range []struct {
		name, method string
		answer       http.HandlerFunc
		want         string // SIDE as above
	}{
		{
			"1.0", "GetExtendedAgentCard", says(`{"jsonrpc":"2.0","id":1,"x":1.0,"result":` + card + "}\n"),
			`{"jsonrpc":"2.0","id":1,"x":1.0,"result":{"url":"SIDE/rpc","preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"SIDE/rest","transport":"HTTP+JSON"}]}}` + "\n",
		},
		{
			"0.3, packed", "agent/getAuthenticatedExtendedCard", func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				says(zipped(`{"result":`+card+`}`))(w, r)
			},
			`{"result":{"url":"SIDE/rpc","preferredTransport":"JSONRPC","additionalInterfaces":[{"url":"SIDE/rest","transport":"HTTP+JSON"}]}}`,
		},
		{"an error", "GetExtendedAgentCard", says(`{"jsonrpc":"2.0","id":1,"error":{"code":-32007,"message":"none"}}`), `{"jsonrpc":"2.0","id":1,"error":{"code":-32007,"message":"none"}}`},
		{
			"broken", "GetExtendedAgentCard", says(`{"jsonrpc":"2.0","id":1,"result":{"url":"a","url":"b"}}`),
			`{"jsonrpc":"2.0","id":1,"error":{"code":-32006,"message":"the card of agent worker cannot be read: duplicate key \"url\" in result","data":[` +
				`{"@type":"type.googleapis.com/google.rpc.ErrorInfo","domain":"a2a-sidecar","metadata":{"agent":"worker"},"reason":"INVALID_AGENT_CARD"}]}}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, tt.answer)
			w := newWorld(t, agentAt("worker", agent.URL))
			got := w.post(t, `{"jsonrpc":"2.0","id":1,"method":"`+tt.method+`"}`, "Accept-Encoding", "gzip")
			want := strings.ReplaceAll(tt.want, "SIDE", w.URL+"/agents/worker")
			if diff := cmp.Diff(want, got.body); diff != "" || got.status != http.StatusOK {
				t.Errorf("answer = %d (-want +got):\n%s", got.status, diff)
			}
			if n := got.header.Get("Content-Length"); n != itoa(len(want)) || got.header.Get("Content-Encoding") != "" {
				t.Errorf("headers = %v, want a length of %d and no encoding", got.header, len(want))
			}
		})
	}
}
