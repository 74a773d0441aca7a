package lineage_test

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// caller is a session that may call.
func caller() *lineage.Session {
	return &lineage.Session{ID: "caller-id", Kind: lineage.Branch, State: lineage.Active, Branch: "coordinator.a@1"}
}

// over is a refusal for a call of the caller to agent b.
func over(reason lineage.Reason, limit string, value, count int) *lineage.Refusal {
	return &lineage.Refusal{
		Reason: reason, Limit: limit, Value: value, Count: count,
		Parent: "coordinator.a@1", ParentID: "caller-id", Agent: "b",
	}
}

// ofParent is a refusal over the places of the found session's own parent.
func ofParent(value, count int) *lineage.Refusal {
	r := over(lineage.ChildrenLimit, "maxChildren", value, count)
	r.Parent, r.ParentID = "coordinator", "parent-id"
	return r
}

func TestCheck(t *testing.T) {
	t.Parallel()
	type place = lineage.Place
	tests := []struct {
		name   string
		limits lineage.Limits
		place  func(*lineage.Place)
		want   *lineage.Refusal
	}{
		{"no limits", lineage.Limits{}, func(p *place) {
			p.Visits, p.Made, p.Siblings, p.OpenRuns, p.AgentRuns = 99, 9999, 999, 999, 999
		}, nil},

		{"worker parent", lineage.Limits{}, func(p *place) { p.Caller.Kind = lineage.Worker }, over(lineage.LeafSession, "", 0, 0)},
		{"worker parent of a known session", lineage.Limits{}, func(p *place) { p.New, p.Caller.Kind = false, lineage.Worker }, over(lineage.LeafSession, "", 0, 0)},
		{"completed parent", lineage.Limits{}, func(p *place) { p.Caller.State = lineage.Completed }, over(lineage.ParentEnded, "", 0, 0)},
		{"failed parent", lineage.Limits{}, func(p *place) { p.Caller.State = lineage.Failed }, over(lineage.ParentEnded, "", 0, 0)},
		{"expired parent", lineage.Limits{}, func(p *place) { p.Caller.State = lineage.Expired }, over(lineage.ParentEnded, "", 0, 0)},
		{"suspended parent", lineage.Limits{}, func(p *place) { p.Caller.State = lineage.Suspended }, nil},

		{"branch at 3", lineage.Limits{}, func(p *place) { p.CallerDepth = 2 }, nil},
		{"branch at 4", lineage.Limits{}, func(p *place) { p.CallerDepth = 3 }, over(lineage.DepthLimit, "maxDepth", 3, 4)},
		{"worker at 4", lineage.Limits{}, func(p *place) { p.Kind, p.CallerDepth = lineage.Worker, 3 }, nil},
		{"worker at 5", lineage.Limits{}, func(p *place) { p.Kind, p.CallerDepth = lineage.Worker, 4 }, over(lineage.DepthLimit, "maxDepth", 4, 5)},
		{"worker at maxDepth", lineage.Limits{MaxDepth: 2}, func(p *place) { p.Kind, p.CallerDepth = lineage.Worker, 1 }, nil},
		{"worker below maxDepth", lineage.Limits{MaxDepth: 2}, func(p *place) { p.Kind, p.CallerDepth = lineage.Worker, 2 }, over(lineage.DepthLimit, "maxDepth", 2, 3)},
		{"known session below maxDepth", lineage.Limits{MaxDepth: 1}, func(p *place) { p.New, p.CallerDepth = false, 3 }, nil},

		{"last visit", lineage.Limits{MaxVisits: 2}, func(p *place) { p.Visits = 1 }, nil},
		{"a visit too many", lineage.Limits{MaxVisits: 2}, func(p *place) { p.Visits = 2 }, over(lineage.LoopLimit, "maxVisits", 2, 3)},
		{"known session on a loop", lineage.Limits{MaxVisits: 2}, func(p *place) { p.New, p.Visits = false, 2 }, nil},

		{"last session", lineage.Limits{MaxSessions: 3}, func(p *place) { p.Made = 2 }, nil},
		{"a session too many", lineage.Limits{MaxSessions: 3}, func(p *place) { p.Made = 3 }, over(lineage.SessionsLimit, "maxSessions", 3, 3)},
		{"catch-all tree", lineage.Limits{MaxSessions: 3}, func(p *place) { p.Made, p.NoMadeLimit = 3, true }, nil},
		{"known session of a full turn", lineage.Limits{MaxSessions: 3}, func(p *place) { p.Made, p.New = 3, false }, nil},

		{"last child", lineage.Limits{MaxChildren: 8}, func(p *place) { p.Siblings = 7 }, nil},
		{"a child too many", lineage.Limits{MaxChildren: 8}, func(p *place) { p.Siblings = 8 }, ofParent(8, 8)},
		{"idle session, no place", lineage.Limits{MaxChildren: 8}, func(p *place) { p.New, p.Siblings = false, 8 }, ofParent(8, 8)},
		{"live session has its place", lineage.Limits{MaxChildren: 8}, func(p *place) { p.New, p.Live, p.Siblings = false, true, 8 }, nil},

		{"last call", lineage.Limits{MaxFanOut: 2}, func(p *place) { p.OpenRuns = 1 }, nil},
		{"a call too many", lineage.Limits{MaxFanOut: 2}, func(p *place) { p.OpenRuns = 2 }, over(lineage.FanOutLimit, "maxFanOut", 2, 2)},
		{"a call too many into a live session", lineage.Limits{MaxFanOut: 2}, func(p *place) { p.New, p.Live, p.OpenRuns = false, true, 2 }, over(lineage.FanOutLimit, "maxFanOut", 2, 2)},

		{"last run at the agent", lineage.Limits{MaxConcurrent: 5}, func(p *place) { p.AgentRuns = 4 }, nil},
		{"a run too many at the agent", lineage.Limits{MaxConcurrent: 5}, func(p *place) { p.AgentRuns = 5 }, over(lineage.ConcurrencyLimit, "maxConcurrent", 5, 5)},
		{"over a cap that was lowered", lineage.Limits{MaxConcurrent: 5}, func(p *place) { p.AgentRuns = 9 }, over(lineage.ConcurrencyLimit, "maxConcurrent", 5, 9)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := lineage.Place{
				Agent: "b", Kind: lineage.Branch, Caller: caller(), New: true,
				ParentID: "parent-id", ParentLabel: "coordinator",
			}
			tt.place(&p)
			if diff := cmp.Diff(tt.want, tt.limits.Check(p)); diff != "" {
				t.Errorf("%+v.Check(%+v) (-want +got):\n%s", tt.limits, p, diff)
			}
		})
	}
}

// A call over every cap at once is refused for the first of them; mended
// there, for the next. Caps that waiting lifts come last.
func TestCheckOrder(t *testing.T) {
	t.Parallel()
	limits := lineage.Limits{MaxDepth: 1, MaxVisits: 1, MaxSessions: 1, MaxChildren: 1, MaxFanOut: 1, MaxConcurrent: 1}
	p := lineage.Place{
		Agent: "b", Kind: lineage.Branch, Caller: caller(), CallerDepth: 3, New: true,
		Visits: 1, Made: 1, Siblings: 1, OpenRuns: 1, AgentRuns: 1,
	}
	p.Caller.Kind, p.Caller.State = lineage.Worker, lineage.Failed
	waits := false
	for _, s := range []struct {
		want lineage.Reason
		mend func()
	}{
		{lineage.LeafSession, func() { p.Caller.Kind = lineage.Branch }},
		{lineage.ParentEnded, func() { p.Caller.State = lineage.Active }},
		{lineage.DepthLimit, func() { p.CallerDepth = 0 }},
		{lineage.LoopLimit, func() { p.Visits = 0 }},
		{lineage.SessionsLimit, func() { p.Made = 0 }},
		{lineage.ChildrenLimit, func() { p.Siblings = 0 }},
		{lineage.FanOutLimit, func() { p.OpenRuns = 0 }},
		{lineage.ConcurrencyLimit, func() { p.AgentRuns = 0 }},
	} {
		got := limits.Check(p)
		if got == nil || got.Reason != s.want {
			t.Fatalf("Check(%+v) = %v, want %s", p, got, s.want)
		}
		if waits && !got.Waiting() {
			t.Errorf("%s, which no waiting lifts, comes after one that waiting lifts", got.Reason)
		}
		waits = got.Waiting()
		s.mend()
	}
	if got := limits.Check(p); got != nil {
		t.Errorf("Check(%+v) = %v, want nil", p, got)
	}
}

func TestDeepest(t *testing.T) {
	t.Parallel()
	for maxDepth, want := range map[int][2]int{ // branch, worker
		-1: {3, 4}, 0: {3, 4}, 1: {1, 1}, 2: {2, 2}, 3: {3, 3}, 4: {3, 4}, 5: {3, 4}, 99: {3, 4},
	} {
		l := lineage.Limits{MaxDepth: maxDepth}
		if got := [2]int{l.Deepest(lineage.Branch), l.Deepest(lineage.Worker)}; got != want {
			t.Errorf("Limits{MaxDepth: %d}.Deepest(branch, worker) = %v, want %v", maxDepth, got, want)
		}
	}
}

func TestRefusal(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		refusal            lineage.Refusal
		want               string
		waiting, retryable bool
	}{
		{
			// The sentence of the contract, to the letter.
			lineage.Refusal{Reason: lineage.ChildrenLimit, Limit: "maxChildren", Value: 8, Count: 8, Parent: "coordinator", Agent: "worker"},
			"fan-out limit reached: session coordinator has 8 of 8 children running (maxChildren); retry when one ends", true, true,
		},
		{
			lineage.Refusal{Reason: lineage.FanOutLimit, Limit: "maxFanOut", Value: 4, Count: 5, Parent: "coordinator", Agent: "worker"},
			"fan-out limit reached: session coordinator has 5 of 4 calls running (maxFanOut); retry when one ends", true, true,
		},
		{
			lineage.Refusal{Reason: lineage.ConcurrencyLimit, Limit: "maxConcurrent", Value: 2, Count: 2, Parent: "coordinator", Agent: "worker"},
			"concurrency limit reached: agent worker has 2 of 2 calls running (maxConcurrent); retry when one ends", true, true,
		},
		{
			lineage.Refusal{Reason: lineage.DepthLimit, Limit: "maxDepth", Value: 3, Count: 4, Parent: "c.a@1.b@1.c@1", Agent: "worker"},
			"depth limit reached: a call from session c.a@1.b@1.c@1 to worker would stand at depth 4 of at most 3 (maxDepth); retrying does not help", false, false,
		},
		{
			lineage.Refusal{Reason: lineage.SessionsLimit, Limit: "maxSessions", Value: 1000, Count: 1000, Parent: "coordinator", Agent: "worker"},
			"session limit reached: the tree of session coordinator has made 1000 of 1000 sessions (maxSessions); retrying does not help in this turn", false, false,
		},
		{
			lineage.Refusal{Reason: lineage.LoopLimit, Limit: "maxVisits", Value: 2, Count: 3, Parent: "c.a@1.a@1", Agent: "a"},
			"loop limit reached: agent a would stand 3 times on the path below session c.a@1.a@1, at most 2 are allowed (maxVisits); retrying does not help", false, false,
		},
		{
			lineage.Refusal{Reason: lineage.LeafSession, Parent: "c.w@1", Agent: "a"},
			"session c.w@1 is a worker and cannot call agents; retrying does not help", false, false,
		},
		{
			lineage.Refusal{Reason: lineage.ParentEnded, Parent: "c.a@1", Agent: "a"},
			"session c.a@1 has ended or is being ended, and cannot call agents; retrying does not help", false, false,
		},
		{
			lineage.Refusal{Reason: lineage.SessionEnded, Agent: "a"},
			"the session of the call was ended; retrying does not help", false, false,
		},
		{
			lineage.Refusal{Reason: lineage.ContextForbidden, Agent: "a"},
			"the task or context belongs to another user's conversation; retrying does not help", false, false,
		},
		{
			lineage.Refusal{Reason: lineage.StoreUnavailable, Agent: "a"},
			"the record of sessions cannot be reached; retry later", false, true,
		},
		{
			lineage.Refusal{Reason: lineage.AgentUnreachable, Agent: "a"},
			"agent a cannot be reached; retry later", false, true,
		},
		{lineage.Refusal{Reason: "NEW_ONE"}, "NEW_ONE", false, false},
	} {
		t.Run(string(tt.refusal.Reason), func(t *testing.T) {
			t.Parallel()
			if got := tt.refusal.Error(); got != tt.want {
				t.Errorf("Error() = %q, want %q", got, tt.want)
			}
			if got := tt.refusal.Waiting(); got != tt.waiting {
				t.Errorf("Waiting() = %t, want %t", got, tt.waiting)
			}
			if got := tt.refusal.Retryable(); got != tt.retryable {
				t.Errorf("Retryable() = %t, want %t", got, tt.retryable)
			}
		})
	}
}

func ExampleLimits_Check() {
	limits := lineage.Limits{MaxChildren: 8}
	refusal := limits.Check(lineage.Place{
		Agent: "worker", Kind: lineage.Worker, New: true,
		Caller:   &lineage.Session{Kind: lineage.Main, State: lineage.Active, Branch: "coordinator"},
		Siblings: 8, ParentLabel: "coordinator",
	})
	fmt.Println(refusal)
	// Output:
	// fan-out limit reached: session coordinator has 8 of 8 children running (maxChildren); retry when one ends
}
