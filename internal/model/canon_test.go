package model

// Two states that differ only in which master, or which client, is which have
// the same futures but for the names, since neither has a name in the protocol:
// every master is asked in the same way, every client asks in the same way. One
// of them is explored.

// canonical returns the representative of s: of the states that differ only by
// a permutation, the one whose code is least.
func (s state) canonical() state {
	mine := s.sortMasters()
	swapped := s
	swapped.swapClients()
	if its := swapped.sortMasters(); swapped.less(&its, &s, &mine) {
		return swapped
	}
	return s
}

// sortMasters puts the masters in the order of their codes, which it returns.
func (s *state) sortMasters() [nMasters]code {
	var codes [nMasters]code
	for i := range s.masters {
		codes[i] = s.masters[i].code()
		for j := i; j > 0 && codes[j].less(&codes[j-1]); j-- {
			codes[j], codes[j-1] = codes[j-1], codes[j]
			s.masters[j], s.masters[j-1] = s.masters[j-1], s.masters[j]
		}
	}
	return codes
}

func (s *state) swapClients() {
	s.clients[0], s.clients[1] = s.clients[1], s.clients[0]
	for i := range s.masters {
		m := &s.masters[i]
		m.lanes[0], m.lanes[1] = m.lanes[1], m.lanes[0]
		m.earlier = m.earlier>>2&3 | m.earlier&3<<2
		switch m.owner {
		case ownerOf(0):
			m.owner = ownerOf(1)
		case ownerOf(1):
			m.owner = ownerOf(0)
		}
	}
}

// less compares s with a permutation of it.
func (s *state) less(its *[nMasters]code, o *state, other *[nMasters]code) bool {
	for i := range its {
		if its[i] != other[i] {
			return its[i].less(&other[i])
		}
	}
	// The clients' own parts decide only where the masters look the same to both.
	for i := range s.clients {
		if a, b := s.clients[i].code(), o.clients[i].code(); a != b {
			return a.less(&b)
		}
	}
	return false
}

// A code is the whole of a master or of a client as numbers, for comparing.
type code [3]uint64

func (a *code) less(b *code) bool {
	for i := range a {
		if a[i] != b[i] {
			return a[i] < b[i]
		}
	}
	return false
}

func (m *master) code() code {
	queues := uint64(0)
	for i := range m.lanes {
		for _, k := range m.lanes[i].queue {
			queues = queues<<8 | uint64(k)
		}
	}
	own := uint64(m.owner)<<40 | uint64(m.cover)<<32 | uint64(m.fence)<<24 | uint64(m.past)<<16 |
		uint64(m.earlier)<<8 | bit(m.quarantined)
	votes := uint64(0)
	for i := range m.lanes {
		votes = votes<<16 | uint64(m.lanes[i].vote)<<8 | uint64(m.lanes[i].ack)
	}
	return code{own, queues, votes}
}

func (c *client) code() code {
	return code{
		uint64(c.phase)<<32 | uint64(c.want)<<24 | uint64(c.fence)<<16 |
			uint64(c.floor)<<8 | uint64(c.drawn),
		bit(c.over)<<3 | bit(c.openOver)<<2 | bit(c.overtaken)<<1 | bit(c.doomed),
	}
}

func bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}
