package explore

import "cmp"

// A Code contains all of one part of a state, for example of a master, as numbers. Parts with equal codes
// are equal.
type Code [7]uint64

func (a *Code) compare(b *Code) int {
	for i := range a {
		if a[i] != b[i] {
			return cmp.Compare(a[i], b[i])
		}
	}
	return 0
}

// Sort sorts the codes, and the parts in the same way.
func Sort[P any](parts []P, codes []Code) {
	for i := range codes {
		for j := i; j > 0 && codes[j].compare(&codes[j-1]) < 0; j-- {
			codes[j], codes[j-1] = codes[j-1], codes[j]
			parts[j], parts[j-1] = parts[j-1], parts[j]
		}
	}
}

// SortBy sorts parts, of which there are 4 at most, by their codes, and returns these.
func SortBy[P any](parts []P, code func(P) Code) (codes [4]Code) {
	for i, p := range parts { // not by its address, which would let each state escape to the heap
		codes[i] = code(p)
	}
	Sort(parts, codes[:len(parts)])
	return codes
}

// Compare compares the first codes of a and b that differ.
func Compare(a, b []Code) int {
	for i := range a {
		if c := a[i].compare(&b[i]); c != 0 {
			return c
		}
	}
	return 0
}

// Bit returns 1 for true and 0 for false.
func Bit(b bool) uint64 {
	if b {
		return 1
	}
	return 0
}

// Count returns for how many parts of a state something is true.
func Count[P any](parts []P, is func(P) bool) (n int) {
	for _, p := range parts {
		if is(p) {
			n++
		}
	}
	return n
}
