package main

import (
	"fmt"
	"regexp"
	"testing"
	"time"
)

func testPlan(seed uint64) plan {
	return plan{seed: seed, length: 5 * time.Minute, clients: 5, ttl: time.Second}
}

func TestASeedHasOneSchedule(t *testing.T) {
	first, again, other := fmt.Sprint(schedule(testPlan(1))), fmt.Sprint(schedule(testPlan(1))), fmt.Sprint(schedule(testPlan(2)))
	if first != again {
		t.Error("the same seed has two schedules")
	}
	if first == other {
		t.Error("two seeds have the same schedule")
	}
}

func TestSchedulesHaveEveryKindOfFault(t *testing.T) {
	const seeds = 20
	in := make(map[string]int) // how many schedules have the kind
	for seed := range uint64(seeds) {
		seen := make(map[string]bool)
		var last time.Duration
		for _, f := range schedule(testPlan(seed)) {
			seen[f.kind.name] = true
			if f.at < last || f.at > 5*time.Minute+time.Second {
				t.Errorf("seed %d: %v is out of order, or too late", seed, f)
			}
			last = f.at
		}
		for name := range seen {
			in[name]++
		}
	}
	for _, k := range kinds {
		if in[k.name] < seeds*3/4 {
			t.Errorf("of %d schedules of five minutes %d have %s, want most of them", seeds, in[k.name], k.name)
		}
	}
}

func TestOnlyTheFaultsThatAreAskedFor(t *testing.T) {
	p := testPlan(1)
	p.only = regexp.MustCompile("^(pause|late)$")
	all := schedule(p)
	for _, f := range all {
		if f.kind.name != "pause" && f.kind.name != "late" {
			t.Errorf("%v was not asked for", f)
		}
	}
	if len(all) < 100 {
		t.Errorf("%d faults, want hundreds", len(all))
	}
	p.only = regexp.MustCompile("^$")
	if all := schedule(p); len(all) != 0 {
		t.Errorf("%d faults, want none", len(all))
	}
}

// TestClientsAndLinksAreWellAroundSubtleFaults holds the schedule to what the library
// asks for: some client is connected across a step of a clock, and none is new.
func TestClientsAndLinksAreWellAroundSubtleFaults(t *testing.T) {
	n := 0
	for seed := range uint64(20) {
		all := schedule(testPlan(seed))
		for _, s := range all {
			if s.kind.name != "clock-step" && s.kind.name != "swapdb" {
				continue
			}
			n++
			if s.amount > maxOffset || s.amount < -maxOffset {
				t.Errorf("seed %d: %v: the clock is off by more than %v", seed, s, maxOffset)
			}
			for _, f := range all {
				if f.client < 0 || f.at+f.length+settled <= s.at || f.at >= s.at+settled {
					continue
				}
				t.Errorf("seed %d: %v is too near to %v", seed, f, s)
			}
		}
	}
	if n < 20 {
		t.Errorf("%d subtle faults in 20 schedules, want one in each at least", n)
	}
}

func TestAMasterIsInTheHandsOfOneFaultAtATime(t *testing.T) {
	for seed := range uint64(20) {
		until := make([]time.Duration, masters)
		for _, f := range schedule(testPlan(seed)) {
			switch f.kind.name {
			case "restart-empty", tailLost, "restart-with-data", "freeze":
				m := f.masters[0]
				if f.at < until[m] {
					t.Errorf("seed %d: %v, but the master is away until %v", seed, f, until[m])
				}
				until[m] = f.at + f.length + f.amount
			}
		}
	}
}

// A lock can have two holders only where a majority has evicted it.
func TestLocksAreEvictedByAMajority(t *testing.T) {
	drawing = true
	defer func() { drawing = false }()
	p := testPlan(0)
	p.only = regexp.MustCompile("^evict-locks$")
	n := 0
	for p.seed = range uint64(20) {
		until := make([]time.Duration, masters)
		for _, f := range schedule(p) {
			n++
			if len(f.masters) != masters/2+1 {
				t.Errorf("seed %d: %v, want %d masters", p.seed, f, masters/2+1)
			}
			for _, m := range f.masters {
				if f.at < until[m] {
					t.Errorf("seed %d: %v, but master %d is away until %v", p.seed, f, m, until[m])
				}
				until[m] = f.at + noticed + p.quarantine()
			}
		}
	}
	if n < 20 {
		t.Errorf("%d faults in 20 schedules of five minutes, want one in each at least", n)
	}
}
