package wire

import (
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Request is a request of A2A in any binding, read but not decoded. It is made
// by Read, ReadREST or ReadProto, refers to the body it was read from, and is
// not changed afterwards: its methods may be called concurrently.
type Request struct {
	// ID is the JSON-RPC id as raw JSON: a string, a number, or null. It is nil
	// if absent, which makes the request a notification. It aliases the body.
	// Other bindings have none.
	ID []byte
	// Method is the method as sent, decoded: of JSON-RPC, its method; of gRPC,
	// the full method (/lf.a2a.v1.A2AService/SendMessage); of HTTP+JSON, the
	// verb and the path as the specification has it (POST /message:send).
	Method  string
	Binding Binding
	Version Version
	Op      Op

	// MessageID is message.messageId: never empty for a send, empty otherwise.
	MessageID string
	// ContextID is message.contextId for sends and the contextId that OpList
	// asks for. An empty string and null are absent ids, on the wire too (A2A
	// §3.4.1).
	ContextID string
	// TaskID is message.taskId for sends, else the task that the call names.
	// Empty if absent.
	TaskID string
	// SenderSession is message.metadata.adk_session_id where it is a string:
	// ADK JS puts the coordinator's own session there. It is a hint that has
	// been through no CheckID.
	SenderSession string
	// Parts is a raw JSON array for ReadParts: the parts of a send's message.
	// Nil if there are none. It may alias the body.
	Parts []byte
	// Push is the push configuration that a send or OpPushSet carries; nil if
	// none.
	Push *Push

	body editor
}

// Push is what a record keeps of a push notification configuration. The token
// and the credentials are left where they are.
type Push struct {
	ID        string // of the configuration; empty if the agent is to choose
	URL       string // where notifications go; empty if none is given
	HasToken  bool
	HasScheme bool // notifications are to carry an Authorization
}

// Edit says what of a request is to change. Its zero value changes nothing.
type Edit struct {
	// Context, if not nil, is the context that the message is to name, "" for
	// none.
	Context *string
	// PushURL, if not empty, is where push notifications are to go instead. It
	// is left out of account for a request that carries no push URL.
	PushURL string
}

// editor is a body that can be spliced.
type editor interface{ edited(Edit) []byte }

// Edited returns the body with the edits made, and not a byte else changed. If
// nothing needs to change, that is the body itself: the same slice. Requests
// with no place for a context, such as OpGet, are left alone.
//
// Of an HTTP+JSON request the body is meant, which may be empty; of a gRPC one
// the message without its frame. An id must pass CheckID; invalid UTF-8 in it
// or in a URL is replaced.
func (r *Request) Edited(e Edit) []byte { return r.body.edited(e) }

// Read reads the body of a JSON-RPC request. It refuses every body that two
// peers could read differently, and every send without a messageId, which both
// versions require. A request with an unknown method is OpOther; its params
// are not looked at, beyond being JSON without duplicate keys.
//
// The request refers to body, which must not be changed while it is in use.
// The error, if any, is an *Error.
func Read(body []byte) (*Request, error) {
	if !utf8.Valid(body) {
		return nil, unreadable(body, CodeParse, "body is not JSON: invalid UTF-8")
	}
	d := newDecoder(body, strict)
	defer d.release()
	if kind := d.next(); kind != '{' {
		if _, err := d.value(); err != nil {
			code, what := describe("body", err)
			return nil, unreadable(body, code, what)
		}
		what := "body is not a JSON object"
		if kind == '[' {
			what = "body is a batch: batches are not part of A2A"
		}
		return nil, &Error{Code: CodeInvalid, What: what}
	}
	var m members
	if _, err := m.read(d, &envelopeShape); err != nil {
		code, what := describe("body", err)
		return nil, unreadable(body, code, what)
	}
	// jsontext reads a stream of values. Anything but its end is a second body
	// that a peer might read instead: not one JSON text, hence CodeParse.
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		e := m.refuse(body, "bytes after the JSON value")
		e.Code, e.Foreign = CodeParse, false
		return nil, e
	}
	r, fault := m.request(body)
	if fault != "" {
		return nil, m.refuse(body, fault)
	}
	return r, nil
}

// request interprets the members, now that the method is known wherever it
// stood. It returns what is wrong with them, or "".
func (m *members) request(body []byte) (r *Request, fault string) {
	if m.envelopeFault != "" {
		return nil, m.envelopeFault
	}
	id := m.raw(body, fieldID)
	if len(id) > 0 && !canEcho(id) && id[0] != 'n' {
		return nil, "id is neither a string, a number nor null"
	}
	if v, ok := unquote(m.raw(body, fieldVersion)); !ok || v != "2.0" {
		return nil, `jsonrpc is not "2.0"`
	}
	how, ok := m.method(body)
	if !ok {
		return nil, "method is not a string"
	}
	j := &jsonBody{src: body}
	r = &Request{ID: id, Method: how.name, Version: how.version, Op: how.op, body: j}
	if r.Op == OpOther {
		return r, ""
	}
	if m.paramsFault != "" {
		return nil, m.paramsFault
	}
	if params := m.raw(body, fieldParams); len(params) > 0 && params[0] != '{' && params[0] != 'n' {
		return nil, "params is not an object"
	}
	if r.Op.Sends() {
		return r, m.send(r, j)
	}
	return r, m.task(r, j)
}

// send fills in what a message says.
func (m *members) send(r *Request, j *jsonBody) (fault string) {
	message := m.raw(j.src, fieldMessage)
	switch {
	case message == nil:
		return "params.message is missing"
	case message[0] != '{':
		return "params.message is not an object"
	}
	if r.MessageID, fault = m.id(j.src, fieldMessageID, "params.message.messageId"); fault != "" {
		return fault
	}
	if r.MessageID == "" {
		return "params.message.messageId is missing"
	}
	if r.ContextID, fault = m.id(j.src, fieldMessageContext, "params.message.contextId"); fault != "" {
		return fault
	}
	if r.TaskID, fault = m.id(j.src, fieldMessageTask, "params.message.taskId"); fault != "" {
		return fault
	}
	j.into, j.context = m.at[fieldMessage].value, m.at[fieldMessageContext]
	if parts := m.raw(j.src, fieldMessageParts); len(parts) > 0 && parts[0] == '[' {
		r.Parts = parts
	}
	r.SenderSession, _ = unquote(m.raw(j.src, fieldADKSession))
	return ""
}

// task fills in what the params of the other operations name.
func (m *members) task(r *Request, j *jsonBody) (fault string) {
	switch r.Op {
	case OpGet, OpCancel, OpSubscribe:
		r.TaskID, fault = m.id(j.src, fieldParamsID, "params.id")
	case OpPushGet, OpPushList, OpPushDelete:
		// In 1.0, id is the push configuration's.
		if r.Version == V03 {
			r.TaskID, fault = m.id(j.src, fieldParamsID, "params.id")
			break
		}
		fallthrough
	case OpPushSet:
		r.TaskID, fault = m.id(j.src, fieldParamsTask, "params.taskId")
	case OpList:
		if m.at[fieldParams].value.found() && j.src[m.at[fieldParams].value.start] == '{' {
			j.into, j.context = m.at[fieldParams].value, m.at[fieldParamsContext]
		}
		r.ContextID, fault = m.id(j.src, fieldParamsContext, "params.contextId")
	default: // OpCard names neither
	}
	return fault
}

// raw returns the value of f, nil if it is absent.
func (m *members) raw(body []byte, f field) []byte { return m.at[f].value.of(body) }

// id returns the id that f holds, "" if it is absent, null or empty.
func (m *members) id(body []byte, f field, name string) (id, fault string) {
	raw := m.raw(body, f)
	if len(raw) == 0 || raw[0] == 'n' {
		return "", ""
	}
	if raw[0] != '"' {
		return "", name + " is not a string"
	}
	if plain(raw) {
		id = string(raw[1 : len(raw)-1])
	} else {
		b, err := jsontext.AppendUnquote(nil, raw)
		if err != nil { // half a surrogate pair: decoded, it has many readings
			return "", name + " is not valid UTF-8"
		}
		id = string(b)
	}
	if id == "" {
		return "", ""
	}
	if err := CheckID(name, id); err != nil {
		return "", err.Error()
	}
	return id, ""
}

// method returns what the method says, and whether it is there as a string.
func (m *members) method(body []byte) (method, bool) {
	raw := m.raw(body, fieldMethod)
	if len(raw) == 0 || raw[0] != '"' {
		return method{}, false
	}
	if plain(raw) {
		return methodOf(raw[1 : len(raw)-1]), true
	}
	name, _ := jsontext.AppendUnquote(nil, raw)
	return methodOf(name), true
}

// refuse makes the error for a body whose members could be read.
func (m *members) refuse(body []byte, what string) *Error {
	e := &Error{Code: CodeInvalid, What: what, Foreign: !m.rpc}
	if id := m.raw(body, fieldID); len(id) > 0 && canEcho(id) {
		e.ID = id
	}
	how, _ := m.method(body)
	e.Op, e.Version = how.op, how.version
	return e
}

// unreadable makes the error for a body that cannot be read as JSON with one
// reading. A second, lenient reading finds what an answer needs, as far as the
// body goes.
func unreadable(body []byte, code int, what string) *Error {
	d := newDecoder(body, tolerant)
	defer d.release()
	var m members
	whole := d.next() == '{' && m.glimpse(d)
	e := m.refuse(body, what)
	e.Code = code
	e.Foreign = e.Foreign && whole
	return e
}

// glimpse reads the members of the envelope up to a fault of syntax. One that
// occurs twice says nothing and is forgotten: JSON-RPC 2.0 §5 wants a null id
// where the id is in doubt. It reports whether the body is one JSON object.
func (m *members) glimpse(d *decoder) (whole bool) {
	if _, err := d.open(); err != nil {
		return false
	}
	var twice []field
	for {
		name, _, err := d.name()
		if err != nil || name == nil {
			break
		}
		k, near := envelopeShape.find(name)
		m.rpc = m.rpc || marksRPC(k, near)
		at, err := d.value()
		if err != nil {
			break
		}
		if k == nil {
			continue
		}
		if m.at[k.field].value.found() {
			twice = append(twice, k.field)
		}
		m.at[k.field].value = at
	}
	for f := range m.at {
		if slices.Contains(twice, field(f)) {
			m.at[f] = member{}
		}
	}
	if _, err := d.close(); err != nil {
		return false
	}
	_, err := d.json.ReadToken()
	return errors.Is(err, io.EOF)
}

// canEcho reports whether a raw JSON value is a string or a number.
func canEcho(raw []byte) bool {
	return raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9'
}
