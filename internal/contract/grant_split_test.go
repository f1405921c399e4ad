package contract_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// A client that waits has a key beside a lease of another, and asks who has the others. The lease ends while the
// answers are on their way. The client gives its key up for the sake of the lease, and must get the lock all the same.
func TestALeaseThatEndsWhileAWaiterYieldsToItLeavesNoFreeLock(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const way = 10 * time.Millisecond
		a := connected(t, ms, lazy()).Locker("a")
		far := ms.WithDelays(way, way, way).Open(lazy())
		time.Sleep(time.Second) // until far is connected
		take(a)
		in := locktest.Enter(far.Locker("a"))
		queued(t, ms, "a", 1)
		ms.Master(2).Del("a") // a poll of the waiter sets it
		mine, _ := ms.Master(0).Get("a")
		for others := ""; others == "" || others == mine; others, _ = ms.Master(2).Get("a") {
			time.Sleep(time.Millisecond)
		}
		asked := func() int { return polls(ms.Master(0)) }
		for before := asked(); asked() == before; { // the answers to the question are on their way from now on
			time.Sleep(time.Millisecond / 4)
		}
		released := time.Now()
		a.Unlock()
		if took := (<-in).Sub(released); took > 5*way {
			t.Errorf("the waiter entered %v after the release, want two of its round trips", took)
		}
	})
}

// polls returns how many polls a master has executed.
func polls(m *redlocktest.Master) int {
	synctest.Wait()
	return len(slices.DeleteFunc(m.Commands(), func(c string) bool { return !strings.Contains(c, `"again `) }))
}
