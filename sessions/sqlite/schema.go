package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// Marks of a file that is ours.
const (
	applicationID = 0x41324153 // "A2AS"
	schemaVersion = 2
)

// schema is what a new file gets. Only the writer writes; readers, in this
// process and others, only read.
//
// Times are nanoseconds since 1970. Trees are known by number (no), sessions
// by their number in the tree (n, in spawn order; the root session is 1), runs
// by their number in the session: short keys that put what belongs together
// side by side, so that a batch dirties few pages. A page written is the cost
// that counts.
//
//	trees     one row a tree. Made by admissions, kept up to date at the end of
//	          every batch that appended to it. hour (of the last event) is there
//	          for the sweep alone: an index over last_event itself would be
//	          rewritten by every batch.
//	sessions  one row a session. The counters (children, going_children,
//	          live_children, out, open, waiting, runs) are what the caps and the
//	          cascade look at, so that nothing is ever counted; made is how many
//	          sessions the tree had made up to this one. The index of those that
//	          are to end yet, or a run in them, leads a cascade to them, and the
//	          agenda at the start.
//	runs      one row a run. lease is set while the run is active, and only then;
//	          hold is how long it was given for. When it lapses is the agenda's to
//	          know: no index here is rewritten by a renewal.
//	cascades  ended sessions whose cascade is to go on below the session last.
//	keys      what a call may find in its tree: kind m (message) leads to a run, s
//	          (an agent's shared session) and q (a request for a session ahead of
//	          its first call) to a session. What bindings has no room for is here
//	          too, and then the tree is marked as shadowed: t (task), c (context
//	          at an agent), o (context of a caller, at any agent).
//	bindings  which tree a context (c) or task (t) of an agent belongs to, over all
//	          trees, and what it leads to there: a session and, of a task, a run; 0
//	          where keys has that. caller is the session that the context means as
//	          a caller's, at any agent, in one of the tree's rows of the context
//	          and 0 in the others. tree is 0 for a claim, whose tree may not exist
//	          yet; claimed says since when, root and principal for whom. A row is
//	          removed by way of its session or run, or of keys.
//	turns     how many sessions each turn has made.
//	events    the logs. key is the tree's number << 32 | seq, which keeps each log
//	          together and in order without an index. The session's id and branch
//	          stand in its own row. told is set for events that others told of:
//	          the unique index makes appending them idempotent. Those that the
//	          store makes itself come once because what they tell happens once;
//	          but a session's first request to stop is in the index, too.
//	dropped   trees that are no more, but whose rows are not all gone yet.
//	meta      the key of derived context ids, made when it is first asked for.
const schema = `
CREATE TABLE trees (
	no INTEGER PRIMARY KEY, root TEXT NOT NULL UNIQUE, principal TEXT NOT NULL, catch_all INTEGER NOT NULL,
	started INTEGER NOT NULL, last_event INTEGER NOT NULL, hour INTEGER NOT NULL, seq INTEGER NOT NULL,
	token INTEGER NOT NULL, sessions INTEGER NOT NULL, made INTEGER NOT NULL, live INTEGER NOT NULL,
	depth INTEGER NOT NULL, errors INTEGER NOT NULL, agents TEXT NOT NULL, shadowed INTEGER NOT NULL
);
CREATE INDEX trees_started ON trees (started, root);
CREATE INDEX trees_hour ON trees (hour);

CREATE TABLE sessions (
	tree INTEGER NOT NULL, n INTEGER NOT NULL, id TEXT NOT NULL, parent INTEGER NOT NULL,
	edge TEXT NOT NULL, kind TEXT NOT NULL, agent TEXT NOT NULL, context TEXT NOT NULL,
	state TEXT NOT NULL, reason TEXT NOT NULL, depth INTEGER NOT NULL, branch TEXT NOT NULL, ordinal INTEGER NOT NULL,
	tokens TEXT NOT NULL, read TEXT NOT NULL, isolated INTEGER NOT NULL, inherit TEXT NOT NULL, remote INTEGER NOT NULL,
	turn TEXT NOT NULL, source TEXT NOT NULL, created INTEGER NOT NULL, updated INTEGER NOT NULL, ended INTEGER,
	deadline INTEGER, ttl INTEGER NOT NULL, ending TEXT NOT NULL, reserved INTEGER NOT NULL, abandon INTEGER NOT NULL, owner TEXT NOT NULL, result TEXT, usage TEXT, version INTEGER NOT NULL, trace TEXT NOT NULL,
	children INTEGER NOT NULL, going_children INTEGER NOT NULL, live_children INTEGER NOT NULL, out INTEGER NOT NULL,
	open INTEGER NOT NULL, waiting INTEGER NOT NULL, runs INTEGER NOT NULL, made INTEGER NOT NULL,
	PRIMARY KEY (tree, n)
) WITHOUT ROWID;
CREATE UNIQUE INDEX sessions_id ON sessions (id);
CREATE INDEX sessions_going ON sessions (tree, parent, n) WHERE (ended IS NULL OR open > 0) AND (n > 1 OR ending <> '');

CREATE TABLE runs (
	tree INTEGER NOT NULL, session INTEGER NOT NULL, n INTEGER NOT NULL, id TEXT NOT NULL, caller INTEGER NOT NULL,
	task TEXT NOT NULL, message TEXT NOT NULL, state TEXT NOT NULL, reason TEXT NOT NULL,
	started INTEGER NOT NULL, ended INTEGER, owner TEXT NOT NULL, gen INTEGER NOT NULL,
	turn TEXT NOT NULL, lease INTEGER, hold INTEGER NOT NULL, detached INTEGER NOT NULL,
	PRIMARY KEY (tree, session, n)
) WITHOUT ROWID;
CREATE UNIQUE INDEX runs_id ON runs (tree, id);
CREATE INDEX runs_going ON runs (tree, session, n) WHERE ended IS NULL;

CREATE TABLE cascades (
	tree INTEGER NOT NULL, session INTEGER NOT NULL, last INTEGER NOT NULL, trace TEXT NOT NULL,
	PRIMARY KEY (tree, session)
) WITHOUT ROWID;

CREATE TABLE keys (
	tree INTEGER NOT NULL, kind TEXT NOT NULL, agent TEXT NOT NULL, id TEXT NOT NULL,
	session INTEGER NOT NULL, run INTEGER NOT NULL,
	PRIMARY KEY (tree, kind, agent, id)
) WITHOUT ROWID;

CREATE TABLE bindings (
	kind TEXT NOT NULL, id TEXT NOT NULL, agent TEXT NOT NULL,
	tree INTEGER NOT NULL, session INTEGER NOT NULL, run INTEGER NOT NULL, caller INTEGER NOT NULL,
	root TEXT, principal TEXT, claimed INTEGER,
	PRIMARY KEY (kind, id, agent)
) WITHOUT ROWID;
CREATE INDEX bindings_claimed ON bindings (root, claimed) WHERE claimed IS NOT NULL;

CREATE TABLE turns (
	tree INTEGER NOT NULL, turn TEXT NOT NULL, made INTEGER NOT NULL,
	PRIMARY KEY (tree, turn)
) WITHOUT ROWID;

CREATE TABLE events (
	key INTEGER PRIMARY KEY, id TEXT NOT NULL, time INTEGER NOT NULL, type TEXT NOT NULL, session INTEGER NOT NULL,
	tokens TEXT NOT NULL, turn TEXT NOT NULL, trace TEXT NOT NULL, payload TEXT NOT NULL, told INTEGER NOT NULL
);
CREATE UNIQUE INDEX events_told ON events (key >> 32, id) WHERE told;

CREATE TABLE dropped (no INTEGER PRIMARY KEY);
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) WITHOUT ROWID;
`

// eventKey is the key of an event: seq 0 stands before a tree's first.
func eventKey(tree int64, seq uint64) int64 { return tree<<32 | int64(seq&0xffffffff) }

// seqOf is the seq in the key of an event.
func seqOf(key int64) uint64 { return uint64(key & 0xffffffff) }

// migrate brings the file that conn has open to schemaVersion, and refuses
// one that is newer or not ours.
func migrate(ctx context.Context, conn *sql.Conn) error {
	fresh, err := checkSchema(ctx, conn)
	if err != nil || !fresh {
		return err
	}
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("making the tables: %w", err)
	}
	marks := fmt.Sprintf("PRAGMA application_id = %d; PRAGMA user_version = %d;", applicationID, schemaVersion)
	if _, err := tx.ExecContext(ctx, schema+marks); err != nil {
		return fmt.Errorf("making the tables: %w", rolledBack(tx, err))
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("making the tables: %w", err)
	}
	return nil
}

// checkSchema returns nil when conn's file can be used; fresh means that there
// is nothing in it yet.
func checkSchema(ctx context.Context, conn *sql.Conn) (fresh bool, err error) {
	var app, version, tables int
	row := conn.QueryRowContext(ctx, `SELECT
		(SELECT application_id FROM pragma_application_id), (SELECT user_version FROM pragma_user_version),
		(SELECT count(*) FROM sqlite_schema)`)
	if err := row.Scan(&app, &version, &tables); err != nil {
		return false, fmt.Errorf("reading the schema version: %w", err)
	}
	switch {
	case app == 0 && version == 0 && tables == 0:
		return true, nil
	case app != applicationID:
		return false, fmt.Errorf("the file is another program's database (application id %#x)", app)
	case version > schemaVersion:
		return false, fmt.Errorf("the file has schema version %d, newer than the %d that this sidecar knows: use a newer sidecar", version, schemaVersion)
	case version < schemaVersion:
		return false, fmt.Errorf("the file has schema version %d, older than the %d that this sidecar knows: move it away to begin anew, or use the sidecar that made it", version, schemaVersion)
	}
	return false, nil
}
