package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/a2aproject/a2a-go/a2a"
	"google.golang.org/grpc/status"
)

// line is one step of a scenario, as every client of the lab prints it.
type line struct {
	Step      string `json:"step"`
	Kind      string `json:"kind"`
	State     string `json:"state,omitempty"`
	Text      string `json:"text,omitempty"`
	ContextID string `json:"contextId,omitempty"`
	TaskID    string `json:"taskId,omitempty"`
	Error     string `json:"error,omitempty"`
	Code      int    `json:"code,omitempty"`
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

// answer prints what a call for an event came to.
func (p *printer) answer(step string, event a2a.Event, err error) {
	if err != nil {
		p.failure(step, err)
		return
	}
	p.print(eventLine(step, event))
}

// failure prints an error as the SDK shows it. The SDK hides the code of a
// JSON-RPC error behind its own errors; that of a gRPC one is still there in
// the older SDKs of this line.
func (p *printer) failure(step string, err error) {
	l := line{Step: step, Kind: "error", Error: err.Error()}
	if s, ok := status.FromError(err); ok {
		l.Code = int(s.Code())
	}
	p.print(l)
}

// config prints a push config that came back.
func (p *printer) config(step string, config *a2a.TaskPushConfig, err error) {
	if err != nil {
		p.failure(step, err)
		return
	}
	p.print(line{Step: step, Kind: "config", Text: configText(config), TaskID: string(config.TaskID)})
}

func configText(config *a2a.TaskPushConfig) string {
	return config.Config.URL + " " + config.Config.Token
}

func eventLine(step string, event a2a.Event) line {
	info := event.TaskInfo()
	l := line{Step: step, ContextID: info.ContextID, TaskID: string(info.TaskID)}
	switch event := event.(type) {
	case *a2a.Message:
		l.Kind, l.Text = "message", partsText(event.Parts)
	case *a2a.Task:
		l.Kind, l.State, l.Text = "task", string(event.Status.State), taskText(event)
	case *a2a.TaskStatusUpdateEvent:
		l.Kind, l.State, l.Text = "status", string(event.Status.State), messageText(event.Status.Message)
	case *a2a.TaskArtifactUpdateEvent:
		l.Kind, l.Text = "artifact", partsText(event.Artifact.Parts)
	default:
		l.Kind, l.Text = "none", fmt.Sprintf("%T", event)
	}
	return l
}

// taskText is what a task has come to: its artifacts, or what its status says.
func taskText(task *a2a.Task) string {
	var text strings.Builder
	for _, artifact := range task.Artifacts {
		text.WriteString(partsText(artifact.Parts))
	}
	if text.Len() == 0 {
		return messageText(task.Status.Message)
	}
	return text.String()
}

func messageText(message *a2a.Message) string {
	if message == nil {
		return ""
	}
	return partsText(message.Parts)
}

func partsText(parts a2a.ContentParts) string {
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
