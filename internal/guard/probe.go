package guard

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
// clock went on as before. Once a second, or more seldom if the client is calm, it also says that the server is still a
// master, and does not evict keys. No probe follows a registration or a poll that is likely to be refused. If that is granted all the same, a probe is sent then.
//
// A key that was evicted looks like a lock that was released. The record counts evictions, and a careful probe compares
// the count. It costs the server several times as much as another probe. Keys are evicted only when the memory is full, and
// only if an operator has changed the policy since the last thorough probe. So these are careful, and all probes are
// while the memory is nearly full.

// SCRIPT FLUSH deletes the probe's script, and the memory is as it was. So a probe that finds no script is followed by one that is an
// inspection, on the same connection: it loads the script again. The votes before it wait for it, and count if the process is the one that the
// connection began with, and its record is unchanged. Anything else is a doubt, and so is a missing script of a server that does not tell its run_id.
//
// That inspection replaces a record that does not hold, as every inspection does, and declares the MaxTTL that was in it. Otherwise the script that
// it loads would be a proof for other clients that an old record holds.

// Heartbeat is how often Beat is called.
const Heartbeat = time.Second

// A look is a probe that finds out whether the server is still a master, and evicts no keys.
const (
	calmLooks = 30 * Heartbeat // after how long a look of a calm client follows its next poll
	nearLooks = 10 * Heartbeat // after how long a look is due when a calm client becomes near
	voteLooks = 2 * Heartbeat  // after how long a probe behind votes is a look, also that of a calm client
)

// ErrChanged is a doubt, which ends a connection: the server may have lost locks.
var ErrChanged = errors.New("it may have forgotten locks: its record of restarts, its scripts or its clock have changed")

// errJumped is another one.
var errJumped = errors.New("its clock has jumped: its record of restarts is replaced, so that every client knows")

// doubtSpread is the time over which clients spread their dialling after a doubt. All clients of a
// server have the same doubt at the same time.
const doubtSpread = 50 * time.Millisecond

// RedialAfter returns how long to wait before dialling, beyond the schedule, after a connection has
// ended with err.
func RedialAfter(err error) time.Duration {
	if err == ErrChanged || err == errJumped {
		return rand.N(doubtSpread)
	}
	return 0
}

// A Probe is what a probe asks, beside whether the record is unchanged.
type Probe struct {
	thorough bool // for INFO
	careful  bool // whether keys were evicted
	anew     bool // it is an inspection, since the probe's script was gone
}

// Beat is called once a second. calm says that the client has no heartbeats but its polls, of which few have a probe. Beat reports whether no probe was sent
// since the last call, so that one is due.
func (g *Guard) Beat(calm bool) (due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	due = !g.servers.Client.Off && !g.probed
	g.probed = false
	g.thorough = g.thorough || !calm || time.Since(g.looked) >= calmLooks
	return due
}

// Near is called when the client may be granted the lock soon. If a calm client has not found out lately whether keys may be evicted, the next
// probe does, and Near reports that it is due now. quiet says that the master has not been heard of for longer than other clients are calm.
func (g *Guard) Near(quiet bool) (due bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	looked := time.Since(g.looked)
	if g.servers.Client.Off || looked < nearLooks && !(quiet && looked > Heartbeat) {
		return false
	}
	g.thorough, g.looked = true, time.Now()
	return true
}

// Next returns the probe to be sent behind commands, and reports whether one is needed. votes says that there are votes among them that need one now, and
// unproved that there are commands whose votes wait for a later one.
func (g *Guard) Next(votes, unproved bool) (p Probe, needed bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.servers.Client.Off || !votes && !g.anew && !(unproved && g.thorough) {
		return p, false
	}
	now := g.servers.Client.Clock()
	looks := g.thorough || votes && now.Time().Sub(g.looked) > voteLooks
	p = Probe{thorough: looks || g.legacy, careful: looks || g.careful, anew: g.anew}
	g.anew, g.inspecting = false, g.inspecting || g.anew
	if p.thorough {
		g.looked = now.Time()
	}
	g.probed, g.thorough = true, false
	g.probes.Push(now)
	return p, true
}

// Send sends a probe on the connection to a memory, without a flush.
func (m *Memory) Send(conn redis.Conn, p Probe) {
	if !p.anew {
		m.known.Probe(conn, p.careful)
	} else {
		for _, text := range m.loads() {
			conn.Send("SCRIPT", "LOAD", text)
		}
		incarnation.SendInspection(conn, m.Database, m.known, false, m.MaxTTL())
	}
	for _, section := range m.sections(p) {
		conn.Send("INFO", section)
	}
}

// loads returns the scripts that go ahead of a probe that is an inspection.
func (m *Memory) loads() []string { return append(m.Own.Texts(), incarnation.Script()) }

// sections returns the sections of INFO that a probe includes.
func (m *Memory) sections(p Probe) []string {
	switch {
	case !p.thorough:
		return nil
	case m.Legacy:
		return []string{"default"} // with the run_id
	}
	return []string{"replication", "memory"}
}

// A Found is what a probe has found.
type Found struct {
	After  clock.Reading // our clocks behind it
	Loaded bool          // the texts of Memory.Own were loaded again

	now     time.Time // the server's
	same    bool      // the record, and the process, are those of the inspection
	flushed bool      // the probe's script is gone, so nothing is known
	anew    bool      // it was an inspection
}

// Receive reads the replies to a probe on the connection to a memory. It returns an error if the connection has ended, a reply takes longer than
// patience, or the server may not vote any more. The next call of Confirm takes what it has found.
func (g *Guard) Receive(conn redis.Conn, patience time.Duration, m *Memory, p Probe) (found Found, err error) {
	if p.anew {
		found, err = g.receiveInspection(conn, patience, m)
	} else {
		found, err = m.receive(conn, patience)
	}
	if err != nil {
		return found, err
	}
	info := ""
	for range m.sections(p) {
		section, err := receiveOne(conn, patience)
		if err != nil {
			return found, err
		}
		text, _ := redis.String(section, nil)
		info += text
	}
	found.After, found.anew = g.servers.Client.Clock(), p.anew
	if p.thorough {
		found.same = found.same && (!m.Legacy || wire.InfoField(info, "run_id") == m.Run)
		return found, g.judge(m, info)
	}
	return found, nil
}

// judge takes in what INFO says. It returns an error if the server may not vote.
func (g *Guard) judge(m *Memory, info string) error {
	if err := wire.JudgeRole(info); err != nil {
		g.MarkStale()
		return err
	}
	if err := wire.JudgeMemory(info); err != nil {
		if !m.known.Record.CountsEvictions() {
			g.MarkStale()
		}
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.careful = wire.IsTight(info)
	return nil
}

// receive reads what a probe has found, without INFO.
func (m *Memory) receive(conn redis.Conn, patience time.Duration) (found Found, err error) {
	reply, err := redisconn.ReceiveWithin(conn, patience)
	switch {
	case wire.IsNoScript(err) && m.found.Run != incarnation.Unknown:
		return Found{flushed: true}, nil
	case redisconn.IsReply(err):
		return Found{}, nil
	case err != nil:
		return Found{}, redisconn.Ended(err)
	}
	found.now, found.same = m.known.Probed(reply)
	return found, nil
}

// receiveInspection reads what a probe has found that is an inspection. If the process is the same, it has the texts that were loaded before.
func (g *Guard) receiveInspection(conn redis.Conn, patience time.Duration, m *Memory) (found Found, err error) {
	loaded := m.Own != nil
	for range m.loads() {
		reply, err := receiveOne(conn, patience)
		if err != nil {
			return found, err
		}
		loaded = loaded && reply != nil
	}
	o, err := incarnation.ReadInspection(func() (any, error) { return redisconn.ReceiveWithin(conn, patience) })
	if err != nil && conn.Err() != nil {
		return found, redisconn.Ended(err)
	} else if wire.IsNoScript(err) { // the scripts were flushed again, behind the ones that were loaded
		return Found{flushed: true}, nil
	}
	if err == nil && o.Why != incarnation.Holds {
		g.mu.Lock()
		g.wrote = o
		g.mu.Unlock()
	}
	same := err == nil && o.Why == incarnation.Holds && o.Record.Text == m.known.Record.Text && o.Run == m.found.Run
	return Found{now: o.Now, same: same, Loaded: same && loaded}, nil
}

// receiveOne reads a reply, which is nil after an error reply.
func receiveOne(conn redis.Conn, patience time.Duration) (any, error) {
	reply, err := redisconn.ReceiveWithin(conn, patience)
	if err != nil && !redisconn.IsReply(err) {
		return nil, redisconn.Ended(err)
	}
	return reply, nil
}

// Confirm takes in what the oldest probe that is not answered has found. It reports whether the votes before it count, unless the master is in
// quarantine. If they do not count yet, Next has a probe that is an inspection, and they wait for that. An error ends the connection: they are void.
func (g *Guard) Confirm(found Found) (counts bool, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	before := g.probes.Pop()
	g.inspecting = g.inspecting && !found.anew
	if found.flushed {
		g.anew = g.anew || !g.inspecting // else an inspection follows this probe already
		return false, nil
	}
	if !found.same {
		return false, ErrChanged
	}
	drift := g.drift
	// A record that was replaced expires at another time, which looks like a jump, too. The inspection
	// of the next connection finds out which of the two it is.
	if g.jump = drift.Compare(found.now, before, found.After); g.jump != 0 {
		return false, ErrChanged
	}
	g.drift, g.seen = drift, found.now
	g.servers.clocks.compared(g.index, before, found.After, 0)
	if g.up && !g.since.IsZero() && g.settledLocked() {
		g.since, g.voted = time.Time{}, time.Time{}
	}
	return true, nil
}
