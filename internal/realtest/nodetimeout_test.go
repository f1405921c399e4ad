package realtest_test

import (
	"regexp"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/proxy"
	"github.com/redlock-go/redlock/internal/redisserver"
)

func TestALockIsAcquiredOverADistanceOf90MsOnRealServers(t *testing.T) {
	t.Parallel()
	servers := redisserver.AdoptedTB(t, 5)
	urls := make([]string, len(servers))
	for i, s := range servers {
		p := proxy.TB(t, s.Addr())
		p.Delay(45 * time.Millisecond)
		urls[i] = p.Addr()
	}
	for i := range 5 {
		c := open(t, &redlock.Options{}, urls...)
		l := c.Locker("far")
		for range 1 + i { // the client connects during the first attempt
			// A busy machine adds to the distance. A NodeTimeout below it would never be enough.
			eventually(t, "the free lock is had", l.TryLock)
			l.Unlock()
		}
		c.Close()
	}
	// A time-out that is too short for the distance says so.
	c := open(t, &redlock.Options{NodeTimeout: 50 * time.Millisecond}, urls...)
	eventually(t, "all are connected", func() bool { return locktest.States(c, redlock.MasterUp) == 5 }) // a first round waits for the connections
	both := regexp.MustCompile(`no answer within 50ms \(last round trip (9\d|[1-9]\d\d)(\.\d+)?ms\)`)
	eventually(t, "the error has both the time-out and the round trip", func() bool {
		l := c.Locker("far")
		err := l.TryLockContext(t.Context())
		if err == nil { // the process had no processor when the time was out, and then found the answers as well
			l.Unlock()
			return false
		}
		return both.MatchString(err.Error())
	})
}
