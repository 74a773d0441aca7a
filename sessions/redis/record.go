package redis

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// session reads a session from its records in the nodes hash (tree.lua,
// encodeNode and encodeState). at is its place in spawn order.
func session(root, id, static, state, result, usage string) (s lineage.Session, at int64, err error) {
	n := values(static)
	s = lineage.Session{ID: id, Tree: root}
	s.Depth, s.Ordinal = int(n.num()), int(n.num())
	s.CreatedAt = n.time()
	at = n.num()
	s.Parent, s.Edge, s.Kind = n.str(), lineage.Edge(n.str()), lineage.Kind(n.str())
	s.Agent, s.Branch = n.str(), n.str()
	s.Tokens, s.Read = lineage.ParseTokens(n.str()), lineage.ParseTokens(n.str())
	s.Isolated, s.Inherit, s.Remote = n.flag(), lineage.Inherit(n.str()), n.flag()
	s.Turn, s.ParentSource, s.TraceID = n.str(), lineage.ParentSource(n.str()), n.str()

	v := values(state)
	v.skip(4) // open, out, children, live
	s.EndedAt, s.Deadline = v.when(), v.when()
	v.skip(1) // due
	s.UpdatedAt, s.Version = v.time(), uint64(v.num())
	s.State, s.Reason, s.ContextID, s.Owner = lineage.State(v.str()), v.str(), v.str(), v.str()
	if err := errors.Join(n.err, v.err); err != nil {
		return s, 0, fmt.Errorf("session %s: %w", id, err)
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
	return s, at, nil
}

// run reads a run (tree.lua, encodeRun), the session it is in and its place in the
// order of opening.
func run(id, raw string) (r lineage.Run, in string, at int64, err error) {
	f := values(raw)
	at = f.num()
	r = lineage.Run{ID: id, StartedAt: f.time(), EndedAt: f.when()}
	f.skip(2) // gen, length
	in = f.str()
	r.Caller, r.MessageID, r.TaskID = f.str(), f.str(), f.str()
	r.State, r.Reason = lineage.State(f.str()), f.str()
	if f.err != nil {
		return r, "", 0, fmt.Errorf("run %s: %w", id, f.err)
	}
	return r, in, at, nil
}

// micros spells a time as the scripts count it.
func micros(t time.Time) string { return strconv.FormatInt(t.UnixMicro(), 10) }

func fromMicros(us int64) time.Time { return time.UnixMicro(us).UTC() }
