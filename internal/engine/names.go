package engine

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// set is the kind of a Locker of several names. The Locker's key stands for the set, and is no key on the masters. It is
// the name of the set's own gate, at which the goroutines that wait for the same set queue. Behind that gate, a
// goroutine takes the gates of the single names, in the order of the keys. Since all sets have the same order, no
// two of them wait for each other.
// docs/design.md#several-names says why a set has one tenure, and not one for each name.
type set struct{ mutex }

// A setWait is what a wait for a set has, or one for a part of it.
type setWait struct {
	gates  int               // how many gates of names are taken
	merged *master.SentClaim // takes over the names that were acquired one by one; nil: each attempt has a new claim
	whole  *wait             // of a wait for one of the names: the wait for the set
}

// Set returns a Locker of several names. They are sorted and all different, and so are their keys.
func (c *Core) Set(names, keys []string, opts Options) *Locker {
	terms := wire.NewSetTerms(keys, opts.TTL)
	l := &Locker{core: c, name: strings.Join(names, ", "), key: terms.Key(), opts: opts, terms: terms, names: names, keys: keys}
	l.kind = set{}
	return l
}

// At first a set polls. Between two attempts it holds nothing, neither keys nor the gates of the names, so it blocks nobody. After some refusals
// it acquires its names one by one, and then merges them.

const (
	// pollsMost is how often a set is refused before it acquires its names one by one.
	pollsMost = 8
	// pollsFor is how long a set waits at most before it does so.
	pollsFor = time.Second
	// contendedFor is how long a set that had to acquire its names one by one is taken to be contended for. Then
	// one refusal is enough.
	contendedFor = time.Second
	// mergeFor is how long the attempts to take over the names may take.
	mergeFor = time.Second
)

func (s set) lock(w *wait) bool {
	if !w.enterGate(w.locker) {
		return false
	}
	if w.lease != nil {
		w.set.gates = len(w.locker.keys) // they are handed over with the lease
		return true
	}
	if w.once {
		return s.enterNames(w) && w.acquire()
	}
	return s.acquire(w)
}

// ended leaves the gates of the names.
func (s set) ended(w *wait) { s.leaveNames(w) }

// acquire is wait.acquire for a Locker of several names.
func (s set) acquire(w *wait) bool {
	l, c := w.locker, w.locker.core
	delays := c.delays(w.forever)
	for refusals := 0; ; {
		if !s.enterNames(w) {
			return false
		}
		w.letOthers()
		if w.over() {
			return false
		}
		request, _ := l.firstRequest()
		if w.attempt(request) {
			return true
		}
		s.leaveNames(w)
		w.warn()
		s.askOwner(w)
		if w.last.taken() && !w.try.split() {
			refusals++
		}
		if refusals >= pollsMost || refusals > 0 && (c.clock().Since(w.began) >= pollsFor || c.contended.Has(l.key)) {
			c.contended.Add(l.key)
			if again := s.oneByOne(w); !again {
				return w.lease != nil
			}
		}
		d, more := delays.Next()
		if !more {
			return false
		}
		if w.try.split() {
			d += rand.N(c.group.Distance() + 1)
		}
		s.sleep(w, w.notPast(d))
	}
}

// askOwner asks who holds the lock that a wait wants, if it is long enough for that.
func (set) askOwner(w *wait) {
	if c, f := w.locker.core, w.last; f != nil && f.Held != "" && c.clock().Since(w.began) >= ownerAfter {
		c.owners.AskLater(f.heldKey(c))
	}
}

// sleep waits for d, or the end of ctx or the Client. In a long sleep, it asks who holds the lock.
func (s set) sleep(w *wait, d time.Duration) {
	c := w.locker.core
	for step := ownerAfter; d > 2*ownerAfter && !w.over(); step = holding.AskEvery {
		step = min(step, d)
		c.sleep(w.ctx, step, nil)
		s.askOwner(w)
		d -= step
	}
	c.sleep(w.ctx, d, nil)
}

// enterNames waits for the gates of the names, and reports whether it has entered all. Without w.once, it waits for each. ended leaves those that it
// has entered.
func (set) enterNames(w *wait) bool {
	for _, key := range w.locker.keys[w.set.gates:] {
		if _, ok := w.enter(key, nil); !ok { // a lease of one name is not handed over to a set
			return false
		}
		w.set.gates++
	}
	return true
}

// leaveNames leaves the gates of the names.
func (set) leaveNames(w *wait) {
	w.locker.core.gates.Leave(w.locker.keys[:w.set.gates]...)
	w.set.gates = 0
}

// oneByOne acquires the names one after the other, and then makes them one lease. again is true if a name
// was lost before the last was acquired, or if they could not be made one lease: then the caller polls again. Unless it has
// acquired the lock, it holds nothing when it returns.
func (s set) oneByOne(w *wait) (again bool) {
	l := w.locker
	parts := make([]*Locker, 0, len(l.keys))
	defer func() {
		if w.lease == nil { // also if a function of the user has panicked
			w.set.gates = 0
			for _, part := range parts {
				s.releasePart(part)
			}
		}
	}()
	held := w.ctx // ends with the lease of any part, too
	for i := range l.keys {
		p := &wait{locker: s.part(l, i), ctx: held, forever: w.forever, began: w.began, late: true, set: setWait{whole: w}}
		won := s.lockPart(p)
		w.attempts += p.attempts
		if !won {
			return held.Err() != nil && !w.over()
		}
		parts = append(parts, p.locker)
		held = p.locker.lease.Load().Context(held)
	}
	w.set.gates = len(parts)
	return s.merge(w, parts)
}

// part returns a Locker for one of the names of l. Its lease is renewed even if that of l will not be.
func (set) part(l *Locker, i int) *Locker {
	opts := l.opts
	opts.Fencing, opts.Handover = false, -1
	if opts.RenewEvery < 0 {
		opts.RenewEvery = opts.TTL / 3
	}
	part := &Locker{core: l.core, name: l.names[i], key: l.keys[i], silent: true, opts: opts, terms: wire.NewTerms(l.keys[i], opts.TTL)}
	part.kind = mutex{}
	return part
}

// lockPart acquires a part of a set, and reports whether it has.
func (set) lockPart(w *wait) bool {
	defer w.end()
	won := w.enterGate(nil) && w.acquire()
	if won {
		w.locker.kind.hold(w)
	}
	return won
}

// releasePart releases a part of a set and leaves its gate. If the lease has ended before, its release may have
// been sent, which does no harm.
func (set) releasePart(l *Locker) {
	t := l.lease.Load().tenure
	t.end(ErrReleased)
	l.core.group.Send(wire.Release, t.claim)
	l.core.gates.Leave(l.key)
}

// merge makes the leases of the parts one lease, by an acquisition with one token. A master grants it if each key
// is free or holds the token of its part, and replaces these tokens in one step, so no other client can come in
// between. Its vote counts like any other: all keys hold the new token, and are no other client's. So an attempt
// that fails need not be undone before the next one, which repeats it. merge reports that the set is to be polled for again
// if it has failed for that long, or if a part was lost.
func (s set) merge(w *wait, parts []*Locker) (again bool) {
	l, c := w.locker, w.locker.core
	var tokens []string
	for _, part := range parts {
		t := part.lease.Load().tenure
		if !t.end(ErrReleased) { // from now on, nothing of it but its release is sent
			return true
		}
		tokens = append(tokens, t.claim.Token())
	}
	began := c.clock()
	terms := l.terms.Merge(tokens)
	w.set.merged = master.NewSentClaim(&terms, wire.ClaimOf{Token: wire.NewToken(c.cfg.Owner), Waited: wire.NoQueue, Fence: l.proposal(began.Wall())})
	defer func() { // also if a function of the user has panicked
		if w.lease == nil {
			c.group.Send(wire.Release, w.set.merged)
		} else {
			leaveParts(w, parts)
		}
		w.set.merged = nil
	}()
	for delays := c.cfg.Delays(); !w.attempt(wire.Set); {
		switch {
		case w.over():
			return false
		case c.clock().Since(began) >= mergeFor:
			return true
		}
		s.sleep(w, delays.NextBackOff()+rand.N(c.group.Distance()+1))
	}
	return false
}

// leaveParts takes the claims of the parts out of the queues where they may still stand, and deletes their keys at masters that have not granted the
// merger.
func leaveParts(w *wait, parts []*Locker) {
	for _, part := range parts {
		w.locker.core.group.Send(wire.Release, part.lease.Load().tenure.claim)
	}
}
