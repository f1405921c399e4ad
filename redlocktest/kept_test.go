package redlocktest_test

//lint:file-ignore SA2001 A test locks and unlocks, with nothing between.

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// The example of the package comment, with each fault of one master.
func TestAnotherClientTakesAKeptLockWhateverTheFaultOfOneMaster(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(m *redlocktest.Master)
	}{
		{"none", func(*redlocktest.Master) {}},
		{"a dead master", (*redlocktest.Master).Stop},
		{"a frozen master", (*redlocktest.Master).Freeze},
		{"a slow master", func(m *redlocktest.Master) { m.Delay(time.Second) }},
		{"a failing master", func(m *redlocktest.Master) { m.Fail("LOADING") }},
		{"cut connections", (*redlocktest.Master).Cut},
		{"a lost request", func(m *redlocktest.Master) { m.DropRequest("EVALSHA") }},
		{"a lost reply", func(m *redlocktest.Master) { m.LoseReply("EVALSHA") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				opts := &redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Hour}}
				masters := redlocktest.StartN(t, 3)
				owner, other := masters.Open(opts).Locker("shard"), masters.Open(opts).Locker("shard")
				synctest.Wait()
				before := masters.Master(0).Count("EVALSHA")
				for range 1000 {
					owner.Lock()
					owner.Unlock()
				}
				synctest.Wait()
				if n := masters.Master(0).Count("EVALSHA") - before; n > 1 || len(masters.Get("shard")) == 0 {
					t.Fatalf("the lock is not kept; %d scripts ran, want 1", n)
				}
				row.fault(masters.Master(2))
				ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
				defer cancel()
				if err := other.LockContext(ctx); err != nil {
					t.Fatal(err)
				}
				if owner.TryLock() {
					t.Error("both have the lock")
				}
			})
		})
	}
}

// A process that was killed has left its key.
func TestTheKeyOfAKilledKeeperBlocksUntilItExpires(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.StartN(t, 3)
		client := masters.Open(&redlock.Options{LockOptions: redlock.LockOptions{Keep: time.Hour}})
		for i := range 3 {
			masters.Master(i).Set("shard", "token of a killed process", 10*time.Second)
		}
		began := time.Now()
		client.Locker("shard").Lock()
		if d := time.Since(began); d < 10*time.Second || d > 11*time.Second {
			t.Errorf("Lock took %v, want the rest of the TTL", d)
		}
	})
}
