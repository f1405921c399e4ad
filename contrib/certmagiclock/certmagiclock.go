// Package certmagiclock gives a storage of CertMagic, or of Caddy, locks over independent Redis masters. If several
// servers need a certificate, one of them obtains it, and the others read it from the storage.
//
//	certmagic.Default.Storage = certmagiclock.New(storage, client, nil)
//
// Use it with a storage whose own locks are weak or missing, such as a directory on a network or an object store.
// All servers must use it, and the same masters.
//
// The module path is a placeholder, and no version has been released. A module that imports this package needs two lines,
// with the path of a checkout:
//
//	go mod edit -replace github.com/redlock-go/redlock=/path/to/redlock
//	go mod edit -replace github.com/redlock-go/redlock/contrib/certmagiclock=/path/to/redlock/contrib/certmagiclock
package certmagiclock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/caddyserver/certmagic"

	"github.com/redlock-go/redlock"
)

// DefaultPrefix is put in front of CertMagic's names of locks.
const DefaultPrefix = "certmagic:"

// Options are the settings of New. Nil or zero means defaults.
type Options struct {
	// LockOptions are the options of each lock. Nil means defaults. MaxHold zero means that a lock may be held for
	// any time: CertMagic holds one while it retries, which may take days.
	LockOptions *redlock.LockOptions

	// Prefix is put in front of CertMagic's names of locks. Empty means DefaultPrefix.
	Prefix string
}

// A Storage is a certmagic.Storage with locks of redlock. It passes all other calls to the storage that it wraps.
// It is safe for concurrent use if the wrapped storage is.
type Storage struct {
	certmagic.Storage
	client *redlock.Client
	opts   Options

	mu   sync.Mutex                 // guards held
	held map[string]*redlock.Locker // by CertMagic's name
}

var (
	_ certmagic.Storage          = (*Storage)(nil)
	_ certmagic.TryLocker        = (*Storage)(nil)
	_ certmagic.LockLeaseRenewer = (*Storage)(nil)
)

// New returns a Storage that keeps its data in another storage, and locks with a Client. Close the Client only after
// the last use of the Storage. Nil opts means defaults. Each Lock returns an error if the LockOptions are wrong.
func New(storage certmagic.Storage, client *redlock.Client, opts *Options) *Storage {
	s := &Storage{Storage: storage, client: client, held: make(map[string]*redlock.Locker)}
	if opts != nil {
		s.opts = *opts
	}
	if s.opts.Prefix == "" {
		s.opts.Prefix = DefaultPrefix
	}
	var lock redlock.LockOptions
	if s.opts.LockOptions != nil {
		lock = *s.opts.LockOptions
	}
	if lock.MaxHold == 0 {
		lock.MaxHold = -1
	}
	s.opts.LockOptions = &lock
	return s
}

// Lock acquires the lock of a name. It waits until ctx ends, also while too few masters answer.
func (s *Storage) Lock(ctx context.Context, name string) error {
	return s.acquire(name, func(l *redlock.Locker) error { return l.LockContext(ctx) })
}

// TryLock makes one attempt to acquire the lock of a name, and reports whether it succeeded. If another server
// holds the lock, the error is nil.
func (s *Storage) TryLock(ctx context.Context, name string) (bool, error) {
	err := s.acquire(name, func(l *redlock.Locker) error { return l.TryLockContext(ctx) })
	if errors.Is(err, redlock.ErrHeld) {
		return false, nil
	}
	return err == nil, err
}

// acquire calls lock with a new Locker, and keeps the Locker for Unlock.
func (s *Storage) acquire(name string, lock func(*redlock.Locker) error) error {
	l, err := s.client.NewLocker(s.opts.Prefix+name, s.opts.LockOptions)
	if err != nil {
		return err
	}
	if err := lock(l); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[name] = l // there is no other entry, since we hold the lock
	return nil
}

// Unlock releases the lock of a name. It does so even if ctx has ended. The error matches redlock.ErrLost if the
// lease was lost before: then another server may have obtained the certificate, too.
func (s *Storage) Unlock(ctx context.Context, name string) error {
	s.mu.Lock()
	l := s.held[name]
	delete(s.held, name)
	s.mu.Unlock()
	if l == nil {
		return fmt.Errorf("certmagiclock: unlock %q: %w", name, redlock.ErrNotHeld)
	}
	return l.UnlockContext(ctx)
}

// RenewLockLease returns an error if the lease of a name was lost, so that CertMagic ends the operation. Leases
// are renewed by the Client, so there is nothing else to do, and the duration has no meaning.
func (s *Storage) RenewLockLease(_ context.Context, name string, _ time.Duration) error {
	s.mu.Lock()
	l := s.held[name]
	s.mu.Unlock()
	if l == nil {
		return fmt.Errorf("certmagiclock: renew %q: %w", name, redlock.ErrNotHeld)
	}
	return l.Lease().Err()
}
