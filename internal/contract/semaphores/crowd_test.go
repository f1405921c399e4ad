package semaphores_test

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// permitQueue returns how many claims wait for permits of a semaphore at a master.
func permitQueue(t *testing.T, ms *redlocktest.Masters, i int, name string) int {
	t.Helper()
	synctest.Wait()
	return len(queueOf(t, ms, i, "redlock:permits:"+name))
}

// rotate has goroutines acquire a permit each, hold it for a time, and release it, again and again for a time. It returns how many turns
// of each of them have ended in that time, but for its beginning.
func rotate(t *testing.T, sems []*redlock.Semaphore, hold, beginning, lasting time.Duration) (turns []int) {
	t.Helper()
	turns = make([]int, len(sems))
	var all sync.WaitGroup
	from := time.Now().Add(beginning)
	until := from.Add(lasting)
	for i, s := range sems {
		all.Go(func() {
			for time.Now().Before(until) {
				p, err := s.Acquire(context.Background())
				if err != nil {
					t.Error(err)
					return
				}
				time.Sleep(hold)
				if err := p.Err(); err != nil {
					t.Error(err)
				}
				p.Release()
				if now := time.Now(); now.After(from) && !now.After(until) {
					turns[i]++
				}
			}
		})
	}
	all.Wait()
	return turns
}

// As many goroutines of a Client as hold permits stand in the queues of the masters, and four at least. All others wait behind these.
func TestFewClaimsOfAClientWaitAtTheMasters(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const limit, n = 3, 400
		first := acquire(t, openAt(ms, time.Millisecond, nil).Semaphore("a", limit), limit)
		c := openAt(ms, time.Millisecond, nil)
		s := c.Semaphore("a", limit)
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var entered atomic.Int64
		for i := range n {
			all.Go(func() {
				ctx := ctx
				if i%2 == 0 {
					ctx = context.Background()
				}
				if err := s.Do(ctx, func(context.Context) error { time.Sleep(time.Millisecond); return nil }); err == nil {
					entered.Add(1)
				} else if ctx.Err() == nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(2 * time.Second)
		before := polls(ms.Master(0))
		time.Sleep(time.Second)
		if got := permitQueue(t, ms, 0, "a"); got != 4 {
			t.Errorf("%d claims wait at a master, want 4", got)
		}
		if got := polls(ms.Master(0)) - before; got > 50 {
			t.Errorf("%d goroutines sent %d polls in a second, want those of 4 claims", n, got)
		}
		cancel()
		time.Sleep(time.Second)
		if got := permitQueue(t, ms, 0, "a"); got != 4 {
			t.Errorf("after half of the contexts have ended, %d claims wait at a master, want 4", got)
		}
		first.Release()
		all.Wait()
		if got := entered.Load(); got != n/2 {
			t.Errorf("%d entered, want %d", got, n/2)
		}
		if got := permitQueue(t, ms, 0, "a"); got != 0 {
			t.Errorf("%d claims are left at a master", got)
		}
		p := acquire(t, s, limit) // none was lost
		var waiting []<-chan *redlock.Permit
		for range 10 {
			waiting = append(waiting, entered1(s))
		}
		c.Close()
		synctest.Wait()
		for _, in := range waiting {
			if p := <-in; p != nil {
				t.Error("a goroutine has a permit of a closed Client")
			}
		}
		p.Release()
	})
}

// entered1 acquires a permit in the background, and sends it, or nil after a failure.
func entered1(s *redlock.Semaphore) <-chan *redlock.Permit {
	in := make(chan *redlock.Permit, 1)
	go func() {
		p, _ := s.Acquire(context.Background())
		in <- p
	}()
	synctest.Wait()
	return in
}

// Permits are handed over to the goroutine that has called first, and calls for several are not overtaken.
func TestGoroutinesOfAClientHavePermitsInTheOrderOfTheirCalls(t *testing.T) {
	for _, handover := range []time.Duration{-1, 0, time.Minute} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			s := openAt(ms, time.Millisecond, &redlock.Options{LockOptions: redlock.LockOptions{Handover: handover}}).Semaphore("a", 2)
			first := acquire(t, s, 2)
			var order []int
			var mu sync.Mutex
			var all sync.WaitGroup
			for i := range 20 {
				all.Go(func() {
					n := 1
					if i%3 == 2 {
						n = 2
					}
					p := acquire(t, s, n)
					if got := len(p.Slots()); got != n {
						t.Errorf("a call for %d permits has %d", n, got)
					}
					mu.Lock()
					order = append(order, i)
					mu.Unlock()
					time.Sleep(5*time.Millisecond + time.Duration(i)*10*time.Microsecond)
					p.Release()
				})
				time.Sleep(time.Millisecond)
			}
			first.Release()
			all.Wait()
			for at, i := range order {
				// Two goroutines that are given permits by one release may be told so in any order.
				if at-i > 1 || i-at > 1 || i%3 == 2 && at != i {
					t.Fatalf("handover %v: the order of the calls became %v", handover, order)
				}
			}
		})
	}
}

// Goroutines hand permits over without a command, until Handover has passed since the masters gave them. So a client that has one
// goroutine has its turns beside one that has a hundred.
func TestPermitsAreHandedOverWithinAClient(t *testing.T) {
	for _, limit := range []int{1, 8} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			const oneWay, hold, lasting = 500 * time.Microsecond, time.Millisecond, 160 * time.Millisecond
			var handed atomic.Int64
			trace := &redlock.Trace{HandedOver: func(context.Context, redlock.HandedOverInfo) { handed.Add(1) }}
			client := openAt(ms, oneWay, &redlock.Options{Trace: trace})
			many := client.Semaphore("a", limit)
			one := openAt(ms, oneWay, nil).Semaphore("a", limit)
			turns := rotate(t, append(slices.Repeat([]*redlock.Semaphore{many}, 30), one), hold, 0, lasting)
			n := 0
			for _, k := range turns {
				n += k
			}
			// By way of the masters, a permit is used for half of the time.
			ideal := float64(limit) * float64(lasting/hold)
			t.Logf("limit %d: %d turns, %.2f of the time is used, %d handovers", limit, n, float64(n)/ideal, handed.Load())
			if float64(n) < 0.75*ideal || handed.Load() < int64(n)*3/4 {
				t.Errorf("limit %d: %d turns, %d of them by a handover, want %v", limit, n, handed.Load(), ideal)
			}
			if got := turns[len(turns)-1]; got < 2 {
				t.Errorf("limit %d: the other client had %d turns", limit, got)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if err := client.Shutdown(ctx); err != nil {
				t.Errorf("limit %d: after all permits were released: %v", limit, err)
			}
		})
	}
}

// permitCrowd opens clients that wait for a permit of s, one after the other, and hold it for a time.
func permitCrowd(t *testing.T, ms *redlocktest.Masters, n, limit int, oneWay, hold time.Duration, entered func(i int)) (wait func()) {
	t.Helper()
	var all sync.WaitGroup
	for i := range n {
		s := openAt(ms, oneWay, nil).Semaphore("a", limit)
		all.Go(func() {
			p, err := s.Acquire(context.Background())
			if err != nil {
				t.Error(err)
				return
			}
			entered(i)
			time.Sleep(hold + time.Duration(i)*100*time.Microsecond) // so that all masters execute the releases in one order
			p.Release()
		})
		time.Sleep(10 * time.Millisecond)
	}
	return all.Wait
}

// Only those at the front of the queue poll often: see TestACrowdThatWaitsSendsFewPolls.
func TestACrowdThatWaitsForPermitsSendsFewPolls(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const n, limit, seconds = 30, 4, 5
		holder := acquire(t, connected(t, ms, nil).Semaphore("a", limit), limit)
		wait := permitCrowd(t, ms, n, limit, 0, 0, func(int) {})
		time.Sleep(2 * time.Second) // the first polls
		before := polls(ms.Master(0))
		time.Sleep(seconds * time.Second)
		got := polls(ms.Master(0)) - before
		// Three poll ten times a second, and the others every 100 ms for each claim ahead: 10 ln(30/3) a second.
		const near, far = 3 * 10 * seconds, 23 * seconds
		if got < near*8/10 || got > (near+far)*13/10 {
			t.Errorf("%d clients sent %d polls in %d s, want about %d", n, got, seconds, near+far)
		}
		holder.Release()
		wait()
	})
}

// A release of several permits is had by as many claims in one trip of a message, although most of them poll seldom: they were told that
// they are near, and so their votes count from a recent ping. So have those behind them, one round trip after the other.
func TestACrowdHasPermitsInItsTurnWithoutAPause(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const limit, n, oneWay, hold = 6, 24, 10 * time.Millisecond, 40 * time.Millisecond
		holder := acquire(t, openAt(ms, oneWay, nil).Semaphore("a", limit), limit)
		var mu sync.Mutex
		var order []int
		wait := permitCrowd(t, ms, n, limit, oneWay, hold, func(i int) {
			mu.Lock()
			order = append(order, i)
			mu.Unlock()
		})
		time.Sleep(2 * time.Second) // longer than g: no vote could count from the registration
		before := polls(ms.Master(0))
		began := time.Now()
		holder.Release()
		wait()
		if took, most := time.Since(began), time.Duration(n/limit)*(hold+2*oneWay)*11/10; took > most {
			t.Errorf("%d clients took %v, want %v at most", n, took, most)
		}
		if got := polls(ms.Master(0)) - before; got > 2*n {
			t.Errorf("%d clients sent %d polls during their turns", n, got)
		}
		for at, i := range order {
			if at-i >= limit || i-at >= limit {
				t.Errorf("they entered in the order %v", order)
				break
			}
		}
	})
}

// No script runs when the slots of a client expire that has died. Those who are near poll then, also if they are not among the first three, which poll often:
// these are stopped here, a moment before. So each of the clients that run has a permit at once, although the first ones are granted five of them in vain.
func TestACrowdGetsThePermitsOfADeadHolderSoonAfterTheyExpire(t *testing.T) {
	for range 4 { // else a poll that is due in any case might come at the right moment
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			const limit, stopped, ttl = 8, 5, 2 * time.Second
			opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: ttl}, MaxTTL: ttl}
			dead := connected(t, ms, opts)
			acquire(t, dead.Semaphore("a", limit), limit)
			var running locktest.Tap
			for range stopped {
				s := locktest.Stoppable(t, ms, &running).Semaphore("a", limit)
				go s.Acquire(t.Context())
				time.Sleep(10 * time.Millisecond)
			}
			var in []<-chan *redlock.Permit
			for range limit - stopped {
				in = append(in, entered(connected(t, ms, nil).Semaphore("a", limit), 1))
			}
			time.Sleep(3 * time.Second)
			dead.Close() // which releases nothing
			expires := time.Now().Add(lives(t, ms, "a"))
			time.Sleep(time.Until(expires) - 50*time.Millisecond)
			running.Shut(t)
			time.Sleep(time.Until(expires))
			for _, in := range in {
				wantEntered(t, in, time.Until(expires.Add(50*time.Millisecond)), "a client that is near")
			}
		})
	}
}

// lives returns how long the first slot of a semaphore lives that is taken.
func lives(t *testing.T, ms *redlocktest.Masters, name string) time.Duration {
	t.Helper()
	conn := ms.Pools()[0].Get()
	defer conn.Close()
	first, err := redis.Strings(conn.Do("ZRANGE", "redlock:until:"+name, 0, 0, "WITHSCORES"))
	if err != nil || len(first) != 2 {
		t.Fatal(first, err)
	}
	at, err := strconv.ParseFloat(first[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Until(time.UnixMilli(int64(at)))
}

// A Client prefers all slots that it has released, not only the last of them.
func TestAClientIsGivenTheSlotsAgainThatItHasReleased(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		s := connected(t, ms, nil).Semaphore("a", 1000)
		turn := func() (slots []int) {
			var all []*redlock.Permit
			for range 4 {
				p := acquire(t, s, 1)
				all, slots = append(all, p), append(slots, p.Slots()...)
			}
			for _, p := range all {
				if err := p.ReleaseContext(t.Context()); err != nil {
					t.Error(err)
				}
			}
			slices.Sort(slots)
			return slots
		}
		first := turn()
		for range 5 {
			if again := turn(); !slices.Equal(again, first) {
				t.Errorf("slots %d were released, and %d are given", first, again)
			}
		}
	})
}

// As many goroutines as a front has places may try, and more: none of them waits.
func TestGoroutinesThatTryHaveAllPermitsThatAreFree(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const limit, tries = 20, 30
		s := openAt(ms, 10*time.Millisecond, nil).Semaphore("a", limit)
		results := make(chan error, tries)
		for range tries {
			go func() {
				_, err := s.TryAcquire(t.Context())
				results <- err
			}()
		}
		for range tries {
			if err := <-results; err != nil && !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("TryAcquire = %v", err)
			}
		}
		if h, err := openAt(ms, time.Millisecond, nil).InspectSemaphore(t.Context(), "a"); err != nil || h.Taken != limit {
			t.Errorf("%d slots are taken, want %d: %v", h.Taken, limit, err)
		}
	})
}

// The semaphore was full. An hour later no master answers, and a fifth goroutine gives up before the first four know that.
func TestAnAcquireIsNotToldWhyOneFailedLongBefore(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		s := openAt(ms, time.Millisecond, nil).Semaphore("a", 1)
		p := acquire(t, openAt(ms, time.Millisecond, nil).Semaphore("a", 1), 1)
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Fatalf("TryAcquire of a full semaphore = %v", err)
		}
		p.Release()
		time.Sleep(time.Hour)
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		for range 4 {
			go s.Acquire(ctx)
		}
		synctest.Wait()
		short, end := context.WithTimeout(ctx, 10*time.Millisecond)
		defer end()
		if _, err := s.Acquire(short); !errors.Is(err, context.DeadlineExceeded) || errors.Is(err, redlock.ErrHeld) {
			t.Errorf("Acquire = %v, want the deadline, and not ErrHeld", err)
		}
		<-ctx.Done()
		synctest.Wait()
	})
}
