package master

import (
	"cmp"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/redisconn"
	"github.com/redlock-go/redlock/internal/wire"
)

// read reads the replies that are due, in order, until the link has ended.
func (l *link) read() {
	for range l.due {
		if l.dead.Load() {
			return
		}
		l.now = time.Now()
		for it, ok := l.m.oldest(); ok; it, ok = l.m.oldest() {
			if err := l.receive(it); err != nil {
				l.die(err)
				return
			}
		}
	}
}

// receive reads the reply to the oldest command, or to the batch that begins with it. It returns an
// error if the connection cannot be used any more.
func (l *link) receive(it item) error {
	switch it.Kind {
	case wire.Probe:
		return l.receiveProbe(it)
	case wire.Asks:
		return l.receiveQuery(it)
	}
	reply, err := redisconn.ReceiveWithin(l.conn, l.patience(it))
	l.now = time.Now()
	switch {
	case redisconn.IsReply(err):
		return l.refused(it, err)
	case err != nil:
		return redisconn.Ended(err)
	case it.batch <= 1:
		return l.accept(it, reply)
	}
	return l.acceptBatch(it, reply)
}

// receiveQuery reads the replies to a query. An error reply is one of them.
func (l *link) receiveQuery(it item) error {
	replies := make([]any, len(it.Request.(wire.Query)))
	patience := l.patience(it)
	for i := range replies {
		reply, err := redisconn.ReceiveWithin(l.conn, patience)
		if err != nil && !redisconn.IsReply(err) {
			return redisconn.Ended(err)
		} else if err != nil {
			reply = err
		}
		replies[i] = reply
	}
	l.now = time.Now()
	l.settle(wire.Answer{Outcome: wire.Granted, Replies: replies}, 0)
	return nil
}

// acceptBatch decodes the reply to the batch that begins with the oldest command: a list, or a 1 that stands
// for all members.
func (l *link) acceptBatch(first item, reply any) error {
	replies, _ := reply.([]any)
	all := reply == int64(1)
	if !all && len(replies) != first.batch {
		return garbled(first.Kind, reply)
	}
	for i := range first.batch {
		it, _ := l.m.oldest()
		if !all {
			reply = replies[i]
		}
		if err := l.accept(it, reply); err != nil {
			return err
		}
	}
	return nil
}

// patience returns how much longer to wait for the reply to a command. For a reply that is overdue, that is
// another NodeTimeout: if this process was stopped, the reply has arrived, and the connection is
// usable. If replies are overdue for DialTimeout, the server is too slow to be of use. After Close all replies are
// awaited for DialTimeout together.
func (l *link) patience(it item) time.Duration {
	cfg := &l.m.cfg
	if left, closed := l.m.leftToClose(l.now); closed {
		return left
	}
	if left := it.Sent.Add(max(cfg.DialTimeout, cfg.NodeTimeout)).Sub(l.now); left > 0 {
		l.overdue = time.Time{}
		return max(left, cfg.NodeTimeout)
	}
	if l.overdue.IsZero() {
		l.overdue = l.now
	}
	return max(min(cfg.NodeTimeout, l.overdue.Add(cfg.DialTimeout).Sub(l.now)), time.Nanosecond)
}

// accept decodes the reply to the oldest command.
func (l *link) accept(it item, reply any) error {
	a, ok := wire.Decode(&it.Command, reply)
	if !ok {
		return garbled(it.Kind, reply)
	}
	l.settle(a, 0)
	return l.checkRole(a.Err)
}

// refused settles the oldest command, or the batch that begins with it, after an error reply.
func (l *link) refused(it item, err error) error {
	if it.Scripted() && wire.IsNoScript(err) {
		if it.Owned() {
			l.own.Store(nil) // it may be another process: there, the texts for all find out
		}
		// Ahead of the commands that settle sends again, and once for a batch.
		l.m.push(newItem(it.script(), nil, nil))
	}
	if it.OfSet() && it.batch == 2 && !wire.IsNoScript(err) {
		l.m.mu.Lock()
		l.m.outbox.apart = l.now.Add(apartFor)
		l.m.mu.Unlock()
	}
	for range max(it.batch, 1) {
		l.settle(wire.Answer{Err: err}, it.batch)
	}
	return l.checkRole(err)
}

// checkRole returns an error if an error reply shows that the server is a replica.
func (l *link) checkRole(err error) error {
	if !l.m.guarded() || !wire.IsReadOnly(err) {
		return nil
	}
	l.m.guard.MarkStale()
	return wire.ErrReplica
}

// settle takes the oldest command out of flight, acts on its answer, and delivers the answer. A grant
// is held back until the probe behind it confirms it. If batch is above 1, the answer is an error for
// a whole batch of that size.
func (l *link) settle(a wire.Answer, batch int) {
	m := l.m
	m.mu.Lock()
	it := m.popLocked(l.now)
	if a.Err != nil && sendAgain(&it, a.Err, batch) {
		m.outbox.push(it)
		m.mu.Unlock()
		return
	}
	switch {
	case it.Kind.Releases() && a.Err != nil:
		m.outbox.owe(&it, l.now.Add(heartbeat))
	case it.Kind.Sets():
		m.votedLocked(a)
		m.tellLocked()
		it.claim.at[m.cfg.Index].answer(a, it.Claim.Grantable() && it.Kind != wire.Heal)
	}
	if it.claim != nil {
		a = it.Claim.Judged(it.Kind, a)
	}
	asker := it.asker
	if it.Kind == wire.Ping && asker != nil && a.Err == nil {
		if err := cmp.Or(m.status.WriteErr, m.noRight); err != nil { // it can grant this client no lock
			a = wire.Answer{Err: err}
		}
	}
	if asker != nil && m.guarded() && it.Kind.Votes() && a.Done() {
		m.held = append(m.held, verdict{asker, a})
		asker = nil
		if it.Unproved() {
			m.outbox.push(newItem(wire.Ping, nil, nil)) // with a probe
		}
	}
	changed := len(m.news) > 0
	m.mu.Unlock()
	if changed {
		m.Report()
	}
	if asker != nil {
		asker.Answered(m.cfg.Index, a)
	}
}

// sendAgain reports whether a command that was answered by an error is to be sent again, since the
// error may have another cause than the command. It then prepares the item for that.
func sendAgain(it *item, err error, batch int) bool {
	switch {
	case !it.Scripted():
		return false
	case (it.Kind.Sets() || it.Kind == wire.Renew || it.Kind == wire.Commit) && it.claim.released.Load():
		return false // it would follow its release
	case wire.IsNoScript(err) && !it.reloaded:
		it.reloaded = true
		return true
	case batch > 1:
		it.alone = true // the user may be forbidden another key of the batch
		return true
	}
	return false
}

// oldest returns the command whose reply is due next.
func (m *Master) oldest() (item, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.outbox.flight.Len() == 0 {
		return item{}, false
	}
	return *m.outbox.flight.First(), true
}

// popLocked takes the oldest command, which was answered, out of flight. The first answer to what was
// written at one moment is a round trip. The others are not: they waited for the server to execute the
// commands before them.
func (m *Master) popLocked(now time.Time) item {
	it := m.outbox.flight.Pop()
	if it.Sent != m.timed {
		m.timed = it.Sent
		m.status.RTT = now.Sub(it.Sent)
		m.roundTrip.observe(m.status.RTT)
	}
	if m.closed && m.outbox.flight.Len() == 0 {
		poke(m.outbox.wake) // the writer may be waiting for this to stop
	}
	return it
}

// garbled returns the error for a reply of the wrong shape: the replies on this connection may be out
// of step with the commands.
func garbled(k wire.Kind, reply any) error {
	return fmt.Errorf("unexpected reply of type %T to %v", reply, k)
}
