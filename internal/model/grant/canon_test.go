package grant

import (
	"slices"

	"github.com/redlock-go/redlock/internal/model/explore"
)

// States that differ only by a permutation of masters, or of clients of one role, have the same futures, up to the permutation.
// Only one of them is explored. If a property concerns one client, or masters differ, less is permuted.

// canonical returns the representative of s: of its permutations the first one by the codes of the clients, then by those of the
// masters. Most states need the codes of the masters of one permutation only, since the codes of the clients differ.
func (w *world) canonical(s state) state {
	if w.cut || w.dead {
		return s
	}
	if w.live || w.ages {
		explore.SortBy(s.masters[:w.masters], master.code)
		return s
	}
	var codes [mostClients]uint64
	for c := range codes {
		codes[c] = s.clients[c].code()
	}
	least := codes
	all := permutations[w.clients()]
	for _, p := range all {
		if its := permuted(codes, p); w.keepsRoles(p) && slices.Compare(its[:], least[:]) < 0 {
			least = its
		}
	}
	var best state
	var mine [4]explore.Code
	found := false
	for i, p := range all {
		if !w.keepsRoles(p) || permuted(codes, p) != least {
			continue
		}
		other := s
		if i > 0 {
			other.permute(p)
		}
		if its := explore.SortBy(other.masters[:w.masters], master.code); !found || explore.Compare(its[:], mine[:]) < 0 {
			best, mine, found = other, its, true
		}
	}
	return best
}

// permutations are the permutations of clients, by their number. The first one changes nothing.
var permutations = [mostClients + 1][][mostClients]uint8{
	1: {{0, 1, 2}},
	2: {{0, 1, 2}, {1, 0, 2}},
	3: {{0, 1, 2}, {0, 2, 1}, {1, 0, 2}, {1, 2, 0}, {2, 0, 1}, {2, 1, 0}},
}

// keepsRoles reports whether a permutation puts each client into the place of one with the same role.
func (w *world) keepsRoles(p [mostClients]uint8) bool {
	for c := range w.clients() {
		if w.roles[c] != w.roles[p[c]] {
			return false
		}
	}
	return true
}

// permuted returns the codes of the clients after permute.
func permuted(codes [mostClients]uint64, p [mostClients]uint8) [mostClients]uint64 {
	return [mostClients]uint64{codes[p[0]], codes[p[1]], codes[p[2]]}
}

// permute puts client p[c] in the place of client c.
func (s *state) permute(p [mostClients]uint8) {
	var place [marker + 1]owner
	place[orphan], place[marker] = orphan, marker
	before := *s
	for c, from := range p {
		s.clients[c] = before.clients[from]
		place[ownerOf(int(from))] = ownerOf(c)
	}
	for i := range s.masters {
		m, old := &s.masters[i], &before.masters[i]
		m.set, m.passed = old.set&dead, 0
		for c, from := range p {
			m.links[c] = old.links[from]
			m.links[c].view = place[m.links[c].view]
			m.set |= old.set >> from & 1 << c
			m.passed |= old.passed >> from & 1 << c
		}
		m.owner, m.last = place[m.owner], place[m.last]
		for at := range m.queue {
			m.queue[at] = place[m.queue[at]]
		}
	}
}

func (m master) code() (all explore.Code) {
	own := uint64(m.owner)<<40 | uint64(m.set)<<32 | uint64(m.passed)<<28 | uint64(m.last)<<24 | uint64(m.fence)<<16 | uint64(m.past)<<8 |
		explore.Bit(m.announced)<<1 | explore.Bit(m.quarantined)
	for i, o := range m.queue {
		own |= uint64(o) << (44 + 4*i)
	}
	all[0] = own
	for c := range m.links {
		l := &m.links[c]
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
	return uint64(c.phase)<<32 | uint64(c.want)<<24 | uint64(c.rank)<<16 | explore.Bit(c.recalled)<<5 | explore.Bit(c.died)<<4 | explore.Bit(c.asked)<<3 |
		explore.Bit(c.over)<<2 | explore.Bit(c.overtaken)<<1 | explore.Bit(c.doomed)
}
