package sqlite

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// errInvalid is what an op is told that says what no log can hold.
var errInvalid = errors.New("invalid operation")

// Payloads of events that change nothing (those that do: package sessions).
type (
	crossedPayload struct {
		Run       string `json:"run"`
		ContextID string `json:"contextId"`
	}
	collapsedPayload struct {
		Run       string `json:"run"`
		ContextID string `json:"contextId"`
		Open      int    `json:"open"`
	}
)

func encode(payload any) ([]byte, error) {
	raw, err := json.Marshal(payload)
	if err != nil {
		return nil, fmt.Errorf("encoding a %T: %w", payload, err)
	}
	return raw, nil
}

// ours are the members of message.sent that the store sets.
var ours = [...]string{"run", "caller", "messageId", "taskId"}

// sentMembers returns the members of what the proxy wants logged of a message,
// without braces and without those that the store sets.
func sentMembers(sent json.RawMessage) ([]byte, error) {
	if len(sent) == 0 {
		return nil, nil
	}
	if !json.Valid(sent) {
		return nil, fmt.Errorf("%w: what was sent is no JSON", errInvalid)
	}
	sent = bytes.TrimSpace(sent)
	if sent[0] != '{' {
		return nil, fmt.Errorf("%w: what was sent is no object", errInvalid)
	}
	for _, name := range ours {
		if bytes.Contains(sent, []byte(`"`+name+`"`)) {
			return withoutOurs(sent)
		}
	}
	return bytes.TrimSpace(sent[1 : len(sent)-1]), nil
}

func withoutOurs(sent json.RawMessage) ([]byte, error) {
	var members map[string]json.RawMessage
	if err := json.Unmarshal(sent, &members); err != nil {
		return nil, fmt.Errorf("%w: reading what was sent: %w", errInvalid, err)
	}
	for _, name := range ours {
		delete(members, name)
	}
	raw, err := encode(members)
	if err != nil {
		return nil, err
	}
	return raw[1 : len(raw)-1], nil
}

// sentPayload is the payload of message.sent.
func sentPayload(p sessions.SentPayload, members []byte) ([]byte, error) {
	raw, err := encode(p)
	if err != nil || len(members) == 0 {
		return raw, err
	}
	raw[len(raw)-1] = ','
	return append(append(raw, members...), '}'), nil
}

// endPayload is the payload of an end, and the result that it tells, nil if it
// tells none that can be read.
func endPayload(end sessions.EndPayload) (raw []byte, result *lineage.Result, err error) {
	if raw, err = encode(end); err != nil {
		return nil, nil, err
	}
	if len(end.Result) > 0 {
		var r lineage.Result
		if json.Unmarshal(end.Result, &r) == nil {
			result = &r
		}
	}
	return raw, result, nil
}

// endID is the id of the end of a run or session.
func endID(prefix, id string, state lineage.State, reason string) string {
	whole := prefix + id + "/" + string(state)
	if reason != "" {
		whole += "/" + reason
	}
	return whole
}
