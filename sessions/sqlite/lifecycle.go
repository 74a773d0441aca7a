package sqlite

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// step carries out one change.
func (b *batch) step(c *sessions.Change) (sessions.Grant, error) {
	t, err := b.tree(c.Root)
	if err == nil && t == nil {
		err = fmt.Errorf("tree %s: %w", c.Root, sessions.ErrNotFound)
	}
	if err != nil {
		return sessions.Grant{}, err
	}
	s, err := b.sessionByID(t, c.Session)
	if err == nil && s == nil {
		err = fmt.Errorf("session %s of tree %s: %w", c.Session, c.Root, sessions.ErrNotFound)
	}
	if err != nil {
		return sessions.Grant{}, err
	}
	if len(c.Result) > 0 && !json.Valid(c.Result) {
		return sessions.Grant{}, fmt.Errorf("%w: the result of session %s is no JSON", errInvalid, c.Session)
	}
	if _, err := b.settle(t); err != nil {
		return sessions.Grant{}, err
	}
	runs, err := b.goingRuns(t, s)
	if err != nil {
		return sessions.Grant{}, err
	}
	waits := slices.ContainsFunc(runs, func(r *runRow) bool {
		return r.State == lineage.Suspended && r.Reason != lineage.ReasonRequested
	})
	if conflict := c.Verb.Check(&s.Session, waits); conflict != nil {
		return sessions.Grant{}, conflict
	}
	if err := b.take(t, s, runs, c); err != nil {
		return sessions.Grant{}, err
	}
	return sessions.Grant{Session: s.Session}, nil
}

// take takes the step c, which s allows. runs are those under way in s.
func (b *batch) take(t *treeRow, s *sessionRow, runs []*runRow, c *sessions.Change) error {
	by := origin{s.Turn, c.TraceID}
	end := func(end sessions.EndPayload) error { return b.endSession(t, s, nil, end, by, c.TraceID) }
	switch c.Verb {
	case lineage.VerbComplete:
		return end(sessions.EndPayload{State: lineage.Completed, Result: c.Result})
	case lineage.VerbFail:
		return end(sessions.EndPayload{State: lineage.Failed, Reason: c.Reason, Result: c.Result})
	case lineage.VerbSuspend:
		return b.park(t, s, runs, by)
	case lineage.VerbResume:
		return b.unpark(t, s, runs, by)
	case lineage.VerbCancel:
		if s.busy() {
			return b.askToStop(t, s, lineage.ReasonCanceled, by)
		}
		return end(sessions.EndPayload{State: lineage.Failed, Reason: lineage.ReasonCanceled})
	default:
		return fmt.Errorf("%w: there is no step %q", errInvalid, c.Verb)
	}
}

// park makes s wait until somebody resumes it. Its open runs yield their places.
func (b *batch) park(t *treeRow, s *sessionRow, runs []*runRow, by origin) error {
	idle := true
	for _, r := range runs {
		if r.State != lineage.Active {
			continue
		}
		idle = false
		r.Reason = lineage.ReasonRequested
		if err := b.move(t, s, r, lineage.Suspended, func() {}); err != nil {
			return err
		}
		if err := b.logStep(t, s, by, lineage.EventSuspended, runStepID("suspended", r), r.ID, r.Reason); err != nil {
			return err
		}
	}
	s.State = lineage.Suspended
	if !idle {
		return nil
	}
	return b.logStep(t, s, by, lineage.EventSuspended, sessionStepID("suspended", t, s), "", lineage.ReasonRequested)
}

// unpark lets s go on, with all that waits in it. It asks for no place: what
// stands under its parent has stood there all the time.
func (b *batch) unpark(t *treeRow, s *sessionRow, runs []*runRow, by origin) error {
	idle := true
	for _, r := range runs {
		if r.State != lineage.Suspended {
			continue
		}
		idle = false
		if err := b.reopen(t, s, r, by); err != nil {
			return err
		}
	}
	s.State = lineage.Active
	if !idle {
		return nil
	}
	return b.logStep(t, s, by, lineage.EventResumed, sessionStepID("resumed", t, s), "", "")
}

// reopen lets a run that waited go on.
func (b *batch) reopen(t *treeRow, s *sessionRow, r *runRow, by origin) error {
	r.gen++
	if err := b.open(t, s, r); err != nil {
		return err
	}
	b.holdFor(t, s, r, r.hold) // else it would be lost before it is seen again
	return b.logResumed(t, s, r, by)
}

func (b *batch) logResumed(t *treeRow, s *sessionRow, r *runRow, by origin) error {
	return b.logStep(t, s, by, lineage.EventResumed, runStepID("resumed", r), r.ID, "")
}

// logStep logs that s, or a run of it, waits or goes on.
func (b *batch) logStep(t *treeRow, s *sessionRow, by origin, typ, id, run, reason string) error {
	payload, err := encode(sessions.RunPayload{Run: run, Reason: reason})
	if err != nil {
		return err
	}
	return b.log(t, s, by, typ, id, payload)
}

// runStepID is the id of the event that r waits or goes on: once in each of its
// grants.
func runStepID(step string, r *runRow) string { return step + "/" + r.ID + "/" + strconv.Itoa(r.gen) }

// sessionStepID is that of a session in which nothing runs: the event's own
// number tells it from the others.
func sessionStepID(step string, t *treeRow, s *sessionRow) string {
	return step + "/" + s.ID + "/" + strconv.FormatUint(t.seq+1, 10)
}
