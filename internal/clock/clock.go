// Package clock reads the clocks that a lease is compared with.
//
// No single clock is sufficient for a lease. Go's monotonic clock stops while the machine sleeps (on Linux it
// is CLOCK_MONOTONIC), so on a laptop or virtual machine that was suspended it shows that no time has passed.
// The wall clock shows the sleep, but can be set back. A lease is therefore over as soon as either clock
// shows its end. On Linux it is also over when CLOCK_BOOTTIME shows its end, which counts sleep and cannot be
// set.
//
// Tests replace time here and nowhere else: a Clock is a function, and all code that decides whether a lease
// is over calls the Client's Clock.
package clock

import (
	"sync/atomic"
	"time"
)

// A Clock takes one reading of all clocks. It must be safe for concurrent use.
type Clock func() Reading

// Attach sets the clock of a *redlock.Options, whose field is unexported. Package redlock sets Attach. Only
// tests of other packages of this module call it, to simulate processes whose clocks are set while they run.
var Attach func(options any, c Clock)

// Pace sets how often the claims of a *redlock.Options poll. As with Attach, package redlock sets it, and only tests
// call it.
var Pace func(options any, polls time.Duration)

// A Reading is the time of all clocks at one moment.
type Reading struct {
	mono   time.Time     // with a monotonic part
	wall   time.Time     // without a monotonic part
	asleep time.Duration // how long the machine has slept since it booted, where that is known
	system bool          // it was taken by System
}

// System reads the machine's clocks.
func System() Reading {
	now := time.Now()
	r := Reading{mono: now, wall: now.Round(0), system: true}
	// Reading the time asleep takes system calls, a tenth of a lock's cost. If the machine has slept, its
	// wall clock shows that as well. So while neither clock has moved on, the last value is still right.
	last := recent.Load()
	if last != nil && within(r.mono.Sub(last.mono), recently) && within(r.wall.Sub(last.wall), recently) {
		r.asleep = last.asleep
		return r
	}
	r.asleep = asleep()
	saved := r // so that r itself is not allocated
	recent.Store(&saved)
	return r
}

// recent is the last reading for which the time asleep was read from the machine.
var recent atomic.Pointer[Reading]

// recently is for how long the last time asleep is relied on, by each of the two clocks.
const recently = 10 * time.Millisecond

// At returns the reading of a machine whose monotonic clock shows mono, whose wall clock shows wall, and that
// has slept for asleep since it booted. Tests use it to simulate a machine that was suspended, or whose clock
// was set.
func At(mono, wall time.Time, asleep time.Duration) Reading {
	return Reading{mono: mono, wall: wall.Round(0), asleep: asleep}
}

// Wall returns the wall clock's time.
func (r Reading) Wall() time.Time { return r.wall }

// Time returns the reading as a time with a monotonic part.
func (r Reading) Time() time.Time { return r.mono }

// jitter is the least difference that counts as sleep: the time asleep is in whole milliseconds, and a
// lease's drift allowance starts at 2 ms.
const jitter = 2 * time.Millisecond

// Elapsed returns the time from an earlier reading to r by the monotonic clock, plus the time asleep. Setting
// a clock does not change it.
func (r Reading) Elapsed(earlier Reading) time.Duration {
	d := r.mono.Sub(earlier.mono)
	if slept := r.asleep - earlier.asleep; slept >= jitter {
		d += slept
	}
	return d
}

// Since returns the time from an earlier reading to r, by the clock that shows the most.
func (r Reading) Since(earlier Reading) time.Duration {
	return max(r.Elapsed(earlier), r.mono.Sub(earlier.mono), r.wall.Sub(earlier.wall))
}
