package sessions_test

import (
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// A sidecar that has started anew, or another one, tells the caller of a task
// the session that it runs in.
func TestFollowAfterRestart(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.say(run, task(working))
		w.end(run, sessions.Answered)
		w.settle()
		again := newWorld(t, w.store, nil)
		f := again.follow("")
		got, want := f.Lineage(), run.Lineage()
		if got.Session != want.Session || got.Branch != want.Branch || got.Root != want.Root {
			t.Errorf("Lineage() = %+v, want that of %+v", got, want)
		}
		if id, _ := f.ContextID(); id == "" || id != contextOf(run) {
			t.Errorf("ContextID() = %q, want %q", id, contextOf(run))
		}
		again.say(f, `{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"}}`)
		again.end(f, sessions.Answered)
		again.settle()
		w.stands(run, lineage.Active, lineage.Completed, "") // shared: idle between runs
	})
}
