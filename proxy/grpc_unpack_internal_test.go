package proxy

import (
	"errors"
	"net/http"
	"runtime"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"github.com/a2a-sidecar/a2a-sidecar/internal/grpcframe"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

const sendPath = "/lf.a2a.v1.A2AService/SendMessage"

func marshal(t *testing.T, m proto.Message) []byte {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// packedFrame is a frame whose message is compressed.
func packedFrame(packed []byte) []byte {
	frame := grpcframe.Append(nil, packed)
	frame[0] = 1
	return frame
}

func saying(text string) *a2apb.Message {
	return &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: text}}}}
}

// The limit of a request holds for what is in it, to the byte.
func TestGRPCReadKeepsTheLimit(t *testing.T) {
	t.Parallel()
	const limit = 64 << 10
	empty := len(marshal(t, &a2apb.SendMessageRequest{Message: saying(strings.Repeat("x", limit/2))})) - limit/2
	for _, tt := range []struct {
		name     string
		binding  grpcBinding
		size     int // of the message
		encoding string
		tooLarge bool
	}{
		{"within", grpcBinding{maxBody: limit}, limit, "gzip", false},
		{"a byte more", grpcBinding{maxBody: limit}, limit + 1, "gzip", true},
		{"a byte more, deflated", grpcBinding{maxBody: limit}, limit + 1, "deflate", true},
		{"a lot more", grpcBinding{maxBody: limit}, 10 << 20, "gzip", true},
		{"within the usual", grpcBinding{}, 10 << 20, "gzip", false},
		{"more than the usual", grpcBinding{}, 10<<20 + 1, "gzip", true},
	} {
		text := strings.Repeat("x", limit/2)
		message := marshal(t, &a2apb.SendMessageRequest{Message: saying(text)})
		if fill := tt.size - empty; fill > 0 {
			message = marshal(t, &a2apb.SendMessageRequest{Message: saying(strings.Repeat("x", fill))})
			for len(message) > tt.size { // longer lengths take more bytes
				fill -= len(message) - tt.size
				message = marshal(t, &a2apb.SendMessageRequest{Message: saying(strings.Repeat("x", fill))})
			}
		}
		if len(message) != tt.size {
			t.Fatalf("%s: message has %d bytes, want %d", tt.name, len(message), tt.size)
		}
		r := &http.Request{Header: http.Header{grpcEncoding: {tt.encoding}}}
		req, err := tt.binding.read(r, sendPath, packedFrame(pack(t, tt.encoding, string(message))))
		if errors.Is(err, errTooLarge) != tt.tooLarge || (err == nil) == tt.tooLarge {
			t.Errorf("%s: read() = %+v, %v, want too large: %v", tt.name, req, err, tt.tooLarge)
		}
	}
}

// What cannot be unpacked is the caller's fault, and told as such.
func TestGRPCReadRefusesWhatIsNotPacked(t *testing.T) {
	t.Parallel()
	message := marshal(t, &a2apb.SendMessageRequest{Message: saying("x")})
	for _, encoding := range []string{"", "identity", "br", "gzip", "deflate"} {
		r := &http.Request{Header: http.Header{grpcEncoding: {encoding}}}
		req, err := grpcBinding{}.read(r, sendPath, packedFrame(message))
		bad, ok := errors.AsType[*wire.Error](err)
		if !ok || bad.Code != wire.CodeInvalid || bad.Op != wire.OpSend || bad.Version != wire.V10 {
			t.Errorf("read() with grpc-encoding %q = %+v, %v, want an *Error about a send", encoding, req, err)
		}
	}
}

// Few bytes of an answer may stand for many. It is not parallel, so that all
// that is allocated is its own.
func TestGRPCReadingIsBounded(t *testing.T) { //nolint:paralleltest // counts allocations
	text := func(s string) []byte {
		return marshal(t, &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{Message: saying(s)}})
	}
	huge, escapes := text(strings.Repeat("\x01", 60<<20)), text(strings.Repeat("\x01", 15<<20))
	good := pack(t, "gzip", string(text("hi")))
	corrupt := append([]byte(nil), good...)
	corrupt[len(corrupt)-5] ^= 0xff
	for _, tt := range []struct {
		name string
		body []byte
		want sessions.Outcome
		seen int
	}{
		{"packed", packedFrame(good), sessions.Answered, 1},
		{"60 MB in a few KB", packedFrame(pack(t, "gzip", string(huge))), sessions.Unread, 0},
		{"15 MB of escapes", grpcframe.Append(nil, escapes), sessions.Unread, 0},
		{"packed escapes", packedFrame(pack(t, "gzip", string(escapes))), sessions.Unread, 0},
		{"15 MB of text", grpcframe.Append(nil, text(strings.Repeat("x", 15<<20))), sessions.Answered, 1},
		{"a good one after one that is not read", append(grpcframe.Append(nil, escapes), packedFrame(good)...), sessions.Unread, 1},
		{"not packed", packedFrame(text("hi")), sessions.Unread, 0},
		{"cut", packedFrame(good[:len(good)-9]), sessions.Malformed, 0},
		{"corrupt", packedFrame(corrupt), sessions.Malformed, 0},
		{"packed nonsense", packedFrame(pack(t, "gzip", "\xff\xff")), sessions.Malformed, 0},
	} {
		resp := &http.Response{Header: http.Header{grpcEncoding: {"gzip"}}, Trailer: http.Header{grpcStatus: {"0"}}}
		var w ended
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		r := newGRPCReading(&wire.Request{Version: wire.V10, Op: wire.OpSend}, resp)
		r.take(tt.body, &w)
		outcome := r.end(&w)
		runtime.ReadMemStats(&after)
		if outcome != tt.want || len(w.saw) != tt.seen {
			t.Errorf("%s: %d updates and %v, want %d and %v", tt.name, len(w.saw), outcome, tt.seen, tt.want)
		}
		// A buffer that grows is allocated several times over.
		if got := after.TotalAlloc - before.TotalAlloc; got > 8*maxSeen {
			t.Errorf("%s: reading %d bytes allocates %d, want no more than 8 times %d", tt.name, len(tt.body), got, maxSeen)
		}
	}
}
