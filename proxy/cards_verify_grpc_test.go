package proxy_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
)

// h2c starts a server that speaks HTTP/2 without TLS.
func h2c(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.Protocols = new(http.Protocols)
	s.Config.Protocols.SetUnencryptedHTTP2(true)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// protoCard is a card of 1.0 as an answer in gRPC.
func protoCard(t *testing.T, card string) []byte {
	t.Helper()
	var m a2apb.AgentCard
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal([]byte(card), &m); err != nil {
		t.Fatal(err)
	}
	b, err := proto.Marshal(&m)
	if err != nil {
		t.Fatal(err)
	}
	return grpcframe.Append(nil, b)
}

// The extended card by gRPC is signed like any other.
func TestSignedCardsByGRPC(t *testing.T) {
	t.Parallel()
	good := signedCard(t, "py-1.3.0-es256")
	for _, tt := range []struct {
		name   string
		answer []byte
		status string // gRPC's
		want   string // in its message
	}{
		{"verified", protoCard(t, good), "0", ""},
		{"changed", protoCard(t, strings.Replace(good, "1.2.3", "1.2.4", 1)), "13", "the card of agent worker has no valid signature"},
		{"unsigned", protoCard(t, `{"name":"x"}`), "13", "the card of agent worker is not signed"},
		{"no card", grpcframe.Append(nil, []byte{0xff}), "13", "the card of agent worker cannot be read"},
		{"an error", nil, "5", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := h2c(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/grpc")
				w.Header().Set("Trailer", "Grpc-Status")
				_, _ = w.Write(tt.answer)
				if tt.answer == nil {
					w.Header().Set("Grpc-Status", "5")
				} else {
					w.Header().Set("Grpc-Status", "0")
				}
			}))
			a := trusting(t, agent.URL, "es256.pem")
			a.GRPCURL = a.URL
			w := newWorld(t, a)
			side := h2c(t, w.proxy.GRPC("worker", "127.0.0.1:50999", w.Listener.Addr().String()))
			answer := extendedByGRPC(t, side.URL)
			status, message := answer.header.Get("Grpc-Status"), answer.header.Get("Grpc-Message")
			if status != tt.status || !strings.Contains(message, tt.want) {
				t.Fatalf("status = %s %q, want %s %q", status, message, tt.status, tt.want)
			}
			if tt.name != "verified" {
				if answer.body != "" {
					t.Errorf("body = %q, want none", answer.body)
				}
				return
			}
			var got a2apb.AgentCard
			if err := proto.Unmarshal([]byte(answer.body), &got); err != nil {
				t.Fatal(err)
			}
			if len(got.GetSignatures()) != 0 || len(got.GetSupportedInterfaces()) != 2 || got.GetSupportedInterfaces()[1].GetUrl() != "127.0.0.1:50999" {
				t.Errorf("card = %v, want it rewritten and without signatures", &got)
			}
		})
	}
}
