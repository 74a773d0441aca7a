package wire

import (
	"bytes"

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
	// Push is the push configuration that a send or OpPushSet carries; nil if
	// none.
	Push *Push

	body body
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

// body is what a request was read from.
type body interface {
	edited(Edit) []byte
	messageParts() []byte
}

// Parts returns a raw JSON array for ReadParts: the parts of a send's message,
// nil if there are none. Of JSON it aliases the body. Of protobuf it is made
// anew by each call, as far as the parts can be read.
func (r *Request) Parts() []byte { return r.body.messageParts() }

// Edited returns the body with the edits made, and not a byte else changed. If
// nothing needs to change, that is the body itself: the same slice. Requests
// with no place for a context, such as OpGet, are left alone.
//
// Of an HTTP+JSON request the body is meant, which may be empty; of a gRPC one
// the message without its frame. An id must pass CheckID; invalid UTF-8 in it
// or in a URL is replaced.
func (r *Request) Edited(e Edit) []byte { return r.body.edited(e) }

// send fills in what a message says.
func (m *members) send(r *Request, j *jsonBody) (fault string) {
	message := m.raw(j.src, fieldMessage)
	switch {
	case message == nil:
		return m.root + "message is missing"
	case message[0] != '{':
		return m.root + "message is not an object"
	}
	if r.MessageID, fault = m.id(j.src, fieldMessageID, "message.messageId"); fault != "" {
		return fault
	}
	if r.MessageID == "" {
		return m.root + "message.messageId is missing"
	}
	if r.ContextID, fault = m.id(j.src, fieldMessageContext, "message.contextId"); fault != "" {
		return fault
	}
	if r.TaskID, fault = m.id(j.src, fieldMessageTask, "message.taskId"); fault != "" {
		return fault
	}
	j.into, j.context = m.at[fieldMessage].value, m.at[fieldMessageContext]
	// Some peers of 0.3 (a2a-go's HTTP+JSON) read snake_case and nothing else.
	spelled, _ := unquote(m.at[fieldMessageID].name.of(j.src))
	j.snake = spelled == "message_id"
	if parts := m.raw(j.src, fieldMessageParts); len(parts) > 0 && parts[0] == '[' {
		j.parts = parts
	}
	r.SenderSession, _ = unquote(m.raw(j.src, fieldADKSession))
	if config := m.raw(j.src, fieldPush); len(config) > 0 && config[0] == '{' {
		fault = m.push(r, j, m.at[fieldPush].value, fieldPushID, "configuration.pushNotificationConfig.id")
	}
	return fault
}

// pushSet fills in the configuration that OpPushSet carries: in a member of
// the params, or as the params themselves.
func (m *members) pushSet(r *Request, j *jsonBody) (fault string) {
	within := span{0, len(j.src)}
	switch {
	case m.at[fieldPushID].value.found():
		return m.push(r, j, within, fieldPushID, "pushNotificationConfig.id")
	case m.at[fieldConfigID].value.found():
		return m.push(r, j, within, fieldConfigID, "configId")
	default:
		return m.push(r, j, within, fieldParamsID, "id")
	}
}

// push fills in the push configuration that stands in within. Its id is what
// the field holds, which errors call by that name.
func (m *members) push(r *Request, j *jsonBody, within span, id field, name string) (fault string) {
	p := new(Push)
	if p.ID, fault = m.id(j.src, id, name); fault != "" {
		return fault
	}
	if at := m.at[fieldPushURL].value; within.holds(at) {
		if p.URL, _ = unquote(at.of(j.src)); p.URL != "" {
			j.pushURL = at
		}
	}
	token, _ := unquote(m.raw(j.src, fieldPushToken))
	p.HasToken = token != ""
	switch scheme := m.raw(j.src, fieldPushScheme); {
	case len(scheme) == 0:
	case scheme[0] == '"': // 1.0
		p.HasScheme = len(scheme) > len(`""`)
	case scheme[0] == '[': // 0.3
		p.HasScheme = len(bytes.TrimSpace(scheme[1:len(scheme)-1])) > 0
	}
	r.Push = p
	return ""
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
		return "", m.root + name + " is not a string"
	}
	if plain(raw) {
		id = string(raw[1 : len(raw)-1])
	} else {
		b, err := jsontext.AppendUnquote(nil, raw)
		if err != nil { // half a surrogate pair: decoded, it has many readings
			return "", m.root + name + " is not valid UTF-8"
		}
		id = string(b)
	}
	if id == "" {
		return "", ""
	}
	if what := idFault(id); what != "" {
		return "", m.root + name + " " + what
	}
	return id, ""
}
