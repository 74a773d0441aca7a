package sqlite_test

import (
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
	"github.com/a2a-sidecar/a2a-sidecar/sessions/sqlite"
)

func TestReopen(t *testing.T) {
	t.Parallel()
	path := file(t)
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
	if err != nil {
		t.Fatal(err)
	}
	one := call("root")
	one.Limits.MaxConcurrent = 1
	held := admit(t, s, one)
	left := call("root")
	left.Agent, left.Limits.MaxConcurrent = "slow", 1
	g := admit(t, s, left)
	s.Apply(t.Context(), []*sessions.Op{{Progress: &sessions.Progress{
		Root: "root", Session: g.Session.ID, Run: g.RunID, Gen: g.Gen, Agent: "slow", Detach: time.Hour,
	}}})
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
	// A run that nobody held goes on; one that a call of the process before held
	// is lost, and its place free, at once.
	next := call("other")
	next.Agent, next.Limits.MaxConcurrent = "slow", 1
	op := &sessions.Op{Admit: next}
	var refusal *lineage.Refusal
	if s.Apply(t.Context(), []*sessions.Op{op}); !errors.As(op.Err, &refusal) || refusal.Reason != lineage.ConcurrencyLimit {
		t.Errorf("Apply(second call of slow) after reopening = %v, want %s", op.Err, lineage.ConcurrencyLimit)
	}
	next = call("root")
	next.Limits.MaxConcurrent = 1
	admit(t, s, next)
	for _, was := range readSessions(t, s, "root") {
		if was.ID == held.Session.ID && (was.State != lineage.Failed || was.Reason != lineage.ReasonLost) {
			t.Errorf("the session of the process before is %s %s, want failed lost", was.State, was.Reason)
		}
	}
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
		{"older schema", sqlite.Options{Path: edited("PRAGMA user_version = 1")}, "schema version 1, older than"},
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
