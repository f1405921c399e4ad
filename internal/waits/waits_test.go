package waits

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
)

// A master that sends such grants again and again must not have all masters polled each time. Each row is a grant that a poll follows.
func TestGrantsThatDoNotCountWakeAWaitNowAndThen(t *testing.T) {
	for _, row := range []struct {
		name string
		sure func(clock.Reading) bool
		age  time.Duration
	}{
		{"of an unknown memory", unsure, 0},
		{"over", sure, time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				s := New(3, noDrift)
				in := s.Begin("a")
				c := claimOf(in, "mine")
				defer in.End()
				in.SetClaim(c)
				time.Sleep(row.age)
				mark := c.Began
				granted := func() { s.Granted(1, master.Grant{Key: "a", Token: "mine", Mark: mark, Sure: row.sure}) }
				// polls returns how often a poll is asked for within d, if it is granted the lock each 100 µs for flood.
				polls := func(flood, d time.Duration) (n int) {
					for at := time.Duration(0); at < d; at += 100 * time.Microsecond {
						if at < flood {
							granted()
						}
						select {
						case <-in.Poll:
							n++
						default:
						}
						time.Sleep(100 * time.Microsecond)
						synctest.Wait()
					}
					return n
				}
				if n := polls(time.Nanosecond, time.Millisecond); n != 1 {
					t.Errorf("the first grant wakes the wait %d times within 1 ms, want once", n)
				}
				if n := polls(time.Nanosecond, earlyEvery); n != 1 {
					t.Errorf("another one 1 ms later wakes it %d times within 10 ms, want once", n)
				}
				time.Sleep(time.Second)
				if n := polls(time.Second, time.Second+earlyEvery); n < 50 || n > 101 {
					t.Errorf("grants in a row wake it %d times in a second, want at most each 10 ms", n)
				}
			})
		})
	}
}
