package main

import (
	"fmt"
	"slices"
	"time"
)

// What a setting of ours costs is a few hundredths, far less than what the machine
// varies by from one second to the next. So its workloads have all subjects open
// at once, and each takes a turn of a few milliseconds, again and again.

// beside is a workload of that many callers on as many names, in which all
// subjects take turns.
func beside(callers int) func(*bench, []*subject) ([]figures, error) {
	return func(b *bench, all []*subject) ([]figures, error) {
		players := make([]*player, len(all))
		for i, s := range all {
			o, err := b.open(s, b.fleet, callers, patient)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", s.id, err)
			}
			defer o.close()
			players[i] = &player{session: o, before: o.rounds()}
		}
		if err := letPlay(b, players); err != nil {
			return nil, err
		}
		out := make([]figures, len(all))
		for i, p := range players {
			out[i] = p.figures()
		}
		return out, nil
	}
}

// letPlay has all players take their turns, unless one is stuck.
func letPlay(b *bench, players []*player) error {
	for n := range b.plan.turns {
		for _, i := range lineup(len(players), n) {
			p := players[i]
			if err := p.play(b); err != nil || p.driven.stuck > 0 {
				return err
			}
		}
	}
	return nil
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

// A player is a session with what it has done in its turns so far.
type player struct {
	*session
	driven driven
	lasted time.Duration
	spent  spent
	before rounds // of the warm-up
}

// play takes a turn.
func (p *player) play(b *bench) error {
	m, err := startMeter(b.fleet)
	if err != nil {
		return err
	}
	d := drive(p.mutexes, b.plan.turn, b.plan.bound)
	b.report(d)
	s, err := m.read()
	if err != nil {
		return err
	}
	p.lasted += b.plan.turn
	p.spent = p.spent.plus(s)
	p.driven.times = append(p.driven.times, d.times...)
	p.driven.inTime += d.inTime
	p.driven.failed += d.failed
	p.driven.stuck += d.stuck
	return nil
}

func (p *player) figures() figures {
	slices.Sort(p.driven.times)
	out := p.driven.figures(p.lasted)
	if p.driven.stuck == 0 {
		p.spent.each(len(p.driven.times), out)
		p.rounds().minus(p.before).into(out)
	}
	return out
}
