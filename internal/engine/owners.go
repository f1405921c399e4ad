package engine

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// Errors and logs name who holds a lock. The answers to a claim say which token stands, so a claim asks only for readers. Any
// other wait asks the masters who holds the lock. Waiting does not depend on the answer, so nobody waits for it.

const (
	// ownerAfter is how long a wait lasts before the owner is asked for: most waits are shorter.
	ownerAfter = 100 * time.Millisecond
	ownerEvery = holding.AskEvery // how often the owner of one lock is asked for
)

// owners are who holds the locks that goroutines of a Client wait for.
type owners struct {
	core  *Core
	known *holding.Owners
}

// heard notes who holds the lock, as the votes of the current round of the claim say.
func (o owners) heard(q *contender, votes []quorum.Vote) {
	h, ask := holding.Standing(votes)
	c, next := o.core, time.Duration(0) // a near claim polls often
	if ask {
		// With DisableWakeups, the schedule may have the next poll made long after.
		if c.cfg.Deaf || c.clock().Since(q.wait.began) >= ownerAfter {
			o.ask(q.wait.locker.key)
		}
		return
	}
	if n := q.inbox.Ahead(q.claim); n >= wire.Near {
		next = waits.FarPolls(c.cfg.ClaimPolls, n, len(c.masters)) * 5 / 4
	}
	o.known.Heard(q.wait.locker.key, h, next)
}

// askFor asks who holds the lock that a wait wants, if it is long enough for that. It waits for nothing.
func (o owners) askFor(w *wait) {
	if !w.last.taken() || o.core.clock().Since(w.began) < ownerAfter || w.locker.terms.OfSlots() { // a semaphore has no owner
		return
	}
	key := w.locker.key
	if w.last.Held != "" {
		key = o.keyOf(w.last)
	}
	o.ask(key)
}

// ask asks who holds the lock of a key, unless that was asked a moment ago. It waits for nothing.
func (o owners) ask(key string) {
	if !o.known.BeginAsking(key) || !o.core.calls.Begin() {
		return
	}
	go func() {
		defer o.core.calls.Done()
		o.peek(context.Background(), key, quorum.All)
	}()
}

// explained returns f, the failure of an attempt on l that has ended, with who holds the lock, or with why its key is not a lock. It asks the
// masters if nothing is known, and nobody has asked them in the last second.
func (o owners) explained(ctx context.Context, l *Locker, f *Failure) *Failure {
	if l.terms.OfSlots() || f.Held == "" || f.named() {
		return f
	}
	if key := o.keyOf(f); o.known.BeginAsking(key) && o.core.calls.Begin() {
		defer o.core.calls.Done()
		o.peek(ctx, key, quorum.Tally.Won) // far masters delay nobody
	}
	return o.named(l, f)
}

// named returns f with who holds the lock, or with why its key is not a lock, if f says that it is held, and that is known.
func (o owners) named(l *Locker, f *Failure) *Failure {
	if f == nil || f.Held == "" || f.named() || l.terms.OfSlots() {
		return f
	}
	h, known := o.known.Of(o.keyOf(f))
	if !known {
		return f
	}
	named := *f // others may read f
	named.made = new(made)
	if h.NotALock != nil {
		named.NotALock = h.NotALock
	} else {
		named.Owner, named.Readers = h.Owner(), h.Readers
	}
	return &named
}

// keyOf returns the key of the lock that f says is held, or is not a lock.
func (o owners) keyOf(f *Failure) string { return o.core.cfg.Prefix + f.Held }

// peek asks the masters who holds the lock of a key, and notes their answers when these are enough.
func (o owners) peek(ctx context.Context, key string, enough func(quorum.Tally) bool) {
	c := o.core
	votes := c.group.Query(ctx, c.closing, wire.NewPeek(key), c.cfg.Bounds.Limit(c.cfg.TTL), enough)
	o.known.Heard(key, holding.Peeked(votes), 0)
}

// named reports whether f says who holds the lock, or why its key is not a lock.
func (f *Failure) named() bool { return f.Owner != "" || f.Readers != nil || f.NotALock != nil }
