package sqlite_test

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
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

// admitAll makes n calls in one batch.
func admitAll(tb testing.TB, s sessions.Store, root string, n int) []sessions.Grant {
	tb.Helper()
	ops := make([]*sessions.Op, n)
	for i := range ops {
		ops[i] = &sessions.Op{Admit: call(root)}
	}
	s.Apply(tb.Context(), ops)
	grants := make([]sessions.Grant, n)
	for i, op := range ops {
		if op.Err != nil {
			tb.Fatalf("Apply(admission of %s) = %v", op.Admit.RunID, op.Err)
		}
		grants[i] = op.Grant
	}
	return grants
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
	all, err := sessions.AllSessions(tb.Context(), s, root)
	if err != nil {
		tb.Fatalf("Sessions(%s) = %v", root, err)
	}
	return all
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

// The coordinator may be called back in the very context of the conversation.
func TestRunInRootSession(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: sqlite.Memory})
	admit(t, s, call("root"))
	back := call("root")
	back.Agent, back.Isolated, back.Resolve, back.ContextID = "coordinator", false, sessions.ResolveContext, "root"
	g := admit(t, s, back)
	if g.New || g.Session.Kind != lineage.Main || g.ParentContextID != "" {
		t.Errorf("Apply(call back) = %+v, want the root session", g)
	}
	tree, err := s.Tree(t.Context(), "root")
	if err != nil || tree.Live != 1 {
		t.Errorf("Tree(root) = %d live, %v, want 1: the root session never counts", tree.Live, err)
	}
	end(t, s, g)
	if d := cmp.Diff(project(t, s, "root"), told(readSessions(t, s, "root"))); d != "" {
		t.Errorf("Sessions(root) is not what the log tells (-Project +Sessions):\n%s", d)
	}
}

// What was sent cannot pass for what the store says of the run.
func TestSentMembers(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: sqlite.Memory})
	for _, tt := range []struct{ sent, want string }{
		{``, `{"run":"R","caller":"M","messageId":"X"}`},
		{`{}`, `{"run":"R","caller":"M","messageId":"X"}`},
		{` { "n" : 1.50 } `, `{"run":"R","caller":"M","messageId":"X","n" : 1.50}`},
		{`{"run":"other","n":12345678901234567890}`, `{"run":"R","caller":"M","messageId":"X","n":12345678901234567890}`},
		{`{"caller":"other"}`, `{"run":"R","caller":"M","messageId":"X"}`},
	} {
		a := call("sent " + tt.sent)
		a.Sent = json.RawMessage(tt.sent)
		admit(t, s, a)
		page, err := s.Events(t.Context(), a.Root, sessions.EventQuery{All: true, Types: []string{lineage.EventSent}})
		if err != nil || len(page.Events) != 1 {
			t.Fatalf("Events() = %d events, %v, want 1", len(page.Events), err)
		}
		got := strings.NewReplacer(a.RunID, "R", a.MainID, "M", a.MessageID, "X").Replace(string(page.Events[0].Payload))
		if got != tt.want {
			t.Errorf("payload of %s = %s, want %s", tt.sent, got, tt.want)
		}
	}
	for _, sent := range []string{`{`, `[]`, `"run"`} {
		bad := call("bad")
		bad.Sent = json.RawMessage(sent)
		ops := []*sessions.Op{{Admit: bad}}
		if s.Apply(t.Context(), ops); ops[0].Err == nil || errors.Is(ops[0].Err, sessions.ErrUnavailable) {
			t.Errorf("Apply(sent %s) = %v, want an error of its own", sent, ops[0].Err)
		}
	}
	if _, err := s.Tree(t.Context(), "bad"); !errors.Is(err, sessions.ErrNotFound) {
		t.Errorf("Tree(bad) = %v, want ErrNotFound", err)
	}
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
						all, err := sessions.AllSessions(t.Context(), s, "root")
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

// Caps see what came before in the same batch.
func TestCapsWithinBatch(t *testing.T) {
	t.Parallel()
	s := open(t, sqlite.Options{Path: sqlite.Memory})
	for _, turn := range []string{"turn", ""} {
		for name, limits := range map[string]lineage.Limits{
			"sessions": {MaxSessions: 3}, "children": {MaxChildren: 3}, "fan-out": {MaxFanOut: 3}, "concurrent": {MaxConcurrent: 3},
		} {
			var ops []*sessions.Op
			for range 5 {
				a := call(name + turn)
				a.Turn, a.Agent, a.Limits = turn, name+turn, limits
				ops = append(ops, &sessions.Op{Admit: a})
			}
			s.Apply(t.Context(), ops)
			for i, op := range ops {
				var refusal *lineage.Refusal
				if refused := errors.As(op.Err, &refusal); refused != (i >= 3) || refused && refusal.Count != 3 {
					t.Errorf("%s, turn %q: call %d of a batch = %v, want 3 admitted", name, turn, i+1, op.Err)
				}
			}
		}
	}
}
