package redlock

import (
	"context"
	"time"
)

// A Trace is a set of functions that are told what a Client does; any of them
// may be nil. They are called synchronously, sometimes by several goroutines at
// once, and must neither block nor call the Client's or its Lockers' methods.
// ctx is the causing call's, or context.Background for what happens by itself.
type Trace struct {
	// AttemptDone is called after each attempt to acquire a lock.
	AttemptDone func(ctx context.Context, info AttemptInfo)
	// Acquired is called when a lock has been acquired.
	Acquired func(ctx context.Context, info AcquiredInfo)
	// HandedOver is called when a holder's unlock has passed the lock to another
	// goroutine of the Client; ctx is the unlocking call's.
	HandedOver func(ctx context.Context, info HandedOverInfo)
	// Renewed is called when a renewal has succeeded.
	Renewed func(ctx context.Context, info RenewedInfo)
	// Lost is called when a lease was lost.
	Lost func(ctx context.Context, info LostInfo)
	// Released is called when a release has been sent, and answered by a quorum
	// or given up waiting for.
	Released func(ctx context.Context, info ReleasedInfo)
	// MasterChanged is called when a master's state has changed.
	MasterChanged func(ctx context.Context, info MasterStatus)
}

// AttemptInfo tells of one attempt.
type AttemptInfo struct {
	Name    string        // of the lock
	Elapsed time.Duration // from before the first byte until the outcome was known
	Err     error         // nil, or the *QuorumError
}

// AcquiredInfo tells of an acquisition.
type AcquiredInfo struct {
	Name     string        // of the lock
	Attempts int           // how many it took
	Waited   time.Duration // from the call on, the wait for other goroutines included
	Until    time.Time     // end of validity
	Rounds   int           // of the attempt that succeeded: 1; more if masters had to be told the fence
	Fence    uint64        // see Lease.Fence
}

// HandedOverInfo tells of a handover.
type HandedOverInfo struct {
	Name  string        // of the lock
	Held  time.Duration // for how long the one who unlocked held it
	Until time.Time     // end of validity for the next holder, as far as it is known
	Fence uint64        // the next holder's
}

// RenewedInfo tells of a renewal.
type RenewedInfo struct {
	Name    string        // of the lock
	Elapsed time.Duration // from before the first byte until a quorum had renewed
	Until   time.Time     // the new end of validity
}

// LostInfo tells of a loss.
type LostInfo struct {
	Name string        // of the lock
	Held time.Duration // since the acquisition began
	Err  error         // why; it matches ErrLost
}

// ReleasedInfo tells of a release.
type ReleasedInfo struct {
	Name string        // of the lock
	Held time.Duration // since the acquisition began
	Err  error         // as UnlockContext returns it
}
