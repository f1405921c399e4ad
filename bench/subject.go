package main

import (
	"context"
	"time"
)

// A subject is one library with one set of settings.
type subject struct {
	id       string // what -peers matches and tables show
	short    string // the chart's label
	settings string // for RESULTS.md
	open     func(setup) (locks, error)

	contends  bool // takes part in the workloads of contention
	renews    bool // keeps what it holds, so that holding is a workload
	onlyFault bool // shown only where masters fail
	single    bool // knows one master, so that its failure is no minority's
	ownCost   bool // ours with other settings: beside ours alone, where what they cost is asked
}

// setup is what a subject is opened with: the same for all.
type setup struct {
	Addrs       []string      // the masters
	TTL         time.Duration // of each lock
	NodeTimeout time.Duration // how long a peer waits for one master; ours has its own default
	Callers     int           // how many call at once: what pools are made for
}

// locks is an open client of a subject.
type locks interface {
	// mutex returns the lock of that name for one goroutine.
	mutex(name string) mutex
	close()
}

// mutex is a lock as the subject's users have it.
type mutex interface {
	// lock waits until it has the lock, however often it has to try. It
	// returns an error only if ctx has ended.
	lock(ctx context.Context) error
	// unlock returns the library's opinion of the release.
	unlock() error
}

// A rounder is locks that may count the rounds of their acquisitions.
type rounder interface{ rounds() rounds }

// rounds says how many of all acquisitions took one round; none are counted if All
// is 0.
type rounds struct{ One, All int64 }

// roundsOf returns what l has counted so far.
func roundsOf(l locks) rounds {
	if r, ok := l.(rounder); ok {
		return r.rounds()
	}
	return rounds{}
}

func (r rounds) plus(s rounds) rounds  { return rounds{r.One + s.One, r.All + s.All} }
func (r rounds) minus(s rounds) rounds { return rounds{r.One - s.One, r.All - s.All} }

// into adds to the figures, if rounds were counted.
func (r rounds) into(f figures) {
	if r.All > 0 {
		f[oneRound] = 100 * float64(r.One) / float64(r.All)
	}
}

// A holder is a mutex that can tell whether it is still held.
type holder interface{ held() bool }

const oursID = "redlock (ours)"

// Ours with other settings.
const (
	unguardedID = "redlock, guard disabled"
	fencedID    = "redlock, fenced"
)

// reference is the subject that ratios refer to, unless the workload has another.
const reference = "redsync on redigo"

// subjects returns all, ours first.
func subjects() []*subject {
	return []*subject{
		{
			id: oursID, short: "redlock (ours)", open: openOurs, contends: true, renews: true,
			settings: "defaults (NodeTimeout 50 ms, the restart guard on, no fencing); only the Logger is silenced",
		}, {
			id: unguardedID, short: "redlock, no guard", open: openUnguarded, ownCost: true,
			settings: "the same with Options.DisableRestartGuard",
		}, {
			id: fencedID, short: "redlock, fenced", open: openFenced, ownCost: true,
			settings: "ours with LockOptions.Fencing, and the guard",
		}, {
			id: reference, short: "redsync · redigo", open: openRedsyncRedigo, contends: true,
			settings: "redsync's defaults but for TTL and unlimited tries; a pool of ten connections a core for each master, go-redis' default, which serves hundreds of callers better than a connection for each and better than its example's MaxIdle 3; Wait, IdleTimeout 240 s, connect time-out 1 s, read and write time-outs as below",
		}, {
			id: "redsync on go-redis", short: "redsync · go-redis", open: openRedsyncGoRedis,
			settings: "the same; its default PoolSize (ten a core), ContextTimeoutEnabled, read and write time-outs and a context around Unlock as below",
		}, {
			id: "redsync on rueidis", short: "redsync · rueidis", open: openRedsyncRueidis,
			settings: "the same; rueidis' defaults (it pipelines by itself), a context around Unlock as below",
		}, {
			id: "redsync, WithFailFast", short: "redsync FailFast", open: openRedsyncFailFast,
			settings: "on redigo, with twice the connections, since its stragglers keep some, and no limit for one caller; a new Mutex for each lock, since a straggler of the last release reads the Mutex's next token. Where it hangs, a SET that came after the release of its own lock has left a key on a healthy master",
		}, {
			id: "redsync, redigo as in its example", short: "redsync · no time-out", open: openRedsyncPlain, onlyFault: true,
			settings: "the pool of redsync's own example: MaxIdle 3 and no time-outs, which are redigo's defaults",
		}, {
			id: "rueidislock", short: "rueidislock", open: openRueidislock, contends: true, renews: true,
			settings: "KeyMajority 3, hence five keys; NoLoopTracking as its README recommends for Redis 7.0.5 and later; TryNextAfter as the time-outs below (its default of 20 ms makes it fail on a busy machine). It knows one client only, so its ClientBuilder is given one that sends key i to master i",
		}, {
			id: "bsm/redislock (ONE master)", short: "bsm · 1 master", open: openBSM, single: true,
			settings: "on go-redis as above; it knows one master and no quorum, so it does a fifth of the work and ends with that master: a lower bound, not a Redlock. Where masters fail it is left out",
		},
	}
}

func subjectByID(id string) *subject {
	for _, s := range subjects() {
		if s.id == id {
			return s
		}
	}
	return nil
}

// untilLocked calls try until it succeeds or ctx has ended: a library that
// gives up is one whose caller tries again.
func untilLocked(ctx context.Context, try func() error) error {
	for {
		err := try()
		if err == nil {
			return nil
		}
		if ctx.Err() != nil {
			return err
		}
	}
}
