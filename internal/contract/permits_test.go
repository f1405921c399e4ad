package contract_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAClientLogsOnceThatAnotherLimitIsInUse(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const line = "clients use different limits for semaphores"
		var before, after locktest.Log
		old := openAt(ms, time.Millisecond, before.Options()).Semaphore("a", 2)
		p := acquire(t, old, 1)
		c := openAt(ms, time.Millisecond, after.Options())
		for range 3 {
			acquire(t, c.Semaphore("a", 3), 1).Release()
		}
		time.Sleep(time.Second)
		after.Want(t, 1, line, "names=a limit=3 other=2")
		after.Want(t, 1, line)
		before.Want(t, 0, line)
		acquire(t, old, 1).Release()
		p.Release()
		time.Sleep(time.Second)
		before.Want(t, 1, line, "names=a limit=2 other=3")
		acquire(t, old, 1).Release()
		time.Sleep(time.Second)
		before.Want(t, 1, line)
	})
}
