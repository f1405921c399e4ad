package redlock

import (
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A client that waits for a lock asks the masters who holds it, for errors and logs. Waiting does not
// depend on the answer, so nobody waits for it.

const (
	// ownerAfter is how long a wait lasts before the owner is asked for: most waits are shorter.
	ownerAfter = 100 * time.Millisecond
	// ownerEvery is how often the owner of one lock is asked for.
	ownerEvery = time.Second
	// ownerFor is for how long an answer is used.
	ownerFor = 2 * time.Second
)

// owners remembers who held the locks that a Client waits for.
type owners struct {
	mu    sync.Mutex // guards what follows
	known recent[ownerNote]
}

// An ownerNote says who holds one lock.
type ownerNote struct {
	asked time.Time // when the masters were asked last
	owner string    // the last answer; empty if there is none
	heard time.Time // when that came
}

func newOwners() owners { return owners{known: recent[ownerNote]{keep: 10 * time.Second}} }

// due reports whether the owner of the lock is to be asked for now, and notes that it is.
func (o *owners) due(key string) bool {
	now := time.Now()
	o.mu.Lock()
	defer o.mu.Unlock()
	note, _ := o.known.get(key)
	if !note.asked.IsZero() && now.Sub(note.asked) < ownerEvery {
		return false
	}
	note.asked = now
	o.known.put(key, note)
	return true
}

// heard notes who holds the lock.
func (o *owners) heard(key, owner string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	note, _ := o.known.get(key)
	note.owner, note.heard = owner, time.Now()
	o.known.put(key, note)
}

// named returns err with the owner of the lock, if err says that the lock is held, and the owner is
// known.
func (o *owners) named(key string, err error) error {
	q, ok := err.(*QuorumError)
	if !ok || !q.held || q.Owner != "" {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	note, _ := o.known.get(key)
	if note.owner == "" || time.Since(note.heard) > ownerFor {
		return err
	}
	named := *q // others may read q
	named.Owner = note.owner
	return &named
}

// askOwner asks who holds the lock, if the wait is long enough for that.
func (w *wait) askOwner() {
	if c := w.locker.client; errors.Is(w.last, ErrHeld) && c.clock().Since(w.began) >= ownerAfter {
		c.askOwner(w.locker.heldKey(w.last))
	}
}

// askOwner asks the masters who holds the lock. It waits for nothing.
func (c *Client) askOwner(key string) {
	if !c.owners.due(key) {
		return
	}
	p := &peek{client: c, key: key, missing: len(c.masters), masters: make(map[string]int)}
	query := master.NewPeek(key)
	for i, m := range c.masters {
		if err := m.Ask(master.Query, query, p); err != nil {
			p.Answered(i, master.Answer{Err: err})
		}
	}
}

// A peek collects the answers to one question for an owner.
type peek struct {
	client *Client // immutable
	key    string  // immutable

	mu      sync.Mutex     // guards what follows
	missing int            // masters that have not answered
	masters map[string]int // how many have each token
	done    bool           // the owner is known
}

// Answered implements master.Asker.
func (p *peek) Answered(_ int, a master.Answer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.missing--
	if a.Done() && len(a.Replies) == 1 {
		if token, err := master.DecodePeek(a.Replies[0]); err == nil && token != "" {
			p.masters[token]++
			if !p.done && p.masters[token] >= quorum.Majority(len(p.client.masters)) {
				p.done = true
				p.client.owners.heard(p.key, master.OwnerOf(token))
			}
		}
	}
	if p.missing == 0 && !p.done {
		p.client.owners.heard(p.key, "") // free, or contended for
	}
}
