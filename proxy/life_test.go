package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// one is an isolated agent at which one call may be under way.
func one(url string, wait time.Duration) proxy.Agent {
	a := isolated("worker", url)
	a.Session.Limits.MaxChildren, a.Session.Limits.QueueTimeout = 1, wait
	a.Session.Limits.MaxSessions = 0
	return a
}

// start makes a call that the returned function abandons.
func (w *world) start(t *testing.T, body string) (abandon func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.URL+"/agents/worker", strings.NewReader(body))
		if err != nil {
			t.Error(err)
			return
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := w.Client().Do(req)
		if err != nil {
			return // abandoned before it was answered
		}
		_, _ = io.Copy(io.Discard, resp.Body) // until it is abandoned
		_ = resp.Body.Close()
	}()
	abandon = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(abandon)
	return abandon
}

// A caller that goes away takes its call along, wherever that is. It leaves its
// place to the next, unless it leaves a task at work: then that has it.
func TestCallerGoesAway(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, body string
		before     string // what the agent says before it thinks
		works      bool   // a task is left at work
	}{
		{"while the agent thinks", send10("m1", ""), "", false},
		{"while a streaming agent thinks", stream10("m1", ""), "", false},
		{"in mid-stream", stream10("m1", ""), "data: " + working10 + "\n\n", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			const get = `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`
			thinks, cancelled := make(chan struct{}), make(chan struct{})
			var first sync.Once
			agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				think := false
				first.Do(func() { think = true })
				if !think {
					answer := message10
					if b, _ := io.ReadAll(r.Body); string(b) == get {
						answer = `{"jsonrpc":"2.0","id":1,"result":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}`
					}
					says(answer)(w, r)
					return
				}
				if tt.before != "" {
					streams(tt.before)(w, r)
					_ = http.NewResponseController(w).Flush()
				}
				close(thinks)
				<-r.Context().Done()
				close(cancelled)
			})
			w := newWorld(t, one(agent.URL, 0))
			abandon := w.start(t, tt.body)
			<-thinks
			if tt.works {
				within(t, "the task is known", func() bool {
					_, err := w.store.Find(t.Context(), sessions.BindingKey{Kind: sessions.BindTask, Agent: "worker", ID: "t1"})
					return err == nil
				})
			}
			abandon()
			<-cancelled
			within(t, "no call holds the run", func() bool { return w.record.Open() == 0 })
			if tt.works {
				if e := readError(t, w.post(t, send10("m2", "")), false); e.Error.Code != -32050 {
					t.Errorf("call while the task is at work = %+v, want a refusal", e)
				}
				w.post(t, get) // hears of its end
			}
			if got := w.post(t, send10("m2", "")); got.body != message10 {
				t.Errorf("next call = %s, want it admitted", got.body)
			}
		})
	}
}

func TestCallerGoesAwayWhileQueued(t *testing.T) {
	t.Parallel()
	thinks, release := make(chan struct{}, 1), make(chan struct{})
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		thinks <- struct{}{}
		<-release
		says(message10)(w, r)
	})
	w := newWorld(t, one(agent.URL, time.Minute))
	var wg sync.WaitGroup
	call := func(id string) {
		wg.Go(func() {
			if got, err := w.try(t, http.MethodPost, "/agents/worker", send10(id, "")); err != nil || got.body != message10 {
				t.Errorf("call %s = %s, %v", id, got.body, err)
			}
		})
	}
	call("m1")
	<-thinks
	abandon := w.start(t, send10("m2", ""))
	within(t, "one call waits", func() bool { return w.record.Waiting() == 1 })
	call("m3")
	within(t, "two calls wait", func() bool { return w.record.Waiting() == 2 })
	abandon()
	within(t, "one call waits", func() bool { return w.record.Waiting() == 1 })
	close(release)
	wg.Wait()
	for _, r := range agent.received() {
		if strings.Contains(r.body, "m2") {
			t.Error("the agent got the call whose caller had gone")
		}
	}
}

// Whoever has heard the end of one call may make the next at once: its place
// is free by then.
func TestPlaceIsFreeWhenTheAnswerIsHeard(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer, contentType string
		body                      func(id, members string) string
		calls                     int
	}{
		{"message", message10, "application/json", send10, 1000},
		{"task", completed10 + "\n", "text/plain; charset=utf-8", send10, 100},
		{"large", strings.Replace(message10, "hello", strings.Repeat("x", 5000), 1), "application/json", send10, 200},
		{"stream", "data: " + working10 + "\n\ndata: " + completed10 + "\n\n", "text/event-stream", stream10, 1000},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				_, _ = io.WriteString(w, tt.answer)
			})
			w := newWorld(t, one(agent.URL, 0))
			for i := range tt.calls {
				if got := w.post(t, tt.body("m"+itoa(i), "")); got.body != tt.answer {
					t.Fatalf("call %d = %s", i, got.body)
				}
			}
		})
	}
}

// The end of an answer is the end of what it says. Clients that decode JSON
// read no further, and act, or hang up, before the agent has closed the body.
func TestAnswerEndsWhereItsJSONDoes(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, answer, contentType string
		body                      func(id, members string) string
	}{
		{"unary", strings.Replace(message10, "hello", `{[\\\" }`, 1), "application/json", send10},
		{"stream", "data: " + completed10 + "\n\n", "text/event-stream", stream10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			released := make(chan struct{})
			agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", tt.contentType)
				_, _ = io.WriteString(w, tt.answer)
				_ = http.NewResponseController(w).Flush()
				select {
				case <-released: // and only then the body ends
				case <-r.Context().Done():
				}
			})
			w := newWorld(t, one(agent.URL, 0))
			for i := range 3 {
				resp := w.open(t, tt.body("m"+itoa(i), ""), "x-kagent-root-context-id", "top")
				got := make([]byte, len(tt.answer))
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != tt.answer {
					t.Fatalf("call %d = %s, %v", i, got, err)
				}
				if i == 0 {
					_ = resp.Body.Close() // hangs up
				}
			}
			close(released)
			w.close()
			all, err := sessions.AllSessions(t.Context(), w.store, "top")
			if err != nil || len(all) != 4 {
				t.Fatalf("the tree has %d sessions, %v; want 4", len(all), err)
			}
			for _, s := range all[1:] {
				if s.State != lineage.Completed {
					t.Errorf("session %s is %s %s, want completed", s.Branch, s.State, s.Reason)
				}
			}
		})
	}
}

// A call that left its task at work is settled by any other that hears of it.
func TestOtherCallsSettleATask(t *testing.T) {
	t.Parallel()
	task := func(state string) string { return strings.Replace(working10, "TASK_STATE_WORKING", state, 1) }
	bare := func(state string) string {
		return strings.NewReplacer(`{"task":{`, `{`, `}}}}`, `}}}`).Replace(task(state))
	}
	for _, tt := range []struct {
		name, body string
		answer     http.HandlerFunc
		state      lineage.State
		reason     string
	}{
		{"get", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`, says(bare("TASK_STATE_COMPLETED")), lineage.Completed, ""},
		{"cancel", `{"jsonrpc":"2.0","id":1,"method":"CancelTask","params":{"id":"t1"}}`, says(bare("TASK_STATE_CANCELED")), lineage.Failed, "canceled"},
		{"subscribe", `{"jsonrpc":"2.0","id":1,"method":"SubscribeToTask","params":{"id":"t1"}}`, streams("data: " + task("TASK_STATE_FAILED") + "\n\n"), lineage.Failed, ""},
		{"get says it works", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`, says(bare("TASK_STATE_WORKING")), lineage.Active, ""},
		{"get fails", `{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t1"}}`, says(`{"jsonrpc":"2.0","id":1,"error":{"code":-32001,"message":"no"}}`), lineage.Active, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if b, _ := io.ReadAll(r.Body); strings.Contains(string(b), "SendMessage") {
					says(working10)(w, r)
					return
				}
				tt.answer(w, r)
			})
			w := newWorld(t, isolated("worker", agent.URL))
			w.post(t, send10("m1", `,"contextId":"x"`), "x-kagent-root-context-id", "top")
			w.state(t, "top", lineage.Active, "")
			w.post(t, tt.body)
			w.close() // so that all is written
			if s := w.session(t, "top"); s.State != tt.state || s.Reason != tt.reason {
				t.Errorf("session = %s %s, want %s %s", s.State, s.Reason, tt.state, tt.reason)
			}
		})
	}
}

// 64 isolated calls at once run in 64 contexts, whatever they were sent.
func TestParallelCallsRunInContextsOfTheirOwn(t *testing.T) {
	t.Parallel()
	const calls = 64
	agent := newFake(t, says(message10))
	a := isolated("worker", agent.URL)
	a.Session.Limits.MaxChildren = 0
	w := newWorld(t, a)
	told := make([]string, calls)
	var wg sync.WaitGroup
	for i := range calls {
		wg.Go(func() {
			got, err := w.try(t, http.MethodPost, "/agents/worker", send10("m"+itoa(i), `,"contextId":"chat"`))
			if err != nil || got.body != message10 {
				t.Errorf("call %d = %s, %v", i, got.body, err)
				return
			}
			told[i] = got.header.Get("x-sidecar-context-id")
		})
	}
	wg.Wait()
	contexts := map[string]string{}
	for _, r := range agent.received() {
		var m struct {
			Params struct {
				Message struct{ MessageID, ContextID string }
			}
		}
		if err := json.Unmarshal([]byte(r.body), &m); err != nil {
			t.Fatal(err)
		}
		contexts[m.Params.Message.ContextID] = m.Params.Message.MessageID
		if got := r.header.Get("x-kagent-root-context-id"); got != "chat" {
			t.Errorf("root = %q, want chat", got)
		}
	}
	if len(contexts) != calls || contexts["chat"] != "" {
		t.Errorf("%d calls ran in %d contexts, want one each and none in the one sent", calls, len(contexts))
	}
	want := map[string]string{}
	for i, id := range told {
		want[id] = "m" + itoa(i)
	}
	if diff := cmp.Diff(want, contexts); diff != "" {
		t.Errorf("contexts: what callers were told against what the agent saw (-told +seen):\n%s", diff)
	}
}
