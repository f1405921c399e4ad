package kept

import "github.com/redlock-go/redlock/internal/model/explore"

// grantHead grants a free key to the head of the queue.
func (s *state) grantHead() {
	if s.key != 0 || s.queue[0] == 0 || s.quarantine > 0 {
		return
	}
	token, to := s.queue[0], &s.fromM
	if token > wToken {
		to = &s.wIn
	}
	if to.Full() {
		return // a poll finds the key free
	}
	s.leaveQueue(token)
	s.key, s.left = token, ttl
	to.Put(message{granted, token, validity})
}

func (s *state) leaveQueue(token uint8) { explore.Remove(s.queue[:], token) }

func (s *state) inQueue(token uint8) bool { return s.queue[0] == token || s.queue[1] == token }

func (s *state) join(token uint8) {
	if !s.inQueue(token) {
		explore.Push(s.queue[:], token)
	}
}

// execute carries out a command at the master.
func (w *world) execute(s *state, m message, answers *lane) {
	answer := func(k kind) {
		if !answers.Full() {
			answers.Put(message{k, m.token, m.left})
		}
	}
	switch m.kind {
	case register, poll:
		answer(w.acquire(s, m))
	case renew:
		switch {
		case s.key == m.token, w.renewSets && s.key == 0:
			s.key, s.left = m.token, ttl
			answer(renewed)
		default:
			answer(gone)
		}
	case heal:
		if s.key == 0 {
			s.key, s.left = m.token, ttl
		}
	case release:
		if s.key == m.token {
			s.key = 0
		}
		s.leaveQueue(m.token)
		s.grantHead()
	}
}

// acquire carries out a registration or a poll.
func (w *world) acquire(s *state, m message) kind {
	switch {
	case s.key == m.token:
		return granted
	case s.key == 0 && s.quarantine == 0 && (s.queue[0] == 0 || s.queue[0] == m.token):
		s.leaveQueue(m.token)
		s.key, s.left = m.token, ttl
		return granted
	}
	isNew := !s.inQueue(m.token)
	s.join(m.token)
	s.grantHead()
	if m.token > wToken && s.key != 0 && s.key < wToken &&
		(isNew && !w.silent || m.kind == poll && !w.silentPolls && s.queue[0] == m.token) {
		s.recall = s.key
	}
	return refused
}
