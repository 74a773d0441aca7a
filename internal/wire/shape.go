package wire

import (
	"bytes"
	"fmt"
)

// field is a member of a request that the sidecar reads, named by its place.
type field uint8

const (
	fieldVersion field = iota // jsonrpc
	fieldID
	fieldMethod
	fieldParams

	fieldMessage // params.message
	fieldParamsID
	fieldParamsTask
	fieldParamsContext
	fieldConfiguration
	fieldParamsMetadata

	fieldMessageID // params.message.messageId
	fieldMessageContext
	fieldMessageTask
	fieldMessageMetadata
	fieldMessageParts

	fieldADKSession // params.message.metadata.adk_session_id

	fieldCount
)

// shape is an object whose members are read.
type shape struct {
	place string // as errors name it; "" for the envelope
	keys  []key
	// free is set where the keys are the user's own, so that one which differs
	// from ours in case is no fault.
	free bool
}

// key is a key of a shape. The alias is the snake_case spelling that ProtoJSON
// peers and pydantic ones accept beside the canonical one.
type key struct {
	name, alias string
	field       field
	object      *shape // how its value is read on if it is an object; nil: not at all
}

var envelopeShape = shape{keys: []key{
	{name: "jsonrpc", field: fieldVersion},
	{name: "id", field: fieldID},
	{name: "method", field: fieldMethod},
	{name: "params", field: fieldParams, object: &paramsShape},
}}

var paramsShape = shape{place: "params", keys: []key{
	{name: "message", field: fieldMessage, object: &messageShape},
	{name: "id", field: fieldParamsID},
	{name: "taskId", alias: "task_id", field: fieldParamsTask},
	{name: "contextId", alias: "context_id", field: fieldParamsContext},
	{name: "configuration", field: fieldConfiguration},
	{name: "metadata", field: fieldParamsMetadata},
}}

var messageShape = shape{place: "params.message", keys: []key{
	{name: "messageId", alias: "message_id", field: fieldMessageID},
	{name: "contextId", alias: "context_id", field: fieldMessageContext},
	{name: "taskId", alias: "task_id", field: fieldMessageTask},
	{name: "metadata", field: fieldMessageMetadata, object: &metadataShape},
	{name: "parts", field: fieldMessageParts},
}}

var metadataShape = shape{place: "params.message.metadata", free: true, keys: []key{
	{name: "adk_session_id", field: fieldADKSession},
}}

// find returns the key that name spells, or nil. It also returns nil, and
// near, for a name that only a case-insensitive peer takes for that key: Go's
// encoding/json does, and lets the last one win, folding as Unicode does (so
// that "taſkId" is taskId).
func (s *shape) find(name []byte) (found, near *key) {
	for i := range s.keys {
		if k := &s.keys[i]; string(name) == k.name || string(name) == k.alias && k.alias != "" {
			return k, nil
		}
	}
	if s.free {
		return nil, nil
	}
	for i := range s.keys {
		if k := &s.keys[i]; foldsTo(name, k.name) || k.alias != "" && foldsTo(name, k.alias) {
			return nil, k
		}
	}
	return nil, nil
}

// foldsTo is bytes.EqualFold, fast where the first byte already tells.
func foldsTo(name []byte, key string) bool {
	if len(name) < len(key) {
		return false // folding to ASCII never makes a name longer
	}
	if c := name[0]; c < 0x80 && c|0x20 != key[0]|0x20 {
		return false
	}
	return bytes.EqualFold(name, []byte(key))
}

// members are the fields found by one reading of a request, and what is wrong
// with them. Faults of shape do not end the reading: the id to answer to may
// still come.
type members struct {
	at [fieldCount]member
	// envelopeFault and paramsFault are the first of their kind, "" for none.
	// They are apart because the params of a foreign method are not ours.
	envelopeFault, paramsFault string
	// rpc reports that a key of the envelope was met, in whatever case.
	rpc bool
}

// fault notes a fault in s.
func (m *members) fault(s *shape, format string, args ...any) {
	into := &m.paramsFault
	if s == &envelopeShape {
		into = &m.envelopeFault
	}
	if *into == "" {
		*into = fmt.Sprintf(format, args...) + inside(s.place)
	}
}

// marksRPC reports whether a key of the outermost object, found or nearly so,
// shows that it is meant as a JSON-RPC envelope. An id or params does not: the
// bodies of other bindings may have those.
func marksRPC(k, near *key) bool {
	if k == nil {
		k = near
	}
	return k != nil && (k.field == fieldVersion || k.field == fieldMethod)
}

// read reads the object that comes next. It returns only faults of syntax
// (duplicate keys among them), and leaves those of shape in m.
func (m *members) read(d *decoder, s *shape) (span, error) {
	start, err := d.open()
	if err != nil {
		return span{}, err
	}
	for {
		name, nameAt, err := d.name()
		if err != nil {
			return span{}, err
		}
		if name == nil {
			break
		}
		k, near := s.find(name)
		if s == &envelopeShape && marksRPC(k, near) {
			m.rpc = true
		}
		if k == nil {
			if near != nil {
				m.fault(s, "key %s differs from %q only in case", quoteKey(string(name)), near.name)
			}
			if _, err := d.value(); err != nil {
				return span{}, err
			}
			continue
		}
		at := &m.at[k.field]
		if at.value.found() { // duplicates of one spelling do not come this far
			m.fault(s, "%s and %s are both present", k.name, k.alias)
		}
		at.name = nameAt
		if k.object != nil && d.next() == '{' {
			at.value, err = m.read(d, k.object)
		} else {
			at.value, err = d.value()
		}
		if err != nil {
			return span{}, err
		}
	}
	end, err := d.close()
	return span{start, end}, err
}
