package semaphores_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// The tests of this file are of defects that semaphores on one Redis server have had, mostly those with a counter.

// withTTL returns options of Clients whose leases last for a time.
func withTTL(ttl time.Duration) *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{TTL: ttl}, MaxTTL: ttl}
}

// A counter that is not incremented by a crash is stuck at zero one day.
func TestNoPermitIsLostHoweverManyProcessesCrash(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const limit, ttl = 4, time.Second
		for i := range 12 {
			c := openAt(ms, time.Duration(1+i%3)*time.Millisecond, withTTL(ttl))
			s := c.Semaphore("a", limit)
			for n := range 3 {
				go s.AcquireN(t.Context(), 1+(i+n)%3) // they hold, are granted permits, or wait when it crashes
			}
			time.Sleep(time.Duration(7*i%40) * time.Millisecond)
			c.Close() // which releases nothing
		}
		began := time.Now()
		p := acquire(t, openAt(ms, time.Millisecond, withTTL(ttl)).Semaphore("a", limit), limit)
		if took := time.Since(began); took > ttl+500*time.Millisecond {
			t.Errorf("all permits came back after %v", took)
		}
		p.Release()
	})
}

// A counter that is incremented twice lets one more in.
func TestAReleaseThatIsRepeatedOrLateFreesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		s := openAt(ms, time.Millisecond, withTTL(time.Second)).Semaphore("a", 2)
		first := acquire(t, s, 1)
		for range 3 {
			first.Release()
		}
		lost := acquire(t, s, 2)
		for i := range 3 {
			ms.Master(i).DelSlots("a")
		}
		<-lost.Done()
		p, q := acquire(t, s, 1), acquire(t, s, 1)
		first.Release()
		lost.Release()
		if err := lost.ReleaseContext(t.Context()); err == nil {
			t.Error("a second release has no error")
		}
		time.Sleep(10 * time.Second)
		if p.Err() != nil || q.Err() != nil {
			t.Errorf("releases of others have ended permits: %v, %v", p.Err(), q.Err())
		}
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("a third permit of two: %v", err)
		}
	})
}

// A holder that was not executed for longer than its lease, or could not renew it, has a permit that others have, too. It must know that
// before they do.
func TestAPermitThatCannotBeRenewedIsInvalidBeforeOthersHaveIt(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const limit = 3
		var held []*redlock.Permit
		var mu sync.Mutex // guards held
		check := func() {
			mu.Lock()
			defer mu.Unlock()
			valid := 0
			for _, p := range held {
				if p.Valid() {
					valid++
				}
			}
			if valid > limit {
				t.Errorf("%d permits are valid, the limit is %d", valid, limit)
			}
		}
		for i := range limit {
			held = append(held, acquire(t, openAt(ms, time.Duration(1+i)*time.Millisecond, withTTL(time.Second)).Semaphore("a", limit), 1))
		}
		others := openAt(ms, time.Millisecond, withTTL(time.Second)).Semaphore("a", limit)
		var all sync.WaitGroup
		for range limit {
			all.Go(func() {
				p, err := others.Acquire(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				held = append(held, p)
				mu.Unlock()
				check()
			})
		}
		time.Sleep(500 * time.Millisecond)
		for i := range 5 {
			ms.Master(i).Freeze()
		}
		for range 30 {
			time.Sleep(100 * time.Millisecond)
			check()
		}
		for i := range 5 {
			ms.Master(i).Thaw() // renewals that were sent before are executed now
		}
		all.Wait()
		check()
		for _, p := range held[:limit] {
			if p.Err() == nil {
				t.Error("a holder that could not renew its permit for three TTLs has it")
			}
		}
	})
}

// A release whose request or answer is lost must not cost others a TTL.
func TestAReleaseThatIsLostIsSentAgain(t *testing.T) {
	for name, lose := range map[string]func(m *redlocktest.Master){
		"the request": func(m *redlocktest.Master) { m.DropRequest("EVALSHA") },
		"the answer":  func(m *redlocktest.Master) { m.LoseReply("EVALSHA") },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				ttl := withTTL(time.Hour)
				p := acquire(t, openAt(ms, time.Millisecond, ttl).Semaphore("a", 2), 2)
				in := entered(openAt(ms, time.Millisecond, ttl).Semaphore("a", 2), 2)
				time.Sleep(time.Second)
				for i := range 5 {
					lose(ms.Master(i))
				}
				p.Release()
				wantEntered(t, in, 3*time.Second, "the client that waits").Release()
				time.Sleep(2 * time.Second)
				for i := range 5 {
					if slots := ms.Master(i).GetSlots("a"); len(slots) > 0 {
						t.Errorf("%s has %v", ms.Master(i).Name(), slots)
					}
				}
			})
		})
	}
}

// Calls for several that hold some while they wait for the rest block each other for ever.
func TestCallsForOneAndForSeveralAllHaveTheirTurns(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const limit = 4
		var mu sync.Mutex // guards what follows
		held, longest := 0, make(map[int]time.Duration)
		var all sync.WaitGroup
		for i, n := range []int{1, 1, 3, 4, 2, 3} {
			s := openAt(ms, time.Duration(500+100*i)*time.Microsecond, nil).Semaphore("a", limit)
			all.Go(func() {
				for range 15 {
					began := time.Now()
					p := acquire(t, s, n)
					mu.Lock()
					longest[n] = max(longest[n], time.Since(began))
					if held += n; held > limit {
						t.Errorf("%d permits are held, the limit is %d", held, limit)
					}
					mu.Unlock()
					time.Sleep(5 * time.Millisecond)
					mu.Lock()
					held -= n
					mu.Unlock()
					p.Release()
				}
			})
		}
		all.Wait()
		for n, d := range longest {
			if d > time.Second { // a cycle of all six takes about 40 ms
				t.Errorf("a call for %d waited for %v", n, d)
			}
		}
	})
}
