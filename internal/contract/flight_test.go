package contract_test

import (
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
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/wire"
	"github.com/redlock-go/redlock/redlocktest"
)

// A fleet makes calls of SingleFlight for the name "a". The n-th f that begins returns "f" and n.
type fleet struct {
	t    *testing.T
	hold time.Duration // how long f runs
	end  chan struct{} // if it is not nil, f runs until it is closed

	mu      sync.Mutex // guards what follows
	began   []time.Time
	ended   []time.Time
	running int
}

// A landing is how a call ended.
type landing struct {
	value  string
	shared bool
	err    error
	at     time.Time
}

func (f *fleet) run(context.Context) ([]byte, error) {
	f.mu.Lock()
	f.began = append(f.began, time.Now())
	n := len(f.began)
	if f.running++; f.running > 1 {
		f.t.Error("two calls of f at once")
	}
	f.mu.Unlock()
	if time.Sleep(f.hold); f.end != nil {
		<-f.end
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.running--
	f.ended = append(f.ended, time.Now())
	return fmt.Appendf(nil, "f%d", n), nil
}

// call makes a call, and fails the test if its value is that of an f that began before.
func (f *fleet) call(c *redlock.Client) landing {
	called := time.Now()
	value, shared, err := c.SingleFlight(f.t.Context(), "a", f.run)
	l := landing{string(value), shared, err, time.Now()}
	if err != nil {
		return l
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	var n int
	if _, err := fmt.Sscanf(l.value, "f%d", &n); err != nil {
		f.t.Errorf("the value is %q", l.value)
	} else if f.began[n-1].Before(called) {
		f.t.Errorf("the value is that of an f that began %v before the call", called.Sub(f.began[n-1]))
	}
	return l
}

// start makes a call in the background.
func (f *fleet) start(c *redlock.Client) <-chan landing {
	done := make(chan landing, 1)
	go func() { done <- f.call(c) }()
	return done
}

func (f *fleet) calls() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.began)
}

// occupy has somebody else hold the lock of a name.
func occupy(ms *redlocktest.Masters, name string) {
	for i := range ms.Len() {
		locktest.Hold(ms, name, i)
	}
}

// release releases the lock of a name that somebody else holds, to the head of the queue. (A Locker leaves the lock open now and then.)
func release(t *testing.T, ms *redlocktest.Masters, name string) {
	t.Helper()
	for _, pool := range ms.Pools() {
		conn := pool.Get()
		if _, err := conn.Do("EVAL", wire.Scripts()[0], 1, name, "", "release", "somebody else's"); err != nil {
			t.Error(err)
		}
		conn.Close()
	}
}

// away returns a Client at a distance of 1 ms. So a release from here reaches all masters before the commands of a client that it grants the lock.
// Otherwise the next client in the queue may be granted the lock at one master, and may miss the value.
func away(t *testing.T, ms *redlocktest.Masters) *redlock.Client {
	t.Helper()
	c := ms.WithDelays(slices.Repeat([]time.Duration{time.Millisecond}, ms.Len())...).Open(nil)
	time.Sleep(100 * time.Millisecond) // until it is connected
	return c
}

// want fails the test unless a call has ended with this value.
func (l landing) want(t *testing.T, value string, shared bool) {
	t.Helper()
	if l.value != value || l.shared != shared || l.err != nil {
		t.Errorf("SingleFlight = %q, %v, %v, want %q, %v", l.value, l.shared, l.err, value, shared)
	}
}

// A hundred processes wait. One of them calls f, and the others have the value one round trip after its end.
func TestOneCallServesAllThatWait(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const processes, oneWay = 100, 10 * time.Millisecond
		f := &fleet{t: t, hold: 50 * time.Millisecond}
		occupy(ms, "a")
		var clients []*redlock.Client
		for range processes {
			clients = append(clients, ms.WithDelays(oneWay, oneWay, oneWay).Open(nil))
		}
		time.Sleep(time.Second)
		var all []<-chan landing
		for _, c := range clients {
			all = append(all, f.start(c))
		}
		queued(t, ms, "a", processes)
		release(t, ms, "a")
		served := 0
		for _, done := range all {
			l := <-done
			if l.err != nil || l.value != "f1" {
				t.Errorf("SingleFlight = %q, %v", l.value, l.err)
			}
			if l.shared {
				served++
			}
			if trips := float64(l.at.Sub(f.ended[0])) / float64(2*oneWay); trips > 1.5 {
				t.Errorf("a call ended %.2f round trips after f", trips)
			}
		}
		if f.calls() != 1 || served != processes-1 {
			t.Errorf("%d calls of f, %d values shared, want 1 and %d", f.calls(), served, processes-1)
		}
		time.Sleep(time.Second)
		wantFree(t, ms, "a")
		queued(t, ms, "a", 0)
	})
}

// Who calls while f runs waits for the next f.
func TestNoCallerGetsTheValueOfAnFThatBeganBefore(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, hold: 100 * time.Millisecond}
		var clients []*redlock.Client
		for range 4 {
			clients = append(clients, connected(t, ms, nil))
		}
		first := f.start(clients[0])
		time.Sleep(20 * time.Millisecond)
		second, third := f.start(clients[1]), f.start(clients[2])
		own := f.start(clients[0]) // of the process whose f runs
		(<-first).want(t, "f1", false)
		shared := 0
		for _, done := range []<-chan landing{second, third, own} {
			l := <-done // call checks the value
			if l.err != nil {
				t.Error(l.err)
			}
			if l.shared {
				shared++
			}
		}
		if shared == 0 || f.calls() > 3 {
			t.Errorf("%d calls of f, %d values shared", f.calls(), shared)
		}
	})
}

// A value is sent once. A client that misses it calls its own f.
func TestALostValueCostsAFurtherCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, hold: 50 * time.Millisecond}
		occupy(ms, "a")
		one, two := f.start(connected(t, ms, nil)), f.start(connected(t, ms, nil))
		queued(t, ms, "a", 2)
		release(t, ms, "a")
		for f.calls() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(f.hold / 2)
		for i := range ms.Len() {
			ms.Master(i).DropRequest("EVALSHA")
		}
		values := map[string]bool{}
		for _, done := range []<-chan landing{one, two} {
			l := <-done
			if values[l.value] = true; l.shared || l.err != nil {
				t.Errorf("SingleFlight = %q, %v, %v", l.value, l.shared, l.err)
			}
		}
		if !values["f1"] || !values["f2"] {
			t.Errorf("values: %v, want one for each call", values)
		}
	})
}

// A client that is cut off from a master has the value from another one.
func TestAValueThatComesFromFewerMastersIsEnough(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, hold: 50 * time.Millisecond}
		occupy(ms, "a")
		one := f.start(away(t, ms))
		queued(t, ms, "a", 1)
		two := f.start(away(t, ms))
		queued(t, ms, "a", 2)
		release(t, ms, "a")
		for f.calls() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(f.hold / 2)
		ms.Master(0).Freeze()
		defer ms.Master(0).Thaw()
		(<-one).want(t, "f1", false)
		(<-two).want(t, "f1", true)
	})
}

// A master that lies, or whoever may publish at one, is not believed.
func TestAValueThatOneMasterHasForgedIsNotTaken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t}
		occupy(ms, "a")
		done := f.start(connected(t, ms, nil))
		queued(t, ms, "a", 1)
		conn := ms.Pools()[0].Get()
		defer conn.Close()
		members, err := redis.Strings(conn.Do("ZRANGE", "redlock:queue:a", 0, 0))
		if err != nil {
			t.Fatal(err)
		}
		client, rest, _ := strings.Cut(members[0], " ")
		claim, _, _ := strings.Cut(rest, " ")
		if n, err := redis.Int(conn.Do("PUBLISH", "redlock:wake:"+client, "! "+claim+" holder 1 aforged")); n != 1 || err != nil {
			t.Fatalf("PUBLISH: %d, %v", n, err)
		}
		time.Sleep(time.Second)
		release(t, ms, "a")
		(<-done).want(t, "f1", false)
	})
}

// cuttable returns a Client, and a function that cuts its connections.
func cuttable(t *testing.T, ms *redlocktest.Masters) (*redlock.Client, func()) {
	var mu sync.Mutex
	var conns []net.Conn
	var pools []*redis.Pool
	for i := range ms.Len() {
		pools = append(pools, &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
			conn, err := ms.Master(i).Dial(ctx)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			conns = append(conns, conn)
			return redis.NewConn(conn, 0, 0), nil
		}})
	}
	c, err := redlock.New(pools, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	time.Sleep(time.Second)
	return c, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range conns {
			conn.Close()
		}
	}
}

// If the connection was lost since the registration, a restart may have brought an earlier memory back. Then the value is not sent.
func TestNoValueIsSentOverAnotherConnection(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, hold: 2 * time.Second}
		occupy(ms, "a")
		c, cut := cuttable(t, ms)
		one := f.start(c)
		queued(t, ms, "a", 1)
		two := f.start(connected(t, ms, nil))
		queued(t, ms, "a", 2)
		release(t, ms, "a")
		for f.calls() == 0 {
			time.Sleep(time.Millisecond)
		}
		cut()
		(<-one).want(t, "f1", false)
		(<-two).want(t, "f2", false)
	})
}

// A client that calls while a master has lost the key of the holder does not find its token there. When the key is set again, the
// function has begun long before.
func TestNoValueIsSentByAMasterThatWasHealed(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, end: make(chan struct{})}
		// Masters 0 and 1 are its quorum, and it heals often.
		near := ms.WithDelays(0, 0, time.Millisecond).Open(&redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: 50 * time.Millisecond}})
		time.Sleep(time.Second)
		one, other := f.start(near), connected(t, ms, nil)
		for f.calls() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(10 * time.Millisecond) // until all masters have the key
		holder := ms.Get("a")[0]
		ms.Master(0).Del("a")
		two := f.start(other)
		for range 20_000 { // two may have the key for a moment, and gives way
			if time.Sleep(time.Millisecond); ms.Get("a")[0] == holder && len(queue(t, ms, 0, "a")) == 1 {
				break
			}
		}
		if now := ms.Get("a"); now[0] != holder {
			t.Errorf("the keys are %q, want that of the holder healed", now)
		}
		close(f.end)
		(<-one).want(t, "f1", false)
		(<-two).want(t, "f2", false)
	})
}

// What one f ends with other than a value is its caller's alone.
func TestOnlyValuesAreShared(t *testing.T) {
	boom := errors.New("boom")
	for _, row := range []struct {
		name string
		f    func(ctx context.Context) ([]byte, error)
		want error
		len  int // of the value
	}{
		{"an error", func(context.Context) ([]byte, error) { return nil, boom }, boom, 0},
		{"a value and an error", func(context.Context) ([]byte, error) { return []byte("half"), boom }, boom, 4},
		{"a value that is too large", func(context.Context) ([]byte, error) { return make([]byte, 4097), nil }, redlock.ErrTooLarge, 4097},
		{"a panic", func(context.Context) ([]byte, error) { panic(boom) }, boom, 0},
		{"a panic with nil", func(context.Context) ([]byte, error) { panic(nil) }, nil, 0},
	} {
		for _, own := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, own process %v", row.name, own), func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
					occupy(ms, "a")
					c := connected(t, ms, nil)
					other := c
					if !own {
						other = connected(t, ms, nil)
					}
					failed := make(chan struct{})
					go func() {
						defer close(failed)
						defer func() {
							if p := recover(); p != nil && row.want != nil && p != row.want {
								t.Errorf("the panic is %v", p)
							}
						}()
						value, shared, err := c.SingleFlight(t.Context(), "a", row.f)
						if !errors.Is(err, row.want) || shared || len(value) != row.len {
							t.Errorf("SingleFlight = %d bytes, %v, %v, want %d and %v", len(value), shared, err, row.len, row.want)
						}
					}()
					queued(t, ms, "a", 1)
					f := &fleet{t: t}
					done := f.start(other)
					time.Sleep(100 * time.Millisecond)
					release(t, ms, "a")
					<-failed
					(<-done).want(t, "f1", false)
				})
			})
		}
	}
}

// The longest value and the empty one are shared, whatever bytes are in them and in the name.
func TestValuesAreSharedAsTheyAre(t *testing.T) {
	for _, value := range []string{"", "\x00 \r\n! $ \xff", strings.Repeat("x", 4096)} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			const name = "a b\r\n! 5\xff"
			occupy(ms, name)
			buffer := []byte(value)
			results := make(chan string, 2)
			var calls atomic.Int32
			for range 2 {
				c := away(t, ms)
				go func() {
					got, shared, err := c.SingleFlight(t.Context(), name, func(context.Context) ([]byte, error) {
						calls.Add(1)
						time.Sleep(10 * time.Millisecond) // until a poll that was on its way is answered
						return buffer, nil
					})
					if err != nil || string(got) != value {
						t.Errorf("SingleFlight = %q, %v, %v", got, shared, err)
					}
					clear(got) // it is the caller's
					results <- string(got)
				}()
			}
			queued(t, ms, name, 2)
			release(t, ms, name)
			<-results
			<-results
			if calls.Load() != 1 {
				t.Errorf("%d calls of f, want 1", calls.Load())
			}
		})
	}
}

// Goroutines of one process make one call, also if it ends with the value of another process. Of those that came after the call was
// registered, none gets that value, since they may have come after f began.
func TestGoroutinesShareOneCall(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, hold: 50 * time.Millisecond}
		occupy(ms, "a")
		c := away(t, ms)
		before := ms.Master(0).Count("EVALSHA")
		var all []<-chan landing
		for range 20 {
			all = append(all, f.start(c))
		}
		queued(t, ms, "a", 1)
		if n := ms.Master(0).Count("EVALSHA") - before; n > 5 {
			t.Errorf("20 goroutines have sent %d commands", n)
		}
		other := f.start(away(t, ms))
		queued(t, ms, "a", 2)
		release(t, ms, "a")
		shared := 0
		for _, done := range append(all, other) {
			l := <-done
			if l.shared {
				shared++
			}
			if l.err != nil {
				t.Error(l.err)
			}
		}
		if n := f.calls(); shared != 21-n || n > 2 {
			t.Errorf("%d calls of f, %d values shared", n, shared)
		}
	})
}

// A goroutine that joins a call after its registration may have come after the f of another process began.
func TestAGoroutineThatJoinsLateIsNotServedByAnotherProcess(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, hold: 100 * time.Millisecond}
		occupy(ms, "a")
		c, other := away(t, ms), away(t, ms)
		first := f.start(other)
		queued(t, ms, "a", 1)
		early := f.start(c)
		queued(t, ms, "a", 2)
		release(t, ms, "a")
		for f.calls() == 0 {
			time.Sleep(time.Millisecond)
		}
		time.Sleep(f.hold / 2)
		late := f.start(c) // joins early; fleet.call checks its value
		(<-first).want(t, "f1", false)
		(<-early).want(t, "f1", true)
		(<-late).want(t, "f2", false)
	})
}

// The end of one caller's context ends that call only.
func TestTheContextOfACallerIsItsOwn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, hold: 50 * time.Millisecond}
		occupy(ms, "a")
		c := connected(t, ms, nil)
		gone := make(chan error, 2)
		for i := range 2 { // one that leads, and one that has joined it
			ctx, cancel := context.WithTimeout(t.Context(), time.Second-time.Duration(i)*100*time.Millisecond)
			defer cancel()
			go func() {
				_, _, err := c.SingleFlight(ctx, "a", f.run)
				gone <- err
			}()
			synctest.Wait()
		}
		done := f.start(c)
		for range 2 {
			if err := <-gone; !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("SingleFlight = %v, want the end of its context, and ErrHeld", err)
			}
		}
		time.Sleep(100 * time.Millisecond)
		release(t, ms, "a")
		(<-done).want(t, "f1", false)
	})
}

// A lease that was lost publishes nothing.
func TestALostLeaseSharesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		occupy(ms, "a")
		c := connected(t, ms, nil)
		failed := make(chan error)
		go func() {
			value, shared, err := c.SingleFlight(t.Context(), "a", func(ctx context.Context) ([]byte, error) {
				for i := range ms.Len() {
					ms.Master(i).Del("a")
				}
				<-ctx.Done() // at the next renewal
				return []byte("old"), nil
			})
			if string(value) != "old" || shared {
				t.Errorf("SingleFlight = %q, %v", value, shared)
			}
			failed <- err
		}()
		queued(t, ms, "a", 1)
		f := &fleet{t: t}
		done := f.start(connected(t, ms, nil))
		queued(t, ms, "a", 2)
		release(t, ms, "a")
		if err := <-failed; !errors.Is(err, redlock.ErrLost) {
			t.Errorf("SingleFlight = %v, want ErrLost", err)
		}
		(<-done).want(t, "f1", false)
	})
}

// The clocks show that the machine slept while f ran, and no timer has fired yet. The masters still have the key.
func TestAHolderWhoseValidityIsOverSharesNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		occupy(ms, "a")
		var asleep atomic.Int64
		opts := &redlock.Options{DisableRestartGuard: true}
		locktest.SetClocks(opts, func() (wall, slept time.Duration) { return 0, time.Duration(asleep.Load()) })
		c := connected(t, ms, opts)
		failed := make(chan error)
		go func() {
			_, _, err := c.SingleFlight(t.Context(), "a", func(context.Context) ([]byte, error) {
				asleep.Store(int64(time.Minute))
				return []byte("old"), nil
			})
			failed <- err
		}()
		queued(t, ms, "a", 1)
		f := &fleet{t: t}
		done := f.start(connected(t, ms, nil))
		queued(t, ms, "a", 2)
		release(t, ms, "a")
		if err := <-failed; !errors.Is(err, redlock.ErrLost) {
			t.Errorf("SingleFlight = %v, want ErrLost", err)
		}
		(<-done).want(t, "f1", false)
	})
}

// Clients without wake-ups, and Lockers, take turns with SingleFlight, and take no value.
func TestSingleFlightTakesTurnsWithOthers(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t, hold: 20 * time.Millisecond}
		occupy(ms, "a")
		locker := connected(t, ms, nil).Locker("a")
		locked := locktest.Enter(locker)
		all := []<-chan landing{
			f.start(connected(t, ms, nil)),
			f.start(connected(t, ms, &redlock.Options{DisableWakeups: true})),
		}
		time.Sleep(100 * time.Millisecond)
		release(t, ms, "a")
		<-locked
		locker.Unlock()
		for i, done := range all {
			if l := <-done; l.err != nil || l.shared && i > 0 {
				t.Errorf("SingleFlight = %q, %v, %v, want a value of its own", l.value, l.shared, l.err)
			}
		}
	})
}

func TestSingleFlightOfAClosedClient(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		f := &fleet{t: t}
		c := connected(t, ms, nil)
		if _, _, err := c.SingleFlight(t.Context(), "", f.run); err == nil {
			t.Error("SingleFlight without a name succeeded")
		}
		occupy(ms, "a")
		one, two := f.start(c), f.start(c)
		time.Sleep(100 * time.Millisecond)
		c.Close()
		for _, done := range []<-chan landing{one, two, f.start(c)} {
			if l := <-done; !errors.Is(l.err, redlock.ErrClosed) {
				t.Errorf("SingleFlight = %v, want ErrClosed", l.err)
			}
		}
	})
}

// One call is in its f. Another one of the same Client waits for the value of this f, which may never come.
func TestTheEndOfTheClientEndsACallThatWaitsForAnother(t *testing.T) {
	for name, end := range map[string]func(c *redlock.Client){
		"Close":    func(c *redlock.Client) { c.Close() },
		"Shutdown": func(c *redlock.Client) { c.Shutdown(context.Background()) },
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				occupy(ms, "a")
				c := connected(t, ms, nil)
				f := &fleet{t: t, end: make(chan struct{})}
				one := f.start(c)
				queued(t, ms, "a", 1)
				two := f.start(c)
				synctest.Wait()
				release(t, ms, "a")
				time.Sleep(time.Second)
				ended := make(chan struct{})
				go func() {
					defer close(ended)
					end(c)
				}()
				select {
				case got := <-two:
					if got.err != redlock.ErrClosed {
						t.Errorf("the call that waits ended with %v, want ErrClosed", got.err)
					}
				case <-time.After(time.Minute):
					t.Error("the call that waits does not end")
				}
				close(f.end)
				<-one
				<-ended
			})
		})
	}
}
