package master

import "time"

// An item is one command on its way.
type item struct {
	kind     Kind
	claim    *Claim
	asker    Asker // nil if nobody cares for the answer
	debt     *debt // what this release pays, if it was owed
	batch    int   // how many items from here on share one script call; 0: none begins here
	alone    bool  // not to be batched: the batch that it was in was answered by an error
	reloaded bool  // sent again after the scripts were loaded again
	sent     time.Time
	// The subscription stood when it was sent: an Acquire may join the queue.
	listening bool
	sight     *sight // of a probe or a look
}

// take moves the queue into flight, arranged for sending, and returns it. If there
// are votes in it, a probe follows. The slice is the caller's, who is the writer,
// until its next take.
func (m *Master) take() []item {
	now := time.Now()
	m.mu.Lock()
	defer m.mu.Unlock()
	queue := m.queue
	m.queue, m.spare = m.spare[:0], queue
	items := m.plan.arrange(queue)
	clear(queue)
	votes, guarded := false, m.guarded()
	for i := range items {
		it := &items[i]
		it.sent, it.listening = now, m.listening
		if it.kind.sets() {
			mark(&it.claim.written, m.cfg.Index)
		}
		votes = votes || it.kind.votes()
		if it.kind == look {
			it.sight.before = m.cfg.Clock()
		}
		m.flight.push(*it)
	}
	if votes && guarded {
		it := m.probeLocked(m.cfg.Clock())
		it.sent = now
		m.flight.push(it)
		m.plan.items = append(items, it)
		items = m.plan.items
	}
	return items
}

// idle reports whether nothing is queued or in flight.
func (m *Master) idle() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.queue) == 0 && m.flight.len() == 0
}

// abandon empties queue and flight when the connection is gone: releases
// become owed, everybody is told err. The state is Down by then, or the Master
// is closed, so nothing is added behind it.
func (m *Master) abandon(err error) {
	m.mu.Lock()
	lost := make([]item, 0, m.flight.len()+len(m.queue))
	for m.flight.len() > 0 {
		it := m.flight.pop()
		if it.kind.sets() {
			mark(&it.claim.adrift, m.cfg.Index)
		}
		lost = append(lost, it)
	}
	lost = append(lost, m.queue...)
	clear(m.queue)
	m.queue = m.queue[:0]
	held := m.judgeLocked(false)
	m.guard.forgetLooks()
	for _, it := range lost {
		if it.kind.releases() {
			m.oweLocked(it)
		}
	}
	m.mu.Unlock()
	m.deliver(held, err)
	for _, it := range lost {
		if it.asker != nil {
			it.asker.Answered(m.cfg.Index, Answer{Err: err})
		}
	}
}

func poke(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it has been poked already
	}
}

// A flight is the queue of commands whose replies are due, oldest first.
type flight struct {
	items []item
	head  int
}

func (f *flight) len() int     { return len(f.items) - f.head }
func (f *flight) first() *item { return &f.items[f.head] }
func (f *flight) push(it item) { f.items = append(f.items, it) }

func (f *flight) pop() item {
	it := f.items[f.head]
	f.items[f.head] = item{}
	f.head++
	if f.head == len(f.items) {
		f.items, f.head = f.items[:0], 0
	} else if f.head > 1024 && f.head > len(f.items)/2 {
		n := copy(f.items, f.items[f.head:])
		clear(f.items[n:])
		f.items, f.head = f.items[:n], 0
	}
	return it
}
