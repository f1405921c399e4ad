package main

import (
	"cmp"
	"slices"
	"time"
)

// median returns the middle of the values, the mean of two for an even number,
// and 0 for none.
func median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// quantile returns the smallest value that at least the part q of the sorted
// durations does not exceed, and 0 for none.
func quantile(sorted []time.Duration, q float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	i := int(q*float64(len(sorted))+0.9999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}

// jain returns Jain's fairness index of what each got: 1 if all got the same,
// 1/n if one got everything, and 0 if nobody got anything.
func jain(shares []float64) float64 {
	var sum, squares float64
	for _, x := range shares {
		sum += x
		squares += x * x
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(shares)) * squares)
}

// An interval is one stay in the critical section, by the machine's monotonic
// clock in ns. Enter is read after the lock returned and Leave before the
// unlock was called, so that two correct stays never overlap.
type interval struct{ Enter, Leave int64 }

// violations returns how many stays began before an earlier one had ended. It
// sorts the stays.
func violations(stays []interval) int {
	slices.SortFunc(stays, func(a, b interval) int {
		switch {
		case a.Enter < b.Enter:
			return -1
		case a.Enter > b.Enter:
			return 1
		}
		return 0
	})
	n := 0
	var until int64
	for i, s := range stays {
		if i > 0 && s.Enter < until {
			n++
		}
		until = max(until, s.Leave)
	}
	return n
}

// idleTime returns for how long between start and stop nobody held the lock though somebody waited for it: in all, and
// the longest time without a break.
func idleTime(turns []turn, start, stop int64) (all, longest time.Duration) {
	// Each moment at which the number of holders or of waiters changes.
	type change struct {
		at               int64
		holders, waiters int
	}
	var changes []change
	for _, t := range turns {
		until := stop
		if t.entered() {
			until = t.Stay.Enter
			changes = append(changes, change{at: t.Stay.Enter, holders: 1}, change{at: t.Stay.Leave, holders: -1})
		}
		changes = append(changes, change{at: t.Asked, waiters: 1}, change{at: until, waiters: -1})
	}
	slices.SortFunc(changes, func(a, b change) int { return cmp.Compare(a.at, b.at) })
	var piece time.Duration // of the current idle time
	holders, waiters, since := 0, 0, start
	for _, c := range changes {
		at := min(max(c.at, start), stop)
		if holders == 0 && waiters > 0 {
			d := time.Duration(at - since)
			all += d
			piece += d
			longest = max(longest, piece)
		} else if at > since {
			piece = 0
		}
		since = at
		holders += c.holders
		waiters += c.waiters
	}
	return all, longest
}

// quorumth returns the quorum-th smallest of the values. It sorts them.
func quorumth(values []time.Duration) time.Duration {
	slices.Sort(values)
	return values[len(values)/2]
}
