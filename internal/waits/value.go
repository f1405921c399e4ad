package waits

import (
	"bytes"

	"github.com/redlock-go/redlock/internal/wire"
)

// A wait may end without the lock: with the value of a function that another client has called while it had the lock, if the function has begun
// after the call that waits. How both sides know that without a clock is told at flight.Publishing.

// WantsValue says that the wait may end with a value. It is called before the first SetClaim.
func (in *Inbox) WantsValue() {
	in.waits.mu.Lock()
	defer in.waits.mu.Unlock()
	in.stood, in.said = make([]string, in.waits.masters), make([]*wire.Value, in.waits.masters)
}

// registeredLocked notes what a master's key held when it executed the registration of the wait's claim.
func (in *Inbox) registeredLocked(i int, a wire.Answer) {
	if in.stood != nil && a.Err == nil {
		in.registered |= 1 << i
		in.stood[i] = a.Standing[:min(len(a.Standing), wire.HolderMost)]
	}
}

// Value handles a message of master i with a value. It reports false if this Client has not queued for the key.
//
// A value counts by these rules. internal/model/flight strikes out each, and finds a value of a function that began before the call; its switches
// are in brackets.
//
//   - The registration of the claim was answered [takesUnasked].
//   - The key did not hold the token of the holder then [takesSeen].
//   - The answer to a poll does not say so: the value may have been sent between the registration and the poll [believesPolls].
//   - The message names the claim that waits now [takesAnyClaim].
func (s *Waits) Value(i int, v wire.Value) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byKey[v.Key]
	if in == nil || in.claim == nil || in.claim.Token() != v.Token {
		return s.ended.Has(v.Key) || in != nil // to a claim that was given up
	}
	if in.said == nil {
		return true
	}
	v.Sure = v.Sure && in.registered>>i&1 == 1 && in.stood[i] != v.Holder
	in.said[i] = &v
	same, later := 0, false
	for _, other := range in.said {
		if other != nil && other.Holder == v.Holder && bytes.Equal(other.Value, v.Value) {
			same++
			later = later || other.Sure
		}
	}
	if same >= s.Need && later && in.value == nil {
		in.value = &v.Value
		poke(in.News)
	}
	return true
}

// ReceivedValue returns the value with which the wait ends, and reports whether there is one.
func (in *Inbox) ReceivedValue() (value []byte, ok bool) {
	in.waits.mu.Lock()
	defer in.waits.mu.Unlock()
	if in.value == nil {
		return nil, false
	}
	return *in.value, true
}
