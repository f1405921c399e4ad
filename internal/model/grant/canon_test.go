package grant

import (
	"cmp"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// States that differ only by a permutation of masters or clients have the same futures, up to the permutation.
// Only one of them is explored. If a property concerns one client, or clients differ, only masters are permuted.

// canonical returns the representative of s.
func (w *world) canonical(s state) state {
	if w.cut || w.dead {
		return s
	}
	mine := s.sortMasters(w.masters)
	if w.live || w.ages {
		return s
	}
	best := s
	for _, p := range permutations[w.clients] {
		other := s
		other.permute(p)
		if its := other.sortMasters(w.masters); other.less(its[:], &best, mine[:]) {
			best, mine = other, its
		}
	}
	return best
}

// permutations are the permutations of clients, by their number.
var permutations = [mostClients + 1][][mostClients]uint8{
	2: {{1, 0, 2}},
	3: {{0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
}

// permute puts client p[c] in the place of client c.
func (s *state) permute(p [mostClients]uint8) {
	var place [orphan + 1]owner
	place[orphan] = orphan
	before := *s
	for c, from := range p {
		s.clients[c] = before.clients[from]
		place[ownerOf(int(from))] = ownerOf(c)
	}
	for i := range s.masters {
		m := &s.masters[i]
		for c, from := range p {
			m.lanes[c] = before.masters[i].lanes[from]
			m.lanes[c].view = place[m.lanes[c].view]
		}
		m.owner = place[m.owner]
		for at := range m.queue {
			m.queue[at] = place[m.queue[at]]
		}
	}
}

func (s *state) sortMasters(n int) (codes [mostMasters]explore.Code) {
	for i := range n {
		codes[i] = s.masters[i].code()
	}
	explore.Sort(s.masters[:n], codes[:n])
	return codes
}

// less compares s with a permutation of it. It compares the clients only if the masters do not distinguish
// them.
func (s *state) less(its []explore.Code, o *state, other []explore.Code) bool {
	c := explore.Compare(its, other)
	for i := 0; c == 0 && i < len(s.clients); i++ {
		c = cmp.Compare(s.clients[i].code(), o.clients[i].code())
	}
	return c < 0
}

func (m *master) code() (all explore.Code) {
	own := uint64(m.owner)<<40 | uint64(m.fence)<<16 | uint64(m.past)<<8 | explore.Bit(m.quarantined)
	for i, o := range m.queue {
		own |= uint64(o) << (44 + 4*i)
	}
	all[0] = own
	for c := range m.lanes {
		l := &m.lanes[c]
		for _, k := range l.commands {
			all[1+2*c] = all[1+2*c]<<8 | uint64(k)
		}
		all[1+2*c] |= uint64(l.vote)<<56 | uint64(l.said)<<48 | uint64(l.fence)<<40 | uint64(l.number)<<32
		a := &l.age
		all[2+2*c] = uint64(l.view)<<40 | uint64(a.ping)<<32 | uint64(a.ended)<<24 | uint64(a.mark)<<16 | uint64(a.bound)<<8 | explore.Bit(a.behind)
	}
	return all
}

func (c *client) code() uint64 {
	return uint64(c.phase)<<32 | uint64(c.want)<<24 | uint64(c.rank)<<16 | explore.Bit(c.died)<<4 | explore.Bit(c.asked)<<3 | explore.Bit(c.over)<<2 | explore.Bit(c.overtaken)<<1 | explore.Bit(c.doomed)
}
