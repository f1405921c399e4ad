// Package fifo has a queue that needs no memory as long as it is short.
package fifo

// A Queue is a queue, oldest first. The zero Queue is empty. It is not safe for concurrent use.
type Queue[T any] struct {
	items []T
	head  int
}

// Len returns how many items there are.
func (q *Queue[T]) Len() int { return len(q.items) - q.head }

// All returns the items, oldest first. The slice is valid until the next Push or Pop.
func (q *Queue[T]) All() []T { return q.items[q.head:] }

// First returns the oldest item. There must be one.
func (q *Queue[T]) First() *T { return &q.items[q.head] }

// Push adds an item.
func (q *Queue[T]) Push(item T) { q.items = append(q.items, item) }

// Pop takes the oldest item out. There must be one.
func (q *Queue[T]) Pop() T {
	var zero T
	item := q.items[q.head]
	q.items[q.head] = zero
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head > 1024 && q.head > len(q.items)/2 {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return item
}
