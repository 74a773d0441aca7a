package sqlite

import (
	"database/sql"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/a2a-sidecar/a2a-sidecar/lineage"
	"github.com/a2a-sidecar/a2a-sidecar/sessions"
)

// isOutcome reports whether err is what an op is told, and not the storage's.
func isOutcome(err error) bool {
	var refusal *lineage.Refusal
	var conflict *lineage.Conflict
	return errors.As(err, &refusal) || errors.As(err, &conflict) || errors.Is(err, sessions.ErrNotFound) || errors.Is(err, errInvalid)
}

// unavailable wraps an error of the storage's as what it means to callers.
func unavailable(doing string, err error) error {
	switch {
	case err == nil, errors.Is(err, sessions.ErrBadCursor):
		return err
	case isOutcome(err):
		return err
	}
	return fmt.Errorf("%s: %w: %w", doing, sessions.ErrUnavailable, err)
}

// isConstraint reports whether the storage refused a row because of another.
func isConstraint(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_CONSTRAINT
}

// isBusy reports whether another connection holds a lock.
func isBusy(err error) bool {
	var e *sqlite.Error
	return errors.As(err, &e) && e.Code()&0xff == sqlite3.SQLITE_BUSY
}

// rolledBack undoes tx because of err.
func rolledBack(tx *sql.Tx, err error) error {
	return errors.Join(err, tx.Rollback())
}
