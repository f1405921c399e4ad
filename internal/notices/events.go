package notices

import "sync"

// Events calls functions of a Trace for what happens in the background: renewals, losses, releases after Unlock, and
// changes of masters. It calls them in order, one at a time, on its own goroutine. So a function that is slow, or that
// calls the Client, does not delay a renewal or a master, and cannot deadlock. The zero Events is ready for use.
type Events struct {
	mu      sync.Mutex // guards what follows
	waiting []func()
	idle    chan struct{} // closed when the goroutine ends; nil: it does not run
}

// eventsMost is how many events may wait for a slow function. Further events are dropped.
const eventsMost = 1 << 14

// Post queues f to be called on the goroutine.
func (e *Events) Post(f func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.waiting) >= eventsMost {
		return
	}
	e.waiting = append(e.waiting, f)
	if e.idle == nil {
		e.idle = make(chan struct{})
		go e.run()
	}
}

func (e *Events) run() {
	e.mu.Lock()
	for len(e.waiting) > 0 {
		f := e.waiting[0]
		e.waiting[0] = nil
		e.waiting = e.waiting[1:]
		e.mu.Unlock()
		f()
		e.mu.Lock()
	}
	close(e.idle)
	e.idle = nil
	e.mu.Unlock()
}

// Done returns a channel that is closed when all events have been delivered.
func (e *Events) Done() <-chan struct{} {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.idle == nil {
		idle := make(chan struct{})
		close(idle)
		return idle
	}
	return e.idle
}
