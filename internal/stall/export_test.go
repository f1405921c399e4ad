package stall

import "time"

// SetEvery sets the time between two checks, and returns it.
func SetEvery(d time.Duration) time.Duration {
	every = d
	return d
}

// A Scene is a process whose goroutines and processor time a test decides.
type Scene struct {
	watches
	used  time.Duration
	stack string
	fired chan string
}

// NewScene returns a process that has a goroutine with the given stack, and uses the processor for used between two checks.
func NewScene(stack string, used time.Duration) *Scene {
	s := &Scene{stack: stack, used: used, fired: make(chan string, 1)}
	var total time.Duration
	s.process = func() time.Duration { total += s.used; return total }
	s.stacks = func() []string { return []string{"goroutine 1 [select]:\nmain()", s.stack} }
	s.fire = func(report string) { s.fired <- report }
	return s
}

// Run watches for n checks, and returns the report, if there was one.
func (s *Scene) Run(n int, limit time.Duration) string {
	stop := s.watch("it", limit)
	defer stop()
	select {
	case r := <-s.fired:
		return r
	case <-time.After(time.Duration(n)*every + every/2):
		return ""
	}
}
