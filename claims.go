package redlock

import (
	"cmp"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A claimed is a claim that waits in the queues, and that releases of other clients may grant: one fresh token, from
// its registration to its lease or its release. A majority of votes is a lease. A vote comes with a master's answer
// to a registration or a poll, or with the message about a grant. A vote counts for a time from a moment before the
// key was set, so the claim has the vote for no longer than the master keeps the key.
type claimed struct {
	*master.Claim
	began      clock.Reading         // immutable; before its first command
	grant      time.Duration         // immutable; for how long it may be granted
	lease      atomic.Pointer[Lease] // once it was acquired
	rests      uint64                // the masters, as bits, whose votes the lease rests on; set before lease
	votes      []claimVote           // by master; guarded by sleepers.mu
	registered uint64                // the masters, as bits, that have answered that it is in the queue; the same
	gone       uint64                // the masters, as bits, whose votes have become void since the last count; the same
	first      time.Time             // when the first vote came; the same
}

// A claimVote is a vote for a claim.
type claimVote struct {
	mark  clock.Reading // the key was set, or lived for life, after this moment
	life  time.Duration // 0: there is no vote
	fence int64
}

func (v *claimVote) end() time.Time { return v.mark.Time().Add(v.life) }

// claimLocked makes a claim the one that may be granted; nil: none.
func (s *sleepers) claimLocked(sl *sleeper, claim *claimed) {
	if sl.claim != nil {
		s.queue--
	}
	if claim != nil {
		s.queue++
	}
	sl.claim = claim
}

// claim makes a claim the one that may be granted; nil: none. The votes for an earlier one never count again.
func (s *sleepers) claim(sl *sleeper, claim *claimed) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.claimLocked(sl, claim)
}

// waiting reports whether a claim may be granted.
func (s *sleepers) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.queue > 0
}

// granted handles a grant by master i. It reports false if this Client has not queued for the key.
func (s *sleepers) granted(i int, g master.Grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.byKey[g.Key]
	if sl == nil || sl.claim == nil || sl.claim.Token() != g.Token {
		_, left := s.left.get(g.Key)
		return left || sl != nil // of a claim that was given up
	}
	if !g.Sure {
		sl.wakeLocked() // a poll finds out
		return true
	}
	sl.voteLocked(i, claimVote{master.Later(sl.claim.began, g.Mark), sl.claim.grant, g.Fence})
	return true
}

// voteLocked counts a vote. Of two votes of a master the one that ends later counts. A master's fences rise.
func (sl *sleeper) voteLocked(i int, v claimVote) {
	c := sl.claim
	old := &c.votes[i]
	v.fence = max(v.fence, old.fence)
	if old.life > 0 && old.end().After(v.end()) {
		v.mark, v.life = old.mark, old.life
	}
	if c.first.IsZero() {
		c.first = time.Now()
	}
	*old = v
	poke(sl.news)
}

// answered handles the answer of master i to a round of a claim: to a Register or an Again that was asked for at
// mark, and that sets the key for life. before are the masters that had it in their queues then. listening says that the
// master can tell the client of grants, so that a refused claim is in its queue.
func (s *sleepers) answered(sl *sleeper, c *claimed, i int, a master.Answer, mark clock.Reading, life time.Duration, before uint64, listening bool) {
	bit := uint64(1) << i
	s.mu.Lock()
	if sl.claim == c {
		if a.New && before&bit != 0 { // the key is gone on which an earlier vote rests
			c.votes[i] = claimVote{fence: c.votes[i].fence}
			c.gone |= bit
		}
		switch {
		case a.Done() && a.Holds > 0:
			sl.voteLocked(i, claimVote{mark, a.Holds, a.Fence})
		case a.Done():
			sl.voteLocked(i, claimVote{mark, life, a.Fence})
		case a.Outcome == master.Taken && (a.New || listening):
			c.registered |= bit
		}
		poke(sl.news)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	// A poll that was executed after the claim was granted found the key gone, or another's, although the claim had
	// been in the queue and so the key had been set since: somebody else may have held the lock.
	if lease := c.lease.Load(); lease != nil && a.New && c.rests&before&bit != 0 {
		lease.lose(&lostError{name: lease.name, reason: errGone})
	}
}

// A majority is a quorum of votes for a claim.
type majority struct {
	votes []quorum.Vote // of all masters
	rests uint64        // the masters of the quorum, as bits
	left  time.Duration // how long the votes of the quorum last
}

// count returns how many votes a claim has, when the first came, and the quorum if there is one. most is the highest
// fence that can be used; 0: any.
func (s *sleepers) count(c *claimed, now clock.Reading, drift func(time.Duration) time.Duration, most int64) (mine uint64, first time.Time, m *majority) {
	s.mu.Lock()
	defer s.mu.Unlock()
	type left struct {
		i int
		d time.Duration
	}
	var lefts []left
	c.gone = 0
	votes := make([]quorum.Vote, len(c.votes))
	for i, v := range c.votes {
		d := v.life - drift(v.life) - now.Since(v.mark)
		if v.life == 0 || d <= 0 {
			continue
		}
		mine |= 1 << i
		if most > 0 && v.fence > most {
			continue
		}
		lefts = append(lefts, left{i, d})
		votes[i] = quorum.Vote{In: true, Answer: master.Answer{Outcome: master.Granted, Fence: v.fence}}
	}
	if mine == 0 {
		c.first = time.Time{} // its grants have expired
	}
	if len(lefts) < s.need {
		return mine, c.first, nil
	}
	slices.SortFunc(lefts, func(a, b left) int { return cmp.Compare(b.d, a.d) })
	m = &majority{votes: votes, left: lefts[s.need-1].d}
	for _, l := range lefts[:s.need] {
		m.rests |= 1 << l.i
	}
	return mine, c.first, m
}

// won makes the lease that of the claim, which can no longer be granted. It reports false if one of the votes of the
// quorum has become void since it was counted.
func (s *sleepers) won(sl *sleeper, c *claimed, m *majority, lease *Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone&m.rests != 0 {
		return false
	}
	c.rests = m.rests
	c.lease.Store(lease)
	s.claimLocked(sl, nil)
	return true
}

// asked returns the masters, as bits, that are known to have had the claim in their queues.
func (s *sleepers) asked(c *claimed) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return c.registered
}
