package redis

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	goredis "github.com/redis/go-redis/v9"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// admitArgs are the ARGV of admit.lua, in the order in which it names them.
// registers says that the tree is being put on the list of what is due.
func (s *Store) admitArgs(a *sessions.Admission, agentRuns int, registers bool) []any {
	l := a.Limits
	listed := ""
	if registers {
		listed = strconv.FormatInt(soon(a).Microseconds(), 10)
	}
	return append(s.treeArgs(a.Root),
		a.Principal, flag(a.CatchAll), a.Local, a.Caller.ContextID, a.Caller.SiblingOf, a.Caller.Session, a.Caller.Depth,
		a.MainID, a.RemoteID, a.Agent, string(a.Kind), flag(a.Isolated), string(a.Inherit),
		a.TTL.Microseconds(), a.Turn, a.TraceID, string(a.Source), string(a.Resolve),
		a.ContextID, a.SessionID, a.RunID, a.MessageID, a.TaskID, a.Named, flag(a.Abandon),
		flag(a.Ahead), a.RequestID, []byte(a.Summary),
		l.MaxChildren, l.MaxFanOut, l.MaxSessions, l.MaxVisits, l.Deepest(a.Kind), l.MaxConcurrent, agentRuns,
		waits(l.QueueTimeout).Microseconds(), a.Owner, a.Lease.Microseconds(), otherMembers(a.Sent), a.Crossed, listed,
	)
}

// waits is for how long others tell of places that come free, for a call that
// waits so long for one: also while it is tried again and again.
func waits(queueTimeout time.Duration) time.Duration {
	if queueTimeout <= 0 {
		return 0
	}
	return queueTimeout + time.Minute
}

// otherMembers is the end of the payload of message.sent: what the proxy wants
// logged, but for the members that the script sets, after a comma and with the
// closing brace.
func otherMembers(sent json.RawMessage) string {
	inner, ok := bytes.CutPrefix(bytes.TrimSpace(sent), []byte("{"))
	if !ok {
		return "}"
	}
	if reserved(inner) {
		var members map[string]json.RawMessage
		if json.Unmarshal(sent, &members) != nil {
			return "}"
		}
		for _, ours := range reservedMembers {
			delete(members, ours)
		}
		encoded, err := json.Marshal(members)
		if err != nil {
			return "}" // not with members that were just decoded
		}
		inner = encoded[1:]
	}
	if inner = bytes.TrimSpace(inner); bytes.Equal(inner, []byte("}")) {
		return "}"
	}
	return "," + string(inner)
}

// reservedMembers are those of [sessions.SentPayload].
var reservedMembers = []string{"run", "caller", "messageId", "taskId"}

// reserved reports whether one of them may be in an object. An escape may
// spell any name.
func reserved(inner []byte) bool {
	for _, name := range reservedMembers {
		if bytes.Contains(inner, []byte(`"`+name+`"`)) {
			return true
		}
	}
	return bytes.Contains(inner, []byte(`\u`))
}

// granted reads the outcome of admit.lua.
func granted(a *sessions.Admission, r *reply) (sessions.Grant, error) {
	switch r.status {
	case "refused":
		over := &lineage.Refusal{
			Reason: lineage.Reason(r.text(0)), Limit: r.text(1), Value: int(r.number(2)), Count: int(r.number(3)),
			Parent: r.text(4), ParentID: r.text(5), Agent: a.Agent,
		}
		if r.err != nil {
			return sessions.Grant{}, fmt.Errorf("reading a refusal: %w", r.err)
		}
		return sessions.Grant{}, over
	case "missing":
		return sessions.Grant{}, missing(a.Root, r)
	case "taken":
		return sessions.Grant{}, fmt.Errorf("admitting a call to %s: session id %s is in use", a.Agent, a.SessionID)
	}
	node, err := session(a.Root, r.text(0), r.text(1), r.text(2), r.text(3), r.text(4))
	flags := r.text(8)
	g := sessions.Grant{
		Session: node, ParentContextID: r.text(5), RunID: r.text(6), Gen: int(r.number(7)),
		New: strings.Contains(flags, "n"), Retry: strings.Contains(flags, "r"), Resumed: strings.Contains(flags, "g"), Waited: strings.Contains(flags, "w"),
	}
	if err := errors.Join(err, r.err); err != nil {
		return sessions.Grant{}, fmt.Errorf("reading a grant: %w", err)
	}
	return g, nil
}

// foresee sets the keys of other slots that a will most likely need.
func (s *Store) foresee(ctx context.Context, f *flight, a *sessions.Admission) []early {
	var set []early
	add := func(key, value string, binding bool) {
		set = append(set, early{key: key, value: value, binding: binding, set: f.pipe.SetArgs(ctx, key, value, goredis.SetArgs{
			Mode: "NX", Get: true, TTL: s.abroad(),
		})})
	}
	if a.Ahead {
		// The tree may be another principal's than a's: it must be asked first.
		add(s.keys.session(a.SessionID), a.Root, false)
		return set
	}
	known := a.Resolve != sessions.ResolveNone // most likely the session is there
	for _, key := range ids(a.Agent, a.ContextID, a.TaskID) {
		if !s.bound.has(s.keys.binding(key), a.Root) {
			add(s.keys.binding(key), pack(a.Root, a.Principal), true)
			known = false
		}
	}
	if !known {
		add(s.keys.session(a.SessionID), a.Root, false)
	}
	return set
}

// holds reports whether e's key held its value when its flight was over.
func (e *early) holds() (holds, made bool) {
	held, err := e.set.Result()
	made = errors.Is(err, goredis.Nil)
	return made || err == nil && held == e.value, made
}

// foreseen reports whether the flight of st has set key to value, or found it
// so.
func (st *step) foreseen(key, value string) bool {
	return slices.ContainsFunc(st.early, func(e early) bool {
		holds, _ := e.holds()
		return e.key == key && e.value == value && holds
	})
}

// takeBack deletes what was set early for nothing, unless another op of the
// segment relies on it. It comes before what the segment owes: an id may have
// been kept from the op that it belongs to.
func (b *batch) takeBack(steps []step) {
	s := b.store
	wanted := map[string]string{} // key → value
	for i := range steps {
		st := &steps[i]
		for _, u := range st.used {
			wanted[u.key] = u.value
		}
		if st.op.Admit == nil || st.op.Err != nil {
			continue
		}
		wanted[s.keys.session(st.op.Grant.Session.ID)] = st.root
		for _, e := range st.early {
			if e.binding && s.unwritten.has(e.key, st.root) {
				wanted[e.key] = e.value
			}
		}
	}
	owed := b.owed
	b.owed = nil
	for i := range steps {
		st := &steps[i]
		for _, e := range st.early {
			holds, made := e.holds()
			switch {
			case errors.Is(st.op.Err, sessions.ErrUnavailable):
				// It may have been admitted.
				if e.binding {
					s.unwritten.add(e.key, st.root)
				}
			case made && wanted[e.key] != e.value:
				b.owe(st.op, nil, func(ctx context.Context, f *flight) outcome {
					return f.call(ctx, unclaimScript, []string{e.key}, []any{e.value})
				})
			case e.binding && holds:
				s.bound.add(e.key, st.root)
				s.unwritten.forget(e.key)
			}
		}
	}
	b.owed = append(b.owed, owed...)
}

// list makes a tree known, and the sessions that were made in it.
func (b *batch) list(st *step, r *reply) {
	others := unpack(r.text(9))
	made := others.strings()
	if others.err != nil {
		st.op.Err, st.op.Grant = fmt.Errorf("reading a grant: %w", others.err), sessions.Grant{}
		return
	}
	if st.op.Grant.New && !st.foreseen(b.store.keys.session(st.op.Grant.Session.ID), st.root) {
		made = append(made, st.op.Grant.Session.ID)
	}
	for _, id := range made {
		b.owe(st.op, nil, func(ctx context.Context, f *flight) outcome {
			return f.pipe.SetNX(ctx, b.store.keys.session(id), st.root, b.store.abroad())
		})
	}
	if strings.Contains(r.text(8), "t") {
		b.enlist(st.op, st.root, r)
	}
}

// enlist puts a tree on the list of trees, which is harmless if it is on it.
func (b *batch) enlist(op *sessions.Op, root string, r *reply) {
	s := b.store
	b.owe(op, nil, func(ctx context.Context, f *flight) outcome {
		return f.pipe.ZAdd(ctx, s.keys.trees(), goredis.Z{Score: float64(r.started), Member: root})
	})
	b.owe(op, nil, func(ctx context.Context, f *flight) outcome {
		return f.pipe.PExpire(ctx, s.keys.trees(), s.abroad())
	})
}

func flag(set bool) string {
	if set {
		return "1"
	}
	return ""
}

func millis(d time.Duration) int64 { return d.Milliseconds() }
