package storetest

import (
	"fmt"
	"slices"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

func (m *Model) change(c *sessions.Change) (sessions.Grant, error) {
	t := m.trees[c.Root]
	if t == nil {
		return sessions.Grant{}, fmt.Errorf("tree %s: %w", c.Root, sessions.ErrNotFound)
	}
	s := t.node(c.Session)
	if s == nil {
		return sessions.Grant{}, fmt.Errorf("session %s of tree %s: %w", c.Session, c.Root, sessions.ErrNotFound)
	}
	m.settle(t)
	waits := slices.ContainsFunc(s.runs, func(r *modelRun) bool {
		return r.State == lineage.Suspended && r.Reason != lineage.ReasonRequested
	})
	if conflict := c.Verb.Check(&s.Session, waits); conflict != nil {
		return sessions.Grant{}, conflict
	}
	now, by := m.now(), origin{s.Turn, c.TraceID}
	switch c.Verb {
	case lineage.VerbComplete:
		m.endSession(now, t, s, sessions.EndPayload{State: lineage.Completed, Result: c.Result}, by, c.TraceID)
	case lineage.VerbFail:
		m.endSession(now, t, s, sessions.EndPayload{State: lineage.Failed, Reason: c.Reason, Result: c.Result}, by, c.TraceID)
	case lineage.VerbSuspend:
		t.suspendAll(now, s, by)
	case lineage.VerbResume:
		t.resumeAll(now, s, by)
	case lineage.VerbCancel:
		if s.busy() {
			m.askToStop(now, t, s, lineage.ReasonCanceled, by)
		} else {
			m.endSession(now, t, s, sessions.EndPayload{State: lineage.Failed, Reason: lineage.ReasonCanceled}, by, c.TraceID)
		}
	}
	return sessions.Grant{Session: s.Session}, nil
}

// suspendAll makes s wait until somebody resumes it. Its open runs yield their
// places.
func (t *modelTree) suspendAll(now time.Time, s *node, by origin) {
	idle := true
	for _, r := range s.runs {
		if r.State != lineage.Active {
			continue
		}
		idle = false
		r.State, r.Reason = lineage.Suspended, lineage.ReasonRequested
		t.append(now, s, by, fmt.Sprintf("suspended/%s/%d/%d", r.ID, r.gen, t.next()), lineage.EventSuspended,
			sessions.RunPayload{Run: r.ID, Reason: r.Reason})
	}
	if idle {
		t.append(now, s, by, fmt.Sprintf("suspended/%s/%d", s.ID, t.next()), lineage.EventSuspended,
			sessions.RunPayload{Reason: lineage.ReasonRequested})
	}
	s.State = lineage.Suspended
}

// resumeAll lets s go on, with all that was suspended in it. It asks for no
// place: what stands under its parent has stood there all the time. Who holds a
// run hears nothing of it all, and goes on with the grant it has.
func (t *modelTree) resumeAll(now time.Time, s *node, by origin) {
	idle := true
	for _, r := range s.runs {
		if r.State != lineage.Suspended {
			continue
		}
		idle = false
		r.lease = now.Add(r.length)
		t.resume(now, s, r, by, fmt.Sprintf("resumed/%s/%d/%d", r.ID, r.gen, t.next()))
	}
	if idle {
		t.append(now, s, by, fmt.Sprintf("resumed/%s/%d", s.ID, t.next()), lineage.EventResumed, sessions.RunPayload{})
	}
	s.State = lineage.Active
}
