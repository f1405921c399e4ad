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

// hearOwner notes who holds the lock, as the votes of the current round of the claim say.
func (q *contender) hearOwner(votes []quorum.Vote) {
	h, ask := holding.Standing(votes)
	c, next := q.wait.locker.core, time.Duration(0) // a near claim polls often
	if ask {
		// With DisableWakeups, the schedule may have the next poll made long after.
		if c.cfg.Deaf || c.clock().Since(q.wait.began) >= ownerAfter {
			c.askOwner(q.wait.locker.key)
		}
		return
	}
	if n := q.inbox.Ahead(q.claim); n >= wire.Near {
		next = waits.FarPolls(c.cfg.ClaimPolls, n, len(c.masters)) * 5 / 4
	}
	c.owners.Heard(q.wait.locker.key, h, next)
}

// askOwner asks who holds the lock, if the wait is long enough for that. It waits for nothing.
func (w *wait) askOwner() {
	c := w.locker.core
	if !w.last.taken() || c.clock().Since(w.began) < ownerAfter {
		return
	}
	if key, is := w.locker.heldKey(w.last); is {
		c.askOwner(key)
	}
}

// askOwner asks who holds the lock of a key, unless that was asked a moment ago. It waits for nothing.
func (c *Core) askOwner(key string) {
	if !c.owners.BeginAsking(key) || !c.calls.Begin() {
		return
	}
	go func() {
		defer c.calls.Done()
		c.peek(context.Background(), key, quorum.All)
	}()
}

// explained returns f, the failure of an attempt that has ended, with who holds the lock, or with why its key is not a lock. It asks the
// masters if nothing is known, and nobody has asked them in the last second.
func (l *Locker) explained(ctx context.Context, f *Failure) *Failure {
	if f.Held == "" || f.named() {
		return f
	}
	key, is := l.heldKey(f)
	if c := l.core; is && c.owners.BeginAsking(key) && c.calls.Begin() {
		defer c.calls.Done()
		c.peek(ctx, key, quorum.Tally.Won) // far masters delay nobody
	}
	return l.named(f)
}

// named returns f with who holds the lock, or with why its key is not a lock, if f says that it is held, and that is known.
func (l *Locker) named(f *Failure) *Failure {
	if f == nil || f.Held == "" || f.named() {
		return f
	}
	key, is := l.heldKey(f)
	if !is {
		return f
	}
	h, known := l.core.owners.Of(key)
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

// named reports whether f says who holds the lock, or why its key is not a lock.
func (f *Failure) named() bool { return f.Owner != "" || f.Readers != nil || f.NotALock != nil }

// heldKey returns the key of the lock that f says is held, or is not a lock. A semaphore is none.
func (l *Locker) heldKey(f *Failure) (key string, is bool) {
	if f.Held != "" {
		return l.core.cfg.Prefix + f.Held, !l.terms.OfSlots()
	}
	return l.key, !l.terms.OfSlots()
}

// peek asks the masters who holds the lock of a key, and notes their answers when these are enough.
func (c *Core) peek(ctx context.Context, key string, enough func(quorum.Tally) bool) {
	votes := c.group.Query(ctx, c.closing, wire.NewPeek(key), c.cfg.Bounds.Limit(c.cfg.TTL), enough)
	c.owners.Heard(key, holding.Peeked(votes), 0)
}

// delays returns the delays of a call, by schedules of the user. If forever is true, they never stop.
func (c *Core) delays(forever bool) waits.Delays {
	return waits.Delays{Start: c.cfg.Schedules, Forever: forever, Default: longestDelay}
}
