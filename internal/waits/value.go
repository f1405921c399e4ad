package waits

import (
	"bytes"

	"github.com/redlock-go/redlock/internal/wire"
)

// A wait may end without the lock: with the value of a function that another client has called while it had the lock, if the function has begun
// after the call that waits. How both sides know that without a clock is told at flight.Publishing.

// values are what masters have said to a wait that may end with a value. Those of any other wait are nil.
type values struct {
	at  []sender // by master
	won *[]byte  // the value that a quorum of masters has sent; nil: there is none. It stays
}

// A sender is what a master has said of the claim that waits now.
type sender struct {
	registered bool        // it has answered the registration
	stood      string      // what its key held when it executed the registration, as in wire.Value.Holder
	said       *wire.Value // the last value that it has sent; nil: none
}

// WantsValue says that the wait may end with a value. It is called before the first SetClaim.
func (in *Inbox) WantsValue() {
	in.waits.mu.Lock()
	defer in.waits.mu.Unlock()
	in.values = &values{at: make([]sender, in.waits.masters)}
}

// forget forgets what was said of an earlier claim.
func (v *values) forget() {
	if v != nil {
		clear(v.at)
	}
}

// registered takes the answer of master i to the registration of the claim.
func (v *values) registered(i int, a wire.Answer) {
	if v != nil && a.Err == nil {
		v.at[i].registered = true
		v.at[i].stood = a.Standing[:min(len(a.Standing), wire.HolderMost)]
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
func (s *Waits) Value(i int, said wire.Value) (expected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, expected := s.claimLocked(said.Key, said.Token, false)
	if c == nil || c.inbox.values == nil {
		return expected
	}
	v := c.inbox.values
	at := &v.at[i]
	said.Sure = said.Sure && at.registered && at.stood != said.Holder
	at.said = &said
	same, sure := 0, false
	for _, other := range v.at {
		if o := other.said; o != nil && o.Holder == said.Holder && bytes.Equal(o.Value, said.Value) {
			same++
			sure = sure || o.Sure
		}
	}
	if same >= s.Need && sure && v.won == nil {
		v.won = &said.Value
		poke(c.inbox.News)
	}
	return true
}

// ReceivedValue returns the value with which the wait ends, and reports whether there is one.
func (in *Inbox) ReceivedValue() (value []byte, ok bool) {
	in.waits.mu.Lock()
	defer in.waits.mu.Unlock()
	if in.values == nil || in.values.won == nil {
		return nil, false
	}
	return *in.values.won, true
}
