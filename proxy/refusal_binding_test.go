package proxy_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/a2a-sidecar/a2a-sidecar/proxy"
)

// Refusals in HTTP+JSON: a status of their own, for streams too.
func TestRefusalsByREST(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			w, headers := refused(t, c, func(*proxy.Agent) {})
			code, name := http.StatusBadRequest, "FAILED_PRECONDITION"
			var retryAfter []string
			if c.quota != "" {
				code, name, retryAfter = http.StatusTooManyRequests, "RESOURCE_EXHAUSTED", []string{"1"}
			}
			want := `{"error":{"code":` + itoa(code) + `,"details":` + c.details() + `,"message":"` + c.message + `","status":"` + name + `"}}`
			for _, path := range []string{"/message:send", "/message:stream", "/v1/message:send", "/acme/message:send"} {
				got := w.do(t, http.MethodPost, "/agents/worker"+path, rest10("r-"+path[:2], ""), append([]string{"Content-Type", "application/json"}, headers...)...)
				if got.status != code || got.header.Get("Content-Type") != "application/json" {
					t.Errorf("answer = %d %s, want %d application/json", got.status, got.header.Get("Content-Type"), code)
				}
				if diff := cmp.Diff(retryAfter, got.header["Retry-After"]); diff != "" {
					t.Errorf("Retry-After (-want +got):\n%s", diff)
				}
				if diff := cmp.Diff(want, got.body); diff != "" {
					t.Errorf("body (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// rest10 is the body of a send in the HTTP+JSON binding of 1.0.
func rest10(messageID, members string) string {
	return `{"message":{"messageId":"` + messageID + `","role":"ROLE_USER","parts":[{"text":"hi"}]` + members + `}}`
}

// dialGRPC makes a bare client of the sidecar's gRPC port for worker.
func (w *world) dialGRPC(t *testing.T) a2apb.A2AServiceClient {
	t.Helper()
	conn, err := grpc.NewClient(w.listenGRPC(t), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	return a2apb.NewA2AServiceClient(conn)
}

func proto10(messageID string) *a2apb.SendMessageRequest {
	return &a2apb.SendMessageRequest{Message: &a2apb.Message{
		MessageId: messageID, Role: a2apb.Role_ROLE_USER,
		Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "hi"}}},
	}}
}

// Refusals in gRPC: a status with details, for streams too.
func TestRefusalsByGRPC(t *testing.T) {
	t.Parallel()
	for _, c := range refusals {
		t.Run(c.reason, func(t *testing.T) {
			t.Parallel()
			w, headers := refused(t, c, func(a *proxy.Agent) { a.GRPCURL = a.URL })
			ctx := metadata.AppendToOutgoingContext(t.Context(), headers...)
			client := w.dialGRPC(t)
			code := codes.FailedPrecondition
			if c.quota != "" {
				code = codes.ResourceExhausted
			}
			_, unary := client.SendMessage(ctx, proto10("g1"))
			stream, err := client.SendStreamingMessage(ctx, proto10("g2"))
			if err != nil {
				t.Fatal(err)
			}
			_, streamed := stream.Recv()
			for _, err := range []error{unary, streamed} {
				s := status.Convert(err)
				if s.Code() != code || s.Message() != c.message {
					t.Errorf("status = %v %q, want %v %q", s.Code(), s.Message(), code, c.message)
				}
				var kinds []string
				for _, d := range s.Details() {
					switch d := d.(type) {
					case *errdetails.ErrorInfo:
						kinds = append(kinds, "info "+d.GetReason()+" "+d.GetDomain())
					case *errdetails.RetryInfo:
						kinds = append(kinds, "retry "+d.GetRetryDelay().AsDuration().String())
					case *errdetails.QuotaFailure:
						kinds = append(kinds, "quota "+d.GetViolations()[0].GetSubject())
					}
				}
				want := []string{"info " + c.reason + " a2a-sidecar"}
				if c.quota != "" {
					want = append(want, "retry 1s", "quota "+c.quota)
				}
				if diff := cmp.Diff(want, kinds); diff != "" {
					t.Errorf("details (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// What cannot be read or reached is an error of gRPC, too.
func TestFaultsByGRPC(t *testing.T) {
	t.Parallel()
	agent := newFake(t, says(message10))
	nobody, err := url.Parse(nowhere(t))
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		change func(*proxy.Agent)
		send   *a2apb.SendMessageRequest
		code   codes.Code
		says   string
	}{
		{"no message id", func(a *proxy.Agent) { a.GRPCURL = a.URL }, &a2apb.SendMessageRequest{Message: &a2apb.Message{}}, codes.InvalidArgument, "message_id"},
		{"agent is down", func(a *proxy.Agent) { a.GRPCURL = nobody }, proto10("m1"), codes.Unavailable, "agent worker cannot be reached; retry later"},
		{"no gRPC interface", func(*proxy.Agent) {}, proto10("m1"), codes.Unavailable, "agent worker cannot be reached by gRPC"},
		{"too large", func(a *proxy.Agent) { a.GRPCURL = a.URL }, proto10(strings.Repeat("m", maxBody)), codes.ResourceExhausted, "maxBody"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := agentAt("worker", agent.URL)
			tt.change(&a)
			w := newWorld(t, a)
			_, err := w.dialGRPC(t).SendMessage(t.Context(), tt.send)
			if s := status.Convert(err); s.Code() != tt.code || !strings.Contains(s.Message(), tt.says) {
				t.Errorf("SendMessage = %v, want %v that says %q", err, tt.code, tt.says)
			}
		})
	}
}
