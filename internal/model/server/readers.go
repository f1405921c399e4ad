package server

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"
)

// How readers share a lock. While they hold it, the key holds Marker, which lives as long as the longest of them.

// runs returns the first member of the queue whose client runs; "": there is none. A claim that polls passes over those that are unheard. No
// more than lookedAt members are looked at.
func (c *call) runs(key string, polls bool) string {
	queue := slices.Clone(c.lock(key).queue)
	for _, m := range queue[:min(lookedAt, len(queue))] {
		if is := c.judge(m); is == live || is == unheard && !polls {
			return m.name
		}
	}
	return ""
}

const lookedAt = 8

// admit has the readers that wait stand, but those whose clients are gone or silent. It reports whether there are any. If others stand
// already, no writer waits.
func (c *call) admit(key, proposal string, beside bool) bool {
	l := c.lock(key)
	now := c.now.UnixMilli()
	var entering []claim
	var over []member
	fences := false
	for _, m := range slices.Clone(l.waiting) {
		is := c.judge(m)
		if is == silent {
			over = append(over, m)
			continue
		}
		l.waiting, _ = remove(l.waiting, m.name)
		if of := parse(m.name); is != gone {
			entering, fences = append(entering, of), fences || of.fenced
		}
	}
	if len(entering) == 0 {
		if len(over) > 0 {
			c.tell(key, over[0].name)
		}
		return false
	}
	given := int64(0)
	if fences {
		given = c.sharedFence(&l.fenced, proposal)
	}
	for _, m := range over {
		if m.score < aside {
			l.waiting = add(l.waiting, m.name, even(m.score+aside))
		}
		c.tell(key, m.name)
	}
	if !beside {
		l.readers = nil
	}
	for _, of := range entering {
		l.readers = add(l.readers, of.client+" "+of.token, float64(now+of.ms))
	}
	c.mark(l, l.longest())
	next := ""
	if !beside {
		if writer := c.runs(key, false); writer != "" {
			next = "/" + parse(writer).token
		}
	}
	for _, of := range entering {
		c.publish(of.client, "+ %s %s * %d%s %s", of.token, c.run(), given, next, key)
	}
	return true
}

// sharedFence gives a fence to readers, who may have that of others: the proposed one, or the last quarter of a second of the clock.
func (c *call) sharedFence(l *fenced, proposal string) int64 {
	given := c.ticks() / (second / 4) * (second / 4)
	if proposal != "" {
		given = min(number(proposal), c.ticks()+second)
	}
	last, _ := c.raiseTo(l, given)
	return last
}

// letIn grants a free key to the readers that wait for it. It reports whether the lock is passed on to readers. An announcement ends with a
// lease whose holder lets readers in. Otherwise it stands for a client that does not queue. open is the token of a lease that leaves the key free if others wait, too.
func (c *call) letIn(key, proposal string, byHolder bool, open string) bool {
	l := c.lock(key)
	switch {
	case len(l.waiting) == 0:
		return false
	case byHolder:
		l.intent = 0
	case l.intent != 0:
		return false
	}
	if open != "" && len(l.queue) > 0 {
		c.publish(parse(l.waiting[0].name).client, "%s %s", open, key)
		return true
	}
	return c.admit(key, proposal, false)
}

// recallReaders asks the readers that hold a key to leave: all, or some, since messages may be lost.
func (c *call) recallReaders(key string, all bool) {
	l := c.lock(key)
	if !all {
		c.some += len(l.readers)
		return
	}
	for _, m := range l.readers {
		if reader, _, _ := strings.Cut(m.name, " "); reader != "" && reader != m.name && m.score >= float64(c.now.UnixMilli()) {
			c.publish(reader, "%s %s", Marker, key)
		}
	}
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

// readWord executes a command of readers, or about them.
func (c *call) readWord(w word, key, token string) any {
	l := c.lock(key)
	name, now := c.id+" "+token, float64(c.now.UnixMilli())
	switch w.verb {
	case "register", "again", "asks":
		return c.readFenced(w, key, token)
	case "announce":
		return c.announce(l, key, w.arg(0))
	case "retract":
		was := l.intent
		l.intent = 0
		return int64(min(was, 1))
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
		if l.intent != 0 || c.runs(key, false) != "" {
			return int64(2)
		}
		return int64(1)
	case "commit":
		n, stands := l.stands(name, now)
		if !stands {
			return []any{n, int64(0)}
		}
		fixed := number(w.arg(0))
		last, err := c.raiseTo(&l.fenced, fixed)
		switch {
		case err != nil:
			return err
		case last != fixed:
			return []any{int64(-2), last}
		}
		c.stand(l, name, number(w.arg(1)), false)
		return []any{int64(1), last}
	}
	return c.leave(w, key, token, now)
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

// readFenced executes an acquisition by a reader.
func (c *call) readFenced(w word, key, token string) any {
	l := c.lock(key)
	last := l.fence
	v := c.vote(w, key, token)
	if proposed := w.arg(3); proposed != "" && v.n > 0 {
		if w.verb != "register" {
			proposed = ""
		}
		last = c.sharedFence(&l.fenced, proposed)
	} else if proposed == "" {
		last = 0
	}
	if w.arg(2) != "-" && (w.arg(3) != "" || v.n != 1 || v.fresh || v.rank > 0) {
		fresh := int64(0)
		if v.fresh {
			fresh = 1
		}
		return []any{v.n, last, v.standing, fresh, v.rank}
	}
	if v.n == 1 && v.rank == 1 {
		v.n = 2
	}
	if w.arg(3) == "" {
		return v.n
	}
	return []any{v.n, last}
}

// A vote is what a master answers to an acquisition by a reader.
type vote struct {
	n        int64
	standing string
	fresh    bool  // the claim was not known
	rank     int64 // how many are ahead of it; of a reader that stands: 1 if a writer waits
}

// readersNear is how many readers that wait are near.
const readersNear = 16

func (c *call) vote(w word, key, token string) vote {
	l := c.lock(key)
	ttl, g, polls := number(w.arg(0)), w.arg(2), w.verb != "register"
	text, deaf := strings.CutSuffix(w.arg(1), "-")
	waited := number(text)
	if polls {
		if v, does := c.stood(key, token); does {
			return v
		}
	}
	mine := ""
	if g != "-" && (!deaf || waited >= 1000) {
		mine = c.id + " " + token + " " + g
		if deaf {
			mine += "p"
		}
	}
	enters, writer := false, ""
	if l.Token == "" || l.Token == Marker {
		enters, writer = c.enters(w.verb, key, mine != "", ttl, waited)
	}
	if enters {
		return c.entered(w, key, token, ttl, mine != "", writer)
	}
	v := vote{n: -1}
	if mine != "" {
		fresh, rank := c.enqueue(&l.waiting, w.verb, mine, waited)
		v.fresh, v.rank = fresh, int64(rank)
	}
	if mine != "" && polls && l.Token == "" && ttl > 0 && c.letIn(key, "", false, "") {
		if admitted, does := c.stood(key, token); does {
			admitted.fresh = v.fresh
			return admitted
		}
	}
	if l.Token != "" && l.Token != Marker && (v.fresh || v.rank == 0) {
		c.recall(key, l.Token)
	}
	if l.Token != "" && v.rank < readersNear {
		v.n = -2 - millis(l.Until, c.now)
	}
	v.standing = l.Token[:min(len(l.Token), 256)]
	return v
}

// stood returns the answer to a reader that stands.
func (c *call) stood(key, token string) (v vote, does bool) {
	l, name, now := c.lock(key), c.id+" "+token, c.now.UnixMilli()
	if _, does = l.stands(name, float64(now)); does {
		v.n = 2 + int64(l.readers[find(l.readers, name)].score) - now
		if l.intent != 0 || c.runs(key, false) != "" {
			v.rank = 1
		}
	}
	return v, does
}

// entered has a reader stand, and lets those in that wait if no writer does. It returns the answer.
func (c *call) entered(w word, key, token string, ttl int64, queues bool, writer string) vote {
	l, g := c.lock(key), w.arg(2)
	if ttl == 0 {
		ttl = number(g)
	}
	c.stand(l, c.id+" "+token, ttl, true)
	was := 0
	if g != "-" {
		was = c.dequeue(&l.waiting, token, g)
	}
	if queues && writer == "" && len(l.waiting) > 0 {
		c.admit(key, "", true)
	}
	v := vote{n: 1, fresh: w.verb != "register" && was == 0}
	if writer != "" {
		v.rank = 1
	}
	return v
}

// announcer stands for a writer that has announced itself, and is in no queue.
const announcer = "announcer"

// enters reports whether a reader is to stand where no writer holds the key, and which writer waits.
func (c *call) enters(verb, key string, queues bool, ttl, waited int64) (enters bool, writer string) {
	l := c.lock(key)
	held, young := l.Token == Marker, ""
	if l.intent != 0 {
		young = announcer // unless it is the first case below
	}
	writer = c.runs(key, verb != "register")
	switch {
	case l.intent != 0 && l.intent <= c.now.UnixMilli()-waited:
		return held && verb == "asks", announcer
	case !queues && writer != "" && held: // the elder one
		since := l.queue[find(l.queue, writer)].score
		return since > c.micros-float64(waited)*1000, writer
	case !queues:
		return ttl > 0, cmp.Or(writer, young)
	case held:
		return writer == "" || verb == "asks", cmp.Or(writer, young)
	}
	return ttl > 0 && writer == "" && (verb != "register" || len(l.waiting) == 0), writer
}

// leave ends a reader, and passes the lock on if it was the last one.
func (c *call) leave(w word, key, token string, now float64) any {
	l := c.lock(key)
	name := c.id + " " + token
	no, stood := l.stands(name, now)
	score := 0.0
	if at := find(l.readers, name); at >= 0 {
		score = l.readers[at].score
	}
	var was int
	l.readers, was = remove(l.readers, name)
	if g := w.arg(0); w.verb == "release" && g != "" {
		before := slices.Clone(l.waiting)
		c.dequeue(&l.waiting, token, g)
		for i, m := range l.waiting[:min(readersNear, len(l.waiting))] {
			if i >= len(before) || find(before[:min(readersNear, len(before))], m.name) < 0 {
				c.tell(key, m.name)
			}
		}
	}
	done := int64(0)
	if stood {
		done = 1
	}
	switch {
	case no == -1:
		return no
	case was > 0 || len(l.readers) > 0:
		if top := l.longest(); top > now {
			if stood && score > top {
				c.mark(l, top)
			}
			return done
		}
		l.Token, l.readers = "", nil
	case l.Token != "":
		return done
	}
	how := w.arg(1)
	named, _ := strings.CutPrefix(how, "=")
	if how != "free" && c.pass(key, token, passing{named: named, others: !stood}) && stood {
		return int64(2)
	}
	return done
}

// announce asks readers to leave, on behalf of a client that waits for the lock, and stands in no queue.
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
	c.recallReaders(key, !again)
	return int64(1)
}
