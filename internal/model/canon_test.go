package model

import "github.com/redlock-go/redlock/internal/model/explore"

// Masters and clients have no names in the protocol: every master is asked in the same way, and every client
// asks in the same way. So two states that differ only by a permutation of masters or clients have the same
// futures, up to the permutation. Only one of them is explored.

// canonical returns the representative of s: the state with the least codes among those that differ from s
// only by a permutation.
func (s state) canonical() state {
	swapped := s
	swapped.swapClients()
	mine, its := s.sort(), swapped.sort()
	if explore.Compare(its[:], mine[:]) < 0 {
		return swapped
	}
	return s
}

// sort sorts the masters, and returns the codes that distinguish s from its permutation. Those of the clients matter if
// the masters do not distinguish them.
func (s *state) sort() [4]explore.Code {
	codes := explore.SortBy(s.masters[:], master.code)
	codes[nMasters] = s.clients[0].code()
	return codes
}

func (s *state) swapClients() {
	s.clients[0], s.clients[1] = s.clients[1], s.clients[0]
	for i := range s.masters {
		m := &s.masters[i]
		m.lanes[0], m.lanes[1] = m.lanes[1], m.lanes[0]
		m.earlier, m.key = m.earlier.Swapped(), m.key.Swapped()
	}
}

func (m master) code() explore.Code {
	queues := uint64(0)
	for i := range m.lanes {
		for _, k := range m.lanes[i].queue {
			queues = queues<<8 | uint64(k)
		}
	}
	own := uint64(m.key.Owner)<<40 | uint64(m.key.Cover)<<32 | uint64(m.fence)<<24 | uint64(m.past)<<16 |
		uint64(m.earlier)<<8 | explore.Bit(m.quarantined)
	votes := uint64(0)
	for i := range m.lanes {
		votes = votes<<16 | uint64(m.lanes[i].vote)<<8 | uint64(m.lanes[i].ack)
	}
	return explore.Code{own, queues, votes}
}

func (c *client) code() explore.Code {
	return explore.Code{
		uint64(c.phase)<<32 | uint64(c.want)<<24 | uint64(c.fence)<<16 |
			uint64(c.floor)<<8 | uint64(c.drawn),
		explore.Bit(c.over)<<3 | explore.Bit(c.openOver)<<2 | explore.Bit(c.overtaken)<<1 | explore.Bit(c.doomed),
	}
}
