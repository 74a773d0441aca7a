package proxy

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/propagation"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// said10 and said03 are messages with a word about their tenant.
const (
	said10 = `{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"\"tenant\""}]}%s}}`
	said03 = `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{"kind":"message","messageId":"m","role":"user","parts":[]}%s}}`
)

func TestVoice(t *testing.T) {
	t.Parallel()
	inGRPC, err := proto.Marshal(&a2apb.SendMessageRequest{
		Tenant: "acme", Message: &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hi"}}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	framed := string(grpcframe.Append(nil, inGRPC))
	rest := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[]}}`
	for _, tt := range []struct {
		name         string
		binding      binding
		rest, body   string
		url          string // the one that calls are made to
		kind, tenant string
		version      wire.Version
	}{
		{"JSON-RPC", rpcBinding{}, "", fmt.Sprintf(said10, ""), "http://a2a-sidecar/agents/worker", "JSONRPC", "", wire.V10},
		{"JSON-RPC at a path", rpcBinding{}, "/~/a%2Fb/", fmt.Sprintf(said10, ""), "http://a2a-sidecar/agents/worker/~/a%2Fb/", "JSONRPC", "", wire.V10},
		{"JSON-RPC for a tenant", rpcBinding{}, "/rpc", fmt.Sprintf(said10, `,"tenant":"acme"`), "http://a2a-sidecar/agents/worker/rpc", "JSONRPC", "acme", wire.V10},
		{"JSON-RPC for a tenant that is none", rpcBinding{}, "/rpc", fmt.Sprintf(said10, `,"tenant":7`), "http://a2a-sidecar/agents/worker/rpc", "JSONRPC", "", wire.V10},
		{"JSON-RPC 0.3 knows no tenants", rpcBinding{}, "", fmt.Sprintf(said03, `,"tenant":"acme"`), "http://a2a-sidecar/agents/worker", "JSONRPC", "", wire.V03},
		{"HTTP+JSON", restBinding{}, "/message:send", rest, "http://a2a-sidecar/agents/worker", "HTTP+JSON", "", wire.V10},
		{"HTTP+JSON for a tenant", restBinding{}, "/base/acme/message:send", rest, "http://a2a-sidecar/agents/worker/base/acme", "HTTP+JSON", "", wire.V10},
		{"HTTP+JSON with a slash", restBinding{}, "/v1/message:stream/", rest, "http://a2a-sidecar/agents/worker/v1", "HTTP+JSON", "", wire.V10},
		{"gRPC", grpcBinding{}, "/lf.a2a.v1.A2AService/SendMessage", framed, "passthrough:///a2a-sidecar", "GRPC", "acme", wire.V10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(http.MethodPost, "http://sidecar/?key=k", strings.NewReader(tt.body))
			r.Header.Set("A2A-Version", "1.0")
			req, err := tt.binding.read(r, tt.rest, []byte(tt.body))
			if err != nil {
				t.Fatal(err)
			}
			u := &upstream{Agent: Agent{Session: sessions.Agent{Name: "worker"}}}
			x := &exchange{agent: u, in: r, rest: tt.rest, request: req}
			got := x.voice().offer(u)
			if got.URL != tt.url || string(got.ProtocolBinding) != tt.kind || got.Tenant != tt.tenant || string(got.ProtocolVersion) != tt.version.String() {
				t.Errorf("offer() = %+v, want %s %s %s for %q", got, tt.url, tt.kind, tt.version, tt.tenant)
			}
		})
	}
}

func TestProtoTenantOfWhatIsBroken(t *testing.T) {
	t.Parallel()
	for _, message := range []string{"\xff", "\x0a\x7fx", "\x12\x7f", "\x0a"} {
		if got := protoTenant([]byte(message)); got != "" {
			t.Errorf("protoTenant(%q) = %q, want none", message, got)
		}
	}
	if got := protoTenant([]byte("\x12\x01m\x0a\x01a")); got != "a" { // fields come in any order
		t.Errorf("protoTenant = %q, want a", got)
	}
}

// A call in a caller's name has what that is known by, and nothing of the
// message that it sent.
func TestVoiceSpeaks(t *testing.T) {
	t.Parallel()
	kept := http.Header{
		"Authorization": {"Bearer b"}, "X-User-Id": {"ann"}, "Cookie": {"a=1", "b=2"}, "X-Api-Key": {"k"}, "X-Tenant": {"acme"},
		"A2a-Version": {"1.0"}, "A2a-Extensions": {"urn:x"}, "X-A2a-Extensions": {"urn:y"}, "Trusted-Bin": {"AAEC"},
	}
	dropped := []string{
		"Connection", "Keep-Alive", "Te", "X-Hop", "X-Sidecar-Turn", "X-Kagent-Root-Context-Id", "X-Kagent-Parent-Context-Id",
		"Traceparent", "Tracestate", "Baggage", "B3", "X-B3-Traceid", "X-Trace", "Content-Type", "Content-Length", "Content-Encoding",
		"Accept", "Accept-Encoding", "If-None-Match", "Idempotency-Key", "X-Idempotency-Key", "X-Request-Id", "Grpc-Timeout",
		"Grpc-Accept-Encoding", "Dpop", "Signature", "Digest", "User-Agent", "Expect", "Range",
	}
	p := &Proxy{names: lineage.HeadersFor(""), tel: &instruments{propagator: ownTrace{}}}
	h := kept.Clone()
	for _, name := range dropped {
		h.Set(name, "x")
	}
	h.Set("Connection", "close, X-Hop")
	before := h.Clone()

	v := &voice{binding: wire.REST, header: h, query: "key=k"}
	r := httptest.NewRequest(http.MethodGet, "http://a2a-sidecar/agents/worker/tasks/t?historyLength=0", http.NoBody)
	r.Header.Set("Accept", "application/json")
	r.Header.Set("A2A-Version", "0.3") // the client's guess
	v.speaks(p, r)
	want := kept.Clone()
	want.Set("Accept", "application/json")
	if diff := cmp.Diff(want, r.Header); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if got, want := r.URL.RawQuery, "key=k&historyLength=0"; got != want {
		t.Errorf("query = %q, want %q", got, want)
	}
	if diff := cmp.Diff(before, h); diff != "" {
		t.Errorf("the caller's own headers have changed (-before +after):\n%s", diff)
	}

	r = httptest.NewRequest(http.MethodPost, "http://a2a-sidecar/agents/worker", http.NoBody)
	v.speaks(p, r)
	if got := r.URL.RawQuery; got != "key=k" {
		t.Errorf("query = %q, want key=k", got)
	}
}

// ownTrace is a propagator with a header of its own.
type ownTrace struct{ propagation.TraceContext }

func (ownTrace) Fields() []string { return []string{"x-trace"} }

// However it is printed, a voice does not say whose credentials it holds.
func TestVoiceIsNotPrinted(t *testing.T) {
	t.Parallel()
	v := &voice{header: http.Header{"Authorization": {"secret"}}, query: "secret", tenant: "secret", base: "secret"}
	var logged strings.Builder
	slog.New(slog.NewTextHandler(&logged, nil)).Info("text", "as", v)
	slog.New(slog.NewJSONHandler(&logged, nil)).Info("json", "as", v, "task", sessions.Task{As: v})
	for _, printed := range []string{
		fmt.Sprint(v), fmt.Sprintf("%+v", v), fmt.Sprintf("%#v", v), fmt.Sprintf("%s %q %x", v, v, v),
		fmt.Sprintf("%+v", sessions.Task{As: v}), fmt.Sprintf("%+v", sessions.Call{As: v}), logged.String(),
	} {
		if strings.Contains(printed, "secret") || strings.Contains(printed, "736563726574") {
			t.Errorf("printed as %q", printed)
		}
	}
}
