package contract_test

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAClientWithoutWakeUpsLeavesAGapBehindEachRelease(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const oneWay, passes = 5 * time.Millisecond, 10
		l := openAt(ms, oneWay, &redlock.Options{DisableWakeups: true}).Locker("a")
		began := time.Now()
		for range passes {
			locktest.Pass(l)
		}
		if took, want := time.Since(began), (2*passes-1)*2*oneWay; took != want {
			t.Errorf("%d passes took %v, want %v", passes, took, want)
		}
	})
}

// Clients that do not queue find a lock free only while its holder does not request it again. A client that
// locks and unlocks in a loop must leave such gaps.
func TestALoopOfLocksLeavesGaps(t *testing.T) {
	poll := func() redlock.BackOff {
		return locktest.BackOffFunc(func() time.Duration { return 7 * time.Millisecond })
	}
	for _, row := range []struct {
		name          string
		loop, polling redlock.Options
		lock          func(l *redlock.Locker)
	}{
		{"beside a client without wake-ups", redlock.Options{}, redlock.Options{DisableWakeups: true, NewBackOff: poll}, (*redlock.Locker).Lock},
		{"without wake-ups", redlock.Options{DisableWakeups: true}, redlock.Options{DisableWakeups: true, NewBackOff: poll}, (*redlock.Locker).Lock},
		{"by TryLock", redlock.Options{}, redlock.Options{DisableWakeups: true, NewBackOff: poll}, untilTried},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				loop := openAt(ms, 5*time.Millisecond, &row.loop).Locker("a")
				polling := openAt(ms, 5*time.Millisecond, &row.polling).Locker("a")
				loop.Lock()
				entered := make(chan struct{})
				go func() {
					defer close(entered)
					locktest.Pass(polling)
				}()
				for end := time.Now().Add(time.Minute); ; {
					loop.Unlock()
					row.lock(loop)
					select {
					case <-entered:
						loop.Unlock()
						return
					default:
					}
					if time.Now().After(end) {
						t.Error("a client that polls has not got the lock in a minute")
						loop.Unlock()
						<-entered
						return
					}
				}
			})
		})
	}
}

// untilTried calls l.TryLock until it succeeds.
func untilTried(l *redlock.Locker) {
	for !l.TryLock() {
		time.Sleep(time.Millisecond)
	}
}

// A release and the next acquisition of the name share a call at each master, also where some masters are nearer than others.
func TestAReleaseAndTheNextAcquisitionShareACallAtAnyDistance(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const passes = 64
		l := ms.WithDelays(1e6, 1e6, 5e6, 5e6, 5e6).Open(nil).Locker("a")
		time.Sleep(time.Second)
		for range passes {
			locktest.Pass(l)
		}
		time.Sleep(time.Second)
		for i := range ms.Len() {
			shared := 0
			for _, c := range ms.Master(i).Commands() {
				if strings.Contains(c, `"register `) && strings.Contains(c, "release") {
					shared++
				}
			}
			// One acquisition in 17 waits for the answer to the release before, and some come when the release was just sent.
			if shared < passes/2 {
				t.Errorf("%d of %d acquisitions share a call with the release before at master %d, want about 60", shared, passes, i+1)
			}
		}
	})
}

// With the defaults, no attempt fails on a network with round trips of 40 ms.
func TestNoAttemptFailsOnASlowNetwork(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		failed := 0
		c := openAt(ms, 20*time.Millisecond, &redlock.Options{Trace: &redlock.Trace{
			AttemptDone: func(_ context.Context, info redlock.AttemptInfo) {
				if info.Err != nil {
					failed++
				}
			},
			Released: func(_ context.Context, info redlock.ReleasedInfo) {
				if info.Err != nil {
					t.Errorf("the release of %q: %v", info.Name, info.Err)
				}
			},
		}})
		l := c.Locker("a")
		for i := range 100 {
			locktest.Pass(l)
			locktest.Pass(c.Locker(fmt.Sprint(i)))
		}
		synctest.Wait()
		if failed > 0 {
			t.Errorf("%d of 200 attempts failed", failed)
		}
	})
}

// When Unlock has returned, the lock is free. But a client that waits gets it before the Client that has just
// released it. A TryLock, which does not wait, may take a lock that the release has left open.
func TestTheNextLockOfAClientDoesNotOvertakeAWaiter(t *testing.T) {
	near := []time.Duration{1e6, 1e6, 1e6, 1e6, 1e6}
	far := []time.Duration{20e6, 20e6, 20e6, 20e6, 20e6}
	for _, row := range []struct {
		name   string
		unlock func(l *redlock.Locker)
		most   int // how many TryLocks of ten may succeed: one release in twelve leaves the lock open
	}{
		{"Unlock", (*redlock.Locker).Unlock, 0},
		{"UnlockContext", func(l *redlock.Locker) { l.UnlockContext(context.Background()) }, 6},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				a := ms.WithDelays(near...).Open(nil).Locker("a")
				w := ms.WithDelays(far...).Open(nil).Locker("a")
				time.Sleep(time.Second)
				overtaken := 0
				for range 10 {
					a.Lock()
					entered := make(chan struct{})
					go func() {
						w.Lock()
						close(entered)
						w.Unlock()
					}()
					time.Sleep(200 * time.Millisecond) // the waiter has joined the queue
					row.unlock(a)
					if a.TryLock() {
						overtaken++
						a.Unlock()
					}
					for i := range ms.Len() {
						if n := len(queue(t, ms, i, "a")); n > 1 {
							t.Errorf("TryLock has joined the queue of master %d", i)
						}
					}
					a.Lock()
					select {
					case <-entered:
					default:
						t.Error("Lock has overtaken a client that waits")
					}
					a.Unlock()
					<-entered
					time.Sleep(100 * time.Millisecond)
				}
				if overtaken > row.most {
					t.Errorf("%d TryLocks of ten have overtaken a client that waits, want %d at most", overtaken, row.most)
				}
			})
		})
	}
}

// hammer does the same as HammerMutex in the tests of package sync.
func hammer(l *redlock.Locker, loops int) {
	for i := range loops {
		if i%3 == 0 {
			if l.TryLock() {
				l.Unlock()
			}
			continue
		}
		locktest.Pass(l)
	}
}

func TestManyGoroutinesHammerALocker(t *testing.T) {
	for _, opts := range []*redlock.Options{nil, noHandover()} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			c := ms.WithDelays(1e6, 2e6, 3e6, 4e6, 5e6).Open(opts)
			time.Sleep(time.Second)
			l := c.Locker("a")
			if !l.TryLock() {
				t.Fatal("TryLock failed with the lock unlocked")
			}
			if l.TryLock() {
				t.Fatal("TryLock succeeded with the lock locked")
			}
			l.Unlock()
			if !l.TryLock() {
				t.Fatal("TryLock failed right after Unlock")
			}
			l.Unlock()
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() { hammer(l, 50) })
			}
			wg.Wait()
			time.Sleep(time.Second)
			wantFree(t, ms, "a")
		})
	}
}

// This is TestMutexFairness of package sync: a goroutine that holds the lock for long, again and again, must
// not starve one that needs it for a moment.
func TestALongHoldStarvesNoWaiter(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := openAt(ms, time.Millisecond, noHandover())
		l := c.Locker("a")
		stop := make(chan struct{})
		done := make(chan struct{})
		go func() {
			defer close(done)
			for {
				l.Lock()
				time.Sleep(100 * time.Microsecond)
				l.Unlock()
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
		began := time.Now()
		for range 10 {
			time.Sleep(100 * time.Microsecond)
			locktest.Pass(l)
		}
		close(stop)
		<-done
		if took := time.Since(began); took > 100*time.Millisecond {
			t.Errorf("10 passes beside a greedy goroutine took %v", took)
		}
	})
}

// The next tests use two Clients. One is near the masters and locks again and again. The other is far from them
// and waits. Whatever the way in which the first Client releases the lock, the second must get its turn.

// testTurns makes a far Client wait while a near one locks, and releases the lock by leave, again and again.
func testTurns(t *testing.T, opts *redlock.Options, leave func(l *redlock.Locker)) {
	t.Helper()
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := openAt(ms, 100*time.Microsecond, opts).Locker("a")
		l.Lock()
		waiter := openAt(ms, 5*time.Millisecond, nil).Locker("a")
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		in := make(chan error, 1)
		go func() {
			err := waiter.LockContext(ctx)
			if err == nil {
				defer waiter.Unlock()
			}
			in <- err
		}()
		time.Sleep(50 * time.Millisecond)
		turns := 0
		for ; len(in) == 0; turns++ {
			leave(l)
			l.Lock()
		}
		if err := <-in; err != nil {
			t.Fatalf("the waiter's LockContext = %v after %d turns of the other", err, turns)
		}
		if turns > 3 {
			t.Errorf("the other had %d turns first, want 3 at most", turns)
		}
		l.Unlock()
	})
}

func TestAHolderWhoseLeaseEndsByMaxHoldLeavesTheLockToAWaiter(t *testing.T) {
	opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, MaxHold: 2 * time.Second, Handover: -1}}
	testTurns(t, opts, func(l *redlock.Locker) {
		<-l.Lease().Done()
		l.Unlock()
	})
}

func TestAHolderThatDoesNotWaitForItsReleaseLeavesTheLockToAWaiter(t *testing.T) {
	over, cancel := context.WithCancel(context.Background())
	cancel()
	testTurns(t, noHandover(), func(l *redlock.Locker) {
		time.Sleep(time.Millisecond)
		l.UnlockContext(over)
	})
}

// Clients that are granted the lock hand it to each other without a gap. Others must get their turns, too.
func TestClientsWithoutRenewalOrWakeUpsGetTheirTurns(t *testing.T) {
	for _, row := range []struct {
		name string
		opts redlock.Options
		last time.Duration // how long the clients go on
		most time.Duration // the longest wait; a turn of all takes 40 ms
	}{
		{"without renewal", redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}, 2 * time.Second, time.Second},
		{"without wake-ups", redlock.Options{DisableWakeups: true}, 6 * time.Second, 4 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				d := time.Millisecond
				far := ms.WithDelays(d, d, d, d, d)
				var all []*redlock.Client
				for range 3 {
					all = append(all, far.Open(nil))
				}
				all = append(all, far.Open(&row.opts))
				time.Sleep(2 * time.Second)
				ctx, cancel := context.WithTimeout(t.Context(), row.last)
				defer cancel()
				var wg sync.WaitGroup
				var turns [4]int
				var longest [4]time.Duration
				for i, c := range all {
					wg.Go(func() {
						l := c.Locker("a")
						for {
							began := time.Now()
							err := l.LockContext(ctx)
							longest[i] = max(longest[i], time.Since(began))
							if err != nil {
								return
							}
							turns[i]++
							time.Sleep(10 * time.Millisecond)
							l.Unlock()
						}
					})
				}
				wg.Wait()
				t.Logf("turns %v, longest waits %v", turns, longest)
				if longest[3] > row.most {
					t.Errorf("the client waited for up to %v, want %v at most", longest[3], row.most)
				}
			})
		})
	}
}

// A lockerContext is a Locker, or the writers' side of an RWLocker.
type lockerContext interface {
	LockContext(context.Context) error
	Unlock()
}

// turnsOf has each of these acquire and release its lock in a loop, and returns how often each had it.
func turnsOf(t *testing.T, last, held time.Duration, lockers ...lockerContext) []int {
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	turns := make([]int, len(lockers))
	var wg sync.WaitGroup
	for i, l := range lockers {
		wg.Go(func() {
			for l.LockContext(ctx) == nil {
				turns[i]++
				time.Sleep(held)
				l.Unlock()
			}
		})
	}
	wg.Wait()
	return turns
}

// Near clients do not take the lock while a message about a grant travels, however far away the client is.
func TestAClientFarAwayGetsItsTurnsWhateverItLocks(t *testing.T) {
	for _, row := range []struct {
		name   string
		locker func(c *redlock.Client) lockerContext
	}{
		{"without renewal", func(c *redlock.Client) lockerContext {
			l, err := c.NewLocker("a", &redlock.LockOptions{RenewEvery: -1})
			if err != nil {
				t.Fatal(err)
			}
			return l
		}},
		{"a set", func(c *redlock.Client) lockerContext { return c.Locker("a", "b") }},
		{"a writer", func(c *redlock.Client) lockerContext { return c.RWLocker("a").Locker() }},
	} {
		for _, far := range []time.Duration{200 * time.Millisecond, 700 * time.Millisecond} {
			t.Run(row.name+", "+far.String(), func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
					near, away := ms.WithDelays(time.Millisecond, time.Millisecond, time.Millisecond), ms.WithDelays(far/2, far/2, far/2)
					opts := &redlock.Options{NodeTimeout: 2 * time.Second, DialTimeout: 10 * time.Second}
					lockers := []lockerContext{row.locker(away.Open(opts)), row.locker(near.Open(nil)), row.locker(near.Open(nil))}
					time.Sleep(8 * time.Second)
					last := 10 * time.Second
					turns := turnsOf(t, last, 50*time.Millisecond, lockers...)
					t.Logf("turns %d", turns)
					// Its way to the masters and back for the wake-up, and that of its release, block all.
					if want := int(last / (6*far + time.Second)); turns[0] < want {
						t.Errorf("the client at %v has had the lock %d times in %v, want %d at least", far, turns[0], last, want)
					}
				})
			})
		}
	}
}

// Clients whose leases are renewed and clients whose leases are not exclude each other. Both kinds get their turns.
func TestClientsWithAndWithoutRenewalTakeTurns(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const each, way, turns = 2, time.Millisecond, 200
		far := ms.WithDelays(way, way, way)
		var mu sync.Mutex // guards what follows
		var inside int
		var got [2]int
		stop := make(chan struct{})
		var all sync.WaitGroup
		for kind := range got {
			opts := &redlock.Options{}
			if kind == 1 {
				opts.LockOptions.RenewEvery = -1
			}
			for range each {
				l := far.Open(opts).Locker("a")
				all.Go(func() {
					for {
						select {
						case <-stop:
							return
						default:
						}
						l.Lock()
						mu.Lock()
						if inside++; inside > 1 {
							t.Error("two clients have the lock")
						}
						got[kind]++
						if got[0]+got[1] == turns {
							close(stop)
						}
						mu.Unlock()
						time.Sleep(time.Millisecond)
						mu.Lock()
						inside--
						mu.Unlock()
						l.Unlock()
					}
				})
			}
		}
		began := time.Now()
		all.Wait()
		t.Logf("%v turns of those whose leases are renewed, and of the others, in %v", got, time.Since(began))
		for kind, n := range got {
			if n < turns/10 {
				t.Errorf("clients of kind %d got %d of %d turns, want at least a tenth", kind, n, turns)
			}
		}
	})
}

// A right is that of a user at a master, to subscribe.
type right struct {
	denied atomic.Bool
}

// A deniedConn is a connection of a user that may have no right to subscribe. The server answers by an error then.
type deniedConn struct {
	net.Conn
	right *right
}

func (c *deniedConn) Write(p []byte) (int, error) {
	if c.right.denied.Load() {
		p = bytes.ReplaceAll(p, []byte("\r\nSUBSCRIBE\r\n"), []byte("\r\nNOPERMSUB\r\n"))
	}
	n, err := c.Conn.Write(p)
	return n, err
}

// openWithRights returns a Client that may subscribe only where it has the right.
func openWithRights(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) (*redlock.Client, []*right) {
	t.Helper()
	var pools []*redis.Pool
	var rights []*right
	for i := range ms.Len() {
		r := &right{}
		rights = append(rights, r)
		pools = append(pools, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := ms.Master(i).Dial(ctx)
			if err != nil {
				return nil, err
			}
			return redis.NewConn(&deniedConn{conn, r}, 0, 0), nil
		}})
	}
	c, err := redlock.New(pools, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c, rights
}

// Clients that poll get their turns beside clients that are granted the lock, and do not hold those up.
func TestClientsThatPollTakeTurnsWithThoseThatAreGranted(t *testing.T) {
	noWakeups, unrenewed := &redlock.Options{DisableWakeups: true}, &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}
	for _, row := range []struct {
		name            string
		opts            *redlock.Options // of those that poll
		denied          int              // at how many of five masters they may not subscribe
		pollers, others int
	}{
		{"one without wake-ups", noWakeups, 0, 1, 2},
		{"two without wake-ups", noWakeups, 0, 2, 1},
		{"one without a subscription", nil, 5, 1, 2},
		{"two without a subscription", nil, 5, 2, 1},
		{"a subscription at one master", nil, 4, 1, 2},
		{"a subscription at one master, without renewal", unrenewed, 4, 1, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				ms = ms.WithDelays(1e6, 1e6, 1e6, 1e6, 1e6)
				var all []*redlock.Client
				for range row.pollers {
					c, rights := openWithRights(t, ms, row.opts)
					for _, r := range rights[:row.denied] {
						r.denied.Store(true)
					}
					all = append(all, c)
				}
				for range row.others {
					all = append(all, ms.Open(nil))
				}
				time.Sleep(2 * time.Second)
				turns, longest := loops(t, 4*time.Second, all...)
				t.Logf("turns %v, longest waits %v", turns, longest)
				for i := range all {
					least, most := 2, 3*time.Second // they queue after a second
					if i >= row.pollers {
						least, most = 10, time.Second // a lock is reserved for those that poll for up to 400 ms
					}
					if turns[i] < least || longest[i] > most {
						t.Errorf("client %d had %d turns and waited for up to %v, want %d or more, and %v at most", i, turns[i], longest[i], least, most)
					}
				}
			})
		})
	}
}

// A client whose schedule has long pauses is not taken for one that is stopped: it has its turn
// although no release falls into the time after one of its attempts.
func TestAClientWithLongPausesTakesItsTurn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const hold = time.Second
		rare := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1},
			NewBackOff: func() redlock.BackOff { return backoff.NewConstantBackOff(2 * hold) }})
		ctx, cancel := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for range 2 {
			l := ms.Open(nil).Locker("a")
			others.Go(func() {
				for l.LockContext(ctx) == nil {
					time.Sleep(hold)
					l.Unlock()
				}
			})
		}
		time.Sleep(hold / 5) // its attempts fall between two releases
		began := time.Now()
		limited, end := context.WithTimeout(ctx, 20*hold)
		defer end()
		if err := rare.Locker("a").LockContext(limited); err != nil {
			t.Errorf("not acquired in %v: %v", time.Since(began), err)
		}
		cancel()
		others.Wait()
	})
}

// A TryLock joins no queue. It finds the lock free when a release leaves it open, even if its own Client had it last.
func TestATryLockLoopTakesTurnsBesideThoseThatQueue(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		ms = ms.WithDelays(2500*time.Microsecond, 2500*time.Microsecond, 2500*time.Microsecond)
		all := []lockerContext{tryLoop{ms.Open(nil).Locker("a")}}
		for range 4 {
			all = append(all, ms.Open(nil).Locker("a"))
		}
		time.Sleep(time.Second)
		turns, sum := turnsOf(t, 3*time.Second, time.Millisecond, all...), 0
		for _, n := range turns {
			sum += n
		}
		t.Logf("turns %d", turns)
		if least := sum * 3 / 100; turns[0] < least { // on average 8 %
			t.Errorf("the client that does not queue had %d turns of %d, want %d or more", turns[0], sum, least)
		}
	})
}

// A lock that was granted to a client far away is not free for a TryLock near the masters.
func TestATryLockLoopDoesNotStarveAClientFarAway(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		near, away := ms.WithDelays(5e6, 5e6, 5e6), ms.WithDelays(1e8, 1e8, 1e8)
		far, err := away.Open(&redlock.Options{NodeTimeout: 2 * time.Second, DialTimeout: 10 * time.Second}).NewLocker("a", &redlock.LockOptions{RenewEvery: -1})
		if err != nil {
			t.Fatal(err)
		}
		loop := tryLoop{near.Open(nil).Locker("a")}
		time.Sleep(4 * time.Second)
		turns := turnsOf(t, 5*time.Second, 20*time.Millisecond, far, loop)
		t.Logf("turns %d", turns)
		if turns[0] < 5 {
			t.Errorf("the client far away had %d turns, want 5 or more", turns[0])
		}
	})
}

// A tryLoop locks by TryLock, again and again.
type tryLoop struct{ *redlock.Locker }

func (l tryLoop) LockContext(ctx context.Context) error {
	for ctx.Err() == nil {
		if l.TryLockContext(ctx) == nil {
			return nil
		}
	}
	return ctx.Err()
}

// Two of the five masters are far from one client, so it needs all of the others, which its neighbours do not.
func TestAClientFarFromAMinorityGetsItsTurns(t *testing.T) {
	const near, far, held = 2 * time.Millisecond, 80 * time.Millisecond, 2 * time.Millisecond
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		locker := func(delays ...time.Duration) lockerContext {
			opts := &redlock.Options{MaxTTL: time.Second, LockOptions: redlock.LockOptions{TTL: time.Second}}
			return ms.WithDelays(delays...).Open(opts).Locker("a")
		}
		lockers := []lockerContext{locker(far, far, near, near, near)}
		for range 4 {
			lockers = append(lockers, locker(near, near, near, near, near))
		}
		time.Sleep(4 * time.Second)
		turns := turnsOf(t, 2*time.Second, held, lockers...)
		t.Logf("turns %d", turns)
		if others := turns[1] + turns[2] + turns[3] + turns[4]; turns[0]*8 < others {
			t.Errorf("the client that is far from two masters has had the lock %d times, want half of the %d of each other", turns[0], others/4)
		}
	})
}
