package master

import (
	"errors"
	"math/rand/v2"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// A probe checks behind votes whether they count. A good result says that the record is the one that
// the inspection of this connection has confirmed, that the memory is the same, and that the server's
// clock went on as before. Once a second it also says that the server is still a master, and does not evict keys.
//
// A key that was evicted looks like a lock that was released. The record counts evictions, and a careful probe compares
// the count. It costs the server several times as much as another probe. Keys are evicted only when the memory is full, and
// only if an operator has changed the policy since the last thorough probe. So probes are careful once a second, and always
// while the memory is nearly full.

// SCRIPT FLUSH deletes the probe's script, and the memory is as it was. So a probe that finds no script is followed by one that is an
// inspection, on the same connection: it loads the script again. The votes before it wait for it, and count if the process is the one that the
// connection began with, and its record is unchanged. Anything else is a doubt, and so is a missing script of a server that does not tell its run_id.
//
// That inspection replaces a record that does not hold, as every inspection does, and declares the MaxTTL that was in it. Otherwise the script that it loads would be a proof for other clients
// that an old record holds.

// Doubts, which end a connection: the server may have lost locks.
var (
	errChanged = errors.New("it may have forgotten locks: its record of restarts, its scripts or its clock have changed")
	errJumped  = errors.New("its clock has jumped: its record of restarts is replaced, so that every client knows")
)

// doubtSpread is the time over which clients spread their dialling after a doubt. All clients of a
// server have the same doubt at the same time.
const doubtSpread = 50 * time.Millisecond

// redialAfter returns how long to wait before dialling, beyond the schedule, after a connection has
// ended with err.
func redialAfter(err error) time.Duration {
	if err == errChanged || err == errJumped {
		return rand.N(doubtSpread)
	}
	return 0
}

// probe returns the probe to be sent behind votes. now is the time of our clocks.
func (g *guard) probe(now clock.Reading) item {
	it := newItem(wire.Probe, nil, nil)
	it.thorough, it.careful, it.anew = g.thorough || g.legacy, g.thorough || g.careful, g.anew
	g.anew, g.inspecting = false, g.inspecting || g.anew
	if it.thorough {
		g.looked = now.Time()
	}
	g.probed, g.thorough = true, false
	g.probes.push(now)
	return it
}

// sendProbe sends a probe.
func (l *link) sendProbe(it *item) error {
	if it.anew {
		if l.peer.own != nil {
			for _, text := range l.peer.own.Texts {
				l.conn.Send("SCRIPT", "LOAD", text)
			}
		}
		if err := incarnation.SendInspection(l.conn, l.database, l.known, false, l.known.Record.MaxTTL); err != nil {
			return err
		}
	} else if err := l.known.Probe(l.conn, it.careful); err != nil {
		return err
	}
	for _, section := range l.probedSections(it) {
		if err := l.conn.Send("INFO", section); err != nil {
			return err
		}
	}
	return nil
}

// probedSections returns the sections of INFO that a probe includes.
func (l *link) probedSections(it *item) []string {
	switch {
	case !it.thorough:
		return nil
	case l.legacy:
		return legacySections
	}
	return thoroughSections
}

var (
	thoroughSections = []string{"replication", "memory"}
	legacySections   = []string{"default"} // with the run_id
)

// receiveProbe reads the replies to a probe and delivers the grants before it. It returns an error if
// the result is odd.
func (l *link) receiveProbe(it item) error {
	patience := l.patience(it)
	found, err := l.receiveFound(it, patience)
	if err != nil {
		return err
	}
	info := ""
	for range l.probedSections(&it) {
		section, err := l.receiveOne(patience)
		if err != nil {
			return err
		}
		text, _ := redis.String(section, nil)
		info += text
	}
	after := l.m.cfg.Clock()
	l.now = after.Time()
	same := found.same
	if it.thorough {
		if err := wire.JudgeRole(info); err != nil {
			l.m.markStale()
			return err
		}
		if err := wire.JudgeMemory(info); err != nil {
			if !l.known.Record.CountsEvictions() {
				l.m.markStale()
			}
			return err
		}
		same = same && (!l.legacy || wire.InfoField(info, "run_id") == l.run)
		l.m.fills(wire.IsTight(info))
	}
	if found.flushed {
		l.probeAnew(after)
		return nil
	}
	held, err := l.confirm(found.now, same, it.anew, after)
	if err != nil {
		return err
	}
	l.m.deliver(held, nil)
	return nil
}

// A probed is what a probe has found.
type probed struct {
	now     time.Time // the server's
	same    bool      // the record, and the process, are those of the inspection
	flushed bool      // the probe's script is gone, so nothing is known
}

// receiveFound reads what a probe has found, without INFO.
func (l *link) receiveFound(it item, patience time.Duration) (found probed, err error) {
	if it.anew {
		return l.receiveInspection(patience)
	}
	reply, err := redisconn.ReceiveWithin(l.conn, patience)
	switch {
	case noScript(err) && l.inspected.found.Run != incarnation.Unknown:
		return probed{flushed: true}, nil
	case redisconn.IsReply(err):
		return probed{}, nil
	case err != nil:
		return probed{}, redisconn.Ended(err)
	}
	found.now, found.same = l.known.Probed(reply)
	return found, nil
}

// receiveInspection reads what a probe has found that is an inspection. The process is the same, so it has the texts that were loaded before.
func (l *link) receiveInspection(patience time.Duration) (found probed, err error) {
	own := l.peer.own
	if own != nil {
		for range own.Texts {
			reply, err := l.receiveOne(patience)
			if err != nil {
				return probed{}, err
			}
			if reply == nil {
				own = nil
			}
		}
	}
	o, err := incarnation.ReadInspection(func() (any, error) { return redisconn.ReceiveWithin(l.conn, patience) })
	if err != nil && l.conn.Err() != nil {
		return probed{}, redisconn.Ended(err)
	}
	if err == nil && o.Why != incarnation.Holds {
		l.m.mu.Lock()
		l.m.guard.wrote = o
		l.m.mu.Unlock()
	}
	same := err == nil && o.Why == incarnation.Holds && o.Record.Text == l.known.Record.Text && o.Run == l.inspected.found.Run
	if same && own != nil {
		l.own.Store(own)
	}
	return probed{now: o.Now, same: same}, nil
}

// probeAnew takes a probe that has found no script out of flight. The next probe is an inspection; the grants before it are held back until then.
func (l *link) probeAnew(after clock.Reading) {
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.popLocked(after.Time())
	m.guard.probes.pop()
	if !m.guard.inspecting { // else an inspection follows this probe already
		m.guard.anew = true
		poke(m.outbox.wake)
	}
}

// fills takes in whether the server's memory is nearly full.
func (m *Master) fills(tight bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.guard.careful = tight
}

// receiveOne reads a reply, which is nil after an error reply.
func (l *link) receiveOne(patience time.Duration) (any, error) {
	reply, err := redisconn.ReceiveWithin(l.conn, patience)
	if err != nil && !redisconn.IsReply(err) {
		return nil, redisconn.Ended(err)
	}
	return reply, nil
}

// confirm takes the oldest command, a probe, out of flight, and returns the grants before it. same
// says whether the probe found the record and the script unchanged, anew that it was an inspection; now is the server's time.
func (l *link) confirm(now time.Time, same, anew bool, after clock.Reading) (held []verdict, err error) {
	m := l.m
	m.mu.Lock()
	defer m.mu.Unlock()
	m.popLocked(after.Time())
	g, before := &m.guard, m.guard.probes.pop()
	g.inspecting = g.inspecting && !anew
	if !same {
		return nil, errChanged
	}
	drift := g.drift
	// A record that was replaced expires at another time, which looks like a jump, too. The inspection
	// of the next connection finds out which of the two it is.
	if g.jump = drift.Compare(now, before, after); g.jump != 0 {
		return nil, errChanged
	}
	g.drift, g.seen = drift, now
	m.cfg.Servers.clocks.compared(m.cfg.Index, before, after, 0)
	held = g.takeHeld()
	if m.status.State == Up {
		if !g.since.IsZero() && m.settledLocked() {
			g.since, g.voted = time.Time{}, time.Time{}
		}
		return held, nil
	}
	for i := range held {
		held[i].answer = wire.Answer{Err: m.status.Err}
	}
	return held, nil
}
