package main

import (
	"fmt"
)

// oneCaller is the workload of one caller where masters fail.
var oneCaller = calls{callers: 1, names: ownNames, timeout: brisk}

// frozen is a workload of one caller while masters are frozen, others in each
// repetition: to some libraries it matters which. Each subject is compared with itself, before.
func frozen(n int) func(*bench, *subject, int) (figures, error) {
	return func(b *bench, s *subject, rep int) (out figures, err error) {
		f := b.fleetOf(s)
		o, err := b.open(s, f, oneCaller)
		if err != nil {
			return nil, err
		}
		defer o.close()
		healthy, err := o.measure(b.plan.lasting)
		if err != nil {
			return nil, err
		}
		var which []int
		for i := range n {
			which = append(which, (2*rep+i)%masters)
		}
		if err := f.freeze(which); err != nil {
			return nil, err
		}
		// Thawed first: what a client owes to a master it can pay before it closes.
		defer func() {
			if thawed := f.thaw(); err == nil {
				err = thawed
			}
		}()
		out, err = o.measure(b.plan.lasting)
		return out.to(healthy), err
	}
}

// to adds how the figures compare with those of the healthy masters.
func (f figures) to(healthy figures) figures {
	if f[hung] == 0 && healthy[middle] > 0 {
		f[middleToHealthy] = f[middle] / healthy[middle]
		f[tailToHealthy] = f[tail] / healthy[middle]
	}
	return f
}

// killed is a workload of one caller after two masters were killed. They are
// killed once, for all: a master that has just been restarted has forgotten its
// locks, and should not count at once. So all subjects connect before.
type killed struct {
	fleet    *fleet // of its own
	sessions map[*subject]*session
	healthy  map[*subject]figures
}

func (k *killed) trial(b *bench, s *subject, rep int) (figures, error) {
	if k.sessions == nil {
		if err := k.prepare(b); err != nil {
			return nil, err
		}
	}
	out, err := k.sessions[s].measure(b.plan.lasting)
	if err != nil {
		return nil, err
	}
	return out.to(k.healthy[s]), nil
}

func (k *killed) prepare(b *bench) error {
	var err error
	if k.fleet, err = startFleet((*fleet).adopt); err != nil {
		return err
	}
	k.sessions, k.healthy = make(map[*subject]*session), make(map[*subject]figures)
	for _, s := range b.subjects {
		if !faulty(s) {
			continue
		}
		o, err := b.open(s, k.fleet, oneCaller)
		if err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
		k.sessions[s] = o
		if k.healthy[s], err = o.measure(b.plan.lasting); err != nil {
			return fmt.Errorf("%s: %w", s.id, err)
		}
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
