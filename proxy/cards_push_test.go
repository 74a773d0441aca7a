package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// An agent that packs whatever it sends hands back the caller's own URL, too, as
// does one that packs nothing.
func TestPushConfigurationsThatArePacked(t *testing.T) {
	t.Parallel()
	const original = "http://127.0.0.1:9/hook?secret=x"
	const call = `{"jsonrpc":"2.0","id":1,"method":"CreateTaskPushNotificationConfig","params":{"taskId":"t1","id":"cfg","url":"` + original + `"}}`
	for _, tt := range []struct {
		encoding string
		pack     func(string) string
		status   int
	}{
		{"", func(s string) string { return s }, http.StatusOK},
		{"gzip", zipped, http.StatusOK},
		{"gzip", func(s string) string { return s }, http.StatusBadGateway}, // it is not
		{"br", func(s string) string { return s }, http.StatusBadGateway},
	} {
		var given string // the agent's answer, unpacked
		agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
			b, _ := io.ReadAll(r.Body)
			_, params, _ := strings.Cut(string(b), `"params":`)
			given = `{"jsonrpc":"2.0","id":1,"result":` + params
			w.Header().Set("Content-Type", "application/json")
			if tt.encoding != "" {
				w.Header().Set("Content-Encoding", tt.encoding)
			}
			_, _ = io.WriteString(w, tt.pack(given))
		})
		r := newRelaying(t, agentAt("worker", agent.URL))
		got := r.post(t, call, "Accept-Encoding", "gzip, br")
		if !strings.Contains(given, r.callbacks.URL+"/callbacks/") {
			t.Fatalf("the agent has %s, want a URL of the relay", given)
		}
		if strings.Contains(got.body, "/callbacks/") || (tt.status == http.StatusOK) != strings.Contains(got.body, original) {
			t.Errorf("packed as %q, the caller sees %q, want its own URL, or an error", tt.encoding, got.body)
		}
		if tt.status == http.StatusOK && (got.header.Get("Content-Encoding") != "" || got.header.Get("Content-Length") != itoa(len(got.body))) {
			t.Errorf("packed as %q, headers = %v, want those of the edited answer", tt.encoding, got.header)
		}
	}

	// What holds no configuration stays as it came.
	agent := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		w.Header().Set("ETag", "x")
		_, _ = io.WriteString(w, zipped("<html>"))
	})
	got := newRelaying(t, agentAt("worker", agent.URL)).post(t, call)
	if got.body != zipped("<html>") || got.header.Get("Content-Encoding") != "gzip" || got.header.Get("ETag") != "x" {
		t.Errorf("an error page = %q, %v; want it as it came", got.body, got.header)
	}
}

// The same by gRPC, which packs messages one by one.
func TestPushConfigurationsThatArePackedByGRPC(t *testing.T) {
	t.Parallel()
	const original = "http://127.0.0.1:9/hook?secret=x"
	config, err := proto.Marshal(&a2apb.TaskPushNotificationConfig{TaskId: "t1", Id: "cfg", Url: original})
	if err != nil {
		t.Fatal(err)
	}
	for _, packed := range []bool{false, true} {
		agent := h2c(t, answersGRPC(nil, packed))
		a := agentAt("worker", agent.URL)
		a.GRPCURL = a.URL
		r := newRelaying(t, a)
		answer := callGRPC(t, "http://"+r.listenGRPC(t)+"/lf.a2a.v1.A2AService/CreateTaskPushNotificationConfig", config)
		var got a2apb.TaskPushNotificationConfig
		if err := proto.Unmarshal([]byte(answer.body), &got); err != nil || got.GetUrl() != original || answer.header.Get("Grpc-Status") != "0" {
			t.Errorf("packed %t, the caller sees %v, %v, %v; want its own URL", packed, &got, answer.header, err)
		}
	}
}
