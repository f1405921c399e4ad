package kept

import (
	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/occupancy"
)

// rules are the rules that can be switched off. The zero value is the complete protocol.
type rules struct {
	looseEnter    bool // a goroutine takes the lease from idle to held in one step
	looseGiveUp   bool // whatever gives up an idle lease takes it from idle to held in one step
	checksFirst   bool // the clocks are read after the lease was taken
	checksNone    bool // a goroutine that has taken the lease reads the clocks
	checksNoBit   bool // a goroutine that has taken the lease then looks at the bits
	looksEarly    bool // a lease begins in the step that looks whether it has ended
	marksLate     bool // a loss takes the lease, or leaves its bit, before its release is queued
	lossSilent    bool // a loss takes the lease, or leaves its bit
	entersGone    bool // only an idle lease is entered
	givesHeld     bool // a lease that a goroutine holds is given up by its Unlock
	forgetsAsk    bool // a recall that comes while a goroutine holds the lease leaves a bit
	forgetsSoon   bool // a recall that comes before the lease is held is remembered
	blindUnlock   bool // Unlock keeps a lease only if there is no bit
	silent        bool // a registration has a recall sent
	silentPolls   bool // the polls of the head of the queue have a recall sent
	releasesFirst bool // a lease is taken before its release is queued
	renewsLate    bool // no renewal is sent after the release
	noMark        bool // a goroutine that comes to the gate leaves a bit
	oneMark       bool // a goroutine that was handed the lease looks whether others wait
	keepsBeside   bool // Unlock does not keep a lease beside goroutines that it cannot be handed to
	clearsLate    bool // Unlock clears the bit of the gate before it looks for goroutines that wait
	healsLate     bool // no heal is sent after the release
	renewSets     bool // a renewal makes no key
	noQuarantine  bool // a master that has lost its memory grants nothing for a TTL
}

// A world is the protocol together with what may happen to it.
type world struct {
	rules
	goers    int   // K's goroutines
	calls    uint8 // of Lock by them, in total
	others   uint8 // calls of Lock by W
	ticks    uint8
	renewals uint8 // and heals
	loses    uint8 // recalls that may be lost
	deletes  uint8 // keys that may be deleted by hand
	restarts uint8 // how often the master may lose its memory
	polls    bool  // W polls
	stranger bool  // the last goroutine has other LockOptions: it neither enters a kept lease nor is handed one
	many     bool  // K's goroutines are readers, which hold a lease at the same time; the stranger is a writer
}

const (
	ttl       = 4 // ticks for which the master keeps a key
	validity  = ttl - 1
	mostGoers = 3
	wToken    = 100 // tokens of W are above
)

// A phase is that of a goroutine of K, or of W.
type phase uint8

const (
	out        phase = iota
	loaded           // with looseEnter: it has seen the lease idle
	checked          // with checksFirst: it has read the clocks
	checking         // it has entered the lease, and reads the clocks
	dropping         // it has entered the lease, and gives it up
	quitting         // the same, and it has left its bit
	away             // of a reader: it cannot enter
	following        // of a reader: another one leads
	queued           // it is in the queue of the gate, and has left no bit yet
	waiting          // it is in the queue of the gate; W: in that of the master
	acquiring        // it has the gate
	acquired         // it has a lease that is not held yet
	looked           // with looksEarly: it has looked whether the lease has ended
	begun            // others find the lease, which it holds
	handed           // it was handed the lease, and has not looked for others yet
	inside           // it holds the lock
	clearing         // the bit of the gate is to be cleared
	passing          // the lease is to be handed over
	keeping          // there is nobody to whom the lease can be handed
	lateClear        // with clearsLate: nobody waits, and the bit is to be cleared
	exchanging       // nobody waits, and the state is to become idle

	// Of the decider, which has taken an idle lease, or is the last one that left a lease with a bit:
	admitting // the lease is to be handed over or kept, if it can
	releasing // the lease is to be released
	seen      // with looseGiveUp: it has seen the lease idle
	leavesNow // with releasesFirst: the gate is to be left
)

// A kind is that of a command or an answer.
type kind uint8

const (
	register kind = iota + 1
	poll
	renew
	heal
	release
	granted
	refused
	renewed
	gone
)

func (k kind) String() string {
	return [...]string{"", "registration", "poll", "renewal", "heal", "release", "a grant", "a refusal", "a renewal", "that the key is gone"}[k]
}

// A message is a command or an answer. left is for how many ticks the lease is valid that it leads to.
type message struct {
	kind  kind
	token uint8
	left  uint8
}

type lane = explore.Lane[message]

type state struct {
	// The master:
	key, left, quarantine uint8
	queue                 [2]uint8 // tokens
	recall                uint8    // the token of a recall on its way to K

	// K:
	st              occupancy.State
	token, valid    uint8 // of its lease
	ended           bool  // the lease has ended, or there is none
	told            bool  // the end has taken the state, or has left its bit
	released        bool  // the release of the lease is queued
	remembered      uint8 // the token of the last recall
	decider         phase
	lossTook        bool             // a loss has taken the lease, and its release is not queued yet
	leading         bool             // a reader acquires a lease for all
	gate            bool             // it is taken
	order           [mostGoers]uint8 // of the goroutines that wait for the gate, from 1 on
	goers           [mostGoers]phase
	renewing        bool
	last            uint8 // the last token
	toMaster, fromM lane

	// W:
	w             phase
	wToken, wLeft uint8
	wOut, wIn     lane

	// What may still happen:
	calls, others, ticks, renewals, loses, deletes, restarts uint8

	bad string // what is wrong
}

func (s *state) insiders() int {
	return explore.Count(s.goers[:], func(p phase) bool { return p == inside })
}

// crowded reports whether goroutines hold the lock that exclude each other.
func (w *world) crowded(s *state) bool {
	readers := w.many && !(w.stranger && s.goers[w.goers-1] == inside)
	return s.insiders() > 1 && !readers
}

func (s *state) waiters() int { return explore.Len(s.order[:]) }

// next takes the first goroutine out of the queue of the gate.
func (s *state) next() (goer int) { return int(explore.Drop(s.order[:], 0)) - 1 }

// leaveGate lets the next goroutine acquire.
func (s *state) leaveGate() {
	if s.gate = s.order[0] != 0; s.gate {
		s.goers[s.next()] = acquiring
	}
}
