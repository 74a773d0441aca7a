package sqlite_test

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/a2a-sidecar/a2a-sidecar/contextid"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// BenchmarkApply records whole calls, each an admission of a new isolated
// session and, a batch later, one progress with two events, the task and the
// end. Half of each batch of 16 are admissions. One op is one call. Trees have
// 11 calls, as a coordinator makes that asks everyone, or all calls are in one.
func BenchmarkApply(b *testing.B) {
	for _, path := range []string{"file", "memory"} {
		for _, perTree := range []int{11, 1 << 20} {
			b.Run(fmt.Sprintf("%s/calls-per-tree=%d", path, perTree), func(b *testing.B) {
				opts := sqlite.Options{Path: sqlite.Memory}
				if path == "file" {
					opts.Path = filepath.Join(b.TempDir(), "sidecar.db")
				}
				benchmarkApply(b, open(b, opts), perTree)
			})
		}
	}
}

func benchmarkApply(b *testing.B, s *sqlite.Store, perTree int) {
	b.Helper()
	b.ReportAllocs()
	const calls = 8
	var ops []*sessions.Op
	n, before := 0, pagesWritten(b, s)
	for b.Loop() {
		if n++; n%calls != 0 {
			continue
		}
		var next []*sessions.Op
		for i := range calls {
			next = append(next, &sessions.Op{Admit: benchCall(fmt.Sprintf("root-%d", (n+i)/perTree))})
		}
		batch := append(ops, next...)
		s.Apply(b.Context(), batch)
		ops = nil
		for _, op := range batch {
			if op.Err != nil {
				b.Fatal(op.Err)
			}
			if op.Admit != nil {
				ops = append(ops, &sessions.Op{Progress: benchEnd(op)})
			}
		}
	}
	b.ReportMetric(float64(n)/b.Elapsed().Seconds(), "calls/s")
	reportPages(b, s, before, n)
}

func pagesWritten(b *testing.B, s *sqlite.Store) int64 {
	b.Helper()
	pages, err := s.PagesWritten()
	if err != nil {
		b.Fatal(err)
	}
	return pages
}

// reportPages reports what a call costs in pages written since there were before.
func reportPages(b *testing.B, s *sqlite.Store, before int64, calls int) {
	b.Helper()
	b.ReportMetric(float64(pagesWritten(b, s)-before)/float64(calls), "pages/call")
}

func benchCall(root string) *sessions.Admission {
	return &sessions.Admission{
		Root: root, Local: "coordinator", MainID: contextid.Fresh(), RemoteID: contextid.Fresh(),
		Agent: "worker", Kind: lineage.Worker, Isolated: true, Inherit: lineage.InheritNone, TTL: lineage.DefaultWorkerTTL,
		Turn: root + "-turn", TraceID: "4bf92f3577b34da6a3ce929d0e0e4736", Source: lineage.FromHeader,
		ContextID: contextid.Fresh(), SessionID: contextid.Fresh(), RunID: contextid.Fresh(), MessageID: uuid.NewString(),
		Limits: lineage.Limits{MaxDepth: 4, MaxChildren: 64, MaxSessions: 1 << 21, MaxVisits: 2}, Owner: "sidecar-1", Lease: 30 * time.Second,
		Sent: json.RawMessage(`{"method":"SendMessage","parts":[{"text":"find out what the weather will be in Oslo tomorrow"}]}`),
	}
}

func benchEnd(op *sessions.Op) *sessions.Progress {
	g, task := op.Grant, uuid.NewString()
	status := func(state string) sessions.Draft {
		return sessions.Draft{
			ID: "status/worker/" + task + "/" + state + "/0123456789abcdef", Type: lineage.EventStatus,
			Payload: json.RawMessage(`{"run":"` + g.RunID + `","taskId":"` + task + `","state":"` + state + `","timestamp":"2026-01-01T00:00:00Z"}`),
		}
	}
	return &sessions.Progress{
		Root: g.Session.Tree, Session: g.Session.ID, Run: g.RunID, Gen: g.Gen, Agent: "worker",
		TraceID: op.Admit.TraceID, TaskID: task, State: lineage.Completed,
		Result: json.RawMessage(`{"status":"completed","summary":"It will rain, but not for long."}`),
		Events: []sessions.Draft{status("working"), status("completed")},
	}
}
