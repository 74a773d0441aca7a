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
		if err := b.logStep(t, s, by, lineage.EventSuspended, numbered(runStepID("suspended", r), t), r.ID, r.Reason); err != nil {
			return err
		}
	}
	s.State = lineage.Suspended
	if !idle {
		return nil
	}
	return b.logStep(t, s, by, lineage.EventSuspended, numbered("suspended/"+s.ID, t), "", lineage.ReasonRequested)
}

// unpark lets s go on, with all that waits in it. It asks for no place: what
// stands under its parent has stood there all the time. Who holds a run hears
// nothing of it all, and goes on with the grant it has.
func (b *batch) unpark(t *treeRow, s *sessionRow, runs []*runRow, by origin) error {
	idle := true
	for _, r := range runs {
		if r.State != lineage.Suspended {
			continue
		}
		idle = false
		if err := b.reopen(t, s, r, by, numbered(runStepID("resumed", r), t)); err != nil {
			return err
		}
	}
	s.State = lineage.Active
	if !idle {
		return nil
	}
	return b.logStep(t, s, by, lineage.EventResumed, numbered("resumed/"+s.ID, t), "", "")
}

// reopen lets a run that waited go on, and logs that as the event id.
func (b *batch) reopen(t *treeRow, s *sessionRow, r *runRow, by origin, id string) error {
	if err := b.open(t, s, r); err != nil {
		return err
	}
	b.holdFor(t, s, r, r.hold) // else it would be lost before it is seen again
	return b.logStep(t, s, by, lineage.EventResumed, id, r.ID, "")
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
// grants, but for the steps that somebody asks for.
func runStepID(step string, r *runRow) string { return step + "/" + r.ID + "/" + strconv.Itoa(r.gen) }

// numbered is an id of the next event of t, whose own number tells it from
// others of its kind.
func numbered(id string, t *treeRow) string { return id + "/" + strconv.FormatUint(t.seq+1, 10) }
