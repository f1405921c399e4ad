package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
	"github.com/redlock-go/redlock/redlocktest"
)

// fenced returns Options with fencing, and counts the acquisitions by the rounds
// that they took.
func fenced(rounds *sync.Map) *redlock.Options {
	return &redlock.Options{
		LockOptions: redlock.LockOptions{Fencing: true},
		Trace: &redlock.Trace{Acquired: func(_ context.Context, info redlock.AcquiredInfo) {
			if rounds != nil {
				n, _ := rounds.LoadOrStore(info.Rounds, 0)
				rounds.Store(info.Rounds, n.(int)+1)
			}
		}},
	}
}

// fenceAt returns the fence that a master keeps for a name.
func fenceAt(t *testing.T, m *redlocktest.Master, name string) int64 {
	t.Helper()
	text, ok := m.Get("redlock:fence:" + name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		t.Fatalf("%s keeps the fence %q", m.Name(), text)
	}
	return n
}

// number returns the part of a fence that masters agree on, and the handovers.
func number(fence uint64) (int64, uint64) { return int64(fence >> 10), fence & 1023 }

// ticks returns the number of a time: fences count quarters of a millisecond.
func ticks(t time.Time) int64 { return t.UnixMicro() / 250 }

func TestFencesRiseInOneRound(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		lockers := []*redlock.Locker{
			connected(t, ms, fenced(&rounds)).Locker("a"),
			connected(t, ms, fenced(&rounds)).Locker("a"),
			connected(t, ms, fenced(&rounds)).Locker("a"),
		}
		last := uint64(0)
		for i := range 300 {
			l := lockers[rand.N(len(lockers))]
			l.Lock() // many within one millisecond of this clock
			s := l.Lease()
			if s.Fence() <= last || s.Fence() >= 1<<53 {
				t.Fatalf("acquisition %d has fence %d after %d, want more, and below 2⁵³", i, s.Fence(), last)
			}
			last = s.Fence()
			l.Unlock()
			if s.Fence() != last {
				t.Errorf("the fence is %d after the unlock, was %d", s.Fence(), last)
			}
			if i%10 == 0 {
				time.Sleep(time.Millisecond)
			}
		}
		synctest.Wait()
		wantFree(t, ms, "a")
		if one, _ := rounds.Load(1); one == nil || one.(int) < 250 {
			t.Errorf("%v of 300 acquisitions took one round, want nearly all", one)
		}
		if ttl := ms.Master(0).TTL("redlock:fence:a"); ttl < 23*time.Hour || ttl > 24*time.Hour {
			t.Errorf("a fence is kept for %v, want a day", ttl)
		}
	})
}

func TestWithoutFencingThereIsNoFence(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		defer l.Unlock()
		var none *redlock.Lease
		if l.Lease().Fence() != 0 || none.Fence() != 0 {
			t.Errorf("fences %d and %d, want 0", l.Lease().Fence(), none.Fence())
		}
		if fenceAt(t, ms.Master(0), "a") != 0 {
			t.Error("a master keeps a fence")
		}
	})
}

func TestMastersThatDisagreeAreToldTheFence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		l := connected(t, ms, fenced(&rounds)).Locker("a")
		// Each has seen another acquisition last, a little ahead of our clock.
		now := ticks(time.Now().Add(500 * time.Millisecond))
		for i := range 5 {
			ms.Master(i).Set("redlock:fence:a", fmt.Sprint(now+int64(10*i)), time.Hour)
		}
		l.Lock()
		synctest.Wait()
		n, _ := number(l.Lease().Fence())
		exact := 0
		for i := range 5 {
			if fenceAt(t, ms.Master(i), "a") == n {
				exact++
			}
		}
		if n <= now+20 || exact < 3 {
			t.Errorf("the fence %d is kept by %d masters, want a quorum, and more than %d", n, exact, now+20)
		}
		if two, _ := rounds.Load(2); two != 1 {
			t.Errorf("%v acquisitions took two rounds, want 1", two)
		}
		first := l.Lease().Fence()
		l.Unlock()
		l.Lock()
		if again := l.Lease().Fence(); again <= first {
			t.Errorf("the next fence is %d after %d", again, first)
		}
		if one, _ := rounds.Load(1); one != 1 {
			t.Error("the next acquisition took more than one round, though we knew the highest fence")
		}
		l.Unlock()
	})
}

// A client whose clock is behind proposes what it has been told when it was refused.
func TestAClientWhoseClockIsBehindNeedsNoMoreRounds(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		opts := fenced(&rounds)
		opts.SetClocks(func() (wall, asleep time.Duration) { return -400 * time.Millisecond, 0 })
		other, l := connected(t, ms, fenced(nil)).Locker("a"), connected(t, ms, opts).Locker("a")
		time.Sleep(time.Second)
		other.Lock()
		synctest.Wait()
		ms.Master(0).Set("redlock:fence:a", fmt.Sprint(fenceAt(t, ms.Master(0), "a")+1), time.Hour) // by somebody who got no quorum
		for i := 1; i < 5; i++ {
			ms.Master(i).Delay(time.Millisecond) // that one answers first
		}
		if l.TryLock() {
			t.Fatal("TryLock of a held lock succeeded")
		}
		synctest.Wait()
		other.Unlock()
		l.Lock()
		defer l.Unlock()
		if one, _ := rounds.Load(1); one != 1 {
			t.Error("the acquisition took more than one round")
		}
	})
}

func TestAFenceIsNotCommittedFarAheadOfTheClock(t *testing.T) {
	for _, row := range []struct {
		name  string
		ahead time.Duration
		want  time.Duration // how long it takes, or 0 for an error
	}{
		{"within a second", 900 * time.Millisecond, time.Nanosecond},
		{"soon", 3 * time.Second, 2 * time.Second},
		{"too far", time.Minute, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, fenced(nil)).Locker("a")
				start := time.Now()
				for i := range 3 {
					ms.Master(i).Set("redlock:fence:a", fmt.Sprint(ticks(start.Add(row.ahead))), time.Hour)
				}
				err := l.TryLockContext(t.Context())
				switch took := time.Since(start); {
				case row.want == 0:
					if err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), "clocks must agree") {
						t.Errorf("TryLockContext = %v, want it to speak of clocks", err)
					}
					wantFree(t, ms, "a")
				case err != nil:
					t.Errorf("TryLockContext = %v", err)
				case took > row.want+100*time.Millisecond || took < row.want-100*time.Millisecond:
					t.Errorf("it took %v, want %v", took, row.want)
				}
			})
		})
	}
}

func TestEachLocalHolderHasItsOwnFence(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := fenced(nil)
		opts.LockOptions.Handover = time.Hour
		c := connected(t, ms, opts)
		const holders, turns = 10, 1000
		var mu sync.Mutex
		var fences []uint64
		acquired := make(map[string]int64) // the numbers of the acquisitions, by token
		most := uint64(0)                  // handovers of one acquisition
		var all sync.WaitGroup
		for range holders {
			l := c.Locker("a")
			all.Go(func() {
				for range turns {
					l.Lock()
					mu.Lock()
					f, token := l.Lease().Fence(), l.Lease().Token()
					n, handovers := number(f)
					fences, most = append(fences, f), max(most, handovers)
					if before, ok := acquired[token]; ok && before != n {
						t.Errorf("one acquisition has the numbers %d and %d", before, n)
					}
					acquired[token] = n
					mu.Unlock()
					l.Unlock()
				}
			})
		}
		all.Wait()
		if !slices.IsSorted(fences) || len(slices.Compact(slices.Clone(fences))) != holders*turns {
			t.Error("fences repeat, or do not rise in the order of holding")
		}
		// 10 000 turns do not fit into one acquisition's 10 bits.
		if len(acquired) < 3 || most != 1023 {
			t.Errorf("%d acquisitions of %d handovers at most, want 3, and 1023", len(acquired), most)
		}
	})
}

// What a master that forgets must not undo is bounded by how long acquisitions take.
func TestAFencedAcquisitionMustNotTakeLong(t *testing.T) {
	for _, row := range []struct {
		delay time.Duration // of each of two rounds
		ok    bool
	}{{2 * time.Second, true}, {3 * time.Second, false}} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			opts := fenced(nil) // of MaxTTL 10 s
			opts.NodeTimeout = 4 * time.Second
			c := connected(t, ms, opts)
			for i := range 3 {
				ms.Master(i).Set("redlock:fence:a", fmt.Sprint(ticks(time.Now())+int64(1000*i)), time.Hour)
				ms.Master(i).Delay(row.delay)
			}
			l := c.Locker("a")
			if err := l.TryLockContext(t.Context()); (err == nil) != row.ok || !row.ok && !strings.Contains(err.Error(), "with Fencing, 5s is the limit") {
				t.Errorf("after two rounds of %v: TryLockContext = %v, want success: %t", row.delay, err, row.ok)
			} else if row.ok {
				l.Unlock()
			}
		})
	}
}

func TestAHealRaisesTheFence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, fenced(nil)).Locker("a")
		l.Lock()
		synctest.Wait()
		n, _ := number(l.Lease().Fence())
		for _, key := range []string{"a", "redlock:fence:a"} {
			ms.Master(0).Del(key)
			ms.Master(1).Del(key)
		}
		ms.Master(1).Set("redlock:fence:a", fmt.Sprint(n+5), time.Hour) // somebody's who then lost
		time.Sleep(5 * time.Second)
		if token, _ := ms.Master(0).Get("a"); token != l.Lease().Token() {
			t.Errorf("master 1 holds %q, want it healed", token)
		}
		if got := fenceAt(t, ms.Master(0), "a"); got != n {
			t.Errorf("master 1's fence is %d after the heal, want %d", got, n)
		}
		if got := fenceAt(t, ms.Master(1), "a"); got != n+5 {
			t.Errorf("master 2's fence is %d after the heal, want it left at %d", got, n+5)
		}
		l.Unlock()
	})
}

func TestFencesRiseThroughLossesOfAllMemory(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, fenced(nil)).Locker("a"), connected(t, ms, fenced(nil)).Locker("a")
		last := uint64(0)
		for range 20 {
			for _, l := range []*redlock.Locker{a, b} {
				l.Lock()
				if f := l.Lease().Fence(); f <= last {
					t.Fatalf("fence %d after %d", f, last)
				} else {
					last = f
				}
				l.Unlock()
			}
			for i := range 3 { // a lock is had again when the quarantine has ended
				ms.Master(i).Stop()
				ms.Master(i).Forget()
				ms.Master(i).Start()
			}
		}
	})
}

// Keys that vanish let two hold at once. Then a fence is all that tells them
// apart: no two may have the same, and each must be above all that were had before
// its acquisition began.
func TestFencesAreDistinctThoughKeysVanish(t *testing.T) {
	const clients, turns = 4, 150
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex
		highest, seen := uint64(0), make(map[uint64]int)
		done := make(chan struct{})
		go func() {
			for {
				select {
				case <-done:
					return
				case <-time.After(rand.N(300 * time.Microsecond)):
					ms.Master(rand.N(3)).Del("a")
				}
			}
		}()
		for i := range 3 {
			ms.Master(i).Delay(time.Duration(50+10*i) * time.Microsecond)
		}
		var all sync.WaitGroup
		for i := range clients {
			l := ms.Open(fenced(nil)).Locker("a")
			all.Go(func() {
				for range turns {
					mu.Lock()
					before := highest
					mu.Unlock()
					if l.TryLockContext(t.Context()) != nil {
						time.Sleep(rand.N(time.Millisecond))
						continue
					}
					f := l.Lease().Fence()
					mu.Lock()
					if other, twice := seen[f]; twice || f <= before {
						t.Errorf("client %d has fence %d, which client %d had (%t), after %d", i, f, other, twice, before)
					}
					seen[f], highest = i, max(highest, f)
					mu.Unlock()
					time.Sleep(rand.N(500 * time.Microsecond))
					l.UnlockContext(t.Context())
				}
			})
		}
		all.Wait()
		close(done)
		if len(seen) < turns/4 {
			t.Errorf("only %d acquisitions succeeded", len(seen))
		}
	})
}

func TestAServerThatForbidsFencesSaysSo(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 3)
	c := openAs(t, servers, "+@all", "~a", "~redlock:queue:*", "~redlock:incarnation", "&*")
	l, err := c.NewLocker("a", &redlock.LockOptions{Fencing: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.TryLockContext(t.Context()); err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), "can't access") {
		t.Errorf("TryLockContext = %v, want it to say that fences are forbidden", err)
	}
	eventually(t, "no key is left", func() bool { return empty(t, servers) })
	if err := c.Locker("a").TryLockContext(t.Context()); err != nil {
		t.Errorf("without fencing: %v", err)
	}
}

func TestFencesAgreeOnRealServersAmongClients(t *testing.T) {
	servers := redisserver.AdoptedTB(t, 5)
	var all sync.WaitGroup
	var mu sync.Mutex
	last, n, once := uint64(0), 0, 0
	for range 4 {
		opts := fenced(nil)
		opts.Trace.Acquired = func(_ context.Context, info redlock.AcquiredInfo) {
			mu.Lock()
			defer mu.Unlock()
			if n++; info.Rounds == 1 {
				once++
			}
		}
		l := openReal(t, servers, opts).Locker("a")
		all.Go(func() {
			for range 200 {
				l.Lock()
				mu.Lock()
				if f := l.Lease().Fence(); f <= last {
					t.Errorf("fence %d after %d", f, last)
				} else {
					last = f
				}
				mu.Unlock()
				l.Unlock()
			}
		})
	}
	all.Wait()
	t.Logf("%d of %d acquisitions took one round", once, n)
}

func TestNumbersDoNotHoldUpALockThatIsTakenOften(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, fenced(nil)).Locker("a")
		for i := range 3 {
			ms.Master(i).Delay(150 * time.Microsecond)
		}
		start := time.Now()
		const turns = 3000
		for range turns {
			pass(l)
		}
		if took := time.Since(start); took > turns*400*time.Microsecond {
			t.Errorf("%d times took %v, want 300 µs each", turns, took)
		}
	})
}

func TestOnlyAFenceBoundsHandovers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Handover: time.Hour}})
		var mu sync.Mutex
		turns := make(map[string]int) // by token
		var all sync.WaitGroup
		for range 10 {
			l := c.Locker("a")
			all.Go(func() {
				for range 1000 {
					l.Lock()
					mu.Lock()
					turns[l.Lease().Token()]++
					mu.Unlock()
					l.Unlock()
				}
			})
		}
		all.Wait()
		if most := slices.Max(slices.Collect(maps.Values(turns))); most < 3000 {
			t.Errorf("a lease travelled %d times at most, want no bound but time", most)
		}
	})
}
