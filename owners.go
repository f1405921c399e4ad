package redlock

import (
	"errors"
	"slices"
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
	// ownersFor is for how long it is known when the owner was asked for.
	ownersFor = 10 * time.Second
)

// owners remembers who held the locks that a Client waits for.
type owners struct {
	mu    sync.Mutex // guards what follows
	known recent[ownerNote]
}

// An ownerNote says who holds one lock.
type ownerNote struct {
	asked  time.Time // when the masters were asked last
	holder           // the last answer
	heard  time.Time // when that came
}

// A holder says who holds a lock, as far as it is known: a client, or the Clients whose readers do.
type holder struct {
	owner   string
	readers []string // their owners; empty for one that is not known
}

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
func (o *owners) heard(key string, who holder) {
	o.mu.Lock()
	defer o.mu.Unlock()
	note, _ := o.known.get(key)
	note.holder, note.heard = who, time.Now()
	o.known.put(key, note)
}

// named returns err with the owner of the lock, if err says that the lock is held, and the owner is
// known.
func (o *owners) named(key string, err error) error {
	q, ok := err.(*QuorumError)
	if !ok || !q.held || q.Owner != "" || q.Readers != nil {
		return err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	note, _ := o.known.get(key)
	if note.owner == "" && note.readers == nil || time.Since(note.heard) > ownerFor {
		return err
	}
	named := *q // others may read q
	named.Owner, named.Readers = note.owner, note.readers
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
	c.sendPeek(master.NewPeek(key), &peek{client: c, key: key})
}

// sendPeek sends a query, whose answers p collects.
func (c *Client) sendPeek(query *master.Claim, p *peek) {
	p.missing, p.masters = len(c.masters), make(map[string]int)
	for i, m := range c.masters {
		if err := m.Ask(master.Query, query, p); err != nil {
			p.Answered(i, master.Answer{Err: err})
		}
	}
}

// A peek collects the answers to one question for an owner, or for the readers if readers hold the lock.
type peek struct {
	client  *Client // immutable
	key     string  // immutable
	readers bool    // immutable; it asks for the readers

	mu      sync.Mutex     // guards what follows
	missing int            // masters that have not answered
	masters map[string]int // how many have each token, or client that reads
	done    bool           // the owner is known
}

// Answered implements master.Asker.
func (p *peek) Answered(_ int, a master.Answer) {
	p.mu.Lock()
	p.missing--
	if a.Done() {
		p.countLocked(a.Replies)
	}
	who, more, known := p.resultLocked()
	p.mu.Unlock()
	switch c := p.client; {
	case more:
		c.sendPeek(master.NewReaders(p.key), &peek{client: c, key: p.key, readers: true})
	case known:
		c.owners.heard(p.key, who)
	}
}

// countLocked counts what a master has answered.
func (p *peek) countLocked(replies []any) {
	if p.readers {
		for _, id := range master.DecodeReaders(replies) {
			p.masters[id]++
		}
	} else if len(replies) == 1 {
		if token, err := master.DecodePeek(replies[0]); err == nil && token != "" {
			p.masters[token]++
		}
	}
}

// resultLocked returns who holds the lock, once that is known. more says that it is to be asked which readers do.
func (p *peek) resultLocked() (who holder, more, known bool) {
	if p.done || p.readers && p.missing > 0 {
		return holder{}, false, false
	}
	p.done = p.missing == 0
	for id, n := range p.masters {
		switch {
		case n < quorum.Majority(len(p.client.masters)):
		case p.readers:
			who.readers = append(who.readers, master.OwnerOf(id))
		default:
			p.done = true
			return holder{owner: master.OwnerOf(id)}, id == master.ReadersMarker, true
		}
	}
	slices.Sort(who.readers)
	return who, false, p.done // nobody: free, or contended for
}
