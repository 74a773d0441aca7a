package main

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

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

// working is a stream of a slow message whose task works.
type working struct {
	task a2a.TaskID
	next func() (a2a.Event, error, bool)
	stop func() // must be called
}

// started streams a slow message and prints it up to the first status working.
// It returns nil if it does not come to that: what came instead is printed.
func (s *session) started(ctx context.Context) (*working, error) {
	next, stop := iter.Pull2(s.SendStreamingMessage(ctx, message("slow x", a2a.TaskInfo{})))
	for {
		e, failed, ok := next()
		var err error
		switch {
		case !ok:
			err = s.out.line(line{Step: "stream", Kind: "none"})
		case failed != nil:
			err = s.out.fault("stream", failed)
		default:
			err = s.out.event("stream", e)
		}
		if !ok || failed != nil || err != nil {
			stop()
			return nil, err
		}
		if u, ok := e.(*a2a.TaskStatusUpdateEvent); ok && u.Status.State == a2a.TaskStateWorking {
			return &working{e.TaskInfo().TaskID, next, stop}, nil
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
	w, err := s.started(ctx)
	if w == nil {
		return err
	}
	defer w.stop()
	if err := s.cancel(ctx, w.task); err != nil {
		return err
	}
	return s.all("stream", rest(w.next))
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

// silence is how long a second stream may say nothing before the task is
// cancelled all the same: 0.3 does not say that it begins with anything.
const silence = 500 * time.Millisecond

func subscribe(ctx context.Context, s *session) error {
	w, err := s.started(ctx)
	if w == nil {
		return err
	}
	defer w.stop()
	heard := make(chan struct{})
	var once sync.Once
	read := make(chan error, 1)
	go func() {
		defer once.Do(func() { close(heard) })
		read <- s.all("subscribe", func(yield func(a2a.Event, error) bool) {
			for e, err := range s.SubscribeToTask(ctx, &a2a.SubscribeToTaskRequest{ID: w.task}) {
				on := yield(e, err)
				once.Do(func() { close(heard) })
				if !on {
					return
				}
			}
		})
	}()
	timer := time.NewTimer(silence)
	defer timer.Stop()
	select {
	case <-heard:
	case <-timer.C:
	}
	if err := s.cancel(ctx, w.task); err != nil {
		return err
	}
	return <-read
}

func pushConfigs(ctx context.Context, s *session) error {
	w, err := s.started(ctx)
	if w == nil {
		return err
	}
	defer w.stop()
	made, err := s.CreateTaskPushConfig(ctx, &a2a.PushConfig{TaskID: w.task, URL: "http://127.0.0.1:9/hook", Token: "t"})
	if err != nil {
		return s.out.fault("create", err)
	}
	if err := s.out.config("create", made); err != nil {
		return err
	}
	got, err := s.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigRequest{TaskID: w.task, ID: made.ID})
	if err == nil {
		err = s.out.config("get", got)
	} else {
		err = s.out.fault("get", err)
	}
	if err != nil {
		return err
	}
	all, err := s.ListTaskPushConfigs(ctx, &a2a.ListTaskPushConfigRequest{TaskID: w.task})
	if err == nil {
		err = s.out.line(line{Step: "list", Kind: "configs", Text: strconv.Itoa(len(all))})
	} else {
		err = s.out.fault("list", err)
	}
	if err != nil {
		return err
	}
	if err := s.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigRequest{TaskID: w.task, ID: made.ID}); err != nil {
		err = s.out.fault("delete", err)
		if err != nil {
			return err
		}
	} else if err := s.out.line(line{Step: "delete", Kind: "none"}); err != nil {
		return err
	}
	return s.cancel(ctx, w.task)
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
