package recent

import (
	"container/list"
	"sync"
	"time"
)

// An Order has a limited number of places for what is in use, and knows what has not been used for longest. A use costs
// nothing: the order is brought up to date only when a place is needed. It is safe for concurrent use.
type Order[V any] struct {
	Most int // how many places there are

	// Used returns when v was used last, or zero if it never was. It reports whether v can be spared. It is called under the
	// mutex of the Order.
	Used func(v V) (at time.Time, spare bool)

	mu    sync.Mutex // guards what follows, and the Places
	order list.List  // of *Place[V]; at the front those that were not used for long
}

// A Place is that of a value in an Order. The zero Place is not taken.
type Place[V any] struct {
	of      V
	at      time.Time     // when it got to this place
	element *list.Element // nil if it is not taken
}

// tries is among how many values the one to be spared is looked for, if all have been used since they were looked at last. It
// limits the time for which the mutex is held to some ten microseconds.
const tries = 256

// Take takes the place p for v. If all places are taken, it looks for a value to be spared. spared reports whether there is one: the
// caller then has that value leave its place. ok is false if there is none. Then p is not taken.
func (o *Order[V]) Take(p *Place[V], v V) (spare V, spared, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.order.Len() >= o.Most {
		if spare, spared = o.spareLocked(); !spared {
			return spare, false, false
		}
	}
	p.of, p.at = v, time.Now()
	p.element = o.order.PushBack(p)
	return spare, spared, true
}

// spareLocked returns the value that is to be spared, if there is one. A value that was used gets another place.
func (o *Order[V]) spareLocked() (spare V, spared bool) {
	var oldest time.Time
	for range min(tries, o.order.Len()) {
		first := o.order.Front()
		p := first.Value.(*Place[V])
		at, can := o.Used(p.of)
		if can && !at.After(p.at) {
			return p.of, true
		}
		if can && (!spared || at.Before(oldest)) {
			spare, spared, oldest = p.of, true, at
		}
		o.order.MoveToBack(first)
		p.at = time.Now()
	}
	return spare, spared
}

// Leave gives the place p up. It does nothing if p is not taken.
func (o *Order[V]) Leave(p *Place[V]) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if p.element != nil {
		o.order.Remove(p.element)
		p.element = nil
	}
}
