// Package engine acquires, holds, renews, shares, keeps, hands over and releases locks and permits. It is what package redlock is made
// of: that package has the API, its documentation, the errors and the events for users.
//
// A Core has what the locks of a Client share. A Locker is one lock, and a Lease one acquisition of it. The engine tells its Client what happens
// by Hooks. What has failed is a Failure, from which Hooks.Error makes the error that users see. Only what needs no explanation is an error of the
// engine, such as ErrReleased.
package engine

import (
	"context"
	"math/bits"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/bounds"
	"github.com/redlock-go/redlock/internal/calls"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/fence"
	"github.com/redlock-go/redlock/internal/flight"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/notices"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/recent"
	"github.com/redlock-go/redlock/internal/renew"
	"github.com/redlock-go/redlock/internal/turns"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/weakmap"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Config is what a Core needs to know. All of it must be valid.
type Config struct {
	Names               []string      // of the masters
	Owner               string        // of the locks; empty: none
	Prefix              string        // of all keys of locks
	NodeTimeout         time.Duration // as in the Options of package redlock
	DialTimeout         time.Duration // the same
	TTL                 time.Duration // of a Locker without Options of its own: it bounds the time for questions
	Bounds              bounds.Bounds // of the times that follow from these
	Deaf                bool          // no messages: see master.Config.Deaf
	DisableRestartGuard bool          // as in the Options of package redlock
	Clock               clock.Clock   // what time it is
	ClaimPolls          time.Duration // how long after a round a claim polls, on average

	Schedules func() waits.Schedule          // returns a new schedule of the user for one wait
	Delays    func() waits.Schedule          // returns a new schedule that never stops
	Redials   func() master.Schedule         // returns a new schedule of the times between dials of a master that is down
	Notices   *notices.Notices               // what the Logger is told
	Changed   func(i int, now master.Status) // is called when the state of a master has changed; must not block
}

// Options are the settings of a Locker: see LockOptions of package redlock. All of them must be valid.
type Options struct {
	TTL        time.Duration // of the keys
	RenewEvery time.Duration // negative: never
	MaxHold    time.Duration // negative: no limit
	Handover   time.Duration // negative: never
	Keep       time.Duration // 0: the lock is not kept
	Fencing    bool          // each acquisition has a number
}

// renewed reports whether leases are renewed.
func (o *Options) renewed() bool { return o.RenewEvery >= 0 }

// A Core is what the locks of one Client share. Its methods are safe for concurrent use.
type Core struct {
	// Immutable.
	cfg     Config
	clock   clock.Clock
	hooks   Hooks
	id      string
	masters []*master.Master
	group   *quorum.Group  // of the masters
	servers *guard.Servers // what is known of the memories of all masters

	// Waiting: who is next among the goroutines of this Client, and what the masters say.
	gates      gate.Gates
	waits      *waits.Waits
	unused     waits.Unused
	semaphores weakmap.Map[Semaphore] // by key
	permits    atomic.Uint64          // how many acquisitions of permits have begun
	releases   *turns.Releases
	unkept     *turns.Unkept
	contended  *recent.Set     // the sets that had to acquire their names one by one, by key
	flights    flight.Flights  // of SingleFlight
	owners     *holding.Owners // of locks that a goroutine waits for

	// Holding.
	renewals  *renew.Scheduler
	fences    *fence.Committer
	entrances entrances               // of names with readers, or with a lock that may be kept
	kept      recent.Order[*entrance] // locks that may be kept

	// Ending.
	calls   *calls.Calls  // that may still send commands; ended by EndLeases
	refuse  sync.Once     // closes closing
	closing chan struct{} // closed by Refuse
}

// Start returns a Core of the masters that pools lead to.
func Start(cfg Config, hooks Hooks, pools []*redis.Pool) *Core {
	c := &Core{
		cfg:     cfg,
		clock:   cfg.Clock,
		hooks:   hooks,
		closing: make(chan struct{}),
		calls:   calls.New(),

		waits:     waits.New(len(pools), cfg.Bounds.Drift),
		releases:  turns.NewReleases(cfg.Deaf),
		unkept:    turns.NewUnkept(),
		contended: recent.NewSet(contendedFor),
	}
	c.owners = holding.NewOwners(c.query)
	c.renewals = renew.Start(c.clock)
	c.kept.Most, c.kept.Used = keptMost, (*entrance).lastEntered
	c.gates.Queued = c.entrances.queued
	c.servers = guard.NewServers(guard.Settings{Names: cfg.Names, Off: cfg.DisableRestartGuard, MaxTTL: cfg.Bounds.MaxTTL, Clock: cfg.Clock})
	c.id = wire.NewID(len(pools), cfg.Owner)
	heart := new(master.Heart)
	for i, pool := range pools {
		c.masters = append(c.masters, master.Start(master.Config{
			Pool:        pool,
			Index:       i,
			NodeTimeout: cfg.NodeTimeout,
			DialTimeout: cfg.DialTimeout,
			Servers:     c.servers,
			Listener:    listener{c},
			Heart:       heart,
			ID:          c.id,
			Deaf:        cfg.Deaf,
			Sample:      cfg.Prefix + "redlock-rights-" + wire.NewToken(""),
		}))
	}
	c.group = quorum.NewGroup(c.masters)
	c.fences = fence.NewCommitter(c.group, c.clock, cfg.Bounds, c.closing)
	return c
}

// A listener is a Core as its masters know it: see master.Listener. Its Waits take all that concerns claims only.
type listener struct{ core *Core }

var _ master.Listener = listener{}

// Freed implements master.Listener. The readers' marker in the place of the token says that a writer waits for readers of this Client.
func (l listener) Freed(i int, key, token string) (expected bool) {
	if token == wire.ReadersMarker {
		return l.core.entrances.recallReaders(key)
	}
	return l.core.waits.Freed(i, key, token)
}

// Granted implements master.Listener. A grant to a reader that names the next claim says that a writer waits: no further reader of this Client
// enters.
func (l listener) Granted(i int, g master.Grant) (expected bool) {
	if g.Next != "" {
		if claim := l.core.waits.ClaimFor(g.Key); claim != nil && claim.Reads() {
			l.core.entrances.recallReaders(g.Key)
		}
	}
	return l.core.waits.Granted(i, g)
}

func (l listener) Near(i int, key, token string) (released *master.SentClaim, expected bool) {
	released, near, expected := l.core.waits.Near(i, key, token)
	l.core.pingOften(near)
	return released, expected
}

// pingOften pings the masters often at which a claim has become near: near has them as bits.
func (c *Core) pingOften(near uint64) {
	for ; near != 0; near &= near - 1 {
		c.masters[bits.TrailingZeros64(near)].PingOften()
	}
}

func (l listener) Recalled(_ int, key, token string) (expected bool) {
	return l.core.entrances.recall(key, token)
}

// Calm implements master.Listener. A holder, and a client that may soon be one, looks for restarts and other losses of memory once a second.
func (l listener) Calm() bool { return l.core.renewals.Empty() && l.core.waits.Calm() }

func (l listener) Patience() (near, far time.Duration) {
	return l.core.waits.Patience(l.core.group, l.core.cfg.ClaimPolls)
}

func (l listener) Waiting(i int) (since time.Time, g time.Duration, near bool) {
	return l.core.waits.Waiting(i)
}

func (l listener) Value(i int, v wire.Value) (expected bool) { return l.core.waits.Value(i, v) }
func (l listener) Up(i int)                                  { l.core.pingOften(l.core.waits.Up(i)) }
func (l listener) Raising(before, now time.Duration)         { l.core.cfg.Notices.Raising(before, now) }
func (l listener) Redial() master.Schedule                   { return l.core.cfg.Redials() }
func (l listener) Changed(i int, now master.Status)          { l.core.cfg.Changed(i, now) }

// ErrorOf returns the error for users; nil for nil.
func (c *Core) ErrorOf(f *Failure) error {
	switch {
	case f == nil:
		return nil
	case f.made == nil:
		return c.hooks.Error(f)
	}
	f.made.once.Do(func() { f.made.err = c.hooks.Error(f) })
	return f.made.err
}

// public returns err, or the error for users if err is a Failure.
func (c *Core) public(err error) error {
	if f, ok := err.(*Failure); ok {
		return c.ErrorOf(f)
	}
	return err
}

// Masters returns the masters, in their order. It must not be changed.
func (c *Core) Masters() []*master.Master { return c.masters }

// Need returns how many masters are a quorum.
func (c *Core) Need() int { return c.group.Need() }

// Ping returns nil if a quorum of masters can grant locks. Otherwise its error is one for users.
func (c *Core) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.calls.Begin() {
		return ErrClosed
	}
	defer c.calls.Done()
	round := c.group.Ask(wire.Ping, nil, c.cfg.Bounds.Limit(c.cfg.TTL))
	defer round.End()
	if round.Wait(ctx, c.closing, quorum.Tally.Won).Won() {
		return nil
	}
	f := failed(OpPing, "", round.Votes())
	if ctx.Err() != nil {
		f = &Failure{Op: OpPing, Ended: ctx, Last: f}
	} else if isClosed(c.closing) {
		return ErrClosed
	}
	return c.ErrorOf(f)
}

// Inspect sends a query about a name to all masters, and calls heard with the answers, and with a function for further queries. heard returns
// how many of the answers it could use. Inspect returns the error of the masters that did not answer, and its own. Both are for users.
func (c *Core) Inspect(ctx context.Context, name string, q wire.Query, heard func(votes []quorum.Vote, ask func(wire.Query) []quorum.Vote) (known int)) (failure, err error) {
	if ctx.Err() != nil {
		return nil, c.ErrorOf(&Failure{Op: OpInspect, Name: name, Ended: ctx})
	}
	ask := func(q wire.Query) []quorum.Vote { return c.query(ctx, q, quorum.All) }
	votes := ask(q)
	if votes == nil {
		return nil, ErrClosed
	}
	known := heard(votes, ask)
	f := failed(OpInspect, name, votes)
	failure = c.ErrorOf(f)
	switch {
	case isClosed(c.closing):
		return failure, ErrClosed
	case ctx.Err() != nil:
		return failure, c.ErrorOf(&Failure{Op: OpInspect, Name: name, Ended: ctx, Last: f})
	case known < c.group.Need():
		return failure, failure
	}
	return failure, nil
}

// query sends a query to all masters, and returns their answers when these are enough; nil if the Client is closed.
func (c *Core) query(ctx context.Context, q wire.Query, enough func(quorum.Tally) bool) []quorum.Vote {
	if !c.calls.Begin() {
		return nil
	}
	defer c.calls.Done()
	return c.group.Query(ctx, c.closing, q, c.cfg.Bounds.Limit(c.cfg.TTL), enough)
}

// Refuse ends all waits for locks, and refuses new ones.
func (c *Core) Refuse() {
	c.refuse.Do(func() { close(c.closing) })
	c.gates.Close()
	c.entrances.closeAll()
}

// Unlocked returns a channel that is closed when, after Refuse, no lock is held any more.
func (c *Core) Unlocked() <-chan struct{} { return c.gates.Drained() }

// Held returns how many locks and permits goroutines hold. Those that readers of this Client share count once.
func (c *Core) Held() int {
	return c.gates.Count(func(in gate.Inside) bool { return in.Holds == HeldAlone || in.Holds == HeldByReaders })
}

// EndLeases ends all waits and all leases. It reports false if it was called before.
func (c *Core) EndLeases() (first bool) {
	if !c.calls.End() {
		return false
	}
	c.Refuse()
	for _, t := range c.renewals.Stop() {
		(*tenure)(t.(*task)).end(ErrClosed)
	}
	return true
}

// Quiet returns a channel that is closed when, after EndLeases, no call sends commands any more.
func (c *Core) Quiet() <-chan struct{} { return c.calls.Quiet() }

// Renewed returns a channel that is closed when, after EndLeases, no renewal runs any more.
func (c *Core) Renewed() <-chan struct{} { return c.renewals.Done() }

// sleep waits for d, the end of ctx or the Client, or for wake.
func (c *Core) sleep(ctx context.Context, d time.Duration, wake <-chan struct{}) {
	if d <= 0 {
		return
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-wake:
	case <-t.C:
	case <-ctx.Done():
	case <-c.closing:
	}
}

// delays returns the delays of a call, by schedules of the user. If forever is true, they never stop.
func (c *Core) delays(forever bool) waits.Delays {
	return waits.Delays{Start: c.cfg.Schedules, Forever: forever, Default: longestDelay}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
