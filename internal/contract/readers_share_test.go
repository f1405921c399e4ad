package contract_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// A readGroup is goroutines that read again and again, such that one of them is always inside.
type readGroup struct {
	all    sync.WaitGroup
	cancel context.CancelFunc
}

// readAlways begins a readGroup. It calls inside with the lease of a reader that is about to leave.
func readAlways(t *testing.T, l *redlock.RWLocker, inside func(s *redlock.Lease)) *readGroup {
	g := &readGroup{}
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(t.Context())
	for i := range 3 {
		g.all.Go(func() {
			time.Sleep(time.Duration(i) * 30 * time.Millisecond)
			for l.RLockContext(ctx) == nil {
				s := l.RLocker().Lease()
				time.Sleep(100 * time.Millisecond)
				inside(s)
				l.RUnlock()
			}
		})
	}
	return g
}

func (g *readGroup) stop() {
	g.cancel()
	g.all.Wait()
}

// A writer finds no lease that it could ask for, since the first reader waits for the answers of the masters. It then waits at the gate.
func TestAWriterThatCameBeforeTheReadersOfItsClientHadTheLockIsNotPassed(t *testing.T) {
	const oneWay = 10 * time.Millisecond
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := openAt(ms, oneWay, nil).RWLocker("stock")
		readers := readAlways(t, l, func(*redlock.Lease) {})
		time.Sleep(oneWay / 2)
		began := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := l.LockContext(ctx)
		if took := time.Since(began); err != nil || took > time.Second {
			t.Errorf("a writer waited for %v beside readers that never stop: %v", took, err)
		}
		if err == nil {
			l.Unlock()
		}
		readers.stop()
	})
}

// After MaxHold no reader enters, and those that are inside keep the lease until they leave.
func TestReadersThatNeverStopChangeTheirLeaseAfterMaxHoldAndLoseNone(t *testing.T) {
	const lasting = 60 * time.Second
	for _, row := range []struct {
		name        string
		most        time.Duration
		least, less int // how many leases they have, at least, and less than
	}{
		{"5 s", 5 * time.Second, 6, 13},
		{"none", -1, 1, 2},
	} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			l := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{MaxHold: row.most}}).RWLocker("stock")
			var leases sync.Map
			readers := readAlways(t, l, func(s *redlock.Lease) {
				leases.Store(s.Token(), true)
				if err := s.Err(); err != nil {
					t.Errorf("MaxHold %s: a reader that was inside for 100 ms: %v", row.name, err)
				}
			})
			time.Sleep(lasting)
			readers.stop()
			n := 0
			leases.Range(func(any, any) bool { n++; return true })
			if n < row.least || n >= row.less {
				t.Errorf("MaxHold %s: %d leases in %v, want %d or more, and less than %d", row.name, n, lasting, row.least, row.less)
			}
		})
	}
}

// The lease is as old as MaxHold when the last reader has entered. It is renewed for that reader.
func TestAReaderThatEntersShortlyBeforeMaxHoldHasTheLockForThatLong(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{MaxHold: 20 * time.Second}}).RWLocker("stock")
		began := time.Now()
		for time.Since(began) < 19*time.Second {
			l.RLock()
			time.Sleep(100 * time.Millisecond)
			l.RUnlock()
		}
		l.RLock()
		s := l.RLocker().Lease()
		time.Sleep(19 * time.Second)
		if err := s.Err(); err != nil {
			t.Errorf("a reader that has had the lock for less than MaxHold: %v", err)
		}
		l.RUnlock()
	})
}

func TestTheContextOfAReadersFunctionEndsWithItThoughOthersShareTheLease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).RWLocker("stock")
		l.RLock()
		var inner context.Context
		if err := l.RDo(t.Context(), func(ctx context.Context) error { inner = ctx; return ctx.Err() }); err != nil {
			t.Fatal(err)
		}
		if cause := context.Cause(inner); cause != redlock.ErrReleased {
			t.Errorf("after RDo its context has ended with %v, want %v", cause, redlock.ErrReleased)
		}
		if err := l.RLocker().Lease().Err(); err != nil {
			t.Errorf("the lease of the other reader: %v", err)
		}
		l.RUnlock()
	})
}

// Nobody could ask the readers to leave.
func TestWithoutWakeUpsNoReadLeaseIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, &redlock.Options{DisableWakeups: true}).RWLocker("stock")
		l.RLock()
		locktest.Pass(l.RLocker())
		synctest.Wait()
		if got := holders(ms, "stock"); len(got) != 3 {
			t.Errorf("while a goroutine reads, %d masters know", len(got))
		}
		l.RUnlock()
		wantFree(t, ms, "stock")
	})
}

// Without renewal, a lease that stays with its Client would keep writers out until it expires.
func TestWithoutRenewalNoReadLeaseIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}).RWLocker("stock")
		locktest.Pass(l.RLocker())
		wantFree(t, ms, "stock")
	})
}

// A reader that stays is renewed as a holder is, not when half of its validity has passed.
func TestAReaderThatStaysIsRenewedAtEachRenewEvery(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).RWLocker("stock")
		l.RLock()
		s := l.RLocker().Lease()
		for range 60 {
			time.Sleep(time.Second)
			if left := time.Until(s.Until()); left < 6*time.Second {
				t.Fatalf("the lease is valid for %v, want two thirds of the TTL", left)
			}
		}
		l.RUnlock()
	})
}

// The lease of the readers that had the name is given up for a writer. It is not the reason why a call does not get the lock then.
func TestALeaseOfReadersThatWasGivenUpIsNotTheReasonWhyTheLockIsNotFree(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).RWLocker("stock")
		locktest.Pass(l.RLocker())
		synctest.Wait()
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		done := make(chan error)
		go func() { done <- l.LockContext(ctx) }()
		time.Sleep(time.Millisecond)
		if err := l.Locker().TryLockContext(t.Context()); errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLock beside a writer that no master has answered: %v, want another error than ErrHeld", err)
		}
		cancel()
		<-done
		for i := range 3 {
			ms.Master(i).Thaw()
		}
	})
}
