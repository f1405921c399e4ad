package redlock

import (
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

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
	case c.waits.Heard(i, key, token):
		return true
	case !c.waits.TakeExpected(i, key):
		return false
	case !c.gates.Taken(key):
		terms := wire.NewTerms(key, 0)
		c.masters[i].Ask(wire.Wake, master.NewClaim(&terms, wire.ClaimOf{Token: token}), nil)
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
	return n >= c.waits.Need
}
