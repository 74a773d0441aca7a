package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"sync"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// line is one step of a scenario as the lab reads it.
type line struct {
	Step      string `json:"step"`
	Kind      string `json:"kind"`
	State     string `json:"state,omitempty"`
	Text      string `json:"text,omitempty"`
	ContextID string `json:"contextId,omitempty"`
	TaskID    string `json:"taskId,omitempty"`
	Error     string `json:"error,omitempty"`
}

// printer prints lines. It may be used concurrently.
type printer struct {
	mu sync.Mutex // guards w
	w  io.Writer
}

func (p *printer) line(l line) error {
	b, err := json.Marshal(l)
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	_, err = p.w.Write(append(b, '\n'))
	return err
}

// fault prints an error that the agent answered with.
func (p *printer) fault(step string, err error) error {
	return p.line(line{Step: step, Kind: "error", Error: err.Error()})
}

func (p *printer) config(step string, c *a2a.PushConfig) error {
	return p.line(line{Step: step, Kind: "config", Text: c.URL + " " + c.Token, TaskID: string(c.TaskID)})
}

// event prints a message, a task, or an update of one.
func (p *printer) event(step string, e a2a.Event) error {
	info := e.TaskInfo()
	l := line{Step: step, ContextID: info.ContextID, TaskID: string(info.TaskID)}
	switch e := e.(type) {
	case *a2a.Message:
		l.Kind, l.Text = "message", text(e.Parts)
	case *a2a.Task:
		l.Kind, l.State = "task", state(e.Status.State)
		for _, a := range e.Artifacts {
			l.Text += text(a.Parts)
		}
		if l.Text == "" && e.Status.Message != nil {
			l.Text = text(e.Status.Message.Parts)
		}
	case *a2a.TaskStatusUpdateEvent:
		l.Kind, l.State = "status", state(e.Status.State)
		if e.Status.Message != nil {
			l.Text = text(e.Status.Message.Parts)
		}
	case *a2a.TaskArtifactUpdateEvent:
		l.Kind, l.Text = "artifact", text(e.Artifact.Parts)
	default:
		return fmt.Errorf("an event of a kind unknown: %T", e)
	}
	return p.line(l)
}

// state is a state as 0.3 spells it.
func state(s a2a.TaskState) string {
	return strings.ReplaceAll(strings.ToLower(strings.TrimPrefix(string(s), "TASK_STATE_")), "_", "-")
}

func text(parts a2a.ContentParts) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.Text())
	}
	return b.String()
}
