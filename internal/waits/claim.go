package waits

import (
	"cmp"
	"math/bits"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Claim is what a wait has registered at the masters, and the votes for it. It waits in the queues of the masters, where releases of other clients
// may grant it the lock. It has one fresh token, from its registration to its lease or its release. A quorum of votes makes a
// lease. A vote comes with a master's answer to a registration or a poll, or with the message about a grant. It
// counts from a moment before the key was set, so the claim has the vote for no longer than the master keeps the
// key.
//
// It may be on slots of a semaphore: see slots.go. A lock is a semaphore with one slot.
type Claim struct {
	*master.SentClaim
	inbox *Inbox        // immutable; of the wait
	Began clock.Reading // immutable; before its first command
	G     time.Duration // immutable; for how long it may be granted the lock
	Near  int           // immutable; how many claims at the front of a queue are near
	slots int           // immutable; how many slots it needs; 0: it is for a lock

	// Guarded by Waits.mu:
	at        []atMaster // by master
	known     uint64     // the masters, as bits, that are known to have had it in the queue, or the key for it
	gone      uint64     // the masters, as bits, whose votes have become void since the last count
	firstVote time.Time  // when the first vote came

	missed   uint64 // the masters, as bits, where a registration or a poll was lost, or has found that the claim was not in the queue
	free     uint64 // the masters, as bits, where a poll of one master has found the key free
	answered bool   // a master has answered it
	returned bool   // a master has come up since its last poll
	passed   bool   // a master has passed over it, though it is near

	doubt  func(i int) // of its lease, once it was acquired: see Claim.Won
	aim    []int       // votes for other slots never count; nil: the claim has not aimed
	held   []int       // the slots of its lease, once it was acquired; nil: that of a lock
	queued uint64      // the masters, as bits, whose last answer was a refusal: it may be in their queues
	settle func(i int) // see Claim.Won
	unused uint64      // the masters, as bits, whose grants were over before this Client used them
}

// An atMaster is what is known of a claim at one master.
type atMaster struct {
	vote   vote
	place  place
	open   uint16 // how many registrations and polls were sent, and are not answered
	stands string // what the key held when it refused the claim last
	next   string // the token of the head of the queue when the lock was granted to the claim; "": it is not known
}

// A vote is a vote for a claim.
type vote struct {
	mark  clock.Reading // a moment before the key was set, or before the master said for how long it lives
	life  time.Duration // how long the key lives from mark on, at least; 0: there is no vote
	fence int64
	slots []int // that the key stands for; of a lock theLock
}

func (v *vote) ends() time.Time { return v.mark.Time().Add(v.life) }

// end says that there is no vote any more. The fence of a master rises, so it stays.
func (v *vote) end() { *v = vote{fence: v.fence} }

// lasts returns for how long a vote lasts; 0 or less: it does not.
func (s *Waits) lasts(v *vote, now clock.Reading) time.Duration {
	if v.life == 0 {
		return 0
	}
	return v.life - s.drift(v.life) - now.Since(v.mark)
}

// NewClaim returns a claim of the wait on a lock, or on n slots of a semaphore with a limit. It counts from SetClaim on.
func (in *Inbox) NewClaim(sent *master.SentClaim, began clock.Reading, g time.Duration, n, limit int) *Claim {
	near := wire.Near
	switch {
	case n > 0:
		near = wire.NearOf(limit)
	case sent.Reads():
		near = wire.ReadersNear
	}
	return &Claim{SentClaim: sent, inbox: in, Began: began, G: g, Near: near, slots: n, at: make([]atMaster, in.waits.masters)}
}

// SetClaim sets the claim of a wait; nil: it has none. The votes for an earlier claim never count again.
func (in *Inbox) SetClaim(c *Claim) {
	in.waits.mu.Lock()
	defer in.waits.mu.Unlock()
	in.setClaimLocked(c)
	in.registered = 0
	clear(in.said)
}

// ClaimFor returns the claim of the wait for a key; nil: there is none.
func (s *Waits) ClaimFor(key string) *Claim {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in := s.byKey[key]; in != nil {
		return in.claim
	}
	return nil
}

// Granted handles a grant by master i. It reports false if this Client has not queued for the key.
func (s *Waits) Granted(i int, g master.Grant) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byKey[g.Key]
	if g.Slots != "" {
		if in = s.bySlots[g.Token]; in == nil {
			return true // of a claim that has won, or was given up
		}
	}
	if in == nil || in.claim == nil || in.claim.Token() != g.Token {
		return s.ended.Has(g.Key) || in != nil // of a claim that was given up
	}
	if !g.Sure {
		in.lookAfterLocked(0) // a poll finds out
		return true
	}
	if began := in.claim.Began; began.Time().After(g.Mark.Time()) {
		g.Mark = began
	}
	in.claim.at[i].next = g.Next
	v := vote{g.Mark, in.claim.G, g.Fence, g.Slots.All()}
	if time.Since(g.Mark.Time()) > in.claim.G/2 {
		// The vote is over, or soon. The claim may have been far, or this Client may have been stopped. A poll asks for how
		// long the key lives, or finds that the grant was in vain.
		in.lookAfterLocked(0)
	}
	in.claim.voteLocked(i, v)
	poke(in.News)
	return true
}

// voteLocked takes a vote of master i. Of two votes of one master, the one that ends later counts. Of two fences, the
// higher one counts, since a master's fences rise.
func (c *Claim) voteLocked(i int, v vote) {
	if v.slots = c.aimed(v.slots); len(v.slots) == 0 {
		return
	}
	old := &c.at[i].vote
	v.fence = max(v.fence, old.fence)
	if old.life > 0 && old.ends().After(v.ends()) {
		v.mark, v.life, v.slots = old.mark, old.life, old.slots
	}
	if c.firstVote.IsZero() {
		c.firstVote = time.Now()
	}
	*old = v
	c.known |= 1 << i
}

// Answered handles the answer of master i to a command of a claim: a Register, an Again (a poll) or a Renew.
//
//   - mark is when the command was asked for. If the answer is that the key is ours, the key lives for life from mark on.
//   - listening says that the master can tell this Client of grants. Then a claim that was refused is in its queue.
//
// The answers of a master come in the order of the commands. When an answer was counted in its round, too, Counted follows.
// Answered reports whether the claim is near at this master.
func (c *Claim) Answered(kind wire.Kind, i int, a wire.Answer, mark clock.Reading, life time.Duration, listening bool) (near bool) {
	s, bit := c.inbox.waits, uint64(1)<<i
	s.mu.Lock()
	c.saidLocked(i, a, mark.Time(), listening)
	c.heardLocked(i, kind, a)
	c.answered = c.answered || a.Outcome == wire.Taken
	near = c.nearAt(i)
	late := kind == wire.Again && c.known&bit != 0
	gone := late && a.New // the key was granted or set, and is gone or another's since
	if a.Done() || a.Outcome == wire.Taken && (a.New || listening) {
		c.known |= bit
	}
	if c.queued &^= bit; a.Outcome == wire.Taken {
		c.queued |= bit
	}
	if in := c.inbox; in.claim == c {
		in.placedLocked()
		if kind == wire.Register {
			in.registeredLocked(i, a)
		}
		if gone {
			c.at[i].vote.end()
			c.gone |= bit
			c.unused |= bit
		}
		if a.Done() {
			c.voteLocked(i, vote{mark, cmp.Or(max(a.Holds, 0), life), a.Fence, a.Slots.All()})
		}
		s.mu.Unlock()
		return near
	}
	doubt, settle := c.doubt, c.settle
	if settle != nil && c.elsewhereLocked(a) {
		s.mu.Unlock()
		settle(i)
		return false
	}
	s.mu.Unlock()
	if doubt == nil || !gone && !(late && a.Err != nil) {
		return false
	}
	// The claim had won, and then this master executed a poll that was sent before. Example: master 3 has granted the key
	// for 1 s; the poll arrives there after 1.2 s. The key has expired, so the poll has set it again, or, if another
	// client has the key by now, has put the claim into the queue. Between 1 and 1.2 s somebody else may have had the key
	// of master 3. So its vote no longer supports the lease. If the answer to such a poll was lost, the same may have
	// happened.
	doubt(i)
	return false
}

// Counted tells the wait, after an answer to a command of its claim was counted in the round of that command.
func (c *Claim) Counted() { poke(c.inbox.News) }

// Successor says who is to have the lock after a claim.
type Successor struct {
	Token  string // the token of the head of the queue at the largest number of masters; on a tie, the first of these; "": nothing is known
	Differ bool   // the heads of the queues differ
}

// Successor returns who is to have the lock after a claim.
func (c *Claim) Successor() (b Successor) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	most := 0
	for i := range c.at {
		next, n := c.at[i].next, 0
		for j := range c.at {
			if c.at[j].next == next {
				n++
			}
		}
		if next == "" {
			continue
		}
		b.Differ = b.Differ || b.Token != "" && next != b.Token
		if n > most {
			b.Token, most = next, n
		}
	}
	return b
}

// Unused returns how many masters have granted the lock to a claim in vain.
func (c *Claim) Unused() int {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	return bits.OnesCount64(c.unused)
}

// Sent notes that a registration or a poll of the claim is about to be sent to all masters.
func (c *Claim) Sent() {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	for i := range c.at {
		c.at[i].open++
	}
}

// SentOne is Sent for a poll of one master.
func (c *Claim) SentOne(i int) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	c.at[i].open++
}

// heardLocked notes the answer of master i to a registration or a poll.
func (c *Claim) heardLocked(i int, kind wire.Kind, a wire.Answer) {
	if !kind.Acquires() {
		return
	}
	c.at[i].open--
	if a.Err != nil || kind == wire.Again && a.New {
		c.missed |= 1 << i
	}
}

// Settled returns the masters, as bits, that set the token of a claim no more, as far as registrations and polls go: all were
// answered, and none was lost or has found that the claim was not in the queue. It is asked when the claim has become a lease.
func (c *Claim) Settled() (masters uint64) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	for i := range c.at {
		if c.at[i].open == 0 && c.missed>>i&1 == 0 {
			masters |= 1 << i
		}
	}
	return masters
}
