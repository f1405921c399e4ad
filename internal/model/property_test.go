package model

import "github.com/redlock-go/redlock/internal/model/explore"

// What must hold in every state breaks as follows.
const (
	oneHolder    = "TWO HOLD THE LOCK"                                           // at most one client has a lease whose validity lasts
	risingFences = "A FENCE DOES NOT RISE"                                       // committed fences rise; where keys vanish: differ, and exceed those committed before
	honestLoss   = "A LEASE IS PROLONGED THOUGH ANOTHER HELD THE LOCK MEANWHILE" // a renewal begun after another client held the lock does not extend the lease
	nothingLeft  = "A KEY IS LEFT BEHIND"                                        // a client at rest has no key at a master that has executed all it was sent
)

// check returns the property that s breaks, if any.
func (w *world) check(s *state) string {
	switch {
	case s.unordered:
		return risingFences
	case s.prolonged:
		return honestLoss
	}
	holders := explore.Count(s.clients[:], func(cl client) bool { return cl.phase.holds() && !cl.over })
	if holders > 1 && !w.vanish {
		return oneHolder
	}
	for i := range s.masters {
		for c := range s.clients {
			m := &s.masters[i]
			if m.key.Is(c) && s.clients[c].phase == idle && m.lanes[c].queue[0] == nothing {
				return nothingLeft
			}
		}
	}
	return ""
}

// checkFence checks a fence when it is committed. In a world where keys vanish, two clients may hold the lock
// at once and commit in either order. There it checks that no number is given twice, and that an acquisition
// that began later gets a larger number.
func (s *state) checkFence(c int, fence uint8, w *world) {
	switch {
	case w.vanish && s.committed>>fence&1 == 1,
		w.vanish && fence <= s.clients[c].floor,
		!w.vanish && fence <= s.highest:
		s.unordered = true
	}
}
