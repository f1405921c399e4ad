package server

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
)

// A call is one call of a script, as the specification executes it.
type call struct {
	*Server
	id         string // the client's
	now        time.Time
	micros     float64 // the time, which rises by 1 µs with each client that joins a queue
	subscribed func(client string) bool
	deaf       func(client string) bool // it is known that it has no subscription
	run        func() string            // returns the run_id of the server's process, which grants tell

	terms    [2]float64 // the client's patience and far, in ms
	hasTerms bool
	noted    bool

	first bool // the command is the first of its call, and no other one of the call is for another key: see grantInVain

	out  []message // in their order, without those that say that a client is near
	told []message // those, which may come more than once
	some int       // so many readers at most are asked again to leave, at random
}

// A message is what a master sends to a client.
type message struct{ client, text string }

func (c *call) publish(client, format string, args ...any) {
	c.out = append(c.out, message{client, fmt.Sprintf(format, args...)})
}

// tell tells a claim that it is near.
func (c *call) tell(key, name string) {
	m := parse(name)
	c.told = append(c.told, message{m.client, "= " + m.token + " " + key})
}

// An errText is the beginning of an error that a script returns.
type errText string

func (e errText) Error() string { return string(e) }

// A word is the command for one key.
type word struct {
	verb string
	args []string
}

func split(text string) word {
	parts := strings.Split(text, " ")
	return word{parts[0], parts[1:]}
}

// arg returns an argument, or "".
func (w word) arg(i int) string {
	if i < len(w.args) {
		return w.args[i]
	}
	return ""
}

// batch executes a call of batch.lua, and returns the answers.
func (c *call) batch(keys, args []string) any {
	c.id = args[0]
	c.readTerms(args[1+2*len(keys):])
	answers := make([]any, len(keys))
	ones := true
	for i, key := range keys {
		c.first = i == 0 && (len(keys) == 1 || len(keys) == 2 && keys[0] == keys[1])
		answers[i] = c.answer(split(args[1+2*i]), key, args[2+2*i])
		ones = ones && answers[i] == int64(1)
	}
	switch {
	case len(keys) == 1:
		return answers[0]
	case ones:
		return int64(1)
	}
	return answers
}

// readTerms reads what a call says of its client at its end, if it does.
func (c *call) readTerms(rest []string) {
	if c.hasTerms = len(rest) == 2; c.hasTerms {
		for i, text := range rest {
			fmt.Sscanf(text, "%g", &c.terms[i])
		}
	}
}

// answer executes the command for one key.
func (c *call) answer(w word, key, token string) any {
	l := c.lock(key)
	switch w.verb {
	case "readers":
		return c.readWord(word{w.arg(0), w.args[1:]}, key, token)
	case "release", "undo":
		return c.release(w, key, token)
	case "register", "again", "acquire":
		return c.acquire(w, key, token)
	case "heal":
		return c.heal(l, token, w)
	}
	if l.Token != token {
		n := int64(0)
		if l.Token != "" {
			n = -1
		}
		if w.verb == "commit" {
			return []any{n, int64(0)}
		}
		return n
	}
	if w.verb == "commit" {
		fixed := number(w.arg(0))
		last, err := c.raiseTo(&l.fenced, fixed)
		switch {
		case err != nil:
			return err
		case last != fixed:
			return []any{int64(-2), last}
		}
		c.set(l, token, number(w.arg(1)))
		return []any{int64(1), last}
	}
	c.set(l, token, number(w.arg(0))) // to renew
	if (w.arg(1) == "-" || strings.Contains(token, "~")) && len(l.queue)+len(l.waiting) > 0 {
		return int64(2)
	}
	return int64(1)
}

// set sets a key for some ms.
func (c *call) set(l *Lock, token string, ms int64) {
	l.Token, l.Until = token, c.now.Add(time.Duration(ms)*time.Millisecond)
}

// heal sets a key, unless it exists, and raises its fence.
func (c *call) heal(l *Lock, token string, w word) any {
	if l.Token != "" {
		return int64(0)
	}
	if _, err := c.raiseTo(&l.fenced, number(w.arg(1))); err != nil {
		return err
	}
	c.set(l, token, number(w.arg(0)))
	return int64(1)
}

// Fences count quarters of a ms.
const second, day = 4000, 24 * 3600 * 4000

func (c *call) ticks() int64 { return c.now.UnixMicro() / 250 }

// raise sets a fence, which is kept until a day after its time.
func (c *call) raise(l *fenced, fence int64) {
	now, life := c.ticks(), int64(day/4)
	switch {
	case fence > now+4*day:
		if l.fence != 0 {
			life = millis(l.fenceUntil, c.now)
		}
	case fence > now+2*second:
		life = int64(even(float64(fence-now+day) / 4))
	}
	l.fence, l.fenceUntil = fence, c.now.Add(time.Duration(life)*time.Millisecond)
}

// nextFence gives a fence: the proposed one, unless that is not above the last, or is more than a second ahead of the
// clock. Without a proposal it is the clock.
func (c *call) nextFence(l *fenced, proposal string) int64 {
	given := c.ticks()
	if proposal != "" {
		given = min(number(proposal), given+second)
	}
	given = max(given, l.fence+1)
	c.raise(l, given)
	return given
}

// raiseTo raises a fence to a number, unless it is as high. One that is more than two seconds ahead of the clock is an error.
func (c *call) raiseTo(l *fenced, fixed int64) (last int64, err error) {
	if l.fence >= fixed {
		return l.fence, nil
	}
	if fixed > c.ticks()+2*second {
		return l.fence, errText("ERR the fence is")
	}
	c.raise(l, fixed)
	return fixed, nil
}

// A state is what a master knows of a client that waits.
type state int

const (
	gone    state = iota // its channel has no subscriber
	live                 // it has told lately that it waits, or makes this call
	unheard              // it has not, and need not have, or its note has expired
	silent               // it should have
)

// A claim that has joined a queue is live for lately without a note, and then unheard for as long as it takes at most until it polls.
const lately, pollsWithin = 500e3, 5000e3 // µs

// judge says how a member of a queue is.
func (c *call) judge(m member) (is state) {
	of := parse(m.name)
	n, ok := c.notes[of.client]
	if ok && !n.until.After(c.now) { // it has expired
		n, ok = note{}, false
	}
	joined := math.Inf(1) // how long ago
	if m.score <= c.micros {
		joined = c.micros - m.score
	}
	switch {
	case !of.deaf && !c.subscribed(of.client):
		is = gone
	case of.deaf || of.client == c.id || ok && n.till*1000 >= c.micros || joined <= lately:
		is = live
	case !ok || (n.till+n.far)*1000 >= c.micros || joined <= lately+pollsWithin:
		is = unheard
	default:
		is = silent
	}
	return is
}

// noteBeyond is how much longer than its client is unheard a note lives: it says that the client is silent.
const noteBeyond = 10_000 // ms

// note notes that the client waits and runs.
func (c *call) note() {
	if c.hasTerms && !c.noted {
		c.noted = true
		patience, far := c.terms[0], c.terms[1]
		c.notes[c.id] = note{even(c.micros/1000 + patience), even(far), c.now.Add(time.Duration(patience+far+noteBeyond) * time.Millisecond)}
	}
}

// The registration of a claim is a young mark of a grant for markLeast, or for its g less stopMost if that is more, but for half of its g at most.
const markLeast, stopMost = 150e3, 520e3 // µs

// young reports whether the registration of a claim in a queue is a young mark. g is in ms.
func (c *call) young(m member, g int64) bool {
	micros := float64(g) * 1000
	return m.score <= c.micros && m.score+max(markLeast, min(micros-stopMost, micros/2)) >= c.micros
}

// tellNear tells the claims that are near since members have left a queue: before is what the queue was. The claim of the call, mine, need not be
// told: the answer says so. One whose registration is a young mark of a grant need not be told, either: it polls soon.
func (c *call) tellNear(key string, before []member, mine string) {
	was := before[:min(near, len(before))]
	for i, m := range c.lock(key).queue {
		if i < near && m.name != mine && !c.young(m, parse(m.name).ms) && !slices.ContainsFunc(was, func(o member) bool { return o.name == m.name }) {
			c.tell(key, m.name)
		}
	}
}
