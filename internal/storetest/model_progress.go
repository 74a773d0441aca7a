package storetest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// lapseBatch is how many runs, and how many sessions, one admission settles.
const lapseBatch = 100

func (m *Model) progress(p *sessions.Progress) error {
	t := m.trees[p.Root]
	if t == nil {
		return fmt.Errorf("tree %s: %w", p.Root, sessions.ErrNotFound)
	}
	s, run, err := t.about(p)
	if err != nil {
		return err
	}
	m.tell(t, s, run, p)
	return nil
}

// about finds the session and the run that p is about. Without a run, only
// events are told.
func (t *modelTree) about(p *sessions.Progress) (*node, *modelRun, error) {
	byTask := t.tasks[agentID{p.Agent, p.TaskID}]
	if p.TaskID == "" {
		byTask = nil
	}
	var run *modelRun
	switch {
	case p.Run != "":
		if run = t.run(p.Run); run == nil {
			return nil, nil, fmt.Errorf("run %s: %w", p.Run, sessions.ErrNotFound)
		}
	case byTask != nil:
		run = byTask
	}
	if p.Session == "" {
		if run == nil {
			return nil, nil, fmt.Errorf("task %s of agent %s: %w", p.TaskID, p.Agent, sessions.ErrNotFound)
		}
		return run.in, run, nil
	}
	s := t.node(p.Session)
	if s == nil || run != nil && run.in != s {
		return nil, nil, fmt.Errorf("session %s: %w", p.Session, sessions.ErrNotFound)
	}
	return s, run, nil
}

func (m *Model) tell(t *modelTree, s *node, run *modelRun, p *sessions.Progress) {
	now, by := m.now(), origin{s.Turn, p.TraceID}
	if run != nil {
		by.turn = run.turn
	}
	learnt := false
	if run != nil && run.TaskID == "" && p.TaskID != "" {
		run.TaskID = p.TaskID
		learnt = true
		if at := (agentID{s.Agent, p.TaskID}); t.tasks[at] == nil {
			t.tasks[at] = run
		}
		m.bind(sessions.BindingKey{Kind: sessions.BindTask, Agent: s.Agent, ID: p.TaskID}, t.binding())
	}
	if p.ContextID != "" && p.ContextID != s.ContextID {
		alias := s.ContextID != ""
		if !alias || t.contexts[agentID{s.Agent, p.ContextID}] == nil {
			if !alias {
				s.ContextID = p.ContextID
			}
			m.name(t, s, p.ContextID, false)
			t.append(now, s, by, fmt.Sprintf("bound/%s/%s", s.ID, p.ContextID), lineage.EventBound,
				sessions.BoundPayload{ContextID: p.ContextID, Alias: alias})
		}
	}
	for _, d := range p.Events {
		before := len(t.log)
		t.append(now, s, by, d.ID, d.Type, d.Payload)
		if len(t.log) > before && sessions.TellsTask(d.Type) {
			learnt = false // and told
		}
	}
	if learnt {
		t.append(now, s, by, "task/"+run.ID, lineage.EventTask, sessions.TaskPayload{Run: run.ID, TaskID: run.TaskID})
	}
	if run == nil {
		return
	}
	switch p.State {
	case lineage.Active:
		if run.State == lineage.Suspended {
			run.gen++
			run.lease = now.Add(run.length) // else it would be lost before it is seen again
			t.resume(now, s, run, by)
		}
	case lineage.Suspended:
		t.suspend(now, s, run, p, by)
	case lineage.Completed, lineage.Failed:
		t.end(now, s, run, p, by)
	case lineage.Expired: // not a run's to tell
	}
	if p.Detach > 0 && run.State == lineage.Active {
		run.lease, run.length, run.detached = now.Add(p.Detach), p.Detach, true
	}
}

// suspend makes an open run wait. One that waits in a session that has ended
// would wait for ever: it fails.
func (t *modelTree) suspend(now time.Time, s *node, run *modelRun, p *sessions.Progress, by origin) {
	if run.State != lineage.Active {
		return
	}
	if s.State.Terminal() {
		t.endRun(now, s, run, sessions.EndPayload{
			Run: run.ID, State: lineage.Failed, Reason: cmp.Or(p.Reason, lineage.ReasonNoInput),
		}, by)
		return
	}
	run.State, s.State = lineage.Suspended, lineage.Suspended
	t.append(now, s, by, fmt.Sprintf("suspended/%s/%d", run.ID, run.gen), lineage.EventSuspended, sessions.RunPayload{Run: run.ID})
}

// endsWithRun reports whether n ends when its last run does.
func (n *node) endsWithRun() bool { return n.Isolated || n.Kind == lineage.Worker }

// end ends a run, and its session if that ends with its last run.
func (t *modelTree) end(now time.Time, s *node, run *modelRun, p *sessions.Progress, by origin) {
	lost := p.State == lineage.Failed && p.Reason == lineage.ReasonLost
	guessed := run.State == lineage.Failed && run.Reason == lineage.ReasonLost
	switch {
	case lost && p.Gen != run.gen: // a newer call holds the run
		return
	case run.State.Terminal() && (!guessed || lost):
		return
	}
	end := sessions.EndPayload{Run: run.ID, State: p.State, Reason: p.Reason, Result: p.Result, Usage: p.Usage}
	run.State, run.Reason = end.State, end.Reason
	// A lost session is not lost again by the loss of a later run in it.
	lostAgain := lost && s.State == lineage.Failed
	if s.endsWithRun() && s.open() == 0 && s.State.CanBecome(s.Reason, p.State) && !lostAgain {
		typ := lineage.EventCompleted
		if p.State == lineage.Failed {
			typ = lineage.EventFailed
		}
		t.endSession(now, s, typ, end, by)
		return
	}
	t.endRun(now, s, run, end, by)
}

func (t *modelTree) endRun(now time.Time, s *node, run *modelRun, end sessions.EndPayload, by origin) {
	at := t.append(now, s, by, outcomeID("run/"+run.ID, end), lineage.EventRunEnded, end)
	run.State, run.Reason, run.EndedAt = end.State, end.Reason, &at
	s.keep(end)
	if s.State == lineage.Suspended && !s.waits() {
		s.State = lineage.Active
	}
}

// endSession ends s, and with it the run that ended last and those that wait.
func (t *modelTree) endSession(now time.Time, s *node, typ string, end sessions.EndPayload, by origin) {
	at := t.append(now, s, by, outcomeID("ended/"+s.ID, end), typ, end)
	s.State, s.Reason, s.EndedAt = end.State, end.Reason, &at
	for _, r := range s.runs {
		if r.ID == end.Run || !r.State.Terminal() {
			r.State, r.Reason, r.EndedAt = end.State, end.Reason, &at
		}
	}
	s.keep(end)
}

func (n *node) keep(end sessions.EndPayload) {
	if len(end.Result) > 0 {
		var r lineage.Result
		if err := json.Unmarshal(end.Result, &r); err == nil {
			n.Result = &r
		}
	}
	if len(end.Usage) > 0 {
		n.Usage = end.Usage
	}
}

func outcomeID(prefix string, end sessions.EndPayload) string {
	id := prefix + "/" + string(end.State)
	if end.Reason != "" {
		id += "/" + end.Reason
	}
	return id
}

// lapse settles what is due: first the runs nobody renewed, then the sessions
// past their deadline, each in the order in which they came due.
func (m *Model) lapse(t *modelTree) {
	now := m.now()
	var runs []*modelRun
	for _, n := range t.nodes {
		for _, r := range n.runs {
			if r.State == lineage.Active && r.lapsed(now) {
				runs = append(runs, r)
			}
		}
	}
	slices.SortFunc(runs, func(a, b *modelRun) int { return cmp.Or(a.lease.Compare(b.lease), cmp.Compare(a.ID, b.ID)) })
	for _, r := range runs[:min(len(runs), lapseBatch)] {
		m.tell(t, r.in, r, &sessions.Progress{
			Run: r.ID, Gen: r.gen, State: lineage.Failed, Reason: lineage.ReasonLost,
		})
	}

	var due []*node
	for _, n := range t.nodes {
		if n.Kind != lineage.Main && n.Deadline != nil && !n.Deadline.After(now) && n.open() == 0 && !n.State.Terminal() {
			due = append(due, n)
		}
	}
	slices.SortFunc(due, func(a, b *node) int { return cmp.Or(a.Deadline.Compare(*b.Deadline), cmp.Compare(a.ID, b.ID)) })
	for _, n := range due[:min(len(due), lapseBatch)] {
		t.endSession(now, n, lineage.EventExpired, sessions.EndPayload{State: lineage.Expired}, origin{turn: n.Turn})
	}
}
