package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/storetest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// sound is the account of a tree in which a call was completed, one got lost,
// and one waited and went on: what a store makes of it.
func sound(t *testing.T) *account {
	t.Helper()
	now := time.Now()
	store := storetest.NewModel(func() time.Time { return now })
	apply := func(op *sessions.Op) *sessions.Op {
		store.Apply(t.Context(), []*sessions.Op{op})
		if op.Err != nil {
			t.Fatal(op.Err)
		}
		return op
	}
	admit := func(n int) *sessions.Op {
		return apply(&sessions.Op{Admit: &sessions.Admission{
			Root: "root", Local: "coordinator", MainID: "main", RemoteID: "remote", Agent: agentAsker, Kind: lineage.Branch,
			Isolated: true, Inherit: lineage.InheritFull, Source: lineage.FromHeader, SessionID: fmt.Sprint("s", n),
			ContextID: fmt.Sprint("c", n), RunID: fmt.Sprint("r", n), MessageID: fmt.Sprint("m", n), Owner: "o", Lease: lease,
			Sent: json.RawMessage(`{}`),
		}})
	}
	tell := func(op *sessions.Op, state lineage.State, reason string) {
		apply(&sessions.Op{Progress: &sessions.Progress{
			Root: "root", Session: op.Grant.Session.ID, Run: op.Grant.RunID, Gen: op.Grant.Gen, Agent: agentAsker, State: state, Reason: reason,
		}})
	}
	tell(admit(1), lineage.Completed, "")
	tell(admit(2), lineage.Failed, lineage.ReasonLost)
	waits := admit(3)
	tell(waits, lineage.Suspended, "")
	tell(waits, lineage.Active, "")
	tell(waits, lineage.Completed, "")
	return readModel(t.Context(), t, store)
}

func readModel(ctx context.Context, t *testing.T, store *storetest.Model) *account {
	t.Helper()
	a := &account{root: "root"}
	var err error
	if a.state, err = sessions.AllSessions(ctx, store, "root"); err != nil {
		t.Fatal(err)
	}
	page, err := store.Events(ctx, "root", sessions.EventQuery{All: true, Limit: sessions.MaxPage})
	if err != nil {
		t.Fatal(err)
	}
	a.log = page.Events
	return a
}

func TestAudit(t *testing.T) {
	t.Parallel()
	a := sound(t)
	if got := a.audit(); len(got) > 0 {
		t.Fatalf("audit() of a sound tree = %q, want nothing", got)
	}
	if a.taken != 4 || a.freed != 4 {
		t.Errorf("%d places taken and %d freed, want 4 and 4", a.taken, a.freed)
	}
	if got := a.sent["m2"]; got != "r2" {
		t.Errorf("message m2 opened run %q, want r2", got)
	}
}

// Each kind of fault that the books are kept for is found.
func TestAuditFinds(t *testing.T) {
	t.Parallel()
	drop := func(a *account, kind string) {
		i := slices.IndexFunc(a.log, func(e lineage.Event) bool { return e.Type == kind })
		a.log = slices.Delete(slices.Clone(a.log), i, i+1)
	}
	repeat := func(a *account, kind string) {
		i := slices.IndexFunc(a.log, func(e lineage.Event) bool { return e.Type == kind })
		again := a.log[i]
		again.ID += "/again"
		again.Seq = uint64(len(a.log)) + 1
		a.log = append(slices.Clone(a.log), again)
	}
	for _, tt := range []struct {
		name  string
		spoil func(a *account)
		want  string
	}{
		{"state that no log tells", func(a *account) { a.state[1].State = lineage.Active }, "is not what its log tells"},
		{"a log that no state follows", func(a *account) { drop(a, lineage.EventCompleted) }, "is not what its log tells"},
		{"a gap in the log", func(a *account) { drop(a, lineage.EventResult) }, "has the number"},
		{"an id that comes twice", func(a *account) { a.log[2].ID = a.log[1].ID }, "there is another of the id"},
		{"a live session", func(a *account) { a.state[1].Runs[0].State = lineage.Active }, "is live"},
		{"a reserved session", func(a *account) { a.state[1].Reserved = true }, "is live"},
		{"a session that never ends", func(a *account) { a.state[1].Ending = lineage.ReasonOrphaned }, "has not ended"},
		{"a place that is not freed", func(a *account) { drop(a, lineage.EventFailed) }, "places were taken and"},
		{"an end that comes twice", func(a *account) { repeat(a, lineage.EventFailed) }, "told 2 times"},
		{"a loss that comes twice", func(a *account) { repeat(a, lineage.EventFailed) }, "was told lost 2 times"},
		{"a parent that is not told", func(a *account) { drop(a, lineage.EventResult) }, "and its parent 0 times"},
		{"a parent that is told twice", func(a *account) { repeat(a, lineage.EventResult) }, "and its parent 2 times"},
		{"a parent that is told what is not", func(a *account) { drop(a, lineage.EventFailed) }, "and it did not"},
		{"somebody else who is told", func(a *account) {
			i := slices.IndexFunc(a.log, func(e lineage.Event) bool { return e.Type == lineage.EventResult })
			a.log[i].Session = "s3"
		}, "whose parent is"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			a := sound(t)
			tt.spoil(a)
			if got := a.audit(); !slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, tt.want) }) {
				t.Errorf("audit() = %q, want one of them to say %q", got, tt.want)
			}
		})
	}
}
