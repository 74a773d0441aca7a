package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// What differs between any two runs, and means nothing.
var (
	anyID      = regexp.MustCompile(`[0-9a-fA-F]{8}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{4}-[0-9a-fA-F]{12}`)
	anyAddress = regexp.MustCompile(`127\.0\.0\.[0-9]+:[0-9]+(/agents/(passthrough|isolated))?`)
	anyTime    = regexp.MustCompile(`[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:.]+(Z|[+-][0-9:]+)`)
)

// normal returns what a client printed without ids, addresses and times. Ids
// become numbers in the order in which they first occur, so that what was the
// same stays the same; contexts do not where every call is to have its own.
// The lines of one step stay in their order; those of different steps may race,
// as a stream and the call that cancels its task do. unordered is for scenarios
// whose calls all race.
func normal(lines []string, isolated, unordered bool) []string {
	var all []string
	names, seen := map[string]string{}, map[string]int{}
	number := func(kind, id string) string {
		if unordered {
			return kind
		}
		if names[kind+id] == "" {
			seen[kind]++
			names[kind+id] = fmt.Sprintf("%s %d", kind, seen[kind])
		}
		return names[kind+id]
	}
	for _, line := range byStep(lines) {
		var members map[string]any
		if json.Unmarshal([]byte(line), &members) != nil {
			continue // some SDK's own log
		}
		for name, value := range members {
			s, ok := value.(string)
			switch {
			case !ok:
			case s == "":
				delete(members, name) // absent, to most
			case name == "contextId" && isolated:
				members[name] = "context"
			case name == "contextId", name == "taskId":
				members[name] = number(strings.TrimSuffix(name, "Id"), s)
			default:
				s = anyID.ReplaceAllString(s, "ID")
				s = anyAddress.ReplaceAllString(s, "ADDRESS")
				members[name] = anyTime.ReplaceAllString(s, "TIME")
			}
		}
		b, err := json.Marshal(members) // of what was unmarshalled: it cannot fail
		if err != nil {
			b = []byte(line)
		}
		all = append(all, string(b))
	}
	if unordered {
		slices.Sort(all)
	}
	return all
}

// byStep puts the lines of each step together.
func byStep(lines []string) []string {
	step := func(line string) string {
		var l struct{ Step string }
		_ = json.Unmarshal([]byte(line), &l) // what is no JSON has no step
		return l.Step
	}
	lines = slices.Clone(lines)
	slices.SortStableFunc(lines, func(a, b string) int { return strings.Compare(step(a), step(b)) })
	return lines
}

// firstLine shows where two outputs part.
func firstLine(want, got []string) string {
	for i := range max(len(want), len(got)) {
		w, g := "nothing", "nothing"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			return fmt.Sprintf("line %d, directly %s, through the sidecar %s", i+1, w, g)
		}
	}
	return "nothing"
}

// errorOf is the first error that a client printed.
func errorOf(lines []string) string {
	for _, line := range lines {
		var l struct{ Step, Kind, Error string }
		if json.Unmarshal([]byte(line), &l) == nil && l.Kind == "error" {
			return l.Step + ": " + l.Error
		}
	}
	return ""
}

// contextsOf are the contexts that a client was told of, in order.
func contextsOf(lines []string) []string {
	var ids []string
	for _, line := range lines {
		var l struct{ ContextID string }
		if json.Unmarshal([]byte(line), &l) == nil && l.ContextID != "" {
			ids = append(ids, l.ContextID)
		}
	}
	return ids
}

// distinct is how many different ones there are.
func distinct(ids []string) int {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	return len(slices.Compact(ids))
}
