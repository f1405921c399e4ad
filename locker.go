package redlock

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/redlock-go/redlock/internal/master"
)

var _ sync.Locker = (*Locker)(nil)

// A Locker is a mutual exclusion lock between processes, used like a
// sync.Mutex: by any number of goroutines, not copied, locked and unlocked in
// pairs, though one goroutine may unlock what another locked. It is made by
// Client.Locker or NewLocker; the methods of a zero Locker panic.
//
// It does not replace a sync.Mutex within a process for data that only the
// process has: it is held for as long as the lease lasts. See the package
// comment for what a holder may rely on.
type Locker struct {
	client *Client
	name   string
	key    string // Options.Prefix + name
	opts   LockOptions

	lease atomic.Pointer[Lease] // from a lock to its unlock
}

// Lock locks l. If the lock is in use, by another goroutine or another process,
// or if no quorum of masters can be reached, it waits until it is not: Lock
// never returns without the lock, and tells the Logger when it has waited for
// 1 s and why. It panics on a closed Client, also if that is closed while it
// waits. LockContext can be interrupted and returns errors.
func (l *Locker) Lock() {
	if _, err := l.lock(context.Background(), true); err != nil {
		panic("redlock: Lock of " + quote(l.name) + " on a closed Client")
	}
}

// TryLock tries to lock l and reports whether it succeeded. It makes one
// attempt at most, waits for nobody else's, and does not say why it failed:
// TryLockContext does.
func (l *Locker) TryLock() bool {
	return l.TryLockContext(context.Background()) == nil
}

// Unlock unlocks l. It panics if l is not locked on entry. If another goroutine
// waits for the lock it may be handed over at once: see LockOptions.Handover.
// Otherwise the release is sent to all masters, and Unlock returns when a quorum
// has answered, NodeTimeout at the latest. If the lease was lost before, Unlock
// only ends the holding; UnlockContext does the same and says so.
func (l *Locker) Unlock() {
	if err := l.unlock(context.Background()); err == ErrNotHeld {
		panic("redlock: unlock of unlocked Locker")
	}
}

// Name returns the name that was given to Client.Locker.
func (l *Locker) Name() string {
	l.open()
	return l.name
}

// Lease returns the lease by which l is locked, or nil if it is not. Ask for it
// between locking and unlocking: it stays the holder's own when others lock l
// afterwards.
func (l *Locker) Lease() *Lease {
	l.open()
	return l.lease.Load()
}

// lock waits for the gate of the name and then acquires the lock. On a schedule
// that stops it gives up unless forever.
func (l *Locker) lock(ctx context.Context, forever bool) (*Lease, error) {
	c := l.open()
	if !c.begin() {
		return nil, ErrClosed
	}
	defer c.end()
	if ctx.Err() != nil {
		return nil, &endedError{op: opAcquire, name: l.name, ctx: ctx}
	}
	w := &wait{locker: l, forever: forever, began: c.clock()}
	defer w.end()
	if err := w.enter(ctx); err != nil {
		return nil, err
	}
	if w.lease == nil { // nobody has passed one on
		if err := w.acquire(ctx); err != nil {
			return nil, err
		}
	}
	return w.hold(), nil
}

// tryLock makes one attempt.
func (l *Locker) tryLock(ctx context.Context) error {
	c := l.open()
	if !c.begin() {
		return ErrClosed
	}
	defer c.end()
	if ctx.Err() != nil {
		return &endedError{op: opAcquire, name: l.name, ctx: ctx}
	}
	ok, note, err := c.gates.TryEnter(l.key)
	if err != nil {
		return ErrClosed
	}
	if !ok {
		return l.taken(note)
	}
	w := &wait{locker: l, inside: true, began: c.clock()}
	defer w.end()
	if err := w.attempt(ctx, master.Set); err != nil {
		return w.outcome(ctx)
	}
	w.hold()
	return nil
}

// unlock ends the lease, releases the lock on all masters and leaves the gate.
func (l *Locker) unlock(ctx context.Context) error {
	l.open()
	s := l.lease.Swap(nil)
	if s == nil {
		return ErrNotHeld
	}
	return l.leave(ctx, s)
}

// leave hands over or releases the lease s, which is l's no longer, and leaves
// the gate.
func (l *Locker) leave(ctx context.Context, s *Lease) error {
	c := l.client
	if l.handOver(ctx, s) {
		return nil
	}
	c.gates.Note(l.key, nil) // it is not ours any more that is held
	defer c.gates.Leave(l.key)
	if !c.begin() {
		return ErrClosed
	}
	defer c.end()
	return s.release(ctx)
}

// taken returns what to say of a gate that another goroutine has taken, given
// the word that it left there.
func (l *Locker) taken(note error) error {
	if note == nil {
		return l.client.unasked(opAcquire, l.name)
	}
	return note
}

// open returns the Client, or panics if there is none.
func (l *Locker) open() *Client {
	if l.client == nil {
		panic("redlock: use of a zero Locker; Client.Locker makes one that can be used")
	}
	return l.client
}

// The operations that errors name.
var (
	opAcquire = master.Set.String()
	opFence   = master.Commit.String()
	opRenew   = master.Renew.String()
	opRelease = master.Release.String()
	opPing    = master.Ping.String()
)
