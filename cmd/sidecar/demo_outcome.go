package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/adminapi"
	"github.com/a2a-sidecar/a2a-sidecar/config"
	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// demoOutcome is what the demo has to show. Its JSON is what demo -o json prints.
type demoOutcome struct {
	Calls        int       `json:"calls"`        // at once, in each of the first two scenes
	Conversation string    `json:"conversation"` // root of the tree of the first two scenes
	Burst        string    `json:"burst"`        // root of the tree of the third
	MaxChildren  int       `json:"maxChildren"`
	Shared       demoScene `json:"shared"`
	Isolated     demoScene `json:"isolated"`
	Hasty        demoScene `json:"noQueue"`

	Sessions []lineage.Session `json:"sessions"` // of the first tree, in spawn order

	Outbound string `json:"outbound,omitempty"` // URLs of a sidecar that stays up
	Admin    string `json:"admin,omitempty"`
	Store    string `json:"store,omitempty"` // where the record stays
}

// demoScene is what became of many calls at once to one agent.
type demoScene struct {
	Agent        string            `json:"agent"`
	Isolate      bool              `json:"isolateSessions"`
	QueueTimeout adminapi.Duration `json:"queueTimeout"`
	Sent         int               `json:"sent"`

	// As the callers got it.
	Answered int       `json:"answered"`
	Refused  int       `json:"refused"`
	Refusal  string    `json:"refusal,omitempty"` // its words
	Foreign  demoRange `json:"foreignMessages"`   // of other calls, that went into one answer
	Topic    string    `json:"topic"`             // of the first call that was answered
	AlsoRead []string  `json:"alsoRead"`          // topics of other calls that went into that answer

	// As the agent itself counted.
	Contexts int       `json:"contexts"`
	Messages demoRange `json:"messages"` // in one context
	AtOnce   int       `json:"atOnce"`   // worked on at the same time

	// As the sidecar recorded it.
	Queued    int `json:"queued"`    // calls that waited for a place
	Collapsed int `json:"collapsed"` // calls that ran beside another one in the same context
}

// demoRange is the least and the most of something.
type demoRange struct {
	Least int `json:"least"`
	Most  int `json:"most"`
}

// with widens the range to n. The first n of all is told by first.
func (r demoRange) with(n int, first bool) demoRange {
	if first {
		return demoRange{n, n}
	}
	return demoRange{min(r.Least, n), max(r.Most, n)}
}

// gatherScene puts together what the callers got and what the agent counted.
func gatherScene(policy config.Agent, queueTimeout time.Duration, answers []demoAnswer, agent *agents.Agent) demoScene {
	s := demoScene{
		Agent: policy.Name, Isolate: policy.IsolateSessions, QueueTimeout: adminapi.Duration(queueTimeout),
		Sent: len(answers), AtOnce: agent.MaxParallel(),
	}
	topics := make([]string, len(answers))
	for i, a := range answers {
		topics[i] = a.topic
	}
	for _, a := range answers {
		if a.refused != "" {
			s.Refused++
			s.Refusal = a.refused
			continue
		}
		s.Foreign = s.Foreign.with(len(a.report.Others), s.Answered == 0)
		if s.Answered == 0 {
			s.Topic, s.AlsoRead = a.topic, byTopic(topics, a.report.Others)
		}
		s.Answered++
	}
	for _, n := range agent.Contexts() {
		s.Messages = s.Messages.with(n, s.Contexts == 0)
		s.Contexts++
	}
	return s
}

// countEvents counts what the log of the tree tells of calls to the agent.
func (s *demoScene) countEvents(ctx context.Context, record sessions.Reader, root string) error {
	nodes, err := sessions.AllSessions(ctx, record, root)
	if err != nil {
		return err
	}
	agentOf := make(map[string]string, len(nodes))
	for i := range nodes {
		agentOf[nodes[i].ID] = nodes[i].Agent
	}
	// One page is enough: there are at most a few events for each call.
	page, err := record.Events(ctx, root, sessions.EventQuery{
		All: true, Types: []string{lineage.EventQueued, lineage.EventCollapsed}, Limit: sessions.MaxPage,
	})
	if err != nil {
		return err
	}
	for i := range page.Events {
		switch event := &page.Events[i]; event.Type {
		case lineage.EventCollapsed:
			if agentOf[event.Session] == s.Agent {
				s.Collapsed++
			}
		case lineage.EventQueued:
			// It stands with the session that the call came out of.
			var queued struct {
				Agent string `json:"agent"`
			}
			if err := json.Unmarshal(event.Payload, &queued); err != nil {
				return fmt.Errorf("event %s: %w", event.ID, err)
			}
			if queued.Agent == s.Agent {
				s.Queued++
			}
		}
	}
	return nil
}

// verify returns everything in which the counts are not what the demo claims.
// What depends on how fast the machine is, such as whether every call met all
// the others, it leaves open.
func (o *demoOutcome) verify() error {
	var errs []error
	want := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	several := o.Calls > 1
	s := &o.Shared
	want(s.Answered == o.Calls, "agent %s answered %d of %d calls", s.Agent, s.Answered, o.Calls)
	want(s.Contexts == 1, "agent %s had %s, not the 1 that is shared", s.Agent, plural(s.Contexts, "context"))
	want(!several || s.Foreign.Most > 0, "no call to agent %s read messages of others", s.Agent)
	want(!several || s.Collapsed > 0, "calls in one context at agent %s were not noticed", s.Agent)

	s = &o.Isolated
	want(s.Answered == o.Calls, "agent %s answered %d of %d calls", s.Agent, s.Answered, o.Calls)
	want(s.Contexts == o.Calls, "agent %s had %s, not 1 for each of %d calls", s.Agent, plural(s.Contexts, "context"), o.Calls)
	want(s.Foreign.Most == 0, "a call to agent %s read %s of others", s.Agent, plural(s.Foreign.Most, "message"))
	want(s.AtOnce <= o.MaxChildren, "agent %s worked on %d calls at once, the cap is %d", s.Agent, s.AtOnce, o.MaxChildren)
	want(o.Calls <= o.MaxChildren || s.Queued > 0, "none of %d calls to agent %s waited, the cap is %d", o.Calls, s.Agent, o.MaxChildren)

	s = &o.Hasty
	want(s.Refused > 0, "none of %d calls to agent %s was refused, the cap is %d", s.Sent, s.Agent, o.MaxChildren)
	want(s.AtOnce <= o.MaxChildren, "agent %s worked on %d calls at once, the cap is %d", s.Agent, s.AtOnce, o.MaxChildren)
	want(s.Queued == 0, "%s to agent %s waited, though its queueTimeout is 0", plural(s.Queued, "call"), s.Agent)

	want(len(o.Sessions) == 2+o.Calls, "the tree has %d sessions, not %d", len(o.Sessions), 2+o.Calls)
	return errors.Join(errs...)
}
