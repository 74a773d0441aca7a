package wire_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/wire"
)

var kinds = map[wire.UpdateKind]string{
	wire.UpdateOther: "other", wire.UpdateTask: "task", wire.UpdateMessage: "message", wire.UpdateStatus: "status",
	wire.UpdateArtifact: "artifact", wire.UpdateTasks: "tasks", wire.UpdateError: "error",
}

// summary is what an update says, without what it does not say.
func summary(t *testing.T, u wire.Update) map[string]any {
	t.Helper()
	m := map[string]any{
		"kind": kinds[u.Kind], "taskId": u.TaskID, "contextId": u.ContextID, "messageId": u.MessageID,
		"timestamp": u.Timestamp, "append": u.Append, "lastChunk": u.LastChunk,
		"errorCode": u.ErrorCode, "errorMessage": u.ErrorMessage, "metadata": string(u.Metadata),
		"text": text(t, u.Parts),
	}
	if u.State != wire.TaskUnknown {
		m["state"] = u.State.String()
	}
	if u.Artifacts != nil {
		var list []map[string]string
		for _, a := range u.Artifacts {
			list = append(list, map[string]string{"id": a.ID, "name": a.Name, "text": text(t, a.Parts)})
		}
		m["artifacts"] = list
	}
	if u.Tasks != nil {
		var list []map[string]any
		for _, u := range u.Tasks {
			list = append(list, summary(t, u))
		}
		m["tasks"] = list
	}
	for k, v := range m {
		if v == "" || v == false || v == 0 {
			delete(m, k)
		}
	}
	return m
}

func text(t *testing.T, raw []byte) string {
	t.Helper()
	parts, err := wire.ReadParts(raw)
	if err != nil {
		t.Fatalf("ReadParts(%s) = %v, want no error", raw, err)
	}
	var all []string
	for _, p := range parts {
		all = append(all, p.Text)
	}
	return strings.Join(all, "|")
}

func TestReadResponse(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     wire.Update
	}{
		{"0.3 task", `{"result":{"kind":"task","id":"t","contextId":"c","status":{"state":"input-required"},"metadata":{"a":1}}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t", ContextID: "c", State: wire.TaskInputRequired, Metadata: []byte(`{"a":1}`)}},
		{"1.0 task", `{"result":{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_AUTH_REQUIRED"}}}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t", ContextID: "c", State: wire.TaskAuthRequired}},
		{"bare task", `{"result":{"id":"t","status":{"state":3}}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t", State: wire.TaskCompleted}},
		{"status with message", `{"result":{"statusUpdate":{"taskId":"t","status":{"state":"TASK_STATE_FAILED","timestamp":"2026","message":{"messageId":"m","contextId":"no","parts":[{"text":"x"}]}}}}}`, wire.Update{Kind: wire.UpdateStatus, TaskID: "t", MessageID: "m", State: wire.TaskFailed, Timestamp: "2026", Parts: []byte(`[{"text":"x"}]`)}},
		{"0.3 final", `{"result":{"kind":"status-update","taskId":"t","final":true,"status":{"state":"canceled"}}}`, wire.Update{Kind: wire.UpdateStatus, TaskID: "t", State: wire.TaskCanceled}},
		{"artifact update", `{"result":{"artifactUpdate":{"taskId":"t","append":true,"lastChunk":true,"artifact":{"artifactId":"a","name":"n","parts":[]}}}}`, wire.Update{Kind: wire.UpdateArtifact, TaskID: "t", Append: true, LastChunk: true, Artifacts: []wire.Artifact{{ID: "a", Name: "n", Parts: []byte(`[]`)}}}},
		{"snake case", `{"result":{"artifact_update":{"task_id":"t","context_id":"c","last_chunk":true,"artifact":{"artifact_id":"a"}}}}`, wire.Update{Kind: wire.UpdateArtifact, TaskID: "t", ContextID: "c", LastChunk: true, Artifacts: []wire.Artifact{{ID: "a"}}}},
		{"unwrapped status", `{"result":{"taskId":"t","status":{"state":"working"}}}`, wire.Update{Kind: wire.UpdateStatus, TaskID: "t", State: wire.TaskWorking}},
		{"unwrapped message", `{"result":{"message_id":"m","parts":[1]}}`, wire.Update{Kind: wire.UpdateMessage, MessageID: "m", Parts: []byte(`[1]`)}},
		{"escaped", `{"res\u0075lt":{"k\u0069nd":"t\u0061sk","id":"\u0074"}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t"}},
		{"history is not ours", `{"result":{"kind":"message","messageId":"m","history":[{"messageId":"h","contextId":"h"}]}}`, wire.Update{Kind: wire.UpdateMessage, MessageID: "m"}},
		{"error", `{"error":{"code":-32001,"message":"no task","data":[{"x":1}]}}`, wire.Update{Kind: wire.UpdateError, ErrorCode: -32001, ErrorMessage: "no task"}},
		{"error wins", `{"error":{"code":-1},"result":{"kind":"task","id":"t"}}`, wire.Update{Kind: wire.UpdateError, ErrorCode: -1}},
		{"null error", `{"error":null,"result":{"kind":"task","id":"t"}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t"}},
		{"odd error", `{"error":{"code":"x","message":7}}`, wire.Update{Kind: wire.UpdateError}},
		{"null result", `{"result":null}`, wire.Update{}},
		{"no result", `{"jsonrpc":"2.0","id":1}`, wire.Update{}},
		{"task list", `{"result":{"tasks":[{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}},7,{"id":"u"}],"nextPageToken":""}}`, wire.Update{Kind: wire.UpdateTasks, Tasks: []wire.Update{
			{Kind: wire.UpdateTask, TaskID: "t", ContextID: "c", State: wire.TaskWorking},
			{Kind: wire.UpdateTask, TaskID: "u"},
		}}},
		{"no tasks", `{"result":{"tasks":[]}}`, wire.Update{Kind: wire.UpdateTasks}},
		{"odd tasks", `{"result":{"tasks":"t"}}`, wire.Update{}},
		{"push config", `{"result":{"taskId":"t","id":"p","url":"http://x"}}`, wire.Update{}},
		{"unknown kind", `{"result":{"kind":"poem","id":"t"}}`, wire.Update{}},
		{"odd types", `{"result":{"task":{"id":1,"contextId":[],"status":"x","artifacts":{},"metadata":[],"parts":{},"final":"true"}}}`, wire.Update{Kind: wire.UpdateTask}},
		{"odd artifacts", `{"result":{"kind":"task","artifacts":[1,{"artifactId":"a","parts":5}]}}`, wire.Update{Kind: wire.UpdateTask, Artifacts: []wire.Artifact{{ID: "a"}}}},
		{"wrapper of no object", `{"result":{"task":"t","message":null}}`, wire.Update{}},
		{"duplicates: the last counts", `{"result":{"kind":"task","id":"a","id":"b"}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "b"}},
		{"invalid UTF-8", "{\"result\":{\"kind\":\"task\",\"id\":\"a\xff\"}}", wire.Update{Kind: wire.UpdateTask, TaskID: "a\uFFFD"}},
		{"bytes after", `{"result":{"kind":"task","id":"t"}}` + "\n garbage", wire.Update{Kind: wire.UpdateTask, TaskID: "t"}},
		{"not an object", `[1]`, wire.Update{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.ReadResponse([]byte(tt.in))
			if err != nil {
				t.Fatalf("ReadResponse(%s) = %v, want no error", tt.in, err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("ReadResponse(%s) (-want +got):\n%s", tt.in, diff)
			}
		})
	}
}

func TestReadResult(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, in string
		want     wire.Update
	}{
		{"1.0 task", `{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t", ContextID: "c", State: wire.TaskWorking}},
		{"1.0 message", `{"message":{"messageId":"m","contextId":"c","parts":[1]}}`, wire.Update{Kind: wire.UpdateMessage, ContextID: "c", MessageID: "m", Parts: []byte(`[1]`)}},
		{"bare task", `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_CANCELLED"}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t", ContextID: "c", State: wire.TaskCanceled}},
		{"0.3 task", `{"kind":"task","id":"t","context_id":"c","status":{"state":"completed"}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t", ContextID: "c", State: wire.TaskCompleted}},
		{"0.3 status", `{"kind":"status-update","task_id":"t","status":{"state":"input-required","message":{"message_id":"m","parts":[1]}},"final":true}`, wire.Update{Kind: wire.UpdateStatus, TaskID: "t", MessageID: "m", State: wire.TaskInputRequired, Parts: []byte(`[1]`)}},
		{"0.3 proto's message", `{"msg":{"message_id":"m","task_id":"t","content":[1]}}`, wire.Update{Kind: wire.UpdateMessage, TaskID: "t", MessageID: "m", Parts: []byte(`[1]`)}},
		{"0.3 proto's status", `{"status_update":{"task_id":"t","status":{"state":"TASK_STATE_WORKING","update":{"message_id":"m","content":[2]}}}}`, wire.Update{Kind: wire.UpdateStatus, TaskID: "t", MessageID: "m", State: wire.TaskWorking, Parts: []byte(`[2]`)}},
		{"tasks", `{"tasks":[{"id":"t","contextId":"c"},{"kind":"task","id":"u","artifacts":[{"artifactId":"a"}]}],"totalSize":2}`, wire.Update{Kind: wire.UpdateTasks, Tasks: []wire.Update{
			{Kind: wire.UpdateTask, TaskID: "t", ContextID: "c"}, {Kind: wire.UpdateTask, TaskID: "u", Artifacts: []wire.Artifact{{ID: "a"}}},
		}}},
		{"tasks in a task are not ours", `{"task":{"id":"t","tasks":[{"id":"u"}],"message":{"messageId":"m"}}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t"}},
		{"error", `{"error":{"code":404,"status":"NOT_FOUND","message":"no task","details":[{"code":1}]}}`, wire.Update{Kind: wire.UpdateError, ErrorCode: 404, ErrorMessage: "no task"}},
		{"error wins", `{"error":{"code":1},"task":{"id":"t"}}`, wire.Update{Kind: wire.UpdateError, ErrorCode: 1}},
		{"null error", `{"error":null,"task":{"id":"t"}}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t"}},
		{"0.3 error", `{"code":-32001,"message":"no task","data":{}}`, wire.Update{Kind: wire.UpdateError, ErrorCode: -32001, ErrorMessage: "no task"}},
		{"0.3 error without a code", `{"message":"no task"}`, wire.Update{Kind: wire.UpdateError, ErrorMessage: "no task"}},
		{"problem", `{"type":"about:blank","detail":"no task","title":"Not Found","status":404}`, wire.Update{Kind: wire.UpdateError, ErrorCode: 404, ErrorMessage: "no task"}},
		{"problem with a title alone", `{"title":"Not Found","status":404}`, wire.Update{Kind: wire.UpdateError, ErrorCode: 404, ErrorMessage: "Not Found"}},
		{"a code that is no integer", `{"code":4.5,"message":"x"}`, wire.Update{Kind: wire.UpdateError, ErrorMessage: "x"}},
		{"push config", `{"taskId":"t","id":"p","url":"http://x"}`, wire.Update{}},
		{"words beside a task", `{"id":"t","status":{"state":"working"},"title":"x"}`, wire.Update{Kind: wire.UpdateTask, TaskID: "t", State: wire.TaskWorking}},
		{"push configs", `[{"taskId":"t"}]`, wire.Update{}},
		{"card", `{"name":"a","url":"http://x","description":"d"}`, wire.Update{}},
		{"JSON-RPC", `{"jsonrpc":"2.0","result":{"kind":"task","id":"t"}}`, wire.Update{}},
		{"empty", `{}`, wire.Update{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := wire.ReadResult([]byte(tt.in))
			if diff := cmp.Diff(tt.want, got); diff != "" || err != nil {
				t.Errorf("ReadResult(%s) (-want +got), error %v:\n%s", tt.in, err, diff)
			}
		})
	}
	if u, err := wire.ReadResult([]byte("<html>")); err == nil || err.Error() != "response is not JSON: syntax error at byte 0" {
		t.Errorf("ReadResult(<html>) = %+v, %v, want an error", u, err)
	}
}

func TestReadResponseRefuses(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"":                          "response is empty",
		"<html>":                    "response is not JSON: syntax error at byte 0",
		`{"result":{"id":"secret`:   "response is not JSON: it ends early at byte 23 in result.id",
		`{"result":{"a":1,}}`:       "response is not JSON: syntax error at byte 16 in result",
		`{"error":{"message":"a"]}`: "response is not JSON: syntax error at byte 23",
	} {
		if u, err := wire.ReadResponse([]byte(in)); err == nil || err.Error() != want {
			t.Errorf("ReadResponse(%s) = %+v, %v, want %q", in, u, err, want)
		}
	}
}

func TestTaskState(t *testing.T) {
	t.Parallel()
	for spelling, want := range map[string]wire.TaskState{
		`"submitted"`: wire.TaskSubmitted, `"TASK_STATE_SUBMITTED"`: wire.TaskSubmitted, `1`: wire.TaskSubmitted,
		`"working"`: wire.TaskWorking, `"TASK_STATE_WORKING"`: wire.TaskWorking, `2`: wire.TaskWorking,
		`"completed"`: wire.TaskCompleted, `"TASK_STATE_COMPLETED"`: wire.TaskCompleted, `3`: wire.TaskCompleted,
		`"failed"`: wire.TaskFailed, `"TASK_STATE_FAILED"`: wire.TaskFailed, `4`: wire.TaskFailed,
		`"canceled"`: wire.TaskCanceled, `"TASK_STATE_CANCELED"`: wire.TaskCanceled, `5`: wire.TaskCanceled,
		`"cancelled"`: wire.TaskCanceled, `"TASK_STATE_CANCELLED"`: wire.TaskCanceled,
		`"input-required"`: wire.TaskInputRequired, `"input_required"`: wire.TaskInputRequired, `"TASK_STATE_INPUT_REQUIRED"`: wire.TaskInputRequired, `6`: wire.TaskInputRequired,
		`"rejected"`: wire.TaskRejected, `"TASK_STATE_REJECTED"`: wire.TaskRejected, `7`: wire.TaskRejected,
		`"auth-required"`: wire.TaskAuthRequired, `"auth_required"`: wire.TaskAuthRequired, `"TASK_STATE_AUTH_REQUIRED"`: wire.TaskAuthRequired, `8`: wire.TaskAuthRequired,
		`"unknown"`: wire.TaskUnknown, `"TASK_STATE_UNSPECIFIED"`: wire.TaskUnknown, `0`: wire.TaskUnknown, `"dreaming"`: wire.TaskUnknown, `null`: wire.TaskUnknown, `""`: wire.TaskUnknown,
	} {
		in := `{"result":{"kind":"task","id":"t","status":{"state":` + spelling + `}}}`
		if u, err := wire.ReadResponse([]byte(in)); u.State != want || err != nil {
			t.Errorf("ReadResponse(%s).State = %v, %v, want %v", in, u.State, err, want)
		}
	}
	for state, want := range map[wire.TaskState]struct {
		name                  string
		terminal, interrupted bool
	}{
		wire.TaskUnknown:       {"unknown", false, false},
		wire.TaskSubmitted:     {"submitted", false, false},
		wire.TaskWorking:       {"working", false, false},
		wire.TaskInputRequired: {"input-required", false, true},
		wire.TaskAuthRequired:  {"auth-required", false, true},
		wire.TaskCompleted:     {"completed", true, false},
		wire.TaskFailed:        {"failed", true, false},
		wire.TaskCanceled:      {"canceled", true, false},
		wire.TaskRejected:      {"rejected", true, false},
		wire.TaskState(99):     {"unknown", false, false},
	} {
		if got := state.String(); got != want.name {
			t.Errorf("TaskState(%d).String() = %q, want %q", state, got, want.name)
		}
		if got := state.Terminal(); got != want.terminal {
			t.Errorf("%v.Terminal() = %v, want %v", state, got, want.terminal)
		}
		if got := state.Interrupted(); got != want.interrupted {
			t.Errorf("%v.Interrupted() = %v, want %v", state, got, want.interrupted)
		}
	}
}

func FuzzReadResponse(f *testing.F) {
	for _, name := range []string{"response.json", "result.json"} {
		for _, b := range seeds(f, "responses", name) {
			for line := range strings.SplitSeq(b, "\n") {
				f.Add([]byte(line))
			}
		}
	}
	f.Add([]byte(`{"result":{"kind":"message","parts":[{"kind":"file","file":{"bytes":"aGk=","name":"n"}},{"data":{}}]}}`))
	f.Add([]byte(`{"result":{"tasks":[{"id":"t","artifacts":[{"parts":[{"data":{"data":{}}}]}]}]}}`))
	f.Add([]byte(`{"tasks":[{"status":{"message":{"content":[]}}}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		for name, read := range map[string]func([]byte) (wire.Update, error){"ReadResponse": wire.ReadResponse, "ReadResult": wire.ReadResult} {
			u, err := read(data)
			if err != nil {
				continue
			}
			var all [][]byte
			for _, u := range append(u.Tasks, u) {
				all = append(all, u.Parts)
				for _, a := range u.Artifacts {
					all = append(all, a.Parts)
				}
			}
			for _, raw := range all {
				if _, err := wire.ReadParts(raw); err != nil {
					t.Errorf("ReadParts(%q, from %s) = %v, want no error", raw, name, err)
				}
			}
		}
	})
}

func BenchmarkReadResponse(b *testing.B) {
	in := []byte(`{"jsonrpc":"2.0","id":1,"result":{"kind":"artifact-update","taskId":"c3beaeaa-b1df-42d8-8707-a008c56639f6","contextId":"e96e0a7d-e4bc-4b9c-aae3-9cac6e700a8e","artifact":{"artifactId":"af24a38b-e242-4b83-aeb9-ce3a62e42b3f","name":"r","parts":[{"kind":"text","text":"` + strings.Repeat("lorem ipsum ", 60) + `"}]},"append":true,"lastChunk":false}}`)
	b.SetBytes(int64(len(in)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := wire.ReadResponse(in); err != nil {
			b.Fatal(err)
		}
	}
}

// What takes two bytes to send does not take hundreds to hold, without end.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	many := strings.Repeat("{},", 1<<20) + "{}"
	u, err := wire.ReadResult([]byte(`{"tasks":[` + many + `]}`))
	if err != nil || len(u.Tasks) != 10_000 {
		t.Errorf("ReadResult of a list without end = %d tasks, %v; want 10000", len(u.Tasks), err)
	}
	u, err = wire.ReadResult([]byte(`{"task":{"id":"t","artifacts":[` + many + `],"status":{"state":"TASK_STATE_COMPLETED"}}}`))
	if err != nil || len(u.Artifacts) != 10_000 || u.State != wire.TaskCompleted {
		t.Errorf("ReadResult of a task without end = %d artifacts, state %v, %v; want 10000 and completed", len(u.Artifacts), u.State, err)
	}
}
