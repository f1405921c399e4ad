package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/calls"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/events"
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
	"github.com/redlock-go/redlock/internal/wire"
)

// A Client holds the connections to the masters. A program needs one Client for each set of masters. Its methods
// are safe for concurrent use.
//
// A Client keeps memory for as many names as were in use at one time, some hundred bytes for each: 16 to 23 MB after 50 000 names. It uses
// that for the next ones.
type Client struct {
	// Immutable.
	opts    *Options
	clock   clock.Clock
	names   masterNames // Options.Names
	id      string
	pools   []*redis.Pool // closed by Close; nil after New
	masters []*master.Master
	group   *quorum.Group  // of the masters
	servers *guard.Servers // what is known of the memories of all masters

	// Waiting: who is next among the goroutines of this Client, and what the masters say.
	gates     gate.Gates
	waits     *waits.Waits
	grants    waits.Grants
	crowds    crowds        // of goroutines that want permits
	permits   atomic.Uint64 // how many acquisitions of permits have begun
	releases  *turns.Releases
	contended *recent.Set    // the sets that had to acquire their names one by one, by key
	flights   flight.Flights // of SingleFlight

	// Holding.
	renewals  *renew.Scheduler
	fences    *fence.Numbers
	entrances entrances               // of names with readers, or with a lock that may be kept
	kept      recent.Order[*entrance] // locks that may be kept

	// Telling users.
	notices *notices.Notices
	events  events.Queue
	owners  *holding.Owners // of locks that a goroutine waits for

	// Ending.
	calls   *calls.Calls  // that may still send commands; ended by Close
	refuse  sync.Once     // closes closing
	closing chan struct{} // closed when Close or Shutdown begins
	closed  chan struct{} // closed when Close has ended
}

// newClient returns a Client of the masters that pools lead to.
func newClient(pools []*redis.Pool, opts *Options) (*Client, error) {
	if len(pools) == 0 {
		return nil, errors.New("redlock: no masters given")
	}
	if len(pools) > master.MaxMasters {
		return nil, fmt.Errorf("redlock: %d masters given, the limit is %d", len(pools), master.MaxMasters)
	}
	c := &Client{
		opts:    opts,
		names:   opts.Names,
		clock:   opts.clock,
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
		calls:   calls.New(),

		waits:     waits.New(len(pools)),
		releases:  turns.NewReleases(opts.DisableWakeups),
		fences:    fence.NewNumbers(),
		contended: recent.NewSet(contendedFor),
		owners:    holding.NewOwners(),
	}
	c.notices = notices.New(opts.Logger, opts.Names, opts.MaxTTL, defaultTTL)
	c.renewals = renew.Start(c.clock)
	c.kept.Most, c.kept.Used = keptMost, (*entrance).lastEntered
	c.gates.Queued = c.entrances.queued
	c.servers = guard.NewServers(guard.Settings{Names: opts.Names, Off: opts.DisableRestartGuard, MaxTTL: opts.MaxTTL, Clock: opts.clock})
	c.id = wire.NewID(len(pools), opts.Owner)
	for i, pool := range pools {
		c.masters = append(c.masters, master.Start(c.masterConfig(i, pool)))
	}
	c.group = quorum.NewGroup(c.masters)
	go c.notices.Run(func(i int) master.Status { return c.masters[i].Status() })
	return c, nil
}

func (c *Client) masterConfig(i int, pool *redis.Pool) master.Config {
	return master.Config{
		Pool:        pool,
		Index:       i,
		NodeTimeout: c.opts.NodeTimeout,
		DialTimeout: c.opts.DialTimeout,
		Servers:     c.servers,
		Listener:    listener{c.waits, c},
		ID:          c.id,
		Deaf:        c.opts.DisableWakeups,
		Sample:      c.opts.Prefix + "redlock-rights-" + wire.NewToken(""),
	}
}

// A listener is a Client as its masters know it. Its Waits take all that concerns claims only.
type listener struct {
	*waits.Waits
	client *Client
}

var _ master.Listener = listener{}

// Freed implements master.Listener. The readers' marker in the place of the token says that a writer waits for readers of this Client.
func (l listener) Freed(i int, key, token string) (expected bool) {
	if token == wire.ReadersMarker {
		return l.client.entrances.recallReaders(key)
	}
	return l.Waits.Freed(i, key, token)
}

// Granted implements master.Listener. A grant to a reader that names the next claim says that a writer waits: no further reader of this Client
// enters.
func (l listener) Granted(i int, g master.Grant) (expected bool) {
	if g.Next != "" && l.Reads(g.Key) {
		l.client.entrances.recallReaders(g.Key)
	}
	return l.Waits.Granted(i, g)
}

// Recalled implements master.Listener.
func (l listener) Recalled(_ int, key, token string) (expected bool) {
	return l.client.entrances.recall(key, token)
}

// Calm implements master.Listener. A holder, and a client that may soon be one, looks for restarts and other losses of memory once a second.
func (l listener) Calm() bool { return l.client.renewals.Empty() && l.Waits.Calm() }

// Patience implements master.Listener.
func (l listener) Patience() (near, far time.Duration) {
	return l.Waits.Patience(l.client.group, l.client.opts.claimPolls)
}

// Raising implements master.Listener.
func (l listener) Raising(before, now time.Duration) { l.client.notices.Raising(before, now) }

// Redial implements master.Listener.
func (l listener) Redial() master.Schedule { return schedule(longestDial) }

// Changed implements master.Listener.
func (l listener) Changed(i int, before master.State, now master.Status) {
	c := l.client
	c.notices.MasterChanged(i, now)
	if f := c.opts.Trace.MasterChanged; f != nil {
		status := statusOf(c.names[i], now)
		c.events.Post(func() { f(context.Background(), status) })
	}
}

// Locker returns a Locker for name with Options.LockOptions. It is cheap and sends nothing. Each call returns
// a new Locker: unlock the same Locker that was locked. Lockers with the same name exclude each other. Locker
// panics if name is empty, or if its key would begin with "redlock:". NewLocker returns an error instead.
//
// With more names, the Locker locks all of them or none. It excludes every Locker that has one of the names.
// The order of the names does not matter, and a name that occurs twice counts once. 128 names are the limit.
// Lockers of several names do not deadlock with each other. A goroutine that locks several Lockers, one after
// the other, can deadlock as with any mutex.
func (c *Client) Locker(name string, more ...string) *Locker {
	l, err := c.NewLocker(name, nil, more...)
	if err != nil {
		panic(err.Error())
	}
	return l
}

// NewLocker returns a Locker for name, and more names as for Locker, with opts, which replace
// Options.LockOptions; nil means Options.LockOptions. It returns an error if a name or the options are invalid.
func (c *Client) NewLocker(name string, opts *LockOptions, more ...string) (*Locker, error) {
	key, err := c.opts.key(name)
	if err != nil {
		return nil, err
	}
	o, err := c.opts.lockOptions(opts)
	if err != nil {
		return nil, err
	}
	if len(more) > 0 {
		names := append([]string{name}, more...)
		slices.Sort(names)
		if names = slices.Compact(names); len(names) > 1 {
			return newSet(c, names, o)
		}
	}
	l := &Locker{client: c, name: name, key: key, opts: o, terms: wire.NewTerms(key, o.TTL)}
	c.entrances.initKind(l)
	return l, nil
}

// Ping returns nil if a quorum of masters can grant locks whose names begin with Options.Prefix. Otherwise it returns a *QuorumError that says
// which masters are down, refused, unwritable or in quarantine, and until when, and which deny the user the right to set keys with that
// prefix. It waits for first connections, up to
// DialTimeout, and for one answer of each master, up to NodeTimeout.
func (c *Client) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.calls.Begin() {
		return ErrClosed
	}
	defer c.calls.Done()
	round := c.group.Ask(wire.Ping, nil, c.opts.bounds.Limit(c.opts.LockOptions.TTL))
	defer round.End()
	if round.Wait(ctx, c.closing, quorum.Tally.Won).Won() {
		return nil
	}
	err := c.names.quorumError(opPing, "", round.Votes())
	if ctx.Err() != nil {
		return &endedError{op: opPing, ctx: ctx, last: err}
	}
	if isClosed(c.closing) {
		return ErrClosed
	}
	return err
}

// Close ends all waits: Lock panics, and the other calls return ErrClosed. It ends all leases: their Done is
// closed, and their Err is ErrClosed. A lock that is not yet unlocked is not released, since its holder may
// still be working. It becomes free when its TTL has passed, and a later Unlock does nothing. Keys on masters
// that have not answered a release also stay for their TTL.
//
// Close waits for every goroutine of the Client and for releases under way, for about 1.5 DialTimeouts and a NodeTimeout at most. It
// returns an error that names what has not ended by then, such as a Dial of a caller's pool that ignores its
// context, a Logger, or a function of Options.Trace. It may be called from such a function. A second call
// waits for the first one and returns nil.
func (c *Client) Close() error {
	if !c.endLeases() {
		<-c.closed
		return nil
	}
	return c.endConnections()
}

// endLeases ends all waits and all leases. It reports false if it was called before.
func (c *Client) endLeases() (first bool) {
	if !c.calls.End() {
		return false
	}
	c.refuseLocks()
	for _, t := range c.renewals.Stop() {
		(*tenure)(t.(*task)).end(ErrClosed)
	}
	return true
}

// endConnections waits for the calls and the goroutines of the Client, and ends its connections: see Close.
func (c *Client) endConnections() error {
	defer close(c.closed)
	// Calls are awaited first, since they may still have to undo an attempt. They end soon, unless a function
	// of the caller does not return.
	select {
	case <-c.calls.Quiet():
	case <-time.After(c.opts.DialTimeout / 2):
	}
	for _, m := range c.masters {
		m.Close()
	}
	// A connection may have begun just now to wait for a reply, so the limit is a little more than
	// DialTimeout.
	limit, cancel := context.WithTimeout(context.Background(), c.opts.DialTimeout+c.opts.NodeTimeout)
	defer cancel()
	var errs []error
	await := func(done <-chan struct{}, what string) {
		select {
		case <-done:
		case <-limit.Done():
		}
		if !isClosed(done) {
			errs = append(errs, errors.New("redlock: Close: "+what))
		}
	}
	for i, m := range c.masters {
		await(m.Done(), c.opts.Names[i]+": a connection, or the dialling of one, has not ended yet")
	}
	await(c.renewals.Done(), "a renewal has not ended yet")
	await(c.events.Done(), "a function of Options.Trace has not returned yet")
	await(c.notices.Stop(), "the Logger has not returned yet")
	for _, p := range c.pools {
		p.Close()
	}
	return errors.Join(errs...)
}

// Shutdown closes the Client when no lock is held any more. At once, no lock can be acquired: calls
// that begin or wait to lock return ErrClosed, and Lock panics, as after Close. Locks that are held stay
// held, and their leases are renewed. Shutdown waits until each has been unlocked, and then calls Close.
//
// If ctx ends first, Shutdown ends the leases that are left with ErrClosed, and returns within 10 ms. Its error matches ctx's and says how
// many locks were held. If none was, and the connections end in that time, the error is nil. Connections to masters that do not answer
// end later, in the background: a call of Close waits for them. Otherwise Shutdown returns what Close returns. It must not be called by a holder, which it would wait for, without a ctx that ends.
func (c *Client) Shutdown(ctx context.Context) error {
	c.refuseLocks()
	held := 0
	select {
	case <-c.gates.Drained():
	case <-c.closed: // by another goroutine
	case <-ctx.Done():
		isHeld := func(reason error) bool { return reason == ErrHeld || reason == errOwnReaders } // a gate may be taken by a failing attempt
		held = c.gates.Count(isHeld)
	}
	if !c.endLeases() {
		// Another goroutine closes the Client.
	} else if err, ended := c.endConnectionsUntil(ctx); ended && held == 0 {
		return err
	}
	select {
	case <-c.closed:
	case <-ctx.Done():
	}
	if held > 0 || !isClosed(c.closed) {
		return &shutdownError{held: held, ctx: context.Cause(ctx), err: ctx.Err()}
	}
	return nil
}

// shutdownGrace is for how long after the end of its context Shutdown waits for the end of the connections.
const shutdownGrace = 10 * time.Millisecond

// endConnectionsUntil is endConnections until ctx has ended for shutdownGrace. Then the connections end in the background, and it reports
// false.
func (c *Client) endConnectionsUntil(ctx context.Context) (err error, ended bool) {
	result := make(chan error, 1)
	go func() { result <- c.endConnections() }()
	select {
	case err := <-result:
		return err, true
	case <-ctx.Done():
	}
	select {
	case err := <-result:
		return err, true
	case <-time.After(shutdownGrace):
		return nil, false
	}
}

// refuseLocks ends all waits for locks, and refuses new ones.
func (c *Client) refuseLocks() {
	c.refuse.Do(func() { close(c.closing) })
	c.gates.Close()
	c.entrances.closeAll()
}

// A shutdownError says that a context has ended a Shutdown.
type shutdownError struct {
	held     int
	ctx, err error // the context's cause and error
}

func (e *shutdownError) Error() string {
	if e.held == 0 {
		return fmt.Sprintf("redlock: Shutdown: %v; connections to masters are still ending", e.ctx)
	}
	return fmt.Sprintf("redlock: Shutdown: %v; locks still held: %d", e.ctx, e.held)
}

func (e *shutdownError) Unwrap() []error { return []error{e.ctx, e.err} }
