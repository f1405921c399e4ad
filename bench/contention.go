package main

import (
	"errors"
	"time"
)

// contention is the workload of processes with goroutines that all want one
// name, and hold it for that long.
func contention(processes, goroutines int, hold time.Duration) func(*bench, *subject, int) (figures, error) {
	return func(b *bench, s *subject, rep int) (figures, error) {
		workers, err := b.startWorkers(s, processes, goroutines, ttl)
		if err != nil {
			return nil, err
		}
		defer stopAll(workers)
		m, err := startMeter(b.fleet)
		if err != nil {
			return nil, err
		}
		o := order{Op: opContend, Hold: hold, Start: now() + int64(50*time.Millisecond)}
		o.Stop = o.Start + int64(b.plan.contending)
		for _, w := range workers {
			if err := w.tell(o); err != nil {
				return nil, err
			}
		}
		var all []report
		for _, w := range workers {
			r, err := w.answer(b.plan.contending + 20*time.Second)
			if errors.Is(err, errSilent) {
				return figures{hung: 1}, nil
			}
			if err != nil {
				return nil, err
			}
			all = append(all, r)
		}
		return b.judge(all, o, m)
	}
}

// judge computes the figures of a run.
func (b *bench) judge(all []report, o order, m *meter) (figures, error) {
	var stays []interval
	var shares, processShares []float64
	var longest, cpu time.Duration
	var counted rounds
	for _, r := range all {
		cpu += r.CPU
		counted = counted.plus(r.Rounds)
		inProcess := 0
		for _, turns := range r.Turns {
			entered := 0
			for _, t := range turns {
				longest = max(longest, t.waited(o.Stop))
				if t.entered() {
					entered++
					stays = append(stays, t.Stay)
				}
			}
			inProcess += entered
			shares = append(shares, float64(entered))
		}
		processShares = append(processShares, float64(inProcess))
	}
	if len(all) > 1 {
		shares = processShares
	}
	out := figures{
		perSecond:   float64(len(stays)) / time.Duration(o.Stop-o.Start).Seconds(),
		fairness:    jain(shares),
		longestWait: millis(longest),
		broken:      float64(violations(stays)),
	}
	spent, err := m.read()
	if err != nil {
		return nil, err
	}
	spent.each(len(stays), out)
	counted.into(out)
	out[clientCPU] = 0 // ours is the master's, which slept
	if len(stays) > 0 {
		out[clientCPU] = micros(cpu) / float64(len(stays))
	}
	delete(out, allocations)
	return out, nil
}
