package incarnation

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// A Drift is what a client knows about the difference between a master's clock and its own. It is an
// interval, since a reply takes time to arrive. Each comparison narrows it, and time widens it, since the
// rates of clocks differ. The zero Drift knows nothing.
type Drift struct {
	base   clock.Reading // the client's clocks at the first comparison; times are counted from here
	at     time.Duration // the time of the last comparison
	lo, hi time.Time     // the master's time at base
	known  bool
}

const (
	// rate is by how much the rates of two clocks may differ: the most by which NTP slews a clock.
	rate = 500e-6
	// slop allows for rounding, and for small corrections of a clock.
	slop = 20 * time.Millisecond
)

// Compare notes that the master's clock showed now at some moment between two readings of the client's
// clocks. It uses the monotonic clock and the time asleep. It returns by how much the master's clock has
// jumped since the last comparison, or 0. After a jump the interval begins anew.
func (d *Drift) Compare(now time.Time, before, after clock.Reading) (jump time.Duration) {
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
	d.lo = slices.MaxFunc([]time.Time{lo, oldLo}, time.Time.Compare)
	d.hi = slices.MinFunc([]time.Time{hi, oldHi}, time.Time.Compare)
	if d.lo.After(d.hi) { // it has jumped, or been corrected
		d.lo, d.hi = lo, hi
	}
	return jump
}
