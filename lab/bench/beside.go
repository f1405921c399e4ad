package main

import (
	"cmp"
	"time"
)

// The machine's speed varies by a fifth from one second to the next, far more than what many
// differences amount to. So where nobody waits for anybody all subjects are open at once, each in a
// process of its own, and take turns that are short.

// calls is a workload of callers that do not wait for each other.
type calls struct {
	callers int
	names   naming
	far     distances     // of all callers from the masters
	timeout time.Duration // a peer's for one master; 0: patient
	turns   int           // of each subject in a repetition
	turn    time.Duration // how long each lasts
}

func (c calls) nodeTimeout() time.Duration { return cmp.Or(c.timeout, patient) }

// beside runs a repetition in which all subjects take their turns, unless one is stuck.
func (b *bench) beside(c calls, all []*subject) ([]figures, error) {
	pings, err := b.fleet.pinger(c.far)
	if err != nil {
		return nil, err
	}
	sessions, err := b.openAll(all, b.fleetOf, c)
	if err != nil {
		return nil, err
	}
	defer closeAll(sessions)
	turns := max(1, int(float64(c.turns)*b.plan.part))
	sums := make([]measured, len(all))
	for n := range turns {
		for _, i := range lineup(len(all), n) {
			if sums[i].driven.Stuck > 0 {
				continue
			}
			if err := pings.ping(2); err != nil {
				return nil, err
			}
			m, err := sessions[i].drive(c.turn)
			if err != nil {
				return nil, err
			}
			sums[i].plus(m)
		}
	}
	trip := pings.trip()
	out := make([]figures, len(all))
	for i, sum := range sums {
		out[i] = sum.figures(c.turn * time.Duration(turns))
		if trip > 0 {
			out[i][ping] = millis(trip)
			out[i][trips] = out[i][middle] / micros(trip)
		}
	}
	return out, nil
}

// lineup returns the order in which so many take their n-th turns: everybody
// follows everybody as often.
func lineup(players, n int) []int {
	order := make([]int, players)
	for i := range order {
		order[i] = (n + i) % players
		if n%2 == 1 {
			order[i] = (n - i + players) % players
		}
	}
	return order
}
