package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// In every binding the SDK's client sees the URL that it set, and the SDK's
// agent calls back through the sidecar.
func TestPushBySDK(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		if v.agent != v.client || v.binding == a2a.TransportProtocolHTTPJSON && v.agent == agents.V03 {
			continue // the SDK's HTTP+JSON of 0.3 knows no push configurations
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			heard := make(chan string, 16)
			hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				b, _ := io.ReadAll(r.Body)
				heard <- r.URL.String() + " " + string(b)
			}))
			defer hook.Close()
			opts := v.options()
			opts.Push, opts.Behaviour = true, agents.Ask
			agent := startAgent(t, opts)
			w := newRelaying(t, isolated("worker", agent.URL()))
			c := w.dial(t, v)

			result, err := c.SendMessage(t.Context(), userMessage("tides"))
			if err != nil {
				t.Fatal(err)
			}
			task := result.(*a2a.Task)
			original := hook.URL + "/hook?k=1"
			set, err := c.CreateTaskPushConfig(t.Context(), &a2a.PushConfig{TaskID: task.ID, ID: "cfg", URL: original, Token: "secret"})
			if err != nil {
				t.Fatalf("setting a config: %v", err)
			}
			got, err := c.GetTaskPushConfig(t.Context(), &a2a.GetTaskPushConfigRequest{TaskID: task.ID, ID: "cfg"})
			if err != nil {
				t.Fatalf("getting it: %v", err)
			}
			list, err := c.ListTaskPushConfigs(t.Context(), &a2a.ListTaskPushConfigRequest{TaskID: task.ID})
			if err != nil || len(list) != 1 {
				t.Fatalf("listing them = %d, %v; want one", len(list), err)
			}
			for _, url := range []string{set.URL, got.URL, list[0].URL} {
				if url != original {
					t.Errorf("the client sees %q, want its own %q", url, original)
				}
			}
			answer := userMessage("the moon")
			answer.Message.TaskID, answer.Message.ContextID = task.ID, task.ContextID
			if _, err := c.SendMessage(t.Context(), answer); err != nil {
				t.Fatal(err)
			}
			if got := <-heard; !strings.HasPrefix(got, "/hook?k=1 ") || !strings.Contains(got, string(task.ID)) {
				t.Errorf("the hook heard %s, want a notification about %s", got, task.ID)
			}
			w.close()
			all, err := sessions.AllSessions(t.Context(), w.store, "chat")
			if err != nil || len(all) != 2 || all[1].State != lineage.Completed {
				t.Errorf("sessions = %+v, %v; want one that is completed", all, err)
			}
		})
	}
}
