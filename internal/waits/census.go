package waits

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// Waiting, Calm and Patience concern all claims of a Client, and are called for each message and each call of a script. If they looked at each
// wait, n waits would take n² steps. So what they tell is kept up to date, in Waits.near, Waits.steps and Waits.far. What is counted there of a
// wait or a claim is noted, so that it can be taken out again: Inbox.steps, Inbox.far and atMaster.listed.

// noClaim is in the place of Inbox.steps where a wait has no claim. All pauses are shorter.
const noClaim = crowdMost + 1

// placedLocked counts the claim of a wait anew. It follows each change of the claim, or of its places. It returns the masters, as bits, at which the
// claim has become near.
func (in *Inbox) placedLocked() (near uint64) {
	s, c := in.waits, in.claim
	s.countLocked(in, -1)
	in.steps, in.far = noClaim, false
	if c != nil {
		in.steps, in.far = s.stepsLocked(c)
		for i := range s.near {
			if s.nearLocked(i, c, !in.far && c.places.first(i)) {
				near |= 1 << i
			}
		}
	}
	s.countLocked(in, 1)
	return near
}

// countLocked counts the claim of a wait (1), or takes it out of the counts (-1).
func (s *Waits) countLocked(in *Inbox, by int) {
	s.steps[in.steps] += by
	if in.far {
		s.far += by
	}
}

// stepsLocked returns after how many steps a master hears of a claim again, and reports whether it is far.
func (s *Waits) stepsLocked(c *Claim) (n int, far bool) {
	n = c.places.ahead()
	switch far = n >= c.places.front; {
	case !c.refused:
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

// nearLocked notes that a claim is near at master i, or that it is not, and reports whether it has become near. A change moves what is kept of
// younger ones.
func (s *Waits) nearLocked(i int, c *Claim, near bool) (became bool) {
	if c.at[i].listed == near {
		return false
	}
	c.at[i].listed = near
	n := &s.near[i]
	at, _ := slices.BinarySearchFunc(n.began, c.Began.Time(), time.Time.Compare)
	if !near {
		n.began = slices.Delete(n.began, at, at+1)
		return false
	}
	if len(n.began) == 0 || c.G < n.g {
		n.g = c.G
	}
	n.began = slices.Insert(n.began, at, c.Began.Time())
	return true
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

// soonestLocked returns after how many steps a master hears again of the claim of this Client that polls most often; 0: no claim waits.
func (s *Waits) soonestLocked() int {
	for n, claims := range s.steps[:noClaim] {
		if claims > 0 {
			return n
		}
	}
	return 0
}

const (
	roundLeast    = 20 * time.Millisecond // how long a poll may take at least, beside its pause
	patienceSteps = 5                     // how many polls in a row must fail to come before the client of the claim is taken for a stopped one
)

// Patience returns how long it takes at most until a claim of this Client that is near is sent again, and how much longer if all are
// far. A round lasts until a quorum of masters has answered, and a little longer.
func (s *Waits) Patience(group *quorum.Group, step time.Duration) (near, far time.Duration) {
	s.mu.Lock()
	n := s.soonestLocked()
	s.mu.Unlock()
	if n >= wire.Near {
		far = time.Duration(n) * step * 5 / 4
	}
	return patienceSteps*step + max(roundLeast, 3*group.Distance(), group.RoundTrip()), far
}
