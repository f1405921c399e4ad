// Package renew says when leases are renewed, and for how long their holders may rely on them. It sends nothing: package engine
// sends the commands.
//
// A Validity counts the votes on the renewals of one lease, and says which masters are asked again. A Scheduler calls when a
// renewal is due. One goroutine serves all leases of a Client. It sleeps until the first lease is due, and then also takes
// those that will be due soon, so that they can share commands.
package renew

import (
	"container/heap"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// CheckEvery is how often every task is checked, due or not. Timers use the monotonic clock, which may stand
// still while the machine sleeps, so the other clocks must be read now and then.
const CheckEvery = time.Second

// A Task is something to do at a time. The scheduler's goroutine calls its methods. They must not block, and
// may call Schedule and Remove.
type Task interface {
	// Due is called at the task's time. The task is then no longer scheduled, until it is scheduled again.
	Due(now clock.Reading)
	// Check is called every CheckEvery while the task is scheduled.
	Check(now clock.Reading)
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
	stop  chan struct{} // closed by Stop
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

// Schedule schedules a task, whose entry is e, for the time at, or up to slack earlier if another task is due
// then. An entry that is scheduled is moved. If the Scheduler is closed, Schedule does nothing and reports false.
func (s *Scheduler) Schedule(e *Entry, task Task, at time.Time, slack time.Duration) bool {
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

// Remove takes an entry out of the schedule, if it is there. A call of its task may be under way.
func (s *Scheduler) Remove(e *Entry) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if e.index != 0 {
		heap.Remove(&s.entries, e.index-1)
	}
}

// Empty reports whether no task is scheduled.
func (s *Scheduler) Empty() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.entries) == 0
}

// Stop ends the schedule and returns the tasks that were scheduled. A call of a task may be under way until
// Done is closed.
func (s *Scheduler) Stop() []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	tasks := s.entries.tasks()
	for _, e := range s.entries {
		e.index = 0
	}
	s.entries = nil
	return tasks
}

// Done is closed when the goroutine has ended.
func (s *Scheduler) Done() <-chan struct{} { return s.done }

func (s *Scheduler) run() {
	defer close(s.done)
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	var checked time.Time
	for {
		now := s.clock()
		for _, task := range s.take(now.Time()) {
			task.Due(now)
		}
		if now.Time().Sub(checked) >= CheckEvery {
			checked = now.Time()
			for _, task := range s.all() {
				task.Check(now)
			}
		}
		if d, any := s.sleep(checked); any {
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

// take removes and returns the tasks that are due, or will be within their slack, if any is due.
func (s *Scheduler) take(now time.Time) []Task {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.entries) == 0 || s.entries[0].at.After(now) {
		return nil
	}
	// The heap is ordered by at, not by at less slack. So this misses a few tasks that are within their
	// slack, which does no harm.
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

// sleep returns the time until something is due or must be checked. It reports false if nothing is
// scheduled.
func (s *Scheduler) sleep(checked time.Time) (time.Duration, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until = time.Time{}
	if len(s.entries) == 0 {
		return 0, false
	}
	s.until = s.entries[0].at
	if check := checked.Add(CheckEvery); check.Before(s.until) {
		s.until = check
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

func (h *entries) Push(x any) {
	e := x.(*Entry)
	*h = append(*h, e)
	e.index = len(*h)
}

func (h *entries) Pop() any {
	last := len(*h) - 1
	e := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	e.index = 0
	return e
}
