package contract_test

//lint:file-ignore SA2001 A benchmark or a test locks and unlocks, with nothing between.

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAnotherClientRecallsAKeptLock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l, c, plain := connected(t, ms, keeping(time.Minute)).Locker("stock"), connected(t, ms, keeping(time.Minute)), connected(t, ms, nil)
		polling := connected(t, ms, &redlock.Options{DisableWakeups: true})
		fixed := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}})
		for _, other := range []struct {
			name string
			lock sync.Locker
		}{
			{"a Locker with Keep", c.Locker("stock")},
			{"a Locker without Keep", plain.Locker("stock")},
			{"a Locker of a client that polls", polling.Locker("stock")},
			{"a Locker without renewal", fixed.Locker("stock")},
			{"a Locker of two names", plain.Locker("stock", "other")},
			{"a Locker of two names of a client that polls", polling.Locker("stock", "other")},
			{"a writer with Keep", c.RWLocker("stock")},
			{"a writer", plain.RWLocker("stock")},
			{"readers", plain.RWLocker("stock").RLocker()},
		} {
			time.Sleep(unkeptMost)
			keep(t, ms, l)
			began := time.Now()
			other.lock.Lock()
			if took := time.Since(began); took > 250*time.Millisecond {
				t.Errorf("%s: Lock took %v", other.name, took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			if !errors.Is(l.LockContext(ctx), context.DeadlineExceeded) {
				t.Fatalf("%s: both have the lock", other.name)
			}
			cancel()
			other.lock.Unlock()
			time.Sleep(20 * time.Second) // readers keep their lease
			locktest.Pass(l)
		}
	})
}

// A kept lock that nobody holds costs one round trip more than a free one, and a plain SET that recalls nothing another one. A set
// makes its second attempt 2.5 to 7.5 ms after the first. A master that has not executed a script for sets yet needs another round trip
// to load it, once.
func TestAKeptLockIsTakenAwayInTwoRoundTrips(t *testing.T) {
	const trip = 20 * time.Millisecond
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b, plain := openAt(ms, trip/2, keeping(time.Minute)), openAt(ms, trip/2, keeping(time.Minute)), openAt(ms, trip/2, nil)
		locktest.Pass(plain.Locker("load", "the script"))
		for _, row := range []struct {
			name  string
			of    func(name string) sync.Locker
			kept  bool
			trips float64
		}{
			{"free", func(name string) sync.Locker { return b.Locker(name) }, false, 1},
			{"with Keep", func(name string) sync.Locker { return b.Locker(name) }, true, 2},
			{"without Keep", func(name string) sync.Locker { return plain.Locker(name) }, true, 3},
			{"a set of two names", func(name string) sync.Locker { return plain.Locker(name, name+" too") }, true, 2.375},
			{"a writer", func(name string) sync.Locker { return b.RWLocker(name) }, true, 3},
			{"readers", func(name string) sync.Locker { return b.RWLocker(name).RLocker() }, true, 3},
		} {
			var all []float64
			for i := range 20 {
				name := fmt.Sprint(row.name, i)
				if row.kept {
					locktest.Pass(a.Locker(name))
					time.Sleep(200 * time.Millisecond)
				}
				l := row.of(name)
				began := time.Now()
				l.Lock()
				all = append(all, float64(time.Since(began))/float64(trip))
				l.Unlock()
			}
			slices.Sort(all)
			t.Logf("%s: median %.2f, longest %.2f round trips", row.name, all[len(all)/2], all[len(all)-1])
			if longest := all[len(all)-1]; longest > row.trips+0.05 {
				t.Errorf("%s: Lock took %.2f round trips, want %.2f", row.name, longest, row.trips)
			}
		}
	})
}

// The second attempt comes a round trip of the client after the first. So the client that keeps the lock must be no farther
// from the masters. Otherwise the lock is free a little later.
func TestTryLockRecallsAKeptLock(t *testing.T) {
	const near, far = 10 * time.Millisecond, 40 * time.Millisecond
	for _, row := range []struct {
		name         string
		keeper, from time.Duration // one way
		gets         bool
		trips        float64 // of the client that tries
	}{
		{"both near", near, near, true, 3.3},
		{"the client that keeps it is near", near, far, true, 3.3},
		{"the client that keeps it is far away", far, near, false, 3.3},
	} {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			a, b := openAt(ms, row.keeper, keeping(time.Minute)), openAt(ms, row.from, keeping(time.Minute))
			longest := time.Duration(0)
			for i := range 20 {
				name := fmt.Sprint("stock", i)
				locktest.Pass(a.Locker(name))
				time.Sleep(time.Second)
				l, began := b.Locker(name), time.Now()
				got := l.TryLock()
				longest = max(longest, time.Since(began))
				if !row.gets {
					if got {
						t.Fatalf("%s: the first TryLock succeeds", row.name)
					}
					time.Sleep(3 * far)
					got = l.TryLock()
				}
				if !got {
					t.Fatalf("%s: TryLock fails although nobody holds the lock", row.name)
				}
				if err := a.Locker(name).TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
					t.Fatalf("%s: TryLock of a lock that is held: %v, want ErrHeld", row.name, err)
				}
				l.Unlock()
			}
			trips := float64(longest) / float64(2*row.from)
			t.Logf("%s: TryLock took %.2f round trips at most", row.name, trips)
			if trips > row.trips {
				t.Errorf("%s: TryLock took %.2f round trips, want %.1f at most", row.name, trips, row.trips)
			}
		})
	}
}

// A lostRecall is a connection that loses the recalls for which loses returns true.
type lostRecall struct {
	net.Conn
	loses func() bool
	lost  *atomic.Int32
}

func (c *lostRecall) Read(p []byte) (int, error) {
	for {
		n, err := c.Conn.Read(p)
		if err != nil || !bytes.Contains(p[:n], []byte("\r\n? ")) || !c.loses() {
			return n, err
		}
		c.lost.Add(1)
	}
}

// The head of the queue has a recall sent again.
func TestALostRecallIsSentAgain(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var lossy atomic.Bool
		var lost atomic.Int32
		keeper := openVia(t, ms, keeping(time.Hour), func(ctx context.Context, i int) (net.Conn, error) {
			conn, err := ms.Master(i).Dial(ctx)
			return &lostRecall{conn, lossy.Load, &lost}, err
		})
		b := connected(t, ms, keeping(time.Hour)).Locker("stock")
		keep(t, ms, keeper.Locker("stock"))
		lossy.Store(true)
		in := locktest.Enter(b)
		began := time.Now()
		time.Sleep(10 * time.Millisecond)
		if lost.Load() != 5 {
			t.Fatalf("%d recalls were lost, want 5", lost.Load())
		}
		lossy.Store(false)
		if took := (<-in).Sub(began); took < 40*time.Millisecond || took > 200*time.Millisecond {
			t.Errorf("Lock took %v, want the time between two polls", took)
		}
		b.Unlock()
	})
}

// Messages are lost one by one, as one in ten is here. One that arrives is enough, so few waits need a poll.
func TestOneLostRecallInTenDelaysFewWaits(t *testing.T) {
	const trip, waits = 20 * time.Millisecond, 300
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex // guards draw
		draw := rand.New(rand.NewPCG(1, 1))
		var sent, lost atomic.Int32
		a := openVia(t, ms, keeping(time.Hour), func(ctx context.Context, i int) (net.Conn, error) {
			conn, err := ms.Master(i).Dial(ctx)
			return &lostRecall{conn, func() bool {
				mu.Lock()
				defer mu.Unlock()
				sent.Add(1)
				return draw.IntN(10) == 0
			}, &lost}, err
		})
		b := connected(t, ms, keeping(time.Hour))
		for i := range ms.Len() {
			ms.Master(i).Delay(trip) // of a request; replies and messages take no time
		}
		var all []float64
		for i := range waits {
			l := b.Locker(fmt.Sprint("stock", i))
			locktest.Pass(a.Locker(l.Name()))
			time.Sleep(100 * time.Millisecond)
			began := time.Now()
			l.Lock()
			all = append(all, float64(time.Since(began))/float64(trip))
			l.Unlock()
		}
		slices.Sort(all)
		p99 := all[waits*99/100]
		t.Logf("%d of %d recalls were lost; round trips: median %.2f, p99 %.2f, longest %.2f", lost.Load(), sent.Load(), all[waits/2], p99, all[waits-1])
		if lost.Load() < waits/10 || p99 > 3.5 {
			t.Errorf("p99 of Lock is %.2f round trips with %d recalls lost, want 3.5 at most with %d", p99, lost.Load(), waits/10)
		}
	})
}

func TestARecallOfALockThatIsHeldEndsWithItsUnlock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, keeping(time.Hour)).Locker("stock"), connected(t, ms, keeping(time.Hour)).Locker("stock")
		for range 3 { // otherwise a poll that comes by chance could hide that the recall was dropped
			time.Sleep(unkeptMost)
			keep(t, ms, a)
			a.Lock()
			in := locktest.Enter(b)
			time.Sleep(30 * time.Second)
			a.Unlock()
			left := time.Now()
			if took := (<-in).Sub(left); took > 5*time.Millisecond {
				t.Errorf("the lock was had %v after Unlock", took)
			}
			b.Unlock()
		}
	})
}

// A lock that is held for long delays the recall of no other.
func TestALockThatIsHeldDelaysNoOtherRecall(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, keeping(time.Hour)), connected(t, ms, keeping(time.Hour))
		for i := range 10 {
			keep(t, ms, a.Locker(fmt.Sprint("kept", i)))
		}
		held := a.Locker("held")
		held.Lock()
		in := locktest.Enter(b.Locker("held")) // its recall comes first
		time.Sleep(time.Second)
		for i := range 10 {
			locktest.Pass(a.Locker(fmt.Sprint("kept", i))) // so that it is still kept
			l, began := b.Locker(fmt.Sprint("kept", i)), time.Now()
			l.Lock()
			if took := time.Since(began); took > 5*time.Millisecond {
				t.Errorf("%s: Lock took %v", l.Name(), took)
			}
			l.Unlock()
		}
		if len(in) > 0 {
			t.Error("two clients have the lock")
		}
		held.Unlock()
		<-in
	})
}

// While a kept lock is being released, each reading of the clocks tries to enter it.
func TestNoGoroutineEntersAKeptLockWhileItIsReleased(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var armed, busy atomic.Bool
		var tries, entered atomic.Int32
		var l *redlock.Locker
		opts := keeping(time.Hour)
		locktest.SetClocks(opts, func() (time.Duration, time.Duration) {
			if armed.Load() && busy.CompareAndSwap(false, true) {
				tries.Add(1)
				if l.TryLock() {
					entered.Add(1)
					armed.Store(false)
				}
				busy.Store(false)
			}
			return 0, 0
		})
		l = connected(t, ms, opts).Locker("stock")
		b := connected(t, ms, nil).Locker("stock")
		keep(t, ms, l)
		in := locktest.Enter(b)
		armed.Store(true)
		<-in
		armed.Store(false)
		if tries.Load() == 0 || entered.Load() > 0 {
			t.Errorf("%d goroutines tried, and %d have entered; want some, and none", tries.Load(), entered.Load())
		}
		b.Unlock()
	})
}

// One process that locks all the time does not keep others out, although its goroutines hand the lock over.
func TestABusyKeeperLetsAnotherClientIn(t *testing.T) {
	var longest [2]time.Duration // without Keep, and with it
	for i := range longest {
		bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
			opts := keeping(time.Duration(i) * time.Minute)
			a, b := openAt(ms, 10*time.Millisecond, opts), openAt(ms, 10*time.Millisecond, opts)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range 8 {
				all.Go(func() {
					for l := a.Locker("stock"); l.LockContext(ctx) == nil; l.Unlock() {
						time.Sleep(time.Millisecond)
					}
				})
			}
			for range 10 {
				time.Sleep(2500 * time.Millisecond)
				began := time.Now()
				locktest.Pass(b.Locker("stock"))
				longest[i] = max(longest[i], time.Since(began))
			}
			cancel()
			all.Wait()
		})
	}
	if t.Logf("another process waited for %v at most without Keep, %v with it", longest[0], longest[1]); longest[1] > longest[0] {
		t.Error("it waited for longer with Keep")
	}
}

var long = flag.Bool("long", false, "TestClientsThatTakeTurnsDoNotPayForKeep compares many turns, to 3 %")

// rotation has clients take turns, and returns how many round trips pass from the end of one turn to the begin of the next,
// and how many commands each master executes for a turn.
func rotation(t *testing.T, clients, turns int, keep time.Duration) (trips, commands float64) {
	const trip, held = 20 * time.Millisecond, 5 * time.Millisecond
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		entered := make(chan struct{})
		for range clients {
			l := openAt(ms, trip/2, keeping(keep)).Locker("stock")
			all.Go(func() {
				for l.LockContext(ctx) == nil {
					time.Sleep(held)
					l.Unlock()
					select {
					case entered <- struct{}{}:
					case <-ctx.Done():
					}
				}
			})
		}
		for range 20 {
			<-entered
		}
		began, before := time.Now(), lockCommands(ms)
		for range turns {
			<-entered
		}
		took, sent := time.Since(began)-time.Duration(turns)*held, lockCommands(ms)-before
		trips = float64(took) / float64(turns) / float64(trip)
		commands = float64(sent) / float64(turns) / float64(ms.Len())
		cancel()
		all.Wait()
	})
	return trips, commands
}

// Locks that all want in turns are not kept, so Keep costs nothing there. How many releases leave the lock open is drawn at
// random, and each costs a round trip: so a few turns can be compared only roughly. Where they differ by too much, more are compared.
func TestClientsThatTakeTurnsDoNotPayForKeep(t *testing.T) {
	turns, most := 200, 1.15
	if *long {
		turns, most = 1000, 1.03
	}
	for _, clients := range []int{2, 4, 8} {
		var trips, commands, keptTrips, keptCommands float64
		for n := 1.0; n <= 4; n++ {
			trip, command := rotation(t, clients, turns, 0)
			trips, commands = trips+trip, commands+command
			trip, command = rotation(t, clients, turns, time.Minute)
			keptTrips, keptCommands = keptTrips+trip, keptCommands+command
			t.Logf("%d clients, %.0f turns: %.3f round trips and %.2f commands a turn without Keep, %.3f and %.2f with it",
				clients, n*float64(turns), trips/n, commands/n, keptTrips/n, keptCommands/n)
			if keptTrips <= most*trips && keptCommands <= most*commands {
				break
			}
		}
		if keptTrips > most*trips || keptCommands > most*commands {
			t.Errorf("%d clients: with Keep more than %.2f times as many", clients, most)
		}
	}
}

// plainLock acquires a lock as clients of other libraries do: by SET NX at all masters, again and again.
func plainLock(t *testing.T, pools []*redis.Pool, name, token string) {
	t.Helper()
	for began := time.Now(); time.Since(began) < 5*time.Minute; {
		got := 0
		for _, p := range pools {
			conn := p.Get()
			if reply, err := conn.Do("SET", name, token, "NX", "PX", 10_000); err != nil {
				t.Fatal(err)
			} else if reply != nil {
				got++
			}
			conn.Close()
		}
		if got > len(pools)/2 {
			return
		}
		plainUnlock(t, pools, name, token)
		time.Sleep(50*time.Millisecond + rand.N(200*time.Millisecond))
	}
	t.Fatal("a plain client waited for five minutes")
}

func plainUnlock(t *testing.T, pools []*redis.Pool, name, token string) {
	t.Helper()
	for _, p := range pools {
		conn := p.Get()
		if text, err := redis.String(conn.Do("GET", name)); err == nil && text == token {
			if _, err := conn.Do("DEL", name); err != nil {
				t.Fatal(err)
			}
		}
		conn.Close()
	}
}

// Clients of other libraries cannot recall a lock. One that is used is free when Keep is over, one that is not when a renewal
// is due.
func TestPlainClientsDoNotWaitForLongerThanKeepAndAThirdOfTheTTL(t *testing.T) {
	for _, row := range []struct {
		name       string
		keep, rest time.Duration // between two uses
		most       time.Duration
	}{
		{"used all the time", 5 * time.Second, 50 * time.Millisecond, 5 * time.Second},
		{"used now and then", 20 * time.Second, 2 * time.Second, 20 * time.Second},
		{"hardly used", 20 * time.Second, 20 * time.Second, 3400 * time.Millisecond},
	} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			const name, hold = "stock", 10 * time.Millisecond
			// A plain client pauses for up to 250 ms between two attempts, and the lock is used without being kept then: several attempts
			// in a row may come while it is held.
			const polls = 4 * 275 * time.Millisecond
			l := openAt(ms, time.Millisecond, keeping(row.keep)).Locker(name)
			pools := ms.WithDelays(time.Millisecond, time.Millisecond, time.Millisecond).Pools()
			var inside atomic.Int32
			enter := func() {
				if inside.Add(1) != 1 {
					t.Errorf("%s: two are inside", row.name)
				}
				time.Sleep(time.Millisecond)
				inside.Add(-1)
			}
			ctx, stop := context.WithCancel(t.Context())
			var all sync.WaitGroup
			all.Go(func() {
				for l.LockContext(ctx) == nil {
					enter()
					l.Unlock()
					time.Sleep(row.rest)
				}
			})
			var longest time.Duration
			for i := range 10 {
				time.Sleep(7 * time.Second)
				began, token := time.Now(), fmt.Sprint("plain ", i)
				plainLock(t, pools, name, token)
				longest = max(longest, time.Since(began))
				enter()
				time.Sleep(hold)
				plainUnlock(t, pools, name, token)
			}
			stop()
			all.Wait()
			if t.Logf("%s: a plain client waited for %v at most", row.name, longest); longest > row.most+polls {
				t.Errorf("%s: a plain client waited for %v, want %v at most", row.name, longest, row.most)
			}
		})
	}
}

// A lock that its Client has used between two recalls was not kept in vain. So it is kept again a second later, however often it is recalled.
func TestALockThatIsUsedIsKeptAgainSoonAfterARecall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, keeping(time.Hour)).Locker("stock"), connected(t, ms, nil).Locker("stock")
		kept := 0
		for range 10 {
			time.Sleep(2 * time.Second)
			locktest.Pass(a)
			time.Sleep(10 * time.Millisecond)
			if len(holders(ms, "stock")) == ms.Len() {
				kept++
			}
			for range 3 {
				locktest.Pass(a)
			}
			locktest.Pass(b)
		}
		if kept < 8 { // it is not kept if an acquisition has needed two attempts by chance
			t.Errorf("it was kept %d times of 10", kept)
		}
	})
}

// A recall of a near master may come before a quorum has granted the lock. Then the lock is not kept. Those of the far ones come later.
func TestARecallThatComesBeforeTheLockIsHeldIsRemembered(t *testing.T) {
	const far, later = 40 * time.Millisecond, 5 * time.Millisecond
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		there := ms.WithDelays(0, far, far)
		a, b := there.Open(keeping(time.Hour)).Locker("stock"), there.Open(keeping(time.Hour)).Locker("stock")
		time.Sleep(2 * time.Second)
		began := time.Now()
		go func() {
			time.Sleep(later)
			locktest.Pass(b)
		}()
		locktest.Pass(a)
		if took := time.Since(began); took < 2*far || took > 2*far+later/2 {
			t.Fatalf("Lock took %v", took)
		}
		time.Sleep(later / 5)
		if n := len(queue(t, ms, 0, "stock")); n > 0 {
			t.Error("a client waits at the near master, and the lock is kept")
		}
		time.Sleep(10 * far)
	})
}
