package server

import (
	"math"
	"slices"
	"strings"
	"time"
)

// How readers share a lock. While they hold it, the key holds Marker, which lives as long as the longest of them.

// turn wakes the readers that wait for a key that has just been released, and lets the marker stand until the slowest of them has
// come. Reports whether readers have a turn.
func (c *call) turn(key, token string) bool {
	l := c.lock(key)
	if len(l.waiting) == 0 {
		return false
	}
	waiting := slices.Clone(l.waiting)
	now := c.now.UnixMilli()
	if len(l.queue) > 0 {
		l.intent, l.intentUntil = now, c.now.Add(500*time.Millisecond)
		l.waiting = add(l.waiting, "writer", 1)
	} else {
		l.intent = 0
		l.waiting, _ = remove(l.waiting, "writer")
	}
	longest := 0.0
	for _, m := range waiting {
		came := false
		if m.name != "writer" && c.subscribed(m.name) {
			c.publish(m.name, "%s %s", token, key)
			came = m.score > 0
		}
		if came {
			l.waiting = add(l.waiting, m.name, -m.score)
			longest = max(longest, min(m.score, 1000))
		} else if m.name != "writer" {
			l.waiting, _ = remove(l.waiting, m.name)
		}
	}
	if longest == 0 {
		return false
	}
	l.readers = []member{{"turn", float64(now) + longest}}
	c.mark(l, float64(now)+longest)
	return true
}

// mark sets the marker until a time in ms.
func (c *call) mark(l *Lock, until float64) {
	c.set(l, Marker, int64(until)-c.now.UnixMilli())
	l.readersUntil = l.Until
}

// longest returns when the last reader expires; -Inf: there is none.
func (l *Lock) longest() float64 {
	if len(l.readers) == 0 {
		return math.Inf(-1)
	}
	return l.readers[len(l.readers)-1].score
}

// read executes a call of readers.lua, and returns the answers.
func (c *call) read(keys, args []string) any {
	c.id = args[0]
	answers := make([]any, len(keys))
	for i, key := range keys {
		answers[i] = c.readWord(split(args[1+2*i]), key, args[2+2*i])
	}
	if len(keys) == 1 {
		return answers[0]
	}
	return answers
}

func (c *call) readWord(w word, key, token string) any {
	l := c.lock(key)
	name, now := c.id+" "+token, float64(c.now.UnixMilli())
	switch w.verb {
	case "read":
		return c.readFenced(w, key, token)
	case "announce":
		return c.announce(l, key, w.arg(0))
	case "heal":
		if l.Token != "" && l.Token != Marker {
			return int64(0)
		}
		c.stand(l, name, number(w.arg(0)), true)
		if _, err := c.raiseTo(&l.fenced, number(w.arg(1))); err != nil {
			return err
		}
		return int64(1)
	case "renew":
		if n, stands := l.stands(name, now); !stands {
			return n
		}
		c.stand(l, name, number(w.arg(0)), false)
		if l.intent != 0 {
			return int64(2)
		}
		return int64(1)
	case "commit":
		n, stands := l.stands(name, now)
		if !stands {
			return []any{n, int64(0)}
		}
		fixed := number(w.arg(0))
		if _, err := c.raiseTo(&l.fenced, fixed); err != nil {
			return err
		}
		return []any{int64(1), fixed}
	case "quit":
		l.waiting, _ = remove(l.waiting, c.id)
	}
	return c.leave(w.verb, l, name, now)
}

// stands reports whether a reader stands. If not, it returns the answer.
func (l *Lock) stands(name string, now float64) (no int64, stands bool) {
	switch l.Token {
	case "":
		return 0, false
	case Marker:
		at := find(l.readers, name)
		return 0, at >= 0 && l.readers[at].score > now
	}
	return -1, false
}

// stand lets a reader stand for some ms. A reader that enters removes those that have expired.
func (c *call) stand(l *Lock, name string, ttl int64, enters bool) {
	now := float64(c.now.UnixMilli())
	switch {
	case enters && l.Token == "":
		l.readers = nil
	case enters:
		l.readers = slices.DeleteFunc(l.readers, func(m member) bool { return m.score <= now })
	}
	until := now + float64(ttl)
	wasMarked := l.Token == Marker
	l.readers = add(l.readers, name, until)
	if top := l.longest(); top <= until || !wasMarked {
		c.mark(l, top)
	}
}

// readFenced executes a read vote.
func (c *call) readFenced(w word, key, token string) any {
	l := c.lock(key)
	result := c.vote(w, key, token)
	if w.arg(3) == "" {
		return result
	}
	proposal := min(number(w.arg(3)), (c.now.UnixMilli()+1000)*4)
	if result > 0 && l.fence < proposal {
		if _, err := c.raiseTo(&l.fenced, proposal); err != nil {
			return err
		}
	}
	return []any{result, l.fence}
}

func (c *call) vote(w word, key, token string) int64 {
	l := c.lock(key)
	ttl, waited, needs := number(w.arg(0)), number(w.arg(1)), w.arg(2)
	now := c.now.UnixMilli()
	refuse := func(told bool) int64 {
		if needs != "-" && c.id != "" {
			l.waiting = add(l.waiting, c.id, float64(number(needs)))
		}
		if told {
			return -2 - millis(l.Until, c.now)
		}
		return -1
	}
	switch {
	case l.Token != "" && l.Token != Marker:
		c.recall(key, l.Token)
		return refuse(true)
	case l.intent != 0 && l.intent <= now-waited && !(l.Token != "" && l.invited(c.id, float64(now))):
		return refuse(false)
	}
	c.stand(l, c.id+" "+token, ttl, true)
	if waited > 0 {
		l.waiting, _ = remove(l.waiting, c.id)
	}
	if l.intent != 0 {
		return 2
	}
	return 1
}

// invited reports whether a client was woken for a turn of the readers that has not ended.
func (l *Lock) invited(id string, now float64) bool {
	at, turn := find(l.waiting, id), find(l.readers, "turn")
	return at >= 0 && l.waiting[at].score < 0 && turn >= 0 && l.readers[turn].score > now
}

// leave ends a reader.
func (c *call) leave(verb string, l *Lock, name string, now float64) any {
	no, stood := l.stands(name, now)
	was := find(l.readers, name)
	score := 0.0
	if was >= 0 {
		score = l.readers[was].score
	}
	l.readers, _ = remove(l.readers, name)
	if was < 0 && verb == "release" {
		l.waiting, _ = remove(l.waiting, c.id)
	}
	if no == -1 || was < 0 && len(l.readers) == 0 {
		return no
	}
	if len(l.waiting) == 0 || l.waiting[0].score > 0 {
		l.readers, _ = remove(l.readers, "turn")
	}
	done := int64(0)
	if stood {
		done = 1
	}
	top := l.longest()
	switch {
	case top <= now:
		l.Token, l.readers = "", nil
		if stood && len(l.queue) > 0 {
			done = 2
		}
	case stood && score > top:
		c.mark(l, top)
	}
	return done
}

// announce asks readers to leave, on behalf of a client that waits for the lock.
func (c *call) announce(l *Lock, key, waited string) any {
	if l.Token != Marker {
		return int64(0)
	}
	now := c.now.UnixMilli()
	since, life := now, int64(500)
	switch {
	case waited != "-":
		since = now - number(waited)
	case l.intent != 0:
		life = max(millis(l.intentUntil, c.now), 1)
	default:
		life = 50
	}
	again := l.intent != 0
	if again {
		since = min(since, l.intent)
	}
	l.intent, l.intentUntil = since, c.now.Add(time.Duration(life)*time.Millisecond)
	if again {
		c.some = len(l.readers) // messages may be lost, so some of the readers are told again
		return int64(1)
	}
	l.waiting = add(l.waiting, "writer", 1)
	for _, m := range l.readers {
		if reader, _, _ := strings.Cut(m.name, " "); reader != "" && reader != m.name && m.score >= float64(now) {
			c.publish(reader, "%s %s", Marker, key)
		}
	}
	return int64(1)
}
