package contract_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
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

// oneWay returns delays for a client at the same distance from all five masters.
func oneWay(d time.Duration) []time.Duration { return []time.Duration{d, d, d, d, d} }

func TestALockIsAcquiredOverAnyDistanceWithDefaults(t *testing.T) {
	near := time.Millisecond / 2
	for _, row := range []struct {
		name   string
		oneWay []time.Duration
	}{
		{"here", oneWay(0)},
		{"90 ms round trip to all", oneWay(45 * time.Millisecond)},
		{"a quorum is near", []time.Duration{near, near, near, 45 * time.Millisecond, 45 * time.Millisecond}},
		{"a quorum needs one that is far", []time.Duration{near, near, 45 * time.Millisecond, 45 * time.Millisecond, 45 * time.Millisecond}},
		{"all at different distances", []time.Duration{near, 10 * time.Millisecond, 30 * time.Millisecond, 60 * time.Millisecond, 90 * time.Millisecond}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				far := ms.WithDelays(row.oneWay...)
				for range 5 { // each is the first call of a new client
					c := far.Open(nil)
					l := c.Locker("a")
					if err := l.TryLockContext(t.Context()); err != nil {
						t.Fatalf("a new client: %v", err)
					}
					if err := l.UnlockContext(t.Context()); err != nil {
						t.Errorf("a new client's unlock: %v", err)
					}
					c.Close()
				}
				c := far.Open(nil)
				fenced, err := c.NewLocker("fenced", &redlock.LockOptions{Fencing: true})
				if err != nil {
					t.Fatal(err)
				}
				for i := range 5 {
					if err := c.Ping(t.Context()); err != nil {
						t.Errorf("Ping = %v", err)
					}
					for _, l := range []*redlock.Locker{c.Locker("a"), fenced} {
						if err := l.TryLockContext(t.Context()); err != nil {
							t.Fatalf("%s: %v", l.Name(), err)
						}
						if i == 0 {
							time.Sleep(20 * time.Second) // it is renewed meanwhile
						}
						if err := l.UnlockContext(t.Context()); err != nil {
							t.Errorf("unlock of %s: %v", l.Name(), err)
						}
					}
				}
			})
		})
	}
}

// TestAMasterThatFailsLeavesAFartherOneToTheQuorum: three masters are near, and one of them stops.
func TestAMasterThatFailsLeavesAFartherOneToTheQuorum(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		far := 45 * time.Millisecond
		c := ms.WithDelays(0, 0, 0, far, far).Open(nil)
		time.Sleep(time.Second)
		l := c.Locker("a")
		for i := range 5 {
			if err := l.TryLockContext(t.Context()); err != nil {
				t.Errorf("attempt %d: %v", i+1, err)
			} else {
				l.Unlock()
			}
			ms.Master(0).Stop()
			synctest.Wait()
		}
	})
}

// tryFrozen returns how long TryLockContext takes, and its error, while no master answers.
func tryFrozen(t *testing.T, ms *redlocktest.Masters, c *redlock.Client, opts *redlock.LockOptions) (time.Duration, error) {
	t.Helper()
	for i := range ms.Len() {
		ms.Master(i).Freeze()
		defer ms.Master(i).Thaw()
	}
	l, err := c.NewLocker("frozen", opts)
	if err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	err = l.TryLockContext(t.Context())
	return time.Since(start), err
}

func TestTheAutomaticNodeTimeoutIsFourRoundTripsWithinBounds(t *testing.T) {
	for _, row := range []struct {
		name        string
		oneWay      time.Duration
		nodeTimeout time.Duration // of the client
		ttl         time.Duration // of the lock
		want        time.Duration
	}{
		{name: "no distance: at least 50 ms", want: 50 * time.Millisecond},
		{name: "12 ms: at least 50 ms", oneWay: 6 * time.Millisecond, want: 50 * time.Millisecond},
		{name: "20 ms", oneWay: 10 * time.Millisecond, want: 80 * time.Millisecond},
		{name: "90 ms", oneWay: 45 * time.Millisecond, want: 360 * time.Millisecond},
		{name: "200 ms: a twentieth of the TTL at most", oneWay: 100 * time.Millisecond, want: 500 * time.Millisecond},
		{name: "the lock's TTL counts", oneWay: 45 * time.Millisecond, ttl: 4 * time.Second, want: 200 * time.Millisecond},
		{name: "a twentieth of the TTL below 50 ms", oneWay: 15 * time.Millisecond, ttl: 500 * time.Millisecond, want: 60 * time.Millisecond},
		{name: "two round trips, which are more than a twentieth of the TTL", oneWay: 45 * time.Millisecond, ttl: 2 * time.Second, want: 180 * time.Millisecond},
		{name: "a fifth of the TTL at most", oneWay: 45 * time.Millisecond, ttl: 500 * time.Millisecond, want: 100 * time.Millisecond},
		{
			name: "not automatic", oneWay: 45 * time.Millisecond, want: 30 * time.Millisecond,
			nodeTimeout: 30 * time.Millisecond,
		},
		{
			name: "not automatic, the same figure", oneWay: 45 * time.Millisecond, want: 50 * time.Millisecond,
			nodeTimeout: 50 * time.Millisecond,
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				opts := redlock.Options{DialTimeout: 10 * time.Second} // connecting takes five round trips
				opts.NodeTimeout = row.nodeTimeout
				c := ms.WithDelays(oneWay(row.oneWay)...).Open(&opts)
				c.Ping(t.Context()) // the client has connected, and has measured only the handshake
				took, err := tryFrozen(t, ms, c, &redlock.LockOptions{TTL: row.ttl})
				if took != row.want {
					t.Errorf("TryLockContext took %v, want %v: %v", took, row.want, err)
				}
				want := "no answer within " + row.want.String()
				if row.oneWay > 0 {
					want += " (last round trip " + (2 * row.oneWay).String() + ")"
				}
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("TryLockContext = %v, want %s", err, want)
				}
			})
		})
	}
}

// TestMastersBeyondTheQuorumDoNotLengthenTheAutomaticNodeTimeout: the farthest master that a quorum
// needs is the third of five.
func TestMastersBeyondTheQuorumDoNotLengthenTheAutomaticNodeTimeout(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		far := 100 * time.Millisecond
		c := ms.WithDelays(far, 0, 10*time.Millisecond, 0, far).Open(nil)
		time.Sleep(time.Second)
		if took, err := tryFrozen(t, ms, c, nil); took != 80*time.Millisecond {
			t.Errorf("TryLockContext took %v, want four times 20ms: %v", took, err)
		}
	})
}

func TestUnlockAndPingWaitForTheAutomaticNodeTimeout(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := ms.WithDelays(oneWay(45 * time.Millisecond)...).Open(nil)
		l := c.Locker("a")
		l.Lock()
		for i := range ms.Len() {
			ms.Master(i).Freeze()
		}
		for _, call := range []struct {
			name string
			f    func(context.Context) error
		}{
			{"UnlockContext", l.UnlockContext},
			{"Ping", c.Ping},
		} {
			start := time.Now()
			err := call.f(t.Context())
			if took := time.Since(start); took != 360*time.Millisecond || err == nil {
				t.Errorf("%s = %v after %v, want an error after 360ms", call.name, err, took)
			}
		}
	})
}

// TestTheAutomaticNodeTimeoutFollowsTheNetwork makes the network slower, and then faster again.
func TestTheAutomaticNodeTimeoutFollowsTheNetwork(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.Locker("a")
		delay := func(d time.Duration) {
			for i := range ms.Len() {
				ms.Master(i).Delay(d)
			}
		}
		delay(90 * time.Millisecond)
		var err error
		failed := 0
		for ; failed < 10; failed++ {
			if err = l.TryLockContext(t.Context()); err == nil {
				l.Unlock()
				break
			}
			time.Sleep(200 * time.Millisecond) // for the late answers
		}
		if failed > 2 {
			t.Errorf("%d attempts failed when the network had become slower, want 2 at most: %v", failed, err)
		}
		delay(0)
		time.Sleep(time.Minute) // idle, except for a PING each second
		if took, err := tryFrozen(t, ms, c, nil); took != 50*time.Millisecond {
			t.Errorf("TryLockContext took %v a minute after the network became faster, want 50ms: %v", took, err)
		}
	})
}

// TestANewConnectionForgetsTheDistanceOfTheOldOne: after a reconnect, a master's address may lead to another
// server.
func TestANewConnectionForgetsTheDistanceOfTheOldOne(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range ms.Len() {
			ms.Master(i).Delay(100 * time.Millisecond)
		}
		c := ms.Open(nil)
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range ms.Len() {
			ms.Master(i).Delay(0)
			ms.Master(i).Cut()
		}
		time.Sleep(1500 * time.Millisecond) // a heartbeat finds the connections lost
		if took, err := tryFrozen(t, ms, c, nil); took != 50*time.Millisecond {
			t.Errorf("TryLockContext took %v, want 50ms: %v", took, err)
		}
	})
}

// For a client near three of five masters, the distance of the other two must not matter. Each row is timed
// with five masters at 1 ms, and again with two of them farther away.
func TestAClientNearAQuorumIsNotDelayedByTheOtherMasters(t *testing.T) {
	open := func(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) *redlock.Client {
		c := ms.Open(opts)
		time.Sleep(time.Second)
		return c
	}
	timed := func(f func()) time.Duration {
		began := time.Now()
		f()
		return time.Since(began)
	}
	for _, row := range []struct {
		name string
		time func(t *testing.T, near *redlocktest.Masters) time.Duration
	}{
		{"lock and Unlock", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			c := open(t, ms, nil)
			return timed(func() {
				for range 10 {
					locktest.Pass(c.Locker("a"))
					locktest.Pass(c.Locker("b"))
				}
			})
		}},
		{"fenced lock and UnlockContext", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			l := open(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Fencing: true}}).Locker("a")
			return timed(func() {
				for range 10 {
					l.Lock()
					if err := l.UnlockContext(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
		}},
		{"Do and Extend", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			l := open(t, ms, nil).Locker("a")
			return timed(func() {
				l.Do(t.Context(), func(context.Context) error { return l.Lease().Extend(t.Context()) })
			})
		}},
		{"TryLock of a held lock", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			holder, c := open(t, ms, nil), open(t, ms, nil)
			holder.Locker("a").Lock()
			time.Sleep(time.Second)
			return timed(func() {
				if err := c.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
					t.Errorf("TryLockContext = %v", err)
				}
			})
		}},
		{"TryLock while near masters fail", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			c := open(t, ms, nil)
			for i := range 3 {
				ms.Master(i).Fail("ERR broken")
				defer ms.Master(i).Fail("")
			}
			return timed(func() {
				if err := c.Locker("a").TryLockContext(t.Context()); err == nil || errors.Is(err, redlock.ErrHeld) {
					t.Errorf("TryLockContext = %v", err)
				}
			})
		}},
		{"from a release to the entering of a waiter", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			// With the default schedule the waiter tries about every 100 ms, and would enter earlier if it did so just now.
			holder, waiter := open(t, ms, lazy()).Locker("a"), open(t, ms, lazy()).Locker("a")
			least := time.Hour
			for range 10 { // some releases leave the lock open, which takes longer
				holder.Lock()
				entered := make(chan struct{})
				go func() {
					waiter.Lock()
					close(entered)
				}()
				time.Sleep(222 * time.Millisecond)
				least = min(least, timed(func() {
					holder.Unlock()
					<-entered
				}))
				waiter.Unlock()
				time.Sleep(222 * time.Millisecond)
			}
			return least
		}},
		{"the first Lock of a client", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			c := ms.Open(nil)
			return timed(c.Locker("a").Lock)
		}},
		{"the first Ping of a client", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			c := ms.Open(nil)
			return timed(func() {
				if err := c.Ping(t.Context()); err != nil {
					t.Error(err)
				}
			})
		}},
		{"the first TryLock of a held lock", func(t *testing.T, ms *redlocktest.Masters) time.Duration {
			open(t, ms, nil).Locker("a").Lock()
			time.Sleep(time.Second)
			c := ms.Open(nil)
			return timed(func() {
				if err := c.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
					t.Errorf("TryLockContext = %v", err)
				}
			})
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			var took [2]time.Duration
			for i, far := range []time.Duration{time.Millisecond, 40 * time.Millisecond} {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					near := time.Millisecond
					took[i] = row.time(t, ms.WithDelays(near, near, near, far, far))
				})
			}
			if took[0] == 0 || took[1] != took[0] {
				t.Errorf("it takes %v, and with two masters farther %v", took[0], took[1])
			}
		})
	}
}

// A master that has not answered when a quorum has split the votes gets two round trips and 2 ms, and none if it is known to be far.
func TestASplitAttemptWaitsForTheOtherMastersForALimitedTime(t *testing.T) {
	for _, row := range []struct {
		name string
		slow func(m *redlocktest.Master)
		want time.Duration
	}{
		{"it is known to be far", func(m *redlocktest.Master) {
			m.Delay(600 * time.Millisecond)
			time.Sleep(20 * time.Second)
		}, 20 * time.Millisecond},
		{"it hangs", (*redlocktest.Master).Freeze, 42 * time.Millisecond},
		{"it is a little late", func(m *redlocktest.Master) { m.Delay(15 * time.Millisecond) }, 35 * time.Millisecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var took []time.Duration
				opts := &redlock.Options{NodeTimeout: time.Second, DisableWakeups: true, Trace: &redlock.Trace{
					AttemptDone: func(_ context.Context, a redlock.AttemptInfo) { took = append(took, a.Elapsed) },
				}}
				const way = 10 * time.Millisecond
				c := ms.WithDelays(way, way, way).Open(opts)
				time.Sleep(2 * time.Second)
				row.slow(ms.Master(0))
				defer ms.Master(0).Thaw()
				defer ms.Master(0).Delay(0)
				hold(ms, "a", 0, 1)
				ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
				defer cancel()
				if err := c.Locker("a").LockContext(ctx); err == nil {
					t.Fatal("LockContext = nil, want it to be held")
				}
				if took[0] != row.want {
					t.Errorf("the attempt took %v, want %v", took[0], row.want)
				}
			})
		})
	}
}

// The whole table: go test -v -timeout 1h -run TestASlowMasterDelaysNobody ./internal/contract -args -slow
var slow = flag.Bool("slow", false, "TestASlowMasterDelaysNobody measures its whole table: minutes")

// hangs is the delay of a master that accepts requests and never answers.
const hangs = time.Duration(-1)

// A slowRow is three clients in a loop: they lock, hold for 5 ms, and unlock.
type slowRow struct {
	kind    string // of the locks: see locker
	masters int
	delay   time.Duration // of requests to master 0
	timeout time.Duration // NodeTimeout
	unequal bool          // the clients are near to different masters
}

func (r slowRow) String() string {
	delay, unequal := r.delay.String(), ""
	if r.delay == hangs {
		delay = "hangs"
	}
	if r.unequal {
		unequal = ", unequal distances"
	}
	return fmt.Sprintf("%s, one of %d, %s, NodeTimeout %v%s", r.kind, r.masters, delay, r.timeout, unequal)
}

func (r slowRow) options() *redlock.Options {
	opts := &redlock.Options{NodeTimeout: r.timeout}
	if r.kind == "unrenewed" {
		opts.LockOptions.RenewEvery = -1
	}
	return opts
}

func (r slowRow) locker(c *redlock.Client) *redlock.Locker {
	if r.kind == "set" {
		return c.Locker("a", "b")
	}
	return c.Locker("a")
}

// delays returns the one-way delays of a client.
func (r slowRow) delays(client int) []time.Duration {
	near := make([]time.Duration, r.masters)
	for i := range near {
		near[i] = 250 * time.Microsecond
		if r.unequal {
			near[i] = [...]time.Duration{1, 10, 5}[(client+i)%3] * time.Millisecond
		}
	}
	return near
}

// run returns how many locks the clients had in the given time with the slow master, or without it: it is stopped then.
func (r slowRow) run(t *testing.T, without bool, last time.Duration) (locks int, longest time.Duration) {
	bubble(t, r.masters, func(t *testing.T, ms *redlocktest.Masters) {
		var clients []*redlock.Client
		for i := range 3 {
			clients = append(clients, ms.WithDelays(r.delays(i)...).Open(r.options()))
		}
		time.Sleep(2 * time.Second)
		switch m := ms.Master(0); {
		case without:
			m.Stop()
		case r.delay == hangs:
			m.Freeze()
			defer m.Thaw()
		default:
			m.Delay(r.delay)
			defer m.Delay(0)
		}
		if r.delay != hangs || without { // a master that hangs is soon down
			time.Sleep(4 * time.Second) // the round trips are known
		}
		ctx, cancel := context.WithTimeout(t.Context(), last)
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex
		free := time.Now()
		for _, c := range clients {
			all.Go(func() {
				for l := r.locker(c); l.LockContext(ctx) == nil; l.Unlock() {
					mu.Lock()
					locks++
					longest = max(longest, time.Since(free))
					mu.Unlock()
					time.Sleep(5 * time.Millisecond)
					mu.Lock()
					free = time.Now()
					mu.Unlock()
				}
			})
		}
		all.Wait()
		longest = max(longest, time.Since(free))
	})
	return locks, longest
}

// Locks are acquired at the speed of the masters that answer. A few rows are run by default.
func TestASlowMasterDelaysNobody(t *testing.T) {
	last := 400 * time.Millisecond
	rows := []slowRow{
		{"granted", 3, 40 * time.Millisecond, 0, false},
		{"granted", 3, 600 * time.Millisecond, time.Second, false},
		{"granted", 3, hangs, 2 * time.Second, false},
		{"granted", 5, 900 * time.Millisecond, 2 * time.Second, false},
		{"granted", 3, 600 * time.Millisecond, time.Second, true},
		{"unrenewed", 3, 600 * time.Millisecond, 2 * time.Second, false},
		{"unrenewed", 3, 600 * time.Millisecond, time.Second, true},
		{"set", 3, 600 * time.Millisecond, 2 * time.Second, false},
	}
	if *slow {
		last, rows = 2*time.Second, nil
		for _, kind := range []string{"granted", "unrenewed", "set"} {
			for _, masters := range []int{3, 5} {
				for _, unequal := range []bool{false, true} {
					for _, timeout := range []time.Duration{0, time.Second, 2 * time.Second} {
						for _, delay := range []time.Duration{40 * time.Millisecond, 600 * time.Millisecond, 900 * time.Millisecond, hangs} {
							rows = append(rows, slowRow{kind, masters, delay, timeout, unequal})
						}
					}
				}
			}
		}
	}
	without := make(map[slowRow]int) // by row, without delay and timeout
	for _, r := range rows {
		t.Run(r.String(), func(t *testing.T) {
			last := last
			if r.unequal {
				last *= 4 // fewer locks
			}
			fast := slowRow{kind: r.kind, masters: r.masters, unequal: r.unequal}
			if without[fast] == 0 {
				without[fast], _ = fast.run(t, true, last)
			}
			locks, longest := r.run(t, false, last)
			t.Logf("%d locks in %v, %d%% of the %d without the slow master; the lock was free for up to %v", locks, last, 100*locks/without[fast], without[fast], longest)
			if 2*locks < without[fast] {
				t.Errorf("%d locks in %v, want at least half of the %d without the slow master", locks, last, without[fast])
			}
		})
	}
}

// nearDifferent returns three connected Clients. The first is near masters 1 and 2, the second near 3 and 4,
// and the third near 5. Each is far from the other masters.
func nearDifferent(ms *redlocktest.Masters, far time.Duration) []*redlock.Client {
	const near = 100 * time.Microsecond
	var all []*redlock.Client
	for _, mine := range [][]int{{0, 1}, {2, 3}, {4}} {
		delays := slices.Repeat([]time.Duration{far}, 5)
		for _, i := range mine {
			delays[i] = near
		}
		all = append(all, ms.WithDelays(delays...).Open(nil))
	}
	time.Sleep(3 * time.Second) // connected, with an estimate of the distances
	return all
}

// firstOf locks name with all Clients at once, and returns the time until the first of them had the lock. It
// returns when all of them have had it.
func firstOf(clients []*redlock.Client, name string) time.Duration {
	began := time.Now()
	entered := make(chan time.Duration, len(clients))
	for _, c := range clients {
		go func() {
			l := c.Locker(name)
			l.Lock()
			entered <- time.Since(began)
			l.Unlock()
		}()
	}
	first := <-entered
	for range len(clients) - 1 {
		<-entered
	}
	return first
}

// Each contender is near masters that are far from the others, so each gets some votes first. A lock that is
// free, or becomes free because its holder crashed, must not stay free for long. Clients that sleep for the
// same time would split the votes again and again.
func TestContendersNearDifferentMastersSoonAcquireAFreeLock(t *testing.T) {
	const names = 3
	for _, far := range []time.Duration{2 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond} {
		t.Run(far.String(), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				clients := nearDifferent(ms, far)
				var free, expired []time.Duration
				for i := range names {
					free = append(free, firstOf(clients, fmt.Sprintf("free %d", i)))

					crashed := fmt.Sprintf("crashed %d", i)
					for m := range 5 {
						ms.Master(m).Set(crashed, "token of a crashed holder", time.Second)
					}
					expired = append(expired, firstOf(clients, crashed)-time.Second)
				}
				slices.Sort(free)
				slices.Sort(expired)
				t.Logf("free: median %v, longest %v; expired: median %v, longest %v", free[names/2], free[names-1], expired[names/2], expired[names-1])
				if limit := 150*time.Millisecond + 3*far; free[names/2] > limit || expired[names/2] > limit {
					t.Errorf("in the median a free lock was had after %v, an expired one after %v, want at most %v", free[names/2], expired[names/2], limit)
				}
				if limit := 800 * time.Millisecond; free[names-1] > limit || expired[names-1] > limit {
					t.Errorf("a free lock was had after %v, an expired one after %v, want at most %v", free[names-1], expired[names-1], limit)
				}
			})
		})
	}
}

// TestAFreeLockIsAcquiredOverARoundTripOfAnEleventhOfItsTTL: a twentieth of the TTL would be over before any vote has come.
func TestAFreeLockIsAcquiredOverARoundTripOfAnEleventhOfItsTTL(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := ms.WithDelays(oneWay(45 * time.Millisecond)...).Open(&redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second}})
		if err := c.Ping(t.Context()); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			for _, l := range []*redlock.Locker{c.Locker("a"), c.RWLocker("a").Locker()} {
				if err := l.TryLockContext(t.Context()); err != nil {
					t.Fatalf("TryLockContext = %v, want the lock", err)
				}
				if err := l.UnlockContext(t.Context()); err != nil {
					t.Fatalf("UnlockContext = %v", err)
				}
			}
		}
	})
}
