package flight

import "github.com/redlock-go/redlock/internal/model/explore"

// A way has the steps from a state.
type way struct {
	*world
	explore.Way[state]
}

func (w *world) successors(s *state, next func(string, state)) {
	if s.bad != "" {
		return
	}
	y := &way{w, explore.Way[state]{S: s, Next: next}}
	y.holder()
	y.waiter()
	y.traffic("R", s, func(s *state) *client { return &s.r })
	y.traffic("B", s, func(s *state) *client { return &s.b })
	y.others()
	y.misfortunes()
}

// holder has R act.
func (w *way) holder() {
	s := w.S
	if s.r.out.Full() {
		return
	}
	switch s.phase {
	case idle:
		w.Do("R registers", func(n *state) {
			n.phase = waiting
			n.r.send(command{register, ofR, n.noSub})
			n.r.cuts, n.deaf = 0, n.noSub
		})
	case waiting:
		if s.left.polls > 0 {
			w.Do("R polls", func(n *state) { n.left.polls--; n.r.send(command{poll, ofR, n.noSub}) })
		}
		w.Do("R has the lock, and its function begins", func(n *state) {
			n.phase = inside
			n.sure = w.isSure(n)
		})
	case inside:
		if s.left.heals > 0 {
			w.Do("R heals", func(n *state) { n.left.heals--; n.healed = true; n.r.out.Put(command{heal, ofR, false}) })
		}
		w.Do("the function returns", func(n *state) { n.phase = over })
	case over:
		sure := (s.sure || w.votesLate && w.isSure(s)) && (!s.healed || w.ignoresHeal) &&
			(s.r.pending == 0 || w.ignoresPoll) && (!s.missed || w.ignoresNew) && (s.r.cuts == 0 || w.ignoresLink) && (!s.deaf || w.ignoresDeaf)
		if sure && !s.r.out.Full() && s.r.out[1] == (command{}) {
			w.Do("R publishes and releases", func(n *state) {
				n.sure, n.voted = false, false
				n.r.out.Put(command{publish, ofR, false})
				n.r.out.Put(command{release, ofR, false})
			})
		}
	}
	if s.told {
		w.Do("R learns of a grant", func(n *state) { n.told, n.voted = false, true })
	}
}

// isSure reports whether R's token can have been set only before now.
func (w *world) isSure(s *state) bool {
	return s.voted
}

func (c *client) send(m command) {
	c.out.Put(m)
	c.pending++
}

// waiter has B act.
func (w *way) waiter() {
	s := w.S
	if !s.b.out.Full() && s.left.calls > 0 {
		name := "B calls and registers"
		if s.claim != 0 {
			name = "B gives up, and calls again"
		}
		if s.claim == 0 || s.b.out[1] == (command{}) {
			w.Do(name, func(n *state) {
				if n.left.calls--; n.claim != 0 {
					n.b.out.Put(command{release, n.claim, false})
				}
				n.claim = max(n.claim+1, ofB)
				n.late, n.unseen, n.answers = n.phase >= inside, false, false
				n.b.send(command{register, n.claim, false})
			})
		}
	}
	if !s.b.out.Full() && s.claim != 0 && s.left.pollsOfB > 0 {
		w.Do("B polls", func(n *state) { n.left.pollsOfB--; n.b.send(command{poll, n.claim, false}) })
	}
	for token := uint8(ofB); token <= s.claim; token++ {
		if s.values>>token&1 == 1 {
			w.Do("B receives the result", func(n *state) { n.values &^= 1 << token; w.receive(n, token) })
		}
	}
}

// receive handles a message with the result.
func (w *world) receive(s *state, token uint8) {
	if (token == s.claim || w.takesAnyClaim) && (s.answers || w.takesUnasked) && (s.unseen || w.takesUnasked && !s.answers || w.takesSeen) && s.late {
		s.bad = stale
	}
}

const stale = "B TAKES THE RESULT OF A FUNCTION THAT BEGAN BEFORE ITS CALL"

// traffic executes the commands of a client, and has answers arrive.
func (w *way) traffic(name string, s *state, of func(*state) *client) {
	c := of(s)
	if !c.out.Empty() && !c.in.Full() {
		w.Do("the master executes a command of "+name, func(n *state) {
			c := of(n)
			if a, ok := w.execute(n, c.out.Pop()); ok {
				c.in.Put(a)
			}
		})
	}
	if !c.stray.Empty() {
		w.Do("the master executes a command of "+name+" from a lost connection", func(n *state) { w.execute(n, of(n).stray.Pop()) })
	}
	if !c.in.Empty() {
		w.Do(name+" reads an answer", func(n *state) {
			c := of(n)
			c.pending--
			w.learn(n, c.in.Pop())
		})
	}
}

// learn handles an answer.
func (w *world) learn(s *state, a answer) {
	switch {
	case a.token == ofR && a.kind == poll && a.isNew:
		s.voted = a.granted
		s.missed = true
	case a.token == ofR:
		s.voted = s.voted || a.granted
	case a.token == s.claim && a.kind == register:
		s.answers, s.unseen = true, s.unseen || !a.sawR
	case a.token == s.claim && w.believesPolls:
		s.answers, s.unseen = true, s.unseen || !a.sawR
	}
}

// execute carries out a command at the master.
func (w *world) execute(s *state, m command) (a answer, answered bool) {
	switch m.kind {
	case register, poll:
		return w.acquire(s, m), true
	case heal:
		if s.key == nobody {
			s.key = m.token
		}
	case publish:
		if s.key == m.token || w.publishesBlind {
			s.values |= s.queue &^ (1<<ofB - 1)
		}
	case release:
		if s.key == m.token {
			s.key = nobody
		}
		s.queue &^= 1 << m.token
	}
	return a, false
}

// acquire carries out a registration or a poll. Who takes a free key, and who is granted it, is left open: see others. A
// command that was sent without a subscription takes the key, but does not touch the queue.
func (w *world) acquire(s *state, m command) answer {
	a := answer{kind: m.kind, token: m.token, sawR: s.key == ofR}
	switch {
	case s.key == m.token:
		a.granted = true
	case s.key == nobody && (s.queue == 0 || s.queue == 1<<m.token || m.deaf):
		a.granted, a.isNew = true, m.kind == poll && !s.queued(m.token)
		if s.key = m.token; !m.deaf {
			s.queue &^= 1 << m.token
		}
	case !m.deaf:
		a.isNew = !s.queued(m.token)
		s.queue |= 1 << m.token
	}
	return a
}

// others has S take a free key, and whoever leaves it free pass it on.
func (w *way) others() {
	s := w.S
	if s.key == ofS {
		w.Do("S releases", func(n *state) { n.key = nobody })
	}
	if s.key != nobody {
		return
	}
	w.Do("S takes the key", func(n *state) { n.key = ofS })
	for token := uint8(ofR); token <= ofB+1; token++ {
		if s.queued(token) {
			w.Do("the key is granted", func(n *state) {
				n.key = token
				n.queue &^= 1 << token
				n.told = n.told || token == ofR && !n.noSub
			})
		}
	}
}

// misfortunes has connections and memories be lost.
func (w *way) misfortunes() {
	s := w.S
	if s.left.deletes > 0 && s.key != nobody {
		w.Do("the key is gone", func(n *state) { n.left.deletes--; n.key = nobody })
	}
	if s.left.breaks > 0 {
		w.Do("R loses its connection", func(n *state) { n.left.breaks--; n.r.cut() })
	}
	if s.left.breaksOfB > 0 {
		w.Do("B loses its connection", func(n *state) { n.left.breaksOfB--; n.b.cut() })
	}
	if s.left.deaf > 0 && !s.noSub {
		w.Do("R loses its subscription", func(n *state) { n.left.deaf--; n.noSub, n.deaf, n.told = true, true, false })
	}
	if s.noSub {
		w.Do("R subscribes again", func(n *state) { n.noSub = false })
	}
	if s.left.saves > 0 {
		w.Do("the memory is copied", func(n *state) { n.left.saves--; n.saved, n.copied = n.memory, true })
	}
	if s.left.restores > 0 && s.copied {
		w.Do("the master restarts with the copy", func(n *state) { n.left.restores--; n.memory = n.saved; n.restart() })
	}
	if s.left.forgets > 0 {
		w.Do("the master restarts without its memory", func(n *state) { n.left.forgets--; n.memory = memory{}; n.restart() })
	}
}

// restart ends all connections. What was on its way to the master is gone.
func (s *state) restart() {
	s.r.cut()
	s.b.cut()
	s.r.stray, s.b.stray = explore.Lane[command]{}, explore.Lane[command]{}
}

// cut loses a connection: what was on its way may be executed later, and is never answered.
func (c *client) cut() {
	c.stray, c.out, c.in = c.out, explore.Lane[command]{}, explore.Lane[answer]{}
	c.pending, c.cuts = 0, 1
}
