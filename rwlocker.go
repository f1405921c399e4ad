package redlock

import (
	"context"
	"sync"

	"github.com/redlock-go/redlock/internal/engine"
)

// An RWLocker is a reader/writer lock between processes. It is used like a sync.RWMutex: any number of readers
// or a single writer hold it. Any number of goroutines share an RWLocker. It must not be copied. Client.RWLocker
// returns RWLockers. The methods of a zero RWLocker panic.
//
// The readers of a Client share one lease. The lease is kept after the last of them has left, until a writer
// waits, or half of its validity has passed. It is renewed if a goroutine has entered since it was acquired or last
// renewed, for up to LockOptions.MaxHold. While it is kept, RLock needs no network, and takes less than a
// microsecond. LockOptions.Handover below 0 turns this off. So each name that was read lately has a key on the masters: for half of its
// validity after the last reader, or for the TTL if the process was killed.
//
// Neither side starves. While a writer waits, readers that came later wait behind it. After a writer, the readers
// that waited are let in before the next writer. This needs wake-ups: see Options.DisableWakeups. A Locker with the
// name is a writer, too, but its TryLock asks nobody to leave. A Redlock client of another library does not ask
// readers to leave at all, so it may wait for as long as there are readers, and its release lets no readers in
// before the next writer.
//
// A lease is not upgraded or downgraded: a goroutine that holds the one side waits for ever for the other. As with
// sync.RWMutex, a goroutine that holds a read lock must not take it again: if a writer waits, both wait for ever.
type RWLocker struct {
	writer, reader Locker
	readers        *engine.Readers // of reader; nil: the RWLocker is a zero one
}

var _ sync.Locker = (*RWLocker)(nil)

// RWLocker returns an RWLocker for name with Options.LockOptions. It is cheap and sends nothing. The RWLockers
// and Lockers with the same name exclude each other. RWLocker panics where Locker does. NewRWLocker returns an error instead.
func (c *Client) RWLocker(name string) *RWLocker {
	l, err := c.NewRWLocker(name, nil)
	if err != nil {
		panic(err.Error())
	}
	return l
}

// NewRWLocker returns an RWLocker for name with opts, which replace Options.LockOptions; nil means Options.LockOptions. The lease
// that the readers of a Client share has the options of the RWLocker whose goroutine acquired it. NewRWLocker returns an error if
// the name or the options are invalid.
func (c *Client) NewRWLocker(name string, opts *LockOptions) (*RWLocker, error) {
	l, err := c.NewLocker(name, opts)
	if err != nil {
		return nil, err
	}
	rw := &RWLocker{}
	rw.readers = l.lock().Sides((*engine.Locker)(&rw.writer), (*engine.Locker)(&rw.reader))
	return rw, nil
}

// Lock locks l for writing, as Locker.Lock does.
func (l *RWLocker) Lock() { l.writer.Lock() }

// TryLock tries to lock l for writing, as Locker.TryLock does. If it finds readers, it asks them to leave: if none
// of them is inside, a TryLock a moment later succeeds.
func (l *RWLocker) TryLock() bool { return l.writer.TryLock() }

// Unlock unlocks l for writing, as Locker.Unlock does.
func (l *RWLocker) Unlock() { l.writer.Unlock() }

// LockContext locks l for writing, as Locker.LockContext does. For the outcome of the release, use the UnlockContext of Locker.
func (l *RWLocker) LockContext(ctx context.Context) error { return l.writer.LockContext(ctx) }

// Do calls f while it holds l for writing, as Locker.Do does.
func (l *RWLocker) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return l.writer.Do(ctx, f)
}

// RLock locks l for reading. It waits while a writer holds l, or waits for l. Like Lock, it never returns without
// the lock, and panics if the Client is closed.
func (l *RWLocker) RLock() {
	if r := l.readers; r == nil || !r.Enter() {
		l.reader.Lock()
	}
}

// RLockContext locks l for reading like RLock, but stops waiting when ctx ends: see Locker.LockContext.
func (l *RWLocker) RLockContext(ctx context.Context) error { return l.reader.LockContext(ctx) }

// RDo calls f while it holds l for reading. The context of f ends with ctx or with the lease: see Locker.Do. f must not call
// RUnlock.
func (l *RWLocker) RDo(ctx context.Context, f func(ctx context.Context) error) error {
	return l.reader.Do(ctx, f)
}

// TryRLock tries to lock l for reading, and reports whether it succeeded. It makes one attempt at most, and none while another
// goroutine of the Client acquires the readers' lease.
func (l *RWLocker) TryRLock() bool { return l.reader.TryLock() }

// RUnlock undoes one RLock or TryRLock. It panics if no goroutine of the Client holds a read lock of the name. It
// never waits for the masters.
func (l *RWLocker) RUnlock() {
	if r := l.readers; r == nil || !r.Leave() {
		l.reader.Unlock() // which panics, and says who holds the lock: see engine.Readers
	}
}

// Locker returns the writer's side of l. Locking it is l.Lock. Each call returns the same Locker.
func (l *RWLocker) Locker() *Locker { return &l.writer }

// RLocker returns the reader's side of l: locking it is l.RLock. Each call returns the same Locker. It differs
// from other Lockers in this:
//
//   - Any number of goroutines hold it at the same time. Lease returns the lease that they share. It may last
//     after they have unlocked. When it is lost, it is lost for all of them.
//   - UnlockContext does not wait. It returns ErrLost if the lease was lost before.
//   - LockOptions.MaxHold bounds how long one goroutine can hold the lock. The lease is renewed for up to twice
//     as long, since goroutines may come while others stay.
//   - Lease.Fence is not smaller than that of each earlier writer, and smaller than that of each later writer.
//     Among readers there is no order.
//   - An error that matches ErrHeld does not always mean that a writer holds the lock. Readers of this Client that are inside keep others
//     out, too: while a writer waits for them, after MaxHold, and while less than half of the validity is left since a renewal is late. The
//     error then says "held by readers of this Client".
//   - Unlock cannot tell which goroutine calls it. So a function called by Do must not unlock.
func (l *RWLocker) RLocker() *Locker { return &l.reader }
