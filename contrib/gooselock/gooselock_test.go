package gooselock_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
	"github.com/pressly/goose/v3/lock/locktesting"
	_ "modernc.org/sqlite"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/gooselock"
	"github.com/redlock-go/redlock/redlocktest"
)

// process returns the Locker of another process.
func process(t *testing.T, masters *redlocktest.Masters) *gooselock.Locker {
	t.Helper()
	l, err := gooselock.NewLocker(masters.Open(nil), "migrations of shop", nil)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// open opens the same database for each process.
func open(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", file+"?_pragma=busy_timeout(10000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	return db
}

// migrations would fail if they were run twice.
var migrations = fstest.MapFS{
	"00001_items.sql": {Data: []byte("-- +goose Up\nCREATE TABLE items (name TEXT);\n")},
	"00002_price.sql": {Data: []byte("-- +goose Up\nALTER TABLE items ADD COLUMN price INTEGER;\n")},
	"00003_first.sql": {Data: []byte("-- +goose Up\nINSERT INTO items VALUES ('apple', 3);\n")},
}

// These two are goose's own tests of a Locker.

func TestOneOfSeveralProvidersMigrates(t *testing.T) {
	masters := redlocktest.StartN(t, 3)
	file := filepath.Join(t.TempDir(), "shop.db")
	locktesting.TestProviderLocking(t, func(t *testing.T) *goose.Provider {
		p, err := goose.NewProvider(goose.DialectSQLite3, open(t, file), migrations, goose.WithLocker(process(t, masters)))
		if err != nil {
			t.Fatal(err)
		}
		return p
	})
}

func TestOneLockerAtATimeHasTheLock(t *testing.T) {
	masters := redlocktest.StartN(t, 3)
	locktesting.TestConcurrentLocking(t, nil, func(t *testing.T) lock.Locker { return process(t, masters) }, time.Second)
}

func TestALeaseThatWasLostIsAnErrorOfUnlock(t *testing.T) {
	client := redlocktest.StartN(t, 3).Open(nil)
	l, err := gooselock.NewLocker(client, "migrations of shop", &redlock.LockOptions{TTL: 100 * time.Millisecond, RenewEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Lock(t.Context(), nil); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(10 * time.Millisecond) {
		status, err := client.Inspect(t.Context(), "migrations of shop")
		if err != nil {
			t.Fatal(err)
		}
		if status.Token == "" {
			break
		} else if time.Now().After(deadline) {
			t.Fatal("the lease has not ended within 10 s")
		}
	}
	if err := l.Unlock(t.Context(), nil); !errors.Is(err, redlock.ErrLost) {
		t.Errorf("Unlock = %v, want ErrLost", err)
	}
}

func TestNewLockerSaysWhatIsWrong(t *testing.T) {
	client := redlocktest.StartN(t, 1).Open(nil)
	if _, err := gooselock.NewLocker(client, "", nil); err == nil {
		t.Error("an empty name is accepted")
	}
	if _, err := gooselock.NewLocker(client, "n", &redlock.LockOptions{TTL: -1}); err == nil {
		t.Error("a negative TTL is accepted")
	}
}
