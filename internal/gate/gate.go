// Package gate queues the goroutines of one process by name, so that at most one of them sends commands for a
// name.
//
// A gate is a mutex for one name, first come first served. Waiting for it ends with a context. The package
// does not depend on Redis or on leases.
package gate

import (
	"context"
	"errors"
	"sync"
)

// ErrClosed is the error of waiters when the Gates are closed.
var ErrClosed = errors.New("gate: closed")

// Gates holds one gate for each name that is in use. A name that is not in use takes no memory. The zero
// Gates is ready to use. It must not be copied.
type Gates struct {
	// Queued is called by Enter when the caller waits for a gate, if it is not nil. It is set before the first
	// Enter.
	Queued func(name string)

	mu     sync.Mutex // guards the fields below and every gate
	names  map[string]*gate
	idle   []*gate   // to be used again
	spare  []*waiter // to be used again: goroutines that pass a lock on wait a million times a second
	closed bool
	empty  chan struct{} // closed when the Gates are closed and no gate is taken; nil until Close
}

// A gate exists while it is taken.
type gate struct {
	queue  waiter   // the ring of all waiters: behind it is the oldest, before it the newest
	inside Inside   // see SetInside
	watch  []func() // see Watch
}

// first returns the waiter that has waited longest, or nil.
func (gt *gate) first() *waiter {
	if w := gt.queue.after; w != &gt.queue {
		return w
	}
	return nil
}

// An Inside says what the goroutine inside a gate does, for callers that find the gate taken.
type Inside struct {
	Holds string // how it holds the thing that the gate is for; empty: it acquires that
	Why   error  // why its last attempt has failed; nil: it holds the thing, or knows nothing yet
}

// A waiter is a goroutine in Enter. But for ready, its fields are guarded by Gates.mu.
type waiter struct {
	ready  chan struct{} // immutable, with room for the one value that is sent when the waiter has the gate, or the Gates are closed
	tag    any           // for the function given to Pass
	inside bool          // the waiter has the gate
	baton  any           // from Pass

	before, after *waiter // in the queue of the gate
}

// Enter waits for the gate of name and takes it. Once the gate is taken, the error is nil, and baton is the
// one from Pass, or nil. If ctx ends first, Enter returns ctx's error. If the Gates are closed, it returns
// ErrClosed. If the gate becomes free just as ctx ends, Enter takes it, because a baton must not be lost.
func (g *Gates) Enter(ctx context.Context, name string, tag any) (baton any, err error) {
	w, err := g.takeOrQueue(name, tag)
	if w == nil {
		return nil, err
	}
	if g.Queued != nil {
		g.Queued(name)
	}
	told := false
	select {
	case <-w.ready:
		told = true
	case <-ctx.Done():
		err = ctx.Err()
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	switch {
	case w.inside:
		if baton = w.baton; !told {
			<-w.ready
		}
		err = nil
	case g.closed:
		return nil, ErrClosed
	default:
		w.leaveQueue()
	}
	if len(g.spare) < idleMost {
		*w = waiter{ready: w.ready}
		g.spare = append(g.spare, w)
	}
	return baton, err
}

// TryEnter takes the gate of name if it is free and the Gates are open, and reports whether it did. If the gate is taken, inside is what
// the goroutine inside has stored last.
func (g *Gates) TryEnter(name string) (ok bool, inside Inside) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false, Inside{}
	}
	if gt := g.names[name]; gt != nil {
		return false, gt.inside
	}
	g.takeLocked(name)
	return true, Inside{}
}

// SetInside stores what callers are told that find the gate of name taken. Only the goroutine inside may call it.
func (g *Gates) SetInside(name string, inside Inside) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gt := g.names[name]; gt != nil {
		gt.inside = inside
	}
}

// Inside returns what the goroutine inside the gate of name has stored last.
func (g *Gates) Inside(name string) Inside {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gt := g.names[name]; gt != nil {
		return gt.inside
	}
	return Inside{}
}

// Pass gives the gate of name, with a baton, to the waiter that has waited longest. It does so only if there
// is such a waiter and make returns a baton for its tag. Pass reports whether it did. If not, the caller
// still has the gate. make is called under the mutex of all gates: it must be quick, and must not call
// methods of Gates.
func (g *Gates) Pass(name string, make func(tag any) any) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.names[name]
	if gt == nil || gt.first() == nil {
		return false
	}
	w := gt.first()
	if w.baton = make(w.tag); w.baton == nil {
		return false
	}
	g.admitLocked(gt)
	return true
}

// Waiting reports whether a goroutine waits for the gate of name.
func (g *Gates) Waiting(name string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	gt := g.names[name]
	return gt != nil && gt.first() != nil
}

// Leave gives each of the gates to the waiter that has waited longest for it, or frees
// it. The goroutine that leaves need not be the one that entered.
func (g *Gates) Leave(names ...string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, name := range names {
		g.leaveLocked(name)
	}
}

// Watch has f called whenever a goroutine begins to wait for the gate of name, until the gate is left. The gate must be taken, else
// Watch does nothing. f is called under the mutex of all gates: it must be quick, and must not call methods of Gates.
func (g *Gates) Watch(name string, f func()) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if gt := g.names[name]; gt != nil {
		gt.watch = append(gt.watch, f)
	}
}

// Close makes every waiter return ErrClosed, and every later Enter, and every TryEnter fail. Gates that are taken stay
// taken until they are left.
func (g *Gates) Close() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return
	}
	g.closed = true
	for _, gt := range g.names {
		for w := gt.first(); w != nil; w = gt.first() {
			w.ready <- struct{}{}
			w.leaveQueue()
		}
	}
	g.empty = make(chan struct{})
	if len(g.names) == 0 {
		close(g.empty)
	}
}

// Drained returns a channel that is closed when, after Close, no gate is taken any more. It must not be
// called before Close.
func (g *Gates) Drained() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.empty
}

// Count returns the number of taken gates for whose Inside is returns true.
func (g *Gates) Count(is func(inside Inside) bool) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, gt := range g.names {
		if is(gt.inside) {
			n++
		}
	}
	return n
}

// takeOrQueue takes the gate if it is free, and returns nil. Otherwise it returns a waiter that has joined the queue.
func (g *Gates) takeOrQueue(name string, tag any) (*waiter, error) {
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
	for _, f := range gt.watch {
		f()
	}
	var w *waiter
	if n := len(g.spare); n > 0 {
		w, g.spare = g.spare[n-1], g.spare[:n-1]
	} else {
		w = &waiter{ready: make(chan struct{}, 1)}
	}
	w.tag = tag
	w.before, w.after = gt.queue.before, &gt.queue
	w.before.after, gt.queue.before = w, w
	return w, nil
}

func (g *Gates) takeLocked(name string) {
	if g.names == nil {
		g.names = make(map[string]*gate)
	}
	var gt *gate
	if n := len(g.idle); n > 0 {
		gt, g.idle = g.idle[n-1], g.idle[:n-1]
	} else {
		gt = &gate{}
	}
	gt.queue.before, gt.queue.after = &gt.queue, &gt.queue
	g.names[name] = gt
}

// idleMost is how many gates, and how many waiters, are kept to be used again.
const idleMost = 64

func (g *Gates) leaveLocked(name string) {
	gt := g.names[name]
	if gt == nil {
		panic("redlock: bug: leaving a gate that is not taken: " + name)
	}
	if gt.first() == nil {
		delete(g.names, name)
		if len(g.idle) < idleMost {
			*gt = gate{}
			g.idle = append(g.idle, gt)
		}
		if g.closed && len(g.names) == 0 {
			close(g.empty)
		}
		return
	}
	gt.inside, gt.watch = Inside{}, nil
	g.admitLocked(gt)
}

// admitLocked lets the first waiter in.
func (g *Gates) admitLocked(gt *gate) {
	w := gt.first()
	w.leaveQueue()
	w.inside = true
	w.ready <- struct{}{}
}

// leaveQueue takes the waiter out of the queue.
func (w *waiter) leaveQueue() {
	w.before.after, w.after.before = w.after, w.before
	w.before, w.after = nil, nil
}
