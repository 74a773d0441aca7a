package wire

import (
	"bytes"
	"fmt"
	"slices"
)

// field is a member of a request that the sidecar reads, named by its place.
type field uint8

const (
	fieldVersion field = iota // jsonrpc
	fieldID
	fieldMethod
	fieldParams

	// Of the params: the body itself in HTTP+JSON.
	fieldMessage
	fieldParamsID
	fieldParamsTask
	fieldParamsContext
	fieldParamsMetadata
	fieldConfiguration
	fieldResource // name or parent: the task by its path
	fieldConfig   // of a task's push notifications
	fieldConfigID

	fieldMessageID // message.messageId
	fieldMessageContext
	fieldMessageTask
	fieldMessageMetadata
	fieldMessageParts
	fieldADKSession // message.metadata.adk_session_id

	// Of a push configuration, wherever it stands: there is room for one.
	fieldPush
	fieldPushID
	fieldPushURL
	fieldPushToken
	fieldPushAuth
	fieldPushScheme

	fieldCount
)

// shape is an object whose members are read.
type shape struct {
	keys []key
	// free is set where nothing depends on which of two keys a peer goes by:
	// none of them is edited or told to anyone.
	free bool
}

// key is a key of a shape. It may have several spellings: the camelCase of the
// specification, which errors call it by, the snake_case that ProtoJSON peers
// and pydantic ones accept beside it, and what other versions call it.
type key struct {
	spellings []string
	field     field
	object    *shape // how its value is read on if it is an object; nil: not at all
}

func spelled(names ...string) []string { return names }

var envelopeShape = shape{keys: []key{
	{spelled("jsonrpc"), fieldVersion, nil},
	{spelled("id"), fieldID, nil},
	{spelled("method"), fieldMethod, nil},
	{spelled("params"), fieldParams, paramsShape(false)},
}}

// restShape is the body of an HTTP+JSON call.
var restShape = paramsShape(true)

// paramsShape is what calls carry. In HTTP+JSON that is the ProtoJSON of 0.3's
// protobuf too, which has some names of its own.
func paramsShape(rest bool) *shape {
	message, parts := spelled("message"), spelled("parts")
	if rest {
		message, parts = append(message, "request"), append(parts, "content")
	}
	params := shape{keys: slices.Concat([]key{
		{message, fieldMessage, &shape{keys: []key{
			{spelled("messageId", "message_id"), fieldMessageID, nil},
			{spelled("contextId", "context_id"), fieldMessageContext, nil},
			{spelled("taskId", "task_id"), fieldMessageTask, nil},
			{parts, fieldMessageParts, nil},
			{spelled("metadata"), fieldMessageMetadata, &metadataShape},
		}}},
		{spelled("id"), fieldParamsID, nil},
		{spelled("taskId", "task_id"), fieldParamsTask, nil},
		{spelled("contextId", "context_id"), fieldParamsContext, nil},
		{spelled("metadata"), fieldParamsMetadata, nil},
		{spelled("configuration"), fieldConfiguration, &shape{keys: []key{{
			spelled(
				"pushNotificationConfig", "push_notification_config", // 0.3
				"taskPushNotificationConfig", "task_push_notification_config", // 1.0
				"pushNotification", "push_notification", // the proto of 0.3
			), fieldPush, pushMember.object,
		}}}},
		pushMember,
	}, pushKeys)}
	if rest {
		params.keys = append(params.keys,
			// Of none of the calls: they give away an envelope.
			key{spelled("jsonrpc"), fieldVersion, nil},
			key{spelled("method"), fieldMethod, nil},
			key{spelled("name", "parent"), fieldResource, nil},
			key{spelled("config"), fieldConfig, &shape{keys: append([]key{pushID, pushMember}, pushKeys...)}},
			key{spelled("configId", "config_id"), fieldConfigID, nil},
		)
	}
	return &params
}

var metadataShape = shape{free: true, keys: []key{
	{spelled("adk_session_id"), fieldADKSession, nil},
}}

// pushKeys are the members of a push configuration but for its id.
var pushKeys = []key{
	{spelled("url"), fieldPushURL, nil},
	{spelled("token"), fieldPushToken, nil},
	{spelled("authentication"), fieldPushAuth, &shape{free: true, keys: []key{
		{spelled("scheme", "schemes"), fieldPushScheme, nil},
	}}},
}

// pushMember is where a task's push configuration holds the configuration
// itself, in 0.3.
var pushMember = key{
	spelled("pushNotificationConfig", "push_notification_config"), fieldPush,
	&shape{keys: append([]key{pushID}, pushKeys...)},
}

var pushID = key{spelled("id"), fieldPushID, nil}

// find returns the key that name spells, or nil. It also returns nil, and
// near, for a name that only a case-insensitive peer takes for that key: Go's
// encoding/json does, and lets the last one win, folding as Unicode does (so
// that "taſkId" is taskId).
func (s *shape) find(name []byte) (found, near *key) {
	is := func(spelling string) bool { return string(name) == spelling }
	for i := range s.keys {
		if slices.ContainsFunc(s.keys[i].spellings, is) {
			return &s.keys[i], nil
		}
	}
	if s.free {
		return nil, nil
	}
	folds := func(spelling string) bool { return foldsTo(name, spelling) }
	for i := range s.keys {
		if slices.ContainsFunc(s.keys[i].spellings, folds) {
			return nil, &s.keys[i]
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
	// root is what errors put before the names of params.
	root string
	// envelopeFault and paramsFault are the first of their kind, "" for none.
	// They are apart because the params of a foreign method are not ours.
	envelopeFault, paramsFault string
	// rpc reports that a key of the envelope was met at the top, in whatever
	// case.
	rpc bool
}

// fault notes a fault in s, at the key that was just read.
func (m *members) fault(d *decoder, s *shape, format string, args ...any) {
	into := &m.paramsFault
	if s == &envelopeShape {
		into = &m.envelopeFault
	}
	if *into == "" {
		*into = fmt.Sprintf(format, args...) + inside(place(d.json.StackPointer().Parent()))
	}
}

// twice notes that k is there a second time: under two of its names, or, being
// of a push configuration, in two places.
func (m *members) twice(d *decoder, s *shape, k *key, first, second span) {
	a, _ := unquote(first.of(d.src))
	b, _ := unquote(second.of(d.src))
	if slices.Index(k.spellings, b) < slices.Index(k.spellings, a) {
		a, b = b, a
	}
	if a == b {
		m.fault(d, s, "a second %s is present", a)
	} else {
		m.fault(d, s, "%s and %s are both present", a, b)
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
		if marksRPC(k, near) { // no other shape has these keys
			m.rpc = true
		}
		if k == nil {
			if near != nil {
				m.fault(d, s, "key %s differs from %q only in case", quoteKey(string(name)), near.spellings[0])
			}
			if _, err := d.value(); err != nil {
				return span{}, err
			}
			continue
		}
		at := &m.at[k.field]
		if at.name.found() && !s.free { // duplicates of one spelling do not come this far
			m.twice(d, s, k, at.name, nameAt)
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
