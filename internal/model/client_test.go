package model

import (
	"github.com/redlock-go/redlock/internal/model/explore"
	"github.com/redlock-go/redlock/internal/model/rounds"
)

// This file defines what a client may do next. A client is a set of permissions rather than a program. It may
// give up or let its lease end at any time, which covers time-outs, unlocking, lost leases and the end of
// validity alike. It may decide long after the votes came, which covers slow replies.

func (w *world) clientSteps(s *state, c int, next func(action, state)) {
	switch s.clients[c].phase {
	case idle:
		w.begin(s, c, next)
	case acquiring:
		w.commit(s, c, next)
		if w.fences {
			w.secondRound(s, c, next)
		}
		w.end(s, c, gives, next)
	case holding:
		if w.renewals {
			w.beginRenewal(s, c, next)
		}
		w.end(s, c, ends, next)
	case renewing:
		w.askAgain(s, c, next)
		w.commitRenewal(s, c, next)
		w.giveUpRenewal(s, c, next)
		if w.countAfterEnd {
			w.outlive(s, c, next)
		}
		w.end(s, c, ends, next)
	}
	if w.sleeps {
		w.sleep(s, c, next)
	}
	if w.crashes && s.clients[c].phase != idle {
		w.crash(s, c, next)
	}
}

// begin starts an acquisition: it draws a new token and sends a SET to every master.
func (w *world) begin(s *state, c int, next func(action, state)) {
	if w.attempts > 0 && s.attempts == 0 {
		return
	}
	n := *s
	cl := &n.clients[c]
	cl.phase = acquiring
	if w.attempts > 0 {
		n.attempts--
	}
	if w.fences {
		cl.floor = n.highest
	}
	if w.slowAcquisition {
		cl.drawn = n.clock
	}
	for i := range n.masters {
		w.send(&n.masters[i].lanes[c], set)
	}
	next(action{verb: begins, client: c}, n)
}

// commit makes a lease from a quorum of votes. With fences, the votes of the quorum must have the same fence.
// The model leaves open which of the votes the client has read. So any such fence may be committed, even if a
// master has granted a larger one.
func (w *world) commit(s *state, c int, next func(action, state)) {
	tried := uint32(0)
	for i := range s.masters {
		fence := s.masters[i].lanes[c].ack
		if tried>>fence&1 == 1 || s.granted(c, fence) < majority {
			continue
		}
		tried |= 1 << fence
		explore.Do(s, next, action{verb: commits, client: c, fence: fence}, func(n *state) { n.hold(c, fence, w) })
	}
}

// granted counts the votes with the given fence. Without fences, the fence of every vote is 0.
func (s *state) granted(c int, fence uint8) int {
	return explore.Count(s.masters[:], func(m master) bool { return m.lanes[c].vote == counted && m.lanes[c].ack == fence })
}

// hold turns an acquisition into a lease.
func (s *state) hold(c int, fence uint8, w *world) {
	cl := &s.clients[c]
	cl.phase, cl.want, cl.fence = holding, 0, fence
	if w.fences {
		s.checkFence(c, fence, w)
		for i := range s.masters {
			if m := &s.masters[i]; m.earlier&rounds.Undecided(c) != 0 {
				m.past = max(m.past, fence)
			}
		}
		s.highest = max(s.highest, fence)
		if w.vanish {
			s.committed |= 1 << fence
		}
	}
	for o := range s.clients {
		if o != c && s.clients[o].phase.holds() && (w.sleeps || w.countAfterEnd) {
			s.clients[o].overtaken = true
		}
	}
	cl.floor, cl.drawn = 0, 0
	s.restOn(c)
}

// restOn makes the lease rest on the open round.
func (s *state) restOn(c int) {
	for i := range s.masters {
		m := &s.masters[i]
		m.key.Rest(c)
		m.earlier = m.earlier.Rest(c)
		m.lanes[c].vote, m.lanes[c].ack = none, 0
	}
}

// secondRound is for a client without a quorum that agrees on a fence. It asks every master to raise its
// fence to the largest one that the client has read.
func (w *world) secondRound(s *state, c int, next func(action, state)) {
	for fence := s.clients[c].want + 1; fence <= maxFence; fence++ {
		given, upTo := false, 0
		for i := range s.masters {
			if l := &s.masters[i].lanes[c]; l.vote == counted && l.ack <= fence {
				upTo++
				given = given || l.ack == fence
			}
		}
		if !given || upTo < majority || s.granted(c, fence) >= majority {
			continue
		}
		n := *s
		n.clients[c].want = fence
		for i := range n.masters {
			// At a master that answered exactly this fence the command would do nothing.
			if l := &n.masters[i].lanes[c]; l.vote != counted || l.ack != fence {
				w.send(l, raise.with(fence))
			}
		}
		next(action{verb: raises, client: c, fence: fence}, n)
	}
}

// end ends an attempt or a lease, for whatever reason. It queues the releases, which may arrive at any later
// time.
func (w *world) end(s *state, c int, v explore.Verb, next func(action, state)) {
	n := *s
	n.close(c)
	for i := range n.masters {
		l := &n.masters[i].lanes[c]
		refused := s.clients[c].phase == acquiring && s.masters[i].lanes[c].vote == none
		if !w.forgetRefused || !refused {
			l.sendRelease()
		}
		if w.healAfterRelease && s.clients[c].phase == renewing {
			explore.Push(l.queue[:w.room], heal.with(s.clients[c].fence))
		}
	}
	next(action{verb: v, client: c}, n)
}

// close ends all rounds of the client. Its keys may disappear from now on.
func (s *state) close(c int) {
	s.clients[c] = client{}
	for i := range s.masters {
		m := &s.masters[i]
		m.key.End(c, rounds.ByRound)
		m.earlier &^= rounds.Lease(c) | rounds.Undecided(c)
		s.forgetRound(m, c)
	}
}

// forgetRound drops the votes of the open round at m, and the extensions under way. An extension that is
// executed late would only let a key live longer, and a key may live for any time in the model.
func (s *state) forgetRound(m *master, c int) {
	l := &m.lanes[c]
	l.vote, l.ack = none, 0
	for explore.Remove(l.queue[:], extend) {
	}
}
