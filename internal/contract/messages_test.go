package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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
	return queueOf(t, ms, i, "redlock:queue:"+key)
}

// lazy returns options with a schedule whose steps are far longer than a message takes.
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

func TestAReleaseGrantsTheLockToTheNextProcessAtOnce(t *testing.T) {
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
		before := len(ms.Master(0).Commands())
		holder.Unlock()
		synctest.Wait()
		// The release, and the polls of the client that was told to look, if the release has left the lock open: the first poll
		// may come to the other masters before the release does. No other client sends anything.
		clients, polls, sets := make(map[string]bool), 0, 0
		for _, c := range ms.Master(0).Commands()[before:] {
			switch parts := strings.Fields(c); {
			case strings.Contains(c, `"again `):
				clients[parts[4]] = true
				polls++
			case parts[0] == "SET":
				sets++
			}
		}
		if len(clients) > 1 || polls > 2 || sets != 0 {
			t.Errorf("after a release with %d waiters, %d clients sent %d polls and %d SETs, want one, two, and none", waiters, len(clients), polls, sets)
		}
	})
}

func TestAMessageThatIsLostCostsOnePoll(t *testing.T) {
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
		// The waiter tries when all but one of a quorum have told it. If the last one still has the key
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

func TestAClientDoesNotOvertakeTheClientThatItsReleaseGrantsTheLock(t *testing.T) {
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

func TestADeadSubscriptionIsReplaced(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, lazy()).Locker("a"), connected(t, ms, lazy()).Locker("a")
		for i := range 5 { // no master answers or ends a connection
			ms.Master(i).Freeze()
		}
		time.Sleep(5 * time.Second)
		for i := range 5 {
			ms.Master(i).Thaw()
		}
		time.Sleep(5 * time.Second)
		take(a)
		in := locktest.Enter(b)
		queued(t, ms, "a", 1)
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took != 0 {
			t.Errorf("the waiter entered %v after the release, want no wait at all", took)
		}
	})
}

func TestAWaiterThatDiesInItsTurnDelaysNoOther(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, lazy()).Locker("a")
		take(a)
		first := connected(t, ms, lazy())
		waits := make(chan error, 1)
		go func() { waits <- first.Locker("a").LockContext(t.Context()) }()
		queued(t, ms, "a", 1)
		in := locktest.Enter(connected(t, ms, lazy()).Locker("a"))
		queued(t, ms, "a", 2)
		first.Close() // its entry stays, and its subscriptions end
		<-waits
		synctest.Wait()
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took != 0 {
			t.Errorf("behind a client that is gone the waiter entered after %v, want at once", took)
		}
	})
}

// Two of three masters do not answer for a moment, so the claim backs off. The schedule of the user has long pauses.
func TestAClaimThatBacksOffIsRegisteredAgainSoon(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, lazy()).Locker("a")
		take(a)
		opts := lazy()
		clock.Pace(opts, 100*time.Millisecond)
		in := locktest.Enter(connected(t, ms, opts).Locker("a"))
		queued(t, ms, "a", 1)
		ms.Master(0).Freeze()
		ms.Master(1).Freeze()
		time.Sleep(400 * time.Millisecond)
		ms.Master(0).Thaw()
		ms.Master(1).Thaw()
		time.Sleep(500 * time.Millisecond)
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took > 100*time.Millisecond {
			t.Errorf("the waiter entered after %v, want within 100ms", took)
		}
	})
}

// ended is the claim of a client without a subscription that has ended, and has waited for longer than all others.
const ended = "ended token 400p"

// queueEnded has that claim stand in the queues of a.
func queueEnded(t *testing.T, ms *redlocktest.Masters) {
	t.Helper()
	for _, pool := range ms.Pools() {
		conn := pool.Get()
		defer conn.Close()
		if _, err := conn.Do("ZADD", "redlock:queue:a", 1, ended); err != nil {
			t.Fatal(err)
		}
	}
}

// Nobody knows that the client has ended. Its claim has waited for longer than the others ever will.
func TestAClientWithoutASubscriptionThatHasEndedDoesNotStopTheOthers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		queueEnded(t, ms)
		var all []lockerContext
		for range 4 {
			all = append(all, connected(t, ms, &redlock.Options{DisableWakeups: true}).Locker("a"))
		}
		turns := turnsOf(t, 20*time.Second, 300*time.Millisecond, all...)
		sum := 0
		for _, n := range turns {
			sum += n
		}
		t.Logf("turns %v", turns)
		if slices.Min(turns) < 3 || sum < 30 {
			t.Errorf("turns %v in 20 s, want 3 or more for each, and 30 for all", turns)
		}
		for i := range 3 {
			if slices.Contains(queue(t, ms, i, "a"), ended) {
				t.Errorf("the claim is in the queue of master %d", i+1)
			}
		}
	})
}

func TestAWriterWithoutASubscriptionThatHasEndedDoesNotStopReaders(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		ms = ms.WithDelays(1e6, 1e6, 1e6)
		queueEnded(t, ms)
		var all []lockerContext
		for range 3 {
			all = append(all, ms.Open(nil).RWLocker("a").RLocker())
		}
		time.Sleep(3 * time.Second)
		turns := turnsOf(t, 20*time.Second, 10*time.Millisecond, all...)
		t.Logf("turns %v", turns)
		if slices.Min(turns) < 1000 {
			t.Errorf("turns %v in 20 s, want 1000 or more for each", turns)
		}
	})
}

// A grant to a claim that was given up stands until it expires.
func TestAGrantThatNobodyWantsDelaysTheOthersUntilItExpires(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, nil).Locker("a")
		take(a)
		ctx, cancel := context.WithCancel(t.Context())
		go connected(t, ms, nil).Locker("a").LockContext(ctx)
		queued(t, ms, "a", 1)
		member := queueHead(t, ms, "a")
		cancel()
		queued(t, ms, "a", 0)
		in := locktest.Enter(connected(t, ms, nil).Locker("a"))
		queued(t, ms, "a", 1)
		for i := range 5 {
			conn := ms.Pools()[i].Get()
			conn.Do("ZADD", "redlock:queue:a", 1, member) // as if the release of the claim had been lost
			conn.Close()
		}
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took > grantLasts+250*time.Millisecond {
			t.Errorf("the waiter behind entered after %v, want the grant to expire before", took)
		}
	})
}

func TestLeavingTheWaitLeavesTheQueue(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a := connected(t, ms, lazy()).Locker("a")
		take(a)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		l := connected(t, ms, lazy()).Locker("a")
		go func() { done <- l.LockContext(ctx) }()
		queued(t, ms, "a", 1)
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) || !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("LockContext = %v", err)
		}
		queued(t, ms, "a", 0)
		a.Unlock()
	})
}

func TestWaitersOfACrashedHolderEnterWhenItsKeyExpires(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 5 {
			ms.Master(i).Set("a", "of one that crashed", 1234*time.Millisecond)
		}
		start := time.Now()
		in := locktest.Enter(connected(t, ms, lazy()).Locker("a"))
		if took := (<-in).Sub(start); took < 1234*time.Millisecond || took > 1234*time.Millisecond+10*time.Millisecond {
			t.Errorf("the waiter entered after %v, want when the key expired at 1.234s and a little jitter", took)
		}
	})
}

// The client that has waited longest is granted the lock, and leaves before it has heard of it. The next client
// must not wait until its own next poll, an hour later.
func TestAWaiterThatLeavesWhileItIsGrantedTheLockPassesItOn(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		rarely := &redlock.Options{
			NewBackOff:  func() redlock.BackOff { return hourly{} },
			LockOptions: redlock.LockOptions{TTL: 9 * time.Second, RenewEvery: -1},
		}
		holder := connected(t, ms, rarely).Locker("a")
		far := openAt(ms, 20*time.Millisecond, rarely).Locker("a")
		next := connected(t, ms, rarely).Locker("a")
		holder.Lock()

		leaving, leave := context.WithCancel(t.Context())
		left := make(chan error)
		go func() { left <- far.LockContext(leaving) }()
		time.Sleep(200 * time.Millisecond) // it has joined the queue
		entered := make(chan time.Time)
		go func() {
			next.Lock()
			entered <- time.Now()
		}()
		time.Sleep(200 * time.Millisecond)

		unlocked := time.Now()
		holder.Unlock()
		time.Sleep(30 * time.Millisecond) // the messages to far are under way
		leave()
		if err := <-left; err == nil {
			t.Fatal("the far waiter has the lock: the test has lost its subject")
		}
		if waited := (<-entered).Sub(unlocked); waited > 200*time.Millisecond {
			t.Errorf("the next waiter entered after %v", waited)
		}
		next.Unlock()
	})
}

// hourly is a schedule with one attempt an hour.
type hourly struct{}

func (hourly) NextBackOff() time.Duration { return time.Hour }

// An address leads to one server, and later to another one.
type address struct {
	hidesINFO bool // immutable; the servers forbid INFO

	mu     sync.Mutex // guards what follows
	target *redlocktest.Master
	conns  []*addressedConn
}

// An addressedConn notes whether its client has subscribed.
type addressedConn struct {
	net.Conn
	hidesINFO  bool // immutable
	subscribed atomic.Bool
}

func (c *addressedConn) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\nSUBSCRIBE\r\n")) {
		c.subscribed.Store(true)
	}
	if c.hidesINFO {
		p = bytes.ReplaceAll(p, []byte("\r\nINFO\r\n"), []byte("\r\nHIDE\r\n"))
	}
	return c.Conn.Write(p)
}

// pool returns a pool of connections to the address.
func (a *address) pool() *redis.Pool {
	return &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		conn, err := a.target.Dial(ctx)
		if err != nil {
			return nil, err
		}
		c := &addressedConn{Conn: conn, hidesINFO: a.hidesINFO}
		a.conns = append(a.conns, c)
		return redis.NewConn(c, 0, 0), nil
	}}
}

// move makes new connections lead to another server, and ends the present ones, except subscriptions.
func (a *address) move(target *redlocktest.Master) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.target = target
	for _, c := range a.conns {
		if !c.subscribed.Load() {
			c.Close()
		}
	}
}

// After a failover behind an address, the subscription to the former server lives on.
func TestAfterAFailoverAClientIsToldByTheServerThatExecutesItsCommands(t *testing.T) {
	for _, row := range []struct {
		name      string
		hidesINFO bool
	}{{"run_id is told", false}, {"INFO is forbidden", true}} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 6, func(t *testing.T, ms *redlocktest.Masters) {
				var addresses []*address
				var moving, present []*redis.Pool
				for i := range 3 {
					a := &address{hidesINFO: row.hidesINFO, target: ms.Master(i)}
					addresses, moving = append(addresses, a), append(moving, a.pool())
					to := &address{hidesINFO: row.hidesINFO, target: ms.Master(3 + i)}
					present = append(present, to.pool())
				}
				open := func(pools []*redis.Pool) *redlock.Client {
					c, err := redlock.New(pools, nil)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() { c.Close() })
					time.Sleep(2 * time.Second)
					if err := c.Ping(t.Context()); err != nil {
						t.Fatal(err)
					}
					return c
				}
				moved := open(moving)
				for i, a := range addresses {
					a.move(ms.Master(3 + i))
				}
				time.Sleep(15 * time.Second) // a quarantine, unless the run_id shows that the server was adopted
				turns, _ := loops(t, time.Second, moved, open(present))
				if turns[0] < turns[1]/2 {
					t.Errorf("the client whose masters have moved had %d turns, another one %d", turns[0], turns[1])
				}
				for _, m := range moved.Masters() {
					if m.WakeErr != nil {
						t.Errorf("%s: WakeErr = %v", m.Name, m.WakeErr)
					}
				}
			})
		})
	}
}

// loops has each client lock and unlock "a" for a time, and returns how often each one did, and how long it waited at most.
func loops(t *testing.T, last time.Duration, clients ...*redlock.Client) (turns []int, longest []time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), last)
	defer cancel()
	turns, longest = make([]int, len(clients)), make([]time.Duration, len(clients))
	var all sync.WaitGroup
	for i, c := range clients {
		all.Go(func() {
			for l := c.Locker("a"); ; turns[i]++ {
				began := time.Now()
				err := l.LockContext(ctx)
				longest[i] = max(longest[i], time.Since(began))
				if err != nil {
					return
				}
				time.Sleep(20 * time.Millisecond)
				l.Unlock()
			}
		})
	}
	all.Wait()
	return turns, longest
}
