package redlock

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/notices"
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
	asked time.Time // when the masters were asked last
	held  Holding   // the last answer
	heard time.Time // when that came
}

// beginAsking reports whether the owner of the lock is to be asked for now, and notes that it is.
func (o *owners) beginAsking(key string) bool {
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
func (o *owners) heard(key string, h Holding) {
	o.mu.Lock()
	defer o.mu.Unlock()
	note, _ := o.known.get(key)
	note.held, note.heard = h, time.Now()
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
	if !note.held.Held || time.Since(note.heard) > ownerFor {
		return err
	}
	named := *q // others may read q
	named.Owner, named.Readers = note.held.Owner, note.held.Readers
	return &named
}

// whyTaken returns why the Locker cannot be locked now, for the Logger.
func (l *Locker) whyTaken() notices.Cause {
	err := l.taken(l.client.gates.Last(l.key))
	return causeOf(l.client.owners.named(l.heldKey(err), err))
}

// askOwner asks who holds the lock, if the wait is long enough for that. It waits for nothing.
func (w *wait) askOwner() {
	c := w.locker.client
	if !errors.Is(w.last, ErrHeld) || c.clock().Since(w.began) < ownerAfter {
		return
	}
	key := w.locker.heldKey(w.last)
	if !c.owners.beginAsking(key) || !c.beginCall() {
		return
	}
	go func() {
		defer c.endCall()
		votes := c.query(context.Background(), master.NewPeek(key))
		var h Holding
		h.take(holding.Of(looks(votes, master.DecodePeek), len(votes)))
		c.owners.heard(key, h)
	}()
}
