package simulation

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/wire"
)

// readersWait bounds how long a call may wait for an RWLocker while others lock and unlock it without a pause.
const readersWait = 4 * time.Second

// makeReaders: readers and writers of one name, and a plain Locker of it in every third run. Two of three runs
// have faults. Processes differ in their TTLs.
func makeReaders(m *maker) {
	m.options(time.Second, 2*time.Second, 10*time.Second)
	faults, long, window := !m.one(3), 0, 10*time.Millisecond
	if faults {
		long, window = 6, 200*time.Millisecond
	}
	for i := range 3 + m.IntN(3) {
		p := processPlan{routes: m.routes()}
		if ttl := m.between(time.Second, 3*time.Second); m.one(2) && ttl < m.lock.TTL {
			p.ttl = ttl // the marker must live as long as the longest member
		}
		for range 1 + m.IntN(2) {
			calls := make([]call, 3+m.IntN(5))
			for j := range calls {
				c := m.call(load{names: 1, think: window, hold: 10 * time.Millisecond, long: long, patient: m.one(2)})
				c.side = []side{reader, reader, reader, writer}[m.IntN(4)]
				if i < 2 && m.one(2) {
					c.side = []side{writer, reader}[i]
				}
				calls[j] = c
			}
			p.workers = append(p.workers, calls)
		}
		m.processes = append(m.processes, p)
	}
	if m.one(3) {
		for i, calls := range m.processes[2].workers {
			for j := range calls {
				if i == 0 || !faults { // those behind a Locker of their process wait as long as it does
					calls[j].side = alone
				}
			}
		}
	}
	if faults {
		m.faultsOfAllKinds(3+m.IntN(7), 2*time.Second)
	} else {
		m.lossless = m.lock.RenewEvery >= 0
	}
}

// reads reports whether the plan has readers.
func (p *plan) reads() bool {
	for _, proc := range p.processes {
		for _, calls := range proc.workers {
			if slices.ContainsFunc(calls, func(c call) bool { return c.side == reader }) {
				return true
			}
		}
	}
	return false
}

// marker is what a key holds while readers hold it.
const marker = wire.ReadersMarker

// excludes reports whether at most one of two holdings may have a valid lease.
func excludes(a, b *holding) bool {
	if a.slots != nil { // see checkPermitsLocked
		return false
	}
	return a.turn.call.side != reader || b.turn.call.side != reader
}

// readersHold reports whether a reader has locked and not yet unlocked. Its lease may have ended.
func (k *lock) readersHold() bool {
	return slices.ContainsFunc(k.holders, func(h *holding) bool { return h.turn.call.side == reader })
}

// behind reports whether w may wait behind another: a reader behind a writer.
func (k *lock) behind(w *waiter) bool {
	return w.turn.call.side == reader && slices.ContainsFunc(k.waiters, func(o *waiter) bool { return o.turn.call.side != reader })
}
