package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/engine"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/notices"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Client holds the connections to the masters. A program needs one Client for each set of masters. Its methods
// are safe for concurrent use.
//
// A Client keeps memory for as many names as were in use at one time, some hundred bytes for each: 16 to 23 MB after 50 000 names. It uses
// that for the next ones.
type Client struct {
	opts    *Options
	core    *engine.Core
	pools   []*redis.Pool // closed by Close; nil after New
	notices *notices.Notices
	events  background
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
	c := &Client{opts: opts, closed: make(chan struct{})}
	c.notices = notices.New(opts.Logger, opts.Names, opts.MaxTTL, defaultTTL)
	c.core = engine.Start(engine.Config{
		Names:               opts.Names,
		Owner:               opts.Owner,
		Prefix:              opts.Prefix,
		NodeTimeout:         opts.NodeTimeout,
		DialTimeout:         opts.DialTimeout,
		TTL:                 opts.LockOptions.TTL,
		Bounds:              opts.bounds,
		Deaf:                opts.DisableWakeups,
		DisableRestartGuard: opts.DisableRestartGuard,
		Clock:               opts.clock,
		ClaimPolls:          opts.claimPolls,
		Schedules:           schedules(opts.NewBackOff),
		Delays:              func() waits.Schedule { return newBackOff() },
		Redials:             func() master.Schedule { return schedule(longestDial) },
		Notices:             c.notices,
		Changed:             c.masterChanged,
	}, c.hooks(), pools)
	go c.notices.Run(func(i int) master.Status { return c.core.Masters()[i].Status() })
	return c, nil
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
			return c.newSet(names, o)
		}
	}
	return (*Locker)(c.core.Locker(name, key, engine.Options(o))), nil
}

// newSet returns a Locker of several names, which are sorted and all different. So their keys are, too.
func (c *Client) newSet(names []string, opts LockOptions) (*Locker, error) {
	if len(names) > wire.NamesMost {
		return nil, fmt.Errorf("redlock: a Locker has %d names, the limit is %d", len(names), wire.NamesMost)
	}
	keys := make([]string, len(names))
	for i, name := range names {
		var err error
		if keys[i], err = c.opts.key(name); err != nil {
			return nil, err
		}
	}
	return (*Locker)(c.core.Set(names, keys, engine.Options(opts))), nil
}

// Ping returns nil if a quorum of masters can grant locks whose names begin with Options.Prefix. Otherwise it returns a *QuorumError that says
// which masters are down, refused, unwritable or in quarantine, and until when, and which deny the user the right to set keys with that
// prefix. It waits for first connections, up to
// DialTimeout, and for one answer of each master, up to NodeTimeout.
func (c *Client) Ping(ctx context.Context) error { return c.core.Ping(ctx) }

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
	if !c.core.EndLeases() {
		<-c.closed
		return nil
	}
	return c.endConnections()
}

// endConnections waits for the calls and the goroutines of the Client, and ends its connections: see Close.
func (c *Client) endConnections() error {
	defer close(c.closed)
	// Calls are awaited first, since they may still have to undo an attempt. They end soon, unless a function
	// of the caller does not return.
	select {
	case <-c.core.Quiet():
	case <-time.After(c.opts.DialTimeout / 2):
	}
	for _, m := range c.core.Masters() {
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
		select {
		case <-done:
		default:
			errs = append(errs, errors.New("redlock: Close: "+what))
		}
	}
	for i, m := range c.core.Masters() {
		await(m.Done(), c.opts.Names[i]+": a connection, or the dialling of one, has not ended yet")
	}
	await(c.core.Renewed(), "a renewal has not ended yet")
	await(c.events.done(), "a function of Options.Trace has not returned yet")
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
	c.core.Refuse()
	held := 0
	select {
	case <-c.core.Unlocked():
	case <-c.closed: // by another goroutine
	case <-ctx.Done():
		held = c.core.Held()
	}
	err, ended := c.closeUntil(ctx)
	if held > 0 || !ended {
		return &shutdownError{held: held, ctx: context.Cause(ctx), err: ctx.Err()}
	}
	return err
}

// shutdownGrace is for how long after the end of its context Shutdown waits for the end of the connections.
const shutdownGrace = 10 * time.Millisecond

// closeUntil is Close until ctx has ended for shutdownGrace. Then the connections end in the background, and it reports false. If another goroutine
// closes the Client, it waits for that until ctx has ended.
func (c *Client) closeUntil(ctx context.Context) (err error, ended bool) {
	if !c.core.EndLeases() {
		select {
		case <-c.closed:
		case <-ctx.Done():
		}
		select {
		case <-c.closed:
			return nil, true
		default:
			return nil, false
		}
	}
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
