// Package sqlite shows a table whose rows refuse late holders of a lock.
//
// A holder that was paused beyond its lease cannot notice it in time. So each read and write of a
// holder carries the fence of its lease, and the row stores the greatest fence that has come. The comparison
// is part of the statement, so that it is atomic with the read or the write.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/redlock-go/redlock"
)

// ErrLate says that a later holder of the lock has already read or written.
var ErrLate = errors.New("a later holder has read or written")

// errNoFence says that the lock was made without LockOptions.Fencing, or is not held.
var errNoFence = errors.New("the fence is 0: use a lock with LockOptions.Fencing")

// A Stock is a table of quantities.
type Stock struct {
	db *sql.DB
}

// OpenStock makes the table unless it exists.
func OpenStock(ctx context.Context, db *sql.DB) (*Stock, error) {
	_, err := db.ExecContext(ctx, `CREATE TABLE IF NOT EXISTS stock (
		item     TEXT    PRIMARY KEY,
		quantity INTEGER NOT NULL,
		fence    INTEGER NOT NULL DEFAULT 0 -- of the last holder that has read or written
	)`)
	return &Stock{db}, err
}

// Quantity returns the quantity of an item: 0 if there is none. It is for viewers. A holder that computes a
// new quantity must call Read.
func (s *Stock) Quantity(ctx context.Context, item string) (int, error) {
	var n int
	err := s.db.QueryRowContext(ctx, `SELECT quantity FROM stock WHERE item = ?`, item).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, err
}

// Read returns the quantity of an item for the holder with this fence, and stores the fence, so that earlier
// holders cannot write any more. Otherwise an earlier holder could write between this holder's read and
// write, and its update would be lost. Read returns ErrLate if a holder with a greater fence has read or
// written before.
func (s *Stock) Read(ctx context.Context, item string, fence uint64) (int, error) {
	if fence == 0 {
		return 0, fmt.Errorf("read %s: %w", item, errNoFence)
	}
	var n int
	err := s.db.QueryRowContext(ctx, `
		INSERT INTO stock (item, quantity, fence) VALUES (?1, 0, ?2)
		ON CONFLICT (item) DO UPDATE SET fence = ?2 WHERE fence <= ?2
		RETURNING quantity`,
		item, int64(fence)).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, fmt.Errorf("read %s: %w", item, ErrLate)
	}
	return n, err
}

// Write sets the quantity of an item for the holder with this fence. It returns ErrLate if a holder with a
// greater fence has read or written before. One holder may write several times.
func (s *Stock) Write(ctx context.Context, item string, quantity int, fence uint64) error {
	if fence == 0 {
		return fmt.Errorf("write %s: %w", item, errNoFence)
	}
	done, err := s.db.ExecContext(ctx, `
		INSERT INTO stock (item, quantity, fence) VALUES (?1, ?2, ?3)
		ON CONFLICT (item) DO UPDATE SET quantity = ?2, fence = ?3 WHERE fence <= ?3`,
		item, quantity, int64(fence))
	if err != nil {
		return err
	}
	n, err := done.RowsAffected()
	if err == nil && n == 0 {
		err = fmt.Errorf("write %s: %w", item, ErrLate)
	}
	return err
}

// Take reduces an item's quantity by n while it holds the lock of the item. The lock must have
// LockOptions.Fencing.
func (s *Stock) Take(ctx context.Context, lock *redlock.Locker, item string, n int) error {
	return lock.Do(ctx, func(ctx context.Context) error {
		fence := lock.Lease().Fence()
		have, err := s.Read(ctx, item, fence)
		if err != nil {
			return err
		}
		if have < n {
			return fmt.Errorf("take %d of %s: only %d left", n, item, have)
		}
		return s.Write(ctx, item, have-n, fence)
	})
}
