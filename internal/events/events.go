// Package events calls functions of a Trace for what happens in the background: renewals, losses, releases after Unlock, and
// changes of masters.
package events

import "sync"

// A Queue calls functions in order, one at a time, on its own goroutine. So a function that is slow, or that calls the Client,
// does not delay a renewal or a master, and cannot deadlock. The zero Queue is ready for use.
type Queue struct {
	mu      sync.Mutex // guards what follows
	waiting []func()
	idle    chan struct{} // closed when the goroutine ends; nil: it does not run
}

// most is how many events may wait for a slow function. Further events are dropped.
const most = 1 << 14

// Post queues f to be called on the goroutine.
func (q *Queue) Post(f func()) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.waiting) >= most {
		return
	}
	q.waiting = append(q.waiting, f)
	if q.idle == nil {
		q.idle = make(chan struct{})
		go q.run()
	}
}

func (q *Queue) run() {
	q.mu.Lock()
	for len(q.waiting) > 0 {
		f := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		q.mu.Unlock()
		f()
		q.mu.Lock()
	}
	close(q.idle)
	q.idle = nil
	q.mu.Unlock()
}

// Done returns a channel that is closed when all events have been delivered.
func (q *Queue) Done() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.idle == nil {
		idle := make(chan struct{})
		close(idle)
		return idle
	}
	return q.idle
}
