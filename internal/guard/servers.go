package guard

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/wire"
)

// Servers is what a Client's masters know in common: which of them votes for which server, how their
// clocks compare, and the largest MaxTTL. It is safe for concurrent use.
//
// A server has one vote, even if several addresses lead to it. The first of them to connect votes,
// until its connection ends. A server is identified by the run_id of its process.
type Servers struct {
	Client Settings // immutable

	clocks  clocks
	maxTTL  atomic.Int64 // the largest MaxTTL of any client, as far as it is known
	revoked atomic.Int64 // how often votes were revoked: see Revoked

	declaring sync.Mutex // guards guards, and changes of maxTTL and revoked
	guards    []*Guard

	mu    sync.Mutex     // guards voter
	voter map[string]int // the index of the master that votes, by run_id
}

// Settings are those of a Client.
type Settings struct {
	Names  []string      // of its masters
	Off    bool          // the guard is off: every vote counts
	MaxTTL time.Duration // its own
	Clock  clock.Clock   // nil: clock.System
}

// A Voter is a master that has a Guard.
type Voter interface {
	// Prolong asks Quarantine again: a larger MaxTTL is known. When it returns, no vote counts that does not by this MaxTTL.
	Prolong()
	// Report tells the Client what Prolong has changed. It is called without a mutex.
	Report()
}

// NewServers returns the Servers of a Client.
func NewServers(client Settings) *Servers {
	if client.Clock == nil {
		client.Clock = clock.System
	}
	s := &Servers{Client: client, voter: make(map[string]int), clocks: clocks{all: make([]clockSeen, len(client.Names))}}
	s.maxTTL.Store(int64(client.MaxTTL))
	return s
}

// Guard returns a Guard for the master at index.
func (s *Servers) Guard(index int, voter Voter) *Guard {
	s.declaring.Lock()
	defer s.declaring.Unlock()
	g := &Guard{servers: s, index: index, voter: voter}
	s.guards = append(s.guards, g)
	return g
}

// declare notes the MaxTTL of a client of these masters. If it is the largest, it prolongs quarantines, also those that have ended and
// may still have to be prolonged: see Guard.since. When declare returns, no master votes that is in quarantine by this MaxTTL.
func (s *Servers) declare(maxTTL time.Duration) {
	s.declaring.Lock()
	var prolonged []*Guard
	if maxTTL > s.MaxTTL() {
		s.maxTTL.Store(int64(maxTTL))
		prolonged = s.guards
	}
	for _, g := range prolonged {
		if g.prolong() {
			s.revoked.Add(1)
		}
	}
	s.declaring.Unlock()
	for _, g := range prolonged {
		g.voter.Report()
	}
}

// Revoked returns how often a larger MaxTTL became known after a master had voted that was still to be in quarantine by it. Votes for an
// acquisition during which the number changes must not be used.
func (s *Servers) Revoked() int64 { return s.revoked.Load() }

// MaxTTL returns the largest MaxTTL that any client of these masters is known to have.
func (s *Servers) MaxTTL() time.Duration { return time.Duration(s.maxTTL.Load()) }

// TakeVote makes a master the one that votes for a server. If another master votes for it, TakeVote returns an error.
func (s *Servers) TakeVote(index int, run string) error {
	if run == "" {
		return nil // the server does not tell its run_id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, taken := s.voter[run]; taken && other != index {
		return &wire.Refusal{Reason: fmt.Sprintf("it is the same server as %s", s.Client.Names[other])}
	}
	s.voter[run] = index
	return nil
}

// GiveUpVote undoes TakeVote.
func (s *Servers) GiveUpVote(index int, run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voter[run] == index {
		delete(s.voter, run)
	}
}
