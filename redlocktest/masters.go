package redlocktest

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Masters is a set of independent embedded Redis masters, as the Redlock algorithm requires them. Several
// goroutines may call its methods at once.
type Masters struct {
	tb      testing.TB      // immutable
	masters []*Master       // immutable
	lags    []time.Duration // see WithDelays; nil: no delays; immutable
}

// Start starts five masters, the usual number, and adopts them: no client holds a lock there, so their votes
// count at once. When the test of tb ends, they are shut down, whatever faults are on.
//
// In a synctest bubble, call Start with the bubble's own *testing.T. Masters that were started outside of a
// bubble cannot be used in it, since time would stand still: Pools and Open fail the test at once, and dials
// panic.
func Start(tb testing.TB) *Masters {
	tb.Helper()
	return StartN(tb, 5)
}

// StartN starts n masters, as Start does. If n is less than 1, it fails the test.
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
			m.over.Store(true)
			m.giveRunIDsBack()
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

// Master returns master i, counted from 0. It panics if i is out of range.
func (ms *Masters) Master(i int) *Master { return ms.masters[i] }

// WithDelays returns the same masters as seen from another place in the network. On connections of its Pools
// and Open, each request to master i and each reply from it arrives oneWay[i] later, and a dial takes twice
// that time. Zero or less means no delay. Several clients with different delays simulate a network with
// unequal distances. [Master.Delay] adds to these delays. Every other fault applies to all clients alike.
// WithDelays fails the test unless there is one delay for each master.
func (ms *Masters) WithDelays(oneWay ...time.Duration) *Masters {
	ms.tb.Helper()
	if len(oneWay) != len(ms.masters) {
		ms.tb.Fatalf("redlocktest: WithDelays: %d delays for %d masters", len(oneWay), len(ms.masters))
	}
	return &Masters{tb: ms.tb, masters: ms.masters, lags: slices.Clone(oneWay)}
}

// Names returns the names of the masters in order: "master 1", "master 2", and so on. redlock.New gives its
// masters these names by default, and so does Open.
func (ms *Masters) Names() []string {
	names := make([]string, len(ms.masters))
	for i, m := range ms.masters {
		names[i] = m.name
	}
	return names
}

// Pools returns new connection pools, one per master, in order. Pools of different calls share nothing, so
// each call can stand for another process. The pools have no limit of connections, and their connections have
// no timeouts of their own. The pools are closed when the test ends. A test may close them earlier.
func (ms *Masters) Pools() []*redis.Pool {
	ms.tb.Helper()
	ms.mustBeHere()
	pools := make([]*redis.Pool, len(ms.masters))
	for i, m := range ms.masters {
		lag := ms.lag(i)
		pools[i] = &redis.Pool{
			DialContext: func(ctx context.Context) (redis.Conn, error) { return m.dial(ctx, lag) },
			MaxIdle:     4,
		}
	}
	ms.tb.Cleanup(func() {
		ms.release() // closing a connection waits for the replies that are missing
		for _, p := range pools {
			p.Close()
		}
	})
	return pools
}

// lag returns the delay of master i: see WithDelays.
func (ms *Masters) lag(i int) time.Duration {
	if ms.lags == nil {
		return 0
	}
	return ms.lags[i]
}

// Get returns the value of key at each master, in order. It is "" where the key does not exist or is not a
// string. Stopped and frozen masters are included.
func (ms *Masters) Get(key string) []string {
	values := make([]string, len(ms.masters))
	for i, m := range ms.masters {
		values[i], _ = m.Get(key)
	}
	return values
}

// mustBeHere fails the test if the caller cannot use the masters, because they were started outside of its
// bubble. It panics if the test that started them has ended.
func (ms *Masters) mustBeHere() {
	ms.tb.Helper()
	if m := ms.masters[0]; m.over.Load() {
		panic("redlocktest: the test that started these masters has ended")
	} else if m.isElsewhere() {
		ms.tb.Fatalf("%s", errElsewhere)
	}
}

// release ends the faults that make others wait. Each clean-up calls it first, since the test may have ended
// with a fault still on.
func (ms *Masters) release() {
	for _, m := range ms.masters {
		m.Thaw()
		m.ResumeDials()
		m.Delay(0)
	}
}
