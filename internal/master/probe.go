package master

import (
	"errors"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/incarnation"
)

// sendProbe sends a probe.
func (l *link) sendProbe(s *sight) error {
	if err := s.known.Probe(l.conn); err != nil || !l.legacy && !s.role {
		return err
	}
	if !l.legacy {
		return l.conn.Send("INFO", "replication")
	}
	return l.conn.Send("INFO")
}

// receiveProbe reads the replies to a probe. It decides on the grants before it,
// unless a look is under way or is needed.
func (l *link) receiveProbe(it item) bool {
	var replies [3]any
	n := 2
	if l.legacy || it.sight.role {
		n = 3
	}
	patience := l.m.patience(it, l.now)
	for i := range replies[:n] {
		reply, err := receiveWithin(l.conn, patience)
		if err != nil && !isReply(err) {
			return l.broken(err)
		}
		replies[i] = reply // nil with an error, which then is an odd reply, too
	}
	m, s := l.m, it.sight
	after := m.cfg.Clock()
	l.now = after.Time()
	now, there := s.known.Probed(replies[0], replies[1])
	if n == 3 {
		info, _ := redis.String(replies[2], nil)
		if err := judgeRole(info); err != nil {
			m.suspect()
			return l.refused(err)
		}
		there = there && (!l.legacy || InfoField(info, "run_id") == s.known.Record.Run)
	}
	m.mu.Lock()
	m.popLocked(l.now)
	g := &m.guard
	drift, jump := g.drift, time.Duration(0)
	if there {
		jump = drift.Look(now, s.before, after)
	}
	var held []verdict
	switch {
	case g.looks > 0: // the last of them decides
		if jump != 0 && s.known == g.known {
			g.leapt = jump
		}
	case !there || s.known != g.known || jump != 0:
		g.leapt = jump
		m.lookLocked()
	default:
		g.drift, g.seen = drift, now
		g.idle = append(g.idle, s)
		held = m.judgeLocked(true)
	}
	m.mu.Unlock()
	m.deliver(held, nil)
	return true
}

// receiveLook reads the replies to a look. The last of those under way decides
// on the grants before it.
func (l *link) receiveLook(it item) bool {
	m := l.m
	patience := m.patience(it, l.now)
	found, err := incarnation.ReadLook(func() (any, error) { return receiveWithin(l.conn, patience) })
	if err != nil && (l.conn.Err() != nil || err == errTooLarge) {
		return l.broken(err)
	} else if err != nil {
		return !l.demoted(err) && l.refused(errUnguarded(err))
	} else if l.run != "" && found.Run != incarnation.Unknown && found.Run != l.run {
		return l.refused(errSwitched)
	}
	o := lookout{sight: *it.sight, look: found, after: m.cfg.Clock()}
	l.now = o.after.Time()
	m.mu.Lock()
	m.popLocked(l.now)
	g := &m.guard
	g.looks--
	text := found.Record.Text
	if text != g.latest().Record.Text { // another, which is known once it was loaded and confirmed
		g.next, g.stale, g.found = incarnation.Know(found), returned(found, g.seen), found.Why
		m.lookLocked()
	} else if g.looks == 0 && text != o.known.Record.Text {
		m.lookLocked()
	}
	if g.looks > 0 {
		restless := g.tries > maxLooks
		m.mu.Unlock()
		return !restless || l.refused(errRestless)
	}
	replaced := g.next != nil
	if replaced {
		o.look.Why = g.found
	}
	jump := m.knowLocked(o, replaced)
	m.ripenLocked(l.now)
	held := m.judgeLocked(!replaced && jump == 0)
	g.forgetLooks()
	m.mu.Unlock()
	m.tell()
	m.deliver(held, nil)
	poke(l.turned)
	if jump != 0 {
		m.cfg.Servers.weigh(m, jumpOf(jump))
	}
	return true
}

var errSwitched = errors.New("another server answers on the same connection")
