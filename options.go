package redlock

import (
	"cmp"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/bounds"
	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// Options are the settings of a Client. A nil *Options, and a zero field, mean defaults. A Client copies its
// Options, so later changes have no effect. No duration may be above a week. One
// that is above zero and below a millisecond is an error: its unit is missing.
type Options struct {
	// LockOptions are the settings of the Lockers that Client.Locker returns.
	LockOptions LockOptions

	// Prefix and the name together form the Redis key of a lock. The default is empty: the key is the name.
	// Redlock clients in other languages use the same key, so locks exclude each other across languages.
	// Prefix and name together must not be longer than 64 KiB. A Prefix that begins with "redlock:" is an error.
	Prefix string

	// Names are the names of the masters in errors, logs and traces, in the order of the masters. The default
	// is the URL's host:port for Open, and "master 1" and so on for New.
	Names []string

	// Owner names the holder of this Client's locks. It appears in errors and logs of waiting clients, in
	// Inspect, and in redlock status. It is stored on the masters as a part of each token, so everybody who
	// may read the keys can read it. It is at most 128 bytes of printable ASCII without spaces. Empty means
	// host/pid: the name of the host and the id of the process.
	Owner string

	// DisableOwner leaves the owner out of tokens. Other clients then find that a lock is held, but not by
	// whom. Owner must be empty.
	DisableOwner bool

	// TLSConfig is for rediss URLs. It is cloned for each URL. An empty ServerName is set from the URL. The
	// default trusts the roots of the system.
	TLSConfig *tls.Config

	// NodeTimeout is how long a round waits for the vote of one master. It should be far below the TTL, so
	// that masters which do not answer cannot use up the validity. Zero means automatic: four times the round
	// trip to the farthest master that a quorum needs, but at least 50 ms. A value above 50 ms is at most a
	// twentieth of the TTL (for Ping: of LockOptions.TTL), or twice the round trip, if that is more, but at
	// most a fifth of the TTL. Round trips are measured from the first command of a connection on. A wait gives
	// the remaining masters less time once a quorum has answered. Negative, or above a week, is an error.
	NodeTimeout time.Duration

	// DialTimeout bounds connecting to a master, with TLS, AUTH and the first commands of the Client. It also
	// bounds Close, and how long a reply may be overdue: a connection whose oldest reply is overdue by
	// DialTimeout is closed. Connecting takes four to nine round trips, depending on TLS and AUTH. Raise
	// DialTimeout if a round trip takes more than 100 ms. Zero means 1 s. Negative, or above a week, is an
	// error.
	DialTimeout time.Duration

	// MaxTTL is the longest TTL of this Client's Lockers. Give every client of the same masters the same
	// MaxTTL. Each client declares its MaxTTL to the masters. The votes of a master that may have lost data
	// do not count for a time, which is the largest MaxTTL that was declared, plus 2 s. See
	// DisableRestartGuard and MasterStatus.MaxTTL. The masters keep the largest, after its client has ended,
	// until an operator lowers it with redlock doctor --adopt --max-ttl. Zero means 10 s or LockOptions.TTL,
	// whichever is larger. Negative, or above a week, is an error.
	MaxTTL time.Duration

	// DriftFactor is the part of the TTL that is subtracted from the validity, in addition to 2 ms, because
	// the clocks of the masters may run faster than the client's. Zero means 0.01. Negative, or 1 or more, is
	// an error.
	DriftFactor float64

	// NewBackOff returns a new schedule for one wait. It is a function because schedules keep state. It says when
	// a wait stops: then LockContext returns the error of the last attempt, and Lock continues with the longest delay of
	// the schedule. It says how long a wait pauses between two attempts with DisableWakeups, and for Lockers of several
	// names. All other waits stand in a queue, and poll whatever the schedule says. Several goroutines may call it at once.
	// If it returns nil, the call that locks panics. Nil means delays that start at 5 ms and grow by half, up to 250 ms, each randomised by half, and never stop.
	NewBackOff func() BackOff

	// DisableWakeups turns off the messages by which a master tells a waiting process that a release has granted it the
	// lock. It is for servers that forbid channels that begin with "redlock:wake:". Waiting clients then poll, as
	// NewBackOff says. A client that has waited for a second stands in the queue with all others, if it may write
	// to the queue. In its turn, a release leaves the lock free for it. Clients at masters that deny the
	// subscription do the same, but poll at their own pace: see MasterStatus.WakeErr.
	DisableWakeups bool

	// DisableRestartGuard makes votes count at once from masters that have restarted, lost their memory, or
	// been replaced by a replica. Two clients may then hold one lock. It is for two kinds of masters:
	//
	//   - masters that lose nothing (appendonly with appendfsync always, no failover), whose restarts then
	//     cost no quarantine;
	//   - servers that forbid what the guard needs: the key "redlock:incarnation".
	DisableRestartGuard bool

	// Logger receives the events that a caller of Lock does not see otherwise:
	//
	//   - masters that go down or deny access, come up again, are quarantined, or whose restarts may remain
	//     unnoticed;
	//   - locks that are waited for, by any call, after 1, 10 and 60 s and then every minute, and why. The level is Error if waiting
	//     cannot help, because the user lacks a right or the key is not a lock. It is Info if somebody else holds the lock and no call of
	//     Lock waits;
	//   - lost leases.
	//
	// Events with the same cause are one line. A line is written up to 2 s after the first of its events, and
	// repeated after 10 s at the earliest. Nil means slog.Default().
	Logger *slog.Logger

	// Trace receives every event. Nil disables tracing. JoinTraces makes one Trace of several.
	Trace *Trace

	clock      clock.Clock   // set by tests: see clock.Attach
	claimPolls time.Duration // how long after a round a claim polls, on average; set by tests: see clock.Pace
	bounds     bounds.Bounds // computed by withDefaults
}

func init() {
	clock.Attach = func(options any, c clock.Clock) { options.(*Options).clock = c }
	clock.Pace = func(options any, polls time.Duration) { options.(*Options).claimPolls = polls }
}

// LockOptions are the settings of a Locker. A nil *LockOptions, and a zero field, mean defaults. No duration
// but MaxHold may be above a week. One that is above zero and below a millisecond is an error: its unit is missing.
type LockOptions struct {
	// TTL is how long the masters keep the lock without a renewal. It is rounded down to whole milliseconds. A lease
	// that was granted to a waiting process has the TTL from its first renewal on: see Lease.Until.
	// Zero means 10 s. Negative, or above a week, is an error, and so is a TTL that leaves no validity after
	// drift and one NodeTimeout.
	TTL time.Duration

	// RenewEvery is how often a held lease is renewed. Each renewal makes it last a full TTL again. Zero
	// means a third of the TTL, so that two renewals may fail. Negative means never: the lease ends with its
	// validity, unless Lease.Extend is called. RenewEvery must be below the TTL less drift. It should be
	// longer than a round trip to the farthest master: if a master has lost the key and its answer comes
	// after the next renewal has begun, the key is not set there again.
	RenewEvery time.Duration

	// MaxHold is how long a lease is renewed, counted from its acquisition. Then it runs out and is lost. So
	// a holder that hangs, or never unlocks, does not keep the lock for ever. Zero means 1 h. Negative means
	// no bound. Above a year is an error.
	MaxHold time.Duration

	// Handover is how long the goroutines of the Client may pass a lock on, from one unlock to the next
	// waiter, before it is released to other processes. It is counted from when the masters granted the lock
	// to the last time that it is passed on. Handover needs renewal, and Lockers of equal LockOptions. Permits are
	// passed on in the same way, between calls for as many of the same limit. Zero
	// means 50 ms. Negative disables it. Above a week is an error.
	Handover time.Duration

	// Keep is for how long a lock that nobody else wants stays with the Client after Unlock, counted from when the masters
	// granted it. Meanwhile Lock and Unlock need no network, and UnlockContext returns at once. When another client locks, it
	// recalls the lock, and gets it as soon as no goroutine holds it: after two round trips, instead of one for a free lock.
	// A lock that others want is not kept for a while. Zero, the default, means that Unlock releases the lock. Negative, or
	// above a week, is an error.
	//
	// Keep is for locks that one process uses again and again: of a shard's owner, of a leader, of a tenant whose requests
	// all come to one process. Do not use it for jobs of processes that end soon or are often stopped, such as cron jobs,
	// nor for names that processes lock in turns.
	//
	//   - Close releases the locks that are kept. If a process is killed, stopped or cut off while it keeps a lock, others wait
	//     for up to the TTL, as if a goroutine held it. A short TTL, such as 2 s, limits that.
	//   - Clients of other libraries and TryLock of Lockers without Keep do not recall a lock, or
	//     do not wait for it. They find it held for up to Keep. A lock that is not used is released earlier, when a renewal
	//     is due. Give all Lockers of a name the same Keep.
	//   - TryLock makes a second attempt, a round trip after one that has found the lock held. If the Client that keeps the lock is
	//     farther from the masters, that is too early: TryLock fails, and finds the lock free a little later.
	//   - A Client keeps 10 000 locks at most, with those that goroutines hold. For one more it releases one that was not
	//     used for long.
	//   - A lease that ends while nobody holds the lock is not logged: see LostInfo.Kept. UnlockContext and Do, but not Unlock, read the clocks to
	//     tell whether the lease had ended before.
	//   - Keep needs renewal, wake-ups, one name, and Lockers of equal LockOptions. Otherwise it has no effect.
	Keep time.Duration

	// Fencing gives each lease a number, Lease.Fence, which is greater than those of all earlier leases of
	// the name. A resource can then refuse the late writes of an earlier holder. Those of permits rise by slot: see Permit.
	//
	//   - All clients of the name must use it. Otherwise their leases have no number.
	//   - The clocks of clients and masters must agree within half a second.
	//   - Each acquisition is a script call, and sometimes takes two rounds. It must take no longer than half
	//     of Options.MaxTTL. That half must be above NodeTimeout.
	//   - It needs the restart guard. Without the guard, a master that has lost its data votes at once, and
	//     numbers may fall.
	//   - A vote does not count if the master's number for the name is ahead of the clock by more than the
	//     longest time that the acquisition may take, plus a second. The error names the master.
	Fencing bool
}

// Defaults.
const (
	defaultTTL         = 10 * time.Second
	defaultDialTimeout = time.Second
	defaultDriftFactor = 0.01
	defaultMaxHold     = time.Hour
	defaultHandover    = 50 * time.Millisecond
)

// shortest is the least of every duration that is neither zero nor negative. No shorter one is of use, and a number without a unit is
// shorter: 30 is 30ns, and 5000 is 5µs.
const shortest = time.Millisecond

// Upper bounds of the settings. Sums of a few durations within these bounds do not overflow, nor does their
// number of milliseconds in a script.
const (
	longest     = 7 * 24 * time.Hour   // of every duration but MaxHold
	longestHold = 365 * 24 * time.Hour // of MaxHold
	longestKey  = wire.KeyMost         // of Prefix and name together, in bytes
)

// ownKeys is the prefix of redlock's own keys on the masters. The key of a lock must not begin with it.
const ownKeys = "redlock:"

// withDefaults returns a validated copy of o for n masters. Options are validated only here and in
// lockOptions.
func (o *Options) withDefaults(n int) (*Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	c.Names = append([]string(nil), c.Names...)
	if c.TLSConfig != nil {
		c.TLSConfig = c.TLSConfig.Clone()
	}
	if err := c.defaultDurations(); err != nil {
		return nil, err
	}
	if strings.HasPrefix(c.Prefix, ownKeys) {
		return nil, fmt.Errorf("redlock: Options.Prefix is %q, and keys that begin with %q are reserved", c.Prefix, ownKeys)
	}
	if len(c.Prefix) >= longestKey {
		return nil, fmt.Errorf("redlock: Options.Prefix is %d bytes long, the limit for prefix and name together is %d", len(c.Prefix), longestKey)
	}
	if !(c.DriftFactor >= 0 && c.DriftFactor < 1) {
		return nil, fmt.Errorf("redlock: Options.DriftFactor is %v, want at least 0 and below 1", c.DriftFactor)
	}
	c.DriftFactor = cmp.Or(c.DriftFactor, defaultDriftFactor)
	c.Logger = cmp.Or(c.Logger, slog.Default())
	c.Trace = cmp.Or(c.Trace, &Trace{})
	c.claimPolls = cmp.Or(c.claimPolls, waits.Step)
	if c.NewBackOff == nil {
		c.NewBackOff = newBackOff
	}
	if c.clock == nil {
		c.clock = clock.System
	}
	if err := cmp.Or(c.checkNames(n), c.checkOwner()); err != nil {
		return nil, err
	}
	c.bounds.DriftFactor, c.bounds.MaxTTL, c.bounds.NodeTimeout = c.DriftFactor, c.MaxTTL, c.NodeTimeout
	lock, err := c.lockOptions(&c.LockOptions)
	if err != nil {
		return nil, fmt.Errorf("%w (in Options.LockOptions)", err)
	}
	c.LockOptions = lock
	return &c, nil
}

func (o *Options) defaultDurations() error {
	o.bounds.Automatic = o.NodeTimeout == 0
	for _, d := range []struct {
		name string
		val  *time.Duration
		def  time.Duration
	}{
		{"Options.NodeTimeout", &o.NodeTimeout, quorum.LeastTimeout},
		{"Options.DialTimeout", &o.DialTimeout, defaultDialTimeout},
		{"Options.MaxTTL", &o.MaxTTL, max(defaultTTL, o.LockOptions.TTL)},
	} {
		if err := checkDuration(d.name, *d.val, false, longest); err != nil {
			return err
		}
		*d.val = cmp.Or(*d.val, d.def)
	}
	return nil
}

// checkDuration returns an error if a duration is out of bounds, or so short that its unit was forgotten: 30 is 30ns.
func checkDuration(name string, d time.Duration, mayBeNegative bool, most time.Duration) error {
	switch {
	case d < 0 && !mayBeNegative:
		return fmt.Errorf("redlock: %s is negative: %v", name, d)
	case d > most:
		return fmt.Errorf("redlock: %s is %v, above the limit of %v", name, d, most)
	case d > 0 && d < shortest:
		return fmt.Errorf("redlock: %s is %v: is the unit missing? The least is %v", name, d, shortest)
	}
	return nil
}

func (o *Options) checkNames(n int) error {
	if len(o.Names) == 0 {
		for i := range n {
			o.Names = append(o.Names, fmt.Sprintf("master %d", i+1))
		}
		return nil
	}
	if len(o.Names) != n {
		return fmt.Errorf("redlock: Options.Names has %d names for %d masters", len(o.Names), n)
	}
	seen := make(map[string]bool)
	for _, name := range o.Names {
		if name == "" || seen[name] {
			return fmt.Errorf("redlock: Options.Names has an empty or repeated name: %q", name)
		}
		seen[name] = true
	}
	return nil
}

// lockOptions returns a validated copy of l, which may be nil.
func (o *Options) lockOptions(l *LockOptions) (LockOptions, error) {
	if l == nil {
		return o.LockOptions, nil
	}
	c := *l
	for _, d := range []struct {
		name          string
		val, most     time.Duration
		mayBeNegative bool
	}{
		{"LockOptions.TTL", c.TTL, longest, false},
		{"LockOptions.RenewEvery", c.RenewEvery, longest, true},
		{"LockOptions.MaxHold", c.MaxHold, longestHold, true},
		{"LockOptions.Handover", c.Handover, longest, true},
		{"LockOptions.Keep", c.Keep, longest, false},
	} {
		if err := checkDuration(d.name, d.val, d.mayBeNegative, d.most); err != nil {
			return c, err
		}
	}
	c.TTL = cmp.Or(c.TTL, defaultTTL)
	c.MaxHold = cmp.Or(c.MaxHold, defaultMaxHold)
	c.Handover = cmp.Or(c.Handover, defaultHandover)
	// Redis counts whole milliseconds. Validity must be computed from the rounded TTL, or it would outlast
	// the key.
	c.TTL = c.TTL.Truncate(time.Millisecond)
	if c.TTL > o.MaxTTL {
		return c, fmt.Errorf("redlock: LockOptions.TTL of %v is above Options.MaxTTL of %v", c.TTL, o.MaxTTL)
	}
	if least := o.bounds.Drift(c.TTL) + o.NodeTimeout; c.TTL <= least {
		return c, fmt.Errorf("redlock: LockOptions.TTL of %v leaves no validity after drift and NodeTimeout, together %v", c.TTL, least)
	}
	if limit := o.bounds.FencedWithin(c.TTL); c.Fencing && limit <= o.NodeTimeout {
		return c, fmt.Errorf("redlock: with LockOptions.Fencing an acquisition may take %v, at most half of Options.MaxTTL: that must be more than NodeTimeout, %v", limit, o.NodeTimeout)
	}
	c.RenewEvery = cmp.Or(c.RenewEvery, c.TTL/3)
	if validity := o.bounds.Validity(c.TTL); c.RenewEvery >= validity {
		return c, fmt.Errorf("redlock: LockOptions.RenewEvery of %v is not below the validity of %v", c.RenewEvery, validity)
	}
	return c, nil
}

// key returns the Redis key of a lock, or an error if the name or the key is not allowed.
func (o *Options) key(name string) (string, error) {
	if name == "" {
		return "", errors.New("redlock: a lock needs a name")
	}
	if n := len(o.Prefix) + len(name); n > longestKey {
		return "", fmt.Errorf("redlock: a lock's key, Options.Prefix and name, is %d bytes long, the limit is %d", n, longestKey)
	}
	key := o.Prefix + name
	if strings.HasPrefix(key, ownKeys) {
		return "", fmt.Errorf("redlock: the key %q begins with %q, which is reserved", key, ownKeys)
	}
	return key, nil
}

// checkOwner sets the default of Options.Owner, or returns an error for one that cannot be.
func (o *Options) checkOwner() error {
	switch {
	case o.DisableOwner && o.Owner != "":
		return fmt.Errorf("redlock: Options.Owner is %q, but DisableOwner is set", o.Owner)
	case o.DisableOwner:
	case o.Owner == "":
		o.Owner = wire.ProcessOwner()
	case len(o.Owner) > wire.OwnerMost:
		return fmt.Errorf("redlock: Options.Owner is %d bytes long, the limit is %d", len(o.Owner), wire.OwnerMost)
	case !wire.IsOwner(o.Owner):
		return fmt.Errorf("redlock: Options.Owner is %q, want printable ASCII characters without spaces", o.Owner)
	}
	return nil
}
