package proxy_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
	"github.com/a2a-sidecar/a2a-sidecar/internal/redistest"
	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/proxy"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/redis"
)

// canceled10 is the status that ends the stream of a task of that id.
func canceled10(id string) string {
	return `{"jsonrpc":"2.0","id":1,"result":{"task":{"id":"` + id + `","status":{"state":"TASK_STATE_CANCELED"}}}}`
}

// When a session ends, all that is at work below it is asked to stop, at once:
// this agent answers no CancelTask before it has had eleven. Each is made in the
// name of the caller whose task it is.
func TestOrphansAreCanceledInParallel(t *testing.T) {
	t.Parallel()
	const calls = 11
	var mu sync.Mutex
	tokens, stops := map[string]string{}, map[string]chan struct{}{}
	atWork := make(chan struct{}, calls)
	var arrived sync.WaitGroup
	arrived.Add(calls)
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		var call struct {
			Method string
			Params struct {
				ID      string
				Message struct{ MessageID string }
			}
		}
		b, _ := io.ReadAll(r.Body)
		if err := json.Unmarshal(b, &call); err != nil {
			t.Error(err)
		}
		if call.Method == "CancelTask" {
			mu.Lock()
			tokens[call.Params.ID] = r.Header.Get("Authorization")
			stop := stops[call.Params.ID]
			mu.Unlock()
			arrived.Done()
			arrived.Wait()
			close(stop)
			says(`{"jsonrpc":"2.0","id":"1","result":{"id":"`+call.Params.ID+`","status":{"state":"TASK_STATE_CANCELED"}}}`)(w, r)
			return
		}
		id, stop := "task-"+call.Params.Message.MessageID, make(chan struct{})
		mu.Lock()
		stops[id] = stop
		mu.Unlock()
		streams("data: {\"jsonrpc\":\"2.0\",\"id\":1,\"result\":{\"task\":{\"id\":\""+id+"\",\"status\":{\"state\":\"TASK_STATE_WORKING\"}}}}\n\n")(w, r)
		_ = http.NewResponseController(w).Flush()
		atWork <- struct{}{}
		<-stop
		_, _ = io.WriteString(w, "data: "+canceled10(id)+"\n\n")
	})
	a := isolated("worker", agent.URL)
	a.Session.Limits.MaxChildren = 0
	w := newEndingWorld(t, time.Minute, a)
	want := map[string]string{}
	var answers sync.WaitGroup
	for i := range calls {
		id := "m" + itoa(i)
		want["task-"+id] = "Bearer of " + id
		answers.Go(func() {
			_, err := w.try(t, http.MethodPost, "/agents/worker", stream10(id, ""), "Content-Type", "application/json",
				"x-kagent-root-context-id", "top", "x-user-id", "ann", "Authorization", "Bearer of "+id)
			if err != nil {
				t.Errorf("call %s ended with %v, want it answered", id, err)
			}
		})
	}
	for range calls {
		<-atWork
	}
	within(t, "all tasks are known", func() bool {
		for task := range want {
			if _, err := w.store.Find(t.Context(), sessions.BindingKey{Kind: sessions.BindTask, Agent: "worker", ID: task}); err != nil {
				return false
			}
		}
		return true
	})
	w.step(t, w.root(t, "top").ID, lineage.VerbComplete)
	answers.Wait()
	if diff := cmp.Diff(want, tokens); diff != "" {
		t.Errorf("credentials of each CancelTask (-want +got):\n%s", diff)
	}
	w.close()
	all, err := sessions.AllSessions(t.Context(), w.store, "top")
	if err != nil || len(all) != calls+1 {
		t.Fatalf("the tree has %d sessions, %v; want %d", len(all), err, calls+1)
	}
	for _, s := range all[1:] {
		if s.State != lineage.Failed || s.Reason != lineage.ReasonCanceled {
			t.Errorf("session %s = %s %s, want the agent's word, failed canceled", s.Branch, s.State, s.Reason)
		}
	}
}

// below are the headers of a call out of a session.
func below(parent lineage.Session, token string) a2aclient.ServiceParams {
	p := as("ann", token)
	p["x-kagent-root-context-id"] = []string{parent.Tree}
	p["x-kagent-parent-context-id"] = []string{parent.ContextID}
	return p
}

// byID is what an agent was asked, by task, and with which credentials.
func byID(asked []agents.Asked) map[string]string {
	all := map[string]string{}
	for _, a := range asked {
		all[a.TaskID] += a.Method + " with " + a.Header.Get("Authorization")
	}
	return all
}

// The end of a session goes down the tree, as far as that is at work.
func TestGrandchildrenAreCanceled(t *testing.T) {
	t.Parallel()
	opts := agents.Options{}
	untilReleased(t, &opts)
	agent := startAgent(t, opts)
	w := newEndingWorld(t, time.Minute, isolated("worker", agent.URL()))
	c := w.dial(t, wires[0])
	child := begin(t, c, as("ann", "a"))
	s := w.session(t, "chat")
	grandchild := begin(t, c, below(s, "b"))

	w.step(t, w.root(t, "chat").ID, lineage.VerbComplete)
	for _, s := range []streaming{child, grandchild} {
		if err := <-s.rest; err != nil || *s.last != a2a.TaskStateCanceled {
			t.Errorf("a stream ended with %s, %v; want it cancelled", *s.last, err)
		}
	}
	want := map[string]string{string(child.task): "CancelTask with Bearer a", string(grandchild.task): "CancelTask with Bearer b"}
	if diff := cmp.Diff(want, byID(agent.Asked())); diff != "" {
		t.Errorf("the agent was asked (-want +got):\n%s", diff)
	}
	w.close()
	all, err := sessions.AllSessions(t.Context(), w.store, "chat")
	if err != nil || len(all) != 3 || all[2].Parent != s.ID {
		t.Fatalf("sessions = %+v, %v; want a grandchild of the root", all, err)
	}
	for _, s := range all[1:] {
		if s.State != lineage.Failed || s.Reason != lineage.ReasonCanceled {
			t.Errorf("session %s = %s %s, want failed canceled", s.Branch, s.State, s.Reason)
		}
	}
}

// A session that is cut off takes what is below it along.
func TestOrphansOfTheStubborn(t *testing.T) {
	t.Parallel()
	opts := agents.Options{Stubborn: true}
	untilReleased(t, &opts)
	agent := startAgent(t, opts)
	w := newEndingWorld(t, short, isolated("worker", agent.URL()))
	c := w.dial(t, wires[0])
	child := begin(t, c, as("ann", "a"))
	grandchild := begin(t, c, below(w.session(t, "chat"), "b"))
	w.step(t, w.root(t, "chat").ID, lineage.VerbFail)
	for _, s := range []streaming{child, grandchild} {
		if err := <-s.rest; err == nil {
			t.Error("a stream ended as if all were well")
		}
	}
	w.close()
	all, err := sessions.AllSessions(t.Context(), w.store, "chat")
	if err != nil || len(all) != 3 {
		t.Fatalf("the tree has %d sessions, %v; want 3", len(all), err)
	}
	for _, s := range all[1:] {
		if s.State != lineage.Failed || s.Reason != lineage.ReasonOrphaned {
			t.Errorf("session %s = %s %s, want failed orphaned", s.Branch, s.State, s.Reason)
		}
	}
}

// A session that may go on without its parent is left alone.
func TestAbandonedGoOn(t *testing.T) {
	t.Parallel()
	opts := agents.Options{}
	release := untilReleased(t, &opts)
	agent := startAgent(t, opts)
	a := isolated("worker", agent.URL())
	a.Session.Abandon = true
	w := newEndingWorld(t, short, a)
	s := begin(t, w.dial(t, wires[0]), as("ann", "a"))
	w.step(t, w.root(t, "chat").ID, lineage.VerbComplete)
	if ending := w.session(t, "chat").Ending; ending != "" {
		t.Errorf("the session is being ended: %s", ending)
	}
	release()
	if err := <-s.rest; err != nil || *s.last != a2a.TaskStateCompleted {
		t.Errorf("the stream ended with %s, %v; want it completed", *s.last, err)
	}
	if asked := agent.Asked(); len(asked) > 0 {
		t.Errorf("the agent was asked %+v, want to be left alone", asked)
	}
	w.state(t, "chat", lineage.Completed, "")
}

// What an agent has to say within the grace counts, though it was asked to stop.
func TestResultWithinTheGrace(t *testing.T) {
	t.Parallel()
	opts := agents.Options{Stubborn: true}
	release := untilReleased(t, &opts)
	agent := startAgent(t, opts)
	w := newEndingWorld(t, time.Minute, isolated("worker", agent.URL()))
	s := begin(t, w.dial(t, wires[0]), as("ann", "a"))
	w.step(t, w.root(t, "chat").ID, lineage.VerbComplete)
	within(t, "the agent is asked to stop", func() bool { return len(agent.Asked()) == 1 })
	release()
	if err := <-s.rest; err != nil || *s.last != a2a.TaskStateCompleted {
		t.Errorf("the stream ended with %s, %v; want it completed", *s.last, err)
	}
	w.state(t, "chat", lineage.Completed, "")
	if s := w.session(t, "chat"); s.Result == nil || len(s.Result.Artifacts) != 1 {
		t.Errorf("result = %+v, want the agent's", s.Result)
	}
	log, err := w.record.Reader().Events(t.Context(), "chat", sessions.EventQuery{All: true, Types: []string{lineage.EventResult}})
	if err != nil || len(log.Events) != 1 || log.Events[0].Session != w.root(t, "chat").ID {
		t.Errorf("results told to the parent = %+v, %v; want one", log.Events, err)
	}
}

// A task that the agent names only after it was to stop is cancelled then.
func TestCancelWaitsForTheTask(t *testing.T) {
	t.Parallel()
	thinks, say, stop := make(chan struct{}), make(chan struct{}), make(chan struct{})
	agent := newFake(t, func(w http.ResponseWriter, r *http.Request) {
		if methodOf(r) == "CancelTask" {
			close(stop)
			says(`{"jsonrpc":"2.0","id":"1","result":{"id":"t1","status":{"state":"TASK_STATE_CANCELED"}}}`)(w, r)
			return
		}
		close(thinks)
		<-say
		streams("data: "+working10+"\n\n")(w, r)
		_ = http.NewResponseController(w).Flush()
		<-stop
		_, _ = io.WriteString(w, "data: "+canceled10("t1")+"\n\n")
	})
	w := newEndingWorld(t, time.Minute, isolated("worker", agent.URL))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if _, err := w.try(t, http.MethodPost, "/agents/worker", stream10("m1", ""), "Content-Type", "application/json", "x-kagent-root-context-id", "top"); err != nil {
			t.Error(err)
		}
	}()
	<-thinks
	w.step(t, w.session(t, "top").ID, lineage.VerbCancel)
	close(say)
	<-done
	w.state(t, "top", lineage.Failed, lineage.ReasonCanceled)
}

// Whichever sidecar of a shared store ends a session, the one that holds its call
// asks the agent to stop: it knows the caller's credentials.
func TestCancelAcrossSidecars(t *testing.T) {
	t.Parallel()
	srv := redistest.Start(t)
	opts := agents.Options{}
	untilReleased(t, &opts)
	agent := startAgent(t, opts)
	var worlds [2]*world
	for i := range worlds {
		store, err := redis.Open(t.Context(), redis.Options{URL: srv.URL(), Grace: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := store.Close(); err != nil {
				t.Error(err)
			}
		})
		worlds[i] = newWorldWith(t, func(r *sessions.Options, _ *proxy.Options) {
			r.Store, r.Settle, r.Owner = store, 10*time.Millisecond, "sidecar-"+itoa(i)
		}, isolated("worker", agent.URL()))
	}
	s := begin(t, worlds[0].dial(t, wires[0]), as("ann", "a"))
	within(t, "the task is known to both", func() bool {
		_, err := worlds[1].store.Find(t.Context(), sessions.BindingKey{Kind: sessions.BindTask, Agent: "worker", ID: string(s.task)})
		return err == nil
	})
	worlds[1].step(t, worlds[1].root(t, "chat").ID, lineage.VerbComplete)
	select {
	case err := <-s.rest:
		if err != nil || *s.last != a2a.TaskStateCanceled {
			t.Errorf("the stream ended with %s, %v; want it cancelled", *s.last, err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("the stream goes on")
	}
	checkAsked(t, agent.Asked(), "CancelTask", s.task, "ann", "a")
	worlds[1].state(t, "chat", lineage.Failed, lineage.ReasonCanceled)
}

// A session whose time is over is ended likewise, though a call waits for it.
func TestExpiredSessionIsCanceled(t *testing.T) {
	t.Parallel()
	opts := agents.Options{Stubborn: true}
	untilReleased(t, &opts)
	agent := startAgent(t, opts)
	a := isolated("worker", agent.URL())
	a.Session.TTL = 200 * time.Millisecond
	w := newEndingWorld(t, short, a)
	s := begin(t, w.dial(t, wires[0]), as("ann", "a"))
	if err := <-s.rest; err == nil {
		t.Error("the stream ended as if all were well")
	}
	w.state(t, "chat", lineage.Expired, "")
	checkAsked(t, agent.Asked(), "CancelTask", s.task, "ann", "a")
}

// After a restart nobody knows any more who called. The agent is asked to stop
// all the same; whether it lets nobody do that is its own decision.
func TestCancelAfterARestart(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{"": lineage.ReasonCanceled, "ann": lineage.ReasonCanceled} {
		t.Run("user "+user, func(t *testing.T) {
			t.Parallel()
			opts := agents.Options{}
			stopped := make(chan struct{})
			opts.Work = func(ctx context.Context) error {
				<-ctx.Done()
				close(stopped)
				return ctx.Err()
			}
			agent := startAgent(t, opts)
			store, a := newStore(t, short), isolated("worker", agent.URL())
			w := newWorldOver(t, store, a)
			params := a2aclient.ServiceParams{}
			if user != "" {
				params = as(user, "a")
			}
			req := userMessage("tides")
			req.Config = &a2a.SendMessageConfig{ReturnImmediately: true}
			result, err := w.dial(t, wires[0]).SendMessage(a2aclient.AttachServiceParams(t.Context(), params), req)
			if err != nil {
				t.Fatal(err)
			}
			w.close()

			w = newWorldOver(t, store, a)
			w.step(t, w.session(t, "chat").ID, lineage.VerbCancel)
			<-stopped
			asked := agent.Asked()
			if got := byID(asked); len(got) != 1 || got[string(result.TaskInfo().TaskID)] == "" || asked[0].Header.Get("Authorization") != "" {
				t.Errorf("the agent was asked %v, want CancelTask without credentials", got)
			}
			w.state(t, "chat", lineage.Failed, want)
		})
	}
}
