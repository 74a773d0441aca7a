package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// lists answers sends with a task at work, and everything else with tasks.
func lists(tasks string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		switch {
		case strings.Contains(string(b), `"SendMessage"`):
			says(working10)(w, r)
		case r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, "/tasks"):
			says(`{"tasks":[`+tasks+`]}`)(w, r)
		default:
			says(`{"jsonrpc":"2.0","id":1,"result":{"tasks":[`+tasks+`]}}`)(w, r)
		}
	}
}

// A list says of each task what asking for it would.
func TestListsSettleTasks(t *testing.T) {
	t.Parallel()
	const done = `{"id":"other","contextId":"elsewhere","status":{"state":"TASK_STATE_WORKING"}},` +
		`{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}`
	for name, list := range map[string]func(w *world){
		"JSON-RPC":  func(w *world) { w.post(t, `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`) },
		"HTTP+JSON": func(w *world) { w.do(t, http.MethodGet, "/agents/worker/tasks", "", "A2A-Version", "1.0") },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, lists(done))
			w := newWorld(t, isolated("worker", agent.URL))
			w.post(t, send10("m1", ""), "x-kagent-root-context-id", "top")
			w.state(t, "top", lineage.Active, "")
			list(w)
			w.state(t, "top", lineage.Completed, "")
		})
	}
}

// A task that nobody has seen made belongs to the tree of its context, once a
// list has named both; to its own user only.
func TestListsTellOfTasks(t *testing.T) {
	t.Parallel()
	agent := newFake(t, lists(`{"id":"t9","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}`))
	w := newWorld(t, agentAt("worker", agent.URL))
	w.post(t, send10("m1", `,"contextId":"c1"`), "x-kagent-root-context-id", "top", "x-user-id", "ada")
	const get, list = `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t9"}}`, `{"jsonrpc":"2.0","id":1,"method":"ListTasks","params":{}}`
	root := func(user string) string {
		return w.post(t, get, "x-user-id", user).header.Get("X-Sidecar-Root-Context-Id")
	}
	w.post(t, list, "x-user-id", "bob")
	if got := root("ada"); got != "" {
		t.Errorf("before ada's list the task is in tree %q, want none: bob's list does not tell of ada's context", got)
	}
	w.post(t, list, "x-user-id", "ada")
	if got := root("ada"); got != "top" {
		t.Errorf("after ada's list the task is in tree %q, want top", got)
	}
	if e := readError(t, w.post(t, get, "x-user-id", "bob"), false); e.Error.Code != -32051 {
		t.Errorf("bob asks for ada's task: %+v, want it refused", e)
	}
}
