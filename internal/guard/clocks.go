package guard

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// If a server's clock jumps forward, its keys expire too early, so every client must quarantine the
// server. Therefore a client that finds a jump replaces the record. But if our own process was stopped
// and our clocks with it, as in a virtual machine that is moved, then the clocks of all masters seem to
// have jumped by the same amount. Other clients must not pay for that. So a heartbeat after the jump
// compares the masters: if another master's clock went on as before, our own clock did not stop.

// clocks is what a Client knows about the clocks of its masters. It is safe for concurrent use.
type clocks struct {
	mu  sync.Mutex // guards what follows
	all []clockSeen
}

type clockSeen struct {
	since     time.Time // the first comparison with our clock
	last      time.Time // the beginning of the last comparison without a jump
	jump      jump      // the last jump
	undecided bool      // it is not known yet whose clock has jumped
}

// A jump of a master's clock, as our clocks measure it.
type jump struct {
	by   time.Duration
	from time.Time // the last comparison before it
	at   time.Time // when it was found
}

// Two jumps may be one jump of our own clock if they differ by at most jumpsAlike and were found within
// jumpsTogether. Each master's clock is compared once a second, unless the master is slow or has to be
// dialled first, or the client is calm: then a probe follows the first poll after calmLooks.
const (
	jumpsAlike    = 100 * time.Millisecond
	jumpsTogether = 2 * calmLooks
)

func (j jump) like(other jump) bool {
	// Halves, because the difference of two jumps may overflow: a server may report any time.
	return (other.by/2-j.by/2).Abs() <= jumpsAlike/2 && j.at.Sub(other.at).Abs() <= jumpsTogether
}

// begin begins anew with a master's clock, which may be another server's now. before is our time before
// the first comparison.
func (c *clocks) begin(index int, before clock.Reading) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[index] = clockSeen{since: before.Time()}
}

// compared notes that a master's clock was compared with ours, between two readings of ours, and by how
// much it has jumped since the last comparison.
func (c *clocks) compared(index int, before, after clock.Reading, by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.all[index]
	if by != 0 {
		s.jump, s.undecided = jump{by: by, from: s.last, at: after.Time()}, true
	} else {
		s.last = before.Time()
	}
}

// allAfter reports whether the clocks of all masters but that at index were compared after a time. With each comparison the master's
// record is confirmed.
func (c *clocks) allAfter(index int, at time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, s := range c.all {
		if i != index && !s.last.After(at) {
			return false
		}
	}
	return true
}

// forget ends the search for the cause of a master's last jump, since its quarantine has ended.
func (c *clocks) forget(index int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all[index].undecided = false
}

// blame reports whether a master's last jump was a jump of its server's clock. It reports true once for
// each jump. It is decided by another master whose clock was compared before the jump, and again after
// it without the same jump. As long as there is none, blame reports false and the next call decides.
func (c *clocks) blame(index int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := &c.all[index]
	ours, theirs := false, len(c.all) == 1 // there is nothing to compare with
	for i, other := range c.all {
		switch {
		case i == index:
		case other.jump.like(s.jump):
			ours = true
		case other.last.After(s.jump.at) && !other.since.After(s.jump.from):
			theirs = true
		}
	}
	blamed := s.undecided && theirs
	s.undecided = s.undecided && !theirs && !ours
	return blamed
}
