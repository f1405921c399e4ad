package redlock

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/renew"
)

// A Client holds the connections to the masters. A program needs one for each
// set of masters; its methods are safe for concurrent use.
type Client struct {
	opts     *Options // immutable
	clock    clock.Clock
	masters  []*master.Master
	group    *quorum.Group // of the masters
	pools    []*redis.Pool // those to close with the Client
	gates    gate.Gates
	renewals *renew.Scheduler
	sleepers sleepers
	fences   fences
	notices  *notices
	closing  chan struct{} // closed when Close begins
	closed   chan struct{} // closed when Close has ended

	mu     sync.Mutex // guards what follows
	calls  int        // calls that may still send something
	ending bool       // Close has begun
	quiet  chan struct{}
}

// Open returns a Client of the masters at urls, one URL for each: redis:// or
// rediss:// (with TLS) as [user:password@]host[:port][/database], unix:// as
// [user:password@]/path[?db=database], or a plain host:port. Five is usual; a
// majority must answer for a lock to be had.
//
// Like sql.Open it waits for nobody: it returns an error only for what cannot
// be right, such as the same address twice. Masters are dialled, and dialled
// again when they fail, in the background; Ping tells whether enough are there.
func Open(urls []string, opts *Options) (*Client, error) {
	targets := make([]target, len(urls))
	names := make([]string, len(urls))
	seen := make(map[string]int)
	for i, raw := range urls {
		t, err := parseTarget(raw)
		if err != nil {
			return nil, fmt.Errorf("redlock: Open: URL %d: %w", i+1, err)
		}
		if first, twice := seen[t.address]; twice {
			return nil, fmt.Errorf("redlock: Open: URLs %d and %d have the same address %s; each master counts once", first+1, i+1, t.address)
		}
		seen[t.address] = i
		targets[i], names[i] = t, t.address
	}
	o := Options{}
	if opts != nil {
		o = *opts
	}
	if len(o.Names) == 0 {
		o.Names = names
	}
	valid, err := o.withDefaults(len(urls))
	if err != nil {
		return nil, err
	}
	pools := make([]*redis.Pool, len(targets))
	for i, t := range targets {
		pools[i] = newPool(t, valid)
	}
	c, err := newClient(pools, valid)
	if err != nil {
		return nil, err
	}
	c.pools = pools
	return c, nil
}

// New returns a Client of one redigo pool per master. The pools are the
// caller's: Close leaves them open. The Client keeps up to two connections of
// each, so MaxActive must not be 1; a pool should set DialContext rather than
// Dial, which cannot be interrupted. A broken server that announces a reply larger
// than memory is refused on Open's connections; on those of the caller's pools it
// is not. Like Open, New waits for nobody.
func New(masters []*redis.Pool, opts *Options) (*Client, error) {
	if err := checkPools(masters); err != nil {
		return nil, err
	}
	valid, err := opts.withDefaults(len(masters))
	if err != nil {
		return nil, err
	}
	return newClient(masters, valid)
}

func newClient(pools []*redis.Pool, opts *Options) (*Client, error) {
	if len(pools) == 0 {
		return nil, errors.New("redlock: no masters given")
	}
	if len(pools) > master.MaxMasters {
		return nil, fmt.Errorf("redlock: %d masters given, at most %d are possible", len(pools), master.MaxMasters)
	}
	c := &Client{
		opts:    opts,
		clock:   opts.clock,
		notices: startNotices(opts.Logger, len(pools)),
		closing: make(chan struct{}),
		closed:  make(chan struct{}),
		quiet:   make(chan struct{}),
	}
	c.renewals = renew.Start(c.clock)
	c.sleepers.need = quorum.Majority(len(pools))
	servers := master.NewServers(opts.Names)
	id := "" // the masters' word for no wake-ups
	if !opts.DisableWakeups {
		id = newToken()
	}
	for i, pool := range pools {
		c.masters = append(c.masters, master.Start(master.Config{
			Pool:        pool,
			Index:       i,
			NodeTimeout: opts.NodeTimeout,
			DialTimeout: opts.DialTimeout,
			Servers:     servers,
			Quarantine:  opts.quarantine(),
			Clock:       opts.clock,
			ID:          id,
			Woken:       c.woken,
			Redial:      func() interface{ NextBackOff() time.Duration } { return schedule(longestDial) },
			Changed:     func(before master.State, now master.Status) { c.masterChanged(i, before, now) },
		}))
	}
	c.group = quorum.NewGroup(c.masters, opts.NodeTimeout)
	return c, nil
}

// Locker returns a Locker for name with Options.LockOptions. It is cheap and
// sends nothing. Each call returns a new Locker: lock and unlock the same one.
// Lockers of one name exclude each other. An empty name, and one whose key
// would begin with "redlock:", panics; NewLocker returns an error instead.
func (c *Client) Locker(name string) *Locker {
	l, err := c.NewLocker(name, nil)
	if err != nil {
		panic(err.Error())
	}
	return l
}

// NewLocker returns a Locker for name with opts alone; nil means
// Options.LockOptions. It returns an error for a name or options that cannot
// be.
func (c *Client) NewLocker(name string, opts *LockOptions) (*Locker, error) {
	key, err := c.opts.key(name)
	if err != nil {
		return nil, err
	}
	o, err := c.opts.lockOptions(opts)
	if err != nil {
		return nil, err
	}
	return &Locker{client: c, name: name, key: key, opts: o}, nil
}

// Ping returns nil if a quorum of masters may vote, and a *QuorumError that says
// why not otherwise: which are down, refused, or in quarantine until when. It waits
// for first connections, up to DialTimeout, and for one answer of each master, up
// to NodeTimeout.
func (c *Client) Ping(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if !c.begin() {
		return ErrClosed
	}
	defer c.end()
	round := c.group.Ask(master.Ping, nil)
	defer round.End()
	if round.Wait(ctx, c.closing, quorum.Tally.Won).Won() {
		return nil
	}
	err := c.quorumError(opPing, "", round)
	if ctx.Err() != nil {
		return &endedError{op: opPing, ctx: ctx, last: err}
	}
	if c.isClosing() {
		return ErrClosed
	}
	return err
}

// Close ends all waits: Lock panics, the other calls return ErrClosed. It ends
// all leases: their Done closes and their Err is ErrClosed. What is locked and
// not yet unlocked is not released, since its holder may still be at work: it
// runs out by itself, and a later Unlock just returns. So do keys that masters
// keep which have not answered a release: nobody will repeat it. Close waits for
// every goroutine of the Client, and for releases under way to be answered, about
// DialTimeout at most; it returns an error if one would not end by then, as a
// pool's Dial that heeds no context might. Calling it again waits for the first
// call and returns nil.
func (c *Client) Close() error {
	c.mu.Lock()
	if c.ending {
		c.mu.Unlock()
		<-c.closed
		return nil
	}
	c.ending = true
	if c.calls == 0 {
		close(c.quiet)
	}
	c.mu.Unlock()
	defer close(c.closed)

	close(c.closing)
	c.gates.Close()
	for _, t := range c.renewals.Close() {
		(*Lease)(t.(*task)).end(ErrClosed)
	}
	// Calls first: they may still have to roll something back. They are quick,
	// unless a function of the user's is not.
	patience := time.NewTimer(c.opts.DialTimeout / 2)
	defer patience.Stop()
	select {
	case <-c.quiet:
	case <-patience.C:
	}
	for _, m := range c.masters {
		m.Close()
	}
	// A reply may be waited for from just now on: hence a little more.
	limit, stop := context.WithTimeout(context.Background(), c.opts.DialTimeout+c.opts.NodeTimeout)
	defer stop()
	var err error
	for i, m := range c.masters {
		select {
		case <-m.Done():
			continue
		default:
		}
		select {
		case <-m.Done():
		case <-limit.Done():
			err = fmt.Errorf("redlock: Close: %s: a connection, or the dialling of one, has not ended yet", c.opts.Names[i])
		}
	}
	close(c.notices.stop)
	select {
	case <-c.notices.done:
	case <-limit.Done():
		err = errors.Join(err, errors.New("redlock: Close: the Logger has not returned yet"))
	}
	for _, p := range c.pools {
		p.Close()
	}
	return err
}

// begin notes a call that may send something, and reports whether the Client
// is still open. end must be called if it is.
func (c *Client) begin() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ending {
		return false
	}
	c.calls++
	return true
}

func (c *Client) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls--
	if c.ending && c.calls == 0 {
		close(c.quiet)
	}
}

func (c *Client) isClosing() bool {
	select {
	case <-c.closing:
		return true
	default:
		return false
	}
}
