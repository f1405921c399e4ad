package master

import (
	"strconv"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fifo"
	"github.com/redlock-go/redlock/internal/wire"
)

// message handles a message on the client's channel.
func (l subscriber) message(parts []any) {
	text := ""
	if len(parts) == 3 {
		text, _ = redis.String(parts[2], nil)
	}
	if l.tell(text) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.status.WakesDropped++
}

// tell tells the Listener what a message says. It reports false if the message is malformed or was not expected.
func (l subscriber) tell(text string) (expected bool) {
	to, i := l.cfg.Listener, l.cfg.Index
	if told, ok := wire.ParseGrant(text); ok {
		sure := func(since clock.Reading) bool { return l.sure(told.Memory, since) }
		return to.Granted(i, Grant{told.Key, told.Token, told.Fence, told.Slots, told.Next, l.marks.last, sure})
	}
	if v, ok := wire.ParseValue(text); ok {
		return to.Value(i, v)
	}
	if token, key, ok := wire.IsNear.Parse(text); ok {
		return l.becameNear(key, token)
	}
	if token, key, ok := wire.Recall.Parse(text); ok {
		return to.Recalled(i, key, token)
	}
	token, key, ok := wire.Freed.Parse(text)
	return ok && to.Freed(i, key, token)
}

// becameNear takes the message that a claim has become near. A released claim is released again: the server has it in its queue, so it may have
// lost the release by a restart. Otherwise it would grant the lock to a claim that nobody uses.
func (l subscriber) becameNear(key, token string) (expected bool) {
	released, expected := l.cfg.Listener.Near(l.cfg.Index, key, token)
	if released != nil {
		l.Ask(wire.Release, released, nil)
	}
	return expected
}

// A Grant says that a master has set a key to the token of a client that was in its queue. It is a vote if
//
//   - the server's memory is the one that the last inspection has confirmed, is out of quarantine, and is not nearly
//     full: Sure;
//   - the validity of the vote is counted from a moment before the key was set. The client knows two such moments by
//     its own clocks: Mark, and when it first sent the token.
type Grant struct {
	Key   string        // the key that was set
	Token string        // of the client's claim
	Fence int64         // 0: none
	Slots wire.Slots    // of a semaphore: all of the token; empty for a lock
	Next  string        // the token of the claim that is the head of the queue now; "": it is not known
	Mark  clock.Reading // the key was set after this moment
	// Sure reports whether the memory is known, and out of quarantine. The key was set after since. It takes the mutex of the Master.
	Sure func(since clock.Reading) bool
}

// sure reports whether a grant counts: see guard.Guard.Sure. since is a moment before the grant.
func (m *Master) sure(in wire.Memory, since clock.Reading) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status.State == Up && m.guard.Sure(in, since)
}

// quietMost is for how long a client that was calm need not have heard of a master when its claim becomes near.
const quietMost = 3 * heartbeat

// PingOften makes the pings of the subscription frequent while Listener.Waiting reports true. It is called when a claim is near. If the
// client was calm, it has had no heartbeats. Then one is sent at once, before the claim is granted the lock, unless a command was
// answered a moment ago: clients that take turns become near again and again.
func (m *Master) PingOften() {
	poke(m.pingOften)
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.status.State == Up && m.guard.Near(time.Since(m.timed) > quietMost) {
		m.outbox.push(newItem(wire.Ping, nil, nil))
	}
}

// marks are the moments at which the pings of a subscription were sent. What arrives behind the answer to a ping was
// sent after the ping.
type marks struct {
	last clock.Reading // before the last ping that was answered, or SUBSCRIBE; the subscriber's own

	mu   sync.Mutex // guards what follows
	next int        // the number of the next ping
	sent fifo.Queue[sentPing]
}

// unansweredMost is how many pings are kept that are not answered.
const unansweredMost = 1000

// A sentPing is a ping that is not answered.
type sentPing struct {
	number string
	at     clock.Reading
}

// begin begins a subscription.
func (k *marks) begin(c clock.Clock) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last, k.sent = c(), fifo.Queue[sentPing]{}
}

// ping returns the argument of a ping that is about to be sent.
func (k *marks) ping(c clock.Clock) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.next++
	m := sentPing{strconv.Itoa(k.next), c()}
	if k.sent.Len() == unansweredMost {
		k.sent.Pop()
	}
	k.sent.Push(m)
	return m.number
}

// pong takes in the answer to a ping. One without a known number says nothing.
func (k *marks) pong(parts []any) {
	if len(parts) != 2 {
		return
	}
	number, _ := redis.String(parts[1], nil)
	k.mu.Lock()
	defer k.mu.Unlock()
	for i, m := range k.sent.All() {
		if m.number == number {
			k.last = m.at
			for range i + 1 {
				k.sent.Pop()
			}
			return
		}
	}
}
