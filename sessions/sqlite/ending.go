package sqlite

import (
	"fmt"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// askToStop begins the grace of s, in which its runs are to end, and has their
// agents asked. The first request stands, unless s has ended since, and runs
// have been opened in it.
func (b *batch) askToStop(t *treeRow, s *sessionRow, reason string, by origin) error {
	if s.Ending != "" {
		return nil
	}
	payload, err := encode(sessions.CancelPayload{Reason: reason, GraceMS: b.grace.Milliseconds()})
	if err != nil {
		return err
	}
	until := b.now.Add(b.grace)
	s.Ending, s.Deadline = reason, &until
	b.schedule(t, s)
	if err := b.logCancel(t, s, by, payload); err != nil {
		return err
	}
	runs, err := b.goingRuns(t, s)
	if err != nil {
		return err
	}
	b.noticeCancels(t, s, runs...)
	return nil
}

// logCancel logs that s is asked to stop. The first time that is the event of
// its name; a later one tells itself from it by its own number.
func (b *batch) logCancel(t *treeRow, s *sessionRow, by origin, payload []byte) error {
	id, before := "cancel/"+s.ID, t.seq
	if err := b.append(t, s, by, lineage.EventCancel, id, payload, true); err != nil || t.seq > before {
		return err
	}
	return b.log(t, s, by, lineage.EventCancel, numbered(id, t), payload)
}

// noticeCancels has it noticed that runs of s, which is being ended, are to stop.
func (b *batch) noticeCancels(t *treeRow, s *sessionRow, runs ...*runRow) {
	cancels := make([]sessions.Cancel, len(runs))
	for i, r := range runs {
		cancels[i] = sessions.Cancel{
			Root: t.Root, Session: s.ID, Run: r.ID, Agent: s.Agent, TaskID: r.TaskID,
			Reason: s.Ending, Grace: max(0, s.Deadline.Sub(b.now)),
		}
	}
	b.notices = append(b.notices, sessions.Notice{Cancels: cancels})
}

// timeIsUp: the time of s is over, or its grace. What is at work is asked to
// stop, what was asked and did not is made to, and what is idle ends. A session
// ends but once: of one that has ended, only the runs are left to end.
func (b *batch) timeIsUp(t *treeRow, s *sessionRow) error {
	by := origin{turn: s.Turn}
	end := sessions.EndPayload{State: lineage.Expired}
	switch {
	case s.Ending == "" && s.busy():
		return b.askToStop(t, s, lineage.ReasonExpired, by)
	case s.Ending != "" && s.Ending != lineage.ReasonExpired:
		end = sessions.EndPayload{State: lineage.Failed, Reason: s.Ending}
	}
	if s.State.Terminal() {
		return b.endRuns(t, s, end, by)
	}
	return b.endSession(t, s, nil, end, by, "")
}

// endRuns ends what was opened in s after its own end, which stands.
func (b *batch) endRuns(t *treeRow, s *sessionRow, end sessions.EndPayload, by origin) error {
	runs, err := b.goingRuns(t, s)
	if err != nil {
		return err
	}
	for _, r := range runs {
		end.Run = r.ID
		if err := b.endRun(t, s, r, end, by); err != nil {
			return err
		}
	}
	return nil
}

// endSession ends s, and with it r (nil: none) and all else that runs or waits
// in it, and then what is below it. asked is the trace of whoever asked for that.
func (b *batch) endSession(t *treeRow, s *sessionRow, r *runRow, end sessions.EndPayload, by origin, asked string) error {
	if err := b.finish(t, s, r, end, by); err != nil {
		return err
	}
	return b.cascade(t, s, asked)
}

// finish is the end of s itself, told to its parent.
func (b *batch) finish(t *treeRow, s *sessionRow, r *runRow, end sessions.EndPayload, by origin) error {
	payload, result, err := endPayload(end)
	if err != nil {
		return err
	}
	runs, err := b.endingRuns(t, s, r)
	if err != nil {
		return err
	}
	at := b.clock(t)
	for _, r := range runs {
		r.Reason, r.EndedAt = end.Reason, &at
		if err := b.move(t, s, r, end.State, func() {}); err != nil {
			return err
		}
	}
	err = b.relive(t, s, func() {
		s.State, s.Reason, s.EndedAt = end.State, end.Reason, &at
		s.Ending, s.Reserved = "", false
	})
	if err != nil {
		return err
	}
	keep(s, end, result)
	if err := b.log(t, s, by, endEvent(end.State), endID("ended/", s.ID, end.State, end.Reason), payload); err != nil {
		return err
	}
	if s.n == rootN {
		return nil
	}
	parent, err := b.session(t, s.parent)
	if err != nil {
		return err
	}
	return b.tellParent(t, parent, s, by)
}

// endEvent is the type of event that says a session has come to an end state.
func endEvent(state lineage.State) string {
	switch state {
	case lineage.Completed:
		return lineage.EventCompleted
	case lineage.Failed:
		return lineage.EventFailed
	default:
		return lineage.EventExpired
	}
}

// tellParent publishes what s leaves in the view of its parent.
func (b *batch) tellParent(t *treeRow, parent, s *sessionRow, by origin) error {
	payload, err := encode(sessions.ResultPayload{Session: s.ID, Agent: s.Agent, State: s.State, Reason: s.Reason, Result: s.result})
	if err != nil {
		return err
	}
	return b.log(t, parent, by, lineage.EventResult, endID("result/", s.ID, s.State, s.Reason), payload)
}

// endingRuns are the runs that end with s: r, unless nil, and all that are open
// or wait.
func (b *batch) endingRuns(t *treeRow, s *sessionRow, r *runRow) ([]*runRow, error) {
	if r == nil {
		return b.goingRuns(t, s)
	}
	if r.State.Terminal() { // a loss that is corrected
		runs, err := b.goingRuns(t, s)
		return append(runs, r), err
	}
	if s.open+s.waiting == 1 { // nearly always: no need to look
		return []*runRow{r}, nil
	}
	return b.goingRuns(t, s)
}

// goingRuns returns the open and waiting runs of s, oldest first.
func (b *batch) goingRuns(t *treeRow, s *sessionRow) ([]*runRow, error) {
	if !s.busy() {
		return nil, nil
	}
	// Left alone, SQLite would go through all runs of the session.
	places, err := b.places(`SELECT session, n FROM runs INDEXED BY runs_going WHERE tree = ? AND session = ? AND ended IS NULL ORDER BY n`, t.no, s.n)
	if err != nil {
		return nil, fmt.Errorf("looking for the runs under way in session %s: %w", s.ID, err)
	}
	runs := make([]*runRow, len(places))
	for i, at := range places {
		if runs[i], err = b.run(t, runPlace{t.no, at[0], at[1]}); err != nil {
			return nil, err
		}
	}
	return runs, nil
}

// schedule puts the time of s on the agenda, or takes it off.
func (b *batch) schedule(t *treeRow, s *sessionRow) {
	b.agenda.set(t.no, t.Root, item{kind: aSession, session: s.n}, s.ID, s.due())
	b.touch(s)
}
