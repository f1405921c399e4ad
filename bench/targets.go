package main

import (
	"fmt"
	"math"
	"slices"
)

// A target is what our library is to reach. They are the tables of the issues
// "The wire at full speed" and "Contention", and what the restart guard and fencing
// may cost.
type target struct {
	workload string
	what     string
	reach    func(*results) []bound
}

// A bound is one comparison of a figure with what it is to be.
type bound struct {
	name    string
	got     float64
	known   bool // whether the run has it
	want    float64
	atLeast bool // otherwise at most
	unit    string
}

func (b bound) met() bool {
	if b.atLeast {
		return b.got >= b.want
	}
	return b.got <= b.want
}

// verdict says in words whether the bound is met, and by how much it is not.
func (b bound) verdict() string {
	switch {
	case !b.known:
		return "not measured in this run"
	case b.met():
		return "met"
	case b.got == 0 || b.want == 0:
		return "**missed**"
	}
	return fmt.Sprintf("**missed** by a factor of %s", number(math.Max(b.got/b.want, b.want/b.got)))
}

func (b bound) wanted() string {
	if b.atLeast {
		return "≥ " + number(b.want) + b.unit
	}
	return "≤ " + number(b.want) + b.unit
}

// ratioTo makes a bound on our figure as a multiple of redsync's on redigo.
func ratioTo(r *results, workload string, m metric, want float64, atLeast bool) bound {
	x, ok := r.ratio(workload, oursID, reference, m)
	return bound{name: string(m) + ", ratio", got: x, known: ok, want: want, atLeast: atLeast, unit: " ×"}
}

// own makes a bound on our own figure.
func own(r *results, workload string, m metric, want float64, atLeast bool) bound {
	x, ok := r.value(workload, oursID, m)
	return bound{name: string(m), got: x, known: ok, want: want, atLeast: atLeast}
}

// toHealthy makes a bound on our figure as a multiple of our own median while
// all masters are healthy.
func toHealthy(r *results, workload string, m metric, want float64) bound {
	healthy, ok := r.value(idOne, oursID, middle)
	b := own(r, workload, m, want, false)
	b.name, b.unit = string(m)+" to our healthy median", " ×"
	b.known = b.known && ok && healthy > 0
	if b.known {
		b.got /= healthy
	}
	return b
}

func targets() []target {
	all := []target{
		{idOne, "one caller, one name", func(r *results) []bound {
			// 0.65 without the restart guard, which has its own target.
			return []bound{ratioTo(r, idOne, middle, 0.72, false), own(r, idOne, allocations, 40, false)}
		}},
		{id64, "64 callers, 64 names", func(r *results) []bound {
			return []bound{ratioTo(r, id64, perSecond, 6, true)}
		}},
		{id512, "512 callers, 512 names", func(r *results) []bound {
			return []bound{ratioTo(r, id512, perSecond, 12, true)}
		}},
	}
	for _, id := range []string{idFrozen1, idFrozen2, idKilled2} {
		all = append(all, target{id, "a minority of masters frozen or dead", func(r *results) []bound {
			return []bound{toHealthy(r, id, middle, 1.3), toHealthy(r, id, tail, 10)}
		}})
	}
	return slices.Concat(all, ownTargets(), contendedTargets())
}

// ownTargets are of what our own settings cost.
func ownTargets() []target {
	cost := func(r *results, workload, of, to string, want float64) bound {
		x, ok := r.ratio(workload, of, to, middle)
		return bound{name: string(middle) + " to " + to, got: x, known: ok, want: want, unit: " ×"}
	}
	// "One round in the usual case": nine in ten are usual.
	usual := func(r *results, workload string) bound {
		x, ok := r.value(workload, fencedID, oneRound)
		return bound{name: string(oneRound), got: x, known: ok, want: 90, atLeast: true}
	}
	return []target{
		{idGuard1, "the restart guard, one caller", func(r *results) []bound {
			return []bound{cost(r, idGuard1, oursID, unguardedID, 1.10)}
		}},
		{idGuard64, "the restart guard, 64 callers", func(r *results) []bound {
			return []bound{cost(r, idGuard64, oursID, unguardedID, 1.05)}
		}},
		{idFenced1, "fencing, one caller", func(r *results) []bound {
			return []bound{cost(r, idFenced1, fencedID, oursID, 1.5), usual(r, idFenced1)}
		}},
		{idFenced4, "fencing, 4 processes, one name", func(r *results) []bound {
			broken, ok := r.value(idFenced4, fencedID, broken)
			return []bound{usual(r, idFenced4), {name: "violations", got: broken, known: ok}}
		}},
	}
}

func contendedTargets() []target {
	all := []target{
		{idGoroutine, "64 goroutines, one name", func(r *results) []bound {
			return []bound{
				ratioTo(r, idGoroutine, perSecond, 200, true), own(r, idGoroutine, fairness, 0.99, true),
				own(r, idGoroutine, longestWait, 200, false), own(r, idGoroutine, broken, 0, false),
			}
		}},
		{idHandover, "leaving to the only waiter's entering", func(r *results) []bound {
			return []bound{
				own(r, idHandover, handoverTime, 0.7, false), ratioTo(r, idHandover, handoverTime, 0.01, false),
				own(r, idHandover, broken, 0, false),
			}
		}},
	}
	for _, id := range []string{id4, id16} {
		all = append(all, target{id, "processes, one name, 1 ms held", func(r *results) []bound {
			return []bound{
				ratioTo(r, id, perSecond, 0.8, true), own(r, id, fairness, 0.99, true),
				own(r, id, longestWait, 150, false), own(r, id, broken, 0, false),
			}
		}})
	}
	return append(all,
		target{id8x8, "8 processes × 8 goroutines", func(r *results) []bound {
			return []bound{
				ratioTo(r, id8x8, perSecond, 10, true), own(r, id8x8, fairness, 0.95, true),
				own(r, id8x8, broken, 0, false),
			}
		}},
		target{idHolder, "the holder killed", func(r *results) []bound {
			return []bound{own(r, idHolder, worstLateness, 250, false), own(r, idHolder, broken, 0, false)}
		}},
	)
}
