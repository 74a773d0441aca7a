//go:build a2a0315

package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/a2aproject/a2a-go/a2a"
)

// Version 0.3.15 sends tasks/list, which A2A 0.3 has for REST alone, and spells
// its parameters in snake_case. Its own server refuses it to anonymous callers;
// the request is worth sending all the same, for the context id in it.
func init() { scenarios["list"] = (*session).list }

func (s *session) list(ctx context.Context) error {
	sent, err := s.client.SendMessage(ctx, say("task hi"))
	s.out.answer("send", sent, err)
	if err != nil {
		return nil
	}
	info := sent.TaskInfo()
	listed, err := s.client.ListTasks(ctx, &a2a.ListTasksRequest{ContextID: info.ContextID})
	if err != nil {
		s.out.failure("list", err)
		return nil
	}
	texts := make([]string, len(listed.Tasks))
	for i, task := range listed.Tasks {
		texts[i] = fmt.Sprintf("%s %s", task.Status.State, taskText(task))
	}
	s.out.print(line{Step: "list", Kind: "tasks", Text: strings.Join(texts, "; "), ContextID: info.ContextID})
	return nil
}
