package master

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// A refusal says why a server, which answers, must not vote.
type refusal struct{ reason string }

func (r *refusal) Error() string { return r.reason }

func isRefusal(err error) bool {
	var r *refusal
	return errors.As(err, &r)
}

// Judge returns why a server must not vote, by its own INFO; nil if it may, or
// if it does not tell. A replica may be behind its master, and lose what it was
// told; a cluster moves keys, and forbids scripts what ours do; and a lock that
// is evicted is a lock that two hold.
func Judge(info string) error {
	if err := judgeRole(info); err != nil {
		return err
	}
	if InfoField(info, "cluster_enabled") == "1" {
		return &refusal{"it is part of a cluster: a lock's masters must be independent of each other"}
	}
	policy := InfoField(info, "maxmemory_policy")
	if limit := InfoField(info, "maxmemory"); policy != "" && policy != "noeviction" && limit != "" && limit != "0" {
		return &refusal{fmt.Sprintf("its maxmemory-policy, %s, may evict locks: it must be noeviction", policy)}
	}
	return nil
}

// judgeRole is Judge, of INFO's section replication.
func judgeRole(info string) error {
	if role := InfoField(info, "role"); role != "" && role != "master" {
		return errReplica
	}
	return nil
}

var errReplica = &refusal{"it is a replica: a lock's masters must be independent of each other"}

// InfoField returns a field of INFO's reply, or "".
func InfoField(info, field string) string {
	for line := range strings.Lines(info) {
		if name, value, ok := strings.Cut(line, ":"); ok && name == field {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// isLegacy reports whether a server keeps scripts over restarts: Redis before 7.
func isLegacy(info string) bool {
	major, _, _ := strings.Cut(InfoField(info, "redis_version"), ".")
	n, err := strconv.Atoi(major)
	return err == nil && n < 7
}

// Servers knows which of a Client's masters leads to which server, by the run_id
// of its process: a server that is reached by two addresses has one vote. It also
// knows whose clocks have jumped: see weigh. It is safe for concurrent use.
type Servers struct {
	names []string // immutable; what the masters are called

	mu     sync.Mutex         // guards what follows
	voter  map[string]int     // the master that votes for a server
	better map[string]standIn // one earlier in the list that leads there, too

	// For weigh:
	masters []*Master    // all
	jumps   map[int]jump // of their clocks, by index, the last of each
}

// A standIn is to take a server over from a master later in the list.
type standIn struct {
	index int
	until time.Time // it is not waited for any longer
}

// takeOver is how long a server's vote is kept for the master that is to take it
// over, and dials once a second.
const takeOver = 3 * time.Second

// NewServers returns a Servers for masters of these names.
func NewServers(names []string) *Servers {
	return &Servers{names: names, voter: make(map[string]int), better: make(map[string]standIn), jumps: make(map[int]jump)}
}

// claim makes a master the voter for a server, or returns why it is not. Of two
// that lead to the same server the later in the list gives way; until it has, at
// its next heartbeat, the earlier does not vote either.
func (s *Servers) claim(index int, run string) error {
	if run == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.yieldLocked(index, run); err != nil {
		return err
	}
	if other, taken := s.voter[run]; taken && other != index {
		if index < other {
			s.better[run] = standIn{index, time.Now().Add(takeOver)}
		}
		return s.sameLocked(other)
	}
	s.voter[run] = index
	delete(s.better, run)
	return nil
}

// check returns why a master may not go on to vote for a server.
func (s *Servers) check(index int, run string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.yieldLocked(index, run)
}

func (s *Servers) yieldLocked(index int, run string) error {
	if b, ok := s.better[run]; ok && b.index < index && time.Now().Before(b.until) {
		return s.sameLocked(b.index)
	}
	return nil
}

func (s *Servers) sameLocked(other int) error {
	return &refusal{fmt.Sprintf("it is the same server as %s", s.names[other])}
}

// leave ends a master's voting for a server.
func (s *Servers) leave(index int, run string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.voter[run] == index {
		delete(s.voter, run)
	}
}
