package wire

import (
	"errors"
	"strconv"
)

// UpdateKind is what an agent's answer is about.
type UpdateKind uint8

// The kinds of answer. UpdateOther is every answer that says nothing about a
// task or a message, such as a list of tasks or a push configuration, and
// every one that is not understood.
const (
	UpdateOther UpdateKind = iota
	UpdateTask
	UpdateMessage
	UpdateStatus
	UpdateArtifact
	UpdateError
)

var kindNames = [...]string{
	UpdateOther:    "other",
	UpdateTask:     "task",
	UpdateMessage:  "message",
	UpdateStatus:   "status",
	UpdateArtifact: "artifact",
	UpdateError:    "error",
}

// String returns a short name, fit for a metric label.
func (k UpdateKind) String() string {
	if int(k) < len(kindNames) {
		return kindNames[k]
	}
	return kindNames[UpdateOther]
}

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
	Final     bool   // 0.3 only: the last status update of its stream

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

	// ErrorCode and ErrorMessage are those of a JSON-RPC error.
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
func ReadResponse(data []byte) (Update, error) {
	d := newDecoder(data, tolerant)
	defer d.release()
	var u Update
	if err := u.envelope(d); err != nil {
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
			at, err := d.value()
			if err != nil {
				return err
			}
			// A code that is no integer leaves 0: still an error.
			u.ErrorCode, _ = strconv.Atoi(string(at.of(d.src)))
			return nil
		case "message":
			u.ErrorMessage, err = d.text()
			return err
		}
		return d.skip()
	})
}

// result reads what 0.3 and 1.0 answer with: an object of 0.3, told by its
// kind; a wrapper of 1.0 around the same objects; or a bare task.
func (u *Update) result(d *decoder) error {
	o := object{wrappers: true}
	if err := o.read(d); err != nil {
		return err
	}
	*u = o.update()
	return nil
}

// object is a task, a message, a status update or an artifact update: their
// members do not clash, so they are read first and told apart afterwards.
type object struct {
	Update
	kind        string // 0.3
	id          string
	hasStatus   bool
	hasArtifact bool
	wrappers    bool    // whether a wrapper of 1.0 may occur
	wrapped     *Update // what was in one
}

func (o *object) read(d *decoder) error {
	return d.members(func(name []byte) (err error) {
		switch string(name) {
		case "kind":
			o.kind, err = d.text()
		case "id":
			o.id, err = d.text()
		case "taskId", "task_id":
			o.TaskID, err = d.text()
		case "contextId", "context_id":
			o.ContextID, err = d.text()
		case "messageId", "message_id":
			o.MessageID, err = d.text()
		case "status":
			o.hasStatus = true
			err = o.status(d)
		case "final":
			o.Final, err = d.flag()
		case "append":
			o.Append, err = d.flag()
		case "lastChunk", "last_chunk":
			o.LastChunk, err = d.flag()
		case "parts":
			o.Parts, err = d.raw('[')
		case "metadata":
			o.Metadata, err = d.raw('{')
		case "artifact":
			o.hasArtifact = true
			err = o.artifact(d)
		case "artifacts":
			o.Artifacts = nil
			err = d.elements(func() error { return o.artifact(d) })
		case "task":
			err = o.wrapper(d, UpdateTask)
		case "message":
			err = o.wrapper(d, UpdateMessage)
		case "statusUpdate", "status_update":
			err = o.wrapper(d, UpdateStatus)
		case "artifactUpdate", "artifact_update":
			err = o.wrapper(d, UpdateArtifact)
		default:
			err = d.skip()
		}
		return err
	})
}

// wrapper reads the object in a wrapper of 1.0.
func (o *object) wrapper(d *decoder, kind UpdateKind) error {
	if !o.wrappers || d.next() != '{' {
		return d.skip()
	}
	var in object
	if err := in.read(d); err != nil {
		return err
	}
	u := in.as(kind)
	o.wrapped = &u
	return nil
}

// status reads the status of a task or a status update.
func (o *object) status(d *decoder) error {
	return d.members(func(name []byte) (err error) {
		switch string(name) {
		case "state":
			at, err := d.value()
			o.State = stateOf(at.of(d.src))
			return err
		case "timestamp":
			o.Timestamp, err = d.text()
			return err
		case "message":
			return d.members(func(name []byte) (err error) {
				switch string(name) {
				case "messageId", "message_id":
					o.MessageID, err = d.text()
				case "parts":
					o.Parts, err = d.raw('[')
				default:
					err = d.skip()
				}
				return err
			})
		}
		return d.skip()
	})
}

// artifact reads one artifact and adds it.
func (o *object) artifact(d *decoder) error {
	if d.next() != '{' {
		return d.skip()
	}
	var a Artifact
	err := d.members(func(name []byte) (err error) {
		switch string(name) {
		case "artifactId", "artifact_id":
			a.ID, err = d.text()
		case "name":
			a.Name, err = d.text()
		case "parts":
			a.Parts, err = d.raw('[')
		default:
			err = d.skip()
		}
		return err
	})
	o.Artifacts = append(o.Artifacts, a)
	return err
}

// update tells what the object is.
func (o *object) update() Update {
	switch o.kind {
	case "task":
		return o.as(UpdateTask)
	case "message":
		return o.as(UpdateMessage)
	case "status-update":
		return o.as(UpdateStatus)
	case "artifact-update":
		return o.as(UpdateArtifact)
	}
	switch {
	case o.wrapped != nil:
		return *o.wrapped
	case o.id != "" && o.hasStatus: // 1.0: GetTask and CancelTask answer with it
		return o.as(UpdateTask)
	case o.TaskID != "" && o.hasStatus:
		return o.as(UpdateStatus)
	case o.TaskID != "" && o.hasArtifact:
		return o.as(UpdateArtifact)
	case o.MessageID != "" && o.Parts != nil:
		return o.as(UpdateMessage)
	}
	return Update{}
}

// as returns the object's members as an update of that kind.
func (o *object) as(kind UpdateKind) Update {
	u := o.Update
	u.Kind = kind
	if kind == UpdateTask {
		u.TaskID = o.id
	}
	return u
}
