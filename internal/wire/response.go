package wire

import "errors"

// UpdateKind is what an agent's answer is about.
type UpdateKind uint8

// The kinds of answer. UpdateOther is every answer that says nothing about a
// task or a message, such as a push configuration, and every one that is not
// understood.
const (
	UpdateOther UpdateKind = iota
	UpdateTask
	UpdateMessage
	UpdateStatus
	UpdateArtifact
	UpdateTasks
	UpdateError
)

// Update is what one answer says: a unary response, or one event of a stream.
// Its byte slices alias the data it was read from; its strings do not.
// Identifiers are the agent's own words and have been through no CheckID.
type Update struct {
	Kind UpdateKind
	// TaskID and ContextID are empty where the agent leaves them out, as some
	// do in every message.
	TaskID, ContextID string
	// MessageID is that of the message, or of the one in the status.
	MessageID string
	State     TaskState
	Timestamp string // of the status, as sent

	// Artifacts are all those of a task, or the one of an artifact update.
	Artifacts []Artifact
	// Append and LastChunk say how an artifact update continues earlier ones.
	Append, LastChunk bool

	// Parts is a raw JSON array for ReadParts: the parts of the message, or of
	// the one in the status. Nil if there is none.
	Parts []byte
	// Metadata is the raw metadata object of the task, message or update. Nil
	// if there is none.
	Metadata []byte

	// Tasks are those that OpList answers with, each an UpdateTask.
	Tasks []Update

	// ErrorCode is that of a JSON-RPC error, or the HTTP status that an error
	// of HTTP+JSON repeats.
	ErrorCode    int
	ErrorMessage string
}

// Artifact is something a task made.
type Artifact struct {
	ID, Name string
	Parts    []byte // raw JSON array for ReadParts; nil if there is none
}

// ReadResponse reads a JSON-RPC response: a unary body, or the data of one
// event. It understands both versions by the shape of the result. It is
// tolerant: of a key that occurs twice the last counts, bytes after the first
// JSON value are ignored, and what is not understood is UpdateOther. An error
// means that data is not JSON; it does not quote data.
func ReadResponse(data []byte) (Update, error) { return readUpdate(data, (*Update).envelope) }

// ReadResult reads an answer of HTTP+JSON, a unary body or the data of one
// event, as ReadResponse does.
func ReadResult(data []byte) (Update, error) { return readUpdate(data, (*Update).bare) }

func readUpdate(data []byte, read func(*Update, *decoder) error) (Update, error) {
	d := newDecoder(data, tolerant)
	defer d.release()
	var u Update
	if err := read(&u, d); err != nil {
		_, what := describe("response", err)
		return Update{}, errors.New(what)
	}
	return u, nil
}

// envelope reads a JSON-RPC response. An error beside a result wins; a null
// one, which some servers send with every result, does not count.
func (u *Update) envelope(d *decoder) error {
	var failure *Update
	err := d.members(func(name []byte) error {
		switch string(name) {
		case "result":
			return u.result(d)
		case "error":
			if d.next() == '{' {
				failure = &Update{Kind: UpdateError}
				return failure.failed(d)
			}
		}
		return d.skip()
	})
	if failure != nil {
		*u = *failure
	}
	return err
}

// failed reads an error object.
func (u *Update) failed(d *decoder) error {
	return d.members(func(name []byte) (err error) {
		switch string(name) {
		case "code":
			u.ErrorCode, err = d.number()
		case "message":
			u.ErrorMessage, err = d.text()
		default:
			err = d.skip()
		}
		return err
	})
}

// result reads what 0.3 and 1.0 answer with: an object of 0.3, told by its
// kind; a wrapper of 1.0 around the same objects; or a bare task.
func (u *Update) result(d *decoder) error {
	o := object{outermost: true}
	if err := o.read(d); err != nil {
		return err
	}
	*u = o.update()
	return nil
}

// bare reads an answer of HTTP+JSON: the result itself, or an error. That is
// in a member error (1.0, as google.rpc.Status has it), or it is the body: a
// code and a message (0.3), or problem details (RFC 9457).
func (u *Update) bare(d *decoder) error {
	o := object{outermost: true}
	var failure *Update
	var flat Update
	err := d.members(func(name []byte) (err error) {
		kind := d.next()
		switch field := string(name); {
		case field == "error" && kind == '{':
			failure = &Update{Kind: UpdateError}
			return failure.failed(d)
		case (field == "message" || field == "detail" || field == "title") && kind == '"':
			text, err := d.text()
			if field != "title" || flat.ErrorMessage == "" {
				flat.ErrorMessage = text
			}
			return err
		case (field == "code" || field == "status") && kind == '0':
			flat.ErrorCode, err = d.number()
			return err
		}
		return o.member(d, name)
	})
	switch *u = o.update(); {
	case failure != nil:
		*u = *failure
	case u.Kind == UpdateOther && flat.ErrorMessage != "":
		flat.Kind = UpdateError
		*u = flat
	}
	return err
}
