package sessions_test

import (
	"encoding/json"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
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

// What agents were seen to answer, and what the record makes of it.
func TestTranscripts(t *testing.T) {
	t.Parallel()
	spawn := []string{lineage.EventSpawned, lineage.EventSpawned, lineage.EventSent}
	for name, tc := range map[string]struct {
		events  []string // after the spawns and the message
		session lineage.State
		run     lineage.State
		reason  string
		summary string
		made    int
	}{
		"stream-0.3.txt": {
			[]string{lineage.EventBound, lineage.EventStatus, lineage.EventStatus, lineage.EventArtifact, lineage.EventStatus, lineage.EventCompleted},
			lineage.Completed, lineage.Completed, "", "chunk 0 of stream\nchunk 1 of stream\nchunk 2 of stream", 1,
		},
		"stream-1.0.txt": {
			[]string{lineage.EventBound, lineage.EventStatus, lineage.EventStatus, lineage.EventArtifact, lineage.EventStatus, lineage.EventCompleted},
			lineage.Completed, lineage.Completed, "", "chunk 0 of stream\nchunk 1 of stream\nchunk 2 of stream", 1,
		},
		"message-0.3.txt": {
			[]string{lineage.EventBound, lineage.EventReceived, lineage.EventCompleted},
			lineage.Completed, lineage.Completed, "", "echo msg:hello", 0,
		},
		"message-1.0.txt": {
			[]string{lineage.EventReceived, lineage.EventCompleted},
			lineage.Completed, lineage.Completed, "", "Hello, world!", 0,
		},
		"input-required-0.3.txt": {
			[]string{lineage.EventBound, lineage.EventStatus, lineage.EventSuspended, lineage.EventArtifact},
			lineage.Suspended, lineage.Suspended, "", "", 0,
		},
		"error-1.0.txt": {
			[]string{lineage.EventFailed},
			lineage.Failed, lineage.Failed, lineage.ReasonAgentError, "error -32603: task execution is already in progress", 0,
		},
		"submitted-0.3.txt": {
			[]string{lineage.EventBound, lineage.EventStatus},
			lineage.Active, lineage.Active, "", "", 0,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				w.isolating()
				run := w.begin(message{root: "root"})
				for _, response := range transcript(t, name) {
					w.saw(run, response)
					run.Flush()
				}
				w.end(run, sessions.Answered)
				w.stands(run, tc.session, tc.run, tc.reason)
				same(t, "events", types(w.events("root")), append(spawn, tc.events...))
				result := w.session(run).Result
				if result == nil {
					result = &lineage.Result{}
				}
				if result.Summary != tc.summary || len(result.Artifacts) != tc.made {
					t.Errorf("result = %q with %d artifacts, want %q with %d", result.Summary, len(result.Artifacts), tc.summary, tc.made)
				}
				if got := w.record.Open(); got != 0 {
					t.Errorf("Open() = %d, want 0", got)
				}
			})
		})
	}
}

// However an artifact comes, in chunks, in a snapshot or both, it is one.
func TestStreamAndSnapshotAreOne(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		for _, response := range transcript(t, "slow-1.0.txt") {
			w.saw(run, response)
		}
		w.end(run, sessions.Answered)
		before := types(w.events("root", lineage.EventArtifact, lineage.EventReceived))
		statuses := len(w.events("root", lineage.EventStatus))
		taskID := w.session(run).Runs[0].TaskID

		follow, err := w.record.Follow(t.Context(), w.agent, "", "", taskID)
		if err != nil {
			t.Fatalf("Follow() = %v", err)
		}
		for _, response := range transcript(t, "subscribe-1.0.txt") {
			w.saw(follow, strings.ReplaceAll(response, "5b004c0b-60ef-4739-95be-e5e5f0629be2", taskID))
		}
		w.end(follow, sessions.Answered)
		same(t, "artifacts and messages", types(w.events("root", lineage.EventArtifact, lineage.EventReceived)), before)
		if got := len(w.events("root", lineage.EventStatus)); got != statuses {
			t.Errorf("%d task.status events, want %d as before", got, statuses)
		}
	})
}

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
		"answered":    {sessions.Answered, end{lineage.Completed, ""}, end{lineage.Active, ""}, end{lineage.Completed, ""}},
		"malformed":   {sessions.Malformed, end{lineage.Failed, "malformed_response"}, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Completed, ""}},
		"broken off":  {sessions.BrokenOff, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Completed, ""}},
		"caller gone": {sessions.CallerGone, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Failed, lineage.ReasonLost}, end{lineage.Completed, ""}},
		"unreachable": {sessions.Unreachable, end{lineage.Failed, lineage.ReasonUnreachable}, end{lineage.Failed, lineage.ReasonUnreachable}, end{lineage.Completed, ""}},
		"http error":  {sessions.HTTPError, end{lineage.Failed, lineage.ReasonAgentError}, end{lineage.Failed, lineage.ReasonAgentError}, end{lineage.Completed, ""}},
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
		w.end(run, sessions.BrokenOff)
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
					w.end(run, sessions.BrokenOff)
					w.stands(run, lineage.Failed, lineage.Failed, lineage.ReasonLost)
				})
			})
		}
	}
}

func TestUsageIsARunningTotal(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		with := func(state, metadata string) string {
			return `{"statusUpdate":{"taskId":"t1","status":{"state":"` + state + `"},"metadata":` + metadata + `}}`
		}
		w.say(run, with(working, `{"kagent_usage_metadata":{"totalTokenCount":10}}`))
		run.Flush()
		w.say(run, with(working, `{"kagent_usage_metadata":{"totalTokenCount":25}}`))
		run.Flush()
		w.say(run, with(working, `{"kagent_usage_metadata":null}`), with(working, `{"kagent_usage_metadata":"much"}`),
			with(working, `{"kagent_usage_metadata":{"x":"`+strings.Repeat("x", 1<<20)+`"}}`))
		w.say(run, with(completed, `{}`))
		w.end(run, sessions.Answered)
		if got := string(w.session(run).Usage); got != `{"totalTokenCount":25}` {
			t.Errorf("usage = %s, want the last total", got)
		}
	})
}

func TestArtifactsInChunks(t *testing.T) {
	t.Parallel()
	chunk := func(id, text string, more, last bool) string {
		b, _ := json.Marshal(map[string]any{"artifactUpdate": map[string]any{
			"taskId": "t1", "append": more, "lastChunk": last,
			"artifact": map[string]any{"artifactId": id, "name": "file " + id, "parts": []any{map[string]string{"text": text}}},
		}})
		return string(b)
	}
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.say(run, // two at a time, one of them begun anew, one never finished
			chunk("a", "dropped", false, false), chunk("b", "b1", false, false),
			chunk("a", "a1", false, false), chunk("b", "b2", true, true),
			chunk("a", "a2", true, true), chunk("c", "c1", false, false),
			chunk("b", "b1", false, false), chunk("b", "b2", true, true), // again, as one who resubscribes gets it
			task(completed))
		w.end(run, sessions.Answered)
		got := map[string]string{}
		for _, e := range w.events("root", lineage.EventArtifact) {
			p := payload(t, e)
			for _, part := range p["parts"].([]any) {
				got[p["id"].(string)] += part.(map[string]any)["text"].(string) + " "
			}
		}
		same(t, "artifacts", got, map[string]string{"a": "a1 a2 ", "b": "b1 b2 ", "c": "c1 "})
		result := w.session(run).Result
		if result == nil || len(result.Artifacts) != 3 || result.Artifacts[0].Name != "file b" || result.Artifacts[0].Bytes != 4 {
			t.Errorf("result = %+v, want the three, b (4 bytes) first", result)
		}
	})
}

func TestManyArtifactsAtOnce(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		const n = 1000
		for i := range n {
			id := strings.Repeat("i", i+1)
			w.say(run, `{"artifactUpdate":{"taskId":"t1","artifact":{"artifactId":"`+id+`","parts":[{"text":"`+id+`"}]}}}`)
		}
		w.say(run, task(completed))
		w.end(run, sessions.Answered)
		if got := len(w.events("root", lineage.EventArtifact)); got != n-6 && got != n {
			t.Errorf("%d task.artifact events, want %d", got, n)
		}
		if got := len(w.session(run).Result.Artifacts); got > 256 {
			t.Errorf("%d artifacts in the result, want it bounded", got)
		}
	})
}

// Agents that leave out what they should say must not have their events taken
// for one another's.
func TestEventsOfNamelessTasksDiffer(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		for range 2 {
			run := w.begin(message{root: "root"})
			for range 2 { // the same, twice
				run.Saw(wire.Update{Kind: wire.UpdateStatus, State: wire.TaskWorking})
				run.Saw(wire.Update{Kind: wire.UpdateArtifact, LastChunk: true, Artifacts: []wire.Artifact{{ID: "a"}}})
			}
			run.Saw(wire.Update{Kind: wire.UpdateMessage})
			w.end(run, sessions.Answered)
		}
		same(t, "events", types(w.events("root", lineage.EventStatus, lineage.EventArtifact, lineage.EventReceived)), []string{
			lineage.EventStatus, lineage.EventArtifact, lineage.EventReceived,
			lineage.EventStatus, lineage.EventArtifact, lineage.EventReceived,
		})
	})
}

// Identifiers are the agent's own words: nothing that forges or floods.
func TestHostileIdentifiers(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<16)
	inWorld(t, nil, func(t *testing.T, w *world) {
		for _, bad := range []string{long, "a\nb", "\x00"} {
			run := w.begin(message{root: "root"})
			run.Saw(wire.Update{Kind: wire.UpdateStatus, TaskID: bad, ContextID: bad, Timestamp: long, State: wire.TaskWorking})
			run.Saw(wire.Update{Kind: wire.UpdateArtifact, TaskID: bad, LastChunk: true, Artifacts: []wire.Artifact{{ID: bad, Name: long}}})
			run.Saw(wire.Update{Kind: wire.UpdateMessage, TaskID: bad, ContextID: bad, MessageID: bad})
			w.end(run, sessions.Answered)
			if got := w.session(run).Runs[0].TaskID; got != "" {
				t.Errorf("task id = %.20q, want none", got)
			}
		}
		for _, e := range w.events("root") {
			if len(e.ID) > 1024 || strings.ContainsAny(e.ID, "\n\x00") {
				t.Errorf("event id %.80q (%d bytes), want none of the agent's excess", e.ID, len(e.ID))
			}
			if len(e.Payload) > 4096 {
				t.Errorf("payload of %.40q has %d bytes", e.ID, len(e.Payload))
			}
		}
	})
}
