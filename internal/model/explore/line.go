package explore

// A line is a queue in a state whose clients do not stand apart: those that wait come first, in the order of their joining. The names of the
// others do not matter.

// SortLine puts the clients that wait first, in their order, and behind them the others in the order of their codes.
func SortLine[C any](clients []C, waits func(C) bool, code func(C) uint64) {
	before := func(a, b C) bool { return !waits(b) && (waits(a) || code(a) < code(b)) }
	for i := range clients {
		for j := i; j > 0 && before(clients[j], clients[j-1]); j-- {
			clients[j], clients[j-1] = clients[j-1], clients[j]
		}
	}
}

// Join moves a client behind all that wait, and returns its new place.
func Join[C any](clients []C, c int, waits func(C) bool) (at int) {
	for i := range clients {
		if i != c && waits(clients[i]) {
			at = i + 1
		}
	}
	cl := clients[c]
	if c < at {
		at--
		copy(clients[c:at], clients[c+1:])
	} else {
		copy(clients[at+1:c+1], clients[at:])
	}
	clients[at] = cl
	return at
}

// Order returns the places of the clients that wait, those last that were set aside.
func Order[C any](clients []C, waits, aside func(C) bool) (all []int) {
	for _, last := range []bool{false, true} {
		for i, c := range clients {
			if waits(c) && aside(c) == last {
				all = append(all, i)
			}
		}
	}
	return all
}
