package contract_test

//lint:file-ignore SA2001 it is the locking that is tested

import (
	"errors"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestASetExcludesReadersOfItsNames(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ours, theirs := connected(t, ms, nil), connected(t, ms, nil)
		for _, c := range []*redlock.Client{ours, theirs} {
			readers, set := c.RWLocker("b"), ours.Locker("a", "b")
			readers.RLock()
			if err := set.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("TryLock of a set with readers of one name = %v, want ErrHeld", err)
			}
			readers.RUnlock()
			if c == ours && !set.TryLock() {
				t.Error("TryLock of a set = false beside a read lease that its Client keeps for nobody")
			} else if c == theirs {
				set.Lock() // the lease that the readers keep is given up
			}
			if readers.TryRLock() {
				t.Error("TryRLock = true while a set with the name is held")
			}
			set.Unlock()
			time.Sleep(time.Second)
			readers.RLock()
			readers.RUnlock()
		}
	})
}
