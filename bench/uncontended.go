package main

import (
	"fmt"
	"runtime"
	"time"
)

// session is a subject that is open, with its callers' mutexes.
type session struct {
	locks   locks
	mutexes []mutex
}

// open opens a subject for as many callers, on as many names, and has each lock
// once so that connections and scripts are there.
func (b *bench) open(s *subject, f *fleet, callers int, timeout time.Duration) (*session, error) {
	l, err := s.open(setup{Addrs: f.addrs(), TTL: ttl, NodeTimeout: timeout, Callers: callers})
	if err != nil {
		return nil, err
	}
	o := &session{locks: l}
	b.opened++
	for i := range callers {
		o.mutexes = append(o.mutexes, l.mutex(fmt.Sprintf("bench:%d:%d", b.opened, i)))
	}
	if d := drive(o.mutexes, b.plan.warmUp, b.plan.bound); d.stuck > 0 {
		o.close()
		return nil, fmt.Errorf("%d of %d callers are stuck in the warm-up", d.stuck, callers)
	}
	return o, nil
}

func (o *session) rounds() rounds { return roundsOf(o.locks) }

// close closes the client, which hangs in some where a master is frozen.
func (o *session) close() {
	done := make(chan struct{})
	go func() {
		o.locks.close()
		close(done)
	}()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
}

// measure drives an open session and returns its figures.
func (b *bench) measure(o *session, f *fleet) (figures, error) {
	lasting := b.plan.lasting
	if len(o.mutexes) > 100 {
		lasting *= 2 // each of so many callers has few locks in that time
	}
	runtime.GC()
	m, err := startMeter(f)
	if err != nil {
		return nil, err
	}
	d := drive(o.mutexes, lasting, b.plan.bound)
	b.report(d)
	spent, err := m.read()
	if err != nil {
		return nil, err
	}
	out := d.figures(lasting)
	if d.stuck == 0 {
		spent.each(len(d.times), out)
	}
	return out, nil
}

// callers is a workload of that many callers on as many names, all healthy.
func callers(n int) func(*bench, *subject, int) (figures, error) {
	return func(b *bench, s *subject, rep int) (figures, error) {
		o, err := b.open(s, b.fleet, n, patient)
		if err != nil {
			return nil, err
		}
		defer o.close()
		return b.measure(o, b.fleet)
	}
}

// frozen is a workload of one caller while masters are frozen, others in each
// repetition: to some libraries it matters which.
func frozen(n int) func(*bench, *subject, int) (figures, error) {
	return func(b *bench, s *subject, rep int) (out figures, err error) {
		o, err := b.open(s, b.fleet, 1, brisk)
		if err != nil {
			return nil, err
		}
		defer o.close()
		var which []int
		for i := range n {
			which = append(which, (2*rep+i)%masters)
		}
		if err := b.fleet.freeze(which); err != nil {
			return nil, err
		}
		// Thawed first: what a client owes to a master it can pay before it closes.
		defer func() {
			if thawed := b.fleet.thaw(); err == nil {
				err = thawed
			}
		}()
		return b.measure(o, b.fleet)
	}
}

// killed is a workload of one caller after two masters were killed. They are
// killed once, for all: a master that has just been restarted has forgotten its
// locks, and should not count at once. So all subjects connect before.
type killed struct {
	fleet    *fleet // of its own
	sessions map[*subject]*session
}

func (k *killed) trial(b *bench, s *subject, rep int) (figures, error) {
	if k.sessions == nil {
		if err := k.prepare(b); err != nil {
			return nil, err
		}
	}
	return b.measure(k.sessions[s], k.fleet)
}

func (k *killed) prepare(b *bench) error {
	var err error
	if k.fleet, err = startFleet(); err != nil {
		return err
	}
	k.sessions = make(map[*subject]*session)
	for _, s := range b.subjects {
		if !faulty(s) {
			continue
		}
		o, err := b.open(s, k.fleet, 1, brisk)
		if err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
		k.sessions[s] = o
	}
	return k.fleet.kill([]int{1, 3})
}

func (k *killed) finish() {
	for _, o := range k.sessions {
		o.close()
	}
	if k.fleet != nil {
		k.fleet.stop()
	}
}
