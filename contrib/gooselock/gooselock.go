// Package gooselock keeps two processes from running the migrations of goose at the same time, on any database, also behind a pooler:
// goose's own lockers need Postgres or MySQL.
//
//	locker, err := gooselock.NewLocker(client, "migrations of shop", nil)
//	…
//	provider, err := goose.NewProvider(goose.DialectPostgres, db, migrations, goose.WithLocker(locker))
//
// All processes that migrate a database use the same name, and the same masters. Each waits until the lock is free or the context of
// Provider.Up ends, and then finds that there is nothing left to do. Close the Client after the last migration.
//
// goose does not tell a migration that the lease was lost: it goes on, and Provider.Up returns an error that matches redlock.ErrLost. Another
// process may then run the same migration. A lease is lost if a majority of the masters does not answer for a TTL, or if the process is
// stopped for that long. A longer TTL makes that rarer.
//
// The module path is a placeholder, and no version has been released. A module that imports this package needs two lines,
// with the path of a checkout:
//
//	go mod edit -replace github.com/redlock-go/redlock=/path/to/redlock
//	go mod edit -replace github.com/redlock-go/redlock/contrib/gooselock=/path/to/redlock/contrib/gooselock
package gooselock

import (
	"context"
	"database/sql"

	"github.com/pressly/goose/v3/lock"

	"github.com/redlock-go/redlock"
)

// A Locker is a lock.Locker of goose. It is safe for concurrent use.
type Locker struct {
	lock *redlock.Locker
}

var _ lock.Locker = (*Locker)(nil)

// NewLocker returns a Locker for a name, which must not be that of another lock. Nil opts means defaults, and MaxHold zero means that
// migrations may take any time. The error says which of name and options is wrong.
func NewLocker(client *redlock.Client, name string, opts *redlock.LockOptions) (*Locker, error) {
	var o redlock.LockOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxHold == 0 {
		o.MaxHold = -1
	}
	l, err := client.NewLocker(name, &o)
	if err != nil {
		return nil, err
	}
	return &Locker{l}, nil
}

// Lock waits until it has the lock, or ctx ends. It does not use the database.
func (l *Locker) Lock(ctx context.Context, _ *sql.DB) error { return l.lock.LockContext(ctx) }

// Unlock releases the lock, and waits for the masters, also if ctx has ended. The error matches redlock.ErrLost if the lease was lost while the
// migrations ran.
func (l *Locker) Unlock(ctx context.Context, _ *sql.DB) error {
	return l.lock.UnlockContext(context.WithoutCancel(ctx))
}
