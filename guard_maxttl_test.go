package redlock_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// If a client with a larger MaxTTL joins, a quarantine that has ended stays ended. A quarantine that lasts
// becomes longer, since the client that joins may hold locks from before.
func TestALargerMaxTTLProlongsOnlyAQuarantineThatLasts(t *testing.T) {
	for _, row := range []struct {
		name  string
		after time.Duration // the client with the larger MaxTTL joins
		want  time.Duration // the end of the other's quarantine
	}{
		{"while it lasts", 2 * time.Second, 62 * time.Second},
		{"when it is over", 6 * time.Second, 5 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				short := connected(t, ms, locktest.Lasting(time.Second))
				crash(ms, 0, 1, 2)
				start := time.Now()
				time.Sleep(row.after)
				ms.Open(locktest.Lasting(time.Minute))
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for _, m := range short.Masters() {
					if m.MaxTTL != time.Minute {
						t.Errorf("%s: MaxTTL = %v, want a minute", m.Name, m.MaxTTL)
					}
				}
				time.Sleep(time.Until(start.Add(row.want - 100*time.Millisecond)))
				if early := short.Locker("a").TryLock(); early != (row.after > row.want) {
					t.Errorf("after %v the lock is acquired: %v", time.Since(start), early)
				}
				time.Sleep(time.Until(start.Add(row.want + 2*time.Second)))
				wantStates(t, short, 0)
			})
		})
	}
}

// A MaxTTL in one master's record applies to all masters, even if the client did not declare it there.
func TestALargerMaxTTLOfOneMasterHoldsForAll(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		short := connected(t, ms, locktest.Lasting(time.Second))
		record, _ := ms.Master(0).Get(incarnation.Key)
		ms.Master(0).Set(incarnation.Key, strings.Replace(record, " 1000 adopted", " 60000 adopted", 1), time.Hour)
		time.Sleep(3 * time.Second)
		wantStates(t, short, 0)
		if m := short.Masters()[0]; m.MaxTTL != time.Minute {
			t.Fatalf("MaxTTL = %v, want a minute", m.MaxTTL)
		}
		crash(ms, 1)
		start := time.Now()
		time.Sleep(1500 * time.Millisecond)
		wantStates(t, short, 1)
		if m := short.Masters()[1]; m.MaxTTL != time.Minute || m.Until.Sub(start) < 62*time.Second {
			t.Errorf("MaxTTL = %v, and the quarantine lasts %v, want a minute, and 2s more", m.MaxTTL, m.Until.Sub(start))
		}
	})
}
