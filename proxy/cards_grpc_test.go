package proxy_test

import (
	"bytes"
	"io"
	"maps"
	"net/http"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
)

// gRPC interfaces point at the agent's own port, in the form that they had:
// some clients want a scheme there, others none.
func TestCardsWithGRPC(t *testing.T) {
	t.Parallel()
	const port = "127.0.0.1:50999"
	for _, tt := range []struct{ name, card, want string }{
		{
			"bare", `{"supportedInterfaces":[{"url":"agent.example:9001","protocolBinding":"GRPC"},{"url":"http://agent/rpc","protocolBinding":"JSONRPC"}]}`,
			`{"supportedInterfaces":[{"url":"` + port + `","protocolBinding":"GRPC"},{"url":"SIDE/rpc","protocolBinding":"JSONRPC"}]}`,
		},
		{
			"http", `{"supportedInterfaces":[{"url":"http://agent.example:9001","protocolBinding":"GRPC"}]}`,
			`{"supportedInterfaces":[{"url":"http://` + port + `","protocolBinding":"GRPC"}]}`,
		},
		{
			"https, in small letters", `{"supportedInterfaces":[{"url":"HTTPS://agent.example","protocolBinding":"grpc"}]}`,
			`{"supportedInterfaces":[{"url":"http://` + port + `","protocolBinding":"grpc"}]}`,
		},
		{
			"a resolver", `{"supportedInterfaces":[{"url":"dns:///agent.example:9001","protocolBinding":"GRPC"}]}`,
			`{"supportedInterfaces":[{"url":"dns:///` + port + `","protocolBinding":"GRPC"}]}`,
		},
		{
			"grpcs", `{"supportedInterfaces":[{"url":"grpcs://agent.example:9001","protocolBinding":"GRPC"}]}`,
			`{"supportedInterfaces":[{"url":"grpc://` + port + `","protocolBinding":"GRPC"}]}`,
		},
		{
			"0.3 prefers it", `{"url":"http://agent:9001","preferredTransport":"GRPC","additionalInterfaces":[{"url":"agent:9001","transport":"GRPC"},{"url":"http://agent/rpc","transport":"JSONRPC"}]}`,
			`{"url":"http://` + port + `","preferredTransport":"GRPC","additionalInterfaces":[{"url":"` + port + `","transport":"GRPC"},{"url":"SIDE/rpc","transport":"JSONRPC"}]}`,
		},
		{
			"two places", `{"supportedInterfaces":[{"url":"agent:9001","protocolBinding":"GRPC"},{"url":"agent:9002","protocolBinding":"GRPC"},{"url":"other:9001","protocolBinding":"GRPC"}]}`,
			`{"supportedInterfaces":[{"url":"` + port + `","protocolBinding":"GRPC"},{"url":"` + port + `","protocolBinding":"GRPC"}]}`,
		},
		{
			"an unheard binding beside", `{"supportedInterfaces":[{"url":"http://agent/x","protocolBinding":"X"},{"url":"agent:9001","protocolBinding":"GRPC"}]}`,
			`{"supportedInterfaces":[{"url":"` + port + `","protocolBinding":"GRPC"}]}`,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, cardAt(newPath, tt.card))
			w := newWorld(t, agentAt("worker", agent.URL))
			w.proxy.GRPC("worker", port, w.URL)
			got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
			if want := strings.ReplaceAll(tt.want, "SIDE", w.URL+"/agents/worker"); got.body != want {
				t.Errorf("card = %s, want %s", got.body, want)
			}
		})
	}
}

// byVersion serves a card for each version, and the extended one by JSON-RPC.
func byVersion(card03, card10, extended string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method == http.MethodPost:
			says(`{"jsonrpc":"2.0","id":1,"result":`+extended+`}`)(w, r)
		case r.Header.Get("A2A-Version") == "1.0":
			says(card10)(w, r)
		default:
			says(card03)(w, r)
		}
	}
}

// grpcOnly is a card with gRPC interfaces.
func grpcOnly(urls ...string) string {
	var all []string
	for _, url := range urls {
		all = append(all, `{"url":"`+url+`","protocolBinding":"GRPC"}`)
	}
	return `{"supportedInterfaces":[` + strings.Join(all, ",") + `]}`
}

// Cards vary by version, and so may the place that they name.
func TestCardsOfBothVersionsWithGRPC(t *testing.T) {
	t.Parallel()
	const port = "127.0.0.1:50999"
	agent := newFake(t, byVersion(grpcOnly("agent:9003"), grpcOnly("agent:9010", "agent:9003"), ""))
	w := newWorld(t, agentAt("worker", agent.URL))
	w.proxy.GRPC("worker", port, w.URL)
	for range 2 {
		for _, version := range []string{"0.3", "1.0"} {
			got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "", "A2A-Version", version)
			if want := grpcOnly(port); got.body != want {
				t.Errorf("card of %s = %s, want %s", version, got.body, want)
			}
		}
	}
	want := []string{"http://127.0.0.1:9003", "http://127.0.0.1:9010"}
	if diff := cmp.Diff(want, w.proxy.GRPCPlaces("worker")); diff != "" {
		t.Errorf("places (-want +got):\n%s", diff)
	}
}

// One user's card does not say where everybody's calls go.
func TestExtendedCardsTeachNothing(t *testing.T) {
	t.Parallel()
	const port = "127.0.0.1:50999"
	const call = `{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`
	for _, tt := range []struct {
		name, public, extended, want string
		places                       []string
	}{
		{"the same place", grpcOnly("agent:9001"), grpcOnly("other:9001"), grpcOnly(port), []string{"http://127.0.0.1:9001"}},
		{"another place", grpcOnly("agent:9001"), grpcOnly("agent:9002", "agent:9001"), grpcOnly(port), []string{"http://127.0.0.1:9001"}},
		{"that alone", `{}`, grpcOnly("agent:9002"), grpcOnly(), nil},
	} {
		for _, first := range []bool{false, true} {
			agent := newFake(t, byVersion(`{}`, tt.public, tt.extended))
			w := newWorld(t, agentAt("worker", agent.URL))
			w.proxy.GRPC("worker", port, w.URL)
			if !first {
				w.do(t, http.MethodGet, "/agents/worker"+newPath, "", "A2A-Version", "1.0")
			}
			got := w.post(t, call)
			if want := `{"jsonrpc":"2.0","id":1,"result":` + tt.want + `}`; got.body != want {
				t.Errorf("%s, asked for first %t: card = %s, want %s", tt.name, first, got.body, want)
			}
			if diff := cmp.Diff(tt.places, w.proxy.GRPCPlaces("worker")); diff != "" {
				t.Errorf("%s: places (-want +got):\n%s", tt.name, diff)
			}
		}
	}
}

// The last card of an agent that is down keeps its gRPC interface, even if the
// place was given up meanwhile, and brings back no place that is.
func TestStaleCardsWithGRPC(t *testing.T) {
	t.Parallel()
	const port = "127.0.0.1:50999"
	agent := newMortal(t, says(grpcOnly("agent:9001")))
	w := newWorld(t, agentAt("worker", agent.URL))
	w.proxy.GRPC("worker", port, w.URL)
	w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
	agent.fails.Store(http.StatusServiceUnavailable)
	for _, known := range []bool{true, false} {
		if !known {
			w.proxy.ForgetGRPC("worker")
		}
		got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
		if got.body != grpcOnly(port) || got.header.Get("X-Sidecar-Card") != "stale" {
			t.Errorf("card with the place known %t = %s, %v; want the last one", known, got.body, got.header)
		}
		if places := w.proxy.GRPCPlaces("worker"); len(places) > 0 != known {
			t.Errorf("places with the place known %t = %v", known, places)
		}
	}
}

// extendedByGRPC asks for the extended card of 1.0. The body is its message.
func extendedByGRPC(t *testing.T, url string) answer {
	t.Helper()
	return callGRPC(t, url+"/lf.a2a.v1.A2AService/GetExtendedAgentCard", nil)
}

// callGRPC makes a gRPC call without a client, which would see less. The body of
// the answer is its message; headers and trailers are one.
func callGRPC(t *testing.T, url string, message []byte) answer {
	t.Helper()
	tr := &http.Transport{Protocols: new(http.Protocols)}
	tr.Protocols.SetUnencryptedHTTP2(true)
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, bytes.NewReader(grpcframe.Append(nil, message)))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/grpc")
	req.Header.Set("Grpc-Accept-Encoding", "gzip")
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	a := answer{resp.StatusCode, resp.Header, resp.Trailer, ""}
	maps.Copy(a.header, resp.Trailer)
	if len(body) > 0 {
		packed, sent, err := grpcframe.Split(body)
		if err != nil || packed {
			t.Fatalf("answer %q is packed %t, %v; want one message", body, packed, err)
		}
		a.body = string(sent)
	}
	return a
}

// answersGRPC is an agent that answers gRPC calls with a message, packed or not.
// Without one, it answers with the message that it got.
func answersGRPC(message []byte, packed bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		message := message
		if message == nil {
			_, message, _ = grpcframe.Split(body) // none: an empty one
		}
		framed := grpcframe.Append(nil, message)
		if packed {
			framed = grpcframe.Append(nil, []byte(zipped(string(message))))
			framed[0] = 1
			w.Header().Set("Grpc-Encoding", "gzip")
		}
		w.Header().Set("Content-Type", "application/grpc")
		w.Header().Set("Trailer", "Grpc-Status")
		_, _ = w.Write(framed)
		w.Header().Set("Grpc-Status", "0")
	}
}

// A card that comes by the gRPC port names the outbound port for calls by HTTP,
// and one by the outbound port whatever the caller calls that.
func TestExtendedCardByGRPC(t *testing.T) {
	t.Parallel()
	card := protoCard(t, `{"supportedInterfaces":[{"url":"http://agent/rpc","protocolBinding":"JSONRPC"},{"url":"agent:9001","protocolBinding":"GRPC"}]}`)[5:]
	const port = "127.0.0.1:50999"
	for _, packed := range []bool{false, true} {
		agent := h2c(t, answersGRPC(card, packed))
		a := agentAt("worker", agent.URL)
		a.GRPCURL = a.URL
		w := newWorld(t, a)
		out := h2c(t, w.proxy)
		for outbound, want := range map[string]string{
			"127.0.0.1:8400":        "http://127.0.0.1:8400",
			"https://side.example/": "https://side.example",
			"[::]:8400":             "http://127.0.0.1:8400",
			"":                      out.URL,
		} {
			side := h2c(t, w.proxy.GRPC("worker", port, outbound)).URL
			if outbound == "" {
				side = out.URL + "/agents/worker"
			}
			answer := extendedByGRPC(t, side)
			var got a2apb.AgentCard
			if err := proto.Unmarshal([]byte(answer.body), &got); err != nil || answer.header.Get("Grpc-Status") != "0" {
				t.Fatalf("answer = %q, %v, %v; want a card", answer.body, answer.header, err)
			}
			var urls []string
			for _, i := range got.GetSupportedInterfaces() {
				urls = append(urls, i.GetUrl())
			}
			if diff := cmp.Diff([]string{want + "/agents/worker/rpc", port}, urls); diff != "" {
				t.Errorf("interfaces of a card by %q, packed %t (-want +got):\n%s", outbound, packed, diff)
			}
		}
	}
}
