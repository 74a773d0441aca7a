package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

func newSessionCmd(e *env) *cobra.Command {
	cmd := &cobra.Command{
		Use:     "session ID",
		Short:   "Show one session and its runs",
		Example: "  sidecar session 0198c0de-7a11-7000-8000-000000000001\n  sidecar session 0198c0de-7a11-7000-8000-000000000001 -o json",
		Args:    takes("ID"),
	}
	from := lookAt(e, cmd)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		v, done, err := from.open(cmd.Context())
		if err != nil {
			return err
		}
		defer done()
		s, err := v.Session(cmd.Context(), args[0])
		if err != nil {
			return fmt.Errorf("reading the session: %w", err)
		}
		if e.output == outputJSON {
			return e.printJSON(s)
		}
		return e.print(describeSession(&s, e.now(), e.style()))
	}
	return cmd
}

// describeSession returns what there is to know of s, one thing on a line.
func describeSession(s *lineage.Session, now time.Time, st style) string {
	var facts table
	fact := func(name, value string) {
		if value != "" {
			facts.add(cell{text: name, sgr: dim}, cell{text: clean(value, st.ascii)})
		}
	}
	at := func(t *time.Time) string {
		if t == nil || t.IsZero() {
			return ""
		}
		return st.clock(*t, now)
	}
	fact("session", s.ID)
	fact("branch", s.Branch)
	fact("tree", s.Tree)
	fact("parent", s.Parent)
	fact("agent", s.Agent)
	fact("context", s.ContextID)
	fact("kind", strings.Join(words(string(s.Kind), when(s.Isolated, "isolated"), when(s.Remote, "elsewhere"), when(s.Abandon, "outlives its parent")), ", "))
	fact("state", stateOf(s))
	fact("depth", strconv.Itoa(s.Depth))
	fact("turn", s.Turn)
	fact("placed by", string(s.ParentSource))
	fact("inherits", string(s.Inherit))
	fact("created", at(&s.CreatedAt))
	fact("ended", at(s.EndedAt))
	if s.Ending != "" {
		fact("grace until", at(s.Deadline))
	} else {
		fact("deadline", at(s.Deadline))
	}
	fact("owner", s.Owner)
	fact("trace", s.TraceID)
	if s.Result != nil {
		fact("result", s.Result.Summary)
		for _, a := range s.Result.Artifacts {
			fact("artifact", strings.Join(words(a.ID, a.Name, a.MediaType, plural(a.Bytes, "byte")), " "))
		}
		fact("memory", strings.Join(s.Result.MemoryIDs, " "))
	}
	fact("usage", document(s.Usage))
	fact("metadata", document(s.Metadata))

	var runs table
	for i := range s.Runs {
		r := &s.Runs[i]
		end := now
		if r.EndedAt != nil {
			end = *r.EndedAt
		}
		runs.add(
			cell{text: "run", sgr: dim},
			cell{text: clean(r.ID, st.ascii)},
			cell{text: clean(strings.Join(words(string(r.State), r.Reason), " "), st.ascii)},
			cell{text: st.clock(r.StartedAt, now)},
			cell{text: span(end.Sub(r.StartedAt)), right: true},
			cell{text: clean(strings.Join(words(prefixed("task ", r.TaskID), prefixed("message ", r.MessageID)), " "), st.ascii)},
		)
	}
	return facts.draw(st) + runs.draw(st)
}

// document returns JSON as text, empty if it is none or null.
func document(raw json.RawMessage) string { return strings.TrimSuffix(string(raw), "null") }

// words returns those of ws that are not empty.
func words(ws ...string) []string {
	kept := ws[:0]
	for _, w := range ws {
		if w != "" {
			kept = append(kept, w)
		}
	}
	return kept
}

// when returns word if it holds.
func when(holds bool, word string) string {
	if holds {
		return word
	}
	return ""
}

// prefixed returns value with a prefix, or nothing if there is no value.
func prefixed(prefix, value string) string { return when(value != "", prefix+value) }
