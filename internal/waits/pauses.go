package waits

import (
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// A Schedule is a redlock.BackOff.
type Schedule interface{ NextBackOff() time.Duration }

// Delays returns the delays of one wait, by schedules of the user.
type Delays struct {
	Start   func() Schedule // immutable; makes a schedule
	Forever bool            // immutable; continue after the schedule has stopped
	Default time.Duration   // immutable; the delay after the end of a schedule that never had one

	first   Schedule      // says when the wait stops; nil: not started
	anew    bool          // the delays have begun anew
	later   Schedule      // then says the delays; nil: not started since
	longest time.Duration // the longest delay so far
}

// Reset makes the delays begin anew. The wait stops when it would have stopped without Reset.
func (d *Delays) Reset() { d.anew, d.later = d.first != nil, nil }

// Next returns the next delay. It reports false if the first schedule has stopped. If Forever is set, it never
// reports false: it returns the longest delay so far, or Default if there was none.
func (d *Delays) Next() (time.Duration, bool) {
	if d.first == nil {
		d.first = d.Start()
	}
	next := d.first.NextBackOff()
	if next >= 0 && d.anew {
		if d.later == nil {
			d.later = d.Start()
		}
		next = d.later.NextBackOff()
	}
	if next >= 0 {
		d.longest = max(d.longest, next)
		return next, true
	}
	if !d.Forever {
		return 0, false
	}
	if d.longest == 0 {
		return d.Default, true
	}
	return d.longest, true
}

const (
	// freeJitter is the least time over which the attempts at the expiry of a key are spread.
	freeJitter = 5 * time.Millisecond
	// splitsMost limits how often the time over which attempts are spread is doubled, after several splits in a row.
	splitsMost = 3
)

// Pauses are those of a wait that makes attempts, before each further one. They are used by the goroutine that waits. For notPast, see
// Pace.
type Pauses struct {
	Delays

	splits  int           // how many attempts in a row have split the votes
	delay   time.Duration // that of the schedule, before the next attempt
	recount time.Time     // when to count the votes of the last attempt again, since grants may come late; zero: never
}

// Woken says that a wake-up has come: the delays begin anew.
func (p *Pauses) Woken() {
	p.Reset()
	p.splits = 0
}

// Attempt says that an attempt begins, which ends the pause.
func (p *Pauses) Attempt() { p.recount = time.Time{} }

// Begin returns when the next attempt is due, after one that has failed. It reports false if the schedule has stopped.
//
//   - If a master has granted the attempt, the votes are split: see spread.
//   - Otherwise somebody holds the lock. If held, the attempt has found that out, and the pause is longer if we expect to be woken. A late
//     grant makes the votes split after all: see Recount.
func (p *Pauses) Begin(s *Waits, group *quorum.Group, now time.Time, split, held bool, notPast func(time.Duration) time.Duration) (resume time.Time, more bool) {
	d, more := p.Next()
	if !more {
		return now, false
	}
	s.paused(d)
	extra := rand.N(group.Distance()<<min(p.splits, splitsMost) + 1)
	if split {
		return p.spread(now, d, extra, notPast)
	}
	step := d
	if held && group.Listening() {
		step = max(step, Step/2+rand.N(Step))
	}
	step = notPast(step)
	p.recount, p.delay = now.Add(min(extra, step)), d
	return now.Add(step), true
}

// spread returns when the next attempt is due after a split vote. Nobody has the lock then. So the schedule begins anew, and a
// random part of one round trip is added to its delay d, or of 2, 4 or 8 after further splits: clients that sleep for the same
// time split the votes again. It reports false if the schedule has stopped.
func (p *Pauses) spread(now time.Time, d, extra time.Duration, notPast func(time.Duration) time.Duration) (resume time.Time, more bool) {
	if p.splits++; p.splits == 1 {
		p.Reset()
		if d, more = p.Next(); !more {
			return now, false
		}
	}
	return now.Add(notPast(d + extra)), true
}

// Recounts returns when the votes of the last attempt are to be counted again; zero: never.
func (p *Pauses) Recounts() time.Time { return p.recount }

// Recount takes in whether the votes of the last attempt are split by now. If they are, it returns when the next attempt is due instead
// of resume. It reports false if the schedule has stopped.
func (p *Pauses) Recount(now time.Time, split bool, resume time.Time, notPast func(time.Duration) time.Duration) (time.Time, bool) {
	p.recount = time.Time{}
	if !split {
		p.splits = 0
		return resume, true
	}
	return p.spread(now, p.delay, 0, notPast)
}

// NotPast returns the pause d, or a shorter one that ends when the next attempt will find the keys of a quorum of masters
// expired, if nobody renews them. left is what FreeAfter has returned for the answers to the last attempt, which began elapsed ago. It
// adds up to half a round trip, so that not all clients try at the same moment.
//
// Example: three masters say that the key lives for 80, 90 and 300 ms more. After 90 ms, two of three keys are free. So a
// pause of 250 ms becomes one of 91 ms and a random part.
func NotPast(d, left, elapsed time.Duration, group *quorum.Group) time.Duration {
	// Each master has told how long its key lived when the last attempt arrived. The next attempt takes
	// as long to arrive. So it finds the key expired if it is made that much later.
	if left = max(left-elapsed, 0); left >= d {
		return d
	}
	return left + time.Millisecond + rand.N(max(freeJitter, group.Distance()/2))
}
