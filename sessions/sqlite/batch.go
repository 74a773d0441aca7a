package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"

	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// cacheLimit is how many rows of a kind a generation of the cache holds: enough
// for what is under way and a while after, few enough for a sidecar's memory.
const cacheLimit = 2048

// writer is the one connection that writes, and what it remembers of the file.
// Nobody else writes to the file, so what it remembers is true.
type writer struct {
	conn  *sql.Conn
	stmts map[string]*sql.Stmt

	// Each row is in one cache under one name, so that there is one of it; the
	// caches of ids say where it is.
	trees      cache[string, *treeRow]
	sessions   cache[place, *sessionRow]
	sessionIDs cache[string, place]
	runs       cache[runPlace, *runRow]
	runIDs     cache[treeID, runPlace]

	stale    bool // what is remembered may not be so: a transaction failed
	held     held
	agenda   agenda
	grace    time.Duration // of sessions that are asked to stop
	lastTree int64         // the highest number that a tree has or had
}

type (
	place struct { // of a session
		tree int64
		n    int
	}
	runPlace struct {
		tree       int64
		session, n int
	}
	treeID struct { // an id that is unique in its tree
		tree int64
		id   string
	}
)

func newWriter(ctx context.Context, conn *sql.Conn, grace time.Duration) (*writer, error) {
	w := &writer{
		conn: conn, grace: grace, stmts: map[string]*sql.Stmt{},
		trees: newCache[string, *treeRow](), sessions: newCache[place, *sessionRow](), sessionIDs: newCache[string, place](),
		runs: newCache[runPlace, *runRow](), runIDs: newCache[treeID, runPlace](),
	}
	return w, w.recall(ctx)
}

// recall forgets what w remembers and reads from the file what it must know.
func (w *writer) recall(ctx context.Context) error {
	w.forget()
	w.held, w.agenda = held{}, agenda{}
	row := w.conn.QueryRowContext(ctx, `SELECT max(ifnull((SELECT max(no) FROM trees), 0), ifnull((SELECT max(no) FROM dropped), 0))`)
	if err := row.Scan(&w.lastTree); err != nil {
		return fmt.Errorf("reading the last tree: %w", err)
	}
	err := w.recallAgenda(ctx)
	w.stale = err != nil
	return err
}

func (w *writer) forget() {
	w.trees.reset()
	w.sessions.reset()
	w.sessionIDs.reset()
	w.runs.reset()
	w.runIDs.reset()
}

func (w *writer) age() {
	w.trees.age(cacheLimit)
	w.sessions.age(cacheLimit)
	w.sessionIDs.age(cacheLimit)
	w.runs.age(cacheLimit)
	w.runIDs.age(cacheLimit)
}

// stmt returns query, prepared once.
func (w *writer) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := w.stmts[query]; st != nil {
		return st, nil
	}
	st, err := w.conn.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	w.stmts[query] = st
	return st, nil
}

// batch is one transaction of the writer. Rows are changed in memory and
// written at the end, each once however often it changed; events and keys are
// written as they come.
//
// An error of its methods is the storage's, and ends the batch. What an op is
// told instead (a refusal, not found) is checked before anything is changed.
type batch struct {
	*writer
	ctx context.Context // lives as long as the transaction
	now time.Time

	dirtyTrees    []*treeRow
	dirtySessions []*sessionRow
	dirtyRuns     []*runRow
	turns         map[treeID]int // sessions made in each turn, to be added

	descent descent           // what the operation under way has done of cascades
	notices []sessions.Notice // to be told of once all of it is in the file
}

// transact runs do in one transaction. The notices are of what is in the file now.
func (w *writer) transact(ctx context.Context, now time.Time, do func(*batch) error) (notices []sessions.Notice, err error) {
	// A statement that was begun is finished: following ctx would cost a
	// goroutine per statement, and a batch is short.
	ctx = context.WithoutCancel(ctx)
	b := &batch{writer: w, ctx: ctx, now: now, turns: map[treeID]int{}}
	if w.stale {
		if err := w.recall(ctx); err != nil {
			return nil, err
		}
	}
	if err := b.exec(`BEGIN IMMEDIATE`); err != nil {
		return nil, fmt.Errorf("beginning a transaction: %w", err)
	}
	err = do(b)
	if err == nil {
		err = b.flush()
	}
	if err == nil {
		if err = b.exec(`COMMIT`); err == nil {
			w.age()
			return b.notices, nil
		}
		err = fmt.Errorf("committing: %w", err)
	}
	w.stale = true
	if _, e := w.conn.ExecContext(ctx, `ROLLBACK`); e != nil {
		err = errors.Join(err, fmt.Errorf("rolling back: %w", e))
	}
	return nil, err
}

func (b *batch) exec(query string, args ...any) error {
	_, err := b.change(query, args...)
	return err
}

// change returns how many rows query changed.
func (b *batch) change(query string, args ...any) (int64, error) {
	st, err := b.stmt(b.ctx, query)
	if err != nil {
		return 0, err
	}
	res, err := st.ExecContext(b.ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// one scans the row that query finds with scan, and returns nil if there is none.
func one[T any](b *batch, scan func(scanner) (*T, error), query string, args ...any) (*T, error) {
	st, err := b.stmt(b.ctx, query)
	if err != nil {
		return nil, err
	}
	v, err := scan(st.QueryRowContext(b.ctx, args...))
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return v, err
}

// places lists pairs of numbers. It writes what has changed first, since the
// file alone can be searched.
func (b *batch) places(query string, args ...any) ([][2]int, error) {
	if err := b.flush(); err != nil {
		return nil, err
	}
	st, err := b.stmt(b.ctx, query)
	if err != nil {
		return nil, err
	}
	rows, err := st.QueryContext(b.ctx, args...)
	if err != nil {
		return nil, err
	}
	var found [][2]int
	err = each(rows, func() error {
		var at [2]int
		if err := rows.Scan(&at[0], &at[1]); err != nil {
			return err
		}
		found = append(found, at)
		return nil
	})
	return found, err
}

// each calls do for every row and closes rows.
func each(rows *sql.Rows, do func() error) error {
	for rows.Next() {
		if err := do(); err != nil {
			return errors.Join(err, rows.Close())
		}
	}
	return errors.Join(rows.Err(), rows.Close())
}

func (w *writer) close() error {
	var errs []error
	for _, st := range w.stmts {
		errs = append(errs, st.Close())
	}
	return errors.Join(append(errs, w.conn.Close())...)
}
