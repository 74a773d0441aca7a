package sessions

import (
	"encoding/json"
	"slices"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Payloads of the events that change state. Stores write them, [Project] reads
// them; the payloads of other events are whatever the proxy saw.
type (
	// SpawnPayload is the payload of session.spawned. Branch and tokens stand
	// on the event itself.
	SpawnPayload struct {
		Parent       string               `json:"parent"`
		Edge         lineage.Edge         `json:"edge"`
		Kind         lineage.Kind         `json:"kind"`
		Agent        string               `json:"agent"`
		ContextID    string               `json:"contextId"`
		Depth        int                  `json:"depth"`
		Ordinal      int                  `json:"ordinal"`
		Read         lineage.Tokens       `json:"read"`
		Isolated     bool                 `json:"isolated"`
		Inherit      lineage.Inherit      `json:"inherit"`
		Remote       bool                 `json:"remote"`
		ParentSource lineage.ParentSource `json:"parentSource"`
		Reserved     bool                 `json:"reserved,omitempty"`
		Abandon      bool                 `json:"abandon,omitempty"`
	}
	// RunPayload is in the payload of every event about a run. That of
	// session.suspended and session.resumed has no run where the session had none
	// to suspend; its reason is lineage.ReasonRequested if somebody asked for it.
	RunPayload struct {
		Run    string `json:"run,omitempty"`
		Reason string `json:"reason,omitempty"`
	}
	// CancelPayload is the payload of session.cancel_requested.
	CancelPayload struct {
		Reason  string `json:"reason"`  // lineage.Session.Ending
		GraceMS int64  `json:"graceMs"` // from the event on, in milliseconds
	}
	// ResultPayload is the payload of session.result, an event of the parent.
	ResultPayload struct {
		Session string          `json:"session"` // the child that ended
		Agent   string          `json:"agent"`
		State   lineage.State   `json:"state"`
		Reason  string          `json:"reason,omitempty"`
		Result  json.RawMessage `json:"result,omitempty"`
	}
	// SentPayload is the part of message.sent that opens a run: one that is
	// not there yet starts, one that is there goes on.
	SentPayload struct {
		Run       string `json:"run"`
		Caller    string `json:"caller"`
		MessageID string `json:"messageId"`
		TaskID    string `json:"taskId,omitempty"`
	}
	// TaskPayload is the part of an event that tells a run's task (TellsTask),
	// and all of task.bound.
	TaskPayload struct {
		Run    string `json:"run"`
		TaskID string `json:"taskId,omitempty"`
	}
	// BoundPayload is the payload of context.bound. An alias leaves the
	// session's own context id as it is.
	BoundPayload struct {
		ContextID string `json:"contextId"`
		Alias     bool   `json:"alias,omitempty"`
	}
	// EndPayload is the payload of run.ended and of the ends of sessions. The
	// end of a session ends all its runs that are still open or suspended,
	// with the same state and reason.
	EndPayload struct {
		Run    string          `json:"run,omitempty"`
		State  lineage.State   `json:"state"`
		Reason string          `json:"reason,omitempty"`
		Result json.RawMessage `json:"result,omitempty"`
		Usage  json.RawMessage `json:"usage,omitempty"`
	}
)

// TellsTask reports whether events of a type tell the task of the run that
// they name. A store that learns a run's task by a [Progress] none of whose new
// events does, logs it itself, as task.bound.
func TellsTask(eventType string) bool {
	switch eventType {
	case lineage.EventStatus, lineage.EventArtifact, lineage.EventReceived, lineage.EventTask:
		return true
	default:
		return false
	}
}

// Project folds a log, in order, into the state that it tells: the sessions
// with their runs, in spawn order. Every store's state equals it.
//
// Fields that no event tells are left zero: Owner, Deadline, UpdatedAt.
func Project(root string, log []lineage.Event) []lineage.Session {
	p := projection{root: root, at: map[string]int{}}
	for i := range log {
		p.apply(&log[i])
	}
	return p.sessions
}

type projection struct {
	root     string
	sessions []lineage.Session
	at       map[string]int // session id → index
}

func (p *projection) apply(e *lineage.Event) {
	if e.Type == lineage.EventSpawned {
		var sp SpawnPayload
		if json.Unmarshal(e.Payload, &sp) != nil {
			return
		}
		p.at[e.Session] = len(p.sessions)
		p.sessions = append(p.sessions, lineage.Session{
			ID: e.Session, Tree: p.root, Parent: sp.Parent, Edge: sp.Edge, Kind: sp.Kind,
			Agent: sp.Agent, ContextID: sp.ContextID, State: lineage.Active, Depth: sp.Depth,
			Branch: e.Branch, Ordinal: sp.Ordinal, Tokens: e.Tokens, Read: sp.Read,
			Isolated: sp.Isolated, Inherit: sp.Inherit, Remote: sp.Remote, Turn: e.Turn,
			Reserved: sp.Reserved, Abandon: sp.Abandon, ParentSource: sp.ParentSource, CreatedAt: e.Time, Version: e.Seq, TraceID: e.TraceID,
		})
		return
	}
	i, ok := p.at[e.Session]
	if !ok {
		return
	}
	s := &p.sessions[i]
	s.Version = e.Seq
	switch e.Type {
	case lineage.EventSent:
		var sent SentPayload
		if json.Unmarshal(e.Payload, &sent) == nil {
			s.Reserved = false
			openRun(s, sent, e)
		}
	case lineage.EventBound:
		var b BoundPayload
		if json.Unmarshal(e.Payload, &b) == nil && !b.Alias {
			s.ContextID = b.ContextID
		}
	case lineage.EventSuspended, lineage.EventResumed:
		var r RunPayload
		if json.Unmarshal(e.Payload, &r) != nil {
			return
		}
		s.State = lineage.Suspended
		if e.Type == lineage.EventResumed {
			s.State = lineage.Active
		}
		if run := findRun(s, r.Run); run != nil {
			run.State, run.Reason = s.State, r.Reason
		}
	case lineage.EventCancel:
		var c CancelPayload
		if json.Unmarshal(e.Payload, &c) == nil {
			s.Ending = c.Reason
		}
	case lineage.EventRunEnded:
		var end EndPayload
		if json.Unmarshal(e.Payload, &end) != nil {
			return
		}
		if run := findRun(s, end.Run); run != nil {
			endRun(run, end, e)
		}
		keep(s, end)
		waits := slices.ContainsFunc(s.Runs, func(r lineage.Run) bool { return r.State == lineage.Suspended })
		if s.State == lineage.Suspended && !waits {
			s.State = lineage.Active
		}
		open := slices.ContainsFunc(s.Runs, func(r lineage.Run) bool { return r.State == lineage.Active })
		if s.State.Terminal() && !open {
			s.Ending = "" // what was opened after its end has ended, too
		}
	case lineage.EventCompleted, lineage.EventFailed, lineage.EventExpired:
		var end EndPayload
		if json.Unmarshal(e.Payload, &end) != nil {
			return
		}
		at := e.Time // a copy: the state does not hang on to the log
		s.State, s.Reason, s.EndedAt = end.State, end.Reason, &at
		s.Ending, s.Reserved = "", false
		for r := range s.Runs {
			if run := &s.Runs[r]; run.ID == end.Run || !run.State.Terminal() {
				endRun(run, end, e)
			}
		}
		keep(s, end)
	case lineage.EventStatus, lineage.EventArtifact, lineage.EventReceived, lineage.EventTask:
		var t TaskPayload
		if json.Unmarshal(e.Payload, &t) != nil || t.TaskID == "" {
			return
		}
		if run := findRun(s, t.Run); run != nil && run.TaskID == "" {
			run.TaskID = t.TaskID
		}
	}
}

// openRun starts a run, or lets one that is there go on.
func openRun(s *lineage.Session, sent SentPayload, e *lineage.Event) {
	if findRun(s, sent.Run) != nil {
		return
	}
	s.Runs = append(s.Runs, lineage.Run{
		ID: sent.Run, Caller: sent.Caller, TaskID: sent.TaskID, MessageID: sent.MessageID,
		State: lineage.Active, StartedAt: e.Time,
	})
}

func findRun(s *lineage.Session, id string) *lineage.Run {
	for i := range s.Runs {
		if s.Runs[i].ID == id {
			return &s.Runs[i]
		}
	}
	return nil
}

func endRun(run *lineage.Run, end EndPayload, e *lineage.Event) {
	at := e.Time // a copy: the state does not hang on to the log
	run.State, run.Reason, run.EndedAt = end.State, end.Reason, &at
}

func keep(s *lineage.Session, end EndPayload) {
	if len(end.Result) > 0 {
		var r lineage.Result
		if json.Unmarshal(end.Result, &r) == nil {
			s.Result = &r
		}
	}
	if len(end.Usage) > 0 {
		s.Usage = end.Usage
	}
}
