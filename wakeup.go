package redlock

import (
	"cmp"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/recent"
	"github.com/redlock-go/redlock/internal/wire"
)

// Clients that wait for a lock are in the queue of its name on each master. A release takes the head out of the queue,
// which is the client that has waited longest, and publishes a message to the channel of that client.
//
//   - If the head is a registered claim, the release grants it the lock, and the message says so: see wakeup.go.
//   - Otherwise the message is a wake-up. It is only a hint: the client's next SET decides whether it gets the lock. A
//     lost message costs one step of its schedule.

// A sleeper receives the messages for one wait of a Client for a name.
type sleeper struct {
	wake chan struct{} // cap 1: a wake-up has come
	news chan struct{} // cap 1: the votes for the claim have changed

	// Guarded by sleepers.mu:
	tokens []string    // by master: the token in its last message, that of the released lease
	timer  *time.Timer // wakes the sleeper if too few masters send a message; nil: not running
	early  time.Time   // when messages from less than a quorum last woke the sleeper

	claim *queuedClaim // the claim of the wait; nil: it has none
}

const (
	// wakeAnyway is how long after the first message a sleeper waits for messages from a quorum of masters. A
	// lock that is free at one master will soon be free at the others.
	wakeAnyway = 2 * time.Millisecond
	// earlyEvery is how often messages from less than a quorum may wake a sleeper. Each wake-up costs a round.
	earlyEvery = 10 * time.Millisecond
	// leftFor is how long after the end of a wait wake-ups for it are still expected.
	leftFor = 10 * time.Second
)

// sleepers are the waits of a Client, by key. There is at most one for each name, since at most one goroutine
// of a Client sends commands for a name.
type sleepers struct {
	masters int // immutable
	need    int // immutable; how many messages are a quorum

	mu    sync.Mutex // guards what follows
	byKey map[string]*sleeper
	left  recent.Map[uint64] // by key of an ended wait: the masters, as bits, that may still send a wake-up
}

func newSleepers(masters int) sleepers {
	return sleepers{masters: masters, need: quorum.Majority(masters), byKey: make(map[string]*sleeper), left: recent.Map[uint64]{Keep: leftFor}}
}

// add makes the sleeper of a wait. It must be called before the command that joins the queue is sent, because
// the wake-up may come at once.
func (s *sleepers) add(key string) *sleeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := &sleeper{wake: make(chan struct{}, 1), news: make(chan struct{}, 1), tokens: make([]string, s.masters)}
	s.byKey[key] = sl
	return sl
}

func (s *sleepers) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.byKey[key]; sl.timer != nil {
		sl.timer.Stop()
	}
	delete(s.byKey, key)
	s.left.Put(key, 1<<s.masters-1)
}

// hear handles a well-formed message from master i about a release that deleted token from key. It reports
// false if no goroutine waits for the key.
//
// Only the last message of each master counts. So one master alone cannot make a quorum, however many
// messages it sends, and cannot displace the messages of other masters.
func (s *sleepers) hear(i int, key, token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.byKey[key]
	if sl == nil {
		return false
	}
	if sl.tokens[i] == token {
		return true
	}
	sl.tokens[i] = token
	heard := 0
	for _, t := range sl.tokens {
		if t == token {
			heard++
		}
	}
	switch now := time.Now(); {
	case heard == s.need:
		sl.wakeLocked()
	case heard > s.need:
		// The quorum-th message has woken the sleeper.
	case heard == s.need-1 && now.Sub(sl.early) >= earlyEvery:
		// One message less than a quorum. While the attempt is on its way, the release will have reached one
		// more master. If the first message woke the sleeper, some attempts would come too early, and the
		// client would have to join the queue again. If only the quorum-th did, all attempts would come later
		// than necessary. If this wake-up is too early, the quorum-th message wakes the sleeper again.
		sl.early = now
		sl.wakeLocked()
	case sl.timer == nil:
		// There may be no quorum-th message: if several readers leave together, the last of them is another one at
		// each master, and the messages have several tokens.
		sl.timer = time.AfterFunc(max(wakeAnyway, earlyEvery-now.Sub(sl.early)), func() { s.timeUp(sl) })
	}
	return true
}

// wakeLocked wakes the sleeper.
func (sl *sleeper) wakeLocked() {
	if sl.timer != nil {
		sl.timer.Stop()
		sl.timer = nil
	}
	poke(sl.wake)
}

// timeUp wakes a sleeper after messages from less than a quorum of masters.
func (s *sleepers) timeUp(sl *sleeper) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl.timer != nil { // otherwise a message has woken it
		sl.early = time.Now()
		sl.wakeLocked()
	}
}

// takeExpected reports whether a message from master i about a key is expected although no goroutine waits for the key:
// the wait may have ended a moment ago. It counts the message: only one of each master is expected.
func (s *sleepers) takeExpected(i int, key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	masters, _ := s.left.Get(key)
	if masters&(1<<i) == 0 {
		return false
	}
	s.left.Put(key, masters&^(1<<i))
	return true
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // an earlier wake-up was not received yet
	}
}

// woken handles a wake-up from a master. If no goroutine of this Client waits for the key, the wake-up is
// passed on to the next client in that master's queue. It is not passed on while a goroutine of this Client
// is in the gate. That goroutine has the lock or will get it, and then its release wakes the next client. Or
// another client has got the lock, and then that client's release does.
//
// woken does nothing and reports false if this Client has not queued for the key: every client that may
// publish on the channel can name any key.
func (c *Client) woken(i int, key, token string) bool {
	switch {
	case token == wire.ReadersMarker:
		return c.shares.recall(key)
	case c.sleepers.hear(i, key, token):
		return true
	case !c.sleepers.takeExpected(i, key):
		return false
	case !c.gates.Taken(key):
		c.masters[i].Ask(wire.Wake, master.NewClaim(key, token, 0, 0), nil)
	}
	return true
}

const (
	// turnLeast is the least turn of readers that a writer's release wakes.
	turnLeast = 20 * time.Millisecond
	// turnMost is the longest turn: see readers.lua. As a rule a turn ends before the key expires. Then the last
	// reader's release wakes the writer that has waited longest, and a writer that tries when the key would have
	// expired overtakes that one.
	turnMost = time.Second
)

// turn returns how long this Client takes at most to come back with an attempt after a wake-up.
func (c *Client) turn() time.Duration { return max(turnLeast, 3*c.group.Distance()) }

// patienceSteps is how many polls of a claim must fail to come before its client is taken for one that is stopped.
const patienceSteps = 5

// notePause notes a pause between two attempts, of a wait that is woken.
func (c *Client) notePause(d time.Duration) {
	for longest := c.longestPause.Load(); int64(d) > longest; longest = c.longestPause.Load() {
		if c.longestPause.CompareAndSwap(longest, int64(d)) {
			return
		}
	}
}

// patience returns how long it takes at most until a claim of this Client that waits is sent again. A round may last until
// the slowest master has answered. A wait that is woken pauses for as long as Options.NewBackOff says. Only the pauses so
// far are known, so the Client may be taken for one that is stopped in its first long pause.
func (c *Client) patience() time.Duration {
	round := c.turn()
	for _, m := range c.masters {
		round = max(round, m.RoundTrip())
	}
	longest := time.Duration(c.longestPause.Load())
	return max(patienceSteps*c.opts.claimPolls, longest+c.opts.claimPolls) + round
}

// listening reports whether a quorum of masters can wake this Client.
func (c *Client) listening() bool {
	n := 0
	for _, m := range c.masters {
		if m.Listening() {
			n++
		}
	}
	return n >= c.sleepers.need
}

// A queuedClaim is a claim that waits in the queues of the masters, where releases of other clients may grant it
// the lock. It has one fresh token, from its registration to its lease or its release. A quorum of votes makes a
// lease. A vote comes with a master's answer to a registration or a poll, or with the message about a grant. It
// counts from a moment before the key was set, so the claim has the vote for no longer than the master keeps the
// key.
type queuedClaim struct {
	*master.Claim
	began clock.Reading // immutable; before its first command
	g     time.Duration // immutable; for how long it may be granted the lock

	tenure atomic.Pointer[tenure] // once it was acquired

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
		_, left := s.left.Get(g.Key)
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
func (s *sleepers) answered(sl *sleeper, c *queuedClaim, kind wire.Kind, i int, a wire.Answer, mark clock.Reading, life time.Duration, listening bool) {
	bit := uint64(1) << i
	s.mu.Lock()
	late := kind == wire.Again && c.known&bit != 0
	gone := late && a.New // the key was granted or set, and is gone or another's since
	if a.Done() || a.Outcome == wire.Taken && (a.New || listening) {
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
	if t := c.tenure.Load(); t != nil {
		t.doubt(i)
	}
}

// A claimQuorum is a quorum of votes for a claim.
type claimQuorum struct {
	votes []quorum.Vote // of all masters
	rests uint64        // the masters of the quorum, as bits
	left  time.Duration // how long the votes of the quorum last
}

// count counts the votes for a claim. It returns the masters, as bits, whose votes last, when the first vote came,
// and the quorum if there is one. Votes with a fence above most cannot be part of the quorum; 0: any can. setTenure
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
		votes[i] = quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Granted, Fence: v.fence}}
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

// setTenure makes t that of the claim, which can no longer be granted the lock. It does nothing and reports
// false if a vote of the quorum has become void since it was counted.
func (s *sleepers) setTenure(sl *sleeper, c *queuedClaim, won *claimQuorum, t *tenure) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c.gone&won.rests != 0 {
		return false
	}
	c.tenure.Store(t)
	sl.claim = nil
	return true
}
