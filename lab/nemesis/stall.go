package main

import (
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/history"
	"github.com/redlock-go/redlock/internal/stall"
)

// stalls are the times at which this process did not run, because the machine was overloaded or stood still. Then the
// clients and masters did not run, either, or much too slowly. So what has to happen within some time may take longer.
type stalls struct {
	mu  sync.Mutex // guards all
	all []history.Span
}

const (
	stallEvery = 10 * time.Millisecond  // how often the process looks
	stallLeast = 100 * time.Millisecond // the shortest stall
)

// watch notes stalls until stop is closed.
func (s *stalls) watch(stop <-chan struct{}) {
	for last := history.Now(); !isClosed(stop); {
		time.Sleep(stallEvery)
		at := history.Now()
		if at-last >= int64(stallLeast) {
			s.mu.Lock()
			s.all = append(s.all, history.Span{From: last, To: at})
			s.mu.Unlock()
		}
		last = at
	}
}

// during returns the stalls, and how long they lasted in a span.
func (s *stalls) during(within history.Span) (all []history.Span, sum time.Duration) {
	s.mu.Lock()
	all = slices.Clone(s.all)
	s.mu.Unlock()
	return all, time.Duration(history.Covered(within, all))
}

// left returns how much of a limit is left for what began at a time, if stalls do not count.
func (s *stalls) left(began int64, limit time.Duration) time.Duration {
	_, stalled := s.during(history.Span{From: began, To: history.Now()})
	return limit - (time.Duration(history.Now()-began) - stalled)
}

// within waits until one of two channels is closed, but for limit at most, and reports whether one was.
func (s *stalls) within(limit time.Duration, a, b <-chan struct{}) bool {
	for began := history.Now(); ; {
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
	began := history.Now()
	go func() {
		if !s.within(limit, returned, nil) {
			stall.End(what, time.Duration(history.Now()-began))
		}
	}()
	f()
}
