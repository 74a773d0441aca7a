package sessions_test

import (
	"errors"
	"testing"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// follow asks about task t1.
func (w *world) follow(principal string) *sessions.Run {
	w.Helper()
	run, err := w.record.Follow(w.Context(), w.agent, principal, "trace", "t1")
	if err != nil {
		w.Fatalf("Follow() = %v, want a run", err)
	}
	return run
}

func TestFollowSettlesWhatNobodyHolds(t *testing.T) {
	t.Parallel()
	for name, outcome := range map[string]sessions.Outcome{
		"detached": sessions.Answered, "dropped": sessions.CallerGone, "lost": sessions.Unread,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.isolating()
				w.agent.Limits.MaxFanOut = 2
				run := w.begin(message{root: "root"})
				w.say(run, task(working))
				w.end(run, outcome)
				time.Sleep(10 * time.Minute) // far longer than a lease
				w.begin(message{root: "root"})
				want := lineage.Active
				if outcome == sessions.Unread {
					want = lineage.Failed
				}
				if got := w.session(run).State; got != want {
					t.Errorf("session is %s, want %s", got, want)
				}
				f := w.follow("")
				if got := f.Lineage(); got.Session != run.Lineage().Session || got.Root != "root" {
					t.Errorf("Lineage() = %+v, want that of session %s", got, run.Lineage().Session)
				}
				w.say(f, `{"id":"t1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"the answer"}]}]}`)
				w.end(f, sessions.Answered)
				w.stands(run, lineage.Completed, lineage.Completed, "")
				if got := w.session(run).Result; got == nil || got.Summary != "the answer" || len(got.Artifacts) != 1 {
					t.Errorf("result = %+v, want the artifact's text", got)
				}
			})
		})
	}
}

// A run that nobody asks about is not held open for ever.
func TestDetachedRunIsLostInTheEnd(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		run := w.begin(message{root: "root"})
		w.say(run, task(working))
		w.end(run, sessions.Answered)
		time.Sleep(lineage.DefaultBranchTTL + lineage.DefaultGrace + time.Minute + 2*time.Second)
		w.stands(run, lineage.Failed, lineage.Failed, lineage.ReasonLost)

		w.agent.TTL = time.Minute
		run = w.begin(message{root: "root"})
		w.say(run, `{"statusUpdate":{"taskId":"t2","status":{"state":"working"}}}`)
		w.end(run, sessions.Answered)
		time.Sleep(time.Minute + lineage.DefaultGrace + 3*time.Second)
		w.stands(run, lineage.Expired, lineage.Expired, "") // with its session's time
	})
}

func TestFollowChangesNothingItWasNotTold(t *testing.T) {
	t.Parallel()
	for name, see := range map[string]func(*world, *sessions.Run){
		"nothing":  func(*world, *sessions.Run) {},
		"an error": func(w *world, run *sessions.Run) { w.saw(run, transcript(w.T, "error-1.0.txt")[0]) },
		"at work":  func(w *world, run *sessions.Run) { w.say(run, task(working)) },
		"some chunks": func(w *world, run *sessions.Run) {
			w.say(run, `{"id":"t1","status":{"state":"working"},"artifacts":[{"artifactId":"a","parts":[{"text":"half"}]}]}`)
		},
		"another list": func(w *world, run *sessions.Run) { w.say(run, `{"tasks":[]}`) },
	} {
		for outcome := sessions.Answered; outcome <= sessions.HTTPError; outcome++ {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				inWorld(t, nil, func(t *testing.T, w *world) {
					w.isolating()
					run := w.begin(message{root: "root"})
					w.say(run, task(working))
					run.Flush()
					before := types(w.events("root"))
					f := w.follow("")
					see(w, f)
					w.end(f, outcome)
					w.stands(run, lineage.Active, lineage.Active, "")
					same(t, "events", types(w.events("root")), before)
					if got := w.record.Open(); got != 1 {
						t.Errorf("Open() = %d, want 1: the call itself", got)
					}
				})
			})
		}
	}
}

func TestFollowedTaskMayAskAndGoOn(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.say(run, task(working))
		w.end(run, sessions.Answered)
		f := w.follow("")
		w.say(f, task(asks))
		w.stands(run, lineage.Suspended, lineage.Suspended, "")
		w.say(f, task(working))
		f.Flush()
		w.stands(run, lineage.Active, lineage.Active, "")
		w.say(f, task("TASK_STATE_CANCELED"))
		w.stands(run, lineage.Active, lineage.Failed, lineage.ReasonCanceled)
		w.end(f, sessions.Answered)
	})
}

// After a restart, or at another replica, only the store knows the task.
func TestFollowAtAnotherReplica(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.agent.Kind = lineage.Worker
		run := w.begin(message{root: "root", principal: "ann"})
		w.say(run, task(working))
		w.end(run, sessions.Answered)
		other := newWorld(t, w.store, func(o *sessions.Options) { o.Owner = "sidecar-2" })
		other.agent = w.agent
		f := other.follow("ann")
		other.say(f, task(asks)) // which a worker may not
		other.end(f, sessions.Answered)
		w.stands(run, lineage.Failed, lineage.Failed, lineage.ReasonNoInput)
	})
}

func TestWhoMayFollow(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		if _, err := w.record.Follow(t.Context(), w.agent, "", "", "t1"); !errors.Is(err, sessions.ErrNotFound) {
			t.Errorf("Follow(unknown task) = %v, want ErrNotFound", err)
		}
		run := w.begin(message{root: "root", principal: "ann"})
		w.say(run, task(working))
		w.end(run, sessions.Answered)
		_, err := w.record.Follow(t.Context(), w.agent, "bob", "", "t1")
		var r *lineage.Refusal
		if !errors.As(err, &r) || r.Reason != lineage.ContextForbidden {
			t.Errorf("Follow(ann's task) by bob = %v, want CONTEXT_FORBIDDEN", err)
		}
		w.store.set(true)
		if _, err := w.record.Follow(t.Context(), w.agent, "ann", "", "t1"); err != nil {
			t.Errorf("Follow() of a known task with the store down = %v, want nil", err)
		}
		if _, err := w.record.Follow(t.Context(), w.agent, "ann", "", "t9"); !errors.Is(err, sessions.ErrNotFound) {
			t.Errorf("Follow() of an unknown task with the store down = %v, want ErrNotFound", err)
		}
	})
}

// What an agent says of another task than it was asked for is not about this one.
func TestFollowHeedsItsOwnTaskOnly(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.working(run, "t1")
		f := w.follow("")
		w.say(f, `{"id":"other","status":{"state":"TASK_STATE_COMPLETED"}}`)
		w.end(f, sessions.Answered)
		w.stands(run, lineage.Active, lineage.Active, "")
		w.end(run, sessions.CallerGone)
	})
}
