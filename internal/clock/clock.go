// Package clock reads the clocks that a lease is held against.
//
// No single clock can be trusted with a lease. Go's monotonic clock stands
// still while the machine sleeps (on Linux it is CLOCK_MONOTONIC), so a laptop
// or a virtual machine that was suspended would wake up believing that no time
// has passed. The wall clock notices the sleep but can be set back. A lease is
// therefore over as soon as either says so, and on Linux also when
// CLOCK_BOOTTIME, which counts sleep and cannot be set, says so.
//
// It is the library's one seam for tests of time: a Clock is a function, and
// everything that judges a lease asks the Client's.
package clock

import (
	"sync/atomic"
	"time"
)

// A Clock takes one reading of all clocks. It must be safe for concurrent use.
type Clock func() Reading

// A Reading is one look at all clocks.
type Reading struct {
	mono   time.Time     // with a monotonic part
	wall   time.Time     // without
	asleep time.Duration // how long the machine has slept since it booted, where that is known
}

// System reads the machine's clocks.
func System() Reading {
	now := time.Now()
	r := Reading{mono: now, wall: now.Round(0)}
	// Asking for the time asleep takes system calls, a tenth of a lock's cost.
	// A machine that has slept shows it on its wall clock as well, so while
	// neither clock has moved on there is nothing new to ask for.
	last := recent.Load()
	if last != nil && near(r.mono.Sub(last.mono)) && near(r.wall.Sub(last.wall)) {
		r.asleep = last.asleep
		return r
	}
	r.asleep = asleep()
	kept := r // so that r itself is not allocated
	recent.Store(&kept)
	return r
}

// recent is the last reading for which the machine was asked how long it slept.
var recent atomic.Pointer[Reading]

func near(d time.Duration) bool { return d >= 0 && d < 10*time.Millisecond }

// At returns the reading of a machine whose monotonic clock shows mono and its
// wall clock wall, and that has slept for asleep in all. Tests use it to play a
// machine that was suspended, or whose clock was set.
func At(mono, wall time.Time, asleep time.Duration) Reading {
	return Reading{mono: mono, wall: wall.Round(0), asleep: asleep}
}

// Wall returns the wall clock's time.
func (r Reading) Wall() time.Time { return r.wall }

// Time returns the reading as a time with a monotonic part.
func (r Reading) Time() time.Time { return r.mono }

// jitter is below what counts as sleep: the system tells it in whole
// milliseconds, and a lease's drift allowance starts at 2 ms.
const jitter = 2 * time.Millisecond

// Elapsed returns the time from an earlier reading to r by the monotonic clock,
// and the time asleep: what no setting of a clock changes.
func (r Reading) Elapsed(earlier Reading) time.Duration {
	d := r.mono.Sub(earlier.mono)
	if slept := r.asleep - earlier.asleep; slept >= jitter {
		d += slept
	}
	return d
}

// Since returns the time from an earlier reading to r: the longest that any
// clock claims.
func (r Reading) Since(earlier Reading) time.Duration {
	return max(r.Elapsed(earlier), r.mono.Sub(earlier.mono), r.wall.Sub(earlier.wall))
}
