package sqlite_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

// open opens a store that is closed when the test ends.
func open(tb testing.TB, opts sqlite.Options) *sqlite.Store {
	tb.Helper()
	s, err := sqlite.Open(tb.Context(), opts)
	if err != nil {
		tb.Fatalf("Open(%s): %v", opts.Path, err)
	}
	tb.Cleanup(func() { closeStore(tb, s) })
	return s
}

func closeStore(tb testing.TB, s *sqlite.Store) {
	tb.Helper()
	if err := s.Close(); err != nil {
		tb.Errorf("Close() = %v", err)
	}
}

func file(tb testing.TB) string {
	tb.Helper()
	return filepath.Join(tb.TempDir(), "sidecar.db")
}

// clock stands still until it is told to go on.
type clock struct{ nanos atomic.Int64 }

func newClock() *clock {
	c := &clock{}
	c.nanos.Store(time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano())
	return c
}

func (c *clock) now() time.Time          { return time.Unix(0, c.nanos.Load()).UTC() }
func (c *clock) advance(d time.Duration) { c.nanos.Add(int64(d)) }

var calls atomic.Int64

// call is a call to the agent worker, in an isolated session of its own.
func call(root string) *sessions.Admission {
	n := calls.Add(1)
	id := func(what string) string { return fmt.Sprintf("%s-%d", what, n) }
	return &sessions.Admission{
		Root: root, Principal: "alice", Local: "coordinator", MainID: id("main"), RemoteID: id("remote"),
		Agent: "worker", Kind: lineage.Branch, Isolated: true, Inherit: lineage.InheritFull, Source: lineage.FromHeader,
		Turn: "turn-1", ContextID: id("context"), SessionID: id("session"), RunID: id("run"), MessageID: id("message"),
		Limits: lineage.Limits{MaxSessions: 1000}, Owner: "sidecar", Lease: 30 * time.Second,
	}
}

func admit(tb testing.TB, s sessions.Store, a *sessions.Admission) sessions.Grant {
	tb.Helper()
	op := &sessions.Op{Admit: a}
	s.Apply(tb.Context(), []*sessions.Op{op})
	if op.Err != nil {
		tb.Fatalf("Apply(admission of %s) = %v", a.RunID, op.Err)
	}
	return op.Grant
}

func ended(g sessions.Grant) *sessions.Op {
	return &sessions.Op{Progress: &sessions.Progress{
		Root: g.Session.Tree, Session: g.Session.ID, Run: g.RunID, Gen: g.Gen, Agent: g.Session.Agent, State: lineage.Completed,
	}}
}

func end(tb testing.TB, s sessions.Store, g sessions.Grant) {
	tb.Helper()
	op := ended(g)
	s.Apply(tb.Context(), []*sessions.Op{op})
	if op.Err != nil {
		tb.Fatalf("Apply(end of %s) = %v", g.RunID, op.Err)
	}
}

func readSessions(tb testing.TB, s sessions.Reader, root string) []lineage.Session {
	tb.Helper()
	all, err := s.Sessions(tb.Context(), root)
	if err != nil {
		tb.Fatalf("Sessions(%s) = %v", root, err)
	}
	return all
}

func TestReopen(t *testing.T) {
	t.Parallel()
	path := file(t)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	one := call("root")
	one.Limits.MaxConcurrent = 1
	g := admit(t, s, one)
	secret, err := s.Secret(t.Context())
	if err != nil {
		t.Fatalf("Secret() = %v", err)
	}
	want := readSessions(t, s, "root")
	closeStore(t, s)

	s = open(t, sqlite.Options{Path: path})
	if d := cmp.Diff(want, readSessions(t, s, "root")); d != "" {
		t.Errorf("Sessions(root) after reopening (-want +got):\n%s", d)
	}
	if got, err := s.Secret(t.Context()); err != nil || !cmp.Equal(got, secret) {
		t.Errorf("Secret() after reopening = %x, %v, want %x", got, err, secret)
	}
	// What the writer counts in memory is as it was.
	next := call("other")
	next.Limits.MaxConcurrent = 1
	op := &sessions.Op{Admit: next}
	var refusal *lineage.Refusal
	if s.Apply(t.Context(), []*sessions.Op{op}); !errors.As(op.Err, &refusal) || refusal.Reason != lineage.ConcurrencyLimit {
		t.Errorf("Apply(second call) after reopening = %v, want %s", op.Err, lineage.ConcurrencyLimit)
	}
	end(t, s, g)
	admit(t, s, next)
}

// A process that dies leaves the file and its log as they are at that moment.
func TestCrash(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, sqlite.Options{Path: path})
	g := admit(t, s, call("root"))
	end(t, s, g)
	want := readSessions(t, s, "root")

	left := file(t)
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(left+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want, readSessions(t, open(t, sqlite.Options{Path: left}), "root")); d != "" {
		t.Errorf("Sessions(root) after a crash (-want +got):\n%s", d)
	}
}

func TestFileIsPrivate(t *testing.T) {
	t.Parallel()
	path := file(t)
	admit(t, open(t, sqlite.Options{Path: path}), call("root"))
	for _, suffix := range []string{"", "-wal", "-lock"} {
		info, err := os.Stat(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != 0o600 {
			t.Errorf("mode of sidecar.db%s = %o, want 600", suffix, got)
		}
	}
}

func TestOddPath(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "100% of? #it & more.db")
	admit(t, open(t, sqlite.Options{Path: path}), call("root"))
	if _, err := os.Stat(path); err != nil {
		t.Error(err)
	}
	readSessions(t, open(t, sqlite.Options{Path: path, ReadOnly: true}), "root")
}

func TestReadOnly(t *testing.T) {
	t.Parallel()
	path := file(t)
	writer, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	reader := open(t, sqlite.Options{Path: path, ReadOnly: true})
	if _, err := reader.Tree(t.Context(), "root"); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Tree(root) = %v, want ErrNotFound", err)
	}
	for range 2 {
		admit(t, writer, call("root"))
		if d := cmp.Diff(readSessions(t, writer, "root"), readSessions(t, reader, "root")); d != "" {
			t.Errorf("Sessions(root) of the reader (-writer +reader):\n%s", d)
		}
	}
	if err := reader.Ping(t.Context()); err != nil {
		t.Errorf("Ping() = %v", err)
	}
	op := &sessions.Op{Admit: call("root")}
	if reader.Apply(t.Context(), []*sessions.Op{op}); !errors.Is(op.Err, sessions.ErrUnavailable) {
		t.Errorf("Apply() of the reader = %v, want ErrUnavailable", op.Err)
	}
	if _, err := reader.Sweep(t.Context()); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Sweep() of the reader = %v, want ErrUnavailable", err)
	}

	// The writer's going changes nothing for readers, old and new.
	want := readSessions(t, writer, "root")
	closeStore(t, writer)
	for _, s := range []*sqlite.Store{reader, open(t, sqlite.Options{Path: path, ReadOnly: true})} {
		if d := cmp.Diff(want, readSessions(t, s, "root")); d != "" {
			t.Errorf("Sessions(root) without the writer (-want +got):\n%s", d)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	t.Parallel()
	// edited is a store's file on which a statement was run.
	edited := func(statement string) string {
		path := file(t)
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
		if err != nil {
			t.Fatal(err)
		}
		closeStore(t, s)
		execute(t, path, statement)
		return path
	}
	foreign := file(t)
	execute(t, foreign, "CREATE TABLE t (x)")
	noDB := file(t)
	if err := os.WriteFile(noDB, []byte(strings.Repeat("no database ", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	used := file(t)
	open(t, sqlite.Options{Path: used})
	empty := file(t)
	execute(t, empty, "VACUUM")

	for _, tt := range []struct {
		name string
		opts sqlite.Options
		want string
	}{
		{"no path", sqlite.Options{}, "no path is given"},
		{"missing directory", sqlite.Options{Path: "/nowhere/at/all/x.db"}, "the directory /nowhere/at/all does not exist"},
		{"second writer", sqlite.Options{Path: used}, "database is in use by another sidecar"},
		{"newer schema", sqlite.Options{Path: edited("PRAGMA user_version = 99")}, "schema version 99, newer than"},
		{"newer schema, to read", sqlite.Options{Path: edited("PRAGMA user_version = 99"), ReadOnly: true}, "schema version 99, newer than"},
		{"another program's", sqlite.Options{Path: foreign}, "another program's database"},
		{"no database", sqlite.Options{Path: noDB}, "not a database"},
		{"nothing to read", sqlite.Options{Path: filepath.Join(t.TempDir(), "x.db"), ReadOnly: true}, "no such file"},
		{"an empty file to read", sqlite.Options{Path: empty, ReadOnly: true}, "nothing in the file"},
		{"memory to read", sqlite.Options{Path: sqlite.Memory, ReadOnly: true}, "cannot be opened read-only"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			s, err := sqlite.Open(t.Context(), tt.opts)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("Open(%+v) = %v, want an error with %q", tt.opts, err, tt.want)
			}
			if s != nil {
				closeStore(t, s)
			}
		})
	}
}

// execute runs a statement on a file that no store has open.
func execute(tb testing.TB, path, statement string) {
	tb.Helper()
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := db.ExecContext(tb.Context(), statement); err != nil {
		tb.Fatal(err)
	}
	if err := db.Close(); err != nil {
		tb.Fatal(err)
	}
}

func TestWriterAfterWriter(t *testing.T) {
	t.Parallel()
	path := file(t)
	for range 2 {
		s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
		if err != nil {
			t.Fatalf("Open(): %v", err)
		}
		closeStore(t, s)
	}
}

func TestMemoryIsPrivate(t *testing.T) {
	t.Parallel()
	a, b := open(t, sqlite.Options{Path: sqlite.Memory}), open(t, sqlite.Options{Path: sqlite.Memory})
	admit(t, a, call("root"))
	if _, err := b.Tree(t.Context(), "root"); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Tree(root) of another store in memory = %v, want ErrNotFound", err)
	}
}

// One op that cannot be stored does not keep the others from being carried out.
func TestPoisonedBatch(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: file(t)})
	first := call("root")
	g := admit(t, s, first)
	before, after, bad := call("root"), call("other"), call("root")
	bad.SessionID = first.SessionID
	ops := []*sessions.Op{{Admit: before}, {Admit: bad}, ended(g), {Admit: after}}
	s.Apply(t.Context(), ops)
	for i, op := range ops {
		if failed := op.Err != nil; failed != (op.Admit == bad) {
			t.Errorf("op %d = %v", i, op.Err)
		}
	}
	if err := ops[1].Err; errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Apply(used session id) = %v, which trying again will not mend", err)
	}
	tree, err := s.Tree(t.Context(), "root")
	if err != nil || tree.Sessions != 3 || tree.Live != 1 {
		t.Errorf("Tree(root) = %d sessions, %d live, %v, want 3, 1", tree.Sessions, tree.Live, err)
	}
	if d := cmp.Diff(project(t, s, "root"), told(readSessions(t, s, "root"))); d != "" {
		t.Errorf("Sessions(root) is not what the log tells (-Project +Sessions):\n%s", d)
	}
}

// project is the state that a tree's log tells, as far as one reading goes.
func project(tb testing.TB, s sessions.Reader, root string) []lineage.Session {
	tb.Helper()
	page, err := s.Events(tb.Context(), root, sessions.EventQuery{All: true, Limit: sessions.MaxPage})
	if err != nil {
		tb.Fatalf("Events(%s) = %v", root, err)
	}
	return told(sessions.Project(root, page.Events))
}

// told are sessions without what no event tells, nil for empty.
func told(all []lineage.Session) []lineage.Session {
	for i := range all {
		s := &all[i]
		s.Owner, s.Deadline, s.UpdatedAt = "", nil, time.Time{}
		s.Tokens, s.Read = append(lineage.Tokens{}, s.Tokens...), append(lineage.Tokens{}, s.Read...)
	}
	return all
}

func TestUnavailable(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: file(t)})
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ops := []*sessions.Op{{Admit: call("root")}, {Admit: call("root")}}
	s.Apply(gone, ops)
	for _, op := range ops {
		if !errors.Is(op.Err, sessions.ErrUnavailable) || op.Grant.RunID != "" {
			t.Errorf("Apply() in an ended context = %+v, %v, want ErrUnavailable", op.Grant, op.Err)
		}
	}
	if err := s.Ping(gone); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Ping() in an ended context = %v, want ErrUnavailable", err)
	}
	if _, err := s.Tree(gone, "root"); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Tree() in an ended context = %v, want ErrUnavailable", err)
	}
	if _, err := s.Tree(t.Context(), "root"); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Tree(root) = %v, want ErrNotFound: nothing was carried out", err)
	}
}

func TestTransactionFails(t *testing.T) {
	t.Parallel()
	path := file(t)
	s := open(t, sqlite.Options{Path: path})
	g := admit(t, s, call("root"))
	want := readSessions(t, s, "root")

	// Another process holds the file, against the rules.
	db, err := sql.Open("sqlite", "file:"+path)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.ExecContext(t.Context(), "BEGIN IMMEDIATE"); err != nil {
		t.Fatal(err)
	}
	ops := []*sessions.Op{{Admit: call("root")}, ended(g)}
	s.Apply(t.Context(), ops)
	for i, op := range ops {
		if !errors.Is(op.Err, sessions.ErrUnavailable) {
			t.Errorf("op %d = %v, want ErrUnavailable", i, op.Err)
		}
	}
	if err := s.Ping(t.Context()); !errors.Is(err, sessions.ErrUnavailable) {
		t.Errorf("Ping() = %v, want ErrUnavailable", err)
	}
	if err := errors.Join(conn.Close(), db.Close()); err != nil {
		t.Fatal(err)
	}

	if d := cmp.Diff(want, readSessions(t, s, "root")); d != "" {
		t.Errorf("Sessions(root) after the failure (-want +got):\n%s", d)
	}
	end(t, s, g)
	admit(t, s, call("root"))
}

func TestBadCursor(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: sqlite.Memory})
	for _, cursor := range []string{"%", "bm9wZQ", "ISBy"} {
		if _, err := s.Trees(t.Context(), sessions.TreeQuery{Cursor: cursor}); !errors.Is(err, sessions.ErrBadCursor) {
			t.Errorf("Trees(cursor %q) = %v, want ErrBadCursor", cursor, err)
		}
	}
}

// Readers see whole batches only, and never wait for the writer.
func TestConcurrent(t *testing.T) {
	t.Parallel()
	for _, path := range []string{file(t), sqlite.Memory} {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			s := open(t, sqlite.Options{Path: path})
			const writers, batches, size = 3, 12, 4
			var writing, reading sync.WaitGroup
			done := make(chan struct{})
			for range writers {
				writing.Go(func() {
					for range batches {
						var ops []*sessions.Op
						for range size {
							ops = append(ops, &sessions.Op{Admit: call("root")})
						}
						s.Apply(t.Context(), ops)
						for i, op := range ops {
							if op.Err != nil {
								t.Errorf("Apply() = %v", op.Err)
							}
							ops[i] = ended(op.Grant)
						}
						s.Apply(t.Context(), ops)
					}
				})
			}
			for range 2 {
				reading.Go(func() {
					for more := true; more; {
						select {
						case <-done:
							more = false
						default:
						}
						all, err := s.Sessions(t.Context(), "root")
						if errors.Is(err, sessions.ErrNotFound) {
							continue
						}
						if err != nil || len(all)%size != 1 {
							t.Errorf("Sessions(root) = %d sessions, %v, want whole batches of %d and the root session", len(all), err, size)
						}
						if _, err := s.Events(t.Context(), "root", sessions.EventQuery{All: true, LastN: 5}); err != nil {
							t.Errorf("Events(root) = %v", err)
						}
					}
				})
			}
			writing.Wait()
			close(done)
			reading.Wait()
			tree, err := s.Tree(t.Context(), "root")
			if want := writers*batches*size + 1; err != nil || tree.Sessions != want || tree.Live != 0 {
				t.Errorf("Tree(root) = %d sessions, %d live, %v, want %d, 0", tree.Sessions, tree.Live, err, want)
			}
		})
	}
}

// What a call costs must not grow with the record: nothing reads a whole table.
func TestNoScans(t *testing.T) {
	t.Parallel()
	clock := newClock()
	s := open(t, sqlite.Options{Path: file(t), Now: clock.now})
	shared := func() *sessions.Admission {
		a := call("root")
		a.Isolated, a.Resolve, a.ContextID, a.TTL, a.Turn = false, sessions.ResolveContext, "shared", time.Hour, ""
		a.Limits = lineage.Limits{MaxSessions: 1, MaxChildren: 8, MaxFanOut: 8, MaxVisits: 8, MaxConcurrent: 8}
		return a
	}
	g := admit(t, s, shared())
	told := ended(g)
	told.Progress.State, told.Progress.TaskID, told.Progress.ContextID = lineage.Suspended, "task", "alias"
	told.Progress.Events = []sessions.Draft{{ID: "status/1", Type: lineage.EventStatus}}
	s.Apply(t.Context(), []*sessions.Op{told})
	again := shared()
	again.TaskID, again.Caller = "task", sessions.Caller{SiblingOf: "shared"}
	admit(t, s, again)
	clock.advance(2 * time.Hour)
	late := call("root")
	late.Limits.MaxSessions, late.Resolve, late.Caller.ContextID = 1, sessions.ResolveAgent, "elsewhere"
	admit(t, s, late)
	key := sessions.BindingKey{Kind: sessions.BindContext, Agent: "worker", ID: "claimed"}
	if _, err := s.Claim(t.Context(), key, sessions.Binding{Root: "root"}); err != nil {
		t.Fatal(err)
	}
	if err := s.Unclaim(t.Context(), key, sessions.Binding{Root: "root"}); err != nil {
		t.Fatal(err)
	}

	plans, err := s.Plans(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(plans) < 20 {
		t.Errorf("only %d statements were run", len(plans))
	}
	for query, scans := range plans {
		for _, step := range scans {
			// Trees that are being dropped: a handful, if any.
			if !strings.Contains(step, "dropped") && !strings.Contains(step, "CONSTANT ROW") && !strings.Contains(step, "subquery") {
				t.Errorf("%s: %s", step, query)
			}
		}
	}
}
