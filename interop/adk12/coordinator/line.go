package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"google.golang.org/adk/server/adka2a"
	"google.golang.org/adk/session"
)

// line is one step of a scenario, as every client of the lab prints it. ADK
// keeps the state of a task to itself, so that member is missing here.
type line struct {
	Step      string `json:"step"`
	Kind      string `json:"kind"`
	Text      string `json:"text,omitempty"`
	ContextID string `json:"contextId,omitempty"`
	TaskID    string `json:"taskId,omitempty"`
	Error     string `json:"error,omitempty"`
}

// printer writes lines, and remembers the first failure to.
type printer struct {
	json *json.Encoder
	err  error
}

func newPrinter(w io.Writer) *printer {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return &printer{json: encoder}
}

func (p *printer) print(l line) {
	if err := p.json.Encode(l); err != nil && p.err == nil {
		p.err = fmt.Errorf("printing step %s: %w", l.Step, err)
	}
}

func (p *printer) failure(step string, err error) {
	p.print(line{Step: step, Kind: "error", Error: err.Error()})
}

// answer prints one line for all the events of a call: the text that stands
// (a partial event's is said again by a whole one), and the last ids named.
func (p *printer) answer(step string, a answer) {
	if a.err != nil {
		p.failure(step, a.err)
		return
	}
	sum := line{Step: step, Kind: "none"}
	for _, event := range a.events {
		l := eventLine(step, event)
		if l.Kind == "error" {
			p.print(l)
			return
		}
		if !event.Partial {
			sum.Text += l.Text
		}
		if l.Kind != "none" {
			sum.Kind = l.Kind
		}
		if l.ContextID != "" {
			sum.ContextID = l.ContextID
		}
		if l.TaskID != "" {
			sum.TaskID = l.TaskID
		}
	}
	p.print(sum)
}

// eventLine tells of an ADK event what it still knows of the A2A one: with a
// task's id it came of a task, without one of a message.
func eventLine(step string, event *session.Event) line {
	task, contextID := adka2a.GetA2ATaskInfo(event)
	l := line{Step: step, ContextID: contextID, TaskID: string(task)}
	if event.ErrorMessage != "" {
		l.Kind, l.Error = "error", event.ErrorMessage
		return l
	}
	var text strings.Builder
	if event.Content != nil {
		for _, part := range event.Content.Parts {
			text.WriteString(part.Text)
		}
	}
	l.Text = text.String()
	switch {
	case task != "":
		l.Kind = "task"
	case l.Text != "" || contextID != "":
		l.Kind = "message"
	default:
		l.Kind = "none"
	}
	return l
}
