package main

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"google.golang.org/adk/agent"
	"google.golang.org/adk/runner"
	"google.golang.org/adk/session"
	"google.golang.org/genai"
)

// fanout is how many calls a turn makes at once, the count at which the
// collapse of contexts was first seen.
const fanout = 11

// scenario is what an application does with its agents.
type scenario struct {
	text  string // what the user says
	turns int    // how often, in one session
	calls int    // how many calls the coordinator makes of it at once
	mode  agent.StreamingMode
	each  bool // a line for each event, not one for each call
}

// scenarios are those of the lab that an ADK application can play: it has no
// call for a task but the one that sends. The fan-out leaves the mode to ADK,
// whose default is to stream.
var scenarios = map[string]scenario{
	"message": {text: "message hi", turns: 1, calls: 1, mode: agent.StreamingModeNone},
	"task":    {text: "task hi", turns: 1, calls: 1, mode: agent.StreamingModeNone},
	"stream":  {text: "task hi", turns: 1, calls: 1, mode: agent.StreamingModeSSE, each: true},
	"fanout":  {text: "task n", turns: 2, calls: fanout},
}

// answer is what one call came to.
type answer struct {
	events []*session.Event
	err    error
}

// play has the user speak turns times in one ADK session and prints what came
// of each call.
func (s scenario) play(ctx context.Context, remote agent.Agent, out *printer) error {
	var answers []answer
	coordinator, err := agent.New(agent.Config{
		Name:        "coordinator",
		Description: "Hands on what it is told.",
		SubAgents:   []agent.Agent{remote},
		Run: func(ctx agent.InvocationContext) iter.Seq2[*session.Event, error] {
			return func(yield func(*session.Event, error) bool) {
				answers = s.delegate(ctx, remote)
				for _, answer := range answers {
					for _, event := range answer.events {
						if !yield(event, nil) {
							return
						}
					}
				}
			}
		},
	})
	if err != nil {
		return fmt.Errorf("making the coordinator: %w", err)
	}
	app, err := runner.New(runner.Config{
		AppName:           "lab",
		Agent:             coordinator,
		SessionService:    session.InMemoryService(),
		AutoCreateSession: true,
	})
	if err != nil {
		return fmt.Errorf("making the runner: %w", err)
	}
	for turn := 1; turn <= s.turns; turn++ {
		answers = nil
		says := genai.NewContentFromText(s.text, genai.RoleUser)
		for _, err := range app.Run(ctx, "user", "session", says, agent.RunConfig{StreamingMode: s.mode}) {
			if err != nil {
				return fmt.Errorf("turn %d: %w", turn, err)
			}
		}
		s.print(out, turn, answers)
	}
	return nil
}

// delegate makes the calls of one turn at once and waits for all. No answer
// enters the session before the last call is out, so each of a turn's calls
// sees the session as the turn before left it.
func (s scenario) delegate(ctx agent.InvocationContext, remote agent.Agent) []answer {
	answers := make([]answer, s.calls)
	var calls sync.WaitGroup
	for n := range answers {
		calls.Go(func() {
			callCtx := ctx
			if s.calls > 1 {
				callCtx = ctx.WithContext(withCallText(ctx, fmt.Sprintf("task %d", n+1)))
			}
			for event, err := range remote.Run(callCtx) {
				if err != nil {
					answers[n].err = err
					return
				}
				answers[n].events = append(answers[n].events, event)
			}
		})
	}
	calls.Wait()
	return answers
}

func (s scenario) print(out *printer, turn int, answers []answer) {
	for n, answer := range answers {
		switch {
		case s.each:
			for _, event := range answer.events {
				out.print(eventLine("stream", event))
			}
			if answer.err != nil {
				out.failure("stream", answer.err)
			}
		case s.calls == 1:
			out.answer("send", answer)
		default:
			out.answer(fmt.Sprintf("turn %d call %d", turn, n+1), answer)
		}
	}
}

type callTextKey struct{}

// withCallText carries the text that one call is to say past ADK, down to the
// callback that sees the request. ADK would say the user's words in each of
// them; with a text of its own, an answer tells whose it is.
func withCallText(ctx context.Context, text string) context.Context {
	return context.WithValue(ctx, callTextKey{}, text)
}

func callText(ctx context.Context) (string, bool) {
	text, ok := ctx.Value(callTextKey{}).(string)
	return text, ok
}
