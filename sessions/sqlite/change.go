package sqlite

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
)

// origin is what an event bears of the call that caused it.
type origin struct{ turn, trace string }

// clock is the time of t's next event: times never go backwards in a log.
func (b *batch) clock(t *treeRow) time.Time {
	if b.now.Before(t.LastEventAt) {
		return t.LastEventAt
	}
	return b.now
}

// log appends an event of the store's own making: it tells of a change that
// happens once, and so its id is new.
func (b *batch) log(t *treeRow, s *sessionRow, by origin, typ, id string, payload []byte) error {
	return b.append(t, s, by, typ, id, payload, false)
}

// logTold appends an event that somebody told of, unless the log has its id.
func (b *batch) logTold(t *treeRow, s *sessionRow, by origin, typ, id string, payload []byte) error {
	if kind, _, _ := strings.Cut(id, "/"); slices.Contains(ownIDs, kind) {
		// Nobody should tell of these, so no index has all of them.
		there, err := one(b, func(row scanner) (*int, error) {
			var there int
			return &there, row.Scan(&there)
		}, `SELECT 1 FROM events WHERE key > ? AND key <= ? AND id = ? LIMIT 1`, eventKey(t.no, 0), eventKey(t.no, t.seq), id)
		if err != nil {
			return fmt.Errorf("looking for event %s: %w", id, err)
		}
		if there != nil {
			return nil
		}
	}
	return b.append(t, s, by, typ, id, payload, true)
}

// ownIDs are what the ids of the store's own events begin with.
var ownIDs = []string{"spawned", "sent", "resumed", "suspended", "ended", "run", "bound", "task", "collapsed", "cancel", "result", "summary"}

func (b *batch) append(t *treeRow, s *sessionRow, by origin, typ, id string, payload []byte, told bool) error {
	at := b.clock(t)
	n, err := b.change(`INSERT INTO events (key, id, time, type, session, tokens, turn, trace, payload, told)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING`,
		eventKey(t.no, t.seq+1), id, at.UnixNano(), typ, s.n, s.Tokens.String(), by.turn, by.trace, string(payload), told)
	if err != nil {
		return fmt.Errorf("appending event %s: %w", id, err)
	}
	if n == 0 {
		return nil
	}
	t.seq++
	t.LastEventAt = at
	s.Version, s.UpdatedAt = t.seq, at
	b.touchTree(t)
	b.touch(s)
	return nil
}

func (b *batch) touchTree(t *treeRow) {
	if !t.changed {
		t.changed = true
		b.dirtyTrees = append(b.dirtyTrees, t)
	}
}

func (b *batch) touch(s *sessionRow) {
	if !s.changed {
		s.changed = true
		b.dirtySessions = append(b.dirtySessions, s)
	}
}

func (b *batch) touchRun(r *runRow) {
	if !r.changed {
		r.changed = true
		b.dirtyRuns = append(b.dirtyRuns, r)
	}
}

// plant puts a new tree in the record.
func (b *batch) plant(t *treeRow) {
	b.lastTree++
	t.no, t.fresh = b.lastTree, true
	b.trees.put(t.Root, t)
	b.touchTree(t)
}

// enter puts a new session in the record: the next of its tree.
func (b *batch) enter(t *treeRow, s *sessionRow, by origin) {
	t.Sessions++
	s.tree, s.n, s.fresh = t.no, t.Sessions, true
	s.CreatedAt = b.clock(t)
	if s.Edge == lineage.EdgeSpawn && !s.Remote {
		t.made++
		if by.turn != "" {
			b.turns[treeID{t.no, by.turn}]++
		}
	}
	s.made = t.made
	t.Depth = max(t.Depth, s.Depth)
	t.addAgent(s.Agent)
	b.remember(s)
	b.touchTree(t)
	b.touch(s)
}

// enterRun puts a new run of s in the record.
func (b *batch) enterRun(s *sessionRow, r *runRow) {
	s.runs++
	r.tree, r.session, r.n, r.fresh = s.tree, s.n, s.runs, true
	b.rememberRun(r)
	b.touch(s)
	b.touchRun(r)
}

// flush writes the rows that have changed.
func (b *batch) flush() error {
	if err := b.writeTurns(); err != nil {
		return err
	}
	for _, t := range b.dirtyTrees {
		if err := b.writeTree(t); err != nil {
			return fmt.Errorf("writing tree %s: %w", t.Root, err)
		}
		t.mark = mark{}
	}
	for _, s := range b.dirtySessions {
		if err := b.writeSession(s); err != nil {
			return fmt.Errorf("writing session %s: %w", s.ID, err)
		}
		s.mark = mark{}
	}
	for _, r := range b.dirtyRuns {
		if err := b.writeRun(r); err != nil {
			return fmt.Errorf("writing run %s: %w", r.ID, err)
		}
		r.mark = mark{}
	}
	b.dirtyTrees, b.dirtySessions, b.dirtyRuns = b.dirtyTrees[:0], b.dirtySessions[:0], b.dirtyRuns[:0]
	return nil
}

// writeTurns adds the sessions that turns have made to those that they had.
func (b *batch) writeTurns() error {
	for at, made := range b.turns {
		err := b.exec(`INSERT INTO turns (tree, turn, made) VALUES (?, ?, ?)
			ON CONFLICT DO UPDATE SET made = made + excluded.made`, at.tree, at.id, made)
		if err != nil {
			return fmt.Errorf("counting the sessions of turn %s: %w", at.id, err)
		}
	}
	clear(b.turns)
	return nil
}

func (b *batch) writeTree(t *treeRow) error {
	hour := t.LastEventAt.Unix() / 3600
	if t.fresh {
		t.hour = hour
		return b.exec(`INSERT INTO trees (`+treeColumns+`) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
			t.no, t.Root, t.principal, t.CatchAll, t.StartedAt.UnixNano(), t.LastEventAt.UnixNano(), t.hour, int64(t.seq),
			int64(t.token), t.Sessions, t.made, t.Live, t.Depth, t.Errors, strings.Join(t.Agents, agentSep), t.shadowed)
	}
	if t.hour != hour {
		t.hour = hour
		if err := b.exec(`UPDATE trees SET hour = ? WHERE no = ?`, t.hour, t.no); err != nil {
			return err
		}
	}
	return b.exec(`UPDATE trees SET last_event = ?, seq = ?, token = ?, sessions = ?, made = ?, live = ?, depth = ?, errors = ?,
		agents = ?, shadowed = ? WHERE no = ?`,
		t.LastEventAt.UnixNano(), int64(t.seq), int64(t.token), t.Sessions, t.made, t.Live, t.Depth, t.Errors,
		strings.Join(t.Agents, agentSep), t.shadowed, t.no)
}

func (b *batch) writeSession(s *sessionRow) error {
	if !s.fresh {
		return b.exec(`UPDATE sessions SET context = ?, state = ?, reason = ?, updated = ?, ended = ?, deadline = ?, ending = ?, reserved = ?,
			owner = ?, result = ?, usage = ?, version = ?, children = ?, going_children = ?, live_children = ?, out = ?, open = ?,
			waiting = ?, runs = ?
			WHERE tree = ? AND n = ?`,
			s.ContextID, string(s.State), s.Reason, s.UpdatedAt.UnixNano(), nullPointer(s.EndedAt), nullPointer(s.Deadline), s.Ending, s.Reserved,
			s.Owner, nullText(s.result), nullText(s.Usage), int64(s.Version), s.children, s.going, s.liveChildren, s.out, s.open,
			s.waiting, s.runs, s.tree, s.n)
	}
	return b.exec(`INSERT INTO sessions (tree, n, id, parent, edge, kind, agent, context, state, reason, depth, branch, ordinal,
			tokens, read, isolated, inherit, remote, turn, source, created, updated, ended, deadline, ttl, ending, reserved, abandon, owner, result, usage, version, trace,
			children, going_children, live_children, out, open, waiting, runs, made)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		s.tree, s.n, s.ID, s.parent, string(s.Edge), string(s.Kind), s.Agent, s.ContextID, string(s.State), s.Reason, s.Depth, s.Branch, s.Ordinal,
		s.Tokens.String(), s.Read.String(), s.Isolated, string(s.Inherit), s.Remote, s.Turn, string(s.ParentSource),
		s.CreatedAt.UnixNano(), s.UpdatedAt.UnixNano(), nullPointer(s.EndedAt), nullPointer(s.Deadline), int64(s.ttl), s.Ending, s.Reserved, s.Abandon, s.Owner,
		nullText(s.result), nullText(s.Usage), int64(s.Version), s.TraceID,
		s.children, s.going, s.liveChildren, s.out, s.open, s.waiting, s.runs, s.made)
}

func (b *batch) writeRun(r *runRow) error {
	if !r.fresh {
		return b.exec(`UPDATE runs SET task = ?, state = ?, reason = ?, ended = ?, owner = ?, gen = ?, turn = ?, lease = ?, hold = ?, detached = ?
			WHERE tree = ? AND session = ? AND n = ?`,
			r.TaskID, string(r.State), r.Reason, nullPointer(r.EndedAt), r.owner, r.gen, r.turn, nullNanos(r.lease), int64(r.hold), r.detached,
			r.tree, r.session, r.n)
	}
	return b.exec(`INSERT INTO runs (tree, session, n, id, caller, task, message, state, reason, started, ended, owner, gen, turn, lease, hold, detached)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
		r.tree, r.session, r.n, r.ID, r.caller, r.TaskID, r.MessageID, string(r.State), r.Reason, r.StartedAt.UnixNano(),
		nullPointer(r.EndedAt), r.owner, r.gen, r.turn, nullNanos(r.lease), int64(r.hold), r.detached)
}
