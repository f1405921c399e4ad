package waits

import (
	"math"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// The first clients of a queue are near: they watch the key, and are pinged often, since they will be granted the lock soon. All
// others are far, and cost little: see docs/protocol.md. Masters differ in the order of their queues, so a claim has a place in
// each.
//
//   - A claim is near if one master says so, or fewer than a quorum have said anything. If nearness needed a quorum, nobody might be near where the
//     orders differ. So more than three can be near somewhere. Those that are near at fewer than a quorum poll a third as often: see NearAtQuorum.
//   - Each place of a far claim has a rate of polls: see FarPolls. The claim polls at the mean of these rates. So all claims together send as many
//     polls as if the masters had the same order, and the first live claim of each master polls often enough.
//   - An answer says the place when the command was executed. A message says that the claim has become near since. Both travel on connections
//     of their own. So an answer to a command that was sent before the last such message came does not count.

// A place is that of a claim in the queue of one master.
type place struct {
	known  bool
	ahead  int       // how many are ahead of it
	told   time.Time // when the last message came that it is near
	listed bool      // it is in Waits.near
}

// nearAt reports whether the claim is near at master i.
func (c *Claim) nearAt(i int) bool {
	p := &c.at[i].place
	return p.known && p.ahead < c.Near
}

// saidLocked takes in the answer of master i to a command that was sent at sent.
func (c *Claim) saidLocked(i int, a wire.Answer, sent time.Time, listening bool) {
	p := &c.at[i].place
	if a.Outcome == wire.Taken {
		c.at[i].stands = a.Standing
	}
	switch {
	case a.Outcome != wire.Taken || !listening: // nothing is known of its place there
		p.known = false
	case p.told.Before(sent):
		p.known, p.ahead = true, a.Ahead
	}
}

// aheadLocked returns how many are ahead of the claim, and 0 if fewer than need masters have said anything. If it is near at a
// master, that is the least number that one has said. Else it is the harmonic mean: at a master with n ahead, it would poll once in n
// steps.
func (c *Claim) aheadLocked(need int) int {
	said, least, rate := 0, -1, 0.0
	for i := range c.at {
		if p := &c.at[i].place; p.known {
			if said++; least < 0 || p.ahead < least {
				least = p.ahead
			}
			rate += 1 / float64(max(p.ahead, 1))
		}
	}
	if said < need {
		return 0
	} else if least < c.Near {
		return least
	}
	return int(math.Round(float64(said) / rate))
}

// NearAtQuorum reports whether a claim is near at a quorum of masters, or fewer have said anything.
func (c *Claim) NearAtQuorum() bool {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	said, near := 0, 0
	for i := range c.at {
		if c.at[i].place.known {
			said++
		}
		if c.nearAt(i) {
			near++
		}
	}
	return near >= c.inbox.waits.Need || said < c.inbox.waits.Need
}

// Ahead returns how many clients are ahead of a claim, on average. It is near if these are fewer than Claim.Near.
func (c *Claim) Ahead() int {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	return c.aheadLocked(c.inbox.waits.Need)
}

// AnsweredOne says that a poll of master i alone was answered, behind Answered.
func (c *Claim) AnsweredOne(i int, a wire.Answer) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	if a.Outcome == wire.Taken && a.Standing == "" {
		c.free |= 1 << i
	}
	poke(c.inbox.News)
}

// FoundFree returns the masters, as bits, where polls of one master have found the key free since the last call.
func (c *Claim) FoundFree() (masters uint64) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	masters, c.free = c.free, 0
	return masters
}

// Standing returns what the masters have said last that their keys hold, as votes.
func (c *Claim) Standing() []quorum.Vote {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	votes := make([]quorum.Vote, len(c.at))
	for i := range c.at {
		token := c.at[i].stands
		votes[i] = quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Taken, Standing: token, Readers: token == wire.ReadersMarker}}
	}
	return votes
}

// Near handles the message of master i that a claim has become near. It reports false if this Client has not queued for the key. If
// the claim is one on slots that was released, Near returns it.
func (s *Waits) Near(i int, key, token string) (released *master.SentClaim, expected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byKey[key]
	if wire.OfSlots(key) {
		if in = s.bySlots[token]; in == nil {
			return s.releasedLocked(token), true // of a claim that has won, or was given up
		}
	}
	if in == nil || in.claim == nil || in.claim.Token() != token {
		return nil, s.ended.Has(key) || in != nil // of a claim that was given up
	}
	p := &in.claim.at[i].place
	p.told = time.Now()
	if !in.claim.nearAt(i) {
		p.known, p.ahead = true, in.claim.Near-1
		in.placedLocked()
		poke(in.News)
	} else if in.claim.slots > 0 { // it was passed over
		in.claim.passed = true
		poke(in.News)
	}
	return nil, true
}

// Waiting, Calm and Soonest concern all claims of a Client, and are called for each message and each call of a script. If they looked at each
// wait, n waits would take n² steps. So what they tell is kept up to date: Waits.near, Waits.far and Waits.steps.

// noClaim is in the place of Inbox.steps where a wait has no claim. All pauses are shorter.
const noClaim = farMost + 1

// setClaimLocked sets the claim of a wait; nil: it has none.
func (in *Inbox) setClaimLocked(c *Claim) {
	s := in.waits
	if old := in.claim; old != nil {
		for i := range s.near {
			s.nearLocked(i, old, false)
		}
		if old.slots > 0 {
			delete(s.bySlots, old.Token())
		}
	}
	if in.claim = c; c != nil && c.slots > 0 {
		s.bySlots[c.Token()], in.slots = in, true
		s.noteSlotsLocked(c.SentClaim)
	}
	in.placedLocked()
}

// placedLocked notes where the claim of a wait is in the queues. It follows each change of that.
func (in *Inbox) placedLocked() {
	s, c := in.waits, in.claim
	s.countLocked(in, -1)
	in.steps, in.far = noClaim, false
	if c != nil {
		in.steps, in.far = c.stepsLocked(s)
		for i := range s.near {
			s.nearLocked(i, c, c.nearAt(i))
		}
	}
	s.countLocked(in, 1)
}

// countLocked counts the claim of a wait (1), or takes it out of the counts (-1).
func (s *Waits) countLocked(in *Inbox, by int) {
	s.steps[in.steps] += by
	if in.far {
		s.far += by
	}
}

// stepsLocked returns after how many pauses of a near claim a master hears of the claim again, and reports whether it is far.
func (c *Claim) stepsLocked(s *Waits) (n int, far bool) {
	n = c.aheadLocked(s.Need)
	switch far = n >= c.Near; {
	case !c.answered:
		n = farFirst
	case !far:
		n = min(n, nearSteps)
	case c.slots > 0:
		n = min(n, farMost)
	default:
		n = farSteps(n, s.masters)
	}
	return n, far
}

// nearClaims are the claims that are near at one master.
type nearClaims struct {
	began []time.Time   // when they began, in ascending order
	g     time.Duration // the shortest G of these, and of those that were near beside them
}

// nearLocked notes that a claim is near at master i, or that it is not. A change moves what is kept of younger ones.
func (s *Waits) nearLocked(i int, c *Claim, near bool) {
	p := &c.at[i].place
	if p.listed == near {
		return
	}
	p.listed = near
	n := &s.near[i]
	at, _ := slices.BinarySearchFunc(n.began, c.Began.Time(), time.Time.Compare)
	if !near {
		n.began = slices.Delete(n.began, at, at+1)
		return
	}
	if len(n.began) == 0 || c.G < n.g {
		n.g = c.G
	}
	n.began = slices.Insert(n.began, at, c.Began.Time())
}

// Waiting reports whether a claim of this Client is near at master i, so that a grant may come soon. since is when the first of these
// was registered: grants to them count from then on, or from a later ping. g is how long such a grant lasts at least.
func (s *Waits) Waiting(i int) (since time.Time, g time.Duration, near bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n := s.near[i]; len(n.began) > 0 {
		return n.began[0], n.g, true
	}
	return time.Time{}, 0, false
}

// Calm reports whether all waits of this Client have claims that are far, and there is one. Nothing that this Client waits for
// happens soon.
func (s *Waits) Calm() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.far > 0 && s.far == len(s.byKey)
}

// PassedOver reports whether a master has passed over a claim on slots since the last call, since this Client may have been stopped.
func (c *Claim) PassedOver() (is bool) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	is, c.passed = c.passed, false
	return is
}

// Soonest returns after how many pauses of a near claim a master hears again of the claim of this Client that polls most often, and 0 if no
// claim waits. It is below wire.Near if that claim is near. It is farFirst for a claim that no master has answered, and nearSteps at most for one
// on slots that is near.
func (s *Waits) Soonest() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n, claims := range s.steps[:noClaim] {
		if claims > 0 {
			return n
		}
	}
	return 0
}

// Up notes that master i has come up, or can tell this Client of grants again. Its queue may be gone, so each claim has to be sent
// to it again: see Returned.
func (s *Waits) Up(i int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.near[i] = nearClaims{}
	for _, in := range s.byKey {
		if c := in.claim; c != nil {
			c.at[i].place = place{}
			c.returned = true
			in.placedLocked()
			poke(in.News)
		}
	}
}

// Returned reports whether a master has come up since the last call.
func (c *Claim) Returned() (is bool) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	is, c.returned = c.returned, false
	return is
}
