package sqlite_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

func cancel(g sessions.Grant) *sessions.Op {
	return &sessions.Op{Change: &sessions.Change{Root: g.Session.Tree, Session: g.Session.ID, Verb: lineage.VerbCancel}}
}

func watch(ctx context.Context, tb testing.TB, s sessions.Store, fn func(sessions.Notice)) {
	tb.Helper()
	if err := s.Watch(ctx, fn); err != nil {
		tb.Fatalf("Watch() = %v", err)
	}
}

// Who is told finds what it is told of, and may use the store.
func TestNoticeComesAfter(t *testing.T) {
	t.Parallel()
	for _, path := range []string{file(t), sqlite.Memory} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			clock := newClock()
			s := open(t, sqlite.Options{Path: path, Now: clock.now, Grace: 5 * time.Second})
			var told []sessions.Notice
			watch(t.Context(), t, s, func(n sessions.Notice) {
				told = append(told, n)
				got, err := s.Session(t.Context(), n.Cancels[0].Session)
				if err != nil || got.Ending != lineage.ReasonCanceled {
					t.Errorf("Session(told of) = ending %q, %v, want %q", got.Ending, err, lineage.ReasonCanceled)
				}
			})
			g := admit(t, s, call("root"))
			other := admit(t, s, call("root"))
			s.Apply(t.Context(), []*sessions.Op{cancel(g), cancel(other)})
			clock.advance(2 * time.Second)
			refs := []sessions.RunRef{{Root: "root", Run: g.RunID, Agent: "worker", Gen: g.Gen}}
			if err := s.Renew(t.Context(), refs, time.Minute); err != nil {
				t.Fatal(err)
			}
			want := func(g sessions.Grant, left time.Duration) sessions.Notice {
				return sessions.Notice{Cancels: []sessions.Cancel{{
					Root: "root", Session: g.Session.ID, Run: g.RunID, Agent: "worker", Reason: lineage.ReasonCanceled, Grace: left,
				}}}
			}
			if d := cmp.Diff([]sessions.Notice{want(g, 5*time.Second), want(other, 5*time.Second), want(g, 3*time.Second)}, told); d != "" {
				t.Errorf("notices (-want +got):\n%s", d)
			}
		})
	}
}

// What was not carried out is not told, and what was is told once.
func TestNoticeOfFailure(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: sqlite.Memory})
	first := call("root")
	g := admit(t, s, first)
	told := 0
	watch(t.Context(), t, s, func(sessions.Notice) { told++ })
	bad := call("root")
	bad.SessionID = first.SessionID
	ops := []*sessions.Op{cancel(g), {Admit: bad}} // the batch fails, and is tried one by one
	if s.Apply(t.Context(), ops); ops[0].Err != nil || ops[1].Err == nil {
		t.Fatalf("Apply() = %v, %v", ops[0].Err, ops[1].Err)
	}
	if told != 1 {
		t.Errorf("told %d times of one cancellation, want once", told)
	}
}

func TestWatchEnds(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := open(t, sqlite.Options{Path: sqlite.Memory})
		first, second := 0, 0
		ctx, stop := context.WithCancel(t.Context())
		watch(ctx, t, s, func(sessions.Notice) { first++; stop() })
		watch(t.Context(), t, s, func(sessions.Notice) { second++ })
		for range 3 {
			s.Apply(t.Context(), []*sessions.Op{cancel(admit(t, s, call("root")))})
		}
		if first != 1 || second != 3 {
			t.Errorf("told %d times until the watching ended, and %d times while it went on, want 1, 3", first, second)
		}
		synctest.Wait()
		if got := s.Watchers(); got != 1 {
			t.Errorf("%d watchers are remembered, want the one that has not ended", got)
		}
	})
}

func TestReadOnlyTakesNoSteps(t *testing.T) {
	t.Parallel()
	path := file(t)
	open(t, sqlite.Options{Path: path})
	s := open(t, sqlite.Options{Path: path, ReadOnly: true})
	if err := s.Watch(t.Context(), func(sessions.Notice) {}); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Watch() of a reader = %v, want ErrUnavailable", err)
	}
	if _, err := s.Settle(t.Context()); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Settle() of a reader = %v, want ErrUnavailable", err)
	}
}
