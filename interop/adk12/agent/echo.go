package main

import (
	"context"
	"errors"
	"iter"
	"strings"
	"time"

	"google.golang.org/adk/agent"
	"google.golang.org/adk/model"
	"google.golang.org/adk/session"
	"google.golang.org/genai"
)

// slowLimit ends a "slow" run that nobody cancels.
const slowLimit = 60 * time.Second

// question names the long-running call by which an ADK agent asks its user.
// One id will do for all: a task has one question at most.
const (
	questionID   = "question"
	questionName = "ask_user"
	answerKey    = "answer"
)

// newEcho makes the agent: no model, and for the first word of what it is told
// the behaviour that every server of the lab has.
//
//	ask   a task that wants input; any follow-up completes it
//	slow  a task that works until it is cancelled
//	fail  a task that fails
//	else  a task with one artifact in two chunks
//
// A "message" is answered with a task too: ADK's executor knows nothing else.
func newEcho() (agent.Agent, error) {
	return agent.New(agent.Config{
		Name:        "echo",
		Description: "Says again what it was told.",
		Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) {
				text, answered := told(ctx.UserContent())
				verb, _, _ := strings.Cut(text, " ")
				switch {
				case answered:
					say(ctx, yield, text)
				case verb == "ask":
					yield(ask(ctx), nil)
				case verb == "fail":
					yield(nil, errors.New("failed: "+text))
				case verb == "slow":
					if err := idle(ctx); err != nil {
						yield(nil, err)
					}
				default:
					say(ctx, yield, text)
				}
			}
		},
	})
}

// told is the text of what the user sent, and whether it answers a question.
func told(content *genai.Content) (text string, answered bool) {
	if content == nil {
		return "", false
	}
	var all strings.Builder
	for _, part := range content.Parts {
		if part.FunctionResponse != nil {
			answered = true
			if answer, ok := part.FunctionResponse.Response[answerKey].(string); ok {
				all.WriteString(answer)
			}
			continue
		}
		all.WriteString(part.Text)
	}
	return all.String(), answered
}

// say echoes in two events, which the executor makes two chunks of one
// artifact.
func say(ctx agent.InvocationContext, yield func(*session.Event, error) bool, text string) {
	for _, chunk := range []string{"echo: ", text} {
		if !yield(newEvent(ctx, genai.NewPartFromText(chunk)), nil) {
			return
		}
	}
}

// ask is the question: a call of a long-running tool, whose result is the
// user's to give.
func ask(ctx agent.InvocationContext) *session.Event {
	event := newEvent(ctx, &genai.Part{FunctionCall: &genai.FunctionCall{
		ID:   questionID,
		Name: questionName,
		Args: map[string]any{"question": "What else?"},
	}})
	event.LongRunningToolIDs = []string{questionID}
	return event
}

// idle waits for the task to be cancelled, which ends ctx, or for its limit.
func idle(ctx context.Context) error {
	limit := time.NewTimer(slowLimit)
	defer limit.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return nil
	}
}

func newEvent(ctx agent.InvocationContext, part *genai.Part) *session.Event {
	event := session.NewEvent(ctx.InvocationID())
	event.Author = ctx.Agent().Name()
	event.Branch = ctx.Branch()
	event.LLMResponse = model.LLMResponse{Content: genai.NewContentFromParts([]*genai.Part{part}, genai.RoleModel)}
	return event
}
