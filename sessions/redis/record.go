package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// session reads a session from its records (tree.lua, encodeNode and
// encodeState), without its runs.
func session(root, id, static, state, result, usage string) (s lineage.Session, err error) {
	n := values(static)
	s = lineage.Session{ID: id, Tree: root}
	n.skip(1) // number
	s.Depth, s.Ordinal = int(n.num()), int(n.num())
	s.CreatedAt = n.time()
	s.Parent, s.Edge, s.Kind = n.str(), lineage.Edge(n.str()), lineage.Kind(n.str())
	s.Agent, s.Branch = n.str(), n.str()
	s.Tokens, s.Read = lineage.ParseTokens(n.str()), lineage.ParseTokens(n.str())
	s.Isolated, s.Inherit, s.Remote, s.Abandon = n.flag(), lineage.Inherit(n.str()), n.flag(), n.flag()
	s.Turn, s.ParentSource, s.TraceID = n.str(), lineage.ParentSource(n.str()), n.str()

	v := values(state)
	v.skip(6) // out, children, live, runs, due, cascade
	v.list()  // open
	v.list()  // waiting
	v.str()   // kept
	s.EndedAt, s.Deadline = v.when(), v.when()
	s.UpdatedAt, s.Version = v.time(), uint64(v.num())
	s.State, s.Reason, s.Ending, s.Reserved = lineage.State(v.str()), v.str(), v.str(), v.flag()
	s.ContextID, s.Owner = v.str(), v.str()
	if err := errors.Join(n.err, v.err); err != nil {
		return s, fmt.Errorf("session %s: %w", id, err)
	}
	if result != "" {
		var r lineage.Result
		// What the recorder was told is kept as it came; a result that is none is left out.
		if json.Unmarshal([]byte(result), &r) == nil {
			s.Result = &r
		}
	}
	if usage != "" {
		s.Usage = json.RawMessage(usage)
	}
	return s, nil
}

// run reads a run (tree.lua, encodeRun).
func run(id, raw string) (lineage.Run, error) {
	f := values(raw)
	f.skip(3) // number, gen, length
	r := lineage.Run{ID: id, StartedAt: f.time(), EndedAt: f.when()}
	f.str() // session
	r.Caller, r.MessageID, r.TaskID = f.str(), f.str(), f.str()
	r.State, r.Reason = lineage.State(f.str()), f.str()
	if f.err != nil {
		return r, fmt.Errorf("run %s: %w", id, f.err)
	}
	return r, nil
}

// micros spells a time as the scripts count it.
func micros(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }
