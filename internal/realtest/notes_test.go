package realtest_test

import (
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// Jobs that a scheduler starts at one moment wait for each other, and end.
func TestShortClientsLeaveNoNotes(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 3)
	var pools []*redis.Pool
	for _, s := range servers {
		pools = append(pools, &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", s.Addr()) }})
	}
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			c, err := redlock.New(pools, nil)
			if err != nil {
				t.Error(err)
				return
			}
			l := c.Locker("job")
			l.Lock()
			time.Sleep(time.Millisecond)
			l.Unlock()
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	for _, s := range servers {
		left, err := redis.Strings(s.Do("KEYS", "redlock:*waiter*"))
		if err != nil || len(left) > 0 {
			t.Errorf("%s keeps %d notes of clients that have closed, want none: %v", s.Addr(), len(left), err)
		}
	}
	for _, p := range pools {
		p.Close()
	}
}
