package contract_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
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
		{name: "the lock's TTL counts", oneWay: 45 * time.Millisecond, ttl: 2 * time.Second, want: 100 * time.Millisecond},
		{name: "a twentieth of the TTL below 50 ms", oneWay: 45 * time.Millisecond, ttl: 500 * time.Millisecond, want: 50 * time.Millisecond},
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
