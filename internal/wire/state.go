package wire

import "strings"

// TaskState is the state of a task (0.3 §6.3, 1.0 §4.1.3). The zero value,
// TaskUnknown, is every state that is absent or not understood.
type TaskState uint8

// The states. Both versions have them all.
const (
	TaskUnknown TaskState = iota
	TaskSubmitted
	TaskWorking
	TaskInputRequired
	TaskAuthRequired
	TaskCompleted
	TaskFailed
	TaskCanceled
	TaskRejected
)

var stateNames = [...]string{
	TaskUnknown:       "unknown",
	TaskSubmitted:     "submitted",
	TaskWorking:       "working",
	TaskInputRequired: "input-required",
	TaskAuthRequired:  "auth-required",
	TaskCompleted:     "completed",
	TaskFailed:        "failed",
	TaskCanceled:      "canceled",
	TaskRejected:      "rejected",
}

// String returns the state as A2A 0.3 spells it.
func (s TaskState) String() string {
	if int(s) < len(stateNames) {
		return stateNames[s]
	}
	return stateNames[TaskUnknown]
}

// Terminal reports that the task has ended: nothing can follow.
func (s TaskState) Terminal() bool {
	return s == TaskCompleted || s == TaskFailed || s == TaskCanceled || s == TaskRejected
}

// Interrupted reports that the task waits for its caller.
func (s TaskState) Interrupted() bool { return s == TaskInputRequired || s == TaskAuthRequired }

// stateSpellings maps every spelling seen on the wire to its state: that of
// 0.3, its snake_case, the enum name of 1.0, and the number that ProtoJSON
// allows for it.
var stateSpellings = func() map[string]TaskState {
	spellings := map[string]TaskState{
		"cancelled":            TaskCanceled, // the proto of 0.3
		"TASK_STATE_CANCELLED": TaskCanceled,
		"1":                    TaskSubmitted,
		"2":                    TaskWorking,
		"3":                    TaskCompleted,
		"4":                    TaskFailed,
		"5":                    TaskCanceled,
		"6":                    TaskInputRequired,
		"7":                    TaskRejected,
		"8":                    TaskAuthRequired,
	}
	for s, name := range stateNames {
		snake := strings.ReplaceAll(name, "-", "_")
		spellings[name] = TaskState(s)
		spellings[snake] = TaskState(s)
		spellings["TASK_STATE_"+strings.ToUpper(snake)] = TaskState(s)
	}
	return spellings
}()

// stateOf returns the state that a raw JSON value spells.
func stateOf(raw []byte) TaskState {
	if len(raw) >= 2 && raw[0] == '"' {
		raw = raw[1 : len(raw)-1] // no spelling needs an escape
	}
	return stateSpellings[string(raw)]
}
