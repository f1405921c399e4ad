// Package renew knows which lease is due when, and nothing of Redis or locks.
//
// One goroutine serves all leases of a Client, however many: it sleeps until
// the first is due, and then takes with it all that will be due soon, so that
// what they send can share commands.
package renew

import (
	"container/heap"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// LookEvery is how often everybody is looked at, due or not. Timers run by the
// monotonic clock, which stands still while the machine sleeps; so what another
// clock says must be asked for.
const LookEvery = time.Second

// A Task is what is due. Its methods are called by the scheduler's goroutine,
// must not block, and may call Set and Remove.
type Task interface {
	// Due is called when the task's time has come. The task is not scheduled
	// any more, until it is Set again.
	Due(now clock.Reading)
	// Look is called every LookEvery while the task is scheduled.
	Look(now clock.Reading)
}

// An Entry is a task's place in the schedule, to be embedded in the task. The
// zero Entry is not scheduled.
type Entry struct {
	task  Task
	at    time.Time
	slack time.Duration
	index int // in the heap, from 1 on; 0: not scheduled
}

// A Scheduler calls tasks when they are due.
type Scheduler struct {
	clock clock.Clock   // immutable
	wake  chan struct{} // cap 1: something is due before the goroutine would wake
	stop  chan struct{} // closed by Close
	done  chan struct{} // closed when the goroutine has ended

	mu      sync.Mutex // guards what follows and every Entry
	entries entries
	until   time.Time // when the goroutine wakes by itself; zero: it does not
	closed  bool
}

// Start returns a running Scheduler.
func Start(c clock.Clock) *Scheduler {
	s := &Scheduler{
		clock: c,
		wake:  make(chan struct{}, 1),
		stop:  make(chan struct{}),
		done:  make(chan struct{}),
	}
	go s.run()
	return s
}

// Set schedules task, whose entry is e, for the time at, or up to slack earlier
// if others are due then. It moves an entry that is scheduled already. It
// reports false, and does nothing, if the Scheduler is closed.
func (s *Scheduler) Set(e *Entry, task Task, at time.Time, slack time.Duration) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	e.task, e.at, e.slack = task, at, slack
	if e.index == 0 {
		heap.Push(&s.entries, e)
	} else {
		heap.Fix(&s.entries, e.index-1)
	}
	if s.until.IsZero() || at.Before(s.until) {
		s.until = at
		select {
		case s.wake <- struct{}{}:
		default:
		}
	}
	return true
}

// Remove takes an entry out of the schedule, if it is there. A call of its task
// may be under way.
func (s *Scheduler) Remove(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index != 0 {
		heap.Remove(&s.entries, e.index-1)
	}
}

// Close ends the schedule, waits for the goroutine, and returns the tasks that
// were scheduled.
func (s *Scheduler) Close() []Task {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	s.mu.Unlock()
	<-s.done
	s.mu.Lock()
	defer s.mu.Unlock()
	tasks := s.entries.tasks()
	for _, e := range s.entries {
		e.index = 0
	}
	s.entries = nil
	return tasks
}

func (s *Scheduler) run() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var looked time.Time
	for {
		now := s.clock()
		for _, task := range s.take(now.Time()) {
			task.Due(now)
		}
		if now.Time().Sub(looked) >= LookEvery {
			looked = now.Time()
			for _, task := range s.all() {
				task.Look(now)
			}
		}
		if d, any := s.sleep(looked); any {
			timer.Reset(d)
		} else {
			timer.Stop()
		}
		select {
		case <-timer.C:
		case <-s.wake:
		case <-s.stop:
			return
		}
	}
}

// take removes and returns the tasks that are due at now, or will be within
// their slack.
func (s *Scheduler) take(now time.Time) []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == 0 || s.entries[0].at.After(now) {
		return nil
	}
	// Somebody must be called now. Whoever is close to it comes along: the heap
	// is ordered by at, so those are not all at its top, but nearly.
	var due []Task
	for len(s.entries) > 0 && !s.entries[0].at.Add(-s.entries[0].slack).After(now) {
		due = append(due, heap.Pop(&s.entries).(*Entry).task)
	}
	return due
}

func (s *Scheduler) all() []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries.tasks()
}

// sleep returns how long nothing is due; it reports false if nothing is
// scheduled at all.
func (s *Scheduler) sleep(looked time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
	if len(s.entries) == 0 {
		return 0, false
	}
	s.until = s.entries[0].at
	if look := looked.Add(LookEvery); look.Before(s.until) {
		s.until = look
	}
	return time.Until(s.until), true
}

// entries is a heap by time.
type entries []*Entry

func (h entries) tasks() []Task {
	tasks := make([]Task, len(h))
	for i, e := range h {
		tasks[i] = e.task
	}
	return tasks
}

func (h entries) Len() int           { return len(h) }
func (h entries) Less(i, j int) bool { return h[i].at.Before(h[j].at) }

func (h entries) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i+1, j+1
}

// Push implements heap.Interface.
func (h *entries) Push(x any) {
	e := x.(*Entry)
	*h = append(*h, e)
	e.index = len(*h)
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = 0
	return e
}
