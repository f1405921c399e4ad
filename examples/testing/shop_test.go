// This file does not compile outside of this module, since it imports internal/bubbletest. In your own tests,
// write synctest.Test for bubbletest.Test, and run them with -cpu 1 under -race: see the documentation of
// redlocktest.

package shop_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	shop "github.com/redlock-go/redlock/examples/testing"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// A slowStock takes a second to read, so that two who sell without a lock sell the same piece.
type slowStock struct {
	mu sync.Mutex
	n  int
}

func (s *slowStock) Pieces(ctx context.Context) (int, error) {
	s.mu.Lock()
	n := s.n
	s.mu.Unlock()
	select {
	case <-time.After(time.Second):
		return n, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

func (s *slowStock) SetPieces(_ context.Context, n int) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.n = n
	return nil
}

// In a bubble time is virtual: this test takes milliseconds.
func TestEachPieceIsSoldOnce(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters, stock := redlocktest.Start(t), &slowStock{n: 2}
		sold := make(chan error)
		for range 3 { // each Open stands for a process
			s := &shop.Shop{Locks: masters.Open(nil), Stock: stock}
			go func() { sold <- s.Sell(t.Context()) }()
		}
		failures := 0
		for range 3 {
			if err := <-sold; errors.Is(err, shop.ErrSoldOut) {
				failures++
			} else if err != nil {
				t.Error(err)
			}
		}
		if failures != 1 || stock.n != 0 {
			t.Errorf("%d of 3 were told that all is sold, and %d are left; want 1 and 0", failures, stock.n)
		}
	})
}

// Two of five masters are frozen: they accept connections, and never answer.
func TestSellingGoesOnWithFrozenMasters(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters, stock := redlocktest.Start(t), &slowStock{n: 1}
		s := &shop.Shop{Locks: masters.Open(nil), Stock: stock}
		masters.Master(0).Freeze()
		masters.Master(3).Freeze()
		if err := s.Sell(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// A majority is frozen while somebody sells: the lease is lost, and Sell says so.
func TestALostLockIsAnErrorOfSell(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters, stock := redlocktest.StartN(t, 3), &slowStock{n: 1}
		s := &shop.Shop{Locks: masters.Open(&redlock.Options{LockOptions: redlock.LockOptions{TTL: 500 * time.Millisecond}}), Stock: stock}
		sold := make(chan error)
		go func() { sold <- s.Sell(t.Context()) }()
		time.Sleep(100 * time.Millisecond) // it has the lock now, and reads the stock
		masters.Master(0).Freeze()
		masters.Master(1).Freeze()
		if err := <-sold; !errors.Is(err, redlock.ErrLost) || stock.n != 1 {
			t.Errorf("Sell = %v, and %d are left; want ErrLost and 1", err, stock.n)
		}
	})
}

// Code that calls redlock.Open itself gets addresses. Sockets do not work in a bubble.
func TestAShopThatIsOpenedAsMainOpensIt(t *testing.T) {
	masters := redlocktest.StartN(t, 3)
	t.Setenv("REDLOCK_MASTERS", strings.Join(masters.URLs(), ","))
	s, err := shop.Open(&slowStock{n: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Locks.Close()
	if err := s.Sell(t.Context()); err != nil {
		t.Error(err)
	}
}
