package main

import (
	"errors"
	"math/rand/v2"
	"os"
	"time"

	"github.com/redlock-go/redlock/lab/internal/child"
	"github.com/redlock-go/redlock/lab/internal/peers"
)

// handover is the workload of one holder and one waiter, two processes: how
// long after the holder's leaving the waiter enters.
func handover(far distances) func(*bench, *subject, int) (figures, error) {
	return func(b *bench, s *subject, rep int) (figures, error) {
		pings, err := b.fleetOf(s).pinger(far)
		if err != nil {
			return nil, err
		}
		workers, err := b.startWorkers(s, 2, 1, ttl, func(int) distances { return far })
		if err != nil {
			return nil, err
		}
		defer child.End(workers...)
		took, stays, err := b.passOn(workers[0], workers[1], pings)
		if errors.Is(err, child.ErrSilent) {
			return figures{hung: 1}, nil
		}
		if err != nil {
			return nil, err
		}
		out := figures{handoverTime: median(took), broken: float64(violations(stays))}
		if trip := pings.trip(); trip > 0 {
			out[ping] = millis(trip)
			out[handoverTrips] = out[handoverTime] / out[ping]
		}
		return out, nil
	}
}

// passOn has two processes pass a lock to each other, and returns how long each time took, in ms.
func (b *bench) passOn(holder, waiter *remote, pings *pinger) (took []float64, stays []interval, err error) {
	entered, err := holder.Ask(order{Op: opLock}, readyLimit)
	if err != nil {
		return nil, nil, err
	}
	for range b.plan.handovers {
		if err := waiter.Tell(order{Op: opLock}); err != nil {
			return nil, nil, err
		}
		if err := pings.ping(2); err != nil {
			return nil, nil, err
		}
		// Longer than any library's waiters sleep, so that the leaving meets
		// them at any point of their sleep.
		time.Sleep(50*time.Millisecond + rand.N(250*time.Millisecond))
		left, err := holder.Ask(order{Op: opUnlock}, readyLimit)
		if err != nil {
			return nil, nil, err
		}
		next, err := waiter.Answer(readyLimit)
		if err != nil {
			return nil, nil, err
		}
		took = append(took, millis(time.Duration(next.At-left.At)))
		stays = append(stays, interval{entered.At, left.At})
		entered = next
		holder, waiter = waiter, holder
	}
	return took, stays, nil
}

// The workload of a holder that is killed.
const (
	killedTTL    = time.Second
	killedOthers = 4
)

// holderKilled is the workload of a holder that is killed while others wait:
// how long after the end of what its lock had left to live the next enters.
func holderKilled(b *bench, s *subject, rep int) (figures, error) {
	var late []float64
	var stays []interval
	for range b.plan.kills {
		one, l, err := b.killHolder(s)
		if errors.Is(err, child.ErrSilent) {
			return figures{hung: 1}, nil
		}
		if err != nil {
			return nil, err
		}
		late, stays = append(late, millis(l)), append(stays, one...)
	}
	worst := late[0]
	for _, l := range late {
		worst = max(worst, l)
	}
	return figures{lateness: median(late), worstLateness: worst, broken: float64(violations(stays))}, nil
}

func (b *bench) killHolder(s *subject) (stays []interval, late time.Duration, err error) {
	const limit = 20 * time.Second
	workers, err := b.startWorkers(s, 1+killedOthers, 1, killedTTL, onLoopback)
	if err != nil {
		return nil, 0, err
	}
	defer child.End(workers...)
	held, err := workers[0].Ask(order{Op: opLock}, limit)
	if err != nil {
		return nil, 0, err
	}
	for _, w := range workers[1:] {
		if err := w.Tell(order{Op: opLock}); err != nil {
			return nil, 0, err
		}
	}
	// Less than the TTL, so that those count as well which do not renew.
	time.Sleep(300*time.Millisecond + rand.N(300*time.Millisecond))
	died := now()
	workers[0].Signal(os.Kill)
	left, err := b.fleetOf(s).remaining(func(i int) string { return keyOf(s, b.name(), i) })
	if err != nil {
		return nil, 0, err
	}
	asked := now()
	stays = append(stays, interval{held.At, died})
	next, err := entries(workers[1:], limit)
	if err != nil {
		return nil, 0, err
	}
	first := next[0].At
	for _, r := range next {
		first = min(first, r.At)
		stays = append(stays, interval{r.At, now()}) // they are still in
	}
	return stays, time.Duration(first-asked) - left, nil
}

// keyOf returns the Redis key of a lock on master i.
func keyOf(s *subject, name string, i int) string {
	if s.id == rueidisID {
		return peers.RueidisKey(name, i)
	}
	return name
}

// entries returns the workers' first answer and those that follow soon: who
// enters while the first is in, breaks the lock.
func entries(workers []*remote, limit time.Duration) ([]report, error) {
	type entry struct {
		report
		err error
	}
	got := make(chan entry, len(workers))
	for _, w := range workers {
		go func() {
			r, err := w.Answer(2 * limit) // or until the worker is ended
			got <- entry{r, err}
		}()
	}
	var all []report
	timer := time.NewTimer(limit)
	defer timer.Stop()
	for {
		select {
		case e := <-got:
			if e.err != nil {
				return nil, e.err
			}
			all = append(all, e.report)
			timer.Reset(100 * time.Millisecond)
		case <-timer.C:
			if len(all) == 0 {
				return nil, child.ErrSilent
			}
			return all, nil
		}
	}
}
