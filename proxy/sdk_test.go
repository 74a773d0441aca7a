package proxy_test

import (
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	grpc03 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	grpc10 "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// sdkWire is a way in which the SDK's clients and servers meet.
type sdkWire struct {
	name          string
	agent, client agents.Version
	binding       a2a.TransportProtocol
}

var wires = func() (all []sdkWire) {
	for _, binding := range []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolHTTPJSON, a2a.TransportProtocolGRPC} {
		for _, v := range []struct{ agent, client agents.Version }{
			{agents.V10, agents.V10},
			{agents.V03, agents.V03},
			{agents.Both, agents.V10},
			{agents.Both, agents.V03},
		} {
			all = append(all, sdkWire{string(binding) + " agent " + string(v.agent) + " client " + string(v.client), v.agent, v.client, binding})
		}
	}
	return all
}()

// options are those of an agent that this wire leads to.
func (v sdkWire) options() agents.Options {
	return agents.Options{Version: v.agent, Bindings: []a2a.TransportProtocol{v.binding}}
}

// startAgent runs an agent of the SDK until the test ends.
func startAgent(t *testing.T, opts agents.Options) *agents.Agent {
	t.Helper()
	opts.Name = "worker"
	a, err := agents.Start(t.Context(), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	})
	return a
}

// visited counts what goes to which host.
type visited struct {
	base http.RoundTripper
	mu   sync.Mutex
	host map[string]int
}

func (v *visited) RoundTrip(r *http.Request) (*http.Response, error) {
	v.mu.Lock()
	v.host[r.URL.Host]++
	v.mu.Unlock()
	return v.base.RoundTrip(r)
}

// dial makes the SDK's client for worker from the card that the sidecar
// serves. It fails the test if the client ever talks to anybody else.
func (w *world) dial(t *testing.T, v sdkWire) *a2aclient.Client {
	t.Helper()
	if v.binding == a2a.TransportProtocolGRPC {
		w.listenGRPC(t)
	}
	seen := &visited{base: w.Client().Transport, host: map[string]int{}}
	hc := &http.Client{Transport: seen}
	card, err := (&agentcard.Resolver{Client: hc, CardParser: a2av0.NewAgentCardParser()}).Resolve(t.Context(), w.URL+"/agents/worker")
	if err != nil {
		t.Fatalf("resolving the card: %v", err)
	}
	plain := grpc.WithTransportCredentials(insecure.NewCredentials())
	speak := map[a2a.TransportProtocol]map[agents.Version]a2aclient.FactoryOption{
		a2a.TransportProtocolJSONRPC: {
			agents.V10: a2aclient.WithJSONRPCTransport(hc),
			agents.V03: a2av0.WithJSONRPCTransport(a2av0.JSONRPCTransportConfig{Client: hc}),
		},
		a2a.TransportProtocolHTTPJSON: {
			agents.V10: a2aclient.WithRESTTransport(hc),
			agents.V03: a2av0.WithRESTTransport(a2av0.RESTTransportConfig{Client: hc}),
		},
		a2a.TransportProtocolGRPC: {
			agents.V10: grpc10.WithGRPCTransport(plain),
			agents.V03: grpc03.WithGRPCTransport(plain),
		},
	}[v.binding][v.client]
	c, err := a2aclient.NewFromCard(t.Context(), card, a2aclient.WithDefaultsDisabled(), speak)
	if err != nil {
		t.Fatalf("making a client from the card: %v", err)
	}
	t.Cleanup(func() {
		_ = c.Destroy()
		delete(seen.host, w.Listener.Addr().String())
		if len(seen.host) > 0 {
			t.Errorf("the client went around the sidecar: %v", seen.host)
		}
	})
	return c
}

func userMessage(text string) *a2a.SendMessageRequest {
	m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
	m.ContextID = "chat"
	return &a2a.SendMessageRequest{Message: m}
}

func textOf(m *a2a.Message) string {
	var b strings.Builder
	if m != nil {
		for _, p := range m.Parts {
			b.WriteString(p.Text())
		}
	}
	return b.String()
}

// The SDK's clients and servers, with the sidecar between: every call runs in
// a context of its own, and is recorded to its end.
func TestSDK(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			agent := startAgent(t, v.options())
			w := newWorld(t, isolated("worker", agent.URL()))
			c := w.dial(t, v)

			result, err := c.SendMessage(t.Context(), userMessage("tides"))
			if err != nil {
				t.Fatalf("SendMessage = %v", err)
			}
			task, ok := result.(*a2a.Task)
			if !ok || task.Status.State != a2a.TaskStateCompleted {
				t.Fatalf("SendMessage = %T %+v, want a completed task", result, result)
			}
			var last a2a.TaskState
			for e, err := range c.SendStreamingMessage(t.Context(), userMessage("dams")) {
				if err != nil {
					t.Fatalf("SendStreamingMessage = %v", err)
				}
				if e, ok := e.(*a2a.TaskStatusUpdateEvent); ok {
					last = e.Status.State
				}
			}
			if last != a2a.TaskStateCompleted {
				t.Errorf("the stream ended in %s, want completed", last)
			}
			got, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: task.ID})
			if err != nil || got.ID != task.ID || got.ContextID != task.ContextID {
				t.Errorf("GetTask = %+v, %v; want the first task", got, err)
			}

			calls := agent.Calls()
			if len(calls) != 2 || calls[0].ContextID == calls[1].ContextID || calls[0].ContextID == "chat" {
				t.Fatalf("the agent had %d calls in %v, want 2 in contexts of their own", len(calls), agent.Contexts())
			}
			w.close()
			all, err := sessions.AllSessions(t.Context(), w.store, "chat")
			if err != nil || len(all) != 3 {
				t.Fatalf("the tree has %d sessions, %v; want 3", len(all), err)
			}
			for i, s := range all[1:] {
				if s.State != lineage.Completed || s.ContextID != calls[i].ContextID || s.Runs[0].TaskID == "" || s.Result == nil || len(s.Result.Artifacts) != 1 {
					t.Errorf("session %d = %+v, want a completed one in %s with its task and artifact", i, s, calls[i].ContextID)
				}
				if h := calls[i].Header.Get("X-Sidecar-Session-Id"); h != s.ID {
					t.Errorf("the agent was told of session %q, want %q", h, s.ID)
				}
			}
		})
	}
}

// A task that asks back goes on where it was, isolated or not.
func TestSDKResume(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		for _, isolate := range []bool{false, true} {
			t.Run(v.name+map[bool]string{true: " isolated", false: " shared"}[isolate], func(t *testing.T) {
				t.Parallel()
				opts := v.options()
				opts.Behaviour = agents.Ask
				agent := startAgent(t, opts)
				a := agentAt("worker", agent.URL())
				a.Session.Isolate = isolate
				w := newWorld(t, a)
				c := w.dial(t, v)

				result, err := c.SendMessage(t.Context(), userMessage("tides"))
				if err != nil {
					t.Fatalf("SendMessage = %v", err)
				}
				task := result.(*a2a.Task)
				if task.Status.State != a2a.TaskStateInputRequired {
					t.Fatalf("state = %s, want input required", task.Status.State)
				}
				w.state(t, "chat", lineage.Suspended, "")
				answer := userMessage("the moon")
				answer.Message.TaskID, answer.Message.ContextID = task.ID, task.ContextID
				result, err = c.SendMessage(t.Context(), answer)
				if err != nil {
					t.Fatalf("answering = %v", err)
				}
				done := result.(*a2a.Task)
				if done.ID != task.ID || done.ContextID != task.ContextID || done.Status.State != a2a.TaskStateCompleted {
					t.Errorf("answered task = %s %s %s, want %s %s completed", done.ID, done.ContextID, done.Status.State, task.ID, task.ContextID)
				}
				calls := agent.Calls()
				if len(calls) != 2 || calls[0].ContextID != calls[1].ContextID {
					t.Errorf("the agent had contexts %v, want one for both messages", agent.Contexts())
				}
				w.close()
				s := w.session(t, "chat")
				want := lineage.Active // shared: idle between runs
				if isolate {
					want = lineage.Completed
				}
				if s.State != want || len(s.Runs) != 1 || s.Runs[0].State != lineage.Completed {
					t.Errorf("session = %s with runs %+v, want %s with one completed run", s.State, s.Runs, want)
				}
			})
		}
	}
}

// The SDK's clients read refusals: as errors, and with refuse: task as tasks
// that failed, whose text says why.
func TestSDKRefusals(t *testing.T) {
	t.Parallel()
	const why = "agent worker cannot be reached; retry later"
	for _, v := range wires {
		if v.agent == agents.Both {
			continue // who serves does not matter to what the sidecar answers
		}
		for _, asTask := range []bool{false, true} {
			t.Run(v.name+map[bool]string{true: " as a task", false: " as an error"}[asTask], func(t *testing.T) {
				t.Parallel()
				agent := startAgent(t, v.options())
				a := isolated("worker", agent.URL())
				a.RefuseTask = asTask
				w := newWorld(t, a)
				c := w.dial(t, v)
				if err := agent.Close(); err != nil {
					t.Fatal(err)
				}
				within(t, "the sidecar has noticed", func() bool { return w.proxy.Connections("worker") == 0 })

				result, err := c.SendMessage(t.Context(), userMessage("tides"))
				checkRefusal(t, asTask, result, err, why)
				var events []a2a.Event
				err = nil
				for e, fault := range c.SendStreamingMessage(t.Context(), userMessage("dams")) {
					if fault != nil {
						err = errors.Join(err, fault)
						break
					}
					events = append(events, e)
				}
				if !asTask {
					checkRefusal(t, asTask, nil, err, why)
					return
				}
				if len(events) == 0 {
					t.Fatalf("the stream was empty, %v", err)
				}
				checkRefusal(t, asTask, events[0], err, why)
				if v.client == agents.V03 && v.binding == a2a.TransportProtocolJSONRPC { // whose streams end with a final status
					last, ok := events[len(events)-1].(*a2a.TaskStatusUpdateEvent)
					if !ok || last.Status.State != a2a.TaskStateFailed || textOf(last.Status.Message) != why {
						t.Errorf("last event = %+v, want a failed status", events[len(events)-1])
					}
				}
			})
		}
	}
}

// checkRefusal checks what a client made of a refused call.
func checkRefusal(t *testing.T, asTask bool, result any, err error, why string) {
	t.Helper()
	if !asTask {
		if err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("refused call = %v, %v; want an error that says %q", result, err, why)
		}
		return
	}
	task, ok := result.(*a2a.Task)
	if err != nil || !ok || task.Status.State != a2a.TaskStateFailed || textOf(task.Status.Message) != why || task.ContextID != "chat" {
		t.Errorf("refused call = %+v, %v; want a failed task in chat that says %q", result, err, why)
	}
}

// Only a send is refused with a task; and only by a cap, not for bad input.
func TestRefuseTaskIsForSends(t *testing.T) {
	t.Parallel()
	a := agentAt("worker", nowhere(t))
	a.RefuseTask = true
	w := newWorld(t, a)
	for body, code := range map[string]int{
		`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":{"id":"t"}}`: -32052,
		send10("m1", `,"contextId":7`):                                    -32600,
	} {
		if e := readError(t, w.post(t, body), false); e.Error.Code != code {
			t.Errorf("answer to %s = %+v, want %d", body, e, code)
		}
	}
}

// Two children that wait side by side go on each where it was, whichever is
// answered first. Waiting, they hold no place of the fan-out.
func TestSDKResumeTwo(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		if v.agent != v.client {
			continue
		}
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			opts := v.options()
			opts.Behaviour = agents.Ask
			agent := startAgent(t, opts)
			a := isolated("worker", agent.URL())
			a.Session.Limits.MaxFanOut = 1
			w := newWorld(t, a)
			c := w.dial(t, v)
			var waiting []*a2a.Task
			for _, topic := range []string{"tides", "dams"} {
				result, err := c.SendMessage(t.Context(), userMessage(topic))
				if err != nil {
					t.Fatalf("SendMessage(%s) = %v", topic, err)
				}
				task := result.(*a2a.Task)
				if task.Status.State != a2a.TaskStateInputRequired {
					t.Fatalf("%s is %s, want input required", topic, task.Status.State)
				}
				waiting = append(waiting, task)
			}
			if waiting[0].ContextID == waiting[1].ContextID {
				t.Fatal("both wait in one context, want one each")
			}
			for _, task := range []*a2a.Task{waiting[1], waiting[0]} {
				answer := userMessage("the moon")
				answer.Message.TaskID, answer.Message.ContextID = task.ID, "" // the agent infers it
				result, err := c.SendMessage(t.Context(), answer)
				if err != nil {
					t.Fatalf("answering %s: %v", task.ID, err)
				}
				if done := result.(*a2a.Task); done.ID != task.ID || done.ContextID != task.ContextID || done.Status.State != a2a.TaskStateCompleted {
					t.Errorf("answered task = %s %s %s, want %s %s completed", done.ID, done.ContextID, done.Status.State, task.ID, task.ContextID)
				}
			}
			w.close()
			all, err := sessions.AllSessions(t.Context(), w.store, "chat")
			if err != nil || len(all) != 3 {
				t.Fatalf("the tree has %d sessions, %v; want 3", len(all), err)
			}
			for _, s := range all[1:] {
				if s.State != lineage.Completed || len(s.Runs) != 1 {
					t.Errorf("session %s = %s with %d runs, want completed with one", s.ID, s.State, len(s.Runs))
				}
			}
		})
	}
}
