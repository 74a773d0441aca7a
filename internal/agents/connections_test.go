package agents_test

import (
	"context"
	"errors"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/internal/agents"
)

// held runs an agent that works on each message until release is called, and
// begins a stream. next returns its events.
func held(t *testing.T, opts agents.Options) (a *agents.Agent, c *a2aclient.Client, task a2a.TaskID, next func() (a2a.Event, error), release func()) {
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
	a = start(t, opts)
	c = dial(t, a, agents.V10)
	type heard struct {
		event a2a.Event
		err   error
	}
	events := make(chan heard, 16)
	go func() {
		defer close(events)
		for e, err := range c.SendStreamingMessage(t.Context(), message("tides", "")) {
			events <- heard{e, err}
		}
	}()
	next = func() (a2a.Event, error) {
		h := <-events
		return h.event, h.err
	}
	first, err := next()
	if err != nil {
		t.Fatal(err)
	}
	for { // until it is at work
		if e, err := next(); err != nil {
			t.Fatal(err)
		} else if _, ok := e.(*a2a.TaskArtifactUpdateEvent); ok {
			return a, c, first.TaskInfo().TaskID, next, func() { close(hold) }
		}
	}
}

// Whoever is cut off hears nothing more, and finds the task at work as before.
func TestBreak(t *testing.T) {
	t.Parallel()
	a, c, id, next, release := held(t, agents.Options{})
	if err := a.Break(); err != nil {
		t.Fatalf("Break() = %v", err)
	}
	if e, err := next(); err == nil {
		t.Errorf("the broken stream went on with %+v", e)
	}
	get := func() *a2a.Task {
		t.Helper()
		task, err := c.GetTask(t.Context(), &a2a.GetTaskRequest{ID: id})
		if err != nil {
			t.Fatalf("GetTask = %v", err)
		}
		return task
	}
	if state := get().Status.State; state != a2a.TaskStateWorking {
		t.Errorf("state = %s, want working", state)
	}
	release()
	for get().Status.State != a2a.TaskStateCompleted && t.Context().Err() == nil {
		continue // a moment
	}
}

func TestCrash(t *testing.T) {
	t.Parallel()
	a, c, _, next, _ := held(t, agents.Options{Bindings: []a2a.TransportProtocol{a2a.TransportProtocolJSONRPC, a2a.TransportProtocolGRPC}})
	if err := a.Crash(); err != nil {
		t.Fatalf("Crash() = %v", err)
	}
	if e, err := next(); err == nil {
		t.Errorf("the stream of a crashed agent went on with %+v", e)
	}
	if _, err := c.SendMessage(t.Context(), message("late", "")); err == nil {
		t.Error("SendMessage to a crashed agent = nil, want an error")
	}
}

func TestStubborn(t *testing.T) {
	t.Parallel()
	a, c, id, next, release := held(t, agents.Options{Stubborn: true})
	ctx := a2aclient.AttachServiceParams(t.Context(), a2aclient.ServiceParams{"authorization": {"Bearer b"}})
	if _, err := c.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id, Tenant: "acme"}); !errors.Is(err, a2a.ErrTaskNotCancelable) {
		t.Errorf("CancelTask = %v, want that it cannot be cancelled", err)
	}
	release()
	var last a2a.Event
	for {
		e, err := next()
		if err != nil {
			t.Fatal(err)
		}
		if e == nil {
			break
		}
		last = e
	}
	if e, ok := last.(*a2a.TaskStatusUpdateEvent); !ok || e.Status.State != a2a.TaskStateCompleted {
		t.Errorf("the task ended with %+v, want it completed", last)
	}

	asked := a.Asked()
	if len(asked) != 1 || asked[0].Header.Get("Authorization") != "Bearer b" {
		t.Fatalf("Asked() = %+v, want one call with its credentials", asked)
	}
	asked[0].Header = nil
	if diff := cmp.Diff([]agents.Asked{{Method: "CancelTask", TaskID: string(id), Tenant: "acme"}}, asked); diff != "" {
		t.Errorf("Asked() (-want +got):\n%s", diff)
	}
}
