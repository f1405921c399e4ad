// Package election has one of several processes lead: the one that holds a lock. If it ends, crashes or loses the lock, another one
// takes over.
//
//	e, err := election.New(client, "reports", nil)
//	…
//	err = e.Run(ctx, func(ctx context.Context, term uint64) error {
//		return work(ctx) // until ctx ends: then somebody else may lead
//	})
//
// A leader that has crashed is replaced when its TTL has passed, and one that ends as it should within a round trip. At most one
// process leads at a time, as far as docs/guarantees.md says. A leader that was stopped may write late. For that there is the term: a
// store that remembers the greatest term, and refuses lower ones, refuses late leaders.
//
// The metrics of contrib/promredlock and contrib/otelredlock count the lock as any other: redlock_locks_held{name="reports"} is 1 where the
// leader is, and the sum over all processes is 1.
package election

import (
	"context"
	"errors"
	"log/slog"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock"
)

// An Election is one name for which processes stand. Its methods are safe for concurrent use.
type Election struct {
	// Failed is called with each error after which Run stands again: that of lead, or why the lock was lost. If it is nil,
	// slog.Default reports them. It must be set before Run is called.
	Failed func(err error)

	client *redlock.Client
	lock   *redlock.Locker
}

// New returns an Election. All processes that stand for a name use the same one. The lock is that of client.Locker(name) with opts,
// but is not kept: see redlock.LockOptions.Keep. Nil means a TTL of 10 s, Fencing, and no limit for how long a process leads: MaxHold is
// -1. New returns an error if the name or the options are invalid.
func New(client *redlock.Client, name string, opts *redlock.LockOptions) (*Election, error) {
	o := redlock.LockOptions{Fencing: true, MaxHold: -1}
	if opts != nil {
		o = *opts
		o.Keep = 0 // a process that has resigned would be taken for the leader
	}
	lock, err := client.NewLocker(name, &o)
	if err != nil {
		return nil, err
	}
	return &Election{client: client, lock: lock}, nil
}

const (
	// firstPause is how long Run pauses at most after a first error. The pause is doubled with each further one.
	firstPause = time.Second
	// longestPause is the longest pause.
	longestPause = 30 * time.Second
)

// Run stands for election, and calls lead whenever this process is elected. The context of lead ends with ctx, or if the lock is lost. lead must
// return then: it is not called again before, and another process may lead. A term is greater than that of every earlier leader of the
// name, whatever its process. It is 0 without LockOptions.Fencing.
//
//   - If lead returns nil, this process resigns, and Run returns nil.
//   - If ctx ends, the process resigns when lead has returned. Run returns the cause of ctx, or nil if lead has returned nil.
//   - If the lock is lost, the process stands again at once.
//   - If lead returns an error, the process resigns, so that another one can try, and stands again after a pause: up to a second at
//     first, and twice as long with each error in a row, up to 30 s. An error counts as the first one if the process had led for longer than that.
//   - If the Client is closed, Run returns redlock.ErrClosed. If lead panics, the process resigns.
func (e *Election) Run(ctx context.Context, lead func(ctx context.Context, term uint64) error) error {
	pause := firstPause
	for {
		var began time.Time
		var lease *redlock.Lease // nil: the process was not elected
		err := e.lock.Do(ctx, func(ctx context.Context) error {
			began, lease = time.Now(), e.lock.Lease()
			if err := lead(ctx, lease.Fence()); err != nil {
				return &leadError{err}
			}
			return nil
		})
		why, failed := err.(*leadError)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case failed:
			err = why.error
		case lease == nil && errors.Is(err, redlock.ErrClosed), lease.Err() == redlock.ErrClosed:
			return redlock.ErrClosed
		}
		e.failed(err)
		if lease != nil && !failed {
			continue // the lock was lost
		}
		if lease != nil && time.Since(began) > longestPause {
			pause = firstPause
		}
		select {
		case <-time.After(pause/2 + rand.N(pause/2)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
		pause = min(2*pause, longestPause)
	}
}

// A leadError is what lead has returned. It may match the errors of this lock, too: lead may use locks and Clients of its own.
type leadError struct{ error }

func (e *leadError) Unwrap() error { return e.error }

func (e *Election) failed(err error) {
	if e.Failed != nil {
		e.Failed(err)
		return
	}
	slog.Warn("election: standing again", "name", e.lock.Name(), "err", err)
}

// Leads reports whether this process leads now. It reads the clocks, so its answer is right directly after a pause of the process, too.
func (e *Election) Leads() bool { return e.lock.Lease().Valid() }

// Leader returns the owner of the process that leads, see redlock.Options.Owner, or "" if nobody does. It asks the masters.
func (e *Election) Leader(ctx context.Context) (owner string, err error) {
	h, err := e.client.Inspect(ctx, e.lock.Name())
	if err != nil || !h.Held { // a key may be left for a moment at a minority
		return "", err
	}
	return h.Owner, nil
}
