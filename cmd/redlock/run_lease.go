package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
)

const (
	// nameEnv is the environment variable with the lock's name. There is none with the token:
	// a token is good for nothing but releasing the lock, and environments end up in logs.
	nameEnv = "REDLOCK_NAME"

	// fenceEnv is the environment variable with the fence of the lease.
	fenceEnv = "REDLOCK_FENCE"

	// slotEnv is the environment variable with the slot of a permit.
	slotEnv = "REDLOCK_SLOT"
)

// A runLease is what a run holds while its command runs: a lock, several of them, or a permit of a semaphore.
type runLease struct {
	lease   *redlock.Lease
	env     []string                    // variables for the command
	release func(context.Context) error // as Locker.UnlockContext

	// stands reports whether a quorum of the masters may still have the lease.
	stands func(context.Context) (bool, error)
}

// releasePatience is for how long the end of a run waits for masters that have not answered its release. The Client sends the release to
// them again.
const releasePatience = time.Second

// end releases the lease. A run is over, so nothing is late that comes within releasePatience.
func (l *runLease) end() error {
	err := l.release(context.Background())
	if err == nil || errors.Is(err, redlock.ErrLost) {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), releasePatience)
	defer cancel()
	for {
		if stands, unknown := l.stands(ctx); unknown == nil && !stands {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(releasePatience / 20):
		}
	}
}

// An acquirer acquires what the command line names. Unless it makes one attempt, it waits until ctx ends.
type acquirer func(ctx context.Context, once bool) (*runLease, error)

// acquirer returns the acquirer of a run.
func (cfg runConfig) acquirer(client *redlock.Client) (acquirer, error) {
	if cfg.limit > 0 {
		return cfg.permits(client)
	}
	lock, err := client.NewLocker(cfg.names[0], nil, cfg.names[1:]...)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, once bool) (*runLease, error) {
		acquire := lock.LockContext
		if once {
			acquire = lock.TryLockContext
		}
		if err := acquire(ctx); err != nil {
			return nil, err
		}
		lease := lock.Lease()
		stands := func(ctx context.Context) (bool, error) {
			for _, name := range cfg.names {
				if h, err := client.Inspect(ctx, name); err != nil || h.Token == lease.Token() {
					return true, err
				}
			}
			return false, nil
		}
		return &runLease{lease, []string{fenceOf(lease)}, lock.UnlockContext, stands}, nil
	}, nil
}

// permits is acquirer for --limit.
func (cfg runConfig) permits(client *redlock.Client) (acquirer, error) {
	s, err := client.NewSemaphore(cfg.name, cfg.limit, nil)
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, once bool) (*runLease, error) {
		acquire := s.Acquire
		if once {
			acquire = s.TryAcquire
		}
		p, err := acquire(ctx)
		if err != nil {
			return nil, err
		}
		stands := func(ctx context.Context) (bool, error) {
			h, err := client.InspectSemaphore(ctx, cfg.name)
			return slices.ContainsFunc(h.Slots, func(s redlock.SlotHolding) bool { return s.Token == p.Token() }), err
		}
		return &runLease{p.Lease, []string{slotEnv + "=" + strconv.Itoa(p.Slots()[0]), fenceOf(p.Lease)}, p.ReleaseContext, stands}, nil
	}, nil
}

// fenceOf returns the variable with the fence of a lease.
func fenceOf(lease *redlock.Lease) string {
	return fenceEnv + "=" + strconv.FormatUint(lease.Fence(), 10)
}

// environment returns the environment of the command, without the variables of its runLease. The fence or slot of another run, of
// which this one is the command, is left out: it would be taken for that of nameEnv.
func (cfg runConfig) environment() []string {
	outer := slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, fenceEnv+"=") || strings.HasPrefix(v, slotEnv+"=")
	})
	return append(outer, nameEnv+"="+cfg.name)
}

// noun returns what a run holds.
func (cfg runConfig) noun() string {
	if cfg.limit > 0 {
		return "permit"
	}
	return "lock"
}

// what returns what a run waits for.
func (cfg runConfig) what() string {
	if cfg.limit > 0 {
		return fmt.Sprintf("a permit of %q", cfg.name)
	}
	return fmt.Sprintf("the lock %q", cfg.name)
}
