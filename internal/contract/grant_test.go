package contract_test

import (
	"context"
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

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// These tests are about messages that must not make a lease, and about clients that must not keep what they were
// granted. Package defects breaks the rules that they check.

// A tap keeps back what arrives at a client, while what the client sends passes.
type tap struct {
	mu   sync.Mutex // guards what follows
	shut chan struct{}
}

// close makes the tap keep back what comes, until the returned function is called or the test ends.
func (tp *tap) close(t *testing.T) (open func()) {
	tp.mu.Lock()
	defer tp.mu.Unlock()
	shut := make(chan struct{})
	tp.shut = shut
	open = sync.OnceFunc(func() { close(shut) })
	t.Cleanup(open)
	return open
}

// pass waits until the tap is open.
func (tp *tap) pass() {
	tp.mu.Lock()
	shut := tp.shut
	tp.mu.Unlock()
	if shut != nil {
		<-shut
	}
}

// tapped returns a Client behind two taps: one for what the masters publish to it, and one for their answers.
func tapped(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options, messages, answers *tap) *redlock.Client {
	t.Helper()
	return openVia(t, ms, opts, func(ctx context.Context, i int) (net.Conn, error) {
		c, err := ms.Master(i).Dial(ctx)
		return &tappedConn{Conn: c, messages: messages, answers: answers}, err
	})
}

// openVia returns a Client that dials with a function, when it is connected as far as it can be.
func openVia(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options, dial func(ctx context.Context, i int) (net.Conn, error)) *redlock.Client {
	t.Helper()
	var pools []*redis.Pool
	for i := range ms.Len() {
		pools = append(pools, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			c, err := dial(ctx, i)
			if err != nil {
				return nil, err
			}
			return redis.NewConn(c, 0, 0), nil
		}})
	}
	c, err := redlock.New(pools, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.Close()
		for _, p := range pools {
			p.Close()
		}
	})
	synctest.Wait()
	return c
}

// A tappedConn is a connection behind one of two taps.
type tappedConn struct {
	net.Conn
	messages, answers *tap
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
		c.messages.pass()
	} else {
		c.answers.pass()
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

// oftenEnough runs f in some bubbles with three masters, one after another: one release in eight grants nobody.
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
		messages := new(tap)
		late := tapped(t, ms, lazy(), messages, new(tap)) // no poll tells it what the masters have granted
		take(a)
		in := locktest.Enter(late.Locker("a"))
		queued(t, ms, "a", 1)
		time.Sleep(time.Second) // its pings are answered
		open := messages.close(t)
		next := locktest.Enter(b)
		queued(t, ms, "a", 2)
		a.Unlock() // grants late the lock
		<-next     // when that is over
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
		messages, answers := new(tap), new(tap)
		slow := tapped(t, ms, &redlock.Options{NodeTimeout: 50 * time.Millisecond, LockOptions: lazy().LockOptions}, messages, answers)
		take(a)
		in := locktest.Enter(slow.Locker("a"))
		queued(t, ms, "a", 1)
		givenUp := queueHead(t, ms, "a")
		next := locktest.Enter(b)
		queued(t, ms, "a", 2)
		time.Sleep(time.Second) // after a short hold, every second release would leave the lock open
		open := messages.close(t)
		answer := answers.close(t) // no poll is answered, so the claim is released
		a.Unlock()                 // grants slow the lock
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
		locktest.Enter(reaching(t, ms, only, cut).Locker("a"))
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
