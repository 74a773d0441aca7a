package main

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
)

// session is a client in the middle of a scenario.
type session struct {
	*a2aclient.Client
	how   dialing
	count int
	fresh bool
	out   *printer
}

// scenarios are what a client can be asked to do. One fails only if it could
// not be carried out: what the agent answers, errors included, is printed.
var scenarios = map[string]func(context.Context, *session) error{
	"message":   func(ctx context.Context, s *session) error { return s.once(ctx, "message hi") },
	"task":      func(ctx context.Context, s *session) error { return s.once(ctx, "task hi") },
	"stream":    stream,
	"ask":       ask,
	"get":       get,
	"list":      list,
	"cancel":    cancel,
	"subscribe": subscribe,
	"push":      pushConfigs,
	"card":      card,
	"errors":    failures,
	"fanout":    fanOut,
}

func names() []string { return slices.Sorted(maps.Keys(scenarios)) }

func message(text string, info a2a.TaskInfo) *a2a.SendMessageRequest {
	m := a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart(text))
	m.TaskID, m.ContextID = info.TaskID, info.ContextID
	return &a2a.SendMessageRequest{Message: m}
}

func (s *session) once(ctx context.Context, text string) error {
	_, err := s.send(ctx, text, a2a.TaskInfo{})
	return err
}

// send sends a message and prints what comes of it. Where it is an error, the
// info is empty.
func (s *session) send(ctx context.Context, text string, info a2a.TaskInfo) (a2a.TaskInfo, error) {
	result, err := s.SendMessage(ctx, message(text, info))
	if err != nil {
		return a2a.TaskInfo{}, s.out.fault("send", err)
	}
	return result.TaskInfo(), s.out.event("send", result)
}

func stream(ctx context.Context, s *session) error {
	return s.all("stream", s.SendStreamingMessage(ctx, message("task hi", a2a.TaskInfo{})))
}

// all prints a stream to its end.
func (s *session) all(step string, events iter.Seq2[a2a.Event, error]) error {
	for e, err := range events {
		if err != nil {
			return s.out.fault(step, err)
		}
		if err := s.out.event(step, e); err != nil {
			return err
		}
	}
	return nil
}

func ask(ctx context.Context, s *session) error {
	info, err := s.send(ctx, "ask x", a2a.TaskInfo{})
	if err != nil || info.TaskID == "" {
		return err
	}
	_, err = s.send(ctx, "more", info)
	return err
}

func get(ctx context.Context, s *session) error {
	info, err := s.send(ctx, "task hi", a2a.TaskInfo{})
	if err != nil {
		return err
	}
	return s.get(ctx, info.TaskID)
}

func (s *session) get(ctx context.Context, id a2a.TaskID) error {
	task, err := s.GetTask(ctx, &a2a.GetTaskRequest{ID: id})
	if err != nil {
		return s.out.fault("get", err)
	}
	return s.out.event("get", task)
}

func list(ctx context.Context, s *session) error {
	info, err := s.send(ctx, "task hi", a2a.TaskInfo{})
	if err != nil {
		return err
	}
	tasks, err := s.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: info.ContextID})
	if err != nil {
		return s.out.fault("list", err)
	}
	return s.out.line(line{Step: "list", Kind: "tasks", Text: strconv.Itoa(len(tasks.Tasks))})
}

// started streams a slow message, prints up to the first status working, and
// returns where it runs and the rest of the stream. The caller ends the rest.
func (s *session) started(ctx context.Context) (info a2a.TaskInfo, next func() (a2a.Event, error, bool), stop func(), err error) {
	next, stop = iter.Pull2(s.SendStreamingMessage(ctx, message("slow x", a2a.TaskInfo{})))
	for {
		e, failed, ok := next()
		switch {
		case !ok:
			return info, next, stop, fmt.Errorf("the stream ended before the task was working")
		case failed != nil:
			return info, next, stop, fmt.Errorf("streaming: %w", failed)
		}
		if err := s.out.event("stream", e); err != nil {
			return info, next, stop, err
		}
		if u, ok := e.(*a2a.TaskStatusUpdateEvent); ok && u.Status.State == a2a.TaskStateWorking {
			return e.TaskInfo(), next, stop, nil
		}
	}
}

func (s *session) cancel(ctx context.Context, id a2a.TaskID) error {
	task, err := s.CancelTask(ctx, &a2a.CancelTaskRequest{ID: id})
	if err != nil {
		return s.out.fault("cancel", err)
	}
	return s.out.event("cancel", task)
}

func cancel(ctx context.Context, s *session) error {
	info, next, stop, err := s.started(ctx)
	defer stop()
	if err != nil {
		return err
	}
	if err := s.cancel(ctx, info.TaskID); err != nil {
		return err
	}
	return s.all("stream", rest(next))
}

// rest is what is left of a stream that was begun by hand.
func rest(next func() (a2a.Event, error, bool)) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		for {
			if e, err, ok := next(); !ok || !yield(e, err) {
				return
			}
		}
	}
}

func subscribe(ctx context.Context, s *session) error {
	info, _, stop, err := s.started(ctx)
	defer stop()
	if err != nil {
		return err
	}
	next, end := iter.Pull2(s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: info.TaskID}))
	defer end()
	// Whatever comes first says that the second stream stands. 0.3 servers need
	// not say anything, but this SDK's do.
	first, failed, ok := next()
	switch {
	case failed != nil:
		err = s.out.fault("subscribe", failed)
	case ok:
		err = s.out.event("subscribe", first)
	}
	if err != nil {
		return err
	}
	if err := s.cancel(ctx, info.TaskID); err != nil || failed != nil || !ok {
		return err
	}
	return s.all("subscribe", rest(next))
}

func pushConfigs(ctx context.Context, s *session) error {
	info, _, stop, err := s.started(ctx)
	defer stop()
	if err != nil {
		return err
	}
	made, err := s.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: info.TaskID, URL: "http://127.0.0.1:9/hook", Token: "t"})
	if err != nil {
		return s.out.fault("create", err)
	}
	if err := s.out.config("create", made); err != nil {
		return err
	}
	got, err := s.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: info.TaskID, ID: made.ID})
	if err == nil {
		err = s.out.config("get", got)
	} else {
		err = s.out.fault("get", err)
	}
	if err != nil {
		return err
	}
	all, err := s.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: info.TaskID})
	if err == nil {
		err = s.out.line(line{Step: "list", Kind: "configs", Text: strconv.Itoa(len(all))})
	} else {
		err = s.out.fault("list", err)
	}
	if err != nil {
		return err
	}
	if err := s.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: info.TaskID, ID: made.ID}); err != nil {
		err = s.out.fault("delete", err)
		if err != nil {
			return err
		}
	} else if err := s.out.line(line{Step: "delete", Kind: "none"}); err != nil {
		return err
	}
	return s.cancel(ctx, info.TaskID)
}

func card(ctx context.Context, s *session) error {
	card, err := s.GetExtendedAgentCard(ctx, &a2a.GetExtendedAgentCardRequest{})
	if err != nil {
		return s.out.fault("card", err)
	}
	return s.out.line(line{Step: "card", Kind: "card", Text: card.Name})
}

// failures asks for a task that is not there, over one connection or a fresh
// one each time.
func failures(ctx context.Context, s *session) error {
	for range s.count {
		client := s.Client
		if s.fresh {
			var err error
			if client, err = s.how.dial(ctx); err != nil {
				return err
			}
		}
		task, err := client.GetTask(ctx, &a2a.GetTaskRequest{ID: "nope"})
		if err != nil {
			err = s.out.fault("errors", err)
		} else {
			err = s.out.event("errors", task)
		}
		if s.fresh {
			_ = client.Destroy() // nothing is under way
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// fanOut sends twice as many messages at once as a small coordinator would. The
// SDK keeps no conversation, so the second turn goes on with nothing.
func fanOut(ctx context.Context, s *session) error {
	const calls = 11
	var mu sync.Mutex // guards failed
	var failed error
	for turn := range 2 {
		var wg sync.WaitGroup
		for i := range calls {
			wg.Go(func() {
				if _, err := s.send(ctx, "task "+strconv.Itoa(turn*calls+i), a2a.TaskInfo{}); err != nil {
					mu.Lock()
					defer mu.Unlock()
					failed = err
				}
			})
		}
		wg.Wait()
	}
	return failed
}
