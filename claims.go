package redlock

import (
	"cmp"
	"math/bits"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// A queuedClaim is a claim that waits in the queues of the masters, where releases of other clients may grant it
// the lock. It has one fresh token, from its registration to its lease or its release. A quorum of votes makes a
// lease. A vote comes with a master's answer to a registration or a poll, or with the message about a grant. It
// counts from a moment before the key was set, so the claim has the vote for no longer than the master keeps the
// key.
type queuedClaim struct {
	*master.Claim
	began clock.Reading // immutable; before its first command
	g     time.Duration // immutable; for how long it may be granted the lock

	lease atomic.Pointer[Lease] // once it was acquired: that of the present holder

	// Guarded by sleepers.mu:
	votes []claimVote // by master
	known uint64      // the masters, as bits, that are known to have had it in the queue, or the key for it
	gone  uint64      // the masters, as bits, whose votes have become void since the last count
	first time.Time   // when the first vote came

	unused uint64 // the masters, as bits, whose grants were over before they could count
}

// A claimVote is a vote for a claim.
type claimVote struct {
	mark  clock.Reading // a moment before the key was set, or before the master said for how long it lives
	life  time.Duration // how long the key lives from mark on, at least; 0: there is no vote
	fence int64
}

func (v *claimVote) end() time.Time { return v.mark.Time().Add(v.life) }

// setClaim sets the claim of a wait; nil: it has none. The votes for an earlier claim never count again.
func (s *sleepers) setClaim(sl *sleeper, claim *queuedClaim) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl.claim = claim
}

// waiting reports whether a claim of this Client waits.
func (s *sleepers) waiting() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, sl := range s.byKey {
		if sl.claim != nil {
			return true
		}
	}
	return false
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
	if began := sl.claim.began; began.Time().After(g.Mark.Time()) {
		g.Mark = began
	}
	v := claimVote{g.Mark, sl.claim.g, g.Fence}
	if !v.end().After(time.Now()) {
		sl.claim.unused |= 1 << i
	}
	sl.voteLocked(i, v)
	return true
}

// voteLocked takes a vote of master i. Of two votes of one master, the one that ends later counts. Of two fences, the
// higher one counts, since a master's fences rise.
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
	c.known |= 1 << i
	poke(sl.news)
}

// answered handles the answer of master i to a command of a claim: a Register, an Again or a Renew. The command was asked for
// at mark. If it was carried out, the key lives for life from mark on. listening says that the master can tell this
// Client of grants, so that a refused claim is in its queue. The answers of a master come in the order of the commands.
func (s *sleepers) answered(sl *sleeper, c *queuedClaim, kind master.Kind, i int, a master.Answer, mark clock.Reading, life time.Duration, listening bool) {
	bit := uint64(1) << i
	s.mu.Lock()
	late := kind == master.Again && c.known&bit != 0
	gone := late && a.New // the key was granted or set, and is gone or another's since
	if a.Done() || a.Outcome == master.Taken && (a.New || listening) {
		c.known |= bit
	}
	if sl.claim == c {
		if gone {
			c.votes[i] = claimVote{fence: c.votes[i].fence}
			c.gone |= bit
			c.unused |= bit
		}
		switch {
		case a.Done() && a.Holds > 0:
			sl.voteLocked(i, claimVote{mark, a.Holds, a.Fence})
		case a.Done():
			sl.voteLocked(i, claimVote{mark, life, a.Fence})
		}
		poke(sl.news)
		s.mu.Unlock()
		return
	}
	s.mu.Unlock()
	if !gone && !(late && a.Err != nil) {
		return
	}
	// A poll was executed after the claim had won, and found that the claim was not in the queue, and that the key was
	// not ours. So the key was gone, or another's, in the meantime: somebody else may have held the lock. The poll has set
	// the key again, or has put the claim into the queue, where it can be granted the key. If the answer was lost, all
	// this may be so.
	lease := c.lease.Load()
	for lease != nil {
		lease.doubt(i)
		next := c.lease.Load()
		if next == lease {
			return
		}
		lease = next // it was handed over
	}
}

// A claimQuorum is a quorum of votes for a claim.
type claimQuorum struct {
	votes []quorum.Vote // of all masters
	rests uint64        // the masters of the quorum, as bits
	left  time.Duration // how long the votes of the quorum last
}

// count counts the votes for a claim. It returns the masters, as bits, whose votes last, when the first vote came,
// and the quorum if there is one. Votes with a fence above most cannot be part of the quorum; 0: any can. setLease
// finds votes that become void from here on.
func (s *sleepers) count(c *queuedClaim, now clock.Reading, drift func(time.Duration) time.Duration, most int64) (mine uint64, first time.Time, won *claimQuorum) {
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
	won = &claimQuorum{votes: votes, left: lefts[s.need-1].d}
	for _, l := range lefts[:s.need] {
		won.rests |= 1 << l.i
	}
	return mine, c.first, won
}

// unusedAt returns how many masters have granted the lock to a claim in vain.
func (s *sleepers) unusedAt(c *queuedClaim) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return bits.OnesCount64(c.unused)
}

// setLease makes lease that of the claim, which can no longer be granted the lock. It does nothing and reports
// false if a vote of the quorum has become void since it was counted.
func (s *sleepers) setLease(sl *sleeper, c *queuedClaim, won *claimQuorum, lease *Lease) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone&won.rests != 0 {
		return false
	}
	c.lease.Store(lease)
	sl.claim = nil
	return true
}
