package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// take locks l at all masters. Lock needs only a quorum, and a waiter might get the others.
func take(l *redlock.Locker) {
	l.Lock()
	synctest.Wait()
}

// queued waits until the given number of clients is in the queue of a key at every master. It lets a moment pass, so that
// a client that queues afterwards is behind them: clients that began to wait in the same moment are in any order.
func queued(t *testing.T, ms *redlocktest.Masters, key string, clients int) {
	t.Helper()
	for range 1000 {
		synctest.Wait()
		total := 0
		for i := range ms.Len() {
			total += len(queue(t, ms, i, key))
		}
		time.Sleep(time.Millisecond)
		if total == clients*ms.Len() {
			return
		}
	}
	t.Fatalf("%d clients never queued for %s", clients, key)
}

// queue returns the members of the queue of a key at a master, in their order.
func queue(t *testing.T, ms *redlocktest.Masters, i int, key string) []string {
	t.Helper()
	conn := ms.Pools()[i].Get()
	defer conn.Close()
	members, err := redis.Strings(conn.Do("ZRANGE", "redlock:queue:"+key, 0, -1))
	if err != nil {
		t.Fatal(err)
	}
	return members
}

// lazy returns options with a schedule whose steps are far longer than a wake-up takes.
func lazy() *redlock.Options {
	o := &redlock.Options{NewBackOff: func() redlock.BackOff {
		return locktest.BackOffFunc(func() time.Duration { return 5 * time.Second })
	}, LockOptions: redlock.LockOptions{TTL: time.Minute}}
	clock.Pace(o, 3*time.Second) // within 4.5 s
	return o
}

func TestAHolderDoesNotStayInTheQueueOfAMasterThatRefusedIt(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		hold(ms, "a", 0, 1, 2)
		in := locktest.Enter(l)
		time.Sleep(time.Second)
		ms.Master(0).Del("a")
		ms.Master(1).Del("a")
		<-in
		synctest.Wait()
		if keys := ms.Master(2).Keys(); !slices.Contains(keys, "redlock:queue:a") {
			t.Fatalf("master 3 keeps %q, want our place in the queue", keys)
		}
		l.Unlock()
		synctest.Wait()
		if keys := lockKeys(ms.Master(2)); !slices.Equal(keys, []string{"a"}) {
			t.Errorf("master 3 keeps %q, want somebody else's lock alone", keys)
		}
	})
}

func TestAReleaseWakesTheNextProcessAtOnce(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, lazy()).Locker("a"), connected(t, ms, lazy()).Locker("a")
		take(a)
		in := locktest.Enter(b)
		queued(t, ms, "a", 1)
		time.Sleep(time.Second)
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took != 0 {
			t.Errorf("the waiter entered %v after the release, want no wait at all", took)
		}
		b.Unlock()
		synctest.Wait()
		for i := range 5 {
			if keys := lockKeys(ms.Master(i)); len(keys) != 0 {
				t.Errorf("master %d keeps %q", i+1, keys)
			}
		}
	})
}

func TestWaitersOfAllProcessesEnterInTheOrderOfTheirCalls(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		holder := connected(t, ms, lazy()).Locker("a")
		take(holder)
		var mu sync.Mutex
		var order []int
		var wg sync.WaitGroup
		for i := range 8 {
			l := connected(t, ms, lazy()).Locker("a")
			wg.Go(func() {
				l.Lock()
				mu.Lock()
				order = append(order, i)
				mu.Unlock()
				time.Sleep(time.Millisecond)
				l.Unlock()
			})
			queued(t, ms, "a", i+1)
			time.Sleep(2 * time.Millisecond) // the queue orders clients by milliseconds
		}
		start := time.Now()
		holder.Unlock()
		wg.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
		if took := time.Since(start); took != 8*time.Millisecond {
			t.Errorf("eight holdings of 1 ms took %v", took)
		}
	})
}

func TestAReleasePassesTheLockToOneProcessWhateverTheNumberWaiting(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		holder := connected(t, ms, lazy()).Locker("a")
		take(holder)
		const waiters = 10
		for i := range waiters {
			locktest.Enter(connected(t, ms, lazy()).Locker("a"))
			queued(t, ms, "a", i+1)
		}
		scripts, sets := ms.Master(0).Count("EVALSHA"), ms.Master(0).Count("SET")
		holder.Unlock()
		synctest.Wait()
		// The release, and the attempt of the client that was woken, if the release has granted the lock to no client.
		// No other client sends anything.
		if e, s := ms.Master(0).Count("EVALSHA")-scripts, ms.Master(0).Count("SET")-sets; e < 1 || e > 2 || s != 0 {
			t.Errorf("a release with %d waiters made %d script calls and %d SETs, want 1 or 2, and none", waiters, e, s)
		}
	})
}

func TestWakeUpsThatFailCostOneStep(t *testing.T) {
	const step = 5 * time.Second
	for _, row := range []struct {
		name  string
		fault func(t *testing.T, ms *redlocktest.Masters, waiter *redlock.Client)
		opts  func(o *redlock.Options)
		max   time.Duration
	}{
		{name: "turned off", opts: func(o *redlock.Options) { o.DisableWakeups = true }, max: step},
		{name: "subscriptions cut", max: step + 10*time.Millisecond, fault: func(t *testing.T, ms *redlocktest.Masters, _ *redlock.Client) {
			for i := range 5 {
				ms.Master(i).Cut()
			}
		}},
		// The waiter tries when all but one of a quorum have woken it. If the last one still has the key
		// then, the attempt is undecided until the frozen masters have had their NodeTimeout.
		{name: "a minority is frozen", max: 50 * time.Millisecond, fault: func(t *testing.T, ms *redlocktest.Masters, _ *redlock.Client) {
			ms.Master(0).Freeze()
			ms.Master(1).Freeze()
		}},
		{name: "queues deleted", max: step, fault: func(t *testing.T, ms *redlocktest.Masters, _ *redlock.Client) {
			for i := range 5 {
				ms.Master(i).Del("redlock:queue:a")
			}
		}},
		{name: "queues deleted at three", max: 2 * time.Millisecond, fault: func(t *testing.T, ms *redlocktest.Masters, _ *redlock.Client) {
			for i := range 3 {
				ms.Master(i).Del("redlock:queue:a")
			}
		}},
		{name: "the queue's key is of another type", max: step, fault: func(t *testing.T, ms *redlocktest.Masters, _ *redlock.Client) {
			for i := range 5 {
				ms.Master(i).Set("redlock:queue:a", "not a queue", 0)
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				opts := lazy()
				if row.opts != nil {
					row.opts(opts)
				}
				a := connected(t, ms, opts).Locker("a")
				waiter := connected(t, ms, opts)
				b := waiter.Locker("a")
				take(a)
				in := locktest.Enter(b)
				synctest.Wait()
				if !opts.DisableWakeups {
					queued(t, ms, "a", 1)
				}
				if row.fault != nil {
					row.fault(t, ms, waiter)
				}
				released := time.Now()
				a.Unlock()
				if took := (<-in).Sub(released); took > row.max {
					t.Errorf("the waiter entered after %v, want %v at most", took, row.max)
				}
				b.Unlock()
				for i := range 2 {
					ms.Master(i).Thaw()
				}
				time.Sleep(time.Minute)
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestClientsThatAreGoneAreSkippedInTheQueue(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, lazy()).Locker("a")
		take(a)
		for i := range 5 { // a hundred clients that crashed while they waited
			conn := ms.Pools()[i].Get()
			for n := range 100 {
				if _, err := conn.Do("ZADD", "redlock:queue:a", n, fmt.Sprint("dead", n)); err != nil {
					t.Fatal(err)
				}
			}
			// A monitor that is subscribed to all channels receives the messages to the crashed clients. They
			// must not count as alive for that.
			conn.Send("PSUBSCRIBE", "*")
			conn.Flush()
			if _, err := conn.Receive(); err != nil {
				t.Fatal(err)
			}
		}
		in := locktest.Enter(connected(t, ms, lazy()).Locker("a"))
		queued(t, ms, "a", 101)
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took != 0 {
			t.Errorf("behind a hundred dead the waiter entered after %v, want at once", took)
		}
	})
}

func queueHead(t *testing.T, ms *redlocktest.Masters, key string) string {
	t.Helper()
	members := queue(t, ms, 0, key)
	if len(members) == 0 {
		t.Fatalf("nobody is in the queue for %s", key)
	}
	return members[0]
}

// clientOf returns the id of the client in a member of a queue.
func clientOf(member string) string { return strings.Fields(member)[0] }

func TestAClientDoesNotOvertakeTheClientThatItsReleaseWoke(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		// Two processes that lock and unlock without a pause take turns.
		var mu sync.Mutex
		var order strings.Builder
		var wg sync.WaitGroup
		for _, name := range []string{"a", "b", "c"} {
			l := connected(t, ms, nil).Locker("x")
			wg.Go(func() {
				for range 20 {
					l.Lock()
					mu.Lock()
					order.WriteString(name)
					mu.Unlock()
					time.Sleep(time.Millisecond)
					l.Unlock()
				}
			})
		}
		wg.Wait()
		again := 0
		for i := 4; i < order.Len(); i++ {
			if order.String()[i] == order.String()[i-1] {
				again++
			}
		}
		if again > 6 { // at the end the last of them is alone
			t.Errorf("%s: %d times one entered twice in a row", order.String(), again)
		}
		wantFree(t, ms, "x")
	})
}

func TestTryLockNeverQueues(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, nil).Locker("a"), connected(t, ms, nil).Locker("a")
		take(a)
		for range 10 {
			b.TryLock()
		}
		synctest.Wait()
		for i := range 3 {
			if n := len(queue(t, ms, i, "a")); n != 0 {
				t.Errorf("%d clients queue at master %d, want none", n, i+1)
			}
		}
		a.Unlock()
	})
}

func TestHealthyMastersReportNoProblemWithWakeUps(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		time.Sleep(time.Second)
		for _, m := range c.Masters() {
			if m.WakeErr != nil {
				t.Errorf("%s: %v", m.Name, m.WakeErr)
			}
		}
	})
}
