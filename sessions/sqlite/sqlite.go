// Package sqlite is the embedded store: the record of one sidecar in one file,
// durable, with nothing to set up and no cgo.
//
//	Apply ─▶ decide (admit.go, progress.go, lifecycle.go, settle.go) ──▶ rows in memory
//	           │ looks things up (find.go, agenda.go)      │ flush (change.go)
//	           ▼                                           ▼
//	         the one writing connection ───── one transaction per batch
//	           ╎ from time to time (checkpoint.go)
//	         the log's pages move into the file, on a connection of their own
//	Reader ─▶ a pool of reading connections (WAL: they never wait for the writer)
//	Watch  ◀─ notices, once their batch is in the file (notices.go)
//
// It knows the rules of admission and progress, and SQL. It knows nothing of
// A2A messages, and decides no policy of its own.
//
// One sidecar writes to a file; a second one is refused. That is what lets the
// writer remember rows between batches. Others may open the file ReadOnly.
package sqlite

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// Memory is the path of a store that is kept in memory and is nobody else's.
const Memory = ":memory:"

// readers is how many reads may be under way at once.
const readers = 4

// Options configures a [Store].
type Options struct {
	Path     string           // of the file, made if it is not there; or Memory
	Retain   time.Duration    // a tree is dropped this long after its last event (see Sweep); 0: never
	Grace    time.Duration    // how long a session that is asked to stop may take; 0: lineage.DefaultGrace
	Now      func() time.Time // the clock; nil: time.Now
	Logger   *slog.Logger     // nil: nothing is logged
	ReadOnly bool             // to look at a file that another process may be writing to

	pace *pace // nil: usualPace
}

// Store is a [sessions.Store] in one file. Make one with [Open].
type Store struct {
	retain time.Duration
	now    func() time.Time
	log    *slog.Logger

	reads *sql.DB // nil for a store in memory
	write *sql.DB // one connection; nil when read-only
	moves *sql.DB // one connection, the checkpointer's; nil when read-only or in memory
	held  *fileLock

	checkpointer *checkpointer // nil with moves

	turn   chan struct{} // holds one token: who has it may use writer
	writer *writer       // nil when read-only
	swept  string        // root up to which the last sweep looked for claims; needs turn

	watchers watchers
}

var _ sessions.Store = (*Store)(nil)

// errReadOnly is what a read-only store says to whoever wants to write.
var errReadOnly = fmt.Errorf("%w: it was opened read-only", sessions.ErrUnavailable)

// Open opens a store, making the file if it is not there. The caller must Close it.
func Open(ctx context.Context, opts Options) (*Store, error) {
	s := &Store{retain: opts.Retain, now: opts.Now, log: opts.Logger, turn: make(chan struct{}, 1)}
	if s.now == nil {
		s.now = time.Now
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.turn <- struct{}{}
	if err := s.open(ctx, opts); err != nil {
		return nil, fmt.Errorf("opening the session store %s: %w", opts.Path, errors.Join(err, s.Close()))
	}
	return s, nil
}

func (s *Store) open(ctx context.Context, opts Options) error {
	if opts.Path == "" {
		return errors.New("no path is given")
	}
	if opts.Path == Memory {
		if opts.ReadOnly {
			return errors.New("a store in memory cannot be opened read-only")
		}
		return s.openWriter(ctx, "file::memory:?"+pragmas("synchronous(OFF)"), opts.Grace)
	}
	if err := checkFile(opts.Path, opts.ReadOnly); err != nil {
		return err
	}
	file := "file:" + (&url.URL{Path: opts.Path}).EscapedPath() + "?"
	if !opts.ReadOnly {
		var err error
		if s.held, err = lockFile(ctx, opts.Path); err != nil {
			return err
		}
		// The checkpointer moves the log into the file, not the writer.
		wal := file + pragmas("cache_size(-8192)", "journal_mode(WAL)", "synchronous(NORMAL)", "wal_autocheckpoint(0)", "journal_size_limit(134217728)")
		if err := s.openWriter(ctx, wal, opts.Grace); err != nil {
			return err
		}
		if err := s.openCheckpointer(ctx, wal, *cmp.Or(opts.pace, &usualPace)); err != nil {
			return err
		}
	}
	return s.openReaders(ctx, file+"mode=ro&"+pragmas("query_only(1)"))
}

// checkFile makes the file, for its owner alone, unless it is only to be read.
func checkFile(path string, readOnly bool) error {
	if readOnly {
		_, err := os.Stat(path)
		return err
	}
	dir := filepath.Dir(path)
	if info, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s does not exist", dir)
	} else if err != nil {
		return err
	} else if !info.IsDir() {
		return fmt.Errorf("%s is not a directory", dir)
	}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// pragmas spells what every connection begins with.
func pragmas(more ...string) string {
	return url.Values{"_pragma": append([]string{"busy_timeout(1000)", "foreign_keys(0)"}, more...)}.Encode()
}

func (s *Store) openWriter(ctx context.Context, dsn string, grace time.Duration) error {
	var err error
	if s.write, err = sql.Open("sqlite", dsn); err != nil {
		return err
	}
	s.write.SetMaxOpenConns(1)
	conn, err := s.write.Conn(ctx)
	if err != nil {
		return err
	}
	if err := migrate(ctx, conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	if err := forfeit(ctx, conn); err != nil {
		return errors.Join(err, conn.Close())
	}
	if s.writer, err = newWriter(ctx, conn, cmp.Or(grace, lineage.DefaultGrace)); err != nil {
		return errors.Join(err, conn.Close())
	}
	return nil
}

// forfeit ends the leases that calls of an earlier process held. Only one
// process writes to the file, so whoever held them is gone: there is nothing to
// wait for, and the first Settle, or the next look at their trees, settles them as lost. A run that
// nobody held (Progress.Detach) keeps its time.
func forfeit(ctx context.Context, conn *sql.Conn) error {
	_, err := conn.ExecContext(ctx, `UPDATE runs INDEXED BY runs_going SET lease = 1 WHERE ended IS NULL AND lease IS NOT NULL AND NOT detached`)
	if err != nil {
		return fmt.Errorf("ending the leases of an earlier process: %w", err)
	}
	return nil
}

func (s *Store) openCheckpointer(ctx context.Context, dsn string, pace pace) error {
	var err error
	if s.moves, err = sql.Open("sqlite", dsn); err != nil {
		return err
	}
	s.moves.SetMaxOpenConns(1)
	conn, err := s.moves.Conn(ctx)
	if err != nil {
		return err
	}
	s.checkpointer = &checkpointer{conn: conn, pace: pace, log: s.log, hold: func(ctx context.Context) (func(), error) {
		return s.passTurn, s.takeTurn(ctx)
	}}
	s.checkpointer.begin(ctx)
	return nil
}

func (s *Store) openReaders(ctx context.Context, dsn string) error {
	var err error
	if s.reads, err = sql.Open("sqlite", dsn); err != nil {
		return err
	}
	s.reads.SetMaxOpenConns(readers)
	s.reads.SetMaxIdleConns(readers)
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return err
	}
	fresh, err := checkSchema(ctx, conn)
	if err == nil && fresh {
		err = errors.New("there is nothing in the file yet")
	}
	return errors.Join(err, conn.Close())
}

// Close ends what is under way and closes the file. The store must not be used
// any more.
func (s *Store) Close() error {
	s.watchers.close()
	var errs []error
	if s.reads != nil {
		errs = append(errs, s.reads.Close())
	}
	if s.checkpointer != nil {
		errs = append(errs, s.checkpointer.end()) // before the turn is gone: it may be waiting for it
	}
	if s.moves != nil {
		errs = append(errs, s.moves.Close())
	}
	if s.writer != nil {
		<-s.turn // for good
		errs = append(errs, s.writer.close())
		s.writer = nil
	}
	if s.write != nil {
		errs = append(errs, s.write.Close())
	}
	if s.held != nil {
		errs = append(errs, s.held.release())
	}
	return errors.Join(errs...)
}

// Ping implements [sessions.Store].
func (s *Store) Ping(ctx context.Context) error {
	if s.writer == nil {
		return s.look(ctx, "looking at the store", func(q querier) error {
			var one int
			return q.QueryRowContext(ctx, `SELECT 1 FROM sqlite_schema LIMIT 1`).Scan(&one)
		})
	}
	return s.transact(ctx, "looking at the store", func(*batch) error { return nil })
}

// Apply implements [sessions.Store]: all ops in one transaction, which is what
// makes a busy sidecar fast.
func (s *Store) Apply(ctx context.Context, ops []*sessions.Op) {
	err := s.applyAll(ctx, ops)
	if len(ops) > 1 && isConstraint(err) {
		// One op brought an id that is another's already. The others must not
		// suffer for it.
		for i := range ops {
			one := ops[i : i+1]
			fail(one, s.applyAll(ctx, one))
		}
		return
	}
	fail(ops, err)
}

func (s *Store) applyAll(ctx context.Context, ops []*sessions.Op) error {
	return s.transact(ctx, "applying a batch", func(b *batch) error {
		for _, op := range ops {
			b.descent = descent{}
			switch {
			case op.Admit != nil:
				op.Grant, op.Err = b.admit(op.Admit)
			case op.Progress != nil:
				op.Err = b.progress(op.Progress)
			case op.Change != nil:
				op.Grant, op.Err = b.step(op.Change)
			}
			if op.Err != nil && !isOutcome(op.Err) {
				return op.Err
			}
		}
		return nil
	})
}

// fail sets the outcome of ops whose transaction failed.
func fail(ops []*sessions.Op, err error) {
	if err == nil {
		return
	}
	if isConstraint(err) {
		// Trying again would not help: the store is well, the op is not.
		err = fmt.Errorf("%w: an id is in use: %s", errInvalid, err.Error())
	}
	for _, op := range ops {
		op.Grant, op.Err = sessions.Grant{}, err
	}
}

// transact runs do in a transaction of the writer, when its turn has come.
func (s *Store) transact(ctx context.Context, doing string, do func(*batch) error) error {
	if s.writer == nil {
		return fmt.Errorf("%s: %w", doing, errReadOnly)
	}
	if err := s.takeTurn(ctx); err != nil {
		return unavailable(doing, err)
	}
	notices, err := s.inTurn(ctx, do)
	s.watchers.tell(notices) // once it is done, and others can go on
	return unavailable(doing, err)
}

func (s *Store) inTurn(ctx context.Context, do func(*batch) error) ([]sessions.Notice, error) {
	defer s.passTurn()
	notices, err := s.writer.transact(ctx, s.now(), do)
	if s.checkpointer != nil && err == nil {
		s.checkpointer.watch(ctx, s.writer.conn)
	}
	return notices, err
}

func (s *Store) takeTurn(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	select {
	case <-s.turn:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *Store) passTurn() { s.turn <- struct{}{} }
