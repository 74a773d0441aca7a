package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/a2a"
	"github.com/a2aproject/a2a-go/a2asrv"
	"github.com/a2aproject/a2a-go/a2asrv/eventqueue"
)

// slowLimit ends a "slow" task that nobody cancels.
const slowLimit = 60 * time.Second

// executor does what the first word of a message asks for, as every server of
// the lab does:
//
//	message  a Message, and no task
//	ask      a task that wants input; any follow-up completes it
//	slow     a task that works until it is cancelled
//	fail     a task that fails
//	else     a task with one artifact in two chunks
type executor struct{}

// Execute implements [a2asrv.AgentExecutor].
func (executor) Execute(ctx context.Context, req *a2asrv.RequestContext, queue eventqueue.Queue) error {
	text := textOf(req.Message.Parts)
	verb, _, _ := strings.Cut(text, " ")
	if req.StoredTask != nil {
		return work(ctx, req, queue, text)
	}
	if verb == "message" {
		return queue.Write(ctx, a2a.NewMessageForTask(a2a.MessageRoleAgent, contextOnly(req), a2a.TextPart{Text: echo(text)}))
	}
	if err := queue.Write(ctx, a2a.NewSubmittedTask(req, req.Message)); err != nil {
		return fmt.Errorf("submitting the task: %w", err)
	}
	switch verb {
	case "ask":
		return end(ctx, req, queue, a2a.TaskStateInputRequired, "What else?")
	case "fail":
		return end(ctx, req, queue, a2a.TaskStateFailed, "failed: "+text)
	case "slow":
		return idle(ctx, req, queue)
	default:
		return work(ctx, req, queue, text)
	}
}

// Cancel implements [a2asrv.AgentExecutor].
func (executor) Cancel(ctx context.Context, req *a2asrv.RequestContext, queue eventqueue.Queue) error {
	return end(ctx, req, queue, a2a.TaskStateCanceled, "")
}

// work echoes text as one artifact, in two chunks.
func work(ctx context.Context, req *a2asrv.RequestContext, queue eventqueue.Queue, text string) error {
	first := a2a.NewArtifactEvent(req, a2a.TextPart{Text: "echo: "})
	rest := a2a.NewArtifactUpdateEvent(req, first.Artifact.ID, a2a.TextPart{Text: text})
	rest.LastChunk = true
	for _, event := range []a2a.Event{a2a.NewStatusUpdateEvent(req, a2a.TaskStateWorking, nil), first, rest} {
		if err := queue.Write(ctx, event); err != nil {
			return fmt.Errorf("working: %w", err)
		}
	}
	return end(ctx, req, queue, a2a.TaskStateCompleted, "")
}

// idle works without a result. Cancelling the task ends ctx, by the SDK.
func idle(ctx context.Context, req *a2asrv.RequestContext, queue eventqueue.Queue) error {
	if err := queue.Write(ctx, a2a.NewStatusUpdateEvent(req, a2a.TaskStateWorking, nil)); err != nil {
		return fmt.Errorf("working: %w", err)
	}
	limit := time.NewTimer(slowLimit)
	defer limit.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-limit.C:
		return end(ctx, req, queue, a2a.TaskStateCompleted, "")
	}
}

// end writes the last event of this execution, with a message if there is
// something to say.
func end(ctx context.Context, req *a2asrv.RequestContext, queue eventqueue.Queue, state a2a.TaskState, text string) error {
	var message *a2a.Message
	if text != "" {
		message = a2a.NewMessageForTask(a2a.MessageRoleAgent, req, a2a.TextPart{Text: text})
	}
	event := a2a.NewStatusUpdateEvent(req, state, message)
	event.Final = true
	if err := queue.Write(ctx, event); err != nil {
		return fmt.Errorf("ending as %s: %w", state, err)
	}
	return nil
}

// contextOnly is the context of a request without its task id: a Message that
// stands alone belongs to no task.
func contextOnly(req *a2asrv.RequestContext) a2a.TaskInfoProvider {
	return &a2asrv.RequestContext{ContextID: req.ContextID}
}

func echo(text string) string { return "echo: " + text }

func textOf(parts a2a.ContentParts) string {
	var text strings.Builder
	for _, part := range parts {
		switch part := part.(type) {
		case a2a.TextPart:
			text.WriteString(part.Text)
		case *a2a.TextPart:
			text.WriteString(part.Text)
		}
	}
	return text.String()
}
