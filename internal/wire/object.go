package wire

// object is a task, a message, a status update or an artifact update: their
// members do not clash, so they are read first and told apart afterwards. The
// names are those of both versions, in both spellings, and those of the proto
// of 0.3 where it differs.
type object struct {
	Update
	kind        string // 0.3
	id          string
	hasStatus   bool
	hasArtifact bool

	outermost bool    // whether it may be a wrapper of 1.0 or a list of tasks
	wrapped   *Update // what was in a wrapper
}

func (o *object) read(d *decoder) error {
	return d.members(func(name []byte) error { return o.member(d, name) })
}

// member reads the value of the member of that name.
func (o *object) member(d *decoder, name []byte) (err error) {
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
	case "append":
		o.Append, err = d.flag()
	case "lastChunk", "last_chunk":
		o.LastChunk, err = d.flag()
	case "parts", "content":
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
	case "message", "msg":
		err = o.wrapper(d, UpdateMessage)
	case "statusUpdate", "status_update":
		err = o.wrapper(d, UpdateStatus)
	case "artifactUpdate", "artifact_update":
		err = o.wrapper(d, UpdateArtifact)
	case "tasks":
		err = o.list(d)
	default:
		err = d.skip()
	}
	return err
}

// wrapper reads the object in a wrapper of 1.0.
func (o *object) wrapper(d *decoder, kind UpdateKind) error {
	if !o.outermost || d.next() != '{' {
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

// maxElements bounds the tasks of a list and the artifacts of a task that are
// read: an empty one takes two bytes to send, and hundreds to hold.
const maxElements = 10_000

// list reads the tasks that OpList answers with.
func (o *object) list(d *decoder) error {
	if !o.outermost || d.next() != '[' {
		return d.skip()
	}
	u := Update{Kind: UpdateTasks}
	err := d.elements(func() error {
		if d.next() != '{' || len(u.Tasks) == maxElements {
			return d.skip()
		}
		var in object
		if err := in.read(d); err != nil {
			return err
		}
		u.Tasks = append(u.Tasks, in.as(UpdateTask))
		return nil
	})
	o.wrapped = &u
	return err
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
		case "message", "update":
			return d.members(func(name []byte) (err error) {
				switch string(name) {
				case "messageId", "message_id":
					o.MessageID, err = d.text()
				case "parts", "content":
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
	if d.next() != '{' || len(o.Artifacts) == maxElements {
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
