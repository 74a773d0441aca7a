package compare_test

import (
	"encoding/json"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/a2apb"
	pb10 "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/compare"
	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/tap"
)

const (
	sent  = "01900000-0000-7000-8000-000000000001"
	fresh = "01900000-0000-7000-8000-00000000000f"
)

func rules(isolated bool) compare.Rules {
	return compare.Rules{
		Prefix: "/agents/a", Base: "http://127.0.0.3:1/agents/a", Around: []string{"127.0.0.1:9", "127.0.0.2:9"}, Isolated: isolated,
	}
}

// side makes what a tap saw on one side of the sidecar.
func side(target, body string, edit ...func(*tap.Exchange)) tap.Exchange {
	e := tap.Exchange{
		Proto: "HTTP/1.1", Method: http.MethodPost, Target: target, Status: http.StatusOK,
		Request:  tap.Half{Header: http.Header{"Content-Type": {"application/json"}, "Accept-Encoding": {"gzip, br"}}, Body: []byte(body)},
		Response: tap.Half{Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: []byte("data: {}\n\n")},
	}
	for _, f := range edit {
		f(&e)
	}
	return e
}

func send(member string) string {
	return `{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"message":{` + member + `"messageId":"m","parts":[]}}}`
}

func request(name, value string) func(*tap.Exchange) {
	return func(e *tap.Exchange) { e.Request.Header[name] = []string{value} }
}

func response(name, value string) func(*tap.Exchange) {
	return func(e *tap.Exchange) { e.Response.Header[name] = []string{value} }
}

// whats are the differences without the calls that they are about.
func whats(differences []compare.Difference) []string {
	found := []string{}
	for _, d := range differences {
		found = append(found, d.What)
	}
	return found
}

// What the sidecar may do to an exchange is no difference.
func TestAllowed(t *testing.T) {
	t.Parallel()
	near := side("/agents/a/rpc?x=1", send(""),
		request("X-Sidecar-Kind", "worker"), request("Connection", "keep-alive"), request("Content-Length", "1"),
		response("X-Sidecar-Session-Id", "s"), response("Transfer-Encoding", "chunked"), response("Date", "now"))
	far := side("/rpc?x=1", send(""),
		request("X-Kagent-Root-Context-Id", "r"), request("X-Sidecar-Branch", "b"), request("Accept-Encoding", "gzip"),
		response("Connection", "close"), response("Content-Length", "10"))
	if got := compare.Differences([]tap.Exchange{near}, []tap.Exchange{far}, rules(false)); len(got) > 0 {
		t.Errorf("Differences = %v, want none", got)
	}
}

// Whatever else is planted is found, on either side.
func TestPlanted(t *testing.T) {
	t.Parallel()
	const body = `{"method":"tasks/get","params":{"id":"t"}}`
	for name, tt := range map[string]struct {
		near, far func(*tap.Exchange)
		want      string
	}{
		"status": {near: func(e *tap.Exchange) { e.Status = 502 }, want: "status 502, sent by the agent as 200"},
		"request body": {
			far:  func(e *tap.Exchange) { e.Request.Body = []byte(strings.Replace(body, `"t"`, `"u"`, 1)) },
			want: "request body differs: at byte 38 of 42 and 42, \"ks/get\\\",\\\"params\\\":{\\\"id\\\":\\\"t\\\"}}\" became \"ks/get\\\",\\\"params\\\":{\\\"id\\\":\\\"u\\\"}}\"",
		},
		"response body": {
			near: func(e *tap.Exchange) { e.Response.Body = []byte("data: {}\n") },
			want: `response body differs: at byte 9 of 10 and 9, "data: {}\n\n" became "data: {}\n"`,
		},
		"request header dropped":  {near: request("A2a-Version", "1.0"), want: `request header A2a-Version: ["1.0"] was dropped`},
		"request header added":    {far: request("Via", "1.1 sidecar"), want: `request header Via: ["1.1 sidecar"] was added`},
		"request header changed":  {far: request("Content-Type", "text/plain"), want: `request header Content-Type: ["application/json"] became ["text/plain"]`},
		"encoding that it reads":  {far: request("Accept-Encoding", "br"), want: `request header Accept-Encoding: ["gzip, br"] became ["br"]`},
		"encoding made up":        {far: request("Accept-Encoding", "gzip, deflate"), want: `request header Accept-Encoding: ["gzip, br"] became ["gzip, deflate"]`},
		"response header dropped": {far: response("Vary", "A2A-Version"), want: `response header Vary: ["A2A-Version"] was dropped`},
		"response header added":   {near: response("X-Powered-By", "us"), want: `response header X-Powered-By: ["us"] was added`},
		"date changed": {
			near: response("Date", "now"), far: response("Date", "then"),
			want: `response header Date: ["then"] became ["now"]`,
		},
		"lineage to the caller": {near: response("X-Kagent-Root-Context-Id", "r"), want: `response header X-Kagent-Root-Context-Id: ["r"] was added`},
		"trailer": {
			near: func(e *tap.Exchange) { e.Response.Trailer = http.Header{"Grpc-Status": {"2"}} },
			far:  func(e *tap.Exchange) { e.Response.Trailer = http.Header{"Grpc-Status": {"5"}} },
			want: `response trailer Grpc-Status: ["5"] became ["2"]`,
		},
		"version of HTTP": {far: func(e *tap.Exchange) { e.Proto = "HTTP/2.0" }, want: "came as HTTP/1.1, forwarded as HTTP/2.0"},
		"broken stream that differs": {
			near: func(e *tap.Exchange) { e.Response.Truncated, e.Response.Body = true, []byte("dada") },
			want: `response body differs: at byte 2 of 4 and 4, "data" became "dada"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := side("/agents/a", body), side("/", body)
			for _, plant := range []struct {
				f func(*tap.Exchange)
				e *tap.Exchange
			}{{tt.near, &near}, {tt.far, &far}} {
				if plant.f != nil {
					plant.f(plant.e)
				}
			}
			got := compare.Differences([]tap.Exchange{near}, []tap.Exchange{far}, rules(false))
			if diff := cmp.Diff([]string{tt.want}, whats(got)); diff != "" {
				t.Errorf("Differences (-want +got):\n%s", diff)
			}
		})
	}
}

// A stream that either side gave up is compared as far as both have it.
func TestBrokenOff(t *testing.T) {
	t.Parallel()
	near, far := side("/agents/a", "{}"), side("/", "{}")
	near.Response.Truncated, near.Response.Body = true, near.Response.Body[:4]
	if got := compare.Differences([]tap.Exchange{near}, []tap.Exchange{far}, rules(false)); len(got) > 0 {
		t.Errorf("Differences = %v, want none", got)
	}
}

// Isolation changes the bytes of one id, or puts one in, and nothing else.
func TestIsolated(t *testing.T) {
	t.Parallel()
	restBody := func(s string) string { return `{"message":{` + s + `"message_id":"m"}}` }
	const nothing, odd = `"x":1,`, `"contextId" : "` + sent + `" ,`
	for name, tt := range map[string]struct {
		isolated    bool
		near, far   string
		differences []string
	}{
		"replaced":           {true, send(`"contextId":"` + sent + `",`), send(`"contextId":"` + fresh + `",`), nil},
		"replaced with room": {true, send(odd), send(strings.Replace(odd, sent, fresh, 1)), nil},
		"replaced null":      {true, send(`"contextId":null,`), send(`"contextId":"` + fresh + `",`), nil},
		"inserted first":     {true, send(nothing), send(`"contextId":"` + fresh + `",` + nothing), nil},
		"inserted later":     {true, send(nothing), send(nothing + `"contextId":"` + fresh + `",`), nil},
		"snake case":         {true, restBody(""), restBody(`"context_id":"` + fresh + `",`), nil},
		"resumed":            {true, send(`"taskId":"t","contextId":"` + sent + `",`), send(`"taskId":"t","contextId":"` + sent + `",`), nil},
		"as it was sent": {
			true, send(`"contextId":"` + sent + `",`), send(`"contextId":"` + sent + `",`),
			[]string{"isolated, and yet the agent got the context id that was sent"},
		},
		"none": {true, send(nothing), send(nothing), []string{"isolated, and yet the agent got no context id"}},
		"more than the id": {
			true, send(nothing), send(`"contextId":"` + fresh + `","x":2,`),
			[]string{"request body differs in more than the context id: "},
		},
		"a resume touched": {
			true, send(`"taskId":"t","contextId":"` + sent + `",`), send(`"taskId":"t","contextId":"` + fresh + `",`),
			[]string{"request body differs: "},
		},
		"not asked for": {
			false, send(`"contextId":"` + sent + `",`), send(`"contextId":"` + fresh + `",`),
			[]string{"request body differs: "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			near, far := side("/agents/a", tt.near), side("/", tt.far)
			got := compare.Differences([]tap.Exchange{near}, []tap.Exchange{far}, rules(tt.isolated))
			if !begin(whats(got), tt.differences) {
				t.Errorf("Differences = %q, want %q", got, tt.differences)
			}
		})
	}
}

func begin(got, want []string) bool {
	return slices.EqualFunc(got, want, strings.HasPrefix)
}

// framed is a message as gRPC sends it.
func framed(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{0, byte(len(b) >> 24), byte(len(b) >> 16), byte(len(b) >> 8), byte(len(b))}, b...)
}

func TestIsolatedGRPC(t *testing.T) {
	t.Parallel()
	v10 := func(context, text string) proto.Message {
		return &pb10.SendMessageRequest{Tenant: "x", Message: &pb10.Message{
			MessageId: "m", ContextId: context, Parts: []*pb10.Part{{Content: &pb10.Part_Text{Text: text}}},
		}}
	}
	v03 := func(context, text string) proto.Message {
		return &a2apb.SendMessageRequest{Request: &a2apb.Message{
			MessageId: "m", ContextId: context, Parts: []*a2apb.Part{{Part: &a2apb.Part_Text{Text: text}}},
		}}
	}
	for name, tt := range map[string]struct {
		path        string
		make        func(context, text string) proto.Message
		before, now string
		text        string
		want        []string
	}{
		"1.0 replaced":  {"/lf.a2a.v1.A2AService/SendMessage", v10, sent, fresh, "hi", nil},
		"1.0 inserted":  {"/lf.a2a.v1.A2AService/SendStreamingMessage", v10, "", fresh, "hi", nil},
		"0.3 replaced":  {"/a2a.v1.A2AService/SendStreamingMessage", v03, sent, fresh, "hi", nil},
		"0.3 inserted":  {"/a2a.v1.A2AService/SendMessage", v03, "", fresh, "hi", nil},
		"as it was":     {"/a2a.v1.A2AService/SendMessage", v03, sent, sent, "hi", []string{"isolated, and yet the agent got the context id that was sent"}},
		"text, too":     {"/a2a.v1.A2AService/SendMessage", v03, "", fresh, "ho", []string{"request body differs in more than the context id: "}},
		"1.0 text, too": {"/lf.a2a.v1.A2AService/SendMessage", v10, sent, fresh, "ho", []string{"request body differs in more than the context id: "}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			grpc := request("Content-Type", "application/grpc+proto")
			near, far := side(tt.path, "", grpc), side(tt.path, "", grpc)
			near.Request.Body, far.Request.Body = framed(t, tt.make(tt.before, "hi")), framed(t, tt.make(tt.now, tt.text))
			got := compare.Differences([]tap.Exchange{near}, []tap.Exchange{far}, rules(true))
			if !begin(whats(got), tt.want) {
				t.Errorf("Differences = %q, want %q", got, tt.want)
			}
			if diff := cmp.Diff([]string{tt.before, tt.now}, compare.Contexts([]tap.Exchange{near, far})); diff != "" {
				t.Errorf("Contexts (-want +got):\n%s", diff)
			}
		})
	}
}

// Parallel calls are held against their own, whichever way they were taken up.
func TestPairs(t *testing.T) {
	t.Parallel()
	body := func(n string) string { return strings.Replace(send(""), `"m"`, `"m`+n+`"`, 1) }
	isolated := func(n string) string {
		return strings.Replace(body(n), `"parts"`, `"contextId":"`+strings.Replace(fresh, "f", n, 1)+`","parts"`, 1)
	}
	near := []tap.Exchange{side("/agents/a", body("1")), side("/agents/a", body("2")), side("/agents/a", body("3"))}
	far := []tap.Exchange{side("/", isolated("3")), side("/", isolated("1")), side("/", isolated("2"))}
	if got := compare.Differences(near, far, rules(true)); len(got) > 0 {
		t.Errorf("Differences = %v, want none", got)
	}
	far[1].Response.Body = []byte("data: 1\n\n")
	if got := compare.Differences(near, far, rules(true)); len(got) != 1 {
		t.Errorf("Differences with one planted = %v, want one", got)
	}
	got := compare.Differences(near[:2], far[1:2], rules(true))
	if want := []string{"response body differs: ", "the agent never got it"}; !begin(whats(got), want) {
		t.Errorf("Differences of a call that was not forwarded = %q, want %q", got, want)
	}
	got = compare.Differences(near[:1], append(far[:2:2], side("/other", "{}")), rules(true))
	if want := "the sidecar made this call of its own accord"; !slices.Contains(whats(got), want) {
		t.Errorf("Differences of a call too many = %v, want %q", got, want)
	}
}

func TestCards(t *testing.T) {
	t.Parallel()
	card := func(urls map[string]string) func(*tap.Exchange) {
		return func(e *tap.Exchange) {
			e.Method, e.Target, e.Request.Body = http.MethodGet, "/agents/a/.well-known/agent-card.json", nil
			var interfaces []map[string]string
			for _, binding := range slices.Sorted(maps.Keys(urls)) {
				interfaces = append(interfaces, map[string]string{"url": urls[binding], "protocolBinding": binding})
			}
			e.Response.Body, _ = json.Marshal(map[string]any{"name": "a", "supportedInterfaces": interfaces})
		}
	}
	for name, tt := range map[string]struct {
		urls map[string]string
		want []string
	}{
		"all at the sidecar": {map[string]string{"JSONRPC": "http://127.0.0.3:1/agents/a", "HTTP+JSON": "http://127.0.0.3:1/agents/a/rest", "GRPC": "127.0.0.1:7"}, nil},
		"around": {
			map[string]string{"JSONRPC": "http://127.0.0.1:9/rpc"},
			[]string{"the card leads around the sidecar, to 127.0.0.1:9", "the card has an interface elsewhere: JSONRPC at http://127.0.0.1:9/rpc"},
		},
		"gRPC around": {map[string]string{"GRPC": "127.0.0.1:9"}, []string{"the card leads around the sidecar, to 127.0.0.1:9"}},
		"another agent": {
			map[string]string{"JSONRPC": "http://127.0.0.3:1/agents/ab"},
			[]string{"the card has an interface elsewhere: JSONRPC at http://127.0.0.3:1/agents/ab"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := compare.Differences([]tap.Exchange{side("", "", card(tt.urls))}, nil, rules(false))
			if diff := cmp.Diff(append([]string{}, tt.want...), whats(got)); diff != "" {
				t.Errorf("Differences (-want +got):\n%s", diff)
			}
		})
	}
}
