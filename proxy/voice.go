package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strings"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

// voice is how a caller spoke to an agent: what it takes to call that agent again
// in the caller's name. It is a [sessions.Call.As]. It holds the caller's
// credentials, so it lives in memory and nowhere else, and shows nothing of
// itself when it is printed.
type voice struct {
	binding wire.Binding
	version wire.Version
	base    string      // escaped path below the agent under which its interface is
	query   string      // raw: some agents take their keys there
	tenant  string      // that the message named; HTTP+JSON has it in base
	header  http.Header // of the caller's request; it belongs to that
}

// Format implements [fmt.Formatter].
func (*voice) Format(s fmt.State, _ rune) { _, _ = io.WriteString(s, "(as a caller)") }

// voice returns how the caller of a send speaks to its agent.
func (x *exchange) voice() *voice {
	r := x.request
	v := &voice{binding: r.Binding, version: r.Version, query: x.in.URL.RawQuery, header: x.in.Header}
	switch r.Binding {
	case wire.JSONRPC:
		v.base = x.rest
	case wire.REST:
		// The call is the last segment; before it stand the base and the tenant.
		path := strings.TrimRight(x.rest, "/")
		v.base = path[:max(0, strings.LastIndexByte(path, '/'))]
		return v
	case wire.GRPC: // its methods are paths by themselves
	}
	if r.Version == wire.V10 {
		v.tenant = tenantOf(r)
	}
	return v
}

// tenantOf returns the tenant that a send of JSON-RPC or gRPC in 1.0 names.
func tenantOf(r *wire.Request) string {
	body := r.Edited(wire.Edit{})
	if r.Binding == wire.GRPC {
		return protoTenant(body)
	}
	if !bytes.Contains(body, []byte(`"tenant"`)) {
		return "" // as a rule: no need to read all of it once more
	}
	var call struct {
		Params struct {
			Tenant string `json:"tenant"`
		} `json:"params"`
	}
	if json.Unmarshal(body, &call) != nil {
		return "" // a tenant that is no string is none
	}
	return call.Params.Tenant
}

// sendTenant is the number of SendMessageRequest.tenant in lf.a2a.v1.
const sendTenant = 1

// protoTenant reads the tenant of an lf.a2a.v1.SendMessageRequest.
func protoTenant(message []byte) (tenant string) {
	for len(message) > 0 {
		number, kind, n := protowire.ConsumeTag(message)
		if n < 0 {
			return ""
		}
		message = message[n:]
		if number == sendTenant && kind == protowire.BytesType {
			value, n := protowire.ConsumeBytes(message)
			if n < 0 {
				return ""
			}
			tenant, message = string(value), message[n:]
			continue
		}
		if n = protowire.ConsumeFieldValue(number, kind, message); n < 0 {
			return ""
		}
		message = message[n:]
	}
	return tenant
}

// passing are headers that are about one message or one answer, or about the
// trace that a message belongs to, whichever propagator carries that. A call made
// later in the same name has its own. (Headers of one connection, the sidecar's
// own and those of the lineage are left out as everywhere.)
var passing = map[string]bool{
	"Accept": true, "Accept-Encoding": true, "Date": true, "Dpop": true, "Expect": true, "Host": true,
	"Idempotency-Key": true, "X-Idempotency-Key": true, "X-Request-Id": true, "Last-Event-Id": true, "Range": true,
	"User-Agent": true,
	// Over the bytes of the message.
	"Digest": true, "Repr-Digest": true, "Signature": true, "Signature-Input": true,
	// Traces.
	"Traceparent": true, "Tracestate": true, "Baggage": true, "B3": true, "Uber-Trace-Id": true,
	"X-Amzn-Trace-Id": true, "X-Cloud-Trace-Context": true,
}

// passingPrefixes begin the names of more of them.
var passingPrefixes = [...]string{"Content-", "Grpc-", "If-", "X-B3-"}

func isPassing(name string) bool {
	if passing[name] {
		return true
	}
	for _, prefix := range passingPrefixes {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// speaks makes a request of the sidecar's own one in the caller's name: with its
// credentials, whatever headers these stand in.
func (v *voice) speaks(p *Proxy, r *http.Request) {
	h := v.header.Clone()
	dropHopByHop(h)
	dropOwn(h)
	h.Del(p.names.Root)
	h.Del(p.names.Parent)
	for _, name := range p.tel.propagator.Fields() {
		h.Del(name)
	}
	maps.DeleteFunc(h, func(name string, _ []string) bool { return isPassing(name) })
	maps.Copy(r.Header, h)
	if v.binding != wire.GRPC {
		r.URL.RawQuery = strings.Trim(v.query+"&"+r.URL.RawQuery, "&")
	}
}
