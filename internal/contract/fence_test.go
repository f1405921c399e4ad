package contract_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
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

// The next tests are about a fence far ahead of the clock that was written by hand. It must not spread to other
// masters.

const (
	fenceKey = "redlock:fence:a"
	farAhead = 400 * 24 * time.Hour
)

// wantNear fails t unless the master's fence is near the clock.
func wantNear(t *testing.T, m *redlocktest.Master) {
	t.Helper()
	if n, now := fenceAt(t, m, "a"), locktest.Ticks(time.Now()); n > now+40 {
		t.Errorf("%s keeps a fence that is %v ahead of the clock", m.Name(), time.Duration(n-now)*250*time.Microsecond)
	}
}

func TestAFenceFarAheadOnOneMasterStaysThere(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var attempts, rounds int
		opts := locktest.Fenced(nil)
		opts.Trace.AttemptDone = func(_ context.Context, info redlock.AttemptInfo) { attempts++ }
		opts.Trace.Acquired = func(_ context.Context, info redlock.AcquiredInfo) { rounds += info.Rounds }
		c := connected(t, ms, opts)
		other := connected(t, ms, locktest.Fenced(nil))
		ms.Master(0).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), 10*time.Minute)
		for i := 1; i < 5; i++ {
			ms.Master(i).Delay(time.Millisecond) // the master with the high fence answers first
		}
		last := uint64(0)
		for range 8 {
			for _, l := range []*redlock.Locker{c.Locker("a"), other.Locker("a")} {
				if err := l.LockContext(t.Context()); err != nil {
					t.Fatal(err)
				}
				if f := l.Lease().Fence(); f <= last || f >= 1<<53 {
					t.Errorf("fence %d after %d", f, last)
				} else {
					last = f
				}
				// The other client is refused, and learns the master's fence.
				if other.Locker("a").TryLock() || c.Locker("a").TryLock() {
					t.Fatal("TryLock of a held lock succeeded")
				}
				time.Sleep(5 * time.Second)
				l.UnlockContext(t.Context())
				synctest.Wait()
				for i := 1; i < 5; i++ {
					wantNear(t, ms.Master(i))
				}
			}
		}
		if rounds > 10 {
			t.Errorf("8 acquisitions took %d rounds, want one each: the number that is refused is not proposed", rounds)
		}
		if left := ms.Master(0).TTL(fenceKey); left > 10*time.Minute-80*time.Second {
			t.Errorf("after 80 s the fence that was to live for ten minutes lives for %v more: attempts renew it", left)
		}
		time.Sleep(10 * time.Minute)
		locktest.Pass(c.Locker("a"))
		synctest.Wait()
		wantNear(t, ms.Master(0)) // the fence has expired
	})
}

func TestAMasterWhoseFenceIsFarAheadIsNamed(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, locktest.Fenced(nil))
		for i := range 2 {
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), 10*time.Minute)
		}
		ms.Master(2).Set(fenceKey, "999999999999999", time.Hour)
		const want = "(master 1, master 2: its fence for this name is 9600h0m0s ahead of our clock; master 3: its fence for this name is "
		err := c.Locker("a").TryLockContext(t.Context())
		if err == nil || errors.Is(err, redlock.ErrHeld) || !strings.Contains(err.Error(), want) {
			t.Errorf("TryLockContext = %v, want it to name the masters: %s", err, want)
		}
		wantFree(t, ms, "a")
		wantNear(t, ms.Master(3))
		wantNear(t, ms.Master(4))
	})
}

// A fence may be overwritten between the two rounds of an acquisition.
func TestAFenceFarAheadIsFoundInTheSecondRound(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		for i := range 5 { // the masters have different fences
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now())+int64(10*i)), time.Hour)
			ms.Master(i).Delay(10 * time.Millisecond)
		}
		result := make(chan error)
		go func() { result <- l.TryLockContext(t.Context()) }()
		time.Sleep(15 * time.Millisecond) // the commits are on their way
		for i := range 3 {
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead+time.Minute))), time.Hour)
		}
		const want = "its fence for this name is 9600h"
		if err := <-result; err == nil || strings.Count(err.Error(), want) != 1 || !strings.Contains(err.Error(), "(master 1, master 2, master 3: "+want) {
			t.Errorf("TryLockContext = %v, want it to name three masters: %s", err, want)
		}
		time.Sleep(50 * time.Millisecond)
		wantFree(t, ms, "a")
		wantNear(t, ms.Master(3))
		wantNear(t, ms.Master(4))
	})
}

// A master compares a fence with its own clock before it raises its fence.
func TestAClientWhoseClockIsFarAheadDoesNotSpreadAFence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := locktest.Fenced(nil)
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return farAhead + time.Hour, 0 })
		c := connected(t, ms, opts)
		ms.Master(0).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), 10*time.Minute)
		for i := 3; i < 5; i++ {
			ms.Master(i).Delay(time.Millisecond) // the first is among the quorum that answers
		}
		err := c.Locker("a").TryLockContext(t.Context())
		if err == nil || !strings.Contains(err.Error(), "the fence is 34563600 s ahead of this server's clock") {
			t.Errorf("TryLockContext = %v, want the masters to refuse the fence", err)
		}
		synctest.Wait()
		for i := 1; i < 5; i++ {
			if n, latest := fenceAt(t, ms.Master(i), "a"), locktest.Ticks(time.Now().Add(time.Second)); n > latest {
				t.Errorf("%s keeps a fence that is %v ahead of the clock", ms.Master(i).Name(), time.Duration(n-latest)*250*time.Microsecond)
			}
		}
	})
}

// A fence that is only a little ahead of the clock is spread after the client has waited for the clock.
func TestAFenceIsSpreadWhenTheClockHasComeNearIt(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		at := time.Now().Add(4 * time.Second)
		ms.Master(0).Set(fenceKey, fmt.Sprint(locktest.Ticks(at)), time.Hour)
		for i := 3; i < 5; i++ {
			ms.Master(i).Delay(time.Millisecond) // the first is among the quorum that answers
		}
		in := locktest.Enter(l)
		time.Sleep(2900 * time.Millisecond)
		synctest.Wait()
		for i := 1; i < 5; i++ {
			if n := fenceAt(t, ms.Master(i), "a"); n >= locktest.Ticks(at) {
				t.Errorf("%s was raised to a fence that is %v ahead of the clock", ms.Master(i).Name(), time.Until(at))
			}
		}
		<-in
		if until := time.Until(at); until > time.Second {
			t.Errorf("a fence is committed %v before its time, want a second at most", until)
		}
		if n, _ := number(l.Lease().Fence()); n <= locktest.Ticks(at) {
			t.Errorf("the fence is %d, want more than %d", n, locktest.Ticks(at))
		}
		l.Unlock()
	})
}

// Fences that a client received while its clock was wrong must not be proposed later.
func TestAFenceReceivedWhileTheClockWasWrongIsNotProposed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var off atomic.Int64
		off.Store(int64(farAhead))
		opts := locktest.Fenced(nil)
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return time.Duration(off.Load()), 0 })
		c := connected(t, ms, opts)
		l := c.Locker("a")
		for i := range 3 {
			ms.Master(i).Set(fenceKey, fmt.Sprint(locktest.Ticks(time.Now().Add(farAhead))), 10*time.Minute)
			ms.Master(i).Set("a", "somebody's", time.Minute)
		}
		if l.TryLock() {
			t.Fatal("TryLock of a held lock succeeded")
		}
		synctest.Wait() // all masters have refused it
		off.Store(0)
		for i := range 3 {
			ms.Master(i).Del(fenceKey)
			ms.Master(i).Del("a")
		}
		l.Lock()
		synctest.Wait()
		for i := range 3 {
			wantNear(t, ms.Master(i))
		}
		l.Unlock()
	})
}

func TestAHealRaisesTheFence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, locktest.Fenced(nil)).Locker("a")
		l.Lock()
		synctest.Wait()
		n, _ := number(l.Lease().Fence())
		for _, key := range []string{"a", "redlock:fence:a"} {
			ms.Master(0).Del(key)
			ms.Master(1).Del(key)
		}
		ms.Master(1).Set("redlock:fence:a", fmt.Sprint(n+5), time.Hour) // given to another client, whose acquisition failed
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
		a, b := connected(t, ms, locktest.Fenced(nil)).Locker("a"), connected(t, ms, locktest.Fenced(nil)).Locker("a")
		last := uint64(0)
		for range 8 {
			for _, l := range []*redlock.Locker{a, b} {
				l.Lock()
				if f := l.Lease().Fence(); f <= last {
					t.Fatalf("fence %d after %d", f, last)
				} else {
					last = f
				}
				l.Unlock()
			}
			for i := range 3 { // the next lock is acquired after the quarantine
				ms.Master(i).Stop()
				ms.Master(i).Forget()
				ms.Master(i).Start()
			}
		}
	})
}

// If keys are lost, two clients may hold the lock at once. Then only the fences distinguish them: no two may
// have the same fence, and each fence must be above all fences given before its acquisition began.
func TestFencesAreDistinctThoughKeysVanish(t *testing.T) {
	const clients, turns = 4, 75
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
			l := ms.Open(locktest.Fenced(nil)).Locker("a")
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

// The masters do not know how often a writer's lease was handed over.
func TestAReadersFenceIsNotBelowThatOfAWriterWhoseLeaseWasHandedOver(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{Fencing: true}}
		a, b := connected(t, ms, opts).RWLocker("stock"), connected(t, ms, opts).RWLocker("stock")
		var last uint64
		a.Lock()
		var all sync.WaitGroup
		for range 3 {
			all.Go(func() {
				a.Lock()
				last = a.Locker().Lease().Fence()
				a.Unlock()
			})
		}
		synctest.Wait()
		a.Unlock()
		all.Wait()
		if last&1023 != 3 {
			t.Fatalf("the last writer's fence is %d, want one of a lease that was handed over three times", last)
		}
		b.RLock()
		read := b.RLocker().Lease().Fence()
		b.RUnlock()
		a.Lock()
		next := a.Locker().Lease().Fence()
		a.Unlock()
		if read < last || next <= read {
			t.Errorf("fences of a writer, a reader and a writer: %d, %d, %d", last, read, next)
		}
	})
}

// The masters that gave a writer its number lose it, and those that are left have an earlier one.
func TestAReadersFenceIsNotBelowThatOfAWriterWhoseMastersHaveLostIt(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, Fencing: true}, MaxTTL: time.Second}
		a, b := connected(t, ms, opts).RWLocker("stock"), connected(t, ms, opts).RWLocker("stock")
		write := func() uint64 {
			a.Lock()
			defer a.Unlock()
			return a.Locker().Lease().Fence()
		}
		write()
		synctest.Wait()
		for i := range 2 {
			ms.Master(i).Stop()
		}
		time.Sleep(time.Second)
		last := write()
		synctest.Wait()
		for i := range 2 {
			ms.Master(i).Start()
		}
		for i := 2; i < 4; i++ {
			ms.Master(i).Stop()
			ms.Master(i).Forget()
			ms.Master(i).Start()
		}
		ms.Master(4).Stop()
		b.RLock() // when the quarantines are over
		read := b.RLocker().Lease().Fence()
		b.RUnlock()
		if next := write(); read < last || next <= read {
			t.Errorf("fences of a writer, a reader and a writer: %d, %d, %d", last, read, next)
		}
	})
}

// A release says how the lock is passed on, and proposes a fence for the next lease if its own has one.
func TestAReleaseSaysHowTheLockIsPassedOnAndProposesAFence(t *testing.T) {
	for _, fenced := range []bool{false, true} {
		bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
			l := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Fencing: fenced}}).Locker("a")
			before := len(ms.Master(0).Commands())
			least := time.Now().UnixMicro() / 250
			for range 100 { // every second one leaves the lock open
				take(l)
				l.Unlock()
			}
			synctest.Wait()
			seen := map[string]int{"": 0, "-": 0, "open": 0} // by how the lock is passed on
			word := regexp.MustCompile(` (?:release|"release 0 (-|open) (\d+)") `)
			for _, command := range ms.Master(0).Commands()[before:] {
				for _, m := range word.FindAllStringSubmatch(command, -1) {
					seen[m[1]]++
					if fence, _ := strconv.ParseInt(m[2], 10, 64); fenced && fence <= least || !fenced && fence != 0 {
						t.Errorf("fencing: %t: the release %q proposes %d", fenced, m[0], fence)
					}
				}
			}
			usual, other := "", "-"
			if fenced {
				usual, other = other, usual
			}
			if seen[usual] == 0 || seen["open"] == 0 || seen[other] != 0 {
				t.Errorf("fencing: %t: the releases pass the lock on like this: %v", fenced, seen)
			}
		})
	}
}
