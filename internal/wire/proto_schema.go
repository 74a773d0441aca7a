package wire

import "google.golang.org/protobuf/encoding/protowire"

// jsonKind is how a protobuf field is written as JSON.
type jsonKind uint8

const (
	asString jsonKind = iota
	asBase64
	asFileBytes // as in 0.3: see protoJSON.fileBytes
	asNumber    // an enum, or another int32
	asBool
	asMessage
	asTimestamp // google.protobuf.Timestamp
	asStruct    // google.protobuf.Struct
	asValue     // google.protobuf.Value
	asInner     // a message around one Struct, which is written in its place
)

// wireType is the type that a field of that kind has.
func (k jsonKind) wireType() protowire.Type {
	if k == asNumber || k == asBool {
		return protowire.VarintType
	}
	return protowire.BytesType
}

// merges reports that a field of that kind which occurs again adds to what was
// there: the encodings of a message, one after the other, are its merger.
func (k jsonKind) merges() bool {
	return k == asMessage || k == asTimestamp || k == asStruct || k == asInner
}

// protoSchema says which fields of a message are written as JSON, and how. All
// others are left out: they are of no use to a record, and the history of a
// task, for one, is long.
type protoSchema []protoMember

// protoMember is a field of a schema.
type protoMember struct {
	num  protowire.Number
	name string
	kind jsonKind
	of   protoSchema // of asMessage
	many bool        // becomes an array; there is but one such field to a message
	// oneof is set on the fields of which only the last one counts.
	oneof bool
}

// maxMembers is the most fields that a schema has.
const maxMembers = 8

// protoDialect is what a version answers with.
type protoDialect struct {
	message protoSchema
	stream  protoSchema
	unary   protoSchema // SendMessageResponse, which is the first half of that
	task    protoSchema
	tasks   protoMember // of ListTasksResponse
}

var (
	dialectV03 = newDialect(partV03, protoSchema{
		{num: 1, name: "artifactId"},
		{num: 3, name: "name"},
		{num: 5, name: "parts", kind: asMessage, of: partV03, many: true},
	}, protoSchema{
		{num: 5, name: "metadata", kind: asStruct},
	})
	dialectV10 = newDialect(partV10, protoSchema{
		{num: 1, name: "artifactId"},
		{num: 2, name: "name"},
		{num: 4, name: "parts", kind: asMessage, of: partV10, many: true},
	}, protoSchema{
		{num: 4, name: "metadata", kind: asStruct},
	})
)

// dialect returns that of a version.
func (v Version) dialect() *protoDialect {
	if v == V10 {
		return &dialectV10
	}
	return &dialectV03
}

var partV10 = protoSchema{
	{num: 1, name: "text", oneof: true},
	{num: 2, name: "raw", kind: asBase64, oneof: true},
	{num: 3, name: "url", oneof: true},
	{num: 4, name: "data", kind: asValue, oneof: true},
	{num: 5, name: "metadata", kind: asStruct},
	{num: 6, name: "filename"},
	{num: 7, name: "mediaType"},
}

var partV03 = protoSchema{
	{num: 1, name: "text", oneof: true},
	{num: 2, name: "file", kind: asMessage, oneof: true, of: protoSchema{
		{num: 1, name: "fileWithUri", oneof: true},
		{num: 2, name: "fileWithBytes", kind: asFileBytes, oneof: true},
		{num: 3, name: "mimeType"},
		{num: 4, name: "name"},
	}},
	{num: 3, name: "data", kind: asInner, oneof: true},
	{num: 4, name: "metadata", kind: asStruct},
}

// newDialect makes a dialect of the messages that the versions do not share. Of
// a status update, those are the fields after its status.
func newDialect(part, artifact, statusUpdate protoSchema) protoDialect {
	message := protoSchema{
		{num: 1, name: "messageId"},
		{num: 2, name: "contextId"},
		{num: 3, name: "taskId"},
		{num: messageParts, name: "parts", kind: asMessage, of: part, many: true},
		{num: 6, name: "metadata", kind: asStruct},
	}
	status := protoSchema{
		{num: 1, name: "state", kind: asNumber},
		{num: 2, name: "message", kind: asMessage, of: message},
		{num: 3, name: "timestamp", kind: asTimestamp},
	}
	task := protoSchema{
		{num: 1, name: "id"},
		{num: 2, name: "contextId"},
		{num: 3, name: "status", kind: asMessage, of: status},
		{num: 4, name: "artifacts", kind: asMessage, of: artifact, many: true},
		{num: 6, name: "metadata", kind: asStruct},
	}
	ids := protoSchema{
		{num: 1, name: "taskId"},
		{num: 2, name: "contextId"},
	}
	statusUpdate = append(append(ids[:2:2], protoMember{num: 3, name: "status", kind: asMessage, of: status}), statusUpdate...)
	artifactUpdate := append(ids[:2:2], protoSchema{
		{num: 3, name: "artifact", kind: asMessage, of: artifact},
		{num: 4, name: "append", kind: asBool},
		{num: 5, name: "lastChunk", kind: asBool},
		{num: 6, name: "metadata", kind: asStruct},
	}...)
	stream := protoSchema{
		{num: 1, name: "task", kind: asMessage, of: task, oneof: true},
		{num: 2, name: "message", kind: asMessage, of: message, oneof: true},
		{num: 3, name: "statusUpdate", kind: asMessage, of: statusUpdate, oneof: true},
		{num: 4, name: "artifactUpdate", kind: asMessage, of: artifactUpdate, oneof: true},
	}
	return protoDialect{
		message: message,
		stream:  stream,
		unary:   stream[:2],
		task:    task,
		tasks:   protoMember{num: 1, kind: asMessage, of: task, many: true},
	}
}
