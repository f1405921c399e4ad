package model

// A property must hold in every state.
type property uint8

const (
	intact       property = iota
	oneHolder             // at most one client has a lease whose validity lasts
	risingFences          // committed fences rise; where keys vanish: differ, and exceed those committed before
	honestLoss            // a renewal begun after another client held the lock does not extend the lease
	nothingLeft           // a client at rest has no key at a master that has executed all it was sent
)

func (p property) String() string {
	return [...]string{
		"all properties hold",
		"TWO HOLD THE LOCK",
		"A FENCE DOES NOT RISE",
		"A LEASE IS PROLONGED THOUGH ANOTHER HELD THE LOCK MEANWHILE",
		"A KEY IS LEFT BEHIND",
	}[p]
}

// check returns the property that s breaks, or intact.
func (w *world) check(s *state) property {
	if s.broken != intact {
		return s.broken
	}
	holders := 0
	for c := range s.clients {
		if cl := &s.clients[c]; cl.phase.holds() && !cl.over {
			holders++
		}
	}
	if holders > 1 && !w.vanish {
		return oneHolder
	}
	for i := range s.masters {
		for c := range s.clients {
			m := &s.masters[i]
			if m.owner == ownerOf(c) && s.clients[c].phase == idle && m.lanes[c].queue[0] == nothing {
				return nothingLeft
			}
		}
	}
	return intact
}

// checkFence checks a fence when it is committed. In a world where keys vanish, two clients may hold the lock
// at once and commit in either order. There it checks that no number is given twice, and that an acquisition
// that began later gets a larger number.
func (s *state) checkFence(c int, fence uint8, w *world) {
	switch {
	case w.vanish && s.committed>>fence&1 == 1,
		w.vanish && fence <= s.clients[c].floor,
		!w.vanish && fence <= s.highest:
		s.broken = risingFences
	}
}
