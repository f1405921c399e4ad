package master

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// Servers is what a Client's masters know in common: which of them votes for which server, how their
// clocks compare, and the largest MaxTTL. It is safe for concurrent use.
//
// A server has one vote, even if several addresses lead to it. The first of them to connect votes,
// until its connection ends. A server is identified by the run_id of its process.
type Servers struct {
	names   []string  // immutable; the masters' names
	began   time.Time // immutable; when NewServers was called
	clocks  clocks
	maxTTL  atomic.Int64 // the largest MaxTTL of any client, as far as it is known
	revoked atomic.Int64 // how often votes were revoked: see Revoked

	declaring sync.Mutex // guards masters, and changes of maxTTL and revoked
	masters   []*Master

	mu    sync.Mutex     // guards voter
	voter map[string]int // the index of the master that votes, by run_id
}

// NewServers returns a Servers for masters of these names.
func NewServers(names []string) *Servers {
	return &Servers{names: names, began: time.Now(), voter: make(map[string]int), clocks: clocks{all: make([]clockSeen, len(names))}}
}

// add adds a master, and notes the MaxTTL of its Client.
func (s *Servers) add(m *Master) {
	s.declaring.Lock()
	s.masters = append(s.masters, m)
	s.declaring.Unlock()
	s.declare(m.cfg.MaxTTL)
}

// declare notes the MaxTTL of a client of these masters. If it is the largest, it prolongs quarantines, also those that have ended and
// may still have to be prolonged: see guard.since. When declare returns, no master votes that is in quarantine by this MaxTTL.
func (s *Servers) declare(maxTTL time.Duration) {
	s.declaring.Lock()
	var prolonged []*Master
	if maxTTL > s.MaxTTL() {
		s.maxTTL.Store(int64(maxTTL))
		prolonged = s.masters
	}
	for _, m := range prolonged {
		if m.prolongQuarantine() {
			s.revoked.Add(1)
		}
	}
	s.declaring.Unlock()
	for _, m := range prolonged {
		m.report()
	}
}

// Revoked returns how often a larger MaxTTL became known after a master had voted that was still to be in quarantine by it. Votes for an
// acquisition during which the number changes must not be used.
func (s *Servers) Revoked() int64 { return s.revoked.Load() }

// MaxTTL returns the largest MaxTTL that any client of these masters is known to have.
func (s *Servers) MaxTTL() time.Duration { return time.Duration(s.maxTTL.Load()) }

// takeVote makes a master the one that votes for a server. If another master votes for it, takeVote returns an error.
func (s *Servers) takeVote(index int, run string) error {
	if run == "" {
		return nil // the server does not tell its run_id
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if other, taken := s.voter[run]; taken && other != index {
		return &wire.Refusal{Reason: fmt.Sprintf("it is the same server as %s", s.names[other])}
	}
	s.voter[run] = index
	return nil
}

// giveUpVote undoes takeVote.
func (s *Servers) giveUpVote(index int, run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voter[run] == index {
		delete(s.voter, run)
	}
}
