// Package gate queues the goroutines of one process before a name, so that at
// most one of them is on the wire for it.
//
// It is a mutex per name, first come first served, whose wait obeys a context.
// It knows neither Redis nor leases.
package gate

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is what waiters get when the Gates are closed.
var ErrClosed = errors.New("gate: closed")

// Gates holds one gate per name that is in use; a name nobody uses costs
// nothing. The zero Gates is ready; it must not be copied.
type Gates struct {
	mu     sync.Mutex // guards the fields below and every gate
	names  map[string]*gate
	closed bool
}

// A gate exists while it is taken. Its waiters form a list, oldest first.
type gate struct {
	first, last *waiter
	note        error // what the goroutine inside said last: see Note
}

type waiter struct {
	ready      chan struct{} // closed when the gate is this waiter's, or the Gates are closed
	tag        any           // immutable; what Pass is to know of it
	prev, next *waiter
	inside     bool // the gate is this waiter's; guarded by Gates.mu
	baton      any  // what it was passed; guarded by Gates.mu
}

// Enter waits for the gate of name and takes it. It returns a nil error once the
// gate is taken, with the baton that it was passed, if there was one; ctx's
// error if that ends first; or ErrClosed. If the gate comes just as ctx ends, it
// is taken: a baton must not be lost.
func (g *Gates) Enter(ctx context.Context, name string, tag any) (baton any, err error) {
	w, err := g.line(name, tag)
	if w == nil {
		return nil, err
	}
	select {
	case <-w.ready:
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case w.inside:
		return w.baton, nil
	case g.closed:
		return nil, ErrClosed
	}
	g.names[name].remove(w) // it is there, for it has a waiter
	return nil, err
}

// TryEnter takes the gate of name if it is free, and reports whether it did.
// If not, note is what the goroutine inside said last.
func (g *Gates) TryEnter(name string) (ok bool, note error, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false, nil, ErrClosed
	}
	if gt := g.names[name]; gt != nil {
		return false, gt.note, nil
	}
	g.takeLocked(name)
	return true, nil, nil
}

// Note leaves word for those who find the gate of name taken: how the last
// attempt of the goroutine inside ended. Only that goroutine may call it.
func (g *Gates) Note(name string, note error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gt := g.names[name]; gt != nil {
		gt.note = note
	}
}

// Last returns the word left by the goroutine inside the gate of name.
func (g *Gates) Last(name string) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gt := g.names[name]; gt != nil {
		return gt.note
	}
	return nil
}

// Pass leaves the gate of name to the waiter that has waited longest, with a
// baton, if there is such a waiter and make returns a baton for its tag. It
// reports whether it did; if not, the gate is still the caller's. make is called
// under the mutex of all gates: it must be quick, and call none of their methods.
func (g *Gates) Pass(name string, make func(tag any) any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.names[name]
	if gt == nil || gt.first == nil {
		return false
	}
	w := gt.first
	if w.baton = make(w.tag); w.baton == nil {
		return false
	}
	g.admitLocked(gt)
	return true
}

// Taken reports whether a goroutine is inside the gate of name.
func (g *Gates) Taken(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.names[name] != nil
}

// Leave gives the gate of name to the waiter that has waited longest, or frees
// it. The goroutine that leaves need not be the one that entered.
func (g *Gates) Leave(name string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.leaveLocked(name)
}

// Close makes every waiter return ErrClosed, and every later Enter and
// TryEnter. Gates that are taken stay so until they are left.
func (g *Gates) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	for _, gt := range g.names {
		for w := gt.first; w != nil; w = w.next {
			close(w.ready)
		}
		gt.first, gt.last = nil, nil
	}
}

// line takes the gate if it is free and returns nil, or a waiter that has
// joined the line.
func (g *Gates) line(name string, tag any) (*waiter, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return nil, ErrClosed
	}
	gt := g.names[name]
	if gt == nil {
		g.takeLocked(name)
		return nil, nil
	}
	w := &waiter{ready: make(chan struct{}), tag: tag}
	gt.push(w)
	return w, nil
}

func (g *Gates) takeLocked(name string) {
	if g.names == nil {
		g.names = make(map[string]*gate)
	}
	g.names[name] = &gate{}
}

func (g *Gates) leaveLocked(name string) {
	gt := g.names[name]
	if gt == nil {
		panic("redlock: bug: leaving a gate that is not taken: " + name)
	}
	if gt.first == nil {
		delete(g.names, name)
		return
	}
	gt.note = nil
	g.admitLocked(gt)
}

// admitLocked lets the first waiter in.
func (g *Gates) admitLocked(gt *gate) {
	w := gt.first
	gt.remove(w)
	w.inside = true
	close(w.ready)
}

func (gt *gate) push(w *waiter) {
	w.prev = gt.last
	if gt.last != nil {
		gt.last.next = w
	} else {
		gt.first = w
	}
	gt.last = w
}

func (gt *gate) remove(w *waiter) {
	if w.prev != nil {
		w.prev.next = w.next
	} else {
		gt.first = w.next
	}
	if w.next != nil {
		w.next.prev = w.prev
	} else {
		gt.last = w.prev
	}
}
