package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

// Unlock does not wait for the masters, so the next acquisition of the name by this Client may follow the
// release on the same ordered connections. A plain SET would then always get the lock: it arrives directly
// behind the release, before the SET of the client that the release wakes. So this Client could keep the lock
// for ever. Three rules leave the lock to other clients:
//
//   - The acquisition is master.Register, which leaves the lock to the clients in the queue.
//   - A release may have woken another client, whose SET is on its way for up to one of its own round trips.
//     So all acquisitions within the next second are master.Register, too. Otherwise a Client near the masters,
//     even if it waits for the answer of each release, would always be faster than a client far from them.
//   - Clients without wake-ups, and those of other libraries, do not queue. They get the lock only if its
//     holder leaves a gap. So after followMost acquisitions the next one waits for the answer to the release.
//     Without wake-ups, each acquisition waits for it.

const (
	// politeFor is how long after a release acquisitions yield to the clients in the queue.
	politeFor = time.Second
	// followMost is how many acquisitions in a row may follow a release without waiting for its
	// answer. A lock and unlock then takes 17/16 round trips on average.
	followMost = 16
)

// partings are a Client's last releases, by key.
type partings struct {
	alone bool // immutable; the Client uses neither wake-ups nor queues

	mu   sync.Mutex // guards what follows
	last recent[parting]
}

// A parting is the last release of a name.
type parting struct {
	token    string        // of the lease
	until    time.Time     // when the release no longer matters
	answered bool          // a quorum has answered
	woke     bool          // a master has passed the lock on to another client
	crowded  bool          // the lease was not acquired by the first attempt: other clients want the lock
	followed int           // how many acquisitions in a row, up to that of the lease, did not wait for an answer
	gap      chan struct{} // closed when the release is answered; nil: no goroutine waits for that
}

// released notes that a lease of this Client is about to be released.
func (p *partings) released(claim *master.Claim, crowded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range claim.Keys {
		before, _ := p.last.get(key)
		p.last.put(key, parting{token: claim.Token(), until: time.Now().Add(politeFor), followed: before.followed, crowded: crowded})
	}
}

// settled notes that the release of a lease has been answered, and whether it has woken another client.
func (p *partings) settled(claim *master.Claim, woke bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range claim.Keys {
		p.settledLocked(key, claim.Token(), woke)
	}
}

func (p *partings) settledLocked(key, token string, woke bool) {
	part, ok := p.last.get(key)
	if !ok || part.token != token {
		return // a later release has replaced it
	}
	if part.gap != nil {
		close(part.gap)
		part.gap = nil
	}
	if !woke && part.followed == 0 {
		p.last.drop(key)
		return
	}
	part.answered, part.woke = true, woke
	if woke {
		part.until = time.Now().Add(politeFor)
	}
	p.last.put(key, part)
}

// first returns the kind of command for the first attempt at key, and reports whether other clients are likely to want
// the lock.
func (p *partings) first(key string) (kind master.Kind, crowded bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	part, ok := p.last.get(key)
	if !ok {
		return master.Set, false
	}
	if part.answered && !part.woke || !time.Now().Before(part.until) {
		p.last.drop(key)
		return master.Set, false
	}
	part.followed++
	if part.answered {
		part.followed = 0
	}
	p.last.put(key, part)
	if p.alone {
		return master.Set, false
	}
	return master.Register, part.crowded || part.woke
}

// awaited returns a channel that is closed when the last release of key has been answered, or nil if the next
// acquisition need not wait for the answer.
func (p *partings) awaited(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	part, ok := p.last.get(key)
	if !ok || part.answered || part.followed < followMost && !p.alone {
		return nil
	}
	if part.gap == nil {
		part.gap = make(chan struct{})
		p.last.put(key, part)
	}
	return part.gap
}

// letOthers waits for the answer to this Client's last release of the name, if a rule above requires it. So
// other clients find the lock free.
func (w *wait) letOthers(ctx context.Context) {
	l, c := w.locker, w.locker.client
	for key := range l.terms.Keys {
		if answered := c.partings.awaited(key); answered != nil {
			w.late = true
			// The limit is also for a release that was dropped from partings.last: then gap is never closed.
			c.sleep(ctx, c.group.Timeout(c.opts.limit(l.opts.TTL)), answered)
		}
	}
}
