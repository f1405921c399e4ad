// Package gocronlock lets schedulers of gocron on several machines run each job once. It offers both of gocron's
// ways:
//
//   - A [Locker] takes a lock of the job's name for each run. Any scheduler may win it. It is for jobs that all
//     schedulers start at the same times, such as a CronJob: see Options.AtLeast for a DurationJob.
//   - An [Elector] elects one scheduler, which runs all jobs until it ends. It is for any job.
//
// Both use a redlock.Client, and do not close it. Close the Client after the scheduler has been shut down.
//
//	locker, err := gocronlock.NewLocker(client, nil)
//	…
//	s, err := gocron.NewScheduler(gocron.WithDistributedLocker(locker))
//
// Neither can end a job whose lease is lost. A job for which two runs at a time would do harm should guard what it
// writes by a fence, or do its work in Locker.Do of package redlock, whose context ends with the lease.
//
// The module path is a placeholder, and no version has been released. A module that imports this package needs two lines,
// with the path of a checkout:
//
//	go mod edit -replace github.com/redlock-go/redlock=/path/to/redlock
//	go mod edit -replace github.com/redlock-go/redlock/contrib/gocronlock=/path/to/redlock/contrib/gocronlock
package gocronlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlock-go/redlock"
)

// Options are the settings of NewLocker. Nil or zero means defaults.
type Options struct {
	// LockOptions are the options of each job's lock. Nil means defaults, and MaxHold zero means that a job may
	// hold its lock for any time.
	LockOptions *redlock.LockOptions

	// AtLeast is how long the lock of a job is kept after it was acquired, even if the job ends earlier. It
	// must be longer than the difference of the machines' clocks, and shorter than the time between two runs.
	// Otherwise a machine whose clock is late runs a short job once more. Zero means 1 s. Negative means
	// that the lock is released when the job ends. Above zero and below a millisecond is an error: the unit is
	// missing.
	//
	// That holds for jobs that all machines start at the same times: CronJob, DailyJob, WeeklyJob and MonthlyJob. A
	// DurationJob starts at times that depend on when its scheduler was started: schedulers that were started at
	// different moments each run it, one after the other. For one run in each interval, set AtLeast to the interval less
	// a few seconds, or use an Elector.
	AtLeast time.Duration
}

const defaultAtLeast = time.Second

// A Locker is a gocron.Locker: only one of the schedulers with the same job runs it at a time. A scheduler that does
// not get the lock at once skips the run. Give each job a name by gocron.WithName: the default is the name of
// its function. It is safe for concurrent use.
type Locker struct {
	client *redlock.Client
	opts   Options
}

var _ gocron.Locker = (*Locker)(nil)

// NewLocker returns a Locker. Nil opts means defaults. The error says which of the options is wrong.
func NewLocker(client *redlock.Client, opts *Options) (*Locker, error) {
	l := &Locker{client: client}
	if opts != nil {
		l.opts = *opts
	}
	if d := l.opts.AtLeast; d > 0 && d < time.Millisecond {
		return nil, fmt.Errorf("gocronlock: Options.AtLeast is %v: is the unit missing?", d)
	} else if d == 0 {
		l.opts.AtLeast = defaultAtLeast
	}
	l.opts.LockOptions = unbounded(l.opts.LockOptions)
	_, err := client.NewLocker("check", l.opts.LockOptions)
	return l, err
}

// unbounded returns a copy of options, with no bound on the time of a lock unless they set one.
func unbounded(opts *redlock.LockOptions) *redlock.LockOptions {
	var o redlock.LockOptions
	if opts != nil {
		o = *opts
	}
	if o.MaxHold == 0 {
		o.MaxHold = -1
	}
	return &o
}

// Lock makes one attempt to acquire the lock of a job. The error matches redlock.ErrHeld if another scheduler
// runs the job, and is another *redlock.QuorumError if too few masters answer. gocron skips the run in both
// cases, and calls the listener of gocron.AfterLockError.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := l.client.NewLocker(job, l.opts.LockOptions)
	if err != nil {
		return nil, err
	}
	if err := lock.TryLockContext(ctx); err != nil {
		return nil, err
	}
	return &heldLock{lock: lock, until: time.Now().Add(l.opts.AtLeast)}, nil
}

// A heldLock is the lock of a job that runs.
type heldLock struct {
	lock  *redlock.Locker
	until time.Time // it is kept at least until then
}

// Unlock releases the lock at once, or when Options.AtLeast has passed. A lease that was
// lost while the job ran is an error that matches redlock.ErrLost.
func (h *heldLock) Unlock(ctx context.Context) error {
	left := time.Until(h.until)
	if left <= 0 {
		return h.lock.UnlockContext(ctx)
	}
	if err := h.lock.Lease().Err(); err != nil {
		h.lock.Unlock()
		return err
	}
	time.AfterFunc(left, h.lock.Unlock)
	return nil
}

// ErrNotLeader is returned by IsLeader while another scheduler is the leader.
var ErrNotLeader = errors.New("gocronlock: not the leader")

// An Elector is a gocron.Elector: of all schedulers with an Elector of the same name, one is the leader and runs
// all jobs. If it ends or loses its lease, another one becomes the leader. It is safe for concurrent use.
type Elector struct {
	lock    *redlock.Locker
	lease   atomic.Pointer[redlock.Lease] // of the current leadership; nil before the first
	stop    context.CancelFunc
	ended   chan struct{} // closed when campaign has ended
	settled chan struct{} // closed when the first attempt has ended
	once    sync.Once
}

var _ gocron.Elector = (*Elector)(nil)

// NewElector returns an Elector that campaigns for a lock of this name until Close is called. Nil opts means
// defaults, and MaxHold zero means that a leader may lead for any time. Keep has no effect: a scheduler that has ended keeps nothing.
// The error says which of the options is wrong.
func NewElector(client *redlock.Client, name string, opts *redlock.LockOptions) (*Elector, error) {
	opts = unbounded(opts)
	opts.Keep = 0
	lock, err := client.NewLocker(name, opts)
	if err != nil {
		return nil, err
	}
	ctx, stop := context.WithCancel(context.Background())
	e := &Elector{lock: lock, stop: stop, ended: make(chan struct{}), settled: make(chan struct{})}
	go e.campaign(ctx)
	return e, nil
}

// campaign acquires the lock again and again, until ctx ends or the Client is closed.
func (e *Elector) campaign(ctx context.Context) {
	defer close(e.ended)
	err := e.lock.TryLockContext(ctx)
	for {
		if err != nil {
			e.settle()
			err = e.lock.LockContext(ctx)
		}
		switch {
		case ctx.Err() != nil && err != nil, errors.Is(err, redlock.ErrClosed):
			return
		case err != nil: // the schedule of Options.NewBackOff has stopped
			pause(ctx)
			continue
		}
		lease := e.lock.Lease()
		e.lease.Store(lease)
		e.settle()
		select {
		case <-lease.Done():
		case <-ctx.Done():
		}
		// Waits for the masters, so that the next leader need not wait for the TTL if this process ends.
		e.lock.UnlockContext(context.WithoutCancel(ctx))
		if err = ctx.Err(); err != nil {
			return
		}
		err = errLeaseEnded
	}
}

// againAfter is how long an Elector pauses if a wait has ended without the lock.
const againAfter = time.Second

func pause(ctx context.Context) {
	select {
	case <-time.After(againAfter):
	case <-ctx.Done():
	}
}

var errLeaseEnded = errors.New("the lease has ended")

func (e *Elector) settle() { e.once.Do(func() { close(e.settled) }) }

// IsLeader returns nil if this scheduler is the leader, and ErrNotLeader if it is not. Directly after NewElector
// it waits for the first attempt.
func (e *Elector) IsLeader(ctx context.Context) error {
	select {
	case <-e.settled:
	case <-e.ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	if lease := e.lease.Load(); lease == nil || !lease.Valid() {
		return ErrNotLeader
	}
	return nil
}

// Close ends the leadership, if this is the leader, and waits until its lock is released. Call it before the
// Client is closed, and after the scheduler has been shut down.
func (e *Elector) Close() {
	e.stop()
	<-e.ended
}
