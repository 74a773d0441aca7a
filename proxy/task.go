package proxy

import (
	"time"

	"github.com/google/uuid"
)

// failedTask is what a refused send gets in place of an error, for callers that
// show an agent's words better than a protocol's (refuse: task).
type failedTask struct {
	id, messageID, contextID string
	at                       time.Time
	words                    string
}

// newFailedTask makes the task for a send into a context, which the caller may
// have left to the agent.
func newFailedTask(contextID, words string) failedTask {
	if contextID == "" {
		contextID = uuid.NewString()
	}
	return failedTask{uuid.NewString(), uuid.NewString(), contextID, time.Now().UTC(), words}
}

// wrapped is a task where other kinds of answer could be, as 1.0 and ProtoJSON
// have it.
type wrapped struct {
	Task object `json:"task"`
}

type object = map[string]any

// taskJSON is the task with what the versions spell alike. message is the rest
// of the message in its status.
func (t failedTask) taskJSON(state string, message object) object {
	message["messageId"], message["taskId"], message["contextId"] = t.messageID, t.id, t.contextID
	status := object{"state": state, "timestamp": t.at.Format(time.RFC3339Nano), "message": message}
	return object{"id": t.id, "contextId": t.contextID, "status": status}
}

// json10 is the task of A2A 1.0.
func (t failedTask) json10() object {
	return t.taskJSON("TASK_STATE_FAILED", object{"role": "ROLE_AGENT", "parts": []any{object{"text": t.words}}})
}

// proto03 is the task as ProtoJSON of the 0.3 definitions.
func (t failedTask) proto03() object {
	return t.taskJSON("TASK_STATE_FAILED", object{"role": "ROLE_AGENT", "content": []any{object{"text": t.words}}})
}

// json03 is the task of JSON-RPC in 0.3.
func (t failedTask) json03() object {
	task := t.taskJSON("failed", object{
		"kind": "message", "role": "agent", "parts": []any{object{"kind": "text", "text": t.words}},
	})
	task["kind"] = "task"
	return task
}

// final03 is the status update that ends a stream of 0.3.
func (t failedTask) final03() object {
	return object{
		"kind": "status-update", "taskId": t.id, "contextId": t.contextID, "final": true, "status": t.json03()["status"],
	}
}
