package contract_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// queueUp starts n goroutines that wait for l in order. Each holds the lock for the time held, and sends its
// lease on the channel.
func queueUp(l *redlock.Locker, n int, held time.Duration) <-chan *redlock.Lease {
	leases := make(chan *redlock.Lease, n)
	for range n {
		go func() {
			l.Lock()
			leases <- l.Lease()
			time.Sleep(held)
			l.Unlock()
		}()
		synctest.Wait()
	}
	return leases
}

func TestALeaseIsHandedOverWithoutTraffic(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		first := l.Lease()
		leases := queueUp(l, 10, time.Millisecond)
		synctest.Wait()
		sets, scripts := ms.Master(0).Count("SET"), ms.Master(0).Count("EVALSHA")
		l.Unlock()
		seen := []*redlock.Lease{first}
		for range 10 {
			s := <-leases
			if slices.Contains(seen, s) {
				t.Error("two holders have the same Lease")
			}
			if s.Token() != first.Token() || !s.Valid() {
				t.Errorf("a handed-over lease has token %s, valid: %v", s.Token(), s.Valid())
			}
			for _, stale := range seen {
				if err := stale.Err(); err != redlock.ErrReleased {
					t.Errorf("a stale lease says %v, want ErrReleased", err)
				}
				select {
				case <-stale.Done():
				default:
					t.Error("Done of a stale lease is open")
				}
			}
			seen = append(seen, s)
		}
		if s, e := ms.Master(0).Count("SET")-sets, ms.Master(0).Count("EVALSHA")-scripts; s != 0 || e != 0 {
			t.Errorf("ten handovers sent %d SETs and %d scripts, want none", s, e)
		}
		time.Sleep(time.Second)
		wantFree(t, ms, "a")
	})
}

func TestHandoverEndsAfterItsTime(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		other := connected(t, ms, nil).Locker("a")
		l := c.Locker("a")
		l.Lock()
		leases := queueUp(l, 20, 20*time.Millisecond)
		entered := make(chan time.Duration, 1)
		start := time.Now()
		go func() {
			other.Lock()
			entered <- time.Since(start)
			other.Unlock()
		}()
		synctest.Wait()
		l.Unlock()
		tokens := make(map[string]int)
		for range 20 {
			s := <-leases
			tokens[s.Token()]++
		}
		for token, n := range tokens {
			// Handover, which is 50 ms, and the critical section that is under way then.
			if n > 4 {
				t.Errorf("token %s served %d holders of 20 ms each, want 4 at most", token, n)
			}
		}
		if waited := <-entered; waited > 20*21*time.Millisecond+time.Second {
			t.Errorf("the other process waited for %v", waited)
		}
		time.Sleep(time.Second)
		wantFree(t, ms, "a")
	})
}

func TestSomeLeasesAreReleasedRatherThanHandedOver(t *testing.T) {
	for _, row := range []struct {
		name string
		opts redlock.LockOptions
		next redlock.LockOptions
		lose bool
		want bool // handed over
	}{
		{name: "equal options", want: true},
		{name: "another TTL", next: redlock.LockOptions{TTL: 5 * time.Second}},
		{name: "another MaxHold", next: redlock.LockOptions{MaxHold: time.Minute}},
		{name: "renewal off", opts: redlock.LockOptions{RenewEvery: -1}, next: redlock.LockOptions{RenewEvery: -1}},
		{name: "handover off", opts: redlock.LockOptions{Handover: -1}, next: redlock.LockOptions{Handover: -1}},
		{name: "a lost lease", lose: true},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := connected(t, ms, nil)
				l, err := c.NewLocker("a", &row.opts)
				if err != nil {
					t.Fatal(err)
				}
				next, err := c.NewLocker("a", &row.next)
				if err != nil {
					t.Fatal(err)
				}
				l.Lock()
				token := l.Lease().Token()
				leases := queueUp(next, 1, time.Millisecond)
				if row.lose {
					for i := range 5 {
						ms.Master(i).Del("a")
					}
					<-l.Lease().Done()
				}
				l.Unlock()
				if got := (<-leases).Token() == token; got != row.want {
					t.Errorf("handed over: %v, want %v", got, row.want)
				}
				time.Sleep(time.Second)
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestCancelledWaitersLoseNoHandover(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		token := l.Lease().Token()
		var wg sync.WaitGroup
		var got []string
		for i := range 9 {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			wg.Go(func() {
				if err := l.LockContext(ctx); err != nil {
					if !errors.Is(err, context.Canceled) || !errors.Is(err, redlock.ErrHeld) {
						t.Errorf("LockContext = %v", err)
					}
					return
				}
				got = append(got, l.Lease().Token())
				l.Unlock()
			})
			synctest.Wait()
			if i%3 != 1 {
				cancel()
				synctest.Wait()
			}
		}
		l.Unlock()
		wg.Wait()
		if want := []string{token, token, token}; !slices.Equal(got, want) {
			t.Errorf("%d of 3 waiters got the lease handed over: %q", len(got), got)
		}
		wantFree(t, ms, "a")
	})
}

func TestRenewalGoesOnAcrossHolders(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.LockOptions.Handover = time.Minute
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		token := l.Lease().Token()
		leases := queueUp(l, 30, 150*time.Millisecond)
		l.Unlock()
		for range 30 {
			s := <-leases
			time.Sleep(149 * time.Millisecond)
			if err := s.Err(); err != nil && err != redlock.ErrReleased {
				t.Errorf("a holder's lease: %v", err)
			}
			if s.Token() != token {
				token = s.Token() // a renewal was under way, so the lease was released
			}
		}
		time.Sleep(time.Second)
		wantFree(t, ms, "a")
	})
}

func TestHandoversAreReportedToTrace(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var handed, acquired, released atomic.Int32
		l := connected(t, ms, &redlock.Options{Trace: &redlock.Trace{
			Acquired: func(context.Context, redlock.AcquiredInfo) { acquired.Add(1) },
			Released: func(context.Context, redlock.ReleasedInfo) { released.Add(1) },
			HandedOver: func(_ context.Context, i redlock.HandedOverInfo) {
				handed.Add(1)
				if i.Name != "a" || i.Held < 5*time.Millisecond || i.Held > 10*time.Millisecond || !i.Until.After(time.Now()) {
					t.Errorf("HandedOverInfo = %+v", i)
				}
			},
		}}).Locker("a")
		l.Lock()
		leases := queueUp(l, 3, 5*time.Millisecond)
		time.Sleep(5 * time.Millisecond)
		l.Unlock()
		for range 3 {
			<-leases
		}
		time.Sleep(time.Second)
		if h, a, r := handed.Load(), acquired.Load(), released.Load(); h != 3 || a != 1 || r != 1 {
			t.Errorf("handed over %d, acquired %d, released %d times, want 3, 1, 1", h, a, r)
		}
	})
}
