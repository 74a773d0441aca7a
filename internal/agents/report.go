package agents

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/a2aproject/a2a-go/v2/a2a"
)

// Report is what a [Researcher] knows when it answers. It stands in its
// artifact, as data beside the same in words.
type Report struct {
	ContextID string   `json:"contextId"` // context that it ran in
	Others    []string `json:"others"`    // what other messages of that context said, in order of arrival
}

// String says it in words.
func (r Report) String() string {
	switch n := len(r.Others); n {
	case 0:
		return fmt.Sprintf("Context %s: saw no message but its own.", r.ContextID)
	case 1:
		return fmt.Sprintf("Context %s: saw 1 message that is not its own.", r.ContextID)
	default:
		return fmt.Sprintf("Context %s: saw %d messages that are not its own.", r.ContextID, n)
	}
}

// part is the report as data.
func (r Report) part() *a2a.Part {
	others := make([]any, len(r.Others))
	for i, text := range r.Others {
		others[i] = text
	}
	return a2a.NewDataPart(map[string]any{"contextId": r.ContextID, "others": others})
}

// ErrNoReport tells that an answer holds no report.
var ErrNoReport = errors.New("the answer holds no report")

// ReportOf reads the report in a researcher's task, or returns [ErrNoReport].
func ReportOf(task *a2a.Task) (Report, error) {
	for _, artifact := range task.Artifacts {
		for _, p := range artifact.Parts {
			data := p.Data()
			if data == nil {
				continue
			}
			var r Report
			text, err := json.Marshal(data)
			if err == nil {
				err = json.Unmarshal(text, &r)
			}
			if err == nil && r.ContextID != "" {
				return r, nil
			}
		}
	}
	return Report{}, fmt.Errorf("task %s: %w", task.ID, ErrNoReport)
}
