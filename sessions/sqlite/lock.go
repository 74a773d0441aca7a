package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
)

// fileLock keeps other writers off a file for as long as this process lives.
//
// It is an empty database beside the file, in an exclusive transaction that
// never ends: the system's own file locks, which die with the process, on
// every platform that SQLite knows. The file itself cannot be locked that way,
// since readers of other processes are welcome to it.
type fileLock struct {
	db   *sql.DB
	conn *sql.Conn
}

// lockFile locks path, or says that another sidecar has.
func lockFile(ctx context.Context, path string) (*fileLock, error) {
	name := path + "-lock"
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := f.Close(); err != nil {
		return nil, err
	}
	db, err := sql.Open("sqlite", "file:"+(&url.URL{Path: name}).EscapedPath())
	if err != nil {
		return nil, err
	}
	conn, err := db.Conn(ctx)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	l := &fileLock{db, conn}
	if _, err := conn.ExecContext(ctx, `BEGIN EXCLUSIVE`); err != nil {
		if isBusy(err) {
			err = errors.New("database is in use by another sidecar")
		} else {
			err = fmt.Errorf("locking %s: %w", name, err)
		}
		return nil, errors.Join(err, l.release())
	}
	return l, nil
}

func (l *fileLock) release() error {
	return errors.Join(l.conn.Close(), l.db.Close())
}
