package main

import (
	"context"
	"iter"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// slow is how long a "slow" message is worked on if nobody cancels it.
const slow = time.Minute

// executor does what the first word of a message says.
type executor struct{}

// Execute implements [a2asrv.AgentExecutor].
func (executor) Execute(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		say := func(e a2a.Event) bool { return yield(e, nil) }
		text := textOf(exec.Message)
		if exec.StoredTask != nil { // whatever follows up on a question answers it
			_ = complete(exec, text, say)
			return
		}
		word, _, _ := strings.Cut(text, " ")
		if word == "message" {
			answer := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("echo: "+text))
			answer.ContextID = exec.ContextID
			say(answer)
			return
		}
		if !say(a2a.NewSubmittedTask(exec, exec.Message)) {
			return
		}
		switch word {
		case "ask":
			say(status(exec, a2a.TaskStateInputRequired, "which one?"))
		case "fail":
			_ = say(status(exec, a2a.TaskStateWorking, "")) && say(status(exec, a2a.TaskStateFailed, "failed: "+text))
		case "slow":
			if !say(status(exec, a2a.TaskStateWorking, "")) {
				return
			}
			timer := time.NewTimer(slow)
			defer timer.Stop()
			select {
			case <-ctx.Done():
			case <-timer.C:
				_ = complete(exec, text, say)
			}
		default:
			_ = complete(exec, text, say)
		}
	}
}

// Cancel implements [a2asrv.AgentExecutor].
func (executor) Cancel(_ context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(status(exec, a2a.TaskStateCanceled, ""), nil)
	}
}

// complete works, and ends a task with the text in an artifact of two chunks.
func complete(exec *a2asrv.ExecutorContext, text string, say func(a2a.Event) bool) bool {
	first := a2a.NewArtifactEvent(exec, a2a.NewTextPart("echo: "))
	first.Artifact.Name = "echo"
	second := a2a.NewArtifactUpdateEvent(exec, first.Artifact.ID, a2a.NewTextPart(text))
	second.LastChunk = true
	return say(status(exec, a2a.TaskStateWorking, "")) && say(first) && say(second) && say(status(exec, a2a.TaskStateCompleted, ""))
}

// status is an update of a task; the text, if there is one, goes along.
func status(exec *a2asrv.ExecutorContext, state a2a.TaskState, text string) a2a.Event {
	var message *a2a.Message
	if text != "" {
		message = a2a.NewMessageForTask(a2a.MessageRoleAgent, exec, a2a.NewTextPart(text))
	}
	return a2a.NewStatusUpdateEvent(exec, state, message)
}
