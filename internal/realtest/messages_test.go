package realtest_test

import (
	"errors"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// The longest names must not cost the listener its connection.
func TestMessagesAboutTheLongestNames(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	var queued, sleeping atomic.Bool
	// The lock is held until the second has queued, however long that takes.
	minute := redlock.LockOptions{TTL: time.Minute}
	opts := &redlock.Options{NodeTimeout: 5 * time.Second, MaxTTL: time.Minute, LockOptions: minute, NewBackOff: func() redlock.BackOff {
		return locktest.BackOffFunc(func() time.Duration {
			if !queued.Load() { // the subscription may not stand yet
				return 50 * time.Millisecond
			}
			sleeping.Store(true)
			return time.Hour
		})
	}}
	a, b := openReal(t, servers, opts), openReal(t, servers, opts)
	name := strings.Repeat("n", 64<<10)
	first, second := a.Locker(name), b.Locker(name)
	first.Lock()
	in := locktest.Enter(second)
	eventually(t, "the second queues", func() bool {
		// It queues where the first holds the key: on two masters at least, and no matter which.
		return slices.ContainsFunc(servers, func(s *redisserver.Server) bool {
			n, err := s.Do("ZCARD", "redlock:queue:"+name)
			return err == nil && n == int64(1)
		})
	})
	queued.Store(true)
	eventually(t, "the second sleeps for an hour", sleeping.Load)
	if err := first.UnlockContext(t.Context()); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the second enters", func() bool {
		select {
		case <-in:
			return true
		default:
			return false
		}
	})
	for _, m := range b.Masters() {
		if m.WakeErr != nil || m.WakesDropped != 0 {
			t.Errorf("%s: %v, %d messages dropped", m.Name, m.WakeErr, m.WakesDropped)
		}
	}
	if err := second.UnlockContext(t.Context()); err != nil && !errors.Is(err, redlock.ErrLost) {
		t.Error(err)
	}
}
