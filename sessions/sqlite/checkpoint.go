package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync/atomic"

	"modernc.org/sqlite"
)

// pace says when the write-ahead log is moved into the file, in pages written
// to the log.
type pace struct {
	every  int // a pass, beside the writer, each time the log has grown by so much
	rewind int // from here on the writer is made to wait for the rest, if that is little
	most   int // from here on the writer is made to wait for the rest, however much
}

// usualPace: the longer it takes, the more changes to a page are moved as one.
// With pages of 4 KB that is 16, 64 and 256 MB.
var usualPace = pace{every: 4096, rewind: 16384, most: 65536}

// little is how much of the log the writer may be made to wait for.
const little = 512

// checkpointer moves pages from the log into the file, on a connection and a
// goroutine of its own. That syncs both, which takes long. A passive checkpoint
// holds no lock that the writer takes: it appends to the log meanwhile.
//
// The log begins anew when all of it has been moved. While calls keep coming
// there is always a rest that came during the pass, so from time to time the
// writer is held for a pass over that rest.
type checkpointer struct {
	conn  *sql.Conn
	pace  pace
	log   *slog.Logger
	hold  func(context.Context) (release func(), err error) // holds the writer
	grown chan struct{}                                     // holds one token when a pass is due
	stop  context.CancelFunc
	done  chan struct{}
	seen  int64        // pages that the writer had written when a pass was last due; needs its turn
	wrote atomic.Int64 // pages that it has written
}

// begin lets c work until end is called.
func (c *checkpointer) begin(ctx context.Context) {
	ctx, c.stop = context.WithCancel(context.WithoutCancel(ctx))
	c.grown, c.done = make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(c.done)
		for {
			select {
			case <-ctx.Done():
				return
			case <-c.grown:
			}
			if err := c.work(ctx); err != nil && ctx.Err() == nil {
				c.log.WarnContext(ctx, "moving the write-ahead log into the file", "error", err)
			}
		}
	}()
}

// end waits for the pass that is under way.
func (c *checkpointer) end() error {
	c.stop()
	<-c.done
	return c.conn.Close()
}

// watch sees whether a pass is due after a transaction on conn. It never waits.
func (c *checkpointer) watch(ctx context.Context, conn *sql.Conn) {
	n, err := pagesWritten(conn)
	if err != nil {
		c.log.WarnContext(ctx, "counting the pages of the write-ahead log", "error", err)
	}
	c.wrote.Store(n)
	if n-c.seen < int64(c.pace.every) {
		return
	}
	c.seen = n
	select {
	case c.grown <- struct{}{}:
	default: // one is due already
	}
}

// work moves the log, and what is added to it meanwhile if the log is long.
func (c *checkpointer) work(ctx context.Context) error {
	before := math.MaxInt
	for ctx.Err() == nil {
		length, rest, err := c.pass(ctx)
		if err != nil || rest == 0 || length < c.pace.rewind {
			return err
		}
		if rest > little && rest < before && length < c.pace.most {
			before = rest // the next pass leaves less: it takes less time
			continue
		}
		if rest > little && length < c.pace.most {
			return nil // somebody reads an older state, or the disk is slow
		}
		release, err := c.hold(ctx)
		if err != nil {
			return err
		}
		_, _, err = c.pass(ctx)
		release()
		return err
	}
	return nil
}

// pass moves what is in the log now. It returns how long the log is, and how
// much of it has not been moved: what came meanwhile, or what somebody still
// reads the older state of.
func (c *checkpointer) pass(ctx context.Context) (length, rest int, err error) {
	var busy, moved int
	before := c.wrote.Load() // SQLite does not tell what came meanwhile
	// One that was begun is finished: it was worth its while.
	row := c.conn.QueryRowContext(context.WithoutCancel(ctx), `PRAGMA wal_checkpoint(PASSIVE)`)
	if err := row.Scan(&busy, &length, &moved); err != nil {
		return 0, 0, fmt.Errorf("a checkpoint: %w", err)
	}
	return length, length - moved + int(c.wrote.Load()-before), nil
}

// errNoCount: the driver does not tell how many pages were written.
var errNoCount = errors.New("the driver counts no pages")

// pagesWritten returns how many pages conn has written to the log.
func pagesWritten(conn *sql.Conn) (pages int64, err error) {
	err = conn.Raw(func(raw any) error {
		counter, ok := raw.(sqlite.DBStatus)
		if !ok {
			return errNoCount
		}
		n, _, err := counter.Status(sqlite.DBStatusCacheWrite, false)
		pages = int64(n)
		return err
	})
	return pages, err
}
