package main

import (
	"errors"
	"slices"
	"time"

	"github.com/redlock-go/redlock"

	"github.com/redlock-go/redlock/lab/internal/child"
)

// setLocks is an open client of a subject that locks several names at once.
type setLocks interface {
	set(prefix string, names []string) mutex
}

// several is ours with Lockers of several names.
type several struct{ ours }

func openSets(s setup) (locks, error) {
	l, err := openOurs(s)
	if err != nil {
		return nil, err
	}
	return several{l.(ours)}, nil
}

func (o several) mutex(name string) mutex { return o.set(name, []string{":1", ":2", ":3", ":4"}) }

// A setClient is a Client that can lock several names. Other commits, with which this program is built, too, may
// have one that cannot.
type setClient interface {
	Locker(name string, more ...string) *redlock.Locker
}

func (o several) set(prefix string, names []string) mutex {
	var all []string
	for _, name := range names {
		all = append(all, prefix+name)
	}
	return ourMutex{any(o.client).(setClient).Locker(all[0], all[1:]...)}
}

// wants are what the processes of setCrowd lock.
var wants = [][]string{{"a", "b"}, {"b", "a"}, {"a"}, {"b"}}

// setsLast is how much longer setCrowd lasts than the other workloads of contention.
const setsLast = 5

// setCrowd has processes lock names of which they share some.
func setCrowd(b *bench, s *subject, rep int) (figures, error) {
	b.opened++
	addrs, err := b.fleetOf(s).at(distances{})
	if err != nil {
		return nil, err
	}
	var setups []setup
	for _, names := range wants {
		setups = append(setups, setup{Addrs: addrs, TTL: ttl, NodeTimeout: patient, Callers: 1, Prefix: b.name(), Wants: names})
	}
	workers, err := startAll(slices.Repeat([]*subject{s}, len(setups)), setups)
	if err != nil {
		return nil, err
	}
	defer child.End(workers...)
	o := begin(time.Millisecond, setsLast*b.plan.contending)
	all, err := contend(workers, o, &pinger{})
	if errors.Is(err, child.ErrSilent) {
		return figures{hung: 1}, nil
	}
	if err != nil {
		return nil, err
	}
	return judgeSets(all, o), nil
}

// judgeSets computes the figures of a setCrowd.
func judgeSets(all []report, o order) figures {
	stays := make(map[string][]interval)
	var shares, setShares []float64
	var longest time.Duration
	var counted counts
	for i, r := range all {
		entered := 0
		for _, t := range slices.Concat(r.Turns...) {
			if len(wants[i]) > 1 {
				longest = max(longest, t.waited(o.Stop))
			}
			if t.entered() {
				entered++
				for _, name := range wants[i] {
					stays[name] = append(stays[name], t.Stay)
				}
			}
		}
		shares = append(shares, float64(entered))
		if len(wants[i]) > 1 {
			setShares = append(setShares, float64(entered))
			counted = counted.plus(r.Counts)
		}
	}
	out := figures{fairness: jain(setShares), fairnessOfAll: jain(shares), longestWait: millis(longest)}
	for _, x := range setShares {
		out[perSecond] += x / time.Duration(o.Stop-o.Start).Seconds()
	}
	for _, s := range stays {
		out[broken] += float64(violations(s))
	}
	counted.into(out)
	return out
}
