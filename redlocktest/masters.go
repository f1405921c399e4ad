package redlocktest

import (
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
)

// Masters is a set of embedded Redis masters, independent of each other as
// Redlock wants them. Its methods may be called by several goroutines at once.
type Masters struct {
	tb      testing.TB // immutable
	masters []*Master  // immutable
}

// Start starts five masters, the usual number, and adopts them: nobody holds a lock
// there, so their votes count at once. They are shut down, whatever faults are on,
// when tb's test ends.
func Start(tb testing.TB) *Masters {
	tb.Helper()
	return StartN(tb, 5)
}

// StartN starts n masters, as Start does. It fails tb if n is less than 1.
func StartN(tb testing.TB, n int) *Masters {
	tb.Helper()
	if n < 1 {
		tb.Fatalf("redlocktest: StartN(%d): at least one master is needed", n)
	}
	ms := &Masters{tb: tb, masters: make([]*Master, n)}
	for i := range ms.masters {
		ms.masters[i] = newMaster(fmt.Sprintf("master %d", i+1))
	}
	tb.Cleanup(func() {
		ms.release()
		for _, m := range ms.masters {
			m.Stop()
		}
	})
	for _, m := range ms.masters {
		if err := m.start(); err != nil {
			tb.Fatalf("redlocktest: start %s: %v", m.name, err)
		}
		m.Adopt()
	}
	return ms
}

// Len returns the number of masters.
func (ms *Masters) Len() int { return len(ms.masters) }

// Master returns one master; i counts from 0. It panics if i is out of range.
func (ms *Masters) Master(i int) *Master { return ms.masters[i] }

// Names returns the masters' names, in order: "master 1", "master 2", and so
// on. They are what New calls its masters by default, and what Open calls them.
func (ms *Masters) Names() []string {
	names := make([]string, len(ms.masters))
	for i, m := range ms.masters {
		names[i] = m.name
	}
	return names
}

// Pools returns new connection pools, one per master, in order. Pools of
// different calls share nothing, so each call can play one more process. The
// pools are unbounded and their connections have no timeouts of their own.
// They are closed when the test ends; closing them earlier does no harm.
func (ms *Masters) Pools() []*redis.Pool {
	pools := make([]*redis.Pool, len(ms.masters))
	for i, m := range ms.masters {
		pools[i] = &redis.Pool{DialContext: m.dial, MaxIdle: 4}
	}
	ms.tb.Cleanup(func() {
		ms.release() // closing a connection waits for the replies it is due
		for _, p := range pools {
			p.Close()
		}
	})
	return pools
}

// Get returns the key's value at each master, in order; "" where the key does
// not exist or is no string. A stopped or frozen master is looked at, too.
func (ms *Masters) Get(key string) []string {
	values := make([]string, len(ms.masters))
	for i, m := range ms.masters {
		values[i], _ = m.Get(key)
	}
	return values
}

// release ends the faults that make others wait. A clean-up begins with it:
// the test may have failed with a fault still on.
func (ms *Masters) release() {
	for _, m := range ms.masters {
		m.Thaw()
		m.ResumeDials()
		m.Delay(0)
	}
}
