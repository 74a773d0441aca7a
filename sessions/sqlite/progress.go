package sqlite

import (
	"cmp"
	"encoding/json"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// progress carries out one progress.
func (b *batch) progress(p *sessions.Progress) error {
	t, err := b.tree(p.Root)
	if err != nil {
		return err
	}
	if t == nil {
		return fmt.Errorf("tree %s: %w", p.Root, sessions.ErrNotFound)
	}
	s, r, err := b.about(t, p)
	if err != nil {
		return err
	}
	return b.tell(t, s, r, p)
}

// about finds the session and the run that p is about. Without a run, only
// events are told.
func (b *batch) about(t *treeRow, p *sessions.Progress) (s *sessionRow, r *runRow, err error) {
	if p.Run != "" {
		if r, err = b.runByID(t, p.Run); err == nil && r == nil {
			err = fmt.Errorf("run %s: %w", p.Run, sessions.ErrNotFound)
		}
	} else if k, e := b.runKey(t, p.TaskID, keyTask, p.Agent); e != nil || k != nil {
		if err = e; err == nil {
			r, err = b.run(t, runPlace{t.no, k.session, k.run})
		}
	}
	if err != nil {
		return nil, nil, err
	}
	if p.Session == "" {
		if r == nil {
			return nil, nil, fmt.Errorf("task %s of agent %s: %w", p.TaskID, p.Agent, sessions.ErrNotFound)
		}
		s, err = b.session(t, r.session)
		return s, r, err
	}
	if s, err = b.sessionByID(t, p.Session); err != nil {
		return nil, nil, err
	}
	if s == nil || r != nil && r.session != s.n {
		return nil, nil, fmt.Errorf("session %s: %w", p.Session, sessions.ErrNotFound)
	}
	return s, r, nil
}

// tell takes note of p, which is about s and, unless nil, r.
func (b *batch) tell(t *treeRow, s *sessionRow, r *runRow, p *sessions.Progress) error {
	by := origin{s.Turn, p.TraceID}
	if r != nil {
		by.turn = r.turn
	}
	for _, raw := range [...]json.RawMessage{p.Result, p.Usage} {
		if len(raw) > 0 && !json.Valid(raw) {
			return fmt.Errorf("%w: the result or usage of session %s is no JSON", errInvalid, s.ID)
		}
	}
	untold, err := b.learnTask(t, s, r, p.TaskID)
	if err != nil {
		return err
	}
	if err := b.learnContext(t, s, p.ContextID, by); err != nil {
		return err
	}
	for i := range p.Events {
		d := &p.Events[i]
		before := t.seq
		if err := b.logTold(t, s, by, d.Type, d.ID, d.Payload); err != nil {
			return err
		}
		// An event that another run of the task has told tells nothing here.
		untold = untold && (t.seq == before || !sessions.TellsTask(d.Type))
	}
	if r == nil {
		return nil
	}
	if untold {
		if err := b.logTask(t, s, r, by); err != nil {
			return err
		}
	}
	switch p.State {
	case lineage.Active:
		err = b.resume(t, s, r, by)
	case lineage.Suspended:
		err = b.suspend(t, s, r, p.Reason, by)
	case lineage.Completed, lineage.Failed:
		err = b.end(t, s, r, p.Gen, sessions.EndPayload{
			Run: r.ID, State: p.State, Reason: p.Reason, Result: p.Result, Usage: p.Usage,
		}, by)
	case lineage.Expired: // only a deadline makes that
	}
	if err == nil && p.Detach > 0 && p.Gen >= r.gen {
		b.detach(t, s, r, p.Detach)
	}
	return err
}

// detach: no call holds r any more. One that is suspended by request gets its
// time when it is resumed; one whose lease has lapsed gets none.
func (b *batch) detach(t *treeRow, s *sessionRow, r *runRow, lease time.Duration) {
	switch {
	case r.State == lineage.Active && r.lease.After(b.now):
		b.holdFor(t, s, r, lease)
	case r.State == lineage.Suspended && r.Reason == lineage.ReasonRequested:
		r.hold = lease
		b.touchRun(r)
	default:
		return
	}
	r.owner, r.detached = "", true
}

// learnTask: the run's task is this. The first run of a task keeps it. It
// reports whether that is news, which the log must tell.
func (b *batch) learnTask(t *treeRow, s *sessionRow, r *runRow, taskID string) (news bool, err error) {
	if r == nil || r.TaskID != "" || taskID == "" {
		return false, nil
	}
	r.TaskID = taskID
	b.touchRun(r)
	return true, b.follow(t, lead{kind: keyTask, agent: s.Agent, id: taskID, to: key{r.session, r.n}}, 0)
}

func (b *batch) logTask(t *treeRow, s *sessionRow, r *runRow, by origin) error {
	payload, err := encode(sessions.TaskPayload{Run: r.ID, TaskID: r.TaskID})
	if err != nil {
		return err
	}
	return b.log(t, s, by, lineage.EventTask, "task/"+r.ID, payload)
}

// learnContext: the agent's reply named this context. It is the session's own
// if that has none yet, else an alias, unless another session has it.
func (b *batch) learnContext(t *treeRow, s *sessionRow, contextID string, by origin) error {
	if contextID == "" || contextID == s.ContextID {
		return nil
	}
	alias := s.ContextID != ""
	if alias {
		k, err := b.lookUp(t, keyContext, s.Agent, contextID)
		if err != nil || k != nil {
			return err
		}
	} else {
		s.ContextID = contextID
		b.touch(s)
	}
	if err := b.name(t, s, contextID, false, alias); err != nil {
		return err
	}
	payload, err := encode(sessions.BoundPayload{ContextID: contextID, Alias: alias})
	if err != nil {
		return err
	}
	return b.log(t, s, by, lineage.EventBound, "bound/"+s.ID+"/"+contextID, payload)
}

// resume: a run that waited for an answer is seen working again. One that was
// suspended by request waits until it is resumed.
func (b *batch) resume(t *treeRow, s *sessionRow, r *runRow, by origin) error {
	if r.State != lineage.Suspended || r.Reason == lineage.ReasonRequested {
		return nil
	}
	r.gen++
	return b.reopen(t, s, r, by, runStepID("resumed", r))
}

// suspend makes an open run wait. One that would wait in a session that has
// ended would wait for ever: it fails.
func (b *batch) suspend(t *treeRow, s *sessionRow, r *runRow, reason string, by origin) error {
	switch {
	case r.State == lineage.Suspended && r.Reason == lineage.ReasonRequested:
		return b.awaitAnswer(t, s, r, by)
	case r.State != lineage.Active:
		return nil
	case s.State.Terminal():
		return b.endRun(t, s, r, sessions.EndPayload{
			Run: r.ID, State: lineage.Failed, Reason: cmp.Or(reason, lineage.ReasonNoInput),
		}, by)
	}
	if err := b.move(t, s, r, lineage.Suspended, func() { s.State = lineage.Suspended }); err != nil {
		return err
	}
	return b.logStep(t, s, by, lineage.EventSuspended, runStepID("suspended", r), r.ID, "")
}

// awaitAnswer: what was suspended by request now waits for an answer as well.
func (b *batch) awaitAnswer(t *treeRow, s *sessionRow, r *runRow, by origin) error {
	r.Reason, s.State = "", lineage.Suspended
	b.touchRun(r)
	return b.logStep(t, s, by, lineage.EventSuspended, runStepID("suspended", r)+"/waits", r.ID, "")
}

// end ends a run, and its session if that ends with its last run. An end is
// final, unless it was the guess that the run is lost.
func (b *batch) end(t *treeRow, s *sessionRow, r *runRow, gen int, end sessions.EndPayload, by origin) error {
	lost := end.State == lineage.Failed && end.Reason == lineage.ReasonLost
	guessed := r.State == lineage.Failed && r.Reason == lineage.ReasonLost
	switch {
	case lost && gen != r.gen: // a newer call holds the run
		return nil
	case r.State.Terminal() && (!guessed || lost):
		return nil
	}
	if s.endsWith(r, end) {
		return b.endSession(t, s, r, end, by, "")
	}
	return b.endRun(t, s, r, end, by)
}

// endsWith reports whether s ends when the end of r is seen.
func (s *sessionRow) endsWith(r *runRow, end sessions.EndPayload) bool {
	open, waiting := s.open-count(r.State, lineage.Active), s.waiting-count(r.State, lineage.Suspended)
	switch {
	case open > 0 || !s.State.CanBecome(s.Reason, end.State):
		return false
	case s.State.Terminal(): // it was lost: the agent's own word corrects that, and it is not lost again
		return end.Reason != lineage.ReasonLost
	}
	return s.Isolated || s.Kind == lineage.Worker || s.Ending != "" && waiting == 0
}

// endRun ends r alone. A session that waited only for it waits no more.
func (b *batch) endRun(t *treeRow, s *sessionRow, r *runRow, end sessions.EndPayload, by origin) error {
	payload, result, err := endPayload(end)
	if err != nil {
		return err
	}
	at := b.clock(t)
	r.Reason, r.EndedAt = end.Reason, &at
	err = b.move(t, s, r, end.State, func() {
		if s.State == lineage.Suspended && s.waiting == 0 {
			s.State = lineage.Active
		}
		if !s.unfinished() {
			s.Ending = "" // of what was opened in it after its end
		}
	})
	if err != nil {
		return err
	}
	keep(s, end, result)
	return b.log(t, s, by, lineage.EventRunEnded, endID("run/", r.ID, end.State, end.Reason), payload)
}

// keep keeps what an end leaves behind. The row is written with its event.
func keep(s *sessionRow, end sessions.EndPayload, result *lineage.Result) {
	if result != nil {
		s.Result, s.result = result, end.Result
	}
	if len(end.Usage) > 0 {
		s.Usage = end.Usage
	}
}
