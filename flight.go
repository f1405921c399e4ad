package redlock

import (
	"bytes"
	"context"
	"fmt"
	"sync"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// SingleFlight calls f while it holds the lock of name, as Do does, and gives the value to others that wait in SingleFlight for
// that name, in this process and in others: they return it, and do not call their own f. So a token is refreshed once, or a cache
// is filled once, although many want that. shared reports whether the value is that of another caller's f.
//
//   - No caller gets the value of an f that began before its own call. So a caller that comes while f runs waits for the next one:
//     of many that come at once, two call f, as a rule.
//   - A value is sent to those who wait, and is not stored. Whoever misses the message gets the lock in its turn, and calls its own f.
//   - Errors and panics of f are not shared: the next caller calls its own f.
//   - The context of f ends with ctx or with the lease, as that of Do. The end of one caller's ctx ends the wait, or the f, of that
//     caller only.
//   - A value of more than 4 KiB is shared with nobody. SingleFlight returns it with an error that matches ErrTooLarge.
//   - If the lease was lost while f ran, nothing is shared, and the error matches ErrLost, as that of Do. If f returned a value, it
//     is returned, too.
//   - Other errors are those of LockContext.
//
// The lock is that of Locker(name), with Options.LockOptions, but is not kept. Only clients that can be granted the lock by a
// release take values of other processes. So SingleFlight shares nothing between processes if renewal or wake-ups are off, or the TTL
// is below 400 ms. Values pass through the masters unencrypted, but for TLS: whoever may subscribe to the clients' channels can read
// them.
func (c *Client) SingleFlight(ctx context.Context, name string, f func(ctx context.Context) ([]byte, error)) (value []byte, shared bool, err error) {
	opts := c.opts.LockOptions
	opts.Keep = 0
	l, err := c.NewLocker(name, &opts)
	if err != nil {
		return nil, false, err
	}
	for {
		fl, place := c.flights.join(l.key)
		if place == 0 {
			return l.fly(ctx, fl, f)
		}
		select {
		case <-fl.landed:
		case <-ctx.Done():
			return nil, false, (&wait{locker: l, ctx: ctx, last: l.taken(c.gates.Last(l.key))}).outcome()
		}
		if place <= fl.served {
			return bytes.Clone(fl.value), true, nil
		}
	}
}

// flights are the calls of SingleFlight that wait for a lock, by key. There is at most one for each name: further calls of this
// Client join it.
type flights struct {
	mu      sync.Mutex // guards what follows, and the flights
	waiting map[string]*flight
}

// A flight is one call of SingleFlight, and those that have joined it before its f begins.
//
// If the flight ends with its own f, all of them get the value. If it ends with the value of another client, they get it only if
// they joined before the claim was registered: see waits.Wait.Value. The others make calls of their own.
type flight struct {
	all    *flights
	landed chan struct{} // closed at the end

	joined int    // how many have joined
	sealed int    // how many had when the last claim was registered
	served int    // how many get the value; fixed when landed is closed
	value  []byte // fixed when landed is closed

	// Of the goroutine that leads:
	taken    bool  // value is that of another client
	contacts []int // by master: see master.Contact; from before the first command of the last attempt or claim
}

// join returns the flight of a key that waits for the lock, and the place of the caller among those who have joined it, from 1 on.
// If there is none, join returns a new one, which the caller leads: its place is 0.
func (s *flights) join(key string) (fl *flight, place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if fl = s.waiting[key]; fl != nil {
		fl.joined++
		return fl, fl.joined
	}
	if s.waiting == nil {
		s.waiting = make(map[string]*flight)
	}
	fl = &flight{all: s, landed: make(chan struct{})}
	s.waiting[key] = fl
	return fl, 0
}

// depart says that f begins, or that the flight ends: nobody joins it any more.
func (s *flights) depart(key string, fl *flight) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[key] == fl {
		delete(s.waiting, key)
	}
}

// seal notes that a claim is about to be registered.
func (fl *flight) seal() {
	fl.all.mu.Lock()
	defer fl.all.mu.Unlock()
	fl.sealed = fl.joined
}

// fly is SingleFlight for the goroutine that leads a flight.
func (l *Locker) fly(ctx context.Context, fl *flight, f func(ctx context.Context) ([]byte, error)) (value []byte, shared bool, err error) {
	flights := &l.client.flights
	defer func() {
		flights.depart(l.key, fl)
		close(fl.landed)
	}()
	s, err := l.enter(&wait{locker: l, ctx: ctx, flight: fl})
	if fl.taken {
		fl.served = fl.sealed
		return bytes.Clone(fl.value), true, nil
	}
	if err != nil {
		return nil, false, err
	}
	flights.depart(l.key, fl)
	err = l.call(ctx, s, func(ctx context.Context) (err error) {
		if value, err = f(ctx); err != nil {
			return err
		}
		if len(value) > wire.ValueMost {
			return fmt.Errorf("%w: that of %s has %d bytes, %d is the limit", ErrTooLarge, quote(l.name), len(value), wire.ValueMost)
		}
		fl.value = bytes.Clone(value) // f's caller may change it while it is being sent
		s.tenure.share(fl.value)
		return nil
	})
	if err == nil {
		fl.served = fl.joined
	}
	return value, false, err
}

// A publishing says by which masters the holder of a tenure may send a value to those who wait: those where its token was set before
// the holder had the lock, and was not set again. Each rule has its reason in docs/flight.md.
type publishing struct {
	voted    uint64        // the masters, as bits, that had voted when the holder got the lock, and were sent no heal since
	settled  func() uint64 // those that set the token no more, see waits.Wait.Settled; nil: all
	contacts []int         // by master: the contact that must have lasted until the value is sent
}

// publishing returns how the tenure of a wait that has won may send a value; nil: it need not.
func (w *wait) publishing(votes []quorum.Vote, settled func() uint64) *publishing {
	if w.flight == nil {
		return nil
	}
	p := &publishing{settled: settled, contacts: w.flight.contacts}
	for i, v := range votes {
		if v.Granted() {
			p.voted |= 1 << i
		}
	}
	return p
}

// noteContacts notes the contacts before the first command of an attempt, or of a claim.
func (w *wait) noteContacts() {
	if w.flight == nil {
		return
	}
	w.flight.contacts = make([]int, len(w.locker.client.masters))
	for i, m := range w.locker.client.masters {
		w.flight.contacts[i] = m.Contact()
	}
}

// share sends a value to those who wait for the lock, ahead of the release.
func (t *tenure) share(value []byte) {
	p := t.publish
	if p == nil {
		return
	}
	sure := ^uint64(0)
	if p.settled != nil {
		sure = p.settled()
	}
	now := t.client.clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.err != nil || now.Since(t.start) >= t.validity {
		return
	}
	request := t.claim.Publishing(value)
	for i, m := range t.client.masters {
		if (sure&p.voted)>>i&1 == 1 {
			m.Publish(p.contacts[i], request, t.claim)
		}
	}
}
