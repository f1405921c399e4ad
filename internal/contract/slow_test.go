package contract_test

import (
	"context"
	"flag"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

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
	if r.kind == "woken" {
		opts.LockOptions.RenewEvery = -1 // a release cannot grant the lock
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
		{"woken", 3, 600 * time.Millisecond, 2 * time.Second, false},
		{"woken", 3, 600 * time.Millisecond, time.Second, true},
		{"set", 3, 600 * time.Millisecond, 2 * time.Second, false},
	}
	if *slow {
		last, rows = 2*time.Second, nil
		for _, kind := range []string{"granted", "woken", "set"} {
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
