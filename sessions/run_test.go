package sessions_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// task is a result of 1.0 that says how task t1 stands.
func task(state string) string {
	return `{"statusUpdate":{"taskId":"t1","status":{"state":"` + state + `"}}}`
}

const (
	working   = "TASK_STATE_WORKING"
	asks      = "TASK_STATE_INPUT_REQUIRED"
	needsAuth = "TASK_STATE_AUTH_REQUIRED"
	completed = "TASK_STATE_COMPLETED"
)

func TestStatesOfTasks(t *testing.T) {
	t.Parallel()
	for state, want := range map[string]struct {
		state  lineage.State
		reason string
	}{
		"TASK_STATE_COMPLETED": {lineage.Completed, ""},
		"TASK_STATE_FAILED":    {lineage.Failed, ""},
		"TASK_STATE_CANCELED":  {lineage.Failed, lineage.ReasonCanceled},
		"TASK_STATE_REJECTED":  {lineage.Failed, lineage.ReasonRejected},
		"TASK_STATE_WORKING":   {lineage.Active, ""},
		"TASK_STATE_SUBMITTED": {lineage.Active, ""},
		asks:                   {lineage.Suspended, ""},
		needsAuth:              {lineage.Suspended, ""},
		"unheard-of":           {lineage.Active, ""},
	} {
		t.Run(state, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				run := w.begin(message{root: "root"}) // a shared session goes on
				w.say(run, task(state))
				w.end(run, sessions.Answered)
				session := lineage.Active
				if want.state == lineage.Suspended {
					session = lineage.Suspended
				}
				w.stands(run, session, want.state, want.reason)

				w.isolating() // an isolated one ends with its run
				run = w.begin(message{root: "root2"})
				w.say(run, strings.ReplaceAll(task(state), "t1", "t2"))
				w.end(run, sessions.Answered)
				w.stands(run, want.state, want.state, want.reason)
			})
		})
	}
}

func TestWorkerMayNotAsk(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.agent.Kind = lineage.Worker
		run := w.begin(message{root: "root"})
		w.say(run, `{"task":{"id":"t1","status":{"state":"input-required","message":{"messageId":"q","parts":[{"text":"which?"}]}}}}`)
		w.end(run, sessions.Answered)
		w.stands(run, lineage.Failed, lineage.Failed, lineage.ReasonNoInput)
		if got := w.session(run).Result; got == nil || got.Summary != "which?" {
			t.Errorf("result = %+v, want the question as its summary", got)
		}
	})
}

// Whatever ends a run is with the store before what its caller does next.
func TestNextCallFindsTheRunEnded(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		w.agent.Limits.MaxChildren, w.agent.Limits.QueueTimeout = 1, 0
		for range 10 {
			run := w.begin(message{root: "root"})
			w.say(run, task(completed))
			next := w.begin(message{root: "root"}) // End has not been called
			run.End(sessions.Answered)
			w.say(next, task(asks)) // waits, and keeps its place
			w.refused(message{root: "root"}, lineage.ChildrenLimit)
			w.say(next, task(completed))
		}
	})
}

func TestHowCallsEnd(t *testing.T) {
	t.Parallel()
	type end struct {
		state  lineage.State
		reason string
	}
	for name, tc := range map[string]struct {
		outcome sessions.Outcome
		blind   end // nothing was seen
		known   end // the task was
		ended   end // its end was
	}{
		"answered":    {sessions.Answered, end{lineage.Failed, "malformed_response"}, end{lineage.Active, ""}, end{lineage.Completed, ""}},
		"unread":      {sessions.Unread, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Completed, ""}},
		"malformed":   {sessions.Malformed, end{lineage.Failed, "malformed_response"}, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Completed, ""}},
		"broken off":  {sessions.BrokenOff, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Active, ""}, end{lineage.Completed, ""}},
		"caller gone": {sessions.CallerGone, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Active, ""}, end{lineage.Completed, ""}},
		"unreachable": {sessions.Unreachable, end{lineage.Failed, lineage.ReasonUnreachable}, end{lineage.Active, ""}, end{lineage.Completed, ""}},
		"http error":  {sessions.HTTPError, end{lineage.Failed, lineage.ReasonAgentError}, end{lineage.Active, ""}, end{lineage.Completed, ""}},
	} {
		for how, want := range map[string]end{"blind": tc.blind, "known": tc.known, "ended": tc.ended} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				inWorld(t, nil, func(t *testing.T, w *world) {
					w.isolating()
					run := w.begin(message{root: "root"})
					switch how {
					case "known":
						w.say(run, task(working))
					case "ended":
						w.say(run, task(working), task(completed))
					}
					w.end(run, tc.outcome)
					w.stands(run, want.state, want.state, want.reason)
				})
			})
		}
	}
}

func TestEndIsFinal(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.say(run, task(completed))
		w.end(run, sessions.Answered)
		before := types(w.events("root"))
		run.End(sessions.CallerGone)
		w.say(run, task("TASK_STATE_FAILED"))
		run.Flush()
		w.end(run, sessions.Malformed)
		same(t, "events", types(w.events("root")), before)
	})
}

func TestInterruptedTaskGoesOn(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		first := w.begin(message{root: "root"})
		w.say(first, task(asks))
		w.end(first, sessions.Answered)
		w.stands(first, lineage.Suspended, lineage.Suspended, "")
		time.Sleep(time.Hour) // it waits without a lease
		answer := w.begin(message{root: "root", task: "t1"})
		w.stands(first, lineage.Active, lineage.Active, "")
		w.say(answer, task(working), task(completed))
		w.end(answer, sessions.Answered)
		w.stands(first, lineage.Completed, lineage.Completed, "")
		if n := len(w.session(first).Runs); n != 1 {
			t.Errorf("%d runs, want 1 that went on", n)
		}
	})
}

// A call that continues a task and does not reach it leaves it waiting.
func TestResumeThatFailsLeavesTheTaskWaiting(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*world, *sessions.Run){
		"error answer": func(w *world, run *sessions.Run) {
			w.saw(run, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`)
			w.end(run, sessions.Answered)
		},
		"unreachable": func(w *world, run *sessions.Run) { w.end(run, sessions.Unreachable) },
		"http error":  func(w *world, run *sessions.Run) { w.end(run, sessions.HTTPError) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.isolating()
				first := w.begin(message{root: "root"})
				w.say(first, task(asks))
				w.end(first, sessions.Answered)
				resume := w.begin(message{root: "root", task: "t1"})
				fail(w, resume)
				w.stands(first, lineage.Suspended, lineage.Suspended, "")
				again := w.begin(message{root: "root", task: "t1"})
				w.say(again, task(completed))
				w.end(again, sessions.Answered)
				w.stands(first, lineage.Completed, lineage.Completed, "")
			})
		})
	}
}

// An agent that got its credentials some other way goes on by itself.
func TestStreamGoesOnAfterWaiting(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		run := w.begin(message{root: "root"})
		w.say(run, task(needsAuth))
		w.stands(run, lineage.Suspended, lineage.Suspended, "")
		time.Sleep(time.Hour)
		w.say(run, task(working))
		run.Flush()
		w.stands(run, lineage.Active, lineage.Active, "")
		time.Sleep(5 * sessions.DefaultLease)
		w.begin(message{root: "root"}) // settles what has lapsed
		w.stands(run, lineage.Active, lineage.Active, "")
		w.end(run, sessions.Unread)
		w.stands(run, lineage.Failed, lineage.Failed, lineage.ReasonLost)
	})
}

func TestLeasesAreRenewed(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		run := w.begin(message{root: "root"})
		if got := w.record.Open(); got != 1 {
			t.Errorf("Open() = %d, want 1", got)
		}
		time.Sleep(10 * sessions.DefaultLease)
		w.begin(message{root: "root"})
		w.stands(run, lineage.Active, lineage.Active, "")
		// A sidecar that dies renews no more.
		w.store.set(true)
		time.Sleep(2 * sessions.DefaultLease)
		w.store.set(false)
		time.Sleep(time.Second)
		w.begin(message{root: "root"})
		w.stands(run, lineage.Failed, lineage.Failed, lineage.ReasonLost)
		w.say(run, task(completed))
		w.stands(run, lineage.Completed, lineage.Completed, "")
	})
}

// After an outage that is shorter than a lease, the leases are renewed before
// anything is settled.
func TestShortOutageCostsNoLease(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		time.Sleep(time.Second)
		w.store.set(true)
		time.Sleep(sessions.DefaultLease - 3*time.Second)
		w.store.set(false)
		time.Sleep(5 * time.Second)
		w.stands(run, lineage.Active, lineage.Active, "")
		w.complete(run)
	})
}

// Two calls hold one run: a message sent to a task at work, or sent again.
func TestRunIsHeldByAllItsCalls(t *testing.T) {
	t.Parallel()
	for name, second := range map[string]message{
		"retry":               {root: "root", id: "once"},
		"message to the task": {root: "root", task: "t1"},
	} {
		for how, end := range map[string]func(*world, *sessions.Run){
			"caller gone": func(w *world, run *sessions.Run) { w.end(run, sessions.CallerGone) },
			"unreachable": func(w *world, run *sessions.Run) { w.end(run, sessions.Unreachable) },
			"error answer": func(w *world, run *sessions.Run) {
				w.saw(run, transcript(w.T, "error-1.0.txt")[0])
				w.end(run, sessions.Answered)
			},
		} {
			t.Run(name+"/"+how, func(t *testing.T) {
				t.Parallel()
				inWorld(t, nil, func(t *testing.T, w *world) {
					w.isolating()
					run := w.begin(message{root: "root", id: "once"})
					w.say(run, task(working))
					run.Flush()
					synctest.Wait()
					end(w, w.begin(second))
					w.stands(run, lineage.Active, lineage.Active, "")
					time.Sleep(5 * sessions.DefaultLease)
					w.begin(message{root: "root"})
					w.stands(run, lineage.Active, lineage.Active, "")
					w.end(run, sessions.Unread)
					w.stands(run, lineage.Failed, lineage.Failed, lineage.ReasonLost)
				})
			})
		}
	}
}

// Of two calls that hold a run the agent rebukes one, and the other breaks off.
func TestRebukeSaysNothingOfTheRun(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.say(run, task(working))
		run.Flush()
		second := w.begin(message{root: "root", task: "t1"})
		w.saw(second, transcript(t, "error-1.0.txt")[0])
		w.end(run, sessions.BrokenOff)
		w.stands(run, lineage.Active, lineage.Active, "")
		w.end(second, sessions.Answered)
		w.stands(run, lineage.Active, lineage.Active, "")
		if got := w.record.Open(); got != 0 {
			t.Errorf("Open() = %d, want 0", got)
		}
	})
}

// A retry whose caller leaves before its grant comes says nothing of the first
// try, which is under way.
func TestLateGrantOfAHeldRunEndsNothing(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		w.isolating()
		w.agent.Limits.MaxChildren, w.agent.Limits.QueueTimeout = 1, 0
		first := w.begin(message{root: "root", id: "m"})
		w.say(first, task(working))
		release := w.hang()
		ctx, leave := context.WithCancel(t.Context())
		again := w.start(ctx, message{root: "root", id: "m"})
		leave()
		if b := <-again; !errors.Is(b.err, context.Canceled) {
			t.Fatalf("Begin() of a caller that left = %v", b.err)
		}
		release()
		w.settle()
		w.stands(first, lineage.Active, lineage.Active, "")
		w.refused(message{root: "root", id: "other"}, lineage.ChildrenLimit)
		time.Sleep(5 * sessions.DefaultLease)
		w.refused(message{root: "root", id: "another"}, lineage.ChildrenLimit)
		w.say(first, task(completed))
		w.end(first, sessions.Answered)
		w.stands(first, lineage.Completed, lineage.Completed, "")
	})
}

// A message to a task at work that the agent refuses leaves the task at work.
func TestRefusedFollowUpLeavesTheTaskAtWork(t *testing.T) {
	t.Parallel()
	for name, fail := range map[string]func(*world, *sessions.Run){
		"error answer": func(w *world, run *sessions.Run) {
			w.saw(run, `{"jsonrpc":"2.0","id":1,"error":{"code":-32603,"message":"no"}}`)
			w.end(run, sessions.Answered)
		},
		"unreachable": func(w *world, run *sessions.Run) { w.end(run, sessions.Unreachable) },
		"caller gone": func(w *world, run *sessions.Run) { w.end(run, sessions.CallerGone) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.isolating()
				first := w.begin(message{root: "root"})
				w.say(first, task(working))
				w.end(first, sessions.Answered) // not waiting for the end
				fail(w, w.begin(message{root: "root", task: "t1"}))
				w.stands(first, lineage.Active, lineage.Active, "")
			})
		})
	}
}

// An agent that names another tree's context or task gives its caller no hold
// of it.
func TestAgentsWordOpensNobodysContext(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		hers := w.begin(message{root: "anns", principal: "ann", context: "hers"})
		w.say(hers, task(asks))
		w.end(hers, sessions.Answered)
		// Another sidecar over the same store has seen none of that.
		other := newWorld(t, w.store, nil)
		his := other.begin(message{root: "bobs", principal: "bob"})
		other.say(his, `{"task":{"id":"t1","contextId":"hers","status":{"state":"TASK_STATE_COMPLETED"}}}`)
		other.end(his, sessions.Answered)
		crossed := other.begin(message{root: "bobs", principal: "bob", context: "hers"})
		if id, _ := crossed.ContextID(); id == "hers" {
			t.Error("bob's call runs in ann's context")
		}
		other.refused(message{root: "bobs", principal: "bob", task: "t1"}, lineage.ContextForbidden)
		other.end(crossed, sessions.Unreachable)
	})
}
