package realtest_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestSetsAndSingleNamesExcludeEachOtherWhileMastersFail(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	inside := map[string]*atomic.Int32{"a": {}, "b": {}}
	var all sync.WaitGroup
	for i, names := range [][]string{{"a", "b"}, {"b", "a"}, {"a"}, {"b"}} {
		c := openReal(t, servers, &redlock.Options{NodeTimeout: 400 * time.Millisecond})
		all.Go(func() {
			for n := range 30 {
				if i == 0 && n == 10 {
					servers[4].Freeze()
				}
				l := c.Locker(names[0], names[1:]...)
				l.Lock()
				for _, name := range names {
					if inside[name].Add(1) != 1 {
						t.Errorf("two are in %s", name)
					}
				}
				for _, name := range names {
					inside[name].Add(-1)
				}
				l.Unlock()
			}
		})
	}
	all.Wait()
	servers[4].Thaw()
	for _, s := range servers {
		eventually(t, "no key is left", func() bool {
			n, err := s.Do("EXISTS", "a", "b")
			return err == nil && n == int64(0)
		})

	}
}

func TestAMasterThatHasLostItsScriptsGrantsASetAtTheNextTry(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	c := openReal(t, servers, nil)
	for range 3 {
		l := c.Locker("a", "b", "c")
		if err := l.LockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := openReal(t, servers, nil).Locker("c").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLock of c = %v, want ErrHeld", err)
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, s := range servers {
			if _, err := s.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
		}
	}
}
