package server

import (
	"fmt"
	"slices"
	"strings"
)

// How the lock is passed on, and how clients wait for it.

// A passing says how a free lock is passed on.
type passing struct {
	how      string // of a release: -, open, free, undo, or = or + and the beginning of a token
	named    string // this beginning, or ""
	proposal string
	careful  string // poll: clients that are unheard are passed over; newcomer: they are not, whoever is ahead of them
	others   bool   // it is not known who has left the key free: readers come first if they have waited for longer
}

// A choice is the member of a queue to which a free lock is passed on.
type choice struct {
	name   string
	silent bool // none is live
	over   []string
}

// choose finds the member to which a lock is passed on: the one that the release names, if it is live, or else the first that is.
// Members whose clients are gone are removed. It reports false if the queue is empty then.
func (c *call) choose(key, chosen, careful string) (found choice, ok bool) {
	l := c.lock(key)
	accepts := func(is state) bool {
		return is == live || is == unheard && (careful == "" || careful == "newcomer")
	}
	if chosen != "" {
		switch is := c.judge(l.queue[find(l.queue, chosen)]); {
		case accepts(is):
			return choice{name: chosen}, true
		case is == gone:
			l.queue, _ = remove(l.queue, chosen)
		}
	}
	for _, m := range slices.Clone(l.queue) {
		switch is := c.judge(m); {
		case accepts(is):
			found.name = m.name
			return found, true
		case is == gone:
			l.queue, _ = remove(l.queue, m.name)
		default:
			found.over = append(found.over, m.name)
			if careful == "" {
				careful = "silent"
			}
		}
	}
	if len(found.over) == 0 {
		return found, false
	}
	found.name, found.silent = found.over[0], true
	return found, true
}

// named returns the member of a queue whose token begins with start, or "".
func (l *Lock) named(start string) string {
	if start == "" {
		return ""
	}
	for _, m := range l.queue {
		if strings.Contains(m.name, " "+start) {
			return m.name
		}
	}
	return ""
}

// pass passes a free lock on, and reports whether it did.
func (c *call) pass(key, token string, p passing) bool {
	l := c.lock(key)
	before := slices.Clone(l.queue)
	defer func() { c.tellNear(key, before, "") }()
	wait := len(l.waiting) > 0
	if p.how != "open" && p.others && len(l.waiting) > 0 && (len(l.queue) == 0 || l.waiting[0].score < l.queue[0].score) && c.letIn(key, p.proposal, false, "") {
		return true
	}
	found, ok := c.choose(key, l.named(p.named), p.careful)
	if (!ok || found.silent) && len(l.waiting) > 0 && c.letIn(key, p.proposal, false, "") {
		return true
	}
	if !ok {
		return false
	}
	m := parse(found.name)
	for _, name := range found.over {
		if at := find(l.queue, name); !found.silent && l.queue[at].score < aside {
			l.queue = add(l.queue, name, even(l.queue[at].score+aside))
		}
		c.tell(key, name)
	}
	grants := p.careful == "poll" || wait || strings.HasPrefix(p.how, "=")
	if found.silent || p.how == "open" || m.deaf && !grants {
		c.publish(m.client, "%s %s", token, key)
		return true
	}
	l.queue, _ = remove(l.queue, found.name)
	c.grant(l, key, m, p.proposal)
	return true
}

// grant sets a free key for a claim, and tells it. The message says which claim is the head of the queue now.
func (c *call) grant(l *Lock, key string, m claim, proposal string) {
	given := int64(0)
	if m.fenced {
		given = c.nextFence(&l.fenced, proposal)
	}
	c.set(l, m.token, m.ms)
	next := ""
	if len(l.queue) > 0 {
		next = "/" + parse(l.queue[0].name).token
	}
	c.publish(m.client, "+ %s %s * %d%s %s", m.token, c.run(), given, next, key)
}

// An acquisition is a command to register, to poll or to acquire.
type acquisition struct {
	verb, key, token string
	ttl              int64
	waited, g        string
	proposal         string
	claims           bool   // it is that of a claim, which waits
	deaf             bool   // its client has no subscription
	mine             string // the claim's member of the queue; "": it joins none
}

// isClaim reports whether an acquisition with this g is that of a claim.
func isClaim(g string) bool { return strings.ContainsAny(g, "123456789") }

// memberOf returns the member of a claim in queues.
func (c *call) memberOf(token, g string) string { return c.id + " " + token + " " + g }

func (c *call) acquisition(w word, key, token string) acquisition {
	a := acquisition{verb: w.verb, key: key, token: token, ttl: number(w.arg(0)), waited: w.arg(1), g: w.arg(2), proposal: w.arg(3)}
	a.claims = isClaim(a.g)
	text, deaf := strings.CutSuffix(a.waited, "-")
	if a.deaf = a.claims && deaf && text != ""; !a.claims || text == "" || deaf && number(text) < 1000 {
		return a
	}
	if a.mine = c.memberOf(token, a.g); deaf {
		a.mine += "p"
	}
	return a
}

// waits reports whether the claim waits.
func (a acquisition) waits() bool { return a.claims && strings.ContainsAny(a.waited, "0123456789") }

// head returns the head of a queue; "": it is empty.
func (l *Lock) head() string {
	if len(l.queue) == 0 {
		return ""
	}
	return l.queue[0].name
}

// acquire executes a command to register, to poll or to acquire.
func (c *call) acquire(w word, key, token string) any {
	a := c.acquisition(w, key, token)
	l := c.lock(key)
	head, before := "", slices.Clone(l.queue)
	if l.Token == "" && a.ttl > 0 {
		if a.verb != "acquire" {
			head = l.head()
		}
		if c.mayTake(a, head) {
			c.tellNear(key, before, a.mine)
			return c.take(a)
		}
	}
	if l.Token == token {
		n := int64(1)
		if a.claims {
			n = 2 + millis(l.Until, c.now)
		}
		return c.acquired(a, n, "", false, 0, 0)
	}
	fresh, rank := c.join(a)
	c.tellNear(key, before, a.mine) // mayTake may have removed members, and the claim may have joined ahead of others
	if a.verb == "again" && l.Token == "" && a.ttl > 0 && (a.mine != "" || !a.deaf || head == "" || !parse(head).deaf) {
		c.pass(key, token, passing{careful: "poll"})
		if l.Token == token {
			return c.acquired(a, 2+millis(l.Until, c.now), "", fresh, 0, 0)
		}
	}
	if l.Token == Marker && a.waits() {
		if first := c.runs(key, false); first == "" || first == a.mine {
			c.recallReaders(key, fresh)
		}
	}
	if strings.Contains(l.Token, "~") && (fresh || a.mine == "" || rank == 0) {
		c.recall(key, l.Token)
	}
	n := int64(-1)
	if l.Token != "" && rank < near {
		n = -2 - millis(l.Until, c.now)
	}
	return c.acquired(a, n, l.Token[:min(len(l.Token), 256)], fresh, 0, rank)
}

// mayTake reports whether an acquisition sets the free key although head is the head of the queue.
func (c *call) mayTake(a acquisition, head string) bool {
	switch {
	case head == "" || head == a.mine || a.verb == "again" && a.deaf && c.outwaits(a, head):
		return true
	case a.verb != "register":
		return false
	case a.waited == "--":
		return true
	}
	found, ok := c.choose(a.key, "", "newcomer")
	return !ok || found.silent
}

// outwaits reports whether a deaf claim may take the key although another one is the head: that one is deaf, too, and has not waited for more
// than four times as long.
func (c *call) outwaits(a acquisition, head string) bool {
	queue := c.lock(a.key).queue
	return parse(head).deaf && c.micros-queue[0].score <= 4000*float64(number(a.waited))
}

// take sets a free key.
func (c *call) take(a acquisition) any {
	l := c.lock(a.key)
	c.set(l, a.token, a.ttl)
	was := 0
	if a.claims {
		before := slices.Clone(l.queue)
		was = c.dequeue(&l.queue, a.token, a.g)
		c.tellNear(a.key, before, "")
	}
	given := int64(0)
	if a.proposal != "" {
		given = c.nextFence(&l.fenced, a.proposal)
	}
	return c.acquired(a, 1, "", a.verb == "again" && was == 0, given, 0)
}

// join puts a claim into the queue, or takes it back to its place. Returns whether it had not been there, and how many
// are ahead of it.
func (c *call) join(a acquisition) (fresh bool, rank int) {
	if a.mine == "" {
		return false, 0
	}
	return c.enqueue(&c.lock(a.key).queue, a.verb, a.mine, number(a.waited))
}

// enqueue puts a member into a queue, or takes it back to its place.
func (c *call) enqueue(queue *[]member, verb, mine string, waited int64) (fresh bool, rank int) {
	ticket := even(c.micros - float64(waited)*1000)
	c.micros++
	c.note()
	other := mine + "p" // its member from when it had no subscription
	if text, deaf := strings.CutSuffix(mine, "p"); deaf {
		other = text
	}
	switch at := find(*queue, mine); {
	case at < 0 && verb != "register" && find(*queue, other) >= 0: // it keeps its place
		if ticket = (*queue)[find(*queue, other)].score; ticket >= aside {
			ticket = even(ticket - aside)
		}
		*queue, _ = remove(*queue, other)
		*queue = add(*queue, mine, ticket)
	case at < 0:
		*queue, fresh = add(*queue, mine, ticket), true
	case verb != "register" && (*queue)[at].score >= aside:
		*queue = add(*queue, mine, even((*queue)[at].score-aside))
	}
	return fresh, find(*queue, mine)
}

// dequeue takes a claim out of a queue, and returns how many members it had there: one may be from when its client had no subscription.
func (c *call) dequeue(queue *[]member, token, g string) (was int) {
	name := c.memberOf(token, g)
	*queue, was = remove(*queue, name, name+"p")
	return was
}

// acquired returns the answer to an acquisition.
func (c *call) acquired(a acquisition, n int64, standing string, fresh bool, given int64, rank int) any {
	last := given
	if a.proposal != "" && given == 0 {
		last = c.lock(a.key).fence
	}
	if standing == Marker || a.claims && (n != 1 || fresh || a.proposal != "") {
		f := int64(0)
		if fresh {
			f = 1
		}
		return []any{n, last, standing, f, int64(rank)}
	}
	if a.proposal != "" {
		return []any{n, last}
	}
	return n
}

// recall asks a client to give up a lock that it may keep.
func (c *call) recall(key, token string) {
	random, keeper, ok := strings.Cut(token, "~")
	if ok && random != "" && keeper != "" && len(token) <= 256 && !strings.ContainsAny(random, "@") && !strings.Contains(keeper, " ") {
		c.publish(keeper, "? %s %s", token, key)
	}
}

// release executes a command that ends an acquisition.
func (c *call) release(w word, key, token string) any {
	l := c.lock(key)
	g, how, proposal := w.arg(0), w.arg(1), w.arg(2)
	if proposal == "0" {
		proposal = ""
	}
	if w.verb == "undo" {
		how = w.verb
	}
	named, byHolder := "", how == "" || how == "-" || how == "open"
	if how != "" && (how[0] == '=' || how[0] == '+') {
		named, byHolder = how[1:], how[0] == '+'
	}
	n := int64(0)
	switch l.Token {
	case "":
	case token:
		n, l.Token = 1, ""
		c.grantInVain(w, l, token, proposal)
	default:
		n = -1
	}
	if w.verb != "undo" {
		before := slices.Clone(l.queue)
		c.dequeue(&l.queue, token, g)
		c.tellNear(key, before, "")
	}
	switch {
	case n == -1, how == "free", how == "undo" && n == 0:
		return n
	case (n == 1 && byHolder || named == Marker) && c.letIn(key, proposal, n == 1 && byHolder, openFor(how, token)):
	case c.pass(key, token, passing{how: how, named: named, proposal: proposal, others: !(n == 1 && byHolder)}):
	default:
		return n
	}
	if n == 1 {
		return int64(2)
	}
	return n
}

// openFor returns the token that a release tells which leaves the key open; "": it does not.
func openFor(how, token string) string {
	if how == "open" {
		return token
	}
	return ""
}

// grantInVain raises the fence if a release grants the lock to the head of the queue although its client has ended, since that is
// noticed afterwards. Then the release passes the lock on to the next one. In a call of more commands the release asks first whether the
// client has ended.
func (c *call) grantInVain(w word, l *Lock, token, proposal string) {
	named, isNamed := strings.CutPrefix(w.arg(1), "+")
	if !c.first || len(l.queue) == 0 || len(l.waiting) > 0 || w.verb == "undo" || !isClaim(w.arg(0)) || w.arg(1) != "" && w.arg(1) != "-" && !isNamed {
		return
	}
	head := l.queue[0]
	if isNamed {
		front := l.queue[:min(near+1, len(l.queue))]
		at := slices.IndexFunc(front, func(m member) bool { return strings.Contains(m.name, " "+named) })
		if at < 0 {
			return
		}
		head = front[at]
	}
	m := parse(head.name)
	if !m.fenced || m.deaf || head.name == c.memberOf(token, w.arg(0)) {
		return
	}
	subscribed := c.subscribed
	c.subscribed = func(string) bool { return true }
	is := c.judge(head)
	if c.subscribed = subscribed; is != silent && !subscribed(m.client) {
		c.nextFence(&l.fenced, proposal)
	}
}

// tellValue sends a value to the claims that wait for a lock, as long as a token has it, and returns how many were told.
func (c *call) tellValue(key string, args []string) any {
	token, value, mark := args[0], args[1], "!"
	if len(args) == 3 { // the holder may not have had the key here in time
		mark = ";"
	}
	l := c.lock(key)
	told, left := int64(0), 1<<20
	if l.Token != token {
		return told
	}
	for _, m := range l.queue[:min(1024, len(l.queue))] {
		of := parse(m.name)
		if of.deaf {
			continue
		}
		text := fmt.Sprintf("%s %s %s %d %s%s", mark, of.token, token[:min(32, len(token))], len(key), key, value)
		if left -= len(text); left < 0 {
			break
		}
		c.publish(of.client, "%s", text)
		told++
	}
	return told
}
