package storetest

import (
	"encoding/json"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// endSession ends s with all that runs or waits in it, tells its parent, and
// asks all below it to stop. asked is the trace of whoever asked for the end.
func (m *Model) endSession(now time.Time, t *modelTree, s *node, end sessions.EndPayload, by origin, asked string) {
	t.finish(now, s, end, by)
	m.cascade(now, t, s, asked)
}

// finish is the end of s itself, without what it means to those below it.
func (t *modelTree) finish(now time.Time, s *node, end sessions.EndPayload, by origin) {
	typ := map[lineage.State]string{
		lineage.Completed: lineage.EventCompleted, lineage.Failed: lineage.EventFailed, lineage.Expired: lineage.EventExpired,
	}[end.State]
	at := t.append(now, s, by, outcomeID("ended/"+s.ID, end), typ, end)
	s.State, s.Reason, s.EndedAt = end.State, end.Reason, &at
	s.Ending, s.Reserved = "", false
	for _, r := range s.runs {
		if r.ID == end.Run || !r.State.Terminal() {
			r.State, r.Reason, r.EndedAt = end.State, end.Reason, &at
		}
	}
	s.keep(end)
	if s.parent == nil {
		return
	}
	left := sessions.ResultPayload{Session: s.ID, Agent: s.Agent, State: s.State, Reason: s.Reason}
	if s.Result != nil {
		left.Result = encode(s.Result)
	}
	t.append(now, s.parent, by, outcomeID("result/"+s.ID, end), lineage.EventResult, left)
}

// cascade goes down from a session that has ended: what runs there is asked to
// stop, what is idle ends at once, and what was given leave to go on is spared
// with all below it. Below what has ended before, that end has been already.
func (m *Model) cascade(now time.Time, t *modelTree, ended *node, asked string) {
	for _, n := range t.nodes {
		if n.parent != ended || !n.unfinished() || n.Abandon {
			continue
		}
		by, over := origin{n.Turn, asked}, n.State.Terminal()
		if n.busy() {
			m.askToStop(now, t, n, lineage.ReasonOrphaned, by)
		} else {
			t.finish(now, n, sessions.EndPayload{State: lineage.Expired, Reason: lineage.ReasonParentEnded}, by)
		}
		if !over {
			m.cascade(now, t, n, asked)
		}
	}
}

// askToStop begins the grace of s, in which its runs are to end. The first
// request stands, unless s has ended since, and runs have been opened in it.
func (m *Model) askToStop(now time.Time, t *modelTree, s *node, reason string, by origin) {
	if s.Ending != "" {
		return
	}
	until := now.Add(lineage.DefaultGrace)
	s.Ending, s.Deadline = reason, &until
	id := "cancel/" + s.ID
	if t.logged(id) {
		id = fmt.Sprintf("%s/%d", id, t.next())
	}
	t.append(now, s, by, id, lineage.EventCancel, sessions.CancelPayload{
		Reason: reason, GraceMS: lineage.DefaultGrace.Milliseconds(),
	})
	var runs []*modelRun
	for _, r := range s.runs {
		if !r.State.Terminal() {
			runs = append(runs, r)
		}
	}
	m.tellCancels(now, s, runs...)
}

// endRuns ends what was opened in s after its own end, which stands.
func (t *modelTree) endRuns(now time.Time, s *node, end sessions.EndPayload, by origin) {
	for _, r := range s.runs {
		if r.State == lineage.Active {
			end.Run = r.ID
			t.endRun(now, s, r, end, by)
		}
	}
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
