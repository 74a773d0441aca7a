package compare

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/a2a-sidecar/a2a-sidecar/interop/internal/tap"
)

// message is what a send says of where it belongs.
type message struct {
	context, task string
	spelled       string // name of the member that holds the context, in JSON
	raw           []byte // JSON value of the context; nil: no such member
}

// messageOf reads the message of a send, in any binding. It reports false for
// any other request.
func messageOf(e tap.Exchange) (message, bool) {
	if isGRPC(e) {
		path, ok := grpcSends[e.Target]
		if !ok {
			return message{}, false
		}
		m, _, ok := splitProto(e.Request.Body, path)
		return m, ok
	}
	// The params of JSON-RPC, or the bare ones of HTTP+JSON. The 0.3 schema of
	// the latter says "request" for the message in one place.
	var body struct {
		Method  string
		Params  struct{ Message map[string]json.RawMessage }
		Message map[string]json.RawMessage
		Request map[string]json.RawMessage
	}
	if json.Unmarshal(e.Request.Body, &body) != nil {
		return message{}, false
	}
	members := body.Params.Message
	if body.Method == "" {
		if members = body.Message; members == nil {
			members = body.Request
		}
	}
	if members == nil {
		return message{}, false
	}
	var m message
	for _, name := range []string{"contextId", "context_id"} {
		if raw, ok := members[name]; ok {
			m.spelled, m.raw = name, raw
			_ = json.Unmarshal(raw, &m.context) // null and what is no string say nothing
		}
	}
	for _, name := range []string{"taskId", "task_id"} {
		if raw, ok := members[name]; ok {
			_ = json.Unmarshal(raw, &m.task)
		}
	}
	return m, true
}

// sameButContext reports whether the request of f is that of n but for the
// bytes of the context id in it: undoing the edit gives back what was sent.
func sameButContext(n, f tap.Exchange) bool {
	sent, ok := messageOf(n)
	got, okToo := messageOf(f)
	if !ok || !okToo {
		return false
	}
	if isGRPC(n) {
		path := grpcSends[n.Target]
		_, a, ok := splitProto(n.Request.Body, path)
		_, b, okToo := splitProto(f.Request.Body, path)
		return ok && okToo && bytes.Equal(a, b)
	}
	if got.raw == nil {
		return bytes.Equal(n.Request.Body, f.Request.Body)
	}
	if sent.raw != nil {
		// A fresh id stands nowhere else, so all of them are this one.
		return bytes.Equal(bytes.ReplaceAll(f.Request.Body, got.raw, sent.raw), n.Request.Body)
	}
	member := `"` + got.spelled + `":` + string(got.raw)
	for _, inserted := range []string{"," + member, member + ",", member} {
		if bytes.Equal(bytes.Replace(f.Request.Body, []byte(inserted), nil, 1), n.Request.Body) {
			return true
		}
	}
	return false
}

// grpcSends are the gRPC methods that send a message, with the number of the
// field of their request that holds it.
var grpcSends = map[string]protowire.Number{
	"/lf.a2a.v1.A2AService/SendMessage":          2,
	"/lf.a2a.v1.A2AService/SendStreamingMessage": 2,
	"/a2a.v1.A2AService/SendMessage":             1,
	"/a2a.v1.A2AService/SendStreamingMessage":    1,
}

// Fields of Message, the same in both versions.
const (
	fieldContext protowire.Number = 2
	fieldTask    protowire.Number = 3
)

func isGRPC(e tap.Exchange) bool {
	return strings.HasPrefix(e.Request.Header.Get("Content-Type"), "application/grpc")
}

// splitProto reads the one gRPC message of a send, and returns what it says
// and all of it without the context id: the fields before, within and after the
// message, each as it stands.
func splitProto(body []byte, field protowire.Number) (m message, rest []byte, ok bool) {
	const prefix = 5 // of a gRPC message: compressed or not, and its length
	if len(body) < prefix || body[0] != 0 || int(binary.BigEndian.Uint32(body[1:])) != len(body)-prefix {
		return message{}, nil, false
	}
	ok = eachField(body[prefix:], func(num protowire.Number, raw, value []byte) bool {
		if num != field {
			rest = append(rest, raw...)
			return true
		}
		return eachField(value, func(num protowire.Number, raw, value []byte) bool {
			if num == fieldContext {
				m.context = string(value)
				return true
			}
			if num == fieldTask {
				m.task = string(value)
			}
			rest = append(rest, raw...)
			return true
		})
	})
	return m, rest, ok
}

// eachField calls f for each field of a protobuf message, with its bytes and,
// if it has a length, its value.
func eachField(b []byte, f func(num protowire.Number, raw, value []byte) bool) bool {
	for len(b) > 0 {
		num, kind, tag := protowire.ConsumeTag(b)
		if tag < 0 {
			return false
		}
		n := protowire.ConsumeFieldValue(num, kind, b[tag:])
		if n < 0 {
			return false
		}
		raw, value := b[:tag+n], []byte(nil)
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(b[tag:])
		}
		if !f(num, raw, value) {
			return false
		}
		b = b[tag+n:]
	}
	return true
}
