package proxy_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// A caller that does not wait for its task leaves it open, and unheard. How it
// ends is noted of whatever tells: somebody who asks, or listens, or is told.
func TestReturnImmediately(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		for _, by := range []string{"get", "subscribe", "push"} {
			if by == "push" && v.binding == a2a.TransportProtocolHTTPJSON && v.client == agents.V03 {
				continue // the SDK's HTTP+JSON of 0.3 knows no push configurations
			}
			t.Run(v.name+" by "+by, func(t *testing.T) {
				t.Parallel()
				opts := v.options()
				opts.Push = true
				release := untilReleased(t, &opts)
				agent := startAgent(t, opts)
				store := newStore(t, time.Minute)
				r := newRelayingWith(t, func(s *sessions.Options, _ *proxy.Options) {
					s.Store, s.Settle = store, 10*time.Millisecond
				}, isolated("worker", agent.URL()))
				w := r.world
				c := w.dial(t, v)

				req := userMessage("tides")
				req.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
				heard := make(chan struct{}, 16)
				if by == "push" {
					hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { heard <- struct{}{} }))
					defer hook.Close()
					req.Config.PushConfig = &a2a.PushConfig{URL: hook.URL}
				}
				result, err := c.SendMessage(t.Context(), req)
				if err != nil {
					t.Fatal(err)
				}
				id := result.TaskInfo().TaskID
				within(t, "no call holds the run", func() bool { return w.record.Open() == 0 })
				w.state(t, "chat", lineage.Active, "")

				switch by {
				case "get":
					release()
					within(t, "the task has ended", func() bool {
						task, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
						return err == nil && task.Status.State == a2a.TaskStateCompleted
					})
				case "subscribe":
					listens := false
					for e, err := range c.SubscribeToTask(t.Context(), &a2a.SubscribeToTaskRequest{ID: id}) {
						if err != nil {
							t.Fatalf("SubscribeToTask = %v", err)
						}
						if _, ok := e.(*a2a.Task); ok && !listens { // the first that comes
							listens = true
							release()
						}
					}
					if !listens {
						t.Fatal("the stream was empty")
					}
				case "push":
					release()
					<-heard
				}
				w.state(t, "chat", lineage.Completed, "")
				if s := w.session(t, "chat"); len(s.Runs) != 1 || s.Runs[0].State != lineage.Completed {
					t.Errorf("runs = %+v, want one that is completed", s.Runs)
				}
			})
		}
	}
}

// An agent that is to be asked is, in the caller's name, until the end is heard.
func TestReconcile(t *testing.T) {
	t.Parallel()
	asked := make(chan http.Header, 1)
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if methodOf(r) == "GetTask" {
			asked <- r.Header
			says(`{"jsonrpc":"2.0","id":"1","result":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_COMPLETED"}}}`)(w, r)
			return
		}
		says(working10)(w, r)
	})
	a := isolated("worker", agent.URL)
	a.Session.Reconcile = 20 * time.Millisecond
	w := newEndingWorld(t, time.Minute, a)
	w.post(t, send10("m1", ""), "x-kagent-root-context-id", "top", "x-user-id", "ann", "authorization", "Bearer a")
	h := <-asked
	if h.Get("X-User-Id") != "ann" || h.Get("Authorization") != "Bearer a" {
		t.Errorf("headers of GetTask = %v, want the caller's credentials", h)
	}
	w.state(t, "top", lineage.Completed, "")
}

// A task that its agent does not know any more is lost, whatever the binding.
func TestForgottenTasksAreLost(t *testing.T) {
	t.Parallel()
	const working = `{"task":{"id":"t1","contextId":"c1","status":{"state":"TASK_STATE_WORKING"}}}`
	for name, tt := range map[string]struct {
		path, body string
		said       string
		forgotten  http.HandlerFunc
	}{
		"JSON-RPC": {
			"", stream10("m1", ""), working10,
			says(`{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"no such task"}}`),
		},
		"JSON-RPC 0.3": {
			"", call03("message/stream", "m1", ""), `{"jsonrpc":"2.0","id":1,"result":{"kind":"task","id":"t1","contextId":"c1","status":{"state":"working"}}}`,
			says(`{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"no such task"}}`),
		},
		"HTTP+JSON": {
			"/message:stream", `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"hi"}]}}`, working,
			http.NotFound, // as some agents have it, who say no more
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				if method := methodOf(r); r.Method == http.MethodGet || method == "GetTask" || method == "tasks/get" {
					tt.forgotten(w, r)
					return
				}
				streams("data: "+tt.said+"\n\n")(w, r)
				_ = http.NewResponseController(w).Flush()
				panic(http.ErrAbortHandler)
			})
			w := newEndingWorld(t, time.Minute, isolated("worker", agent.URL))
			resp, err := w.try(t, http.MethodPost, "/agents/worker"+tt.path, tt.body, "Content-Type", "application/json", "A2A-Version", "1.0", "x-kagent-root-context-id", "top")
			if err == nil {
				t.Errorf("answer = %q, want that it broke off", resp.body)
			}
			w.state(t, "top", lineage.Failed, lineage.ReasonLost)
		})
	}
}

func TestForgottenTaskIsLostInGRPC(t *testing.T) {
	t.Parallel()
	at := (&grpcAgent{
		send: func(context.Context, *a2apb.SendMessageRequest) (*a2apb.SendMessageResponse, error) {
			working := task10("t1", "c1", a2apb.TaskState_TASK_STATE_WORKING)
			return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: working}}, nil
		},
		get: func(context.Context, *a2apb.GetTaskRequest) (*a2apb.Task, error) {
			return nil, status.Error(codes.NotFound, "no such task")
		},
	}).start(t)
	a := isolated("worker", at.String())
	a.GRPCURL, a.Session.Reconcile = at, 20*time.Millisecond
	w := newEndingWorld(t, time.Minute, a)
	ctx := metadata.AppendToOutgoingContext(t.Context(), "x-kagent-root-context-id", "top")
	if _, err := w.dialGRPC(t).SendMessage(ctx, proto10("m1")); err != nil {
		t.Fatal(err)
	}
	w.state(t, "top", lineage.Failed, lineage.ReasonLost)
}
