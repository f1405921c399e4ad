// Package turns says what a Client must leave to others, by its last releases. It sends nothing.
//
// Unlock does not wait for the masters, so the next acquisition of the name by this Client may follow the
// release on the same ordered connections. If the release has left the lock open, a plain SET would arrive directly behind
// it, before the poll of the claim that was told so, and would always get the lock. So this Client could keep the lock
// for ever. Three rules leave the lock to other clients:
//
//   - The next acquisition is wire.Register, which leaves the lock to the claims in the queue.
//   - All acquisitions within the next second are wire.Register, too. Otherwise a Client near the masters, even if it waits for the answer of
//     each release, would always be faster than a client far from them. A TryLock joins no queue, so after the answer it takes
//     a lock that was left open: see wire.TakesFree.
//   - Calls of TryLock, sets, and clients of other libraries get the lock only if its holder leaves a gap. So after followMost acquisitions
//     the next one waits for the answer to the release. With DisableWakeups, each acquisition waits for it.
package turns

import (
	"math/rand/v2"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/recent"
	"github.com/redlock-go/redlock/internal/wire"
)

const (
	// politeFor is how long after a release acquisitions yield to the clients in the queue.
	politeFor = time.Second
	// followMost is how many acquisitions in a row may follow a release without waiting for its
	// answer. A lock and unlock then takes 17/16 round trips on average.
	followMost = 16
	// openOneIn is how many releases there are for each that leaves the lock open.
	openOneIn = 12
)

// Releases are a Client's last releases, by key. They are safe for concurrent use.
type Releases struct {
	alone bool // immutable; each acquisition waits for the answer to the last release

	mu   sync.Mutex // guards what follows
	last recent.Map[release]
}

// A release is the last one of a name.
type release struct {
	token      string        // of the lease
	until      time.Time     // when the release no longer matters
	answered   bool          // a quorum has answered, or no further master will
	passedOn   bool          // a master has passed the lock on
	contended  bool          // a master has refused an attempt of the acquisition: other clients want the lock
	turnaround time.Duration // from when the claim of the lease was made to its release; 0: it had none that can be granted the lock
	followed   int           // how many acquisitions in a row, that of the lease included, did not wait for an answer
	gap        chan struct{} // closed when the release is answered; nil: no goroutine waits for that
}

// NewReleases returns the Releases of a Client that has released nothing. If alone is true, each acquisition waits for the answer to
// the last release.
func NewReleases(alone bool) *Releases {
	return &Releases{alone: alone, last: recent.Map[release]{Keep: politeFor}}
}

// Hold has Released wait until the returned function is called. It is for tests.
func (p *Releases) Hold() (resume func()) {
	p.mu.Lock()
	return p.mu.Unlock
}

// Released notes that a lease of this Client is about to be released.
func (p *Releases) Released(claim *master.SentClaim, contended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range claim.Keys {
		before, _ := p.last.Get(key)
		now := time.Now()
		p.last.Put(key, release{token: claim.Token(), until: now.Add(politeFor), followed: before.followed, contended: contended, turnaround: claim.Age(now)})
	}
}

// PassTo draws at random how a release passes the lock on. next is the token of the claim that most masters have first; "": none is known. If each
// master passed the lock on to its own head, and these differed, nobody would have the votes of a quorum. If mayOpen is true, some releases
// leave the lock open. Otherwise, clients that do not queue would never find it free while others queue. An open release costs the next holder a
// round trip.
func PassTo(next string, mayOpen bool) (how string) {
	switch {
	case mayOpen && rand.N(openOneIn) == 0:
		return wire.Open
	case next != "":
		return wire.ToNext(next)
	}
	return wire.ToHead
}

// Turnaround returns how long the last turn of this Client took, from when it made a claim to the release of the lease. It is 0 if
//
//   - no lease of a claim was released lately;
//   - a quorum has answered the release, and nobody was in the queue: such a turn does not tell how long those take who queue now;
//   - key stands for permits.
func (p *Releases) Turnaround(key string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, _ := p.last.Get(key)
	return r.turnaround
}

// Answered notes that the release of a lease has been answered, and whether a master has passed the lock on.
func (p *Releases) Answered(claim *master.SentClaim, passedOn bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key := range claim.Keys {
		p.answeredLocked(key, claim.Token(), passedOn)
	}
}

func (p *Releases) answeredLocked(key, token string, passedOn bool) {
	r, ok := p.last.Get(key)
	if !ok || r.token != token {
		return // a later release has replaced it
	}
	if r.gap != nil {
		close(r.gap)
		r.gap = nil
	}
	if !passedOn && r.followed == 0 {
		p.last.Drop(key)
		return
	}
	r.answered, r.passedOn = true, passedOn
	if passedOn {
		r.until = time.Now().Add(politeFor)
	}
	p.last.Put(key, r)
}

// Next counts an acquisition that is about to begin. It returns the kind of its first command, and reports
// whether other clients are likely to want the lock.
func (p *Releases) Next(key string) (kind wire.Kind, contended bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.last.Get(key)
	if !ok {
		return wire.Set, false
	}
	if r.answered && !r.passedOn || !time.Now().Before(r.until) {
		p.last.Drop(key)
		return wire.Set, false
	}
	r.followed++
	if r.answered {
		r.followed = 0
	}
	p.last.Put(key, r)
	return wire.Register, r.contended || r.passedOn
}

// PassedOn reports whether the last release of key has passed the lock on to another client.
func (p *Releases) PassedOn(key string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.last.Get(key)
	return ok && r.passedOn && time.Now().Before(r.until)
}

// Awaited returns a channel that is closed when a quorum has answered the last release of key, or nil if the next
// acquisition need not wait for that.
func (p *Releases) Awaited(key string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.last.Get(key)
	if !ok || r.answered || r.followed < followMost && !p.alone {
		return nil
	}
	if r.gap == nil {
		r.gap = make(chan struct{})
		p.last.Put(key, r)
	}
	return r.gap
}
