package redlock

import (
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/incarnation"
)

// Options are a Client's settings. Nil or zero means defaults. They are
// copied: later changes have no effect.
type Options struct {
	// LockOptions is what Client.Locker uses.
	LockOptions LockOptions

	// Prefix is put before each name to make the Redis key. The default is
	// none: the key is the name, as Redlocks in other languages use it, so that
	// locks exclude each other across languages.
	Prefix string

	// Names are what the masters are called in errors, logs and traces, in
	// their order. The default is the URL's host:port for Open, and "master 1"
	// and so on for New.
	Names []string

	// TLSConfig is for rediss URLs. It is cloned for each, and ServerName is set
	// from the URL unless it is set here. The default trusts the system's roots.
	TLSConfig *tls.Config

	// NodeTimeout is one master's share of a round: how long its vote is waited
	// for. It should be far below the TTL, so that masters which do not answer
	// cannot use up the validity. Zero means 50 ms; negative is an error.
	NodeTimeout time.Duration

	// DialTimeout bounds connecting to a master, with TLS, AUTH and what the
	// Client asks it first. A connection whose oldest reply is overdue by so
	// much is given up. It also bounds Close. Zero means 1 s; negative is an
	// error.
	DialTimeout time.Duration

	// MaxTTL is the longest TTL that any client of these masters uses; Lockers
	// with a longer one are refused. A master that may have forgotten locks does
	// not vote for so long and 2 s more: see DisableRestartGuard. Zero means 10 s or
	// LockOptions.TTL, the larger; negative is an error.
	MaxTTL time.Duration

	// DriftFactor is the part of the TTL by which validity is shortened, beside
	// 2 ms, because the masters' clocks may run faster than ours. Zero means
	// 0.01; negative, and 1 or more, is an error.
	DriftFactor float64

	// NewBackOff makes the schedule of one wait: a factory, since schedules keep
	// state. Lock ignores a schedule's stop and stays at its longest step;
	// LockContext then returns the last attempt's error. Nil means delays from
	// 5 ms, growing by half, up to 250 ms, each randomised by half, for ever.
	NewBackOff func() BackOff

	// DisableWakeups turns off the queue and the messages by which a release wakes
	// the next waiting process, for servers that forbid what they need: keys that
	// begin with "redlock:queue:" and channels that begin with "redlock:wake:".
	// Waiters then find out by trying again.
	DisableWakeups bool

	// DisableRestartGuard has the votes of masters count that have just restarted,
	// or lost their memory, or been replaced by a replica; two may then hold one
	// lock. It is for masters that lose nothing (appendonly with appendfsync always,
	// no failover), whose restarts then do not cost a quarantine, and for servers
	// that forbid what the guard needs: the key "redlock:incarnation".
	DisableRestartGuard bool

	// Logger is told, rate-limited, of what a caller of Lock would not see
	// otherwise: masters going down, coming up and being quarantined, waits of more
	// than 1 s, and lost leases. Nil means slog.Default().
	Logger *slog.Logger

	// Trace is told of everything; nil means nobody is.
	Trace *Trace

	clock clock.Clock // tests set it
}

// LockOptions are a Locker's settings. Nil or zero means defaults.
type LockOptions struct {
	// TTL is how long the masters keep the lock for a holder they do not hear
	// from. It is rounded down to whole milliseconds. Zero means 10 s; negative
	// is an error, and so is a TTL that leaves no validity after drift and one
	// NodeTimeout.
	TTL time.Duration

	// RenewEvery is how often a lease is renewed while it is held, to last a
	// full TTL again. Zero means a third of the TTL, which leaves room for two
	// failures; negative means never: the lease ends with its validity, unless
	// Lease.Extend is called. It must be below the TTL less drift.
	RenewEvery time.Duration

	// MaxHold is for how long a lease is renewed, from its acquisition on; then
	// it runs out, and is lost. Somebody who forgot to unlock, or hangs, must
	// not keep others out for ever. Zero means 1 h; negative means no bound.
	MaxHold time.Duration

	// Handover is for how long a lock may travel among the goroutines of the
	// Client, from one unlock to the next waiter, without being released to
	// others: counted from when the masters granted it, to the last time that it
	// is passed on. It needs renewal, and Lockers of equal LockOptions. Zero means
	// 50 ms; negative means not at all.
	Handover time.Duration

	// Fencing gives each lease a number, Lease.Fence, which is greater than those of
	// all leases of the name before it, so that a resource can refuse a holder who
	// comes late. All clients of the name must use it, or their leases have none. The
	// clocks of clients and masters must agree within half a second. An acquisition is
	// a script call then, and now and then takes two rounds; it must take no longer than
	// half of Options.MaxTTL, which must be above NodeTimeout. It needs the restart
	// guard: a master that forgets and counts at once may let numbers fall.
	Fencing bool
}

// Defaults.
const (
	defaultTTL         = 10 * time.Second
	defaultNodeTimeout = 50 * time.Millisecond
	defaultDialTimeout = time.Second
	defaultDriftFactor = 0.01
	defaultMaxHold     = time.Hour
	defaultHandover    = 50 * time.Millisecond
	driftFloor         = 2 * time.Millisecond // the precision of Redis' own expiry, and a bit
)

// ownKeys is how our own keys on the masters begin; a lock's key must not.
const ownKeys = "redlock:"

// withDefaults returns a validated copy of o for n masters. It is the only
// place where options are judged, with LockOptions.withDefaults.
func (o *Options) withDefaults(n int) (*Options, error) {
	c := Options{}
	if o != nil {
		c = *o
	}
	c.Names = append([]string(nil), c.Names...)
	if c.TLSConfig != nil {
		c.TLSConfig = c.TLSConfig.Clone()
	}
	for _, d := range []struct {
		name string
		val  *time.Duration
		def  time.Duration
	}{
		{"NodeTimeout", &c.NodeTimeout, defaultNodeTimeout},
		{"DialTimeout", &c.DialTimeout, defaultDialTimeout},
		{"MaxTTL", &c.MaxTTL, max(defaultTTL, c.LockOptions.TTL)},
	} {
		if *d.val < 0 {
			return nil, fmt.Errorf("redlock: Options.%s is negative: %v", d.name, *d.val)
		}
		if *d.val == 0 {
			*d.val = d.def
		}
	}
	if !(c.DriftFactor >= 0 && c.DriftFactor < 1) {
		return nil, fmt.Errorf("redlock: Options.DriftFactor is %v, want at least 0 and below 1", c.DriftFactor)
	}
	if c.DriftFactor == 0 {
		c.DriftFactor = defaultDriftFactor
	}
	if c.NewBackOff == nil {
		c.NewBackOff = newBackOff
	}
	if c.Logger == nil {
		c.Logger = slog.Default()
	}
	if c.clock == nil {
		c.clock = clock.System
	}
	if c.Trace == nil {
		c.Trace = &Trace{}
	}
	if err := c.checkNames(n); err != nil {
		return nil, err
	}
	lock, err := c.lockOptions(&c.LockOptions)
	if err != nil {
		return nil, fmt.Errorf("%w (in Options.LockOptions)", err)
	}
	c.LockOptions = lock
	return &c, nil
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
			return fmt.Errorf("redlock: Options.Names has %q twice, or it is empty", name)
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
	if c.TTL < 0 {
		return c, fmt.Errorf("redlock: LockOptions.TTL is negative: %v", c.TTL)
	}
	if c.TTL == 0 {
		c.TTL = defaultTTL
	}
	// Redis counts milliseconds. Validity must be computed from what it counts,
	// or it would outlast the key.
	c.TTL = c.TTL.Truncate(time.Millisecond)
	if c.TTL > o.MaxTTL {
		return c, fmt.Errorf("redlock: LockOptions.TTL of %v is above Options.MaxTTL of %v", c.TTL, o.MaxTTL)
	}
	if least := o.drift(c.TTL) + o.NodeTimeout; c.TTL <= least {
		return c, fmt.Errorf("redlock: LockOptions.TTL of %v leaves no validity after drift and NodeTimeout, together %v", c.TTL, least)
	}
	if limit := o.fencedWithin(c.TTL); c.Fencing && limit <= o.NodeTimeout {
		return c, fmt.Errorf("redlock: LockOptions.Fencing leaves %v for an acquisition, half of Options.MaxTTL at most, which is not above NodeTimeout, %v", limit, o.NodeTimeout)
	}
	if c.RenewEvery == 0 {
		c.RenewEvery = c.TTL / 3
	}
	if validity := c.TTL - o.drift(c.TTL); c.RenewEvery >= validity {
		return c, fmt.Errorf("redlock: LockOptions.RenewEvery of %v is not below the validity of %v", c.RenewEvery, validity)
	}
	if c.MaxHold == 0 {
		c.MaxHold = defaultMaxHold
	}
	if c.Handover == 0 {
		c.Handover = defaultHandover
	}
	return c, nil
}

// drift returns how much shorter than its TTL a lease is relied on, for clocks
// that run at different speeds.
func (o *Options) drift(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*o.DriftFactor) + driftFloor
}

// quarantine returns for how long a master's memory must have been known before
// its votes count: when every lease has ended that it may have forgotten. It is 0
// if the guard is off.
func (o *Options) quarantine() time.Duration {
	if o.DisableRestartGuard {
		return 0
	}
	return o.MaxTTL + incarnation.Margin
}

// key returns the Redis key of a lock, or an error if it cannot have one.
func (o *Options) key(name string) (string, error) {
	if name == "" {
		return "", errors.New("redlock: a lock needs a name")
	}
	key := o.Prefix + name
	if strings.HasPrefix(key, ownKeys) {
		return "", fmt.Errorf("redlock: the key %q begins with %q, which is reserved", key, ownKeys)
	}
	return key, nil
}
