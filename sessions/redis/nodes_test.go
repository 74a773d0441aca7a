package redis_test

import (
	"fmt"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// TestLongPageEndsEarly: a page with very many runs is one of fewer sessions,
// and the next goes on after it.
func TestLongPageEndsEarly(t *testing.T) {
	t.Parallel()
	s := open(t, redistest.Start(t), redis.Options{})
	const shared, runs = 12, 1000
	var ops []*sessions.Op
	for n := range shared * runs {
		a := call("r", n)
		a.Isolated, a.Resolve, a.ContextID = false, sessions.ResolveContext, fmt.Sprint("context-", n%shared)
		ops = append(ops, &sessions.Op{Admit: a}, &sessions.Op{Progress: end(a)})
		ops[len(ops)-1].Progress.Session = fmt.Sprint("session-r-", n%shared)
		if len(ops) == 1000 || n == shared*runs-1 {
			apply(t, s, ops...)
			ops = nil
		}
	}
	page, err := s.Sessions(t.Context(), "r", sessions.SessionQuery{})
	if err != nil || len(page.Sessions) != 11 || page.Next != 11 {
		t.Errorf("Sessions() = %d sessions, next %d, %v, want 11: the root session and 10 with 1000 runs each", len(page.Sessions), page.Next, err)
	}
	all, err := sessions.AllSessions(t.Context(), s, "r")
	if err != nil || len(all) != shared+1 {
		t.Fatalf("AllSessions() = %d, %v, want %d", len(all), err, shared+1)
	}
	for n, one := range all[1:] {
		if one.ID != fmt.Sprint("session-r-", n) || len(one.Runs) != runs || one.Runs[0].ID != fmt.Sprint("run-r-", n) {
			t.Errorf("session %d is %s with %d runs, the first of them %s", n, one.ID, len(one.Runs), one.Runs[0].ID)
		}
	}
}
