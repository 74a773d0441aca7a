package redis

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// errDamaged: what the server holds was not written by the scripts, or in part
// only (evicted, edited by hand).
var errDamaged = errors.New("the record is damaged")

// pack spells a list of strings of any bytes: each after its length, four
// bytes little-endian. It is the packed list of tree.lua.
func pack(list ...string) string {
	n := 0
	for _, s := range list {
		n += 4 + len(s)
	}
	b := make([]byte, 0, n)
	for _, s := range list {
		b = binary.LittleEndian.AppendUint32(b, uint32(len(s)))
		b = append(b, s...)
	}
	return string(b)
}

// unpack is the inverse of pack.
func unpack(raw string) ([]string, error) {
	var list []string
	for len(raw) > 0 {
		if len(raw) < 4 {
			return nil, errDamaged
		}
		n := int64(binary.LittleEndian.Uint32([]byte(raw[:4])))
		raw = raw[4:]
		if int64(len(raw)) < n {
			return nil, errDamaged
		}
		list = append(list, raw[:n])
		raw = raw[n:]
	}
	return list, nil
}

// fields reads one packed record from front to back; what is no number, or
// not there, is remembered as damage.
type fields struct {
	left []string
	err  error
}

func read(raw string) *fields {
	list, err := unpack(raw)
	return &fields{left: list, err: err}
}

func (f *fields) str() string {
	if len(f.left) == 0 {
		f.err = errors.Join(f.err, errDamaged)
		return ""
	}
	s := f.left[0]
	f.left = f.left[1:]
	return s
}

// num is 0 for an empty field.
func (f *fields) num() int64 {
	s := f.str()
	if s == "" {
		return 0
	}
	n, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		f.err = errors.Join(f.err, errDamaged)
	}
	return n
}

func (f *fields) flag() bool { return f.str() == "1" }

// when is nil for an empty field.
func (f *fields) when() *time.Time {
	n := f.num()
	if n == 0 {
		return nil
	}
	t := fromMicros(n)
	return &t
}

// skip passes over n fields.
func (f *fields) skip(n int) {
	for range n {
		f.str()
	}
}

// session reads a session from its records in the nodes hash (tree.lua, NODE
// and STATE). at is its place in spawn order.
func session(root, id, static, state, result, usage string) (s lineage.Session, at int64, err error) {
	n := read(static)
	s = lineage.Session{ID: id, Tree: root}
	s.Depth, s.Ordinal = int(n.num()), int(n.num())
	s.CreatedAt = fromMicros(n.num())
	at = n.num()
	s.Parent, s.Edge, s.Kind = n.str(), lineage.Edge(n.str()), lineage.Kind(n.str())
	s.Agent, s.Branch = n.str(), n.str()
	s.Tokens, s.Read = lineage.ParseTokens(n.str()), lineage.ParseTokens(n.str())
	s.Isolated, s.Inherit, s.Remote = n.flag(), lineage.Inherit(n.str()), n.flag()
	s.Turn, s.ParentSource, s.TraceID = n.str(), lineage.ParentSource(n.str()), n.str()

	v := read(state)
	v.skip(4) // open, out, children, live
	s.EndedAt, s.Deadline = v.when(), v.when()
	v.skip(1) // due
	s.UpdatedAt, s.Version = fromMicros(v.num()), uint64(v.num())
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

// run reads a run (tree.lua, RUN), the session it is in and its place in the
// order of opening.
func run(id, raw string) (r lineage.Run, in string, at int64, err error) {
	f := read(raw)
	at = f.num()
	r = lineage.Run{ID: id, StartedAt: fromMicros(f.num()), EndedAt: f.when()}
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
