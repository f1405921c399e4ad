package contract_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
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

// passed has a waiter with these options get the lock from another client, and returns the waiter's Locker and how many
// scripts a master has executed for that. A release in two leaves the lock open here.
func passed(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) (waiter *redlock.Locker, scripts int) {
	t.Helper()
	return passedTo(t, ms, connected(t, ms, opts))
}

// passedTo is passed for a Client that waits.
func passedTo(t *testing.T, ms *redlocktest.Masters, c *redlock.Client) (waiter *redlock.Locker, scripts int) {
	t.Helper()
	holder := connected(t, ms, nil).Locker("a")
	waiter = c.Locker("a")
	take(holder)
	in := locktest.Enter(waiter)
	queued(t, ms, "a", 1)
	before := ms.Master(0).Count("EVALSHA")
	released := time.Now()
	holder.Unlock()
	if took := (<-in).Sub(released); took != 0 {
		t.Errorf("the waiter entered %v after the release, want at once", took)
	}
	synctest.Wait()
	return waiter, ms.Master(0).Count("EVALSHA") - before
}

// granted is passed until a release has granted the lock: its script is then the only one.
func granted(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) *redlock.Locker {
	t.Helper()
	for range 100 {
		l, scripts := passed(t, ms, opts)
		if scripts == 1 {
			return l
		}
		l.Unlock()
		synctest.Wait()
	}
	t.Fatal("none of 100 releases has granted the lock to the waiter")
	return nil
}

func TestAGrantedLeaseIsShortUntilItsFirstRenewal(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{MaxHold: time.Millisecond}}
		l := granted(t, ms, opts)
		s := l.Lease()
		if left := time.Until(s.Until()); left <= grantLasts*3/4 || left > grantLasts {
			t.Errorf("a lease that was granted is valid for %v, want about %v", left, grantLasts)
		}
		time.Sleep(150 * time.Millisecond)
		if left := time.Until(s.Until()); left < 9*time.Second {
			t.Errorf("after the first renewal the lease is valid for %v, want the TTL whatever MaxHold is", left)
		}
		time.Sleep(9 * time.Second)
		if left := time.Until(s.Until()); left > time.Second {
			t.Errorf("the lease is valid for %v more, want no second renewal after MaxHold", left)
		}
		l.Unlock()
	})
}

// A process that is throttled, or a virtual machine that is moved, stops for some 100 ms. Here nothing of what the client sends arrives meanwhile.
func TestALeaseThatWasJustGrantedIsKeptByAProcessThatStopsFor700Milliseconds(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const stop = 700 * time.Millisecond
		pause := func() {
			for i := range ms.Len() {
				ms.Master(i).Freeze()
			}
			time.Sleep(stop)
			for i := range ms.Len() {
				ms.Master(i).Thaw()
			}
			time.Sleep(100 * time.Millisecond)
		}
		l := granted(t, ms, nil)
		pause()
		if err := l.Lease().Err(); err != nil {
			t.Errorf("the lease of a lock: %v", err)
		}
		l.Unlock()

		holder := acquire(t, connected(t, ms, nil).Semaphore("b", 1), 1)
		next := make(chan *redlock.Permit)
		waiter := connected(t, ms, nil).Semaphore("b", 1)
		go func() {
			p, _ := waiter.Acquire(t.Context())
			next <- p
		}()
		time.Sleep(300 * time.Millisecond)
		holder.Release()
		p := <-next
		pause()
		if err := p.Err(); err != nil {
			t.Errorf("a permit: %v", err)
		}
		p.Release()
	})
}

// A grant is short, and such a lease is never renewed. So its keys are extended before it begins.
func TestALeaseThatIsNotRenewedHasItsWholeTTLAfterAWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}
		for range 10 {
			l, _ := passed(t, ms, opts)
			if left := time.Until(l.Lease().Until()); left < 9*time.Second {
				t.Fatalf("the lease is valid for %v, want the TTL", left)
			}
			l.Unlock()
			synctest.Wait()
		}
	})
}

// A client that cannot tell the memories of masters apart finds by a poll that it was granted the lock.
func TestALockIsGrantedWhereMastersHideTheirRunIDs(t *testing.T) {
	for _, row := range []struct {
		name string
		hide []int // masters
	}{
		{"all hide it", []int{0, 1, 2}},
		{"a majority hides it", []int{0, 2}},
		{"a minority hides it", []int{1}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				c := openVia(t, ms, nil, func(ctx context.Context, i int) (net.Conn, error) {
					conn, err := ms.Master(i).Dial(ctx)
					if slices.Contains(row.hide, i) {
						conn = noInfo{conn}
					}
					return conn, err
				})
				for range 100 {
					l, _ := passedTo(t, ms, c)
					if time.Until(l.Lease().Until()) <= grantLasts {
						return
					}
					l.Unlock()
					synctest.Wait()
				}
				t.Error("none of 100 releases has granted the lock to the waiter")
			})
		})
	}
}

// Masters in quarantine cannot grant the lock. A client that begins to wait then is granted it afterwards all the same.
func TestAWaitThatBeganInAQuarantineIsGrantedTheLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, nil), connected(t, ms, nil)
		for i := range 2 {
			ms.Master(i).Stop()
			ms.Master(i).Start()
		}
		time.Sleep(5 * time.Second)
		if n := locktest.States(a, redlock.MasterQuarantined); n != 2 {
			t.Fatalf("%d masters are in quarantine, want 2", n)
		}
		first, second := locktest.Enter(a.Locker("a")), locktest.Enter(b.Locker("a"))
		select {
		case <-first:
		case <-second:
		}
		queued(t, ms, "a", 1)
		time.Sleep(time.Second)
		if member := queueHead(t, ms, "a"); len(strings.Fields(member)) != 3 {
			t.Errorf("the queue has the member %q, want a claim", member)
		}
	})
}

// A noInfo is a connection through a proxy that forbids INFO.
type noInfo struct{ net.Conn }

func (c noInfo) Write(p []byte) (int, error) {
	return c.Conn.Write(bytes.ReplaceAll(p, []byte("$4\r\nINFO\r\n"), []byte("$4\r\nNONE\r\n")))
}

// The next tests are about messages that must not make a lease, and about clients that must not keep what they were
// granted. Package defects breaks the rules that they check.

// tapped returns a Client behind two taps: one for what the masters publish to it, and one for their answers.
func tapped(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options, messages, answers *locktest.Tap) *redlock.Client {
	t.Helper()
	return openVia(t, ms, opts, func(ctx context.Context, i int) (net.Conn, error) {
		c, err := ms.Master(i).Dial(ctx)
		return &tappedConn{Conn: c, messages: messages, answers: answers}, err
	})
}

// A tappedConn is a connection behind one of two taps.
type tappedConn struct {
	net.Conn
	messages, answers *locktest.Tap
	subscribes        atomic.Bool
}

func (c *tappedConn) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "\r\nSUBSCRIBE\r\n") {
		c.subscribes.Store(true)
	}
	return c.Conn.Write(p)
}

func (c *tappedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.subscribes.Load() {
		c.messages.Pass()
	} else {
		c.answers.Pass()
	}
	return n, err
}

// kept fails the test if another client has the lock by now.
func kept(t *testing.T, holder *redlock.Locker, others ...<-chan time.Time) {
	t.Helper()
	synctest.Wait()
	for _, in := range others {
		select {
		case <-in:
			t.Fatal("two clients have the lock")
		default:
		}
	}
	if !holder.Lease().Valid() {
		t.Errorf("the holder has lost the lock: %v", holder.Lease().Err())
	}
}

// oftenEnough runs f in some bubbles with three masters, one after another: one release in twelve grants nobody.
func oftenEnough(t *testing.T, f func(t *testing.T, ms *redlocktest.Masters)) {
	t.Helper()
	for range 4 {
		bubble(t, 3, f)
	}
}

// A grant whose message comes late counts from before it was made, so that it does not count beside what the masters
// have granted since.
func TestAGrantThatIsReceivedLateIsOver(t *testing.T) {
	oftenEnough(t, func(t *testing.T, ms *redlocktest.Masters) {
		eager := &redlock.Options{LockOptions: lazy().LockOptions} // with another TTL, votes would be void for a moment
		a, b := connected(t, ms, lazy()).Locker("a"), connected(t, ms, eager).Locker("a")
		messages := new(locktest.Tap)
		late := tapped(t, ms, lazy(), messages, new(locktest.Tap)) // no poll tells it what the masters have granted
		take(a)
		in := locktest.Enter(late.Locker("a"))
		queued(t, ms, "a", 1)
		time.Sleep(time.Second) // its pings are answered
		open := messages.Shut(t)
		next := locktest.Enter(b)
		queued(t, ms, "a", 2)
		a.Unlock() // grants late the lock
		select {
		case <-next: // when that is over
		case <-in: // the release has granted nobody, and late was the first to poll
			return
		}
		open()
		kept(t, b, in)
		b.Unlock()
		<-in
	})
}

// A grant counts only in the memory that the client has inspected.
func TestAGrantOfAnUnknownMemoryDoesNotCount(t *testing.T) {
	for _, row := range []struct {
		name      string
		run, left string // what the message says, beside the truth
		counts    bool
	}{
		{"another process", strings.Repeat("0", 40), "", false},
		{"another record of restarts", "", "1000", false},
		{"no record", "", "-2", false},
		{"the memory that is known", "", "", true},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				_, channel, in := waiting(t, ms)
				token := strings.Fields(queueHead(t, ms, "a"))[1]
				for i := range 2 {
					run, left := row.run, row.left
					if run == "" {
						run = runID(t, ms, i)
					}
					if left == "" {
						left = strconv.FormatInt(ms.Master(i).TTL("redlock:incarnation").Milliseconds(), 10)
					}
					publish(t, ms, i, channel, fmt.Sprintf("+ %s %s %s 0 a", token, run, left))
				}
				synctest.Wait()
				counted := false
				select {
				case <-in:
					counted = true
				default:
				}
				if counted != row.counts {
					t.Errorf("a quorum of messages counts: %v, want %v", counted, row.counts)
				}
			})
		})
	}
}

// runID returns the run_id of a master.
func runID(t *testing.T, ms *redlocktest.Masters, i int) string {
	t.Helper()
	conn := ms.Pools()[i].Get()
	defer conn.Close()
	info, err := redis.String(conn.Do("INFO", "server"))
	_, id, ok := strings.Cut(info, "run_id:")
	if err != nil || !ok {
		t.Fatalf("INFO server = %q, %v", info, err)
	}
	return strings.TrimSpace(id)
}

// A claim that was given up does not count, although the client goes on waiting, and its grants arrive then.
func TestAGrantForAClaimThatWasGivenUpDoesNotCount(t *testing.T) {
	oftenEnough(t, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, lazy()).Locker("a"), connected(t, ms, lazy()).Locker("a")
		messages, answers := new(locktest.Tap), new(locktest.Tap)
		slow := tapped(t, ms, &redlock.Options{NodeTimeout: 50 * time.Millisecond, LockOptions: lazy().LockOptions}, messages, answers)
		take(a)
		in := locktest.Enter(slow.Locker("a"))
		queued(t, ms, "a", 1)
		givenUp := queueHead(t, ms, "a")
		next := locktest.Enter(b)
		queued(t, ms, "a", 2)
		time.Sleep(time.Second) // after a short hold, every second release would leave the lock open
		open := messages.Shut(t)
		answer := answers.Shut(t) // no poll is answered, so the claim is released
		a.Unlock()                // grants slow the lock
		<-next
		answer()
		queuedAgain(t, ms, "a", givenUp)
		open()
		kept(t, b, in)
	})
}

// queuedAgain waits until the client of a former member of a queue has another member there at every master. The queues
// may have members of other clients, too: the holder stays in the queue of a master where its key was healed.
func queuedAgain(t *testing.T, ms *redlocktest.Masters, key, former string) {
	t.Helper()
	again := func(member string) bool { return clientOf(member) == clientOf(former) && member != former }
	for range 1000 {
		synctest.Wait()
		n := 0
		for i := range ms.Len() {
			if slices.ContainsFunc(queue(t, ms, i, key), again) {
				n++
			}
		}
		if n == ms.Len() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("the client of %q never queued again for %s", former, key)
}

// heldWithTwoPartialWaiters returns the holder of "a", for which two clients wait. As soon as cut is set, these two
// reach one master each.
func heldWithTwoPartialWaiters(t *testing.T, ms *redlocktest.Masters) (holder *redlock.Locker, cut *atomic.Bool) {
	t.Helper()
	holder, cut = connected(t, ms, nil).Locker("a"), new(atomic.Bool)
	take(holder)
	for only := range 2 {
		c := reaching(t, ms, only, cut)
		l, err := c.NewLocker("a", &redlock.LockOptions{TTL: 4 * time.Second}) // so g is short: unused grants of a long one put the claims behind
		if err != nil {
			t.Fatal(err)
		}
		locktest.Enter(l)
		queued(t, ms, "a", only+1)
	}
	return holder, cut
}

// Two clients that reach one master each must not keep a third one out, which reaches all of three.
func TestClientsThatReachOneMasterEachDoNotKeepOthersOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		holder, cut := heldWithTwoPartialWaiters(t, ms)
		in := locktest.Enter(connected(t, ms, nil).Locker("a"))
		queued(t, ms, "a", 3)
		cut.Store(true)
		holder.Unlock()
		select {
		case <-in:
		case <-time.After(20 * time.Second):
			t.Errorf("nobody has the lock, and the masters keep %q", ms.Get("a"))
		}
	})
}

// Nobody waits until what such clients were granted expires: they release it as soon as they know.
func TestClientsThatReachOneMasterEachDoNotDelayOthers(t *testing.T) {
	for range 16 { // where such a client keeps what it was granted, some of the scenes show it
		partialWaitersDelayNobody(t)
	}
}

func partialWaitersDelayNobody(t *testing.T) {
	t.Helper()
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		holder, cut := heldWithTwoPartialWaiters(t, ms)
		cut.Store(true)
		holder.Unlock()
		time.Sleep(5 * time.Second) // the lost connections have been given up
		for range 50 {
			began := time.Now()
			holder.Lock()
			if waited := time.Since(began); waited > 50*time.Millisecond {
				t.Fatalf("a client that reaches all masters has waited for %v, want 50ms at most", waited)
			}
			time.Sleep(10 * time.Millisecond)
			holder.Unlock()
			time.Sleep(10 * time.Millisecond)
		}
	})
}

// reaching returns a Client that reaches all masters, and only one of them when cut is set.
func reaching(t *testing.T, ms *redlocktest.Masters, only int, cut *atomic.Bool) *redlock.Client {
	t.Helper()
	return openVia(t, ms, nil, func(ctx context.Context, i int) (net.Conn, error) {
		if i != only && cut.Load() {
			return nil, fmt.Errorf("%s is cut off", ms.Master(i).Name())
		}
		conn, err := ms.Master(i).Dial(ctx)
		if i != only {
			conn = &cutConn{conn, cut}
		}
		return conn, err
	})
}

// A cutConn is a connection that loses what is sent when it is cut, in both directions.
type cutConn struct {
	net.Conn
	cut *atomic.Bool
}

func (c *cutConn) Write(p []byte) (int, error) {
	if c.cut.Load() {
		return len(p), nil
	}
	return c.Conn.Write(p)
}

func (c *cutConn) Read(p []byte) (int, error) {
	for {
		if n, err := c.Conn.Read(p); err != nil || !c.cut.Load() {
			return n, err
		}
	}
}

// Whatever the TTL, the drift and the round trip are, a client that waits enters soon after the release.
func TestAWaitingClientEntersWhateverTTLDriftAndDistanceAre(t *testing.T) {
	for _, row := range []struct {
		ttl    time.Duration
		factor float64
		trip   time.Duration
	}{
		{400 * time.Millisecond, 0.5, 2 * time.Millisecond},
		{450 * time.Millisecond, 0.01, 60 * time.Millisecond},
		{10 * time.Second, 0.99, 0},
		{10 * time.Second, 0.5, 24 * time.Millisecond},
		{10 * time.Second, 0.01, 110 * time.Millisecond},
		{time.Minute, 0.9, 24 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("TTL %v, drift %v, round trip %v", row.ttl, row.factor, row.trip), func(t *testing.T) {
			opts := &redlock.Options{DriftFactor: row.factor, NodeTimeout: 2*row.trip + time.Millisecond, LockOptions: redlock.LockOptions{TTL: row.ttl}}
			drift := time.Duration(row.factor*float64(row.ttl)) + 2*time.Millisecond
			opts.LockOptions.RenewEvery = (row.ttl - drift) / 3
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				way := row.trip / 2
				far := ms.WithDelays(way, way, way)
				holder, waiter := far.Open(opts).Locker("a"), far.Open(opts).Locker("a")
				time.Sleep(2 * time.Second)
				for range 2 {
					take(holder)
					in := locktest.Enter(waiter)
					time.Sleep(time.Second)
					released := time.Now()
					holder.Unlock()
					entersWithin(t, in, released, 500*time.Millisecond+6*row.trip)
					waiter.Unlock()
				}
			})
		})
	}
}

// entersWithin fails t unless a client enters soon after a release.
func entersWithin(t *testing.T, in <-chan time.Time, released time.Time, most time.Duration) {
	t.Helper()
	select {
	case entered := <-in:
		if took := entered.Sub(released); took > most {
			t.Errorf("the client entered %v after the release, want %v at most", took, most)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the client has not entered 20 s after the release")
	}
}

// A network that becomes slow during a wait makes the grants of that wait longer.
func TestAWaitDuringWhichTheNetworkBecomesSlowEnds(t *testing.T) {
	for _, way := range []time.Duration{300 * time.Millisecond, 450 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(way.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				opts := &redlock.Options{NodeTimeout: 2 * time.Second, DialTimeout: 4 * time.Second, LockOptions: redlock.LockOptions{TTL: 20 * time.Second}}
				holder, waiter := connected(t, ms, opts).Locker("a"), connected(t, ms, opts).Locker("a")
				take(holder)
				in := locktest.Enter(waiter)
				queued(t, ms, "a", 1)
				for i := range 3 {
					ms.Master(i).Delay(way)
				}
				time.Sleep(time.Second)
				released := time.Now()
				holder.Unlock()
				// The grant may end before the client can use it. Then a second claim is registered after a random delay.
				entersWithin(t, in, released, 4*way+100*time.Millisecond)
				waiter.Unlock()
			})
		})
	}
}

// A claim waits for a message, and polls since messages get lost. Options.NewBackOff spaces attempts, and says when a wait
// stops.
func TestAClaimPollsAtItsOwnPace(t *testing.T) {
	for _, row := range []struct {
		name     string
		schedule func() redlock.BackOff
		stops    time.Duration // after how long LockContext returns; 0: it does not
	}{
		{"default", nil, 0},
		{"seldom", func() redlock.BackOff { return backoff.NewConstantBackOff(5 * time.Second) }, 0},
		{"often", func() redlock.BackOff { return backoff.NewConstantBackOff(time.Millisecond) }, 0},
		{"ten seconds", func() redlock.BackOff { return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 10) }, 10 * time.Second},
		{"never", func() redlock.BackOff { return &backoff.StopBackOff{} }, time.Nanosecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				take(connected(t, ms, nil).Locker("a"))
				c := connected(t, ms, &redlock.Options{NewBackOff: row.schedule})
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				began, before := time.Now(), polls(ms.Master(0))
				err := c.Locker("a").LockContext(ctx)
				took := time.Since(began)
				switch {
				case !errors.Is(err, redlock.ErrHeld):
					t.Errorf("LockContext = %v, want it to be held", err)
				case row.stops == 0 && took != 15*time.Second, row.stops > 0 && (took < row.stops-1 || took > row.stops+150*time.Millisecond):
					t.Errorf("LockContext returned after %v, want %v (0: with its context)", took, row.stops)
				}
				want := int(took / (100 * time.Millisecond))
				if n := polls(ms.Master(0)) - before; n < want*9/10 || n > want*11/10 {
					t.Errorf("%d polls in %v, want about %d", n, took, want)
				}
			})
		})
	}
}

// A client that waits has a key beside a lease of another, and asks who has the others. The lease ends while the
// answers are on their way. The client gives its key up for the sake of the lease, and must get the lock all the same.
func TestALeaseThatEndsWhileAWaiterYieldsToItLeavesNoFreeLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const way = 10 * time.Millisecond
		a := connected(t, ms, lazy()).Locker("a")
		far := ms.WithDelays(way, way, way).Open(lazy())
		time.Sleep(time.Second) // until far is connected
		take(a)
		in := locktest.Enter(far.Locker("a"))
		queued(t, ms, "a", 1)
		ms.Master(2).Del("a") // a poll of the waiter sets it
		mine, _ := ms.Master(0).Get("a")
		for others := ""; others == "" || others == mine; others, _ = ms.Master(2).Get("a") {
			time.Sleep(time.Millisecond)
		}
		asked := func() int { return polls(ms.Master(0)) }
		for before := asked(); asked() == before; { // the answers to the question are on their way from now on
			time.Sleep(time.Millisecond / 4)
		}
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took > 5*way {
			t.Errorf("the waiter entered %v after the release, want two of its round trips", took)
		}
	})
}

// A master that comes back with an older memory may have a claim in its queue again that has ended since. A release can grant it the lock
// there. Then the key expires after one grant, and the claim is in no queue.
func TestAClaimThatAMasterHasRevivedIsGrantedTheLockOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b, c := connected(t, ms, nil).Locker("a"), connected(t, ms, nil).Locker("a"), connected(t, ms, nil).Locker("a")
		conn := ms.Pools()[0].Get()
		defer conn.Close()
		var old []string // member and score
		// passOn has the lock pass from a to b and c, in some order. Each holds it for longer than most open releases are for.
		passOn := func(revive bool) {
			take(a)
			var all sync.WaitGroup
			for _, l := range []*redlock.Locker{b, c} {
				all.Go(func() {
					l.Lock()
					time.Sleep(20 * time.Millisecond)
					l.Unlock()
				})
				time.Sleep(50 * time.Millisecond)
			}
			var err error
			if revive {
				_, err = conn.Do("ZADD", "redlock:queue:a", old[1], old[0])
			} else if old, err = redis.Strings(conn.Do("ZRANGE", "redlock:queue:a", 0, 0, "WITHSCORES")); len(old) != 2 {
				t.Fatalf("the head of the queue is %q", old)
			}
			if err != nil {
				t.Fatal(err)
			}
			a.Unlock()
			all.Wait()
			synctest.Wait()
		}
		passOn(false)
		time.Sleep(2 * time.Second)
		token := strings.Fields(old[0])[1]
		for range 30 { // a release may leave the lock open, or be that of the claim's own client
			passOn(true)
			got, _ := ms.Master(0).Get("a")
			time.Sleep(grantLasts)
			wantFree(t, ms, "a")
			if got == token {
				if left := queue(t, ms, 0, "a"); len(left) > 0 {
					t.Errorf("the queue has %q", left)
				}
				return
			}
		}
		t.Errorf("the old claim, %q, was never granted the lock", token)
	})
}
