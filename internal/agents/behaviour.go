package agents

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"strings"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// Behaviour is what an agent does with a message.
type Behaviour string

// The behaviours.
const (
	// Researcher works on a task and reports: status updates and an artifact in
	// two chunks, the second of which holds a [Report]. It has a memory per
	// context and reads all of it for its report, as an agent reads the history
	// of its session.
	Researcher Behaviour = "researcher"
	// Echo answers with a message at once, without a task.
	Echo Behaviour = "echo"
	// Ask asks back (INPUT_REQUIRED), and completes the task when it is answered.
	Ask Behaviour = "ask"
	// Fail fails every task.
	Fail Behaviour = "fail"
)

// skill describes the behaviour on the agent's card.
func (b Behaviour) skill() string {
	switch b {
	case Researcher:
		return "Works on a topic and reports, with everything that it knows of the conversation."
	case Echo:
		return "Says what it hears."
	case Ask:
		return "Asks back before it answers."
	default:
		return "Fails at everything."
	}
}

var errClosed = errors.New("the agent is closed")

// executor returns what the SDK is to run for each message.
func (a *Agent) executor() (a2asrv.AgentExecutor, error) {
	switch a.opts.Behaviour {
	case Researcher:
		return executor{a, a.research}, nil
	case Echo:
		return executor{a, a.echo}, nil
	case Ask:
		return executor{a, a.ask}, nil
	case Fail:
		return executor{a, a.fail}, nil
	default:
		return nil, fmt.Errorf("starting agent %s: no such behaviour: %q", a.opts.Name, a.opts.Behaviour)
	}
}

// say hands an event to the SDK. It returns false when nobody listens any more.
type say func(a2a.Event) bool

// behave works on a message and returns its last word, which ends or suspends
// the task. It returns nil when nobody listens any more.
type behave func(ctx context.Context, exec *a2asrv.ExecutorContext, say say) a2a.Event

// executor makes an [a2asrv.AgentExecutor] of a behaviour.
type executor struct {
	agent  *Agent
	behave behave
}

func (x executor) Execute(ctx context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if !x.agent.take(ctx, exec) {
			yield(nil, errClosed)
			return
		}
		defer x.agent.working.Done()
		last := x.behave(ctx, exec, func(e a2a.Event) bool { return yield(e, nil) })
		// Before the last word is heard: the next call may come with it.
		x.agent.rest()
		if last != nil {
			yield(last, nil)
		}
	}
}

func (x executor) Cancel(_ context.Context, exec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if x.agent.opts.Stubborn {
			yield(nil, a2a.ErrTaskNotCancelable)
			return
		}
		yield(a2a.NewStatusUpdateEvent(exec, a2a.TaskStateCanceled, nil), nil)
	}
}

func (a *Agent) research(ctx context.Context, exec *a2asrv.ExecutorContext, say say) a2a.Event {
	topic := textOf(exec.Message)
	if !begin(exec, say) ||
		!say(status(exec, a2a.TaskStateWorking, "reading about "+topic)) ||
		!say(status(exec, a2a.TaskStateWorking, "taking notes on "+topic)) {
		return nil
	}
	findings := a2a.NewArtifactEvent(exec, a2a.NewTextPart("Findings on "+topic+". "))
	findings.Artifact.Name = "report"
	if !say(findings) {
		return nil
	}
	if err := a.work(ctx); err != nil {
		return status(exec, a2a.TaskStateFailed, err.Error())
	}
	report := Report{ContextID: exec.ContextID}
	for _, m := range a.others(exec.ContextID, exec.StoredTask, exec.Message) {
		report.Others = append(report.Others, textOf(m))
	}
	rest := a2a.NewArtifactUpdateEvent(exec, findings.Artifact.ID, a2a.NewTextPart(report.String()), report.part())
	rest.LastChunk = true
	if !say(rest) {
		return nil
	}
	return status(exec, a2a.TaskStateCompleted, report.String())
}

func (a *Agent) echo(ctx context.Context, exec *a2asrv.ExecutorContext, _ say) a2a.Event {
	answer := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(textOf(exec.Message)))
	answer.ContextID = exec.ContextID
	if err := a.work(ctx); err != nil {
		answer.Parts = a2a.ContentParts{a2a.NewTextPart(err.Error())}
	}
	return answer
}

func (a *Agent) ask(ctx context.Context, exec *a2asrv.ExecutorContext, say say) a2a.Event {
	if exec.StoredTask == nil {
		if !begin(exec, say) {
			return nil
		}
		return status(exec, a2a.TaskStateInputRequired, "which part of "+textOf(exec.Message)+"?")
	}
	if !say(status(exec, a2a.TaskStateWorking, "")) {
		return nil
	}
	if err := a.work(ctx); err != nil {
		return status(exec, a2a.TaskStateFailed, err.Error())
	}
	return status(exec, a2a.TaskStateCompleted, "done: "+textOf(exec.Message))
}

func (a *Agent) fail(ctx context.Context, exec *a2asrv.ExecutorContext, say say) a2a.Event {
	if !begin(exec, say) || !say(status(exec, a2a.TaskStateWorking, "")) {
		return nil
	}
	if err := a.work(ctx); err != nil {
		return status(exec, a2a.TaskStateFailed, err.Error())
	}
	return status(exec, a2a.TaskStateFailed, "cannot do "+textOf(exec.Message))
}

// begin makes the task, unless the message goes on with one.
func begin(exec *a2asrv.ExecutorContext, say say) bool {
	return exec.StoredTask != nil || say(a2a.NewSubmittedTask(exec, exec.Message))
}

// work takes the time that the agent takes for a message.
func (a *Agent) work(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(a.alive, func() { cancel(errClosed) })() //nolint:contextcheck // the agent's life is the other thing that ends the work
	if a.opts.Work != nil {
		return a.opts.Work(ctx)
	}
	if a.opts.Delay <= 0 {
		return nil
	}
	timer := time.NewTimer(a.opts.Delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// status is an update of a task; the text, if there is one, goes along as a message.
func status(exec *a2asrv.ExecutorContext, state a2a.TaskState, text string) a2a.Event {
	var message *a2a.Message
	if text != "" {
		message = a2a.NewMessageForTask(a2a.MessageRoleAgent, exec, a2a.NewTextPart(text))
	}
	return a2a.NewStatusUpdateEvent(exec, state, message)
}

// textOf is the text of a message, without what is not text.
func textOf(m *a2a.Message) string {
	var b strings.Builder
	for _, p := range m.Parts {
		b.WriteString(p.Text())
	}
	return b.String()
}
