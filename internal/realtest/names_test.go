package realtest_test

import (
	"errors"
	"testing"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

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
