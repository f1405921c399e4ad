package semaphores_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAFreePermitTakesOneRoundTripWhateverTheLimit(t *testing.T) {
	for _, row := range []struct{ limit, held int }{{1, 0}, {4, 3}, {64, 0}, {64, 60}, {64, 63}, {1000, 300}} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			const oneWay = 5 * time.Millisecond
			first := openAt(ms, oneWay, nil).Semaphore("a", row.limit)
			var slots []int
			for range row.held {
				slots = append(slots, acquire(t, first, 1).Slots()...)
			}
			s := openAt(ms, oneWay, nil).Semaphore("a", row.limit)
			acquire(t, s, 1).Release() // loads the script
			time.Sleep(time.Second)
			began := time.Now()
			p := acquire(t, s, 1)
			if took := time.Since(began); took != 2*oneWay {
				t.Errorf("limit %d, %d held: %v, want %v", row.limit, row.held, took, 2*oneWay)
			}
			slots = append(slots, p.Slots()...)
			slices.Sort(slots)
			if len(slices.Compact(slots)) != row.held+1 || slots[0] < 0 || slots[row.held] >= row.limit {
				t.Errorf("limit %d: the slots are %v", row.limit, slots)
			}
		})
	}
}

func TestAFullSemaphoreIsToldFromMastersThatAreDown(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		s := openAt(ms, time.Millisecond, nil).Semaphore("a", 2)
		p := acquire(t, s, 2)
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryAcquire of a full semaphore: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx); !errors.Is(err, redlock.ErrHeld) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Acquire of a full semaphore: %v", err)
		}
		if err := p.ReleaseContext(t.Context()); err != nil {
			t.Error(err)
		}
		q, err := s.TryAcquire(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		q.Release()
		time.Sleep(time.Second)
		ms.Master(0).Stop()
		ms.Master(1).Stop()
		time.Sleep(time.Second)
		_, err = s.TryAcquire(t.Context())
		var e *redlock.QuorumError
		if !errors.As(err, &e) || errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryAcquire without a quorum: %v", err)
		}
	})
}

func TestNeverMoreThanTheLimitHold(t *testing.T) {
	for _, limit := range []int{1, 4} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			var mu sync.Mutex
			held, most, turns := make(map[int]bool), 0, make([]int, 6)
			var all sync.WaitGroup
			var sems []*redlock.Semaphore
			for i := range turns {
				sems = append(sems, openAt(ms, time.Duration(500+i)*time.Microsecond, nil).Semaphore("a", limit))
			}
			began := time.Now()
			for i, s := range sems {
				all.Go(func() {
					for time.Since(began) < 300*time.Millisecond {
						p := acquire(t, s, 1)
						mu.Lock()
						slot := p.Slots()[0]
						if held[slot] {
							t.Errorf("two hold slot %d", slot)
						}
						held[slot] = true
						most = max(most, len(held))
						turns[i]++
						mu.Unlock()
						time.Sleep(5 * time.Millisecond)
						mu.Lock()
						if p.Valid() {
							delete(held, slot)
						}
						mu.Unlock()
						p.Release()
					}
				})
			}
			all.Wait()
			if most != limit {
				t.Errorf("at most %d held at once, want %d", most, limit)
			}
			if slices.Min(turns)*2 < slices.Max(turns) {
				t.Errorf("the clients had %v turns", turns)
			}
			time.Sleep(time.Second)
			synctest.Wait()
			for i := range ms.Len() {
				if keys := lockKeys(ms.Master(i)); len(keys) > 1 { // the record
					t.Errorf("%s keeps %v", ms.Master(i).Name(), keys)
				}
			}
		})
	}
}

// entered acquires n permits in the background, and sends them on the channel.
func entered(s *redlock.Semaphore, n int) <-chan *redlock.Permit {
	in := make(chan *redlock.Permit, 1)
	go func() {
		if p, err := s.AcquireN(context.Background(), n); err == nil { // else the Client was closed
			in <- p
		}
	}()
	time.Sleep(200 * time.Millisecond)
	return in
}

// wantWaiting fails t unless the channel is empty.
func wantWaiting(t *testing.T, in <-chan *redlock.Permit, who string) {
	t.Helper()
	time.Sleep(time.Second)
	select {
	case <-in:
		t.Errorf("%s has permits, want it to wait", who)
	default:
	}
}

// wantEntered returns the permits that come from a channel within a time.
func wantEntered(t *testing.T, in <-chan *redlock.Permit, within time.Duration, who string) *redlock.Permit {
	t.Helper()
	select {
	case p := <-in:
		return p
	case <-time.After(within):
		t.Fatalf("%s has no permits after %v", who, within)
		return nil
	}
}

func TestPermitsAreGivenInTheOrderOfTheCallsAlsoToCallsForSeveral(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const oneWay = 2 * time.Millisecond
		at := func() *redlock.Semaphore { return openAt(ms, oneWay, nil).Semaphore("a", 4) }
		one, three := acquire(t, at(), 1), acquire(t, at(), 3)
		all := entered(at(), 4)
		later := entered(at(), 1)
		three.Release()
		wantWaiting(t, all, "the call for all, while one permit is held,")
		wantWaiting(t, later, "the later call")
		one.Release()
		p := wantEntered(t, all, 3*oneWay, "the call for all")
		if got := p.Slots(); !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("slots %v, want all", got)
		}
		wantWaiting(t, later, "the later call")
		p.Release()
		wantEntered(t, later, 3*oneWay, "the later call").Release()
	})
}

func TestThePermitsOfAKilledProcessComeBackAfterATTL(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const ttl = 2 * time.Second
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: ttl}, MaxTTL: ttl}
		killed := openAt(ms, time.Millisecond, opts)
		for range 8 {
			acquire(t, killed.Semaphore("a", 16), 2)
		}
		c := openAt(ms, time.Millisecond, opts)
		var in []<-chan *redlock.Permit
		for range 16 {
			in = append(in, entered(c.Semaphore("a", 16), 1))
		}
		wantWaiting(t, in[0], "a client, while all permits are held,")
		killed.Close() // which releases nothing
		until := time.Now().Add(ttl + 150*time.Millisecond)
		for range in {
			wantEntered(t, in[0], time.Until(until), "a client")
			in = in[1:]
		}
	})
}

func TestALoweredLimitGivesNothingUntilEnoughHaveLeft(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := openAt(ms, time.Millisecond, nil)
		var held []*redlock.Permit
		for range 8 {
			held = append(held, acquire(t, c.Semaphore("a", 8), 1))
		}
		lowered := entered(c.Semaphore("a", 4), 1)
		for _, p := range held[:4] {
			p.Release()
			wantWaiting(t, lowered, "a client whose limit is 4, while more are held,")
		}
		held[4].Release()
		wantEntered(t, lowered, 100*time.Millisecond, "a client whose limit is 4").Release()
		raised := acquire(t, c.Semaphore("a", 100), 90)
		raised.Release()
		for _, p := range held[5:] {
			p.Release()
		}
	})
}

func TestAPermitIsRenewedAndItsLossIsTold(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := openAt(ms, time.Millisecond, &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second}, MaxTTL: time.Second})
		s := c.Semaphore("a", 1)
		p := acquire(t, s, 1)
		time.Sleep(10 * time.Second)
		if err := p.Err(); err != nil {
			t.Fatalf("after ten TTLs: %v", err)
		}
		for i := range 2 {
			ms.Master(i).Del("redlock:slots:a")
		}
		<-p.Done()
		if err := p.Err(); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Err = %v, want ErrLost", err)
		}
		if err := p.ReleaseContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("ReleaseContext = %v, want ErrLost", err)
		}
		if err := p.ReleaseContext(t.Context()); !errors.Is(err, redlock.ErrReleased) {
			t.Errorf("a second ReleaseContext = %v, want ErrReleased", err)
		}
		p.Release()
		err := s.Do(t.Context(), func(ctx context.Context) error {
			for i := range 2 {
				ms.Master(i).Del("redlock:slots:a")
			}
			<-ctx.Done()
			return nil
		})
		if !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Do = %v, want ErrLost", err)
		}
	})
}

// A master that has lost its memory has no vote while permits that it has forgotten may be valid.
func TestARestartedMasterGivesNoPermitTwice(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const ttl = 10 * time.Second
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: ttl}, MaxTTL: ttl}
		holder := openAt(ms, time.Millisecond, opts)
		p := acquire(t, holder.Semaphore("a", 1), 1)
		ms.Master(0).Stop()
		holder.Close() // nobody renews or heals
		ms.Master(1).Stop()
		ms.Master(1).Forget()
		ms.Master(0).Start()
		ms.Master(1).Start()
		c := openAt(ms, time.Millisecond, opts)
		if _, err := c.Semaphore("a", 1).TryAcquire(t.Context()); err == nil && time.Now().Before(p.Until()) {
			t.Error("the permit was given twice")
		}
	})
}

func TestManyGoroutinesOfAClientShareASemaphore(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := openAt(ms, time.Millisecond, nil)
		s := c.Semaphore("a", 3)
		first := acquire(t, s, 3)
		var all sync.WaitGroup
		var mu sync.Mutex
		inside, most := 0, 0
		for range 50 { // more than wait at the masters
			all.Go(func() {
				err := s.Do(t.Context(), func(context.Context) error {
					mu.Lock()
					inside++
					most = max(most, inside)
					mu.Unlock()
					time.Sleep(time.Millisecond)
					mu.Lock()
					inside--
					mu.Unlock()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			})
		}
		time.Sleep(time.Second)
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryAcquire while many wait: %v", err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := s.Acquire(ctx); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("Acquire behind many that wait: %v", err)
		}
		first.Release()
		all.Wait()
		if most != 3 {
			t.Errorf("at most %d were inside, want 3", most)
		}
	})
}

func TestASemaphoreRefusesWhatItCannotDo(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		for _, row := range []struct {
			name  string
			limit int
			opts  *redlock.LockOptions
		}{
			{"", 1, nil},
			{"a", 0, nil},
			{"a", 1<<16 + 1, nil},
			{"a", 1, &redlock.LockOptions{RenewEvery: -1}},
			{"a", 1, &redlock.LockOptions{TTL: 300 * time.Millisecond}},
		} {
			if _, err := c.NewSemaphore(row.name, row.limit, row.opts); err == nil {
				t.Errorf("NewSemaphore(%q, %d, %+v) has no error", row.name, row.limit, row.opts)
			}
		}
		if _, err := connected(t, ms, &redlock.Options{DisableWakeups: true}).NewSemaphore("a", 1, nil); err == nil {
			t.Error("NewSemaphore without wake-ups has no error")
		}
		s := c.Semaphore("a", 200)
		for _, n := range []int{-1, 0, 129, 201} {
			if _, err := s.AcquireN(t.Context(), n); err == nil {
				t.Errorf("AcquireN(%d) of 200 has no error", n)
			}
		}
		p := acquire(t, s, 128)
		go c.Shutdown(t.Context())
		time.Sleep(time.Second)
		if err := p.Err(); err != nil {
			t.Errorf("Shutdown does not wait for the permits: %v", err)
		}
		if _, err := s.Acquire(t.Context()); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("Acquire after Shutdown: %v", err)
		}
		p.Release()
	})
}
