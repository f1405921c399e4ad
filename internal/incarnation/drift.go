package incarnation

import (
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// A Drift is what a client knows of the difference between a master's clock and
// its own. It is an interval, since an answer is on its way for a while: narrowed
// by every look, and widened with time, because clocks run at different rates.
// The zero Drift knows nothing.
type Drift struct {
	base   clock.Reading // of the first look; the client's time is counted from here
	at     time.Duration // of the last look
	lo, hi time.Time     // the master's time at base
	known  bool
}

const (
	// rate is by how much two clocks' rates may differ: what NTP corrects by
	// slewing.
	rate = 500e-6
	// slop is for what rounds, and for a clock that is corrected by a little.
	slop = 20 * time.Millisecond
)

// Look takes in that the master's clock showed now at some moment between two
// readings of the client's clocks, of which the monotonic one counts, and the time
// asleep. It returns by how much the master's clock has jumped since the last
// look, or 0. After a jump what was known before counts no longer.
func (d *Drift) Look(now time.Time, before, after clock.Reading) (jump time.Duration) {
	if !d.known {
		d.base, d.known = before, true
		d.at = after.Elapsed(d.base)
		d.lo, d.hi = now.Add(-d.at), now
		return 0
	}
	from, to := before.Elapsed(d.base), after.Elapsed(d.base)
	lo, hi := now.Add(-to), now.Add(-from)
	wider := time.Duration(float64(max(to-d.at, 0)) * rate)
	d.at = max(d.at, to)
	oldLo, oldHi := d.lo.Add(-wider), d.hi.Add(wider)
	switch {
	case lo.Sub(oldHi) > slop:
		jump = lo.Sub(oldHi)
	case oldLo.Sub(hi) > slop:
		jump = -oldLo.Sub(hi)
	}
	d.lo, d.hi = later(lo, oldLo), earlier(hi, oldHi)
	if d.lo.After(d.hi) { // it has jumped, or been corrected
		d.lo, d.hi = lo, hi
	}
	return jump
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}
