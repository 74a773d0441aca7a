package proxy_test

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// newEndingWorld is a sidecar over SQLite whose store gives sessions that are to
// end a time of grace.
func newEndingWorld(t *testing.T, grace time.Duration, agents ...proxy.Agent) *world {
	t.Helper()
	return newWorldOver(t, newStore(t, grace), agents...)
}

// newStore is a SQLite store in memory.
func newStore(t *testing.T, grace time.Duration) sessions.Store {
	t.Helper()
	store, err := sqlite.Open(t.Context(), sqlite.Options{Path: sqlite.Memory, Grace: grace})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
	return store
}

// newWorldOver is a sidecar over a store, which looks often for what is due.
func newWorldOver(t *testing.T, store sessions.Store, agents ...proxy.Agent) *world {
	t.Helper()
	return newWorldWith(t, func(r *sessions.Options, _ *proxy.Options) {
		r.Store, r.Settle, r.Alone = store, 10*time.Millisecond, true
		for _, a := range agents {
			r.Agents = append(r.Agents, a.Session)
		}
	}, agents...)
}

// step takes a session a step further.
func (w *world) step(t *testing.T, session string, verb lineage.Verb) {
	t.Helper()
	if _, err := w.record.Step(t.Context(), sessions.Step{Session: session, Verb: verb}); err != nil {
		t.Fatalf("%s of %s: %v", verb, session, err)
	}
}

// root returns the root session of a tree, which there must be.
func (w *world) root(t *testing.T, root string) lineage.Session {
	t.Helper()
	page, err := w.record.Reader().Sessions(t.Context(), root, sessions.SessionQuery{Limit: 1})
	if err != nil {
		t.Fatal(err)
	}
	return page.Sessions[0]
}

// as are the headers of a user's calls.
func as(user, token string) a2aclient.ServiceParams {
	return a2aclient.ServiceParams{"x-user-id": {user}, "authorization": {"Bearer " + token}, "traceparent": {"00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"}}
}

// untilReleased is work that lasts until the returned function is called.
func untilReleased(t *testing.T, opts *agents.Options) (release func()) {
	t.Helper()
	hold := make(chan struct{})
	opts.Work = func(ctx context.Context) error {
		select {
		case <-hold:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return func() { close(hold) }
}

// streaming is a stream of a client's.
type streaming struct {
	task a2a.TaskID
	rest <-chan error // what ended it, once; nil: it ended as it should
	last *a2a.TaskState
}

// begin begins a stream and returns when the agent is at work.
func begin(t *testing.T, c *a2aclient.Client, params a2aclient.ServiceParams) streaming {
	t.Helper()
	ctx := a2aclient.AttachServiceParams(t.Context(), params)
	atWork, ended, s := make(chan a2a.TaskID, 1), make(chan error, 1), streaming{last: new(a2a.TaskState)}
	go func() {
		var err error
		for e, fault := range c.SendStreamingMessage(ctx, userMessage("tides")) {
			if fault != nil {
				err = fault
				break
			}
			switch e := e.(type) {
			case *a2a.TaskArtifactUpdateEvent:
				if !e.LastChunk {
					atWork <- e.TaskID
				}
			case *a2a.TaskStatusUpdateEvent:
				*s.last = e.Status.State
			}
		}
		ended <- err
	}()
	s.rest = ended
	select {
	case s.task = <-atWork:
	case err := <-ended:
		t.Fatalf("the stream ended before the agent was at work: %v", err)
	}
	return s
}

// checkAsked checks that the agent was asked once, in a user's name, with nothing of
// the message that the user sent.
func checkAsked(t *testing.T, got []agents.Asked, method string, task a2a.TaskID, user, token string) {
	t.Helper()
	if len(got) != 1 {
		t.Fatalf("the agent was asked %+v, want one %s", got, method)
	}
	if got[0].Method != method || got[0].TaskID != string(task) {
		t.Errorf("the agent was asked %s of %s, want %s of %s", got[0].Method, got[0].TaskID, method, task)
	}
	h := got[0].Header
	want := map[string]string{"X-User-Id": user, "Authorization": "Bearer " + token, "User-Agent": "a2a-sidecar"}
	seen := map[string]string{}
	for name := range h {
		switch {
		case strings.HasPrefix(name, "X-") || name == "Authorization" || name == "Traceparent":
			seen[name] = h.Get(name)
		case name == "User-Agent": // a gRPC server's has its library's at the end
			seen[name], _, _ = strings.Cut(h.Get(name), " ")
		}
	}
	if diff := cmp.Diff(want, seen); diff != "" {
		t.Errorf("headers of %s (-want +got):\n%s", method, diff)
	}
}

// A session that is cancelled has its agent asked to stop: as its caller called
// it, and with what that called it with. What the agent says then counts.
func TestCancelTaskAsTheCaller(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			opts := v.options()
			untilReleased(t, &opts)
			agent := startAgent(t, opts)
			w := newEndingWorld(t, time.Minute, isolated("worker", agent.URL()))
			s := begin(t, w.dial(t, v), as("ann", "a"))

			w.step(t, w.session(t, "chat").ID, lineage.VerbCancel)
			if err := <-s.rest; err != nil || *s.last != a2a.TaskStateCanceled {
				t.Errorf("the caller's stream ended with %s, %v; want it cancelled", *s.last, err)
			}
			checkAsked(t, agent.Asked(), "CancelTask", s.task, "ann", "a")
			w.state(t, "chat", lineage.Failed, lineage.ReasonCanceled)
		})
	}
}

// A task whose stream the agent broke is asked for at once, as its caller would.
// What the agent says then is how the run ended.
func TestBrokenOffIsAskedFor(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			opts := v.options()
			release := untilReleased(t, &opts)
			agent := startAgent(t, opts)
			w := newEndingWorld(t, time.Minute, isolated("worker", agent.URL()))
			c := w.dial(t, v)
			s := begin(t, c, as("ann", "a"))

			if err := agent.Break(); err != nil {
				t.Fatal(err)
			}
			if err := <-s.rest; err == nil {
				t.Error("the caller's stream ended as if all were well")
			}
			within(t, "the task is asked for", func() bool { return len(agent.Asked()) == 1 })
			checkAsked(t, agent.Asked(), "GetTask", s.task, "ann", "a")
			w.state(t, "chat", lineage.Active, "") // it is at work
			release()
			within(t, "the task has ended", func() bool {
				task, err := c.GetTask(a2aclient.AttachServiceParams(t.Context(), as("ann", "a")), &a2a.GetTaskRequest{ID: s.task})
				return err == nil && task.Status.State == a2a.TaskStateCompleted
			})
			w.state(t, "chat", lineage.Completed, "")
		})
	}
}

// An agent that has gone for good in mid-stream leaves nothing at work.
func TestCrashedAgentLosesItsTasks(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			opts := v.options()
			untilReleased(t, &opts)
			agent := startAgent(t, opts)
			w := newEndingWorld(t, time.Minute, isolated("worker", agent.URL()))
			s := begin(t, w.dial(t, v), as("ann", "a"))
			if err := agent.Crash(); err != nil {
				t.Fatal(err)
			}
			if err := <-s.rest; err == nil {
				t.Error("the caller's stream ended as if all were well")
			}
			w.state(t, "chat", lineage.Failed, lineage.ReasonLost)
		})
	}
}

// Where nobody's voice is known, an agent is called as its card says, whatever
// that names, or as most agents are.
func TestTasksOfNobody(t *testing.T) {
	t.Parallel()
	for _, v := range wires {
		t.Run(v.name, func(t *testing.T) {
			t.Parallel()
			opts := v.options()
			untilReleased(t, &opts)
			agent := startAgent(t, opts)
			// Here is no port for gRPC that the card could name.
			for name, change := range map[string]func(*proxy.Agent){
				"card":         func(*proxy.Agent) {},
				"card as sent": func(a *proxy.Agent) { a.CardsAsSent = true },
			} {
				a := isolated("worker", agent.URL())
				change(&a)
				w := newEndingWorld(t, time.Minute, a)
				outreach := w.proxy.Outreach()
				if err := outreach.GetTask(t.Context(), sessions.Task{Agent: "worker", ID: "nope"}); !errors.Is(err, sessions.ErrTaskGone) {
					t.Errorf("%s: GetTask of a task that is not there = %v, want ErrTaskGone", name, err)
				}
				if err := outreach.CancelTask(t.Context(), sessions.Task{Agent: "worker", ID: "nope"}); err != nil {
					t.Errorf("%s: CancelTask of a task that is not there = %v, want nil", name, err)
				}
			}
			w := newEndingWorld(t, time.Minute, isolated("worker", agent.URL()))
			s := begin(t, w.dial(t, v), nil)
			task := sessions.Task{Agent: "worker", ID: string(s.task)}
			if err := w.proxy.Outreach().GetTask(t.Context(), task); err != nil {
				t.Errorf("GetTask = %v", err)
			}
			if err := w.proxy.Outreach().CancelTask(t.Context(), task); err != nil {
				t.Errorf("CancelTask = %v", err)
			}
			if err := <-s.rest; err != nil || *s.last != a2a.TaskStateCanceled {
				t.Errorf("the caller's stream ended with %s, %v; want it cancelled", *s.last, err)
			}
			w.state(t, "chat", lineage.Failed, lineage.ReasonCanceled)
			if err := w.proxy.Outreach().CancelTask(t.Context(), task); err != nil {
				t.Errorf("CancelTask of a task that has ended = %v, want nil", err)
			}
			if err := agent.Crash(); err != nil {
				t.Fatal(err)
			}
			if err := w.proxy.Outreach().GetTask(t.Context(), task); !errors.Is(err, sessions.ErrTaskGone) {
				t.Errorf("GetTask at an agent that has gone = %v, want ErrTaskGone", err)
			}
			if err := w.proxy.Outreach().CancelTask(t.Context(), task); err == nil {
				t.Error("CancelTask at an agent that has gone = nil, want an error")
			}
		})
	}
}

// Without a card, JSON-RPC is tried: in 1.0, and in 0.3.
func TestTasksOfNobodyWithoutACard(t *testing.T) {
	t.Parallel()
	for name, methods := range map[string][]string{
		"1.0": {"GetTask"},
		"0.3": {"GetTask", "tasks/get"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
				switch method := methodOf(r); method {
				case "":
					http.NotFound(w, r)
				case methods[len(methods)-1]:
					says(`{"jsonrpc":"2.0","id":"1","error":{"code":-32001,"message":"no such task"}}`)(w, r)
				default:
					says(`{"jsonrpc":"2.0","id":"1","error":{"code":-32601,"message":"no such method"}}`)(w, r)
				}
			})
			w := newWorld(t, agentAt("worker", agent.URL))
			if err := w.proxy.Outreach().GetTask(t.Context(), sessions.Task{Agent: "worker", ID: "t"}); !errors.Is(err, sessions.ErrTaskGone) {
				t.Errorf("GetTask = %v, want ErrTaskGone", err)
			}
			var called []string
			for _, r := range agent.received() {
				if m := methodIn(r.body); m != "" {
					called = append(called, m)
				}
			}
			if !slices.Equal(called, methods) {
				t.Errorf("the agent was called by %q, want %q", called, methods)
			}
		})
	}
}
