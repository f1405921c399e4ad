package contract_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestFencesRiseInOneRound(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		lockers := []*redlock.Locker{
			connected(t, ms, locktest.Fenced(&rounds)).Locker("a"),
			connected(t, ms, locktest.Fenced(&rounds)).Locker("a"),
			connected(t, ms, locktest.Fenced(&rounds)).Locker("a"),
		}
		last := uint64(0)
		for i := range 300 {
			l := lockers[rand.N(len(lockers))]
			l.Lock() // many acquisitions within one millisecond
			s := l.Lease()
			if s.Fence() <= last || s.Fence() >= 1<<53 {
				t.Fatalf("acquisition %d has fence %d after %d, want more, and below 2⁵³", i, s.Fence(), last)
			}
			last = s.Fence()
			// Another client locks next. After Unlock, it would contend with the release.
			if err := l.UnlockContext(t.Context()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
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

func TestMastersThatDisagreeGetTheAgreedFence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		l := connected(t, ms, locktest.Fenced(&rounds)).Locker("a")
		// Each master has seen another last acquisition, a little ahead of our clock.
		now := locktest.Ticks(time.Now().Add(500 * time.Millisecond))
		for i := range 5 {
			ms.Master(i).Set("redlock:fence:a", fmt.Sprint(now+int64(10*i)), time.Hour)
		}
		for i := range 4 {
			ms.Master(i).Delay(time.Millisecond) // the master with the highest fence is in the quorum
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
		if n <= now+40 || exact < 3 {
			t.Errorf("the fence %d is kept by %d masters, want a quorum, and more than %d", n, exact, now+40)
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

// A client whose clock is behind proposes the fence that it received when it was refused.
func TestAClientWhoseClockIsBehindNeedsNoMoreRounds(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		opts := locktest.Fenced(&rounds)
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return -400 * time.Millisecond, 0 })
		other, l := connected(t, ms, locktest.Fenced(nil)).Locker("a"), connected(t, ms, opts).Locker("a")
		time.Sleep(time.Second)
		other.Lock()
		synctest.Wait()
		ms.Master(0).Set("redlock:fence:a", fmt.Sprint(fenceAt(t, ms.Master(0), "a")+1), time.Hour) // by a client that got no quorum
		for i := 1; i < 5; i++ {
			ms.Master(i).Delay(time.Millisecond) // that master answers first
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

// A grant that arrives after the refusals of a quorum has raised that master's fence to the proposal, which
// the client has not received from any master. The next proposal must be above it all the same.
func TestAFenceGivenToAFailedAttemptIsNotProposedAgain(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		opts := locktest.Fenced(&rounds)
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return -400 * time.Millisecond, 0 })
		l := connected(t, ms, opts).Locker("a")
		for i := range 5 {
			ms.Master(i).Set("redlock:fence:a", fmt.Sprint(locktest.Ticks(time.Now())), time.Hour)
		}
		hold(ms, "a", 0, 1, 2, 3, 4)
		if l.TryLock() { // receives the fence
			t.Fatal("TryLock of a held lock succeeded")
		}
		synctest.Wait()
		for i := range 2 {
			ms.Master(i).Del("a")
			ms.Master(i).Delay(time.Millisecond) // the refusals of the others decide
		}
		if l.TryLock() {
			t.Fatal("TryLock of a held lock succeeded")
		}
		time.Sleep(10 * time.Millisecond)
		for i := range 5 {
			ms.Master(i).Del("a")
			ms.Master(i).Delay(0)
			if i >= 2 {
				ms.Master(i).Delay(time.Millisecond) // the first two are in the quorum
			}
		}
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
				l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
				start := time.Now()
				for i := range 3 {
					ms.Master(i).Set("redlock:fence:a", fmt.Sprint(locktest.Ticks(start.Add(row.ahead))), time.Hour)
				}
				err := l.TryLockContext(t.Context())
				switch took := time.Since(start); {
				case row.want == 0:
					if err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), "its fence for this name is 1m0s ahead of our clock") {
						t.Errorf("TryLockContext = %v, want it to name the masters and how far their fences are ahead", err)
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
		opts := locktest.Fenced(nil)
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

// An acquisition has a time limit, because the quarantine of a master that loses its memory relies on it.
func TestAFencedAcquisitionMustNotTakeLong(t *testing.T) {
	for _, row := range []struct {
		delay time.Duration // of each of the two rounds
		ok    bool
	}{{2 * time.Second, true}, {3 * time.Second, false}} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			opts := locktest.Fenced(nil) // of MaxTTL 10 s
			opts.NodeTimeout = 4 * time.Second
			c := connected(t, ms, opts)
			for i := range 3 {
				ms.Master(i).Set("redlock:fence:a", fmt.Sprint(locktest.Ticks(time.Now())+int64(1000*i)), time.Hour)
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

func TestFencesDoNotDelayALockThatIsTakenOften(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		for i := range 3 {
			ms.Master(i).Delay(150 * time.Microsecond)
		}
		start := time.Now()
		const turns = 1000
		for range turns {
			locktest.Pass(l)
		}
		if took := time.Since(start); took > turns*400*time.Microsecond {
			t.Errorf("%d times took %v, want 300 µs each", turns, took)
		}
	})
}
