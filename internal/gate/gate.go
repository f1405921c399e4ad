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
	prev, next *waiter
	inside     bool // the gate is this waiter's; guarded by Gates.mu
}

// Enter waits for the gate of name and takes it. It returns nil once the gate
// is taken, ctx's error if that ends first, or ErrClosed. If the gate comes free
// just as ctx ends, the gate goes to the next waiter: a caller who has given up
// must not be made to hold a lock.
func (g *Gates) Enter(ctx context.Context, name string) error {
	w, err := g.line(name)
	if w == nil {
		return err
	}
	select {
	case <-w.ready:
		g.mu.Lock()
		defer g.mu.Unlock()
		if !w.inside {
			return ErrClosed
		}
		return nil
	case <-ctx.Done():
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if w.inside {
		g.leaveLocked(name)
	} else if gt := g.names[name]; gt != nil && !g.closed {
		gt.remove(w)
	}
	return ctx.Err()
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
func (g *Gates) line(name string) (*waiter, error) {
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
	w := &waiter{ready: make(chan struct{})}
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
	w := gt.first
	if w == nil {
		delete(g.names, name)
		return
	}
	gt.remove(w)
	gt.note = nil
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
