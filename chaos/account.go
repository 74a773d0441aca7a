package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// account is one tree as the admin API shows it, when nothing runs in it.
type account struct {
	root  string
	state []lineage.Session
	log   []lineage.Event

	// By the log, once it is audited.
	taken, freed int               // places
	sent         map[string]string // messages → run
}

// audit returns what does not fit in the account: what the log and the state say
// of each other, and what no log may say.
func (a *account) audit() (findings []string) {
	find := func(format string, args ...any) {
		findings = append(findings, "tree "+a.root+": "+fmt.Sprintf(format, args...))
	}
	if diff := diff(told(sessions.Project(a.root, a.log)), told(a.state)); diff != "" {
		find("its state is not what its log tells (-log +state):\n%s", diff)
	}
	for i := range a.state {
		s := &a.state[i]
		if s.Live() && s.Kind != lineage.Main {
			find("session %s at %s is live (%s, reserved %t)", s.ID, s.Agent, s.State, s.Reserved)
		}
		if s.Ending != "" {
			find("session %s at %s has been ending (%s) and has not ended", s.ID, s.Agent, s.Ending)
		}
	}
	ids := map[string]bool{}
	for i, e := range a.log {
		if e.Seq != uint64(i)+1 {
			find("event %d has the number %d", i+1, e.Seq)
		}
		if ids[e.ID] {
			find("event %d: there is another of the id %s", e.Seq, e.ID)
		}
		ids[e.ID] = true
	}
	return append(findings, a.follow()...)
}

// follow goes through the log once more, and counts what ended how often. It
// shares no code with what folds a log into sessions.
func (a *account) follow() (findings []string) {
	find := func(format string, args ...any) {
		findings = append(findings, "tree "+a.root+": "+fmt.Sprintf(format, args...))
	}
	type end struct {
		session string
		state   lineage.State
		reason  string
	}
	var (
		open    = map[string]string{} // runs at work → session
		waiting = map[string]string{} // likewise, suspended
		lost    = map[string]int{}    // by run, and by session
		ends    = map[end]int{}       // of sessions that have a parent
		results = map[end]int{}       // told to parents
		parent  = map[string]string{}
	)
	a.sent = map[string]string{}
	take := func(run, session string) {
		if _, at := open[run]; !at {
			open[run] = session
			a.taken++
		}
		delete(waiting, run)
	}
	free := func(run string) {
		if _, at := open[run]; at {
			delete(open, run)
			a.freed++
		}
	}
	for _, e := range a.log {
		var p struct {
			Parent  string
			Run     string
			State   lineage.State
			Reason  string
			Session string

			MessageID string
		}
		if err := json.Unmarshal(e.Payload, &p); err != nil {
			find("event %d: its payload is no object: %v", e.Seq, err)
			continue
		}
		switch e.Type {
		case lineage.EventSpawned:
			parent[e.Session] = p.Parent
		case lineage.EventSent, lineage.EventResumed:
			if p.Run != "" {
				take(p.Run, e.Session)
			}
			if e.Type == lineage.EventSent {
				a.sent[p.MessageID] = p.Run
			}
		case lineage.EventSuspended:
			if p.Run != "" {
				free(p.Run)
				waiting[p.Run] = e.Session
			}
		case lineage.EventRunEnded:
			free(p.Run)
			delete(waiting, p.Run)
			if p.Reason == lineage.ReasonLost {
				lost["run "+p.Run]++
			}
		case lineage.EventCompleted, lineage.EventFailed, lineage.EventExpired:
			if p.Reason == lineage.ReasonLost {
				lost["session "+e.Session]++
			}
			for _, runs := range []map[string]string{open, waiting} {
				for run, session := range runs {
					if session != e.Session {
						continue
					}
					if p.Reason == lineage.ReasonLost {
						lost["run "+run]++
					}
					free(run)
					delete(waiting, run)
				}
			}
			if parent[e.Session] != "" {
				ends[end{e.Session, p.State, p.Reason}]++
			}
		case lineage.EventResult:
			results[end{p.Session, p.State, p.Reason}]++
			if e.Session != parent[p.Session] {
				find("event %d tells session %s of the end of %s, whose parent is %q", e.Seq, e.Session, p.Session, parent[p.Session])
			}
		}
	}
	for what, n := range lost {
		if n > 1 {
			find("%s was told lost %d times", what, n)
		}
	}
	for e, n := range ends {
		if n != 1 || results[e] != 1 {
			find("session %s ended %s %s: told %d times, and its parent %d times", e.session, e.state, e.reason, n, results[e])
		}
	}
	for e := range results {
		if ends[e] == 0 {
			find("a parent was told that session %s ended %s %s, and it did not", e.session, e.state, e.reason)
		}
	}
	if a.taken != a.freed {
		find("%d places were taken and %d freed", a.taken, a.freed)
	}
	slices.Sort(findings)
	return findings
}

// told are sessions without what no event tells, whether they came by JSON or not.
func told(all []lineage.Session) []lineage.Session {
	all = slices.Clone(all)
	for i := range all {
		s := &all[i]
		s.Owner, s.Deadline, s.UpdatedAt = "", nil, s.CreatedAt
		s.Usage, s.Metadata = plain(s.Usage), plain(s.Metadata)
	}
	return all
}

// plain is JSON as it is spelled in one way only, nil for null.
func plain(raw json.RawMessage) json.RawMessage {
	var v any
	if len(raw) == 0 || json.Unmarshal(raw, &v) != nil {
		return raw
	}
	if v == nil {
		return nil
	}
	b, err := json.Marshal(v)
	if err != nil {
		return raw
	}
	return b
}

// diff is empty if two states are the same.
func diff(want, got []lineage.Session) string {
	return cmp.Diff(want, got, cmpopts.EquateEmpty())
}
