package wire

import (
	"errors"
	"io"
	"slices"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// Read reads the body of a JSON-RPC request. It refuses every body that two
// peers could read differently, and every send without a messageId, which both
// versions require. A request with an unknown method is OpOther; its params
// are not looked at, beyond being JSON without duplicate keys.
//
// The request refers to body, which must not be changed while it is in use.
// The error, if any, is an *Error.
func Read(body []byte) (*Request, error) {
	m := members{root: "params."}
	if code, what := m.whole(body, &envelopeShape); what != "" {
		return nil, unreadable(body, code, what)
	}
	r, fault := m.request(body)
	if fault != "" {
		return nil, m.refuse(body, fault)
	}
	return r, nil
}

// whole reads a body that must be one JSON object and no more. It returns what
// is wrong with it as JSON, or "".
func (m *members) whole(body []byte, s *shape) (code int, what string) {
	if !utf8.Valid(body) {
		return CodeParse, "body is not JSON: invalid UTF-8"
	}
	d := newDecoder(body, strict)
	defer d.release()
	if kind := d.next(); kind != '{' {
		if _, err := d.value(); err != nil {
			return describe("body", err)
		}
		if kind == '[' && s == &envelopeShape {
			return CodeInvalid, "body is a batch: batches are not part of A2A"
		}
		return CodeInvalid, "body is not a JSON object"
	}
	if _, err := m.read(d, s); err != nil {
		return describe("body", err)
	}
	// jsontext reads a stream of values. Anything but its end is a second body
	// that a peer might read instead: not one JSON text, hence CodeParse.
	if _, err := d.json.ReadToken(); !errors.Is(err, io.EOF) {
		return CodeParse, "bytes after the JSON value"
	}
	return 0, ""
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

// task fills in what the params of the operations that send nothing name.
func (m *members) task(r *Request, j *jsonBody) (fault string) {
	switch r.Op {
	case OpGet, OpCancel, OpSubscribe:
		r.TaskID, fault = m.id(j.src, fieldParamsID, "id")
	case OpPushGet, OpPushList, OpPushDelete:
		// In 1.0, id is the push configuration's.
		if r.Version == V03 {
			r.TaskID, fault = m.id(j.src, fieldParamsID, "id")
		} else {
			r.TaskID, fault = m.id(j.src, fieldParamsTask, "taskId")
		}
	case OpPushSet:
		if r.TaskID, fault = m.id(j.src, fieldParamsTask, "taskId"); fault == "" {
			fault = m.pushSet(r, j)
		}
	case OpList:
		if m.at[fieldParams].value.found() && j.src[m.at[fieldParams].value.start] == '{' {
			j.into, j.context = m.at[fieldParams].value, m.at[fieldParamsContext]
		}
		r.ContextID, fault = m.id(j.src, fieldParamsContext, "contextId")
	default: // OpCard names neither
	}
	return fault
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
