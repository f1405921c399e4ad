package gate

import (
	"context"
	"slices"
	"sync"
)

// A Lead chooses one of the goroutines that want the same thing, which they can share. That goroutine leads: it acquires the thing, and then
// calls Share, or Resign if it could not. The others wait for it. The zero Lead has no goroutines.
type Lead[V any] struct {
	mu      sync.Mutex // guards what follows
	leading bool       // a goroutine leads
	last    error      // of the last leader that has resigned, since Share was called
	waiting []*follower[V]
}

// A follower is a goroutine that waits for the leader.
type follower[V any] struct {
	ready chan struct{} // closed when one of the others is set
	value *V            // it has a share
	leads bool
}

// Join waits until the leader has shared a value, and returns that, or until the caller leads. If ctx ends first, it returns the error of
// ctx. If stop is closed, it may return none of these. It calls waits before it waits for another goroutine.
func (l *Lead[V]) Join(ctx context.Context, stop <-chan struct{}, waits func()) (value *V, leads bool, err error) {
	l.mu.Lock()
	if l.tryLocked() {
		l.mu.Unlock()
		return nil, true, nil
	}
	x := &follower[V]{ready: make(chan struct{})}
	l.waiting = append(l.waiting, x)
	l.mu.Unlock()
	waits()
	select {
	case <-x.ready:
	case <-ctx.Done():
		err = ctx.Err()
	case <-stop:
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if x.value != nil || x.leads {
		return x.value, x.leads, nil
	}
	l.waiting = slices.DeleteFunc(l.waiting, func(o *follower[V]) bool { return o == x })
	return nil, false, err
}

// Try makes the caller the leader, unless there is one, and reports whether it did.
func (l *Lead[V]) Try() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tryLocked()
}

// tryLocked is Try. What an earlier leader has found out no longer counts, unless it has passed the lead on.
func (l *Lead[V]) tryLocked() bool {
	if l.leading {
		return false
	}
	l.leading, l.last = true, nil
	return true
}

// Resign makes another goroutine the leader, if one waits. last is why the caller has failed; nil: it is not known.
func (l *Lead[V]) Resign(last error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if last != nil {
		l.last = last
	}
	if len(l.waiting) == 0 {
		l.leading = false
		return
	}
	x := l.waiting[0]
	l.waiting = l.waiting[1:]
	x.leads = true
	close(x.ready)
}

// Reason returns why the last leader has failed, or nil.
func (l *Lead[V]) Reason() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.last
}

// Share ends the lead. It calls share with the number of goroutines that wait, and gives the result to all of them. None joins meanwhile.
func (l *Lead[V]) Share(share func(waiting int) *V) {
	l.mu.Lock()
	defer l.mu.Unlock()
	value := share(len(l.waiting))
	for _, x := range l.waiting {
		x.value = value
		close(x.ready)
	}
	l.waiting, l.leading, l.last = nil, false, nil
}

// Look calls look, and says whether a goroutine leads. That does not change meanwhile, and no goroutine is in Share.
func (l *Lead[V]) Look(look func(leading bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	look(l.leading)
}
