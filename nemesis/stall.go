package main

import (
	"cmp"
	"slices"
	"sync"
	"time"
)

// A span is a time between two moments. One that has not ended has to = 0.
type span struct{ from, to int64 }

// covered returns how much of a time the spans cover together.
func covered(within span, spans []span) (sum int64) {
	slices.SortFunc(spans, func(a, b span) int { return cmp.Compare(a.from, b.from) })
	at := within.from
	for _, s := range spans {
		to := s.to
		if to == 0 {
			to = within.to
		}
		to = min(to, within.to)
		if from := max(s.from, at); from < to {
			sum += to - from
			at = to
		}
	}
	return sum
}

// stalls are the times at which this process did not run, because the machine was overloaded or stood still. Then the
// clients and masters did not run, either, or much too slowly. So what has to happen within some time may take longer.
type stalls struct {
	mu  sync.Mutex // guards all
	all []span
}

const (
	stallEvery = 10 * time.Millisecond  // how often the process looks
	stallLeast = 100 * time.Millisecond // the shortest stall
)

// watch notes stalls until stop is closed.
func (s *stalls) watch(stop <-chan struct{}) {
	for last := now(); !isClosed(stop); {
		time.Sleep(stallEvery)
		at := now()
		if at-last >= int64(stallLeast) {
			s.mu.Lock()
			s.all = append(s.all, span{last, at})
			s.mu.Unlock()
		}
		last = at
	}
}

// during returns the stalls, and how long they lasted in a span.
func (s *stalls) during(within span) (all []span, sum time.Duration) {
	s.mu.Lock()
	all = slices.Clone(s.all)
	s.mu.Unlock()
	return all, time.Duration(covered(within, all))
}
