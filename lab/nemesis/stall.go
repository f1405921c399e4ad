package main

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/stall"
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

// left returns how much of a limit is left for what began at a time, if stalls do not count.
func (s *stalls) left(began int64, limit time.Duration) time.Duration {
	_, stalled := s.during(span{began, now()})
	return limit - (time.Duration(now()-began) - stalled)
}

// within waits until one of two channels is closed, but for limit at most, and reports whether one was.
func (s *stalls) within(limit time.Duration, a, b <-chan struct{}) bool {
	for began := now(); ; {
		left := s.left(began, limit)
		if left <= 0 {
			return isClosed(a) || isClosed(b)
		}
		select {
		case <-a:
			return true
		case <-b:
			return true
		case <-time.After(left):
		}
	}
}

// must calls f, which must return within limit. If it does not, must writes the goroutines to the log and ends the process.
func (s *stalls) must(what string, limit time.Duration, f func()) {
	returned := make(chan struct{})
	defer close(returned)
	began := now()
	go func() {
		if !s.within(limit, returned, nil) {
			stall.End(what, time.Duration(now()-began))
		}
	}()
	f()
}
