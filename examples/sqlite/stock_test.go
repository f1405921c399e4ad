package sqlite

import (
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	_ "modernc.org/sqlite"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

func openStock(t *testing.T) *Stock {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "stock.db")+"?_pragma=busy_timeout(5000)")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { db.Close() })
	db.SetMaxOpenConns(1)
	s, err := OpenStock(t.Context(), db)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantQuantity(t *testing.T, s *Stock, want int) {
	t.Helper()
	if n, err := s.Quantity(t.Context(), "apples"); n != want || err != nil {
		t.Errorf("Quantity = %d, %v; want %d", n, err, want)
	}
}

// fenced returns a lock whose leases end after about two seconds unless they are renewed.
func fenced(t *testing.T, masters *redlocktest.Masters) *redlock.Locker {
	t.Helper()
	lock, err := masters.Open(nil).NewLocker("apples", &redlock.LockOptions{TTL: 2 * time.Second, Fencing: true, RenewEvery: -1})
	if err != nil {
		t.Fatal(err)
	}
	return lock
}

func TestTakersLoseNoUpdate(t *testing.T) {
	s := openStock(t)
	if err := s.Write(t.Context(), "apples", 20, 1); err != nil {
		t.Fatal(err)
	}
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.Start(t)
		var all sync.WaitGroup
		for range 4 {
			lock := fenced(t, masters)
			all.Go(func() {
				for range 5 {
					if err := s.Take(t.Context(), lock, "apples", 1); err != nil {
						t.Error(err)
					}
				}
			})
		}
		all.Wait()
	})
	wantQuantity(t, s, 0)
}

func TestALateHolderIsRefused(t *testing.T) {
	s := openStock(t)
	if err := s.Write(t.Context(), "apples", 20, 1); err != nil {
		t.Fatal(err)
	}
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.Start(t)
		slow, quick := fenced(t, masters), fenced(t, masters)
		slow.Lock()
		fence := slow.Lease().Fence()
		time.Sleep(3 * time.Second) // a pause that is longer than the lease
		if err := s.Take(t.Context(), quick, "apples", 5); err != nil {
			t.Fatal(err)
		}
		if err := s.Write(t.Context(), "apples", 19, fence); !errors.Is(err, ErrLate) {
			t.Errorf("the late Write = %v, want ErrLate", err)
		}
		slow.Unlock()
	})
	wantQuantity(t, s, 15)
}

// Two holders read 10. The earlier one writes late: it must not be overwritten by the later one unnoticed.
func TestAReadKeepsEarlierHoldersFromWriting(t *testing.T) {
	s := openStock(t)
	if err := s.Write(t.Context(), "apples", 10, 1); err != nil {
		t.Fatal(err)
	}
	for _, fence := range []uint64{2, 3} {
		if n, err := s.Read(t.Context(), "apples", fence); n != 10 || err != nil {
			t.Errorf("Read with fence %d = %d, %v; want 10", fence, n, err)
		}
	}
	if err := s.Write(t.Context(), "apples", 9, 2); !errors.Is(err, ErrLate) {
		t.Errorf("Write with fence 2 = %v, want ErrLate, since 3 has read", err)
	}
	if n, err := s.Read(t.Context(), "apples", 2); !errors.Is(err, ErrLate) {
		t.Errorf("Read with fence 2 = %d, %v; want ErrLate, since 3 has read", n, err)
	}
	for range 2 { // one holder may write several times
		if err := s.Write(t.Context(), "apples", 9, 3); err != nil {
			t.Error(err)
		}
	}
	wantQuantity(t, s, 9)
}

func TestAReadOfAnAbsentItemKeepsEarlierHoldersFromWriting(t *testing.T) {
	s := openStock(t)
	if n, err := s.Read(t.Context(), "apples", 3); n != 0 || err != nil {
		t.Errorf("Read = %d, %v; want 0", n, err)
	}
	if err := s.Write(t.Context(), "apples", 1, 2); !errors.Is(err, ErrLate) {
		t.Errorf("Write with fence 2 = %v, want ErrLate, since 3 has read", err)
	}
	wantQuantity(t, s, 0)
}

func TestAHolderWithoutAFenceIsRefused(t *testing.T) {
	s := openStock(t)
	if _, err := s.Read(t.Context(), "apples", 0); !errors.Is(err, errNoFence) {
		t.Errorf("Read = %v, want that the fence is 0", err)
	}
	if err := s.Write(t.Context(), "apples", 1, 0); !errors.Is(err, errNoFence) {
		t.Errorf("Write = %v, want that the fence is 0", err)
	}
	bubbletest.Test(t, func(t *testing.T) {
		lock := redlocktest.Start(t).Open(nil).Locker("apples") // without Fencing
		if err := s.Take(t.Context(), lock, "apples", 0); !errors.Is(err, errNoFence) {
			t.Errorf("Take = %v, want that the fence is 0", err)
		}
	})
	wantQuantity(t, s, 0)
}
