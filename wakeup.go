package redlock

import (
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Among processes the queue on the masters is a hint; the SET decides. A Client
// that is refused joins the name's queue with its next attempt. A release pops
// the queue's head and publishes to that client's channel, so one waiter wakes,
// whatever their number, and the one who has waited longest. Nothing depends on
// it: a message that is lost costs one step of the schedule.

// A sleeper is the wait of a Client for one name, between its attempts.
type sleeper struct {
	wake chan struct{} // cap 1: somebody released the lock

	// Guarded by sleepers.mu:
	token string      // of the release that messages tell of
	heard int         // how many masters have told
	timer *time.Timer // wakes it when not enough masters tell
}

// wakeAnyway is how long after the first message a sleeper waits for a quorum of
// them. A lock that is free at one master is about to be at the others.
const wakeAnyway = 2 * time.Millisecond

// sleepers are a Client's waits, by key. At most one goroutine of a Client is on
// the wire for a name, so there is one for each.
type sleepers struct {
	need int // immutable; how many masters must tell

	mu     sync.Mutex // guards what follows
	byKey  map[string]*sleeper
	polite map[string]time.Time // names whose next in line our release has woken
}

// add registers a wait. It must be done before a command is sent that joins a
// queue: the wake-up may be quick.
func (s *sleepers) add(key string) *sleeper {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byKey == nil {
		s.byKey = make(map[string]*sleeper)
	}
	sl := &sleeper{wake: make(chan struct{}, 1)}
	s.byKey[key] = sl
	return sl
}

func (s *sleepers) remove(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if sl := s.byKey[key]; sl != nil && sl.timer != nil {
		sl.timer.Stop()
	}
	delete(s.byKey, key)
}

// hear takes a message of one master. It reports false if nobody waits for the
// key: then the wake-up is somebody else's.
func (s *sleepers) hear(key, token string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	sl := s.byKey[key]
	if sl == nil {
		return false
	}
	if sl.token != token {
		if sl.timer != nil {
			sl.timer.Stop()
		}
		sl.token, sl.heard = token, 0
		sl.timer = time.AfterFunc(wakeAnyway, func() { poke(sl.wake) })
	}
	// One less than a quorum: while the attempt is on its way, one more master
	// will have been told. At the first, some attempts come too early and take
	// their place in the queue anew; at the quorum-th, all come later than they
	// could. Should it have been too early, the quorum-th message wakes again.
	if sl.heard++; sl.heard == max(s.need-1, 1) || sl.heard == s.need {
		sl.timer.Stop()
		poke(sl.wake)
	}
	return true
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has been woken and not looked yet
	}
}

// politeFor is how long a Client remembers that its release woke somebody: by
// then that one has the lock, or is not going to have it.
const politeFor = time.Second

// yield notes that our release of key has woken another client.
func (s *sleepers) yield(key string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if s.polite == nil {
		s.polite = make(map[string]time.Time)
	}
	if len(s.polite) >= 1024 { // names come and go
		for k, t := range s.polite {
			if now.Sub(t) > politeFor {
				delete(s.polite, k)
			}
		}
	}
	s.polite[key] = now
}

// yields reports whether our last release of key woke another client, just now,
// and forgets it.
func (s *sleepers) yields(key string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, ok := s.polite[key]
	delete(s.polite, key)
	return ok && time.Since(t) < politeFor
}

// woken is told by a master that a lock became free. A wake-up that nobody of
// this Client waits for is passed on to the next in the queue, there. Not if a
// goroutine of ours is in the gate: either it gets the lock, or has it, being
// quicker than the last of the releases, and its own release will wake somebody;
// or another client got it, whose release will.
func (c *Client) woken(i int, key, token string) {
	if !c.sleepers.hear(key, token) && !c.gates.Taken(key) {
		c.masters[i].Ask(master.Wake, master.NewClaim(key, token, 0, 0), nil)
	}
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

// freeAfter returns when a quorum of masters will have let the key expire, if
// nobody renews it, by the answers of those that refused it; false if they do
// not say.
func freeAfter(votes []quorum.Vote) (time.Duration, bool) {
	var lefts []time.Duration
	for _, v := range votes {
		if v.Granted() {
			lefts = append(lefts, 0)
		} else if left, ok := v.Left(); v.In && ok {
			lefts = append(lefts, left)
		}
	}
	need := quorum.Majority(len(votes))
	if len(lefts) < need {
		return 0, false
	}
	slices.Sort(lefts)
	return lefts[need-1], true
}
