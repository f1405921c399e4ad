package clock

import (
	"sync/atomic"
	"time"
)

// A Limit is a time after a reading. Checking it costs little more than reading the time. It must not be copied.
type Limit struct {
	start  Reading       // immutable
	length time.Duration // immutable
	last   atomic.Pointer[window]
}

// A window is a span of time that begins with a reading and ends before the limit. While the monotonic and the wall
// clock are both inside, the limit has not passed by any clock: none of them was set back or forward, and, as for
// System, the machine has not slept, since the wall clock would show that.
type window struct {
	mono   time.Time
	wall   int64         // Unix time in ns
	asleep time.Duration // of the reading
	length time.Duration // at most that for which System relies on the last time asleep
}

// Init sets the limit to length after start.
func (l *Limit) Init(start Reading, length time.Duration) { l.start, l.length = start, length }

// Ahead reports whether less time than the limit has passed, by the clock that shows the most. It reads the clocks
// after it was called. c must be the Clock of the first reading.
func (l *Limit) Ahead(c Clock) bool {
	if w := l.last.Load(); w != nil && w.has(time.Now()) {
		return true
	}
	_, ahead := l.read(c)
	return ahead
}

// Read is Ahead, and returns what it has read, so that the caller need not read the clocks again.
func (l *Limit) Read(c Clock) (now Reading, ahead bool) {
	if w := l.last.Load(); w != nil {
		if t := time.Now(); w.has(t) {
			return Reading{mono: t, wall: t.Round(0), asleep: w.asleep, system: true}, true
		}
	}
	return l.read(c)
}

func (l *Limit) read(c Clock) (now Reading, ahead bool) {
	now = c()
	left := l.length - now.Since(l.start)
	if left <= 0 {
		return now, false
	}
	length := time.Duration(0) // a Clock of a test may show anything the next time
	if now.system {
		length = min(left, recently)
	}
	l.last.Store(&window{now.mono, now.wall.UnixNano(), now.asleep, length})
	return now, true
}

// Last returns when Ahead has returned true last, or up to 10 ms earlier, or zero if it never has.
func (l *Limit) Last() (at time.Time) {
	if w := l.last.Load(); w != nil {
		at = w.mono
	}
	return at
}

// has reports whether both clocks are inside the window.
func (w *window) has(now time.Time) bool {
	return within(now.Sub(w.mono), w.length) && within(time.Duration(now.UnixNano()-w.wall), w.length)
}

// Checked reports whether Ahead has returned true before.
func (l *Limit) Checked() bool { return l.last.Load() != nil }

// within reports whether 0 <= d < length.
func within(d, length time.Duration) bool { return uint64(d) < uint64(length) }
