package explore

import "hash/maphash"

// An index finds the states that were visited. A map of large states keeps a second copy of each, and most of the time of
// a search went by waiting for the memory that holds them. An index keeps four bytes of hash and the number of the state.
type index[S comparable] struct {
	seed  maphash.Seed
	slots []slot // a power of two, at most half of them used
	used  int
}

// A slot is empty if at is 0.
type slot struct {
	hash uint32
	at   int32 // 1 more than the index in Search.States
}

func newIndex[S comparable]() *index[S] {
	return &index[S]{seed: maphash.MakeSeed(), slots: make([]slot, 1<<10)}
}

// find returns the index of s in states, or adds s as the next one, and reports whether it was there.
func (x *index[S]) find(s S, states []S) (at int32, ok bool) {
	h := uint32(maphash.Comparable(x.seed, s))
	for i := h; ; i++ {
		p := &x.slots[i&uint32(len(x.slots)-1)]
		if p.at == 0 {
			at = int32(len(states))
			*p = slot{h, at + 1}
			if x.used++; x.used > len(x.slots)/2 {
				x.grow()
			}
			return at, false
		}
		if p.hash == h && states[p.at-1] == s {
			return p.at - 1, true
		}
	}
}

func (x *index[S]) grow() {
	old := x.slots
	x.slots = make([]slot, 2*len(old))
	for _, p := range old {
		if p.at == 0 {
			continue
		}
		i := p.hash
		for x.slots[i&uint32(len(x.slots)-1)].at != 0 {
			i++
		}
		x.slots[i&uint32(len(x.slots)-1)] = p
	}
}
