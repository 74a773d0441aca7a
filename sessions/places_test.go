package sessions

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// places stands in for a store's caps: so many places for each caller and at
// each agent, 0 for no cap.
type places struct {
	lines *lines

	mu               sync.Mutex
	callerCap, agent map[string]int // caps
	out, at          map[string]int // taken
	order            []string       // who got a place, in order
	tries            map[string]int
	most             int // places out of one caller at once
}

func newPlaces() *places {
	return &places{
		lines: newLines(), callerCap: map[string]int{}, agent: map[string]int{},
		out: map[string]int{}, at: map[string]int{}, tries: map[string]int{},
	}
}

func (p *places) take(a *Admission) (Grant, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tries[a.RunID]++
	caller := callerKey(a)
	switch {
	case p.callerCap[a.Caller.ContextID] > 0 && p.out[caller] >= p.callerCap[a.Caller.ContextID]:
		return Grant{}, &lineage.Refusal{Reason: lineage.FanOutLimit, Count: p.out[caller], Agent: a.Agent}
	case p.agent[a.Agent] > 0 && p.at[a.Agent] >= p.agent[a.Agent]:
		return Grant{}, &lineage.Refusal{Reason: lineage.ConcurrencyLimit, Count: p.at[a.Agent], Agent: a.Agent}
	}
	p.out[caller]++
	p.at[a.Agent]++
	p.most = max(p.most, p.out[caller])
	p.order = append(p.order, a.RunID)
	return Grant{RunID: a.RunID}, nil
}

// free gives the places of calls back, and wakes who waits if here is set: else
// it is as if another sidecar had done it.
func (p *places) free(here bool, calls ...*Admission) {
	p.mu.Lock()
	for _, a := range calls {
		p.out[callerKey(a)]--
		p.at[a.Agent]--
	}
	p.mu.Unlock()
	for _, a := range calls {
		if here {
			p.lines.freed(a.Root, a.Agent)
		}
	}
}

func (p *places) got() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.order
}

func (p *places) tried(a *Admission) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.tries[a.RunID]
}

// waitFor starts a call and waits until it has its outcome or stands in line.
func (p *places) waitFor(ctx context.Context, a *Admission) <-chan outcome {
	c := make(chan outcome, 1)
	began := time.Now()
	go func() {
		g, err := p.lines.admit(ctx, a, func() (Grant, error) { return p.take(a) }, func(*lineage.Refusal) {})
		c <- outcome{g, err, time.Since(began)}
	}()
	synctest.Wait()
	return c
}

// call is a call of the root session of tree r, or of caller.
func call(run, caller, agent string) *Admission {
	return &Admission{
		Root: "r", Caller: Caller{ContextID: caller}, Agent: agent, RunID: run,
		Limits: lineage.Limits{QueueTimeout: time.Minute},
	}
}

func reasonOf(t *testing.T, err error) *lineage.Refusal {
	t.Helper()
	var r *lineage.Refusal
	if !errors.As(err, &r) {
		t.Fatalf("got error %v, want a refusal", err)
	}
	return r
}

func pending(t *testing.T, what string, c <-chan outcome) {
	t.Helper()
	select {
	case o := <-c:
		t.Errorf("%s: outcome %+v, want it to wait", what, o)
	default:
	}
}
