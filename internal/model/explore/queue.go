package explore

// A queue in a state is an array: what is in it comes first, and then zeros. So states with equal queues are equal.

// Len returns how much is in a queue.
func Len[T comparable](q []T) int {
	var zero T
	for i, v := range q {
		if v == zero {
			return i
		}
	}
	return len(q)
}

// Push appends to a queue, and reports whether there was room.
func Push[T comparable](q []T, v T) bool {
	n := Len(q)
	if n == len(q) {
		return false
	}
	q[n] = v
	return true
}

// Drop removes and returns what is in a queue at place i.
func Drop[T any](q []T, i int) (v T) {
	v = q[i]
	var zero T
	copy(q[i:], q[i+1:])
	q[len(q)-1] = zero
	return v
}

// Remove removes the first v from a queue, and reports whether there was one.
func Remove[T comparable](q []T, v T) bool {
	for i := range q {
		if q[i] == v {
			Drop(q, i)
			return true
		}
	}
	return false
}
