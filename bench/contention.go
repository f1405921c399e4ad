package main

import (
	"errors"
	"time"
)

// A crowd is a workload of processes that all want one name.
type crowd struct {
	processes, goroutines int
	hold                  time.Duration
	far                   func(process int) distances
}

func (c crowd) trial(b *bench, s *subject, rep int) (figures, error) {
	f := b.fleetOf(s)
	pings, err := f.pinger(c.far(0))
	if err != nil {
		return nil, err
	}
	workers, err := b.startWorkers(s, c.processes, c.goroutines, ttl, c.far)
	if err != nil {
		return nil, err
	}
	defer stopAll(workers)
	before, err := f.load()
	if err != nil {
		return nil, err
	}
	all, o, err := contend(workers, c.hold, b.plan.contending, pings)
	if errors.Is(err, errSilent) {
		return figures{hung: 1}, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := f.load()
	if err != nil {
		return nil, err
	}
	return judge(all, o, after.minus(before), pings.trip()), nil
}

// contend has workers lock, hold and unlock for a while, and returns their reports and the order that they had.
func contend(workers []*remote, hold, lasting time.Duration, pings *pinger) (all []report, o order, err error) {
	o = order{Op: opContend, Hold: hold, Start: now() + int64(50*time.Millisecond)}
	o.Stop = o.Start + int64(lasting)
	for _, w := range workers {
		if err := w.tell(o); err != nil {
			return nil, o, err
		}
	}
	for pings.conn != nil && now() < o.Stop {
		if err := pings.ping(1); err != nil {
			return nil, o, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, w := range workers {
		r, err := w.answer(lasting + readyLimit)
		if err != nil {
			return nil, o, err
		}
		all = append(all, r)
	}
	return all, o, nil
}

// judge computes the figures of a run.
func judge(all []report, o order, served load, trip time.Duration) figures {
	var turns []turn
	var stays []interval
	var shares, processShares []float64
	var longest, cpu time.Duration
	var counted counts
	for _, r := range all {
		cpu += r.CPU
		counted = counted.plus(r.Counts)
		inProcess := 0
		for _, mine := range r.Turns {
			entered := 0
			for _, t := range mine {
				longest = max(longest, t.waited(o.Stop))
				if t.entered() {
					entered++
					stays = append(stays, t.Stay)
				}
			}
			turns = append(turns, mine...)
			inProcess += entered
			shares = append(shares, float64(entered))
		}
		processShares = append(processShares, float64(inProcess))
	}
	waiters := len(shares)
	if len(all) > 1 {
		shares = processShares
	}
	lasting := time.Duration(o.Stop - o.Start)
	out := figures{
		perSecond:   float64(len(stays)) / lasting.Seconds(),
		fairness:    jain(shares),
		longestWait: millis(longest),
		broken:      float64(violations(stays)),
	}
	if n := len(stays); n > 0 {
		idle := idleTime(turns, o.Start, o.Stop)
		out[idleShare] = 100 * float64(idle) / float64(lasting)
		out[longestCycles] = float64(longest) / (float64(lasting) / float64(n) * float64(waiters))
		if trip > 0 {
			out[ping] = millis(trip)
			out[idleTrips] = float64(idle) / float64(n) / float64(trip)
		}
		spent{load: served, cpu: cpu}.each(n, out)
		delete(out, allocations)
	}
	counted.into(out)
	return out
}
