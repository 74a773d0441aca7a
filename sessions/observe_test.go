package sessions_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
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
			[]string{lineage.EventBound, lineage.EventStatus, lineage.EventStatus, lineage.EventArtifact, lineage.EventStatus, lineage.EventCompleted, lineage.EventResult},
			lineage.Completed, lineage.Completed, "", "chunk 0 of stream\nchunk 1 of stream\nchunk 2 of stream", 1,
		},
		"stream-1.0.txt": {
			[]string{lineage.EventBound, lineage.EventStatus, lineage.EventStatus, lineage.EventArtifact, lineage.EventStatus, lineage.EventCompleted, lineage.EventResult},
			lineage.Completed, lineage.Completed, "", "chunk 0 of stream\nchunk 1 of stream\nchunk 2 of stream", 1,
		},
		"message-0.3.txt": {
			[]string{lineage.EventBound, lineage.EventReceived, lineage.EventCompleted, lineage.EventResult},
			lineage.Completed, lineage.Completed, "", "echo msg:hello", 0,
		},
		"message-1.0.txt": {
			[]string{lineage.EventReceived, lineage.EventCompleted, lineage.EventResult},
			lineage.Completed, lineage.Completed, "", "Hello, world!", 0,
		},
		"input-required-0.3.txt": {
			[]string{lineage.EventBound, lineage.EventStatus, lineage.EventSuspended, lineage.EventArtifact},
			lineage.Suspended, lineage.Suspended, "", "", 0,
		},
		"error-1.0.txt": {
			[]string{lineage.EventFailed, lineage.EventResult},
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

func TestHugeArtifactIsCut(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		half := strings.Repeat("x", 600<<10)
		for range 3 {
			w.say(run, `{"artifactUpdate":{"taskId":"t1","append":true,"artifact":{"artifactId":"a","parts":[{"text":"`+half+`"}]}}}`)
		}
		w.say(run, task(completed))
		w.end(run, sessions.Answered)
		artifacts := w.events("root", lineage.EventArtifact)
		if len(artifacts) != 1 || payload(t, artifacts[0])["truncated"] != true || len(artifacts[0].Payload) > 32<<10 {
			t.Errorf("%d task.artifact events, want one, truncated, of what is kept", len(artifacts))
		}
	})
}

// The log tells which task a run made, whatever the agent says first, and even
// where a first try has logged all that a retry hears.
func TestLogTellsEveryTask(t *testing.T) {
	t.Parallel()
	for name, first := range map[string]string{
		"chunk":         `{"artifactUpdate":{"taskId":"t1","artifact":{"artifactId":"a","parts":[{"text":"x"}]}}}`,
		"unknown state": `{"statusUpdate":{"taskId":"t1","status":{"state":"TASK_STATE_LIMBO"}}}`,
		"status":        task(working),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inWorld(t, nil, func(t *testing.T, w *world) {
				run := w.begin(message{root: "root", id: "m"})
				w.say(run, first)
				run.Flush()
				w.end(run, sessions.CallerGone)
				again := w.begin(message{root: "root", id: "m"})
				w.say(again, first, task(completed))
				w.end(again, sessions.Answered)
				for _, r := range w.session(again).Runs {
					if r.TaskID != "t1" {
						t.Errorf("run %s has task %q, want t1", r.ID, r.TaskID)
					}
				}
			})
		})
	}
}

// An artifact too large to keep in memory while others gather is told of at once.
func TestLargeChunksDoNotGather(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		for _, id := range []string{"a", "b"} {
			w.say(run, `{"artifactUpdate":{"taskId":"t1","artifact":{"artifactId":"`+id+`","parts":[{"text":"`+strings.Repeat("x", 2<<20)+`"}]}}}`)
		}
		run.Flush()
		w.settle()
		if got := len(w.events("root", lineage.EventArtifact)); got != 2 {
			t.Errorf("%d task.artifact events while the stream goes on, want 2", got)
		}
		w.end(run, sessions.Unread)
	})
}

// A log reads in the order of what happened: what a task made, then its end.
func TestArtifactsComeBeforeTheEnd(t *testing.T) {
	t.Parallel()
	inWorld(t, nil, func(t *testing.T, w *world) {
		run := w.begin(message{root: "root"})
		w.say(run, `{"task":{"id":"t1","artifacts":[{"artifactId":"a","parts":[{"text":"x"}]}],"status":{"state":"TASK_STATE_COMPLETED"}}}`)
		w.end(run, sessions.Answered)
		same(t, "events", types(w.events("root", lineage.EventArtifact, lineage.EventStatus, lineage.EventCompleted, lineage.EventRunEnded)),
			[]string{lineage.EventArtifact, lineage.EventStatus, lineage.EventRunEnded})
	})
}
