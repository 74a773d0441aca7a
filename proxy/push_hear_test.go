package proxy_test

import (
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"github.com/a2aproject/a2a-go/v2/a2asrv/push"
	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// What agents push about task t1.
const (
	status10    = `{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING","timestamp":"2026-01-02T03:04:05Z","message":{"messageId":"s1","role":"ROLE_AGENT","parts":[{"text":"on it"}]}}}}`
	done10      = `{"statusUpdate":{"taskId":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED","timestamp":"2026-01-02T03:04:06Z"}}}`
	bareTask03  = `{"kind":"task","id":"t1","contextId":"c1","status":{"state":"completed","timestamp":"2026-01-02T03:04:06Z"},"artifacts":[{"artifactId":"a1","parts":[{"kind":"text","text":"all of it"}]}]}`
	begins10    = `{"artifactUpdate":{"taskId":"t1","contextId":"c1","artifact":{"artifactId":"a1","parts":[{"text":"ha"}]}}}`
	goesOn10    = `{"artifactUpdate":{"taskId":"t1","contextId":"c1","append":true,"artifact":{"artifactId":"a1","parts":[{"text":"ha"}]}}}`
	ends10      = `{"artifactUpdate":{"taskId":"t1","contextId":"c1","append":true,"lastChunk":true,"artifact":{"artifactId":"a1","parts":[{"text":"!"}]}}}`
	asksInput10 = `{"statusUpdate":{"taskId":"t1","status":{"state":"TASK_STATE_INPUT_REQUIRED"}}}`
)

// result is a JSON-RPC response, as an event of a stream.
func result(body string) string { return `data: {"jsonrpc":"2.0","id":1,"result":` + body + "}\n\n" }

// types counts the events of a tree by their type.
func (w *world) types(t *testing.T, root string) map[string]int {
	t.Helper()
	all := map[string]int{}
	for _, e := range w.recorded(t).Events[root] {
		all[e.Type]++
	}
	return all
}

const told = "x-kagent-root-context-id"

// The caller has gone on when the task ends: only a notification tells of it.
func TestNotificationIsRecorded(t *testing.T) {
	t.Parallel()
	for name, bodies := range map[string][]string{
		"1.0": {status10, begins10, ends10, done10}, "0.3": {bareTask03}, "gzip": {zipped(bareTask03)},
	} {
		var headers []string
		if name == "gzip" {
			headers = []string{"Content-Encoding", "gzip"}
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent, target := newFake(t, says(working10)), newFake(t, says(""))
			r := newRelaying(t, agentAt("worker", agent.URL))
			r.post(t, send10("m1", ""), told, "chat", "X-User-Id", "ann")
			url := r.proxy.Outgoing("worker", "ann", target.URL)
			for range 3 { // agents send again what they are not sure of
				for _, body := range bodies {
					if got := r.notify(t, http.MethodPost, url, body, headers...); got.status != http.StatusOK {
						t.Errorf("POST %s = %d, want 200", body, got.status)
					}
				}
			}
			r.state(t, "chat", lineage.Active, "") // it is shared: the run has ended, the session goes on
			within(t, "the run completes", func() bool { return r.session(t, "chat").Runs[0].State == lineage.Completed })
			if got := r.proxy.Hearings(); got != 0 {
				t.Errorf("%d tasks are listened to after their end, want none", got)
			}
			r.close()
			got := r.types(t, "chat")
			want := map[string]int{lineage.EventStatus: 2, lineage.EventArtifact: 1, lineage.EventRunEnded: 1}
			if name == "1.0" {
				want[lineage.EventStatus]++
			}
			for event, n := range want {
				if got[event] != n {
					t.Errorf("%d %s events, want %d: %v", got[event], event, n, got)
				}
			}
			if s := r.session(t, "chat"); s.Result == nil || len(s.Result.Artifacts) != 1 {
				t.Errorf("result = %+v, want one with the artifact", s.Result)
			}
			if n := len(target.received()); n != 3*len(bodies) {
				t.Errorf("target got %d notifications, want every one of %d", n, 3*len(bodies))
			}
		})
	}
}

// What a stream tells and a notification too is one event, whichever comes
// first, and however an artifact is cut into chunks.
func TestNotificationAndStreamAreOneEvent(t *testing.T) {
	t.Parallel()
	said := []string{status10, begins10, goesOn10, ends10, done10}
	var whole strings.Builder
	for _, body := range said {
		whole.WriteString(result(body))
	}
	wantTypes := map[string]int{ // what the stream alone makes
		lineage.EventSpawned: 2, lineage.EventSent: 1, lineage.EventStatus: 2, lineage.EventArtifact: 1, lineage.EventRunEnded: 1,
		lineage.EventBound: 1,
	}
	for _, order := range []string{"none", "before", "after"} {
		t.Run(order, func(t *testing.T) {
			t.Parallel()
			target := newFake(t, says(""))
			var r *relaying
			notify := func() {
				url := r.proxy.Outgoing("worker", "", target.URL)
				for _, body := range said {
					r.status(t, url, body, http.StatusOK)
				}
			}
			agent := newFake(t, func(w http.ResponseWriter, req *http.Request) {
				ctx := req.Context()
				w.Header().Set("Content-Type", "text/event-stream")
				first, rest, _ := strings.Cut(whole.String(), "\n\n")
				_, _ = fmt.Fprint(w, first+"\n\n")
				_ = http.NewResponseController(w).Flush()
				if order == "before" {
					within(t, "the record knows the task", func() bool {
						_, err := r.store.Find(ctx, sessions.BindingKey{Kind: sessions.BindTask, Agent: "worker", ID: "t1"})
						return err == nil
					})
					notify()
				}
				_, _ = fmt.Fprint(w, rest)
			})
			r = newRelaying(t, agentAt("worker", agent.URL))
			r.post(t, stream10("m1", ""), told, "chat")
			if order == "after" {
				notify()
			}
			r.close()
			if diff := cmp.Diff(wantTypes, r.types(t, "chat")); diff != "" {
				t.Errorf("events (-stream alone +got):\n%s", diff)
			}
		})
	}
}

// A target that is down loses the record nothing, and what the agent sends
// again until it is up counts once, even a chunk of an artifact.
func TestNotificationIsRecordedWhileTargetIsDown(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	down := true
	set := func(v bool) { mu.Lock(); defer mu.Unlock(); down = v }
	target := newFake(t, func(w http.ResponseWriter, _ *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if down {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	})
	agent := newFake(t, says(working10))
	r := newRelaying(t, agentAt("worker", agent.URL))
	r.post(t, send10("m1", ""), told, "chat")
	url := r.proxy.Outgoing("worker", "", target.URL)

	for range 2 {
		r.status(t, url, begins10, http.StatusServiceUnavailable)
		r.status(t, url, goesOn10, http.StatusServiceUnavailable)
		r.status(t, url, goesOn10, http.StatusServiceUnavailable)
	}
	set(false)
	r.status(t, url, goesOn10, http.StatusOK) // the one from before
	r.status(t, url, begins10, http.StatusOK) // likewise, and not the artifact anew
	r.status(t, url, goesOn10, http.StatusOK) // says the same, and is another
	r.status(t, url, ends10, http.StatusOK)
	set(true)
	r.status(t, url, done10, http.StatusServiceUnavailable)
	within(t, "the run completes", func() bool { return r.session(t, "chat").Runs[0].State == lineage.Completed })
	if got := r.proxy.Hearings(); got != 1 {
		t.Errorf("%d tasks are listened to, want the one whose last notification is to come again", got)
	}
	set(false)
	r.status(t, url, done10, http.StatusOK)
	if got := r.proxy.Hearings(); got != 0 {
		t.Errorf("%d tasks are listened to after their end, want none", got)
	}
	r.close()
	for _, e := range r.recorded(t).Events["chat"] {
		if e.Type == lineage.EventArtifact && !strings.Contains(string(e.Payload), `"partCount":4`) {
			t.Errorf("artifact = %s, want the parts of four chunks, each once", e.Payload)
		}
	}
	if got := r.types(t, "chat"); got[lineage.EventArtifact] != 1 || got[lineage.EventStatus] != 2 {
		t.Errorf("events = %v, want one artifact and two statuses", got)
	}
}

// A chunk may come again when its task has ended, as notifications are not
// bound to keep their order.
func TestNotificationComesAgainAfterTheEnd(t *testing.T) {
	t.Parallel()
	status := make(chan int, 1)
	target := newFake(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(<-status) })
	agent := newFake(t, says(working10))
	r := newRelaying(t, agentAt("worker", agent.URL))
	r.post(t, send10("m1", ""), told, "chat")
	url := r.proxy.Outgoing("worker", "", target.URL)
	for _, step := range []struct {
		body   string
		status int
		open   int
	}{
		{begins10, 200, 1}, {goesOn10, 503, 1}, {done10, 200, 1}, {goesOn10, 503, 1}, {goesOn10, 200, 0},
	} {
		status <- step.status
		r.status(t, url, step.body, step.status)
		if got := r.proxy.Hearings(); got != step.open {
			t.Errorf("after %s: %d tasks are listened to, want %d", step.body, got, step.open)
		}
	}
	r.close()
	if got := r.types(t, "chat")[lineage.EventArtifact]; got != 1 {
		t.Errorf("%d artifacts, want one", got)
	}
}

// What belongs to no task of the caller's is relayed and not recorded.
func TestNotificationNotRecorded(t *testing.T) {
	t.Parallel()
	agent, target := newFake(t, says(working10)), newFake(t, says(""))
	r := newRelaying(t, agentAt("worker", agent.URL), agentAt("other", agent.URL))
	r.post(t, send10("m1", ""), told, "chat", "X-User-Id", "ann")
	r.state(t, "chat", lineage.Active, "")
	within(t, "the record knows the task", func() bool { return r.session(t, "chat").Runs[0].TaskID == "t1" })
	before := r.recorded(t)
	bodies := []string{
		"", "no JSON", `{}`, `[]`, `{"message":{"messageId":"x","role":"ROLE_AGENT","parts":[{"text":"of no task"}]}}`,
		strings.ReplaceAll(done10, `"t1"`, `"unknown"`),
	}
	for _, body := range bodies {
		r.status(t, r.proxy.Outgoing("worker", "ann", target.URL), body, http.StatusOK)
	}
	r.status(t, r.proxy.Outgoing("worker", "bob", target.URL), done10, http.StatusOK)
	r.status(t, r.proxy.Outgoing("worker", "", target.URL), done10, http.StatusOK)
	r.status(t, r.proxy.Outgoing("other", "ann", target.URL), done10, http.StatusOK)
	if got := r.notify(t, http.MethodPost, r.proxy.Outgoing("worker", "ann", target.URL), done10, "Content-Encoding", "x-unknown"); got.status != http.StatusOK {
		t.Errorf("notification in an unknown encoding = %d, want 200", got.status)
	}
	if n := len(target.received()); n != len(bodies)+4 {
		t.Errorf("target got %d notifications, want %d", n, len(bodies)+4)
	}
	r.unchanged(t, before)
}

func TestNotificationWithoutTheStore(t *testing.T) {
	t.Parallel()
	target := newFake(t, says("taken"))
	r := newRelayingWith(t, func(s *sessions.Options, _ *proxy.Options) { s.Store = brokenStore{s.Store} }, agentAt("worker", "http://127.0.0.1:1"))
	got := r.notify(t, http.MethodPost, r.proxy.Outgoing("worker", "", target.URL), done10)
	if got.status != http.StatusOK || got.body != "taken" {
		t.Errorf("notification without a store = %d %s, want the target's answer", got.status, got.body)
	}
}

// A task that waits is not listened to: what comes after it was told to go on
// opens a new story.
func TestNotificationOfATaskThatWaits(t *testing.T) {
	t.Parallel()
	agent, target := newFake(t, says(working10)), newFake(t, says(""))
	r := newRelaying(t, agentAt("worker", agent.URL))
	r.post(t, send10("m1", ""), told, "chat")
	url := r.proxy.Outgoing("worker", "", target.URL)
	r.status(t, url, asksInput10, http.StatusOK)
	r.state(t, "chat", lineage.Suspended, "")
	if got := r.proxy.Hearings(); got != 0 {
		t.Errorf("%d tasks are listened to, want none", got)
	}
	r.status(t, url, status10, http.StatusOK)
	r.state(t, "chat", lineage.Active, "")
}

// However many tasks agents tell of, few are kept in mind.
func TestNotificationsOfManyTasks(t *testing.T) {
	t.Parallel()
	const tasks = proxy.MaxHearings + 10
	var n int
	var mu sync.Mutex
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		n++
		says(strings.ReplaceAll(strings.ReplaceAll(working10, "t1", fmt.Sprint("task-", n)), "c1", fmt.Sprint("ctx-", n)))(w, r)
	})
	target := newFake(t, says(""))
	a := isolated("worker", agent.URL)
	a.Session.Limits = lineage.Limits{}
	r := newRelaying(t, a)
	url := r.proxy.Outgoing("worker", "", target.URL)
	for i := 1; i <= tasks; i++ {
		r.post(t, send10(fmt.Sprint("m", i), ""), told, "chat")
		r.status(t, url, strings.ReplaceAll(begins10, `"t1"`, fmt.Sprintf(`"task-%d"`, i)), http.StatusOK)
	}
	if got := r.proxy.Hearings(); got != proxy.MaxHearings {
		t.Errorf("%d tasks are listened to, want %d", got, proxy.MaxHearings)
	}
	r.close()
	if got := r.proxy.Hearings(); got != 0 {
		t.Errorf("%d tasks are listened to by a proxy that is closed, want none", got)
	}
}

// pushing is an executor of the SDK that works after it has answered.
type pushing struct{ answered chan struct{} }

func (p pushing) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
			return
		}
		select {
		case <-p.answered:
		case <-ctx.Done():
			return
		}
		first := a2a.NewArtifactEvent(ec, a2a.NewTextPart("the "))
		last := a2a.NewArtifactUpdateEvent(ec, first.Artifact.ID, a2a.NewTextPart("answer"))
		last.LastChunk = true
		for _, e := range []a2a.Event{
			a2a.NewStatusUpdateEvent(ec, a2a.TaskStateWorking, nil), first, last, a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil),
		} {
			if !yield(e, nil) {
				return
			}
		}
	}
}

func (pushing) Cancel(context.Context, *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(func(a2a.Event, error) bool) {}
}

// An agent of the SDK notifies a caller that has not waited: every event
// arrives as the SDK sends it, and the record sees the task to its end.
func TestNotificationsOfTheSDK(t *testing.T) {
	t.Parallel()
	work := pushing{answered: make(chan struct{})}
	agent := httptest.NewServer(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(work,
		a2asrv.WithPushNotifications(push.NewInMemoryStore(), push.NewHTTPPushSender(&push.HTTPSenderConfig{FailOnError: true})),
		a2asrv.WithCapabilityChecks(&a2a.AgentCapabilities{PushNotifications: true, Streaming: true}))))
	defer agent.Close()
	target := newFake(t, says(""))
	r := newRelaying(t, isolated("worker", agent.URL))
	url := r.proxy.Outgoing("worker", "", target.URL+"/hook")
	got := r.post(t, strings.Replace(send10("m1", ""), `"message":`, `"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"id":"cfg","url":"`+
		url+`","token":"tok","authentication":{"scheme":"Bearer","credentials":"cred"}}},"message":`, 1), told, "chat", "A2A-Version", "1.0")
	if !strings.Contains(got.body, `"task"`) {
		t.Fatalf("agent answered %s, want a task", got.body)
	}
	close(work.answered)
	r.state(t, "chat", lineage.Completed, "")
	within(t, "every event arrives", func() bool { return len(target.received()) >= 4 })
	for _, n := range target.received() {
		if n.uri != "/hook" || n.header.Get("A2A-Notification-Token") != "tok" || n.header.Get("Authorization") != "Bearer cred" {
			t.Errorf("target got %s with %v, want /hook with the token and the credentials", n.uri, n.header)
		}
	}
	s := r.session(t, "chat")
	if s.Result == nil || len(s.Result.Artifacts) != 1 || s.Result.Artifacts[0].Bytes != len("the answer") {
		t.Errorf("result = %+v, want one whole artifact", s.Result)
	}
}
