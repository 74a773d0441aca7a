package sessions

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strconv"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Bounds of what one run gathers in memory.
const (
	maxGathered      = 64      // artifacts whose chunks are still coming
	maxGatheredBytes = 1 << 20 // of one artifact's chunks; what is beyond is not kept
	maxMade          = 256     // artifacts in a result
	maxUsage         = 4 << 10 // bytes of a usage report
	maxTimestamp     = 64      // bytes of a status's time
)

// gathered is an artifact that comes in chunks: they make one event.
type gathered struct {
	id, name string
	raw      [][]byte // arrays of parts, copied
	bytes    int
	cut      bool
}

// sent is the payload of message.sent, but for what only the store knows.
func (r *Record) sent(req *wire.Request) json.RawMessage {
	return r.payload(struct {
		Method string `json:"method"`
		kept
	}{req.Method, r.opts.Content.parts(req.Parts())})
}

// payload encodes what is known to be encodable.
func (r *Record) payload(v any) json.RawMessage {
	b, err := json.Marshal(v)
	if err != nil {
		r.opts.Logger.Error("encoding an event failed", "error", err)
		return json.RawMessage("{}")
	}
	return b
}

// note turns what the agent said into events and into the state of the run.
// r.mu is held.
func (r *Run) note(u wire.Update) {
	if wire.CheckID("taskId", u.TaskID) != nil {
		u.TaskID = ""
	}
	if r.follows && u.TaskID != "" && u.TaskID != r.task {
		return // it was asked for another, and says nothing of that
	}
	if wire.CheckID("contextId", u.ContextID) != nil {
		u.ContextID = ""
	}
	if len(u.Timestamp) > maxTimestamp {
		u.Timestamp = ""
	}
	if u.TaskID != "" && r.task == "" {
		r.task, r.pending.TaskID = u.TaskID, u.TaskID
		r.heardOf(BindTask, u.TaskID)
		r.record.known.Add(BindingKey{BindTask, r.agent.Name, u.TaskID}, r.session)
		r.record.learnt(r)
	}
	if u.ContextID != "" && u.ContextID != r.contextID {
		r.pending.ContextID = u.ContextID
		r.heardOf(BindContext, u.ContextID)
		if r.contextID == "" {
			r.contextID = u.ContextID
		}
	}
	if usage := usageOf(u.Metadata); usage != nil {
		r.usage = usage
	}
	switch u.Kind {
	case wire.UpdateMessage:
		r.noteMessage(u)
	case wire.UpdateTask:
		for _, a := range u.Artifacts {
			r.gather(a, false)
		}
		r.noteStatus(u)
	case wire.UpdateStatus:
		r.noteStatus(u)
	case wire.UpdateArtifact:
		for _, a := range u.Artifacts {
			r.gather(a, u.Append)
			if u.LastChunk {
				r.noteArtifact(a.ID)
			}
		}
	case wire.UpdateError:
		r.noteError(u)
	case wire.UpdateTasks, wire.UpdateOther:
	}
}

// noteError takes note that the agent refused the call. That says nothing of
// the task that another call asks about, or that this one would have continued.
func (r *Run) noteError(u wire.Update) {
	switch {
	case r.follows:
	case r.record.shared(r):
		r.rebuked = true
	case r.joined: // the task is at work as before: see End
	case r.resumed:
		r.settled = true
		r.become(lineage.Suspended, lineage.ReasonAgentError)
	default:
		r.finish(lineage.Failed, lineage.ReasonAgentError, r.content().said("error "+strconv.Itoa(u.ErrorCode)+": "+u.ErrorMessage))
	}
}

func (r *Run) noteMessage(u wire.Update) {
	id := r.topic()
	if u.MessageID != "" {
		u.MessageID = safeID(u.MessageID)
		id = u.MessageID
	}
	r.draft("received/"+r.agent.Name+"/"+id, lineage.EventReceived, struct {
		Run       string `json:"run"`
		MessageID string `json:"messageId,omitempty"`
		TaskID    string `json:"taskId,omitempty"`
		ContextID string `json:"contextId,omitempty"`
		kept
	}{r.id, u.MessageID, u.TaskID, u.ContextID, r.content().parts(u.Parts)})
	r.finish(lineage.Completed, "", r.content().summary(u.Parts))
}

func (r *Run) noteStatus(u wire.Update) {
	if u.State == wire.TaskUnknown {
		return
	}
	if u.State.Terminal() {
		r.noteArtifacts() // what a task made was there before it ended
	}
	// The same status, seen in two streams or in a stream and a task, is one event.
	h := sha256.New()
	h.Write([]byte(u.Timestamp))
	h.Write(u.Parts)
	id := "status/" + r.agent.Name + "/" + r.topic() + "/" + u.State.String() + "/" + hex.EncodeToString(h.Sum(nil)[:8])
	var said any
	if len(u.Parts) > 0 {
		said = r.content().parts(u.Parts)
	}
	r.draft(id, lineage.EventStatus, struct {
		Run       string `json:"run"`
		TaskID    string `json:"taskId,omitempty"`
		ContextID string `json:"contextId,omitempty"`
		State     string `json:"state"`
		Timestamp string `json:"timestamp,omitempty"`
		Message   any    `json:"message,omitempty"`
	}{r.id, r.task, u.ContextID, u.State.String(), u.Timestamp, said})

	summary := r.content().summary(u.Parts)
	r.working = !u.State.Terminal() && !u.State.Interrupted()
	switch u.State {
	case wire.TaskSubmitted, wire.TaskWorking:
		r.settled = false
		r.become(lineage.Active, "")
	case wire.TaskInputRequired, wire.TaskAuthRequired:
		if r.session.Kind == lineage.Worker {
			r.finish(lineage.Failed, lineage.ReasonNoInput, summary)
			return
		}
		r.settled = true
		r.become(lineage.Suspended, u.State.String())
	case wire.TaskCompleted:
		r.finish(lineage.Completed, "", summary)
	case wire.TaskFailed:
		r.finish(lineage.Failed, "", summary)
	case wire.TaskCanceled:
		r.finish(lineage.Failed, lineage.ReasonCanceled, summary)
	case wire.TaskRejected:
		r.finish(lineage.Failed, lineage.ReasonRejected, summary)
	case wire.TaskUnknown:
	}
}

// become moves the run. r.mu is held.
func (r *Run) become(state lineage.State, reason string) {
	r.pending.State, r.pending.Reason = state, reason
	r.last = state
}

// finish ends the run with a result.
func (r *Run) finish(state lineage.State, reason, summary string) {
	r.noteArtifacts()
	r.settled = true
	r.become(state, reason)
	r.pending.Result = r.record.payload(lineage.Result{
		Status: state, Summary: cmp.Or(summary, r.text), Artifacts: r.made,
	})
	r.pending.Usage = r.usage
}

// gather adds a chunk to its artifact, or begins it anew.
func (r *Run) gather(a wire.Artifact, more bool) {
	i := slices.IndexFunc(r.parts, func(g gathered) bool { return g.id == a.ID })
	if i < 0 {
		if len(r.parts) == maxGathered {
			r.noteArtifacts()
		}
		i = len(r.parts)
		r.parts = append(r.parts, gathered{id: a.ID})
	} else if !more {
		r.parts[i] = gathered{id: a.ID}
	}
	g := &r.parts[i]
	if a.Name != "" {
		g.name = a.Name
	}
	if g.bytes += len(a.Parts); g.bytes > maxGatheredBytes && len(g.raw) > 0 {
		g.cut = true
		return
	}
	g.raw = append(g.raw, slices.Clone(a.Parts))
	if g.bytes > maxGatheredBytes {
		r.noteArtifact(a.ID) // too large to keep while others gather
	}
}

// noteArtifact makes one event of the artifact that has gathered under id.
func (r *Run) noteArtifact(id string) {
	i := slices.IndexFunc(r.parts, func(g gathered) bool { return g.id == id })
	if i < 0 {
		return
	}
	g := r.parts[i]
	r.parts = slices.Delete(r.parts, i, i+1)
	raw := joinArrays(g.raw)
	parts, err := wire.ReadParts(raw)
	if err != nil {
		return // no array of parts: the artifact says nothing that could be kept
	}
	about := describe(r.content().label(safeID(g.id)), r.content().label(g.name), parts)
	about.MediaType = r.content().label(about.MediaType)
	r.draft("artifact/"+r.agent.Name+"/"+r.topic()+"/"+about.ID+"/"+about.SHA256[:16], lineage.EventArtifact, struct {
		Run    string `json:"run"`
		TaskID string `json:"taskId,omitempty"`
		lineage.Artifact
		Cut bool `json:"truncated,omitempty"`
		kept
	}{r.id, r.task, about, g.cut, r.content().parts(raw)})
	if len(r.made) < maxMade && !slices.Contains(r.made, about) {
		r.made = append(r.made, about)
	}
	if r.text == "" {
		r.text = r.content().summary(raw)
	}
}

// noteArtifacts does so with all that have gathered.
func (r *Run) noteArtifacts() {
	for len(r.parts) > 0 {
		r.noteArtifact(r.parts[0].id)
	}
}

// topic names what the run is about in the ids of events: its task, so that
// all who hear of it name an event alike; the run where there is none.
func (r *Run) topic() string { return cmp.Or(r.task, r.id) }

// safeID is an id of the agent's as it may stand in an event: itself, or the
// digest of one that is no proper id.
func safeID(id string) string {
	if id == "" || wire.CheckID("id", id) == nil {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// joinArrays joins raw JSON arrays into one.
func joinArrays(arrays [][]byte) []byte {
	if len(arrays) == 1 {
		return arrays[0]
	}
	var items []json.RawMessage
	for _, a := range arrays {
		var some []json.RawMessage
		if json.Unmarshal(a, &some) == nil {
			items = append(items, some...)
		}
	}
	joined, err := json.Marshal(items)
	if err != nil {
		return nil
	}
	return joined
}

func (r *Run) draft(id, event string, payload any) {
	r.pending.Events = append(r.pending.Events, Draft{ID: id, Type: event, Payload: r.record.payload(payload)})
}

func (r *Run) content() *Content { return &r.record.opts.Content }

// usageOf returns what a runtime says a task has cost, nil if nothing.
// kagent's agents send a running total, so the last one stands.
func usageOf(metadata []byte) json.RawMessage {
	if len(metadata) == 0 {
		return nil
	}
	var m struct {
		Kagent json.RawMessage `json:"kagent_usage_metadata"`
	}
	if json.Unmarshal(metadata, &m) != nil || len(m.Kagent) > maxUsage || !bytes.HasPrefix(m.Kagent, []byte("{")) {
		return nil
	}
	return m.Kagent
}
