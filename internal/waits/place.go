package waits

import (
	"math"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// The first clients of a queue are near: they watch the key, and are pinged often, since they will be granted the lock soon. All
// others are far, and cost little: see docs/protocol.md. Masters differ in the order of their queues, so a claim has a place in
// each.
//
//   - A claim is near if it is one of the first at most of the masters that have said anything, or fewer than a quorum have said anything.
//   - Each place of a far claim has a rate of polls: see FarPolls. The claim polls at the mean of these rates. So all claims together send as many
//     polls as if the masters had the same order. The head of one master polls often enough, also if nobody is near since all orders differ.
//   - An answer says the place when the command was executed. A message says that the claim has become near since. Both travel on connections
//     of their own. So an answer to a command that was sent before the last such message came does not count.

// places are those of a claim in the queues of the masters.
type places struct {
	at    []place // by master
	front int     // immutable; how many claims at the front of a queue are near
	need  int     // immutable; how many masters are a quorum
}

// A place is that of a claim in the queue of one master.
type place struct {
	known bool
	ahead int       // how many are ahead of it
	heard time.Time // when the last message came that it is near
}

// first reports whether the claim is one of the first at master i.
func (p *places) first(i int) bool { return p.at[i].known && p.at[i].ahead < p.front }

// answered takes the answer of master i to a command that was sent at sent.
func (p *places) answered(i int, a wire.Answer, sent time.Time, listening bool) {
	at := &p.at[i]
	if a.Outcome != wire.Taken || !listening { // the claim may be in no queue there
		at.known = false
	} else if at.heard.Before(sent) {
		at.known, at.ahead = true, a.Ahead
	}
}

// hear takes the message of master i that the claim is near there, and reports whether it was not known to be.
func (p *places) hear(i int, now time.Time) (news bool) {
	p.at[i].heard = now
	if news = !p.first(i); news {
		p.at[i].known, p.at[i].ahead = true, p.front-1
	}
	return news
}

// ahead returns how many are ahead of the claim. If it is near, that is the least number that a master has said. Else it is the harmonic mean, but
// not so few that it would be near: at a master with n ahead, it would poll once in n steps.
//
// If fewer than a quorum have said anything, it is 0: a claim that may be the head polls as the head does.
func (p *places) ahead() int {
	known, first, least, rate := 0, 0, math.MaxInt, 0.0
	for _, at := range p.at {
		if at.known {
			known++
			if at.ahead < p.front {
				first++
			}
			least = min(least, at.ahead)
			rate += 1 / float64(max(at.ahead, 1))
		}
	}
	switch {
	case known < p.need:
		return 0
	case 2*first > known:
		return least
	}
	return max(p.front, int(math.Round(float64(known)/rate)))
}

// Ahead returns how many clients are ahead of a claim, on average; 0 if that is not known.
func (c *Claim) Ahead() int {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	return c.places.ahead()
}

// Near handles the message of master i that a claim has become one of the first there. It reports false if this Client has not queued for the key. If
// the claim is one on slots that was released, Near returns it. Near also returns the masters, as bits, at which the claim has become near.
func (s *Waits) Near(i int, key, token string) (released *master.SentClaim, near uint64, expected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, expected := s.claimLocked(key, token, wire.OfSlots(key))
	if c == nil {
		return s.releasedLocked(token), 0, expected
	}
	if c.places.hear(i, time.Now()) {
		if near = c.inbox.placedLocked(); near != 0 {
			poke(c.inbox.News)
		}
	} else if c.slots > 0 && !c.inbox.far { // it was passed over
		c.passed = true
		poke(c.inbox.News)
	}
	return nil, near, true
}

// Up notes that master i has come up, or can tell this Client of grants again. Its queue may be gone, so each claim has to be sent
// to it again: see Pace.Next. Up returns the masters, as bits, at which a claim has become near, since fewer masters say where it stands.
func (s *Waits) Up(i int) (near uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.near[i] = nearClaims{}
	for _, in := range s.byKey {
		if c := in.claim; c != nil {
			c.places.at[i], c.at[i].listed = place{}, false
			c.returned = true
			near |= in.placedLocked()
			poke(in.News)
		}
	}
	return near
}
