package main

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
	"github.com/redlock-go/redlock/lab/internal/servers"
)

// A crowd is a workload of processes that all want one name.
type crowd struct {
	processes, goroutines int
	hold                  time.Duration
	far                   func(process int) distances

	lasting int           // as a multiple of what the plan says; 0: 1
	stopped time.Duration // for how long the first process is stopped once, by SIGSTOP, while it waits
	guest   string        // the subject of one more process; "": there is none
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
	defer func() { child.End(workers...) }()
	if c.guest != "" {
		all := subjects() // whatever the flags say, since it takes part in the workload of another
		i := slices.IndexFunc(all, func(s *subject) bool { return s.id == c.guest })
		addrs, err := f.at(c.far(c.processes))
		if err != nil {
			return nil, err
		}
		guest, err := startAll(all[i:i+1], []setup{{Addrs: addrs, TTL: ttl, NodeTimeout: patient, Callers: 1, Prefix: b.name()}})
		if err != nil {
			return nil, err
		}
		workers = append(workers, guest...)
	}
	before, err := f.load()
	if err != nil {
		return nil, err
	}
	lasting := b.plan.contending * time.Duration(max(c.lasting, 1))
	o := begin(c.hold, lasting)
	if c.stopped > 0 {
		o.Pause = o.Start + int64(lasting/4)
		defer resumeAt(workers[0], o.Pause+int64(c.stopped))()
	}
	all, err := contend(workers, o, pings)
	if errors.Is(err, child.ErrSilent) {
		return figures{hung: 1}, nil
	}
	if err != nil {
		return nil, err
	}
	after, err := f.load()
	if err != nil {
		return nil, err
	}
	if c.guest == "" {
		return judge(all, o, after.Minus(before), pings.trip()), nil
	}
	out := judge(all, o, after.Minus(before), pings.trip())
	ours := judge(all[:c.processes], o, after.Minus(before), pings.trip())
	out[guestShare] = 100 * (1 - ours[perSecond]/out[perSecond])
	out[fairness] = ours[fairness]
	return out, nil
}

// resumeAt has a process that stops itself go on at that time of now, and when the returned function is called.
func resumeAt(r *remote, at int64) (atOnce func()) {
	wait := time.Duration(at - now())
	resume := func() { r.Signal(syscall.SIGCONT) }
	t := time.AfterFunc(wait, resume)
	return func() { t.Stop(); resume() }
}

// begin returns the order to contend for a while, from soon on.
func begin(hold, lasting time.Duration) order {
	start := now() + int64(50*time.Millisecond)
	return order{Op: opContend, Hold: hold, Start: start, Stop: start + int64(lasting)}
}

// contend has workers lock, hold and unlock, and returns their reports. Only the first one pauses, if the order says so.
func contend(workers []*remote, o order, pings *pinger) (all []report, err error) {
	for i, w := range workers {
		told := o
		if i > 0 {
			told.Pause = 0
		}
		if err := w.Tell(told); err != nil {
			return nil, err
		}
	}
	for pings.conn != nil && now() < o.Stop {
		if err := pings.ping(1); err != nil {
			return nil, err
		}
		time.Sleep(20 * time.Millisecond)
	}
	for _, w := range workers {
		r, err := w.Answer(time.Duration(o.Stop-o.Start) + readyLimit)
		if err != nil {
			return nil, err
		}
		all = append(all, r)
	}
	return all, nil
}

// judge computes the figures of a run.
func judge(all []report, o order, served servers.Load, trip time.Duration) figures {
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
		idle, most := idleTime(turns, o.Start, o.Stop)
		out[longestIdle] = millis(most)
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
