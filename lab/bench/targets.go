package main

import (
	"fmt"
	"math"
	"slices"
)

// A target is what our library is to reach.
type target struct {
	workload string
	what     string
	reach    func(*results) []bound
}

// A bound is one comparison of a figure with what it is to be.
type bound struct {
	name    string
	values  []float64 // of the repetitions; none: not measured in this run
	want    float64
	atLeast bool // otherwise at most
	unit    string
}

// got is what is compared: the median.
func (b bound) got() float64 { return median(b.values) }

func (b bound) met() bool {
	if b.atLeast {
		return b.got() >= b.want
	}
	return b.got() <= b.want
}

// verdict says in words whether the bound is met, and by how much it is not.
func (b bound) verdict() string {
	switch {
	case len(b.values) == 0:
		return "not measured in this run"
	case b.met():
		return "met"
	case b.got() == 0 || b.want == 0:
		return "**missed**"
	}
	return fmt.Sprintf("**missed** by a factor of %s", number(math.Max(b.got()/b.want, b.want/b.got())))
}

func (b bound) wanted() string {
	if b.atLeast {
		return "≥ " + number(b.want) + b.unit
	}
	return "≤ " + number(b.want) + b.unit
}

// measured shows the median and the range of the repetitions.
func (b bound) measured() string {
	if len(b.values) == 0 {
		return "–"
	}
	return withRange(b.values, b.unit)
}

// ratioTo makes a bound on our figure as a multiple of a peer's, in pairs.
func (r *results) ratioTo(peer, workload string, m metric, want float64, atLeast bool) bound {
	return bound{
		name: string(m) + ", × " + peer, values: r.ratios(workload, oursID, peer, m), want: want, atLeast: atLeast, unit: " ×",
	}
}

func (r *results) atMostOf(peer, workload string, m metric, want float64) bound {
	return r.ratioTo(peer, workload, m, want, false)
}

func (r *results) atLeastOf(peer, workload string, m metric, want float64) bound {
	return r.ratioTo(peer, workload, m, want, true)
}

// atMost and atLeast make bounds on our own figure.
func (r *results) atMost(workload string, m metric, want float64) bound {
	return r.own(oursID, workload, m, want, false)
}

func (r *results) atLeast(workload string, m metric, want float64) bound {
	return r.own(oursID, workload, m, want, true)
}

func (r *results) own(subject, workload string, m metric, want float64, atLeast bool) bound {
	b := bound{name: string(m), want: want, atLeast: atLeast}
	if x, ok := r.value(workload, subject, m); ok && summed[m] {
		b.values = []float64{x}
	} else if ok {
		b.values = r.values(workload, subject, m)
	}
	return b
}

// never makes a bound on what must not happen.
func (r *results) never(workload string, m metric) bound { return r.atMost(workload, m, 0) }

func targets() []target {
	return slices.Concat(networkTargets(), loopbackTargets(), contendedTargets(), crowdTargets(), faultTargets(), ownTargets(), readingTargets())
}

func networkTargets() []target {
	var all []target
	for _, ms := range farRoundTrips {
		for _, id := range []string{idTrip(ms), idTripNames(ms)} {
			all = append(all, target{id, "lock + Unlock", func(r *results) []bound {
				return []bound{r.atMost(id, trips, 1.15), r.never(id, failedAttempts)}
			}})
		}
	}
	return all
}

func loopbackTargets() []target {
	return []target{
		{idNames, "one caller, changing names", func(r *results) []bound {
			return []bound{r.atMostOf(reference, idNames, middle, 0.45)}
		}},
		{idOne, "one caller, one name", func(r *results) []bound {
			return []bound{r.atMostOf(reference, idOne, middle, 0.60), r.atMost(idOne, allocations, 16)}
		}},
		{id64, "64 callers, 64 names", func(r *results) []bound {
			return []bound{r.atLeastOf(reference, id64, perSecond, 9), r.atMostOf(reference, id64, serverCPU, 0.6)}
		}},
		{id512, "512 callers, 512 names", func(r *results) []bound {
			return []bound{r.atLeastOf(reference, id512, perSecond, 12)}
		}},
	}
}

func contendedTargets() []target {
	all := []target{
		{idHandover5, "leaving to the only waiter's entering", func(r *results) []bound {
			return []bound{r.atMost(idHandover5, handoverTrips, 1.25), r.never(idHandover5, broken)}
		}},
		{idHandover, "leaving to the only waiter's entering", func(r *results) []bound {
			return []bound{r.atMostOf(rueidisID, idHandover, handoverTime, 1), r.never(idHandover, broken)}
		}},
		{idUnequal, "8 processes, unequal distances", func(r *results) []bound {
			return []bound{
				r.atLeastOf(reference, idUnequal, perSecond, 1.5), r.atMost(idUnequal, idleTrips, 2.3),
				r.atMost(idUnequal, longestWait, 300), r.never(idUnequal, broken),
			}
		}},
		{idStopped, "8 processes, one is stopped for 1.5 s", func(r *results) []bound {
			return []bound{r.atMost(idStopped, longestIdle, 1050), r.never(idStopped, broken)}
		}},
		{idGuest, "one process of redsync beside four", func(r *results) []bound {
			return []bound{r.atLeast(idGuest, guestShare, 5), r.never(idGuest, broken)}
		}},
	}
	for _, id := range []string{idEqual, id16Equal} {
		all = append(all, target{id, "processes, 1 ms held, 5 ms", func(r *results) []bound {
			return []bound{
				r.atLeastOf(reference, id, perSecond, 1.4), r.atMost(id, idleTrips, 2.3), r.atLeast(id, fairness, 0.99),
				r.atMost(id, longestIdle, 60), r.atMost(id, longestCycles, 2), r.never(id, broken),
			}
		}})
	}
	for _, ms := range farMasters {
		id := idFree(ms)
		all = append(all, target{id, "a free lock, three contenders", func(r *results) []bound {
			return []bound{r.atMostOf(reference, id, firstEntry, 1)}
		}})
	}
	return all
}

// crowdTargets are of many that want one name on loopback.
func crowdTargets() []target {
	var all []target
	for _, row := range []struct {
		id               string
		throughput, wait float64
	}{{id16, 0.9, 100}, {id4, 0.8, 150}} {
		all = append(all, target{row.id, "processes, one name, 1 ms held", func(r *results) []bound {
			return []bound{
				r.atLeastOf(reference, row.id, perSecond, row.throughput), r.atLeast(row.id, fairness, 0.99),
				r.atMost(row.id, longestWait, row.wait), r.never(row.id, broken),
			}
		}})
	}
	return append(all,
		target{idGoroutine, "64 goroutines, one name", func(r *results) []bound {
			return []bound{
				r.atLeastOf(reference, idGoroutine, perSecond, 200), r.atLeast(idGoroutine, fairness, 0.99),
				r.atMost(idGoroutine, longestWait, 200), r.never(idGoroutine, broken),
			}
		}},
		target{id8x8, "8 processes × 8 goroutines", func(r *results) []bound {
			return []bound{r.atLeastOf(reference, id8x8, perSecond, 10), r.atLeast(id8x8, fairness, 0.95), r.never(id8x8, broken)}
		}},
		target{idHolder, "the holder killed", func(r *results) []bound {
			return []bound{r.atMost(idHolder, worstLateness, 250), r.never(idHolder, broken)}
		}},
	)
}

func faultTargets() []target {
	var all []target
	for _, id := range []string{idFrozen1, idFrozen2, idKilled2} {
		all = append(all, target{id, "a minority of masters frozen or dead", func(r *results) []bound {
			return []bound{r.atMost(id, middleToHealthy, 1.3), r.atMost(id, tailToHealthy, 10)}
		}})
	}
	return all
}

// ownTargets are of what our own settings cost.
func ownTargets() []target {
	cost := func(r *results, workload, of, to string, want float64) bound {
		return bound{name: string(middle) + ", × " + to, values: r.ratios(workload, of, to, middle), want: want, unit: " ×"}
	}
	// "One round in the usual case": nine in ten are usual.
	usual := func(r *results, workload string) bound { return r.own(fencedID, workload, oneRound, 90, true) }
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
		{idSet4, "four names at once, one caller", func(r *results) []bound {
			return []bound{cost(r, idSet4, setID, oursID, 1.3)}
		}},
		{idSets, "processes that lock two names at once", func(r *results) []bound {
			return []bound{r.own(setID, idSets, fairness, 0.95, true), r.own(setID, idSets, broken, 0, false)}
		}},
		{idFenced4, "fencing, 4 processes, one name", func(r *results) []bound {
			return []bound{usual(r, idFenced4), r.own(fencedID, idFenced4, broken, 0, false)}
		}},
	}
}
