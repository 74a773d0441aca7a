package sessions_test

import (
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// While the store does not answer, the caps hold by the sidecar's own counts:
// of calls that it admitted before, and of those that go on without a record.
func TestCapsHoldWithoutTheStore(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		limits  lineage.Limits
		isolate bool
		want    lineage.Reason
	}{
		"children":    {lineage.Limits{MaxChildren: 3}, true, lineage.ChildrenLimit},
		"fan-out":     {lineage.Limits{MaxFanOut: 3}, false, lineage.FanOutLimit},
		"concurrency": {lineage.Limits{MaxConcurrent: 3}, true, lineage.ConcurrencyLimit},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.agent.Limits, w.agent.Isolate = tc.limits, tc.isolate
				before := w.begin(message{root: "root"})
				w.store.set(true)
				one, two := w.begin(message{root: "root"}), w.begin(message{root: "root"})
				if one.Recorded() || two.Recorded() {
					t.Fatal("calls without a store are recorded")
				}
				w.refused(message{root: "root"}, tc.want)
				one.End(sessions.Answered)
				one.End(sessions.Answered) // gives back one place
				three := w.begin(message{root: "root"})
				w.refused(message{root: "root"}, tc.want)
				before.End(sessions.Answered)
				four := w.begin(message{root: "root"})
				for _, run := range []*sessions.Run{two, three, four} {
					run.End(sessions.Answered)
				}
				w.store.set(false)
				time.Sleep(time.Second)
				w.complete(w.begin(message{root: "root"}))
			})
		})
	}
}

// Calls that share a session are one child.
func TestSharedSessionIsOneChildWithoutTheStore(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.agent.Limits = lineage.Limits{MaxChildren: 1}
		w.store.set(true)
		runs := []*sessions.Run{w.begin(message{root: "root"}), w.begin(message{root: "root"})}
		w.refused(message{root: "root", context: "another"}, lineage.ChildrenLimit)
		for _, run := range runs {
			run.End(sessions.Answered)
		}
		w.store.set(false)
		time.Sleep(time.Second)
	})
}
