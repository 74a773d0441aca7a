package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// admit asks for an isolated session of its own for a call out of the root
// session of a tree.
func admit(root string, maxChildren int) *sessions.Op {
	return &sessions.Op{Admit: &sessions.Admission{
		Root: root, Principal: "user", Local: "coordinator", MainID: uuid.NewString(), RemoteID: uuid.NewString(),
		Agent: agentName, Kind: lineage.Worker, Isolated: true, Inherit: lineage.InheritNone, TTL: lineage.DefaultWorkerTTL,
		Turn: "turn", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Source: lineage.FromHeader,
		ContextID: uuid.NewString(), SessionID: uuid.NewString(), RunID: uuid.NewString(), MessageID: uuid.NewString(),
		Limits: lineage.Limits{MaxDepth: 4, MaxChildren: maxChildren, MaxVisits: 2}, Owner: "bench", Lease: time.Hour,
		Sent: json.RawMessage(`{"method":"SendMessage","parts":[{"text":"find out what the weather will be in Oslo tomorrow"}]}`),
	}}
}

// end tells the end of the run that op was granted.
func end(op *sessions.Op) *sessions.Op {
	a, g := op.Admit, op.Grant
	task := uuid.NewString()
	return &sessions.Op{Progress: &sessions.Progress{
		Root: a.Root, Session: g.Session.ID, Run: g.RunID, Gen: g.Gen, Agent: a.Agent, TraceID: a.TraceID, TaskID: task,
		State: lineage.Completed, Result: json.RawMessage(`{"status":"completed","summary":"It will rain, but not for long."}`),
		Events: []sessions.Draft{
			{ID: "status/" + task + "/working", Type: lineage.EventStatus, Payload: json.RawMessage(`{"run":"` + g.RunID + `","taskId":"` + task + `","state":"working"}`)},
			{ID: "status/" + task + "/completed", Type: lineage.EventStatus, Payload: json.RawMessage(`{"run":"` + g.RunID + `","taskId":"` + task + `","state":"completed"}`)},
		},
	}}
}

// ends tells the ends of ops.
func ends(ops []*sessions.Op) []*sessions.Op {
	all := make([]*sessions.Op, len(ops))
	for i, op := range ops {
		all[i] = end(op)
	}
	return all
}

// newRecord makes a record over s as a sidecar has it, but that it does nothing
// by the clock: what is measured is calls.
func newRecord(ctx context.Context, s sessions.Store) (*sessions.Record, error) {
	return sessions.New(ctx, sessions.Options{
		Store: s, Local: "coordinator", Owner: "bench", CatchAll: uuid.NewString(),
		Lease: time.Hour, Settle: time.Hour, Timeout: waiting,
		Content:     sessions.Content{Keep: sessions.KeepText, MaxBytes: 16 << 10},
		OnStoreDown: sessions.StoreDownRefuse, Logger: slog.New(slog.DiscardHandler),
	})
}

// isolated is the agent of recorded calls, with every cap on and none in reach.
var isolated = sessions.Agent{
	Name: agentName, Isolate: true, ContextIDs: contextid.Sidecar, Kind: lineage.Worker, Inherit: lineage.InheritNone,
	TTL: lineage.DefaultWorkerTTL, Limits: lineage.Limits{MaxDepth: 4, MaxChildren: 1 << 20, MaxFanOut: 1 << 20, MaxSessions: 1 << 30, MaxVisits: 2},
}

// record has a record take down one whole call in the tree root: what the
// caller sent, and what the agent streamed.
func record(ctx context.Context, r *sessions.Record, root string) error {
	request, err := wire.Read([]byte(`{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":{"message":{"messageId":"` + uuid.NewString() +
		`","role":"ROLE_USER","parts":[{"text":"find out what the weather will be in Oslo tomorrow"}]}}}`))
	if err != nil {
		return fmt.Errorf("reading a message: %w", err)
	}
	run, err := r.Begin(ctx, sessions.Call{Agent: &isolated, Principal: "user", Root: root, Parent: root, Request: request})
	if err != nil {
		return fmt.Errorf("admitting a call: %w", err)
	}
	if !run.Recorded() {
		return errors.New("a call was not recorded")
	}
	contextID, _ := run.ContextID()
	task := uuid.NewString()
	ids := `"taskId":"` + task + `","contextId":"` + contextID + `",`
	for _, said := range []string{
		`"task":{"id":"` + task + `","contextId":"` + contextID + `","status":{"state":"TASK_STATE_WORKING"}}`,
		`"artifactUpdate":{` + ids + `"artifact":{"artifactId":"a1","parts":[{"text":"It will rain, but not for long."}]},"lastChunk":true}`,
		`"statusUpdate":{` + ids + `"status":{"state":"TASK_STATE_COMPLETED"}}`,
	} {
		u, err := wire.ReadResponse([]byte(`{"jsonrpc":"2.0","id":1,"result":{` + said + `}}`))
		if err != nil {
			return fmt.Errorf("reading an answer: %w", err)
		}
		run.Saw(u)
	}
	run.End(sessions.Answered)
	return nil
}
