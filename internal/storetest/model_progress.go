package storetest

import (
	"cmp"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

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
		if run.State == lineage.Suspended && run.Reason != lineage.ReasonRequested {
			run.gen++
			run.lease = now.Add(run.length) // else it would be lost before it is seen again
			t.resume(now, s, run, by, grantID("resumed", run))
		}
	case lineage.Suspended:
		t.suspend(now, s, run, p, by)
	case lineage.Completed, lineage.Failed:
		m.end(now, t, s, run, p, by)
	case lineage.Expired: // not a run's to tell
	}
	if p.Detach > 0 && p.Gen >= run.gen {
		run.detach(now, p.Detach)
	}
}

// detach: no call holds the run any more. One that is suspended by request gets
// its time when it is resumed; one whose lease has lapsed gets none.
func (r *modelRun) detach(now time.Time, length time.Duration) {
	switch {
	case r.State == lineage.Active && !r.lapsed(now):
		r.lease = now.Add(length)
	case r.State == lineage.Suspended && r.Reason == lineage.ReasonRequested:
	default:
		return
	}
	r.length, r.detached = length, true
}

// suspend makes an open run wait, or one that was suspended by request wait for
// an answer as well. One that waits in a session that has ended would wait for
// ever: it fails.
func (t *modelTree) suspend(now time.Time, s *node, run *modelRun, p *sessions.Progress, by origin) {
	id := grantID("suspended", run)
	switch {
	case run.State == lineage.Suspended && run.Reason == lineage.ReasonRequested:
		id += "/waits"
	case run.State != lineage.Active:
		return
	case s.State.Terminal():
		t.endRun(now, s, run, sessions.EndPayload{
			Run: run.ID, State: lineage.Failed, Reason: cmp.Or(p.Reason, lineage.ReasonNoInput),
		}, by)
		return
	}
	run.State, run.Reason, s.State = lineage.Suspended, "", lineage.Suspended
	t.append(now, s, by, id, lineage.EventSuspended, sessions.RunPayload{Run: run.ID})
}

// end ends a run as somebody saw it, and its session if that ends with it.
func (m *Model) end(now time.Time, t *modelTree, s *node, run *modelRun, p *sessions.Progress, by origin) {
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
	if s.endsWith(end) {
		m.endSession(now, t, s, end, by, "")
		return
	}
	t.endRun(now, s, run, end, by)
}

// endsWith reports whether n ends when the end of a run in it is seen, which is
// closed already.
func (n *node) endsWith(end sessions.EndPayload) bool {
	if n.open() > 0 || !n.State.CanBecome(n.Reason, end.State) {
		return false
	}
	if n.State.Terminal() { // it was lost: the agent's own word corrects that, and it is not lost again
		return end.Reason != lineage.ReasonLost
	}
	return n.Isolated || n.Kind == lineage.Worker || n.Ending != "" && !n.waits()
}

func (t *modelTree) endRun(now time.Time, s *node, run *modelRun, end sessions.EndPayload, by origin) {
	at := t.append(now, s, by, outcomeID("run/"+run.ID, end), lineage.EventRunEnded, end)
	run.State, run.Reason, run.EndedAt = end.State, end.Reason, &at
	s.keep(end)
	if s.State == lineage.Suspended && !s.waits() {
		s.State = lineage.Active
	}
	if !s.unfinished() {
		s.Ending = "" // of what was opened in it after its end
	}
}
