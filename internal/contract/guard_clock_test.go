package contract_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// If a client's own clocks stood still, the clocks of all masters seem to have jumped by the same time.
func TestAJumpOfTheClientsOwnClockCostsOnlyThatClient(t *testing.T) {
	for _, row := range []struct {
		name         string
		wall, asleep time.Duration
		quarantined  bool
	}{
		{"the machine is said to have slept", 0, 30 * time.Second, true},
		{"the wall clock is set", time.Hour, 0, false},
		{"the wall clock is set back", -time.Hour, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				var wall, asleep atomic.Int64
				opts := &redlock.Options{}
				locktest.SetClocks(opts, func() (time.Duration, time.Duration) {
					return time.Duration(wall.Load()), time.Duration(asleep.Load())
				})
				odd, other := connected(t, ms, opts), connected(t, ms, nil)
				records := strings.Join(ms.Get(incarnation.Key), "\n")
				wall.Store(int64(row.wall))
				asleep.Store(int64(row.asleep))
				time.Sleep(1100 * time.Millisecond) // a heartbeat
				want := 0
				if row.quarantined {
					want = 5
				}
				if n := locktest.States(odd, redlock.MasterQuarantined); n != want {
					t.Errorf("for it, %d masters are quarantined, want %d: %v", n, want, odd.Masters())
				}
				if err := odd.Locker("a").TryLockContext(t.Context()); (err == nil) == row.quarantined {
					t.Errorf("TryLockContext = %v, want the lock only without a quarantine", err)
				}
				locktest.Pass(other.Locker("b"))
				time.Sleep(11 * time.Second)
				if got := strings.Join(ms.Get(incarnation.Key), "\n"); got != records {
					t.Errorf("the records are\n%s\nwant them to be what they were:\n%s", got, records)
				}
				if n := locktest.States(other, redlock.MasterUp); n != 5 {
					t.Errorf("for another client %d masters are up, want all", n)
				}
				time.Sleep(time.Second)
				locktest.Pass(odd.Locker("c"))
				synctest.Wait()
			})
		})
	}
}
