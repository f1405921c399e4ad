// Package flight has rules of SingleFlight: which goroutines of one process share a value, those that have joined one call for it in time; and of
// which masters the holder is sure that sends one to other processes. It knows no lock, and sends nothing.
package flight

import (
	"bytes"
	"sync"
)

// Flights are the calls for a value that wait for a lock, by key. There is at most one for each key: further calls of the
// process join it. The zero Flights are empty.
type Flights struct {
	mu      sync.Mutex // guards what follows, and the Flights' fields that say so
	waiting map[string]*Flight
}

// A Flight is one call for a value, and those that have joined it before the function that makes the value begins.
//
// If the flight ends with its own value, all of them get it. If it ends with the value of another client, they get it only if
// they joined before the claim was registered: see waits.Waits.Value. The others make calls of their own.
type Flight struct {
	all    *Flights      // immutable
	key    string        // immutable
	landed chan struct{} // closed by Land

	joined int // how many have joined; guarded by all.mu
	sealed int // how many had when the last claim was registered; guarded by all.mu

	// Of the goroutine that leads, until landed is closed; then immutable:
	served   int  // how many get the value
	received bool // value is that of another client
	value    []byte
}

// Join returns the flight of a key that waits for the lock, and the place of the caller among those who have joined it, from 1 on.
// If there is none, Join returns a new one, which the caller leads: its place is 0. Who leads calls Land at the end.
func (s *Flights) Join(key string) (f *Flight, place int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if f = s.waiting[key]; f != nil {
		f.joined++
		return f, f.joined
	}
	if s.waiting == nil {
		s.waiting = make(map[string]*Flight)
	}
	f = &Flight{all: s, key: key, landed: make(chan struct{})}
	s.waiting[key] = f
	return f, 0
}

// Seal says that a claim is about to be registered.
func (f *Flight) Seal() {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.sealed = f.joined
}

// Receive says that another client's value has come.
func (f *Flight) Receive(value []byte) {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	f.value, f.received, f.served = value, true, f.sealed
}

// Received returns a copy of another client's value, and reports whether it has come.
func (f *Flight) Received() (value []byte, received bool) { return bytes.Clone(f.value), f.received }

// Depart says that the own function begins: nobody joins the flight any more.
func (f *Flight) Depart() {
	f.all.mu.Lock()
	defer f.all.mu.Unlock()
	if f.all.waiting[f.key] == f {
		delete(f.all.waiting, f.key)
	}
}

// Serve gives the value of the own function to all who have joined, after Depart. It must not be changed any more.
func (f *Flight) Serve(value []byte) { f.value, f.served = value, f.joined }

// Land ends the flight.
func (f *Flight) Land() {
	f.Depart()
	close(f.landed)
}

// Landed returns a channel that is closed when the flight has ended.
func (f *Flight) Landed() <-chan struct{} { return f.landed }

// Value returns a copy of the value for the goroutine that has joined at a place, and reports whether there is one. The flight must
// have landed.
func (f *Flight) Value(place int) (value []byte, served bool) {
	if place > f.served {
		return nil, false
	}
	return bytes.Clone(f.value), true
}
