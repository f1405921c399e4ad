package master

import (
	"sync/atomic"

	"github.com/redlock-go/redlock/internal/wire"
)

// A SentClaim is a claim and what the masters were sent of it.
type SentClaim struct {
	wire.Claim
	released atomic.Bool            // a release was asked for: no command that sets the key is sent any more
	at       [MaxMasters]tokenState // by master; each is guarded by the mutex of its Master
}

// MaxMasters is how many masters a SentClaim can have.
const MaxMasters = wire.MastersMost

// NewSentClaim returns a claim of which nothing was sent: see wire.NewClaim.
func NewSentClaim(terms *wire.Terms, of wire.ClaimOf) *SentClaim {
	return &SentClaim{Claim: wire.NewClaim(terms, of)}
}

// A tokenState says whether a master's key may hold a claim's token. The commands that set the key are
// the acquisition and, later, heals.
type tokenState uint8

const (
	absent   tokenState = iota // no command that sets the key was let in
	queued                     // one was let in
	written                    // one was written to the connection
	refused                    // the last one was refused, or answered by an error: the token is not there
	possible                   // one was carried out, or its answer was lost: the token may be there
)

// admit notes that a command that sets the key was let in.
func (s *tokenState) admit() {
	if *s == absent {
		*s = queued
	}
}

// Released reports whether a release of the claim was asked for.
func (c *SentClaim) Released() bool { return c.released.Load() }

// write notes that a command that sets the key was written to the connection.
func (s *tokenState) write() {
	if *s != possible {
		*s = written
	}
}

// answer notes the answer to a command that sets the key. A refusal proves only that this command did
// not set the key, which an earlier one may have done.
//
// A claim that is registered may be in the queue, and be granted the lock later, until it is released. An
// error counts as a refusal, even for a registered claim: otherwise a server that answers all commands for the key with
// errors would be owed a release for each claim.
func (s *tokenState) answer(a wire.Answer, registered bool) {
	if a.Done() || registered && a.Err == nil {
		*s = possible
	} else if *s == written {
		*s = refused
	}
}

// lose notes that the answer to a command that sets the key was lost with the connection.
func (s *tokenState) lose() { *s = possible }

// mayHold reports whether the master may hold the token, now or when it carries out what was written.
// Only then must a release reach the master: a master whose user may not set the key may never accept
// a release of it.
func (s tokenState) mayHold() bool { return s == written || s == possible }
