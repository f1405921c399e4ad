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

// MustPush appends to a queue that has room.
func MustPush[T comparable](q []T, v T) {
	if !Push(q, v) {
		panic("explore: bug: a queue is full")
	}
}

// Last returns what was pushed last, or the zero value.
func Last[T comparable](q []T) (v T) {
	if n := Len(q); n > 0 {
		v = q[n-1]
	}
	return v
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

// A Lane is a queue of three places, such as what is under way on a connection.
type Lane[T comparable] [3]T

// Full reports whether there is no room.
func (l *Lane[T]) Full() bool { return l[len(l)-1] != *new(T) }

// Empty reports whether nothing is in the lane.
func (l *Lane[T]) Empty() bool { return l[0] == *new(T) }

// Pop removes and returns what was put first.
func (l *Lane[T]) Pop() T { return Drop(l[:], 0) }

// Put appends to a lane that has room.
func (l *Lane[T]) Put(v T) { MustPush(l[:], v) }
