package redlock

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

// Unlock does not wait for the masters, so the next acquisition of the name by this Client may follow the
// release on the same ordered connections. A plain SET would then arrive directly behind the release, before the
// SET of a client that the release wakes, and would always get the lock. So this Client could keep the lock for
// ever. Three rules leave the lock to other clients:
//
//   - The acquisition is master.Register, which leaves the lock to the clients in the queue.
//   - A release may have woken another client, whose SET is on its way for up to one of its own round trips.
//     So all acquisitions within the next second are master.Register, too. Otherwise a Client near the masters,
//     even if it waits for the answer of each release, would always be faster than a client far from them.
//   - Clients without wake-ups, and those of other libraries, do not queue. They get the lock only if its
//     holder leaves a gap. So after followMost acquisitions the next one waits for the answer to the release.
//     With DisableWakeups, each acquisition waits for it.

const (
	// politeFor is how long after a release acquisitions yield to the clients in the queue.
	politeFor = time.Second
	// followMost is how many acquisitions in a row may follow a release without waiting for its
	// answer. A lock and unlock then takes 17/16 round trips on average.
	followMost = 16
)

// lastReleases are a Client's last releases, by key.
type lastReleases struct {
	alone bool // immutable; each acquisition waits for the answer to the last release

	mu   sync.Mutex // guards what follows
	last recent[lastRelease]
}

// A lastRelease is the last release of a name.
type lastRelease struct {
	token     string        // of the lease
	until     time.Time     // when the release no longer matters
	answered  bool          // a quorum has answered
	passedOn  bool          // a master has passed the lock on
	contended bool          // the lease was not acquired by the first attempt: other clients want the lock
	followed  int           // how many acquisitions in a row, up to that of the lease, did not wait for an answer
	gap       chan struct{} // closed when the release is answered; nil: no goroutine waits for that
}

// released notes that a lease of this Client is about to be released.
func (p *lastReleases) released(claim *master.Claim, contended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range claim.Keys {
		before, _ := p.last.get(key)
		p.last.put(key, lastRelease{token: claim.Token(), until: time.Now().Add(politeFor), followed: before.followed, contended: contended})
	}
}

// answered notes that the release of a lease has been answered, and whether a master has passed the lock on.
func (p *lastReleases) answered(claim *master.Claim, passedOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range claim.Keys {
		p.answeredLocked(key, claim.Token(), passedOn)
	}
}

func (p *lastReleases) answeredLocked(key, token string, passedOn bool) {
	r, ok := p.last.get(key)
	if !ok || r.token != token {
		return // a later release has replaced it
	}
	if r.gap != nil {
		close(r.gap)
		r.gap = nil
	}
	if !passedOn && r.followed == 0 {
		p.last.drop(key)
		return
	}
	r.answered, r.passedOn = true, passedOn
	if passedOn {
		r.until = time.Now().Add(politeFor)
	}
	p.last.put(key, r)
}

// begin counts an acquisition that is about to begin. It returns the kind of its first command, and reports
// whether other clients are likely to want the lock.
func (p *lastReleases) begin(key string) (kind master.Kind, contended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.last.get(key)
	if !ok {
		return master.Set, false
	}
	if r.answered && !r.passedOn || !time.Now().Before(r.until) {
		p.last.drop(key)
		return master.Set, false
	}
	r.followed++
	if r.answered {
		r.followed = 0
	}
	p.last.put(key, r)
	return master.Register, r.contended || r.passedOn
}

// awaited returns a channel that is closed when a quorum has answered the last release of key, or nil if the next
// acquisition need not wait for that.
func (p *lastReleases) awaited(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.last.get(key)
	if !ok || r.answered || r.followed < followMost && !p.alone {
		return nil
	}
	if r.gap == nil {
		r.gap = make(chan struct{})
		p.last.put(key, r)
	}
	return r.gap
}

// letOthers waits for the answer to this Client's last release of the name, if a rule above requires it. So
// other clients find the lock free.
func (w *wait) letOthers(ctx context.Context) {
	l, c := w.locker, w.locker.client
	for key := range l.terms.Keys {
		if answered := c.lastReleases.awaited(key); answered != nil {
			w.late = true
			// The limit is also for a release that was dropped from lastReleases.last: then gap is never closed.
			c.sleep(ctx, c.group.Timeout(c.opts.limit(l.opts.TTL)), answered)
		}
	}
}
