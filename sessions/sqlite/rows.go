package sqlite

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// Rows as the writer holds them: the model's value, and what only the store
// needs to know. Rows never point at each other, since each may be forgotten
// and read again by itself.
type (
	treeRow struct {
		lineage.Tree
		mark
		no        int64
		principal string
		hour      int64 // of the last event, as it stands in the file
		seq       uint64
		token     lineage.Token // the next one
		made      int           // sessions spawned, placeholders out
		shadowed  bool          // keys has contexts and tasks of it, too
		ids       idSet         // of the ids that keys and bindings may have for it
	}
	sessionRow struct {
		lineage.Session
		mark
		tree         int64
		n, parent    int
		children     int // spawn ordinals handed out
		going        int // children that are unfinished
		liveChildren int
		out          int // active runs whose caller it is
		open         int // active runs in it
		waiting      int // suspended runs in it
		runs         int
		made         int             // sessions that the tree had made up to this one, itself included
		result       json.RawMessage // Result as it came
		ttl          time.Duration   // what each admission gives it; 0: no end
	}
	runRow struct {
		lineage.Run
		mark
		tree       int64
		session, n int
		caller     int // session number
		owner      string
		gen        int
		turn       string        // of the call that holds it
		lease      time.Time     // zero unless active
		hold       time.Duration // what the lease was given for
		detached   bool          // no call holds it
	}
	// mark says what a row needs at the end of the batch.
	mark struct{ fresh, changed bool }
)

// rootN is the number of the root session of every tree.
const rootN = 1

// live reports whether s takes a place under its parent.
func (s *sessionRow) live() bool { return s.busy() || s.Reserved }

// busy reports whether a run is open or waits in s.
func (s *sessionRow) busy() bool { return s.open > 0 || s.waiting > 0 }

// unfinished reports whether s is to end yet, or a run that was opened in it
// after its end.
func (s *sessionRow) unfinished() bool { return !s.State.Terminal() || s.open > 0 }

// over reports whether s has ended or is being ended: no new call finds it.
func (s *sessionRow) over() bool { return s.State.Terminal() || s.Ending != "" }

// due is when the time of s is over, or the grace in which it is to end; zero
// if nothing is. A root session has no time of its own, but may be ended.
func (s *sessionRow) due() time.Time {
	if s.Deadline == nil || !s.unfinished() || s.n == rootN && s.Ending == "" {
		return time.Time{}
	}
	return *s.Deadline
}

// item is r on the agenda.
func (r *runRow) item() item { return item{kind: aRun, session: r.session, n: r.n} }

// addAgent keeps Agents sorted.
func (t *treeRow) addAgent(agent string) {
	if i, found := slices.BinarySearch(t.Agents, agent); !found {
		t.Agents = slices.Insert(t.Agents, i, agent)
	}
}

// agentSep separates the agents of a tree: no name has it.
const agentSep = "\n"

// Columns, in the order of the scans below.
const (
	treeColumns = `no, root, principal, catch_all, started, last_event, hour, seq, token, sessions, made, live, depth, errors, agents, shadowed`

	sessionColumns = `s.tree, s.n, s.id, s.parent, ifnull(p.id, ''), s.edge, s.kind, s.agent, s.context, s.state, s.reason, s.depth, s.branch,
		s.ordinal, s.tokens, s.read, s.isolated, s.inherit, s.remote, s.turn, s.source, s.created, s.updated, s.ended, s.deadline, s.ttl,
		s.ending, s.reserved, s.abandon, s.owner, s.result, s.usage, s.version, s.trace,
		s.children, s.going_children, s.live_children, s.out, s.open, s.waiting, s.runs, s.made`
	sessionTables = `sessions s LEFT JOIN sessions p ON p.tree = s.tree AND p.n = s.parent`

	runColumns = `r.tree, r.session, r.n, r.id, r.caller, c.id, r.task, r.message, r.state, r.reason, r.started, r.ended, r.owner, r.gen, r.turn, r.lease, r.hold, r.detached`
	runTables  = `runs r JOIN sessions c ON c.tree = r.tree AND c.n = r.caller`
)

type scanner interface{ Scan(dest ...any) error }

func scanTree(row scanner) (*treeRow, error) {
	t := &treeRow{ids: idSet{anything: true}}
	var started, last int64
	var agents string
	err := row.Scan(&t.no, &t.Root, &t.principal, &t.CatchAll, &started, &last, &t.hour, &t.seq, &t.token,
		&t.Sessions, &t.made, &t.Live, &t.Depth, &t.Errors, &agents, &t.shadowed)
	if err != nil {
		return nil, err
	}
	t.StartedAt, t.LastEventAt = fromNanos(started), fromNanos(last)
	t.Agents = strings.Split(agents, agentSep)
	return t, nil
}

// summary is t as readers see it.
func (t *treeRow) summary() lineage.Tree {
	sum := t.Tree
	sum.State = lineage.TreeIdle
	if sum.Live > 0 {
		sum.State = lineage.TreeActive
	}
	return sum
}

// scanSession reads a row of sessionColumns. The tree's root is for the caller
// to set.
func scanSession(row scanner) (*sessionRow, error) {
	s := &sessionRow{}
	var created, updated int64
	var ended, deadline sql.NullInt64
	var tokens, read string
	var result, usage sql.NullString
	err := row.Scan(&s.tree, &s.n, &s.ID, &s.parent, &s.Parent, &s.Edge, &s.Kind, &s.Agent, &s.ContextID, &s.State, &s.Reason, &s.Depth, &s.Branch,
		&s.Ordinal, &tokens, &read, &s.Isolated, &s.Inherit, &s.Remote, &s.Turn, &s.ParentSource, &created, &updated, &ended, &deadline, &s.ttl,
		&s.Ending, &s.Reserved, &s.Abandon, &s.Owner, &result, &usage, &s.Version, &s.TraceID,
		&s.children, &s.going, &s.liveChildren, &s.out, &s.open, &s.waiting, &s.runs, &s.made)
	if err != nil {
		return nil, err
	}
	s.Tokens, s.Read = lineage.ParseTokens(tokens), lineage.ParseTokens(read)
	s.CreatedAt, s.UpdatedAt = fromNanos(created), fromNanos(updated)
	s.EndedAt, s.Deadline = pointer(fromNull(ended)), pointer(fromNull(deadline))
	if usage.Valid {
		s.Usage = json.RawMessage(usage.String)
	}
	if result.Valid {
		s.result, s.Result = json.RawMessage(result.String), &lineage.Result{}
		if err := json.Unmarshal(s.result, s.Result); err != nil {
			return nil, fmt.Errorf("reading the result of session %s: %w", s.ID, err)
		}
	}
	return s, nil
}

func scanRun(row scanner) (*runRow, error) {
	r := &runRow{}
	var started int64
	var ended, lease sql.NullInt64
	err := row.Scan(&r.tree, &r.session, &r.n, &r.ID, &r.caller, &r.Caller, &r.TaskID, &r.MessageID, &r.State, &r.Reason,
		&started, &ended, &r.owner, &r.gen, &r.turn, &lease, &r.hold, &r.detached)
	if err != nil {
		return nil, err
	}
	r.StartedAt, r.EndedAt, r.lease = fromNanos(started), pointer(fromNull(ended)), fromNull(lease)
	return r, nil
}

func fromNanos(n int64) time.Time { return time.Unix(0, n).UTC() }

func fromNull(n sql.NullInt64) time.Time {
	if !n.Valid {
		return time.Time{}
	}
	return fromNanos(n.Int64)
}

// pointer returns nil for the zero time.
func pointer(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}

// nullNanos is the column of a time that may not be there.
func nullNanos(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixNano()
}

func nullPointer(t *time.Time) any {
	if t == nil {
		return nil
	}
	return nullNanos(*t)
}

// nullText is the column of JSON that may not be there.
func nullText(raw json.RawMessage) any {
	if len(raw) == 0 {
		return nil
	}
	return string(raw)
}
