package waits

import (
	"cmp"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
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
	slots int           // immutable; how many slots it needs; 0: it is for a lock

	// Guarded by Waits.mu:
	at        []atMaster // by master
	places    places     // in the queues
	firstVote time.Time  // when the first vote came
	aim       []int      // votes for other slots never count; nil: the claim has not aimed
	refused   bool       // a master has refused it
	free      uint64     // the masters, as bits, where a poll of one master has found the key free: see FoundFree
	returned  bool       // a master has come up: see Pace.Next
	passed    bool       // a master has passed over it, though it is near: see Pace.Next

	// Of a claim that has become a lease, see Won:
	held   []int       // the slots of the lease; nil: that of a lock
	doubt  func(i int) // nil: the claim has not become a lease
	settle func(i int) // nil: no answer is to be settled
}

// An atMaster is what is known of a claim at one master, besides its place in the queue there.
type atMaster struct {
	vote   vote
	void   bool // a vote has become void since the last count
	unused bool // a grant was over before this Client used it

	had    bool   // the master is known to have had the claim in the queue, or the key for it
	queued bool   // its last answer was a refusal: it may have the claim in the queue
	open   uint16 // how many registrations and polls were sent, and are not answered
	missed bool   // a registration or a poll was lost, or has found that the claim was not in the queue
	stands string // what the key held when the master refused the claim last
	next   string // the token of the head of the queue when the lock was granted to the claim; "": it is not known

	listed bool // the claim is in Waits.near: see Waits.nearLocked
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
	front := wire.Near
	switch {
	case n > 0:
		front = wire.NearOf(limit)
	case sent.Reads():
		front = wire.ReadersNear
	}
	masters := in.waits.masters
	return &Claim{
		SentClaim: sent, inbox: in, Began: began, G: g, slots: n,
		at: make([]atMaster, masters), places: places{at: make([]place, masters), front: front, need: in.waits.Need},
	}
}

// SetClaim sets the claim of a wait; nil: it has none. The votes for an earlier claim never count again.
func (in *Inbox) SetClaim(c *Claim) {
	in.waits.mu.Lock()
	defer in.waits.mu.Unlock()
	in.setClaimLocked(c)
	in.values.forget()
}

func (in *Inbox) setClaimLocked(c *Claim) {
	s := in.waits
	if old := in.claim; old != nil {
		for i := range s.near {
			s.nearLocked(i, old, false)
		}
		if old.slots > 0 {
			delete(s.bySlots, old.Token())
		}
	}
	if in.claim = c; c != nil && c.slots > 0 {
		s.bySlots[c.Token()], in.slots = in, true
		s.noteSlotsLocked(c.SentClaim)
	}
	in.placedLocked()
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

// claimLocked returns the claim that waits with a token, for which a message about a key has come; nil: there is none. Then the message is expected if
// the claim may have won, or may have been given up. A message about slots names the semaphore, for which there may be several claims.
func (s *Waits) claimLocked(key, token string, ofSlots bool) (c *Claim, expected bool) {
	in := s.byKey[key]
	if ofSlots {
		in = s.bySlots[token]
	}
	if in != nil && in.claim != nil && in.claim.Token() == token {
		return in.claim, true
	}
	return nil, ofSlots || in != nil || s.ended.Has(key)
}

// Granted handles a grant by master i. It reports false if this Client has not queued for the key.
func (s *Waits) Granted(i int, g master.Grant) (expected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c, expected := s.claimLocked(g.Key, g.Token, g.Slots != "")
	if c == nil {
		return expected
	}
	if c.Began.Time().After(g.Mark.Time()) {
		g.Mark = c.Began
	}
	if !g.Sure(g.Mark) {
		c.inbox.pollAfterLocked(0) // a poll finds out
		return true
	}
	if time.Since(g.Mark.Time()) > c.G/2 {
		// The vote is over, or soon. The claim may have been far, or this Client may have been stopped. A poll asks for how
		// long the key lives, or finds that the grant was in vain.
		c.inbox.pollAfterLocked(0)
	}
	c.at[i].next = g.Next
	first := c.firstVote.IsZero()
	c.voteLocked(i, vote{g.Mark, c.G, g.Fence, g.Slots.All()})
	if first || c.slots > 0 || c.votesLocked() >= s.Need { // the others change nothing
		poke(c.inbox.News)
	}
	return true
}

// votesLocked returns how many masters have voted, as far as is known, also if some votes do not last any more.
func (c *Claim) votesLocked() (n int) {
	for i := range c.at {
		if c.at[i].vote.life > 0 {
			n++
		}
	}
	return n
}

// voteLocked takes a vote of master i. Of two votes of one master, the one that ends later counts. Of two fences, the
// higher one counts, since a master's fences rise.
func (c *Claim) voteLocked(i int, v vote) {
	if v.slots = c.aimedLocked(v.slots); len(v.slots) == 0 {
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
	c.at[i].had = true
}

// A Command is one that was sent for a claim.
type Command struct {
	Kind wire.Kind     // Register, Again (a poll) or Renew
	Mark clock.Reading // when it was asked for
	Life time.Duration // if the answer is that the key is ours: for how long the key lives from Mark on
	One  bool          // it is a poll of one master
}

// Answered takes the answer of master i to a command of a claim, and returns the masters, as bits, at which the claim has become near. listening says that the master
// can tell this Client of grants: then a claim that was refused is in its queue. news says that the wait is to look at its claim: Counted is to be called, after
// an answer that is counted in a round, when it was counted there.
//
// The answers of a master come in the order of the commands.
//
// A late answer, to a claim that waits no more, may say something of its lease: see Won.
func (c *Claim) Answered(i int, cmd Command, a wire.Answer, listening bool) (near uint64, news bool) {
	s, m := c.inbox.waits, &c.at[i]
	s.mu.Lock()
	again, was := cmd.Kind == wire.Again && m.had, c.places.at[i].known
	gone := again && a.New // the key was granted or set, and is gone or another's since
	lost := again && a.Err != nil
	m.answered(cmd.Kind, a, listening)
	c.places.answered(i, a, cmd.Mark.Time(), listening)
	c.refused = c.refused || a.Outcome == wire.Taken
	free := cmd.One && a.Outcome == wire.Taken && a.Standing == ""
	if free {
		c.free |= 1 << i
	}
	if c.inbox.claim != c {
		tell := c.lateLocked(a, gone || lost)
		s.mu.Unlock()
		if tell != nil {
			tell(i)
		}
		return 0, false
	}
	defer s.mu.Unlock()
	near = c.inbox.placedLocked()
	if cmd.Kind == wire.Register {
		c.inbox.values.registered(i, a)
	}
	if gone {
		m.vote.end()
		m.void, m.unused = true, true
	}
	if a.Done() {
		c.voteLocked(i, vote{cmd.Mark, cmp.Or(max(a.Holds, 0), cmd.Life), a.Fence, a.Slots.All()})
	}
	unknown := was && !c.places.at[i].known // so it may be the head by now
	return near, m.listed || unknown || free || gone || lost || a.Done()
}

// answered takes an answer of the master to a command of a claim.
func (m *atMaster) answered(kind wire.Kind, a wire.Answer, listening bool) {
	if m.queued = a.Outcome == wire.Taken; m.queued {
		m.stands = a.Standing
	}
	m.had = m.had || a.Done() || m.queued && (a.New || listening)
	if kind.Acquires() {
		m.open--
		m.missed = m.missed || a.Err != nil || kind == wire.Again && a.New
	}
}

// lateLocked returns what is to be called after a late answer; nil: nothing. doubtful says that it is the answer to a poll of a master that had granted
// or set the key, and that the key is gone, or that the answer was lost.
//
// Then the claim may have won, and the master may have executed the poll afterwards. Example: master 3 has granted the key
// for 1 s; the poll arrives there after 1.2 s. The key has expired, so the poll has set it again, or, if another
// client has the key by now, has put the claim into the queue. Between 1 and 1.2 s somebody else may have had the key
// of master 3. So its vote no longer supports the lease.
func (c *Claim) lateLocked(a wire.Answer, doubtful bool) (tell func(i int)) {
	switch {
	case c.settle != nil && (a.Outcome == wire.Taken || a.Done() && !slices.Equal(a.Slots.All(), c.held)): // in the queue, or in other slots
		return c.settle
	case doubtful:
		return c.doubt
	}
	return nil
}

// Counted tells the wait to look at what Answered has noted.
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
func (c *Claim) Unused() (masters int) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	for i := range c.at {
		if c.at[i].unused {
			masters++
		}
	}
	return masters
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

// Settled returns the masters, as bits, that set the token of a claim no more, as far as registrations and polls go: all were
// answered, and none was lost or has found that the claim was not in the queue. It is asked when the claim has become a lease.
func (c *Claim) Settled() (masters uint64) {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	for i := range c.at {
		if m := &c.at[i]; m.open == 0 && !m.missed {
			masters |= 1 << i
		}
	}
	return masters
}

// FoundFree returns the masters, as bits, where polls of one master have found the key free since the last call.
func (c *Claim) FoundFree() (masters uint64) { return take(c.inbox.waits, &c.free) }

// Standing returns what the masters have said last that their keys hold, as votes.
func (c *Claim) Standing() []quorum.Vote {
	c.inbox.waits.mu.Lock()
	defer c.inbox.waits.mu.Unlock()
	votes := make([]quorum.Vote, len(c.at))
	for i := range c.at {
		token := c.at[i].stands
		votes[i] = quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Taken, Standing: token, Readers: token == wire.ReadersMarker}}
	}
	return votes
}

// take returns what s guards at p, and has the zero value there.
func take[T any](s *Waits, p *T) (taken T) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var zero T
	taken, *p = *p, zero
	return taken
}
