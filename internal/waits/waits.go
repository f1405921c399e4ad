// Package waits keeps what the messages and answers of the masters say about the waits of a Client: the votes for claims that are
// registered. It knows keys, tokens and votes, but no lease.
//
// The claims that wait for a lock are in the queue of its name on each master. A release grants the lock to the head of the queue, which is the
// claim that has waited longest, and publishes that to the channel of its client: see Claim. Some releases leave the lock free instead, and
// tell the head to poll.
//
// Each file can be read by itself:
//
//   - waits.go: the waits of a Client (Waits), each with an Inbox; the messages that a lock is free
//   - claim.go: what is known of the claim of a wait; its votes, from messages and answers
//   - count.go: whether the votes are a quorum, and the end of a claim that wins; slots.go: claims on slots of a semaphore
//   - place.go: where a claim stands in the queues; census.go: what is asked of all claims of a Client
//   - pace.go: when a claim is sent again; delays.go: schedules of the user, and when keys expire
//   - verdict.go: what becomes of a claim if the votes are split
//   - unused.go: a Client that does not use its grants goes behind others
//   - value.go: a wait that ends with a value
//
// Waits.mu guards what messages and answers change. A goroutine may take Master.mu when it has Waits.mu. A Pace, Delays and a Finding belong to the goroutine that waits.
package waits

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/recent"
)

// An Inbox receives the messages for one wait of a Client for a name.
type Inbox struct {
	Poll chan struct{} // immutable; cap 1: a message asks for a poll
	News chan struct{} // immutable; cap 1: there is news of the claim: a vote, an answer that changes something, its place, or a value

	waits *Waits // immutable
	key   string // immutable

	// Guarded by Waits.mu:
	tokens []string    // by master: the token in its last message, that of the released lease
	timer  *time.Timer // asks for a poll if too few masters send a message; nil: not running
	early  time.Time   // when messages from less than a quorum, or grants that do not count, last asked for a poll

	claim  *Claim  // the claim of the wait; nil: it has none. setClaimLocked changes it
	slots  bool    // it has had a claim on slots
	values *values // nil: it cannot end with a value, see WantsValue

	// How its claim is counted in the Waits, see placedLocked:
	steps int  // after how many steps a master hears of the claim again; noClaim: there is none
	far   bool // the claim is far
}

const (
	// pollAnyway is how long after the first message a wait waits for messages from a quorum of masters. A
	// lock that is free at one master will soon be free at the others.
	pollAnyway = 2 * time.Millisecond
	// earlyEvery is how often messages from less than a quorum, and grants that do not count, may ask for a poll. One master can send them
	// again and again.
	earlyEvery = 10 * time.Millisecond
	// endedFor is how long after the end of a wait messages for it are still expected.
	endedFor = 10 * time.Second
)

// Waits are the waits of a Client, by key. There is at most one for each name, since at most one goroutine
// of a Client sends commands for a name.
type Waits struct {
	Need int // immutable; how many masters are a quorum

	masters int                               // immutable
	drift   func(time.Duration) time.Duration // immutable; what is subtracted from the life of a key, since clocks may run at different speeds

	mu      sync.Mutex        // guards what follows
	byKey   map[string]*Inbox // the waits
	bySlots map[string]*Inbox // those with a claim on slots, by its token: messages about slots do not name the key of the wait
	ended   *recent.Set       // the keys of waits that have ended lately

	past   []*master.SentClaim // the last claims on slots, also those that were released: a ring
	oldest int                 // of past

	// What is counted of all claims, see census.go:
	near  []nearClaims     // by master
	steps [noClaim + 1]int // how many waits have these Inbox.steps; of noClaim, the number says nothing
	far   int              // how many waits have Inbox.far
}

// New returns the Waits of a Client with this number of masters. drift returns what is subtracted from the life of a key.
func New(masters int, drift func(time.Duration) time.Duration) *Waits {
	return &Waits{
		Need: quorum.Majority(masters), masters: masters, drift: drift,
		byKey: make(map[string]*Inbox), bySlots: make(map[string]*Inbox), near: make([]nearClaims, masters), ended: recent.NewSet(endedFor),
	}
}

// Begin makes the Inbox of a key. It must be called before the command that joins the queue is sent, because
// a message may come at once.
func (s *Waits) Begin(key string) *Inbox {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := &Inbox{Poll: make(chan struct{}, 1), News: make(chan struct{}, 1), waits: s, key: key, steps: noClaim, tokens: make([]string, s.masters)}
	s.byKey[key] = in
	return in
}

// End ends the wait.
func (in *Inbox) End() {
	s := in.waits
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.timer != nil {
		in.timer.Stop()
	}
	in.setClaimLocked(nil)
	delete(s.byKey, in.key)
	if !in.slots { // messages about slots do not name it
		s.ended.Add(in.key)
	}
}

// Freed handles the message of master i that the release of token has left key free. It reports false if this Client has not queued for the key.
//
// Only the last message of each master counts. So one master alone cannot make a quorum, however many
// messages it sends, and cannot displace the messages of other masters.
func (s *Waits) Freed(i int, key, token string) (expected bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	in := s.byKey[key]
	if in == nil {
		return s.ended.Has(key)
	}
	if in.tokens[i] == token {
		return true
	}
	in.tokens[i] = token
	heard := 0
	for _, t := range in.tokens {
		if t == token {
			heard++
		}
	}
	switch {
	case heard == s.Need:
		in.pollLocked()
	case heard > s.Need:
		// The quorum-th message has asked for the poll.
	case heard == s.Need-1:
		// One message less than a quorum. While the poll is on its way, the release will have reached one more master. If the first message asked
		// for the poll, some polls would come too early. If only the quorum-th did, all would come later than necessary. If this one is too early,
		// the quorum-th message asks for another one.
		in.pollAfterLocked(0)
	default:
		// There may be no quorum-th message: if several readers leave together, the last of them is another one at
		// each master, and the messages have several tokens.
		in.pollAfterLocked(pollAnyway)
	}
	return true
}

// pollAfterLocked asks for a poll after d, or later: when earlyEvery has passed since it last did.
func (in *Inbox) pollAfterLocked(d time.Duration) {
	if d = max(d, earlyEvery-time.Since(in.early)); d <= 0 {
		in.early = time.Now()
		in.pollLocked()
	} else if in.timer == nil {
		in.timer = time.AfterFunc(d, func() { in.waits.timeUp(in) })
	}
}

// pollLocked asks for a poll.
func (in *Inbox) pollLocked() {
	if in.timer != nil {
		in.timer.Stop()
		in.timer = nil
	}
	poke(in.Poll)
}

// timeUp asks for a poll some time after a message.
func (s *Waits) timeUp(in *Inbox) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if in.timer != nil { // otherwise a message has asked for it
		in.early = time.Now()
		in.pollLocked()
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // an earlier one was not received yet
	}
}
