package proxy_test

import (
	"net/http"
	"strings"
	"testing"
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
			w.proxy.GRPC("worker", port)
			got := w.do(t, http.MethodGet, "/agents/worker"+newPath, "")
			if want := strings.ReplaceAll(tt.want, "SIDE", w.URL+"/agents/worker"); got.body != want {
				t.Errorf("card = %s, want %s", got.body, want)
			}
		})
	}
}
