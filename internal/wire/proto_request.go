package wire

import (
	"cmp"
	"fmt"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
)

// ReadProto reads the request message of the gRPC method that path names. It
// refuses what two peers could read differently: bytes that are not protobuf;
// a field that we read which occurs twice (of a string the last one counts, but
// embedded messages are merged), has a foreign wire type or is not UTF-8; and
// a resource name of 0.3 that some parsers find another id in. It also refuses
// a send without a message or a message_id. A path that is no method of A2A is
// OpOther, and the message is not looked at.
//
// The request refers to msg, which must not be changed while it is in use. The
// error, if any, is an *Error.
func ReadProto(path string, msg []byte) (*Request, error) {
	m := protoMethods[path]
	if m == nil {
		r := &Request{Method: path, Binding: GRPC, body: &protoBody{src: msg}}
		if strings.HasPrefix(path, serviceV10) {
			r.Version = V10
		}
		return r, nil
	}
	f := protoFields{src: msg}
	fault := f.read(span{0, len(msg)}, m.request)
	if fault == nil {
		var r *Request
		if r, fault = f.request(m.GRPCMethod); fault == nil {
			return r, nil
		}
	}
	fault.Op, fault.Version = m.Op, m.Version
	return nil, fault
}

// protoFields are the fields found by one reading of a request.
type protoFields struct {
	src []byte
	at  [slotCount]protoField
}

// invalid makes the error for a message with no reading, or with two.
func invalid(what string) *Error { return &Error{Code: CodeInvalid, What: what} }

// read reads the message in that span.
func (f *protoFields) read(in span, s *protoShape) *Error {
	r := newProtoReader(f.src, in)
	for r.next() {
		k := s.find(r.field.num)
		if k == nil {
			continue
		}
		at := &f.at[k.slot]
		switch {
		case r.field.typ != protowire.BytesType:
			return invalid(k.name + " has a foreign wire type")
		case at.value.found():
			return invalid(k.name + " occurs twice")
		case k.kind == textField && !utf8.Valid(r.field.value.of(f.src)):
			return invalid(k.name + " is not valid UTF-8")
		}
		*at = r.field
		if k.of == nil {
			continue
		}
		if fault := f.read(at.value, k.of); fault != nil {
			return fault
		}
	}
	if r.err != nil {
		what := fmt.Sprintf("body is not protobuf: %v at byte %d%s", r.err, r.pos, inside(s.place))
		return &Error{Code: CodeParse, What: what}
	}
	return nil
}

// request interprets the fields.
func (f *protoFields) request(how GRPCMethod) (*Request, *Error) {
	b := &protoBody{src: f.src}
	r := &Request{Method: how.Name, Binding: GRPC, Version: how.Version, Op: how.Op, body: b}
	var fault string
	switch {
	case r.Op.Sends():
		fault = f.send(r, b)
	case r.Op == OpList:
		b.context = protoPlace{num: listContextV10, field: f.at[slotContext]}
		if r.Version == V03 {
			b.context.num = listContextV03
		}
		r.ContextID, fault = f.id(slotContext, "context_id")
	case r.Version == V03 && r.Op != OpCard:
		r.TaskID, fault = f.resource(r.Op)
	default:
		r.TaskID, fault = f.id(slotTask, "task_id")
	}
	if fault == "" {
		fault = f.push(r, b)
	}
	if fault != "" {
		return nil, invalid(fault)
	}
	if r.Op.Sends() {
		b.message, b.version = f.bytes(slotMessage), r.Version
	}
	return r, nil
}

// send fills in what a message says, and returns what is wrong with it, or "".
func (f *protoFields) send(r *Request, b *protoBody) (fault string) {
	message := f.at[slotMessage]
	if !message.value.found() {
		return "message is missing"
	}
	if r.MessageID, fault = f.id(slotMessageID, "message.message_id"); fault != "" {
		return fault
	}
	if r.MessageID == "" {
		return "message.message_id is missing"
	}
	if r.ContextID, fault = f.id(slotContext, "message.context_id"); fault != "" {
		return fault
	}
	if r.TaskID, fault = f.id(slotTask, "message.task_id"); fault != "" {
		return fault
	}
	b.context = protoPlace{around: []protoField{message}, num: messageContext, field: f.at[slotContext]}
	r.SenderSession = senderSession(f.bytes(slotMetadata))
	return ""
}

// push fills in the push configuration, if there is one.
func (f *protoFields) push(r *Request, b *protoBody) (fault string) {
	var around []protoField
	switch {
	case f.at[slotPush].value.found():
		around = []protoField{f.at[slotOuter], f.at[slotPush]}
	case r.Op != OpPushSet || r.Version == V03:
		return ""
	}
	id, beside := "", ""
	if id, fault = f.id(slotPushID, "the id of the push configuration"); fault != "" {
		return fault
	}
	if beside, fault = f.id(slotConfigID, "config_id"); fault != "" {
		return fault
	}
	r.Push = &Push{
		ID:        cmp.Or(id, beside),
		URL:       string(f.bytes(slotPushURL)),
		HasToken:  len(f.bytes(slotPushToken)) > 0,
		HasScheme: hasScheme(f.bytes(slotPushAuth)),
	}
	b.pushURL = protoPlace{around: around, field: f.at[slotPushURL]}
	return ""
}

// bytes returns the payload of a slot, nil if it is absent.
func (f *protoFields) bytes(s protoSlot) []byte { return f.at[s].value.of(f.src) }

// id returns the id in a slot, "" if it is absent or empty.
func (f *protoFields) id(s protoSlot, name string) (id, fault string) {
	if id = string(f.bytes(s)); id == "" {
		return "", ""
	}
	if what := idFault(id); what != "" {
		return "", name + " " + what
	}
	return id, ""
}

// resource returns the task that the resource name of a 0.3 request is about,
// "" for none.
//
// Agents look for tasks/([^/]+) anywhere in a name (Go), at its start (Python),
// or take all that follows (Java). Only names that they agree on pass.
func (f *protoFields) resource(op Op) (id, fault string) {
	name := string(f.bytes(slotName))
	if name == "" {
		return "", ""
	}
	rest, ok := strings.CutPrefix(name, "tasks/")
	id, tail, more := strings.Cut(rest, "/")
	config, isConfig := strings.CutPrefix(tail, "pushNotificationConfigs/")
	switch {
	case more && (op == OpPushGet || op == OpPushDelete):
		ok = ok && id != "" && isConfig && !strings.Contains(config, "/")
	case more:
		ok = false
	}
	if !ok {
		return "", "the resource name is not that of a task"
	}
	if id != "" {
		if what := idFault(id); what != "" {
			return "", "the task in the resource name " + what
		}
	}
	// Of OpPushSet, the configuration has a name of its own.
	if rest, ok := strings.CutPrefix(string(f.bytes(slotConfigName)), "tasks/"); ok {
		if other, _, _ := strings.Cut(rest, "/"); other != id {
			return "", "config.name is that of another task than parent"
		}
	}
	return id, ""
}

// senderSession returns what a google.protobuf.Struct has under ADK's key, if
// it is a string. It is a hint: what cannot be read says nothing, and of a key
// that occurs twice the last one counts, as in a map.
func senderSession(metadata []byte) (session string) {
	entries := newProtoReader(metadata, span{0, len(metadata)})
	for entries.next() {
		if entries.field.num != structEntry || entries.field.typ != protowire.BytesType {
			continue
		}
		key, value, err := protoEntry(entries.field.value.of(metadata))
		if err != nil || string(key) != "adk_session_id" {
			continue
		}
		session = ""
		for r := newProtoReader(value, span{0, len(value)}); r.next(); {
			if r.field.num == valueString && r.field.typ == protowire.BytesType {
				session = strings.ToValidUTF8(string(r.field.value.of(value)), "\uFFFD")
			}
		}
	}
	return session
}

// hasScheme reports whether an AuthenticationInfo names a scheme: 0.3 has a
// list of them, 1.0 one, under the same number.
func hasScheme(authentication []byte) bool {
	for r := newProtoReader(authentication, span{0, len(authentication)}); r.next(); {
		if r.field.num == 1 && r.field.typ == protowire.BytesType && r.field.value.start < r.field.value.end {
			return true
		}
	}
	return false
}
