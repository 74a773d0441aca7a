// Package wire reads and edits A2A messages as bytes.
//
// It knows A2A 0.3 and 1.0 in their three bindings: the envelope of JSON-RPC,
// the paths and bodies of HTTP+JSON, the protobuf messages of gRPC. In them it
// knows the members that name a context, a task, a message or a push
// notification URL, the objects an agent answers with, and the URLs of an agent
// card. A body is never decoded into a Go value and encoded again, which would
// lose unknown members, big numbers and key order. It is scanned once, and the
// few bytes that must change are spliced:
//
//	request  ──Read, ReadREST, ReadProto──────────────▶ Request ──Edited────▶ request'
//	response ──ReadResponse, ReadResult, ReadProto…───▶ Update ──ReadParts──▶ what a record keeps
//	card     ──RewriteCard────────────────────────────▶ card'
//	push     ──RewritePush────────────────────────────▶ push'
//
// Requests are read strictly, because a body with two readings would let its
// sender show the sidecar one id and the agent another: duplicate keys, an
// alias beside its canonical key, keys that differ from one of ours only in
// case, and bytes after the value are refused. Responses are read tolerantly:
// they are only observed, so whatever is not understood is UpdateOther.
//
// The package opens no connection and knows no headers, no SSE framing and no
// gRPC framing.
//
// Byte slices in results alias the input. The input must not be changed while
// they are in use, and they must be copied to outlive it.
package wire

import "strings"

// Version is a version of the A2A protocol. JSON-RPC tells it by the spelling
// of the method: message/send is 0.3, SendMessage is 1.0. Its zero value is
// V03, which is also what A2A 1.0 §3.6 prescribes where no version is stated.
type Version uint8

// The versions that differ on the wire.
const (
	V03 Version = iota
	V10
)

// String returns the version as the A2A-Version header spells it.
func (v Version) String() string {
	if v == V10 {
		return "1.0"
	}
	return "0.3"
}

// Binding is how calls are put on HTTP (1.0 §9 to §11).
type Binding uint8

// The bindings.
const (
	JSONRPC Binding = iota
	REST            // HTTP+JSON
	GRPC
)

// String returns the binding as agent cards spell it.
func (b Binding) String() string {
	switch b {
	case REST:
		return "HTTP+JSON"
	case GRPC:
		return "GRPC"
	default:
		return "JSONRPC"
	}
}

// Op is what a request asks for, whatever the version and the binding.
type Op uint8

// The operations of A2A (1.0 §5.3). OpOther is every method that is not one of
// them: it passes through.
const (
	OpOther Op = iota
	OpSend
	OpStream
	OpGet
	OpList
	OpCancel
	OpSubscribe
	OpPushSet
	OpPushGet
	OpPushList
	OpPushDelete
	OpCard
)

var opNames = [...]string{
	OpOther:      "other",
	OpSend:       "send",
	OpStream:     "stream",
	OpGet:        "get",
	OpList:       "list",
	OpCancel:     "cancel",
	OpSubscribe:  "subscribe",
	OpPushSet:    "push_set",
	OpPushGet:    "push_get",
	OpPushList:   "push_list",
	OpPushDelete: "push_delete",
	OpCard:       "card",
}

// String returns a short name, fit for a metric label: the set is closed.
func (o Op) String() string {
	if int(o) < len(opNames) {
		return opNames[o]
	}
	return opNames[OpOther]
}

// Streaming reports whether the answer is a stream of events. Its errors must
// then be events too: a JSON body in their place is read as an empty stream by
// some clients.
func (o Op) Streaming() bool { return o == OpStream || o == OpSubscribe }

// Sends reports whether the operation delivers a message to the agent.
func (o Op) Sends() bool { return o == OpSend || o == OpStream }

// method is what a JSON-RPC method name says. Name is the interned spelling.
type method struct {
	name    string
	version Version
	op      Op
}

// methods maps every JSON-RPC method name of both versions (0.3 §3.5.6,
// 1.0 §9.4) to what it says.
var methods = func() map[string]method {
	known := make(map[string]method)
	for _, m := range []method{
		{"message/send", V03, OpSend},
		{"message/stream", V03, OpStream},
		{"tasks/get", V03, OpGet},
		{"tasks/list", V03, OpList}, // gRPC and REST only in 0.3, but agents answer it
		{"tasks/cancel", V03, OpCancel},
		{"tasks/resubscribe", V03, OpSubscribe},
		{"tasks/pushNotificationConfig/set", V03, OpPushSet},
		{"tasks/pushNotificationConfig/get", V03, OpPushGet},
		{"tasks/pushNotificationConfig/list", V03, OpPushList},
		{"tasks/pushNotificationConfig/delete", V03, OpPushDelete},
		{"agent/getAuthenticatedExtendedCard", V03, OpCard},

		{"SendMessage", V10, OpSend},
		{"SendStreamingMessage", V10, OpStream},
		{"GetTask", V10, OpGet},
		{"ListTasks", V10, OpList},
		{"CancelTask", V10, OpCancel},
		{"SubscribeToTask", V10, OpSubscribe},
		{"CreateTaskPushNotificationConfig", V10, OpPushSet},
		{"GetTaskPushNotificationConfig", V10, OpPushGet},
		{"ListTaskPushNotificationConfigs", V10, OpPushList},
		{"DeleteTaskPushNotificationConfig", V10, OpPushDelete},
		{"GetExtendedAgentCard", V10, OpCard},
	} {
		known[m.name] = m
	}
	return known
}()

// methodOf looks up a method by its decoded name. An unknown one keeps its
// name; its version is guessed from the spelling.
func methodOf(name []byte) method {
	if m, ok := methods[string(name)]; ok {
		return m
	}
	m := method{name: string(name)}
	if m.name != "" && m.name[0] >= 'A' && m.name[0] <= 'Z' && !strings.Contains(m.name, "/") {
		m.version = V10
	}
	return m
}
