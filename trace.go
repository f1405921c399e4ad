package redlock

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/engine"
	"github.com/redlock-go/redlock/internal/notices"
	"github.com/redlock-go/redlock/internal/reasons"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Trace is a set of functions that a Client calls when something happens. Any of them may be nil.
//
// LockStart, AttemptDone, Acquired, LockDone and HandedOver run on the goroutine of the call that causes them,
// with its context, and delay that call. So does Released in UnlockContext and Do. Renewed, Lost, MasterChanged
// and, after Unlock, Released run in order on one goroutine of the Client, with context.Background. If they are
// slow, later events wait for them. While 16384 events wait, further events are dropped.
//
// Several functions may run at the same time. They may call methods of the Client and its Lockers, but
// waiting in them for the lock that the event is about can deadlock the caller.
//
// Calls and leases are counted by different events. Each LockStart is followed by one LockDone. Each Acquired is
// followed by one Released or Lost, unless the Client is closed before, or the event is dropped. Several calls may
// share one lease: by handover, as the readers of an RWLocker, or since the lock was kept. Such calls make no attempts, and
// there is no event when a lock is unlocked and kept.
//
// JoinTraces makes one Trace of several, for example of metrics and own functions.
type Trace struct {
	// LockStart is called when a call begins to acquire a lock: Lock, TryLock, their forms with a
	// context, and Do.
	LockStart func(ctx context.Context, info LockStartInfo)
	// LockDone is called once for each LockStart, when the call has acquired the lock, perhaps by
	// handover, or has failed.
	LockDone func(ctx context.Context, info LockDoneInfo)
	// AttemptDone is called after each attempt to acquire a lock.
	AttemptDone func(ctx context.Context, info AttemptInfo)
	// Acquired is called when a lease has been acquired. It is not called for a handover, and not for a reader
	// that enters the lease of other readers.
	Acquired func(ctx context.Context, info AcquiredInfo)
	// HandedOver is called when a holder's unlock has passed the lock to another
	// goroutine of the Client; ctx is the unlocking call's. It is not called if nobody held the lock: see LockOptions.Keep.
	HandedOver func(ctx context.Context, info HandedOverInfo)
	// Renewed is called when a renewal has succeeded.
	Renewed func(ctx context.Context, info RenewedInfo)
	// Lost is called when a lease was lost, also if nobody held the lock: see LostInfo.Kept.
	Lost func(ctx context.Context, info LostInfo)
	// Released is called when a quorum of masters has answered a release, or when it is certain that
	// no quorum will. UnlockContext and Do wait no longer than NodeTimeout for that. Unlock does not
	// wait: then Released is called later, at the latest when the connections of the masters that do
	// not answer have been given up, a little over DialTimeout.
	Released func(ctx context.Context, info ReleasedInfo)
	// MasterChanged is called when a master's state has changed.
	MasterChanged func(ctx context.Context, info MasterStatus)
}

// JoinTraces returns a Trace whose functions call those of each of traces, in this order. A nil Trace is left out. If a
// function panics, the others are called all the same.
func JoinTraces(traces ...*Trace) *Trace {
	all := &Trace{}
	for _, t := range traces {
		if t == nil {
			continue
		}
		all.LockStart = both(all.LockStart, t.LockStart)
		all.LockDone = both(all.LockDone, t.LockDone)
		all.AttemptDone = both(all.AttemptDone, t.AttemptDone)
		all.Acquired = both(all.Acquired, t.Acquired)
		all.HandedOver = both(all.HandedOver, t.HandedOver)
		all.Renewed = both(all.Renewed, t.Renewed)
		all.Lost = both(all.Lost, t.Lost)
		all.Released = both(all.Released, t.Released)
		all.MasterChanged = both(all.MasterChanged, t.MasterChanged)
	}
	return all
}

// both returns a function that calls f and then g. A function that nobody has set stays nil, so that its event costs
// nothing.
func both[I any](f, g func(ctx context.Context, info I)) func(ctx context.Context, info I) {
	switch {
	case f == nil:
		return g
	case g == nil:
		return f
	}
	return func(ctx context.Context, info I) {
		defer g(ctx, info)
		f(ctx, info)
	}
}

// LockStartInfo describes a call that begins to acquire a lock.
type LockStartInfo struct {
	Name    string // of the lock, or of the semaphore
	Permits int    // of a Semaphore: how many the call wants; 0: a lock
	Limit   int    // of a Semaphore: see Semaphore.Limit
}

// LockDoneInfo describes the end of a call that has acquired a lock, or has failed.
type LockDoneInfo struct {
	Name     string        // of the lock
	Waited   time.Duration // since the call began
	Attempts int           // how many it made; 0 if the lock was handed over, or no attempt was due
	Permits  int           // as in LockStartInfo
	Err      error         // nil if the lock was acquired; otherwise as LockContext and TryLockContext return it; see also Outcome
}

// Outcome returns one word for the end of the call, for metrics: acquired; shared, if a SingleFlight has taken a value instead;
// closed; timeout_unavailable, if the context's deadline ended the call while a quorum could not vote; timeout, if a deadline ended it
// for another reason, mostly since another holder had the lock; canceled, by the context; held, if another holder had the lock; quarantined, if waiting until quarantines
// end is enough; or unavailable.
func (i LockDoneInfo) Outcome() string {
	switch {
	case i.Err == nil:
		return "acquired"
	case i.Err == engine.ErrReceived:
		return "shared"
	case errors.Is(i.Err, ErrClosed):
		return "closed"
	case errors.Is(i.Err, context.DeadlineExceeded):
		if errors.As(i.Err, new(*QuorumError)) && !errors.Is(i.Err, ErrHeld) {
			return "timeout_unavailable"
		}
		return "timeout"
	case errors.Is(i.Err, context.Canceled):
		return "canceled"
	case errors.Is(i.Err, ErrHeld):
		return "held"
	case errors.Is(i.Err, ErrQuarantined):
		return "quarantined"
	}
	return "unavailable"
}

// AttemptInfo describes one attempt.
type AttemptInfo struct {
	Name    string        // of the lock
	Elapsed time.Duration // from before the first byte until the outcome was known
	Err     error         // nil, or the *QuorumError, which names the owner if that is known
}

// AcquiredInfo describes an acquisition.
type AcquiredInfo struct {
	Name     string        // of the lock
	Attempts int           // how many it took
	Waited   time.Duration // from the call on, the wait for other goroutines included
	Until    time.Time     // end of validity
	Rounds   int           // of the attempt that succeeded: 1; more if masters had to be told the fence
	Fence    uint64        // see Lease.Fence
	Permits  int           // of a Semaphore: how many; 0: a lock
}

// HandedOverInfo describes a handover.
type HandedOverInfo struct {
	Name  string        // of the lock
	Held  time.Duration // how long the holder that unlocked held it
	Until time.Time     // end of validity for the next holder, as far as it is known
	Fence uint64        // the next holder's

	Permits int // of a Semaphore: how many; 0: a lock
}

// RenewedInfo describes a renewal.
type RenewedInfo struct {
	Name    string        // of the lock
	Elapsed time.Duration // from before the first byte until a quorum had renewed
	Until   time.Time     // the new end of validity
}

// LostInfo describes a loss.
type LostInfo struct {
	Name string        // of the lock
	Held time.Duration // since the acquisition began
	Kept bool          // nobody held the lock: it was kept, for readers or by LockOptions.Keep: then Held is since its last holder entered
	Err  error         // why; it matches ErrLost

	Permits int // of a Semaphore: how many; 0: a lock
}

// ReleasedInfo describes a release.
type ReleasedInfo struct {
	Name string        // of the lock
	Held time.Duration // from the beginning of the acquisition until the unlock
	Kept bool          // the lock was unlocked before, and kept: Held is since its last holder entered. See LockOptions.Keep
	Err  error         // as UnlockContext returns it

	Permits int // of a Semaphore: how many; 0: a lock
}

// hooks returns how the engine tells c what happens: what the Logger is told of it, and the functions of Options.Trace.
func (c *Client) hooks() engine.Hooks {
	t := c.opts.Trace
	h := engine.Hooks{Error: c.errorOf, Cause: func(f *engine.Failure) notices.Cause { return causeOf(c.errorOf(f)) }}
	h.TellHeld = t.HandedOver != nil || t.Released != nil || t.Lost != nil
	h.LockStart = with(t.LockStart, func(e engine.Event) LockStartInfo { return LockStartInfo{e.Name, e.Permits, e.Limit} })
	h.LockDone = with(t.LockDone, func(e engine.Event) LockDoneInfo {
		return LockDoneInfo{e.Name, e.Waited, e.Attempts, e.Permits, e.Err}
	})
	h.AttemptDone = with(t.AttemptDone, func(e engine.Event) AttemptInfo { return AttemptInfo{e.Name, e.Elapsed, e.Err} })
	h.Acquired = with(t.Acquired, func(e engine.Event) AcquiredInfo {
		return AcquiredInfo{e.Name, e.Attempts, e.Waited, e.Until, e.Rounds, e.Fence, e.Permits}
	})
	h.HandedOver = with(t.HandedOver, func(e engine.Event) HandedOverInfo {
		return HandedOverInfo{e.Name, e.Held, e.Until, e.Fence, e.Permits}
	})
	h.Released = with(t.Released, func(e engine.Event) ReleasedInfo {
		return ReleasedInfo{e.Name, e.Held, e.Kept, e.Err, e.Permits}
	})
	h.Renewed = c.posted(with(t.Renewed, func(e engine.Event) RenewedInfo { return RenewedInfo{e.Name, e.Elapsed, e.Until} }))
	lost := c.posted(with(t.Lost, func(e engine.Event) LostInfo { return LostInfo{e.Name, e.Held, e.Kept, e.Err, e.Permits} }))
	logLost := func(e engine.Event) {
		if err, ok := e.Err.(*lostError); ok && !e.Kept {
			c.notices.Lost(e.Name, err.cause())
		}
	}
	h.Lost = func(e engine.Event) {
		logLost(e)
		if lost != nil {
			lost(e)
		}
	}
	released := c.posted(h.Released)
	h.ReleasedLater = func(e engine.Event) {
		logLost(e)
		if err, ok := e.Err.(*QuorumError); ok {
			c.notices.Unreleased(e.Name, causeOf(err))
		}
		if released != nil {
			released(e)
		}
	}
	return h
}

// with returns a function that calls f with what an event says, or nil if f is nil.
func with[I any](f func(context.Context, I), info func(engine.Event) I) func(context.Context, engine.Event) {
	if f == nil {
		return nil
	}
	return func(ctx context.Context, e engine.Event) { f(ctx, info(e)) }
}

// posted returns a function that has f called in the background, or nil if f is nil.
func (c *Client) posted(f func(context.Context, engine.Event)) func(engine.Event) {
	if f == nil {
		return nil
	}
	return func(e engine.Event) { c.events.post(func() { f(context.Background(), e) }) }
}

// cause returns what the Logger is told of the loss.
func (e *lostError) cause() notices.Cause {
	kind := reasons.Kind(e.reason)
	if e.votes != nil {
		kind += causeOf(e.votes).Kind
	}
	return notices.Cause{Kind: kind, Text: e.why()}
}

// causeOf returns what the Logger is told of a wait that lasts because of err, or of a release that failed with it.
func causeOf(err error) notices.Cause {
	c, faults := notices.Cause{Text: unprefixed(err)}, []error{err}
	if q := (*QuorumError)(nil); errors.As(err, &q) {
		c.Text, c.Holder = q.unnamed(), cmp.Or(q.Owner, reasons.Readers(q.Readers))
		// Keys that are not locks, and missing rights, rule a quorum out, so waiting cannot help.
		c.InVain = q.rulesOut(func(err error) bool { return wire.IsNotALock(err) || reasons.IsDenied(err) })
		faults = reasons.Faults(q.failures())
	}
	if c.Held = errors.Is(err, ErrHeld); c.Held {
		faults = []error{ErrHeld}
	}
	c.Kind = reasons.Kind(faults...)
	return c
}

// A background calls functions of a Trace in order, one at a time, on its own goroutine. So a function that is slow, or that calls the
// Client, does not delay a renewal or a master, and cannot deadlock. The zero background is ready for use.
type background struct {
	mu      sync.Mutex // guards what follows
	waiting []func()
	idle    chan struct{} // closed when the goroutine ends; nil: it does not run
}

// eventsMost is how many events may wait for a slow function. Further events are dropped.
const eventsMost = 1 << 14

// post queues f to be called on the goroutine.
func (b *background) post(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.waiting) >= eventsMost {
		return
	}
	b.waiting = append(b.waiting, f)
	if b.idle == nil {
		b.idle = make(chan struct{})
		go b.run()
	}
}

func (b *background) run() {
	b.mu.Lock()
	for len(b.waiting) > 0 {
		f := b.waiting[0]
		b.waiting[0] = nil
		b.waiting = b.waiting[1:]
		b.mu.Unlock()
		f()
		b.mu.Lock()
	}
	close(b.idle)
	b.idle = nil
	b.mu.Unlock()
}

// done returns a channel that is closed when all events have been delivered.
func (b *background) done() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.idle == nil {
		idle := make(chan struct{})
		close(idle)
		return idle
	}
	return b.idle
}

// LogTrace returns a Trace that logs each event at level Debug, and losses at level Warn, with the
// context of the event. A nil logger means slog.Default(). It is for finding out what happens; what a
// service should always log, Options.Logger receives anyway.
func LogTrace(logger *slog.Logger) *Trace {
	if logger == nil {
		logger = slog.Default()
	}
	debug := func(ctx context.Context, event string, attrs ...slog.Attr) {
		logger.LogAttrs(ctx, slog.LevelDebug, "redlock: "+event, attrs...)
	}
	return &Trace{
		LockStart: func(ctx context.Context, i LockStartInfo) {
			debug(ctx, "lock: start", slog.String("name", i.Name), optional("permits", i.Permits))
		},
		AttemptDone: func(ctx context.Context, i AttemptInfo) {
			debug(ctx, "attempt", slog.String("name", i.Name), text("elapsed", i.Elapsed), failure(i.Err))
		},
		LockDone: func(ctx context.Context, i LockDoneInfo) {
			debug(ctx, "lock: done", slog.String("name", i.Name), text("waited", i.Waited), slog.Int("attempts", i.Attempts), optional("permits", i.Permits), failure(i.Err))
		},
		HandedOver: func(ctx context.Context, i HandedOverInfo) {
			debug(ctx, "handed over", slog.String("name", i.Name), text("held", i.Held), slog.Time("until", i.Until), optional("fence", i.Fence), optional("permits", i.Permits))
		},
		Acquired: func(ctx context.Context, i AcquiredInfo) {
			debug(ctx, "acquired", slog.String("name", i.Name), text("waited", i.Waited), slog.Time("until", i.Until),
				slog.Int("rounds", i.Rounds), optional("fence", i.Fence), optional("permits", i.Permits))
		},
		Renewed: func(ctx context.Context, i RenewedInfo) {
			debug(ctx, "renewed", slog.String("name", i.Name), text("elapsed", i.Elapsed), slog.Time("until", i.Until))
		},
		Released: func(ctx context.Context, i ReleasedInfo) {
			debug(ctx, "released", slog.String("name", i.Name), text("held", i.Held), optional("kept", i.Kept), optional("permits", i.Permits), failure(i.Err))
		},
		Lost: func(ctx context.Context, i LostInfo) {
			level := slog.LevelWarn
			if i.Kept {
				level = slog.LevelDebug // nobody held the lock
			}
			logger.LogAttrs(ctx, level, "redlock: lost", slog.String("name", i.Name), text("held", i.Held), optional("kept", i.Kept), optional("permits", i.Permits), failure(i.Err))
		},
		MasterChanged: func(ctx context.Context, i MasterStatus) {
			debug(ctx, "master changed", slog.String("master", i.Name), slog.String("state", i.State.String()), failure(i.Err))
		},
	}
}

// text is a duration as text, also in JSON.
func text(key string, d time.Duration) slog.Attr { return slog.String(key, d.String()) }

// failure is an error's attribute, or none.
func failure(err error) slog.Attr {
	if err == nil {
		return slog.Attr{}
	}
	return slog.String("err", reasons.OneLine(err))
}

// optional is the attribute of a value, or none if it is zero.
func optional[T comparable](key string, value T) slog.Attr {
	if value == *new(T) {
		return slog.Attr{}
	}
	return slog.Any(key, value)
}
