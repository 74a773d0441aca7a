package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2aclient"
)

// fanout is how many calls go out at once, the count at which the collapse of
// contexts was first seen.
const fanout = 11

// settle is how long a resubscription is given to reach the agent when no
// event tells that it has.
const settle = 500 * time.Millisecond

// session is one connection that a scenario plays on.
type session struct {
	client *a2aclient.Client
	out    *printer
	count  int
}

// scenarios are the lab's, by name. The SDKs that can list tasks add theirs.
var scenarios = map[string]func(*session, context.Context) error{
	"message":   (*session).message,
	"task":      (*session).task,
	"stream":    (*session).stream,
	"ask":       (*session).ask,
	"get":       (*session).get,
	"cancel":    (*session).cancel,
	"subscribe": (*session).subscribe,
	"push":      (*session).push,
	"card":      (*session).card,
	"errors":    (*session).errors,
	"fanout":    (*session).fanout,
}

func (s *session) message(ctx context.Context) error {
	event, err := s.client.SendMessage(ctx, say("message hi"))
	s.out.answer("send", event, err)
	return nil
}

func (s *session) task(ctx context.Context) error {
	event, err := s.client.SendMessage(ctx, say("task hi"))
	s.out.answer("send", event, err)
	return nil
}

func (s *session) stream(ctx context.Context) error {
	for event, err := range s.client.SendStreamingMessage(ctx, say("task hi")) {
		s.out.answer("stream", event, err)
	}
	return nil
}

func (s *session) ask(ctx context.Context) error {
	asked, err := s.client.SendMessage(ctx, say("ask x"))
	s.out.answer("send", asked, err)
	if err != nil {
		return nil
	}
	event, err := s.client.SendMessage(ctx, reply("more", asked.TaskInfo()))
	s.out.answer("resume", event, err)
	return nil
}

func (s *session) get(ctx context.Context) error {
	sent, err := s.client.SendMessage(ctx, say("task hi"))
	s.out.answer("send", sent, err)
	if err != nil {
		return nil
	}
	task, err := s.client.GetTask(ctx, &a2a.TaskQueryParams{ID: sent.TaskInfo().TaskID})
	if err != nil {
		s.out.failure("get", err)
		return nil
	}
	s.out.answer("get", task, nil)
	return nil
}

func (s *session) cancel(ctx context.Context) error {
	return s.whileWorking(ctx, func(task a2a.TaskID) { s.cancelTask(ctx, task) })
}

// subscribe drops its first stream, as a client does whose connection broke,
// and follows the task on a second one.
func (s *session) subscribe(ctx context.Context) error {
	task, err := s.untilWorking(ctx)
	if err != nil {
		return err
	}
	var lines []func()
	first := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		seen := sync.OnceFunc(func() { close(first) })
		defer seen()
		for event, err := range s.client.ResubscribeToTask(ctx, &a2a.TaskIDParams{ID: task}) {
			lines = append(lines, func() { s.out.answer("subscribe", event, err) })
			seen()
		}
	}()
	// An agent may have nothing to say to a new subscriber until the task
	// moves, and then only time tells that the subscription stands.
	select {
	case <-first:
	case <-time.After(settle):
	}
	s.cancelTask(ctx, task)
	<-ended
	for _, show := range lines {
		show()
	}
	return nil
}

func (s *session) push(ctx context.Context) error {
	return s.whileWorking(ctx, func(task a2a.TaskID) {
		s.pushConfigs(ctx, task)
		s.cancelTask(ctx, task)
	})
}

func (s *session) pushConfigs(ctx context.Context, task a2a.TaskID) {
	created, err := s.client.SetTaskPushConfig(ctx, &a2a.TaskPushConfig{
		TaskID: task,
		Config: a2a.PushConfig{URL: "http://127.0.0.1:9/hook", Token: "t"},
	})
	s.out.config("push create", created, err)
	if err != nil {
		return
	}
	id := created.Config.ID
	got, err := s.client.GetTaskPushConfig(ctx, &a2a.GetTaskPushConfigParams{TaskID: task, ConfigID: id})
	s.out.config("push get", got, err)

	all, err := s.client.ListTaskPushConfig(ctx, &a2a.ListTaskPushConfigParams{TaskID: task})
	if err != nil {
		s.out.failure("push list", err)
	} else {
		l := line{Step: "push list", Kind: "configs", TaskID: string(task)}
		for i, config := range all {
			if i > 0 {
				l.Text += "; "
			}
			l.Text += configText(config)
		}
		s.out.print(l)
	}

	if err := s.client.DeleteTaskPushConfig(ctx, &a2a.DeleteTaskPushConfigParams{TaskID: task, ConfigID: id}); err != nil {
		s.out.failure("push delete", err)
		return
	}
	s.out.print(line{Step: "push delete", Kind: "none"})
}

func (s *session) card(ctx context.Context) error {
	card, err := s.client.GetAgentCard(ctx)
	if err != nil {
		s.out.failure("card", err)
		return nil
	}
	s.out.print(line{Step: "card", Kind: "card", Text: card.Name})
	return nil
}

func (s *session) errors(ctx context.Context) error {
	for range s.count {
		task, err := s.client.GetTask(ctx, &a2a.TaskQueryParams{ID: "nope"})
		if err != nil {
			s.out.failure("get", err)
			continue
		}
		s.out.answer("get", task, nil)
	}
	return nil
}

// fanout sends its calls at once, then again, each into the context that its
// first answer named: this SDK keeps no conversation, its caller does.
func (s *session) fanout(ctx context.Context) error {
	var contexts [fanout]string
	for turn := 1; turn <= 2; turn++ {
		var events [fanout]a2a.Event
		var errs [fanout]error
		var calls sync.WaitGroup
		for n := range fanout {
			calls.Go(func() {
				params := reply(fmt.Sprintf("task %d", n+1), a2a.TaskInfo{ContextID: contexts[n]})
				events[n], errs[n] = s.client.SendMessage(ctx, params)
			})
		}
		calls.Wait()
		for n := range fanout {
			s.out.answer(fmt.Sprintf("turn %d call %d", turn, n+1), events[n], errs[n])
			if errs[n] == nil {
				contexts[n] = events[n].TaskInfo().ContextID
			}
		}
	}
	return nil
}

// whileWorking streams a slow task to its end, and calls act at its first
// working status, on the same goroutine: so the lines come in one order.
func (s *session) whileWorking(ctx context.Context, act func(a2a.TaskID)) error {
	acted := false
	for event, err := range s.client.SendStreamingMessage(ctx, say("slow x")) {
		s.out.answer("stream", event, err)
		if err == nil && !acted && isWorking(event) {
			acted = true
			act(event.TaskInfo().TaskID)
		}
	}
	if !acted {
		return fmt.Errorf("the stream ended before the task was seen working")
	}
	return nil
}

// untilWorking streams a slow task to its first working status and leaves.
func (s *session) untilWorking(ctx context.Context) (a2a.TaskID, error) {
	for event, err := range s.client.SendStreamingMessage(ctx, say("slow x")) {
		s.out.answer("stream", event, err)
		if err == nil && isWorking(event) {
			return event.TaskInfo().TaskID, nil
		}
	}
	return "", fmt.Errorf("the stream ended before the task was seen working")
}

func (s *session) cancelTask(ctx context.Context, task a2a.TaskID) {
	cancelled, err := s.client.CancelTask(ctx, &a2a.TaskIDParams{ID: task})
	if err != nil {
		s.out.failure("cancel", err)
		return
	}
	s.out.answer("cancel", cancelled, nil)
}

func isWorking(event a2a.Event) bool {
	switch event := event.(type) {
	case *a2a.Task:
		return event.Status.State == a2a.TaskStateWorking
	case *a2a.TaskStatusUpdateEvent:
		return event.Status.State == a2a.TaskStateWorking
	}
	return false
}

func say(text string) *a2a.MessageSendParams { return reply(text, a2a.TaskInfo{}) }

// reply is a message into the context, and of the task, that info names.
func reply(text string, info a2a.TaskInfo) *a2a.MessageSendParams {
	message := a2a.NewMessage(a2a.MessageRoleUser, a2a.TextPart{Text: text})
	message.ContextID, message.TaskID = info.ContextID, info.TaskID
	return &a2a.MessageSendParams{Message: message}
}
