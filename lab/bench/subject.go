package main

import (
	"context"
	"time"
)

// A subject is one library with one set of settings.
type subject struct {
	id       string // what -peers matches and tables show
	program  string // which opens it in its processes; "": this one
	short    string // the chart's label
	settings string // for RESULTS.md
	open     func(setup) (locks, error)

	contends  bool // takes part in the workloads of contention
	renews    bool // keeps what it holds, so that holding is a workload
	onlyFault bool // shown only where masters fail
	single    bool // knows one master, so that its failure is no minority's
	principal bool // takes part also where only the most important are compared
	ownCost   bool // ours with other settings: beside ours alone, where what they cost is asked
}

// setup is what a subject is opened with: the same for all.
type setup struct {
	Addrs       []string      // the masters
	TTL         time.Duration // of each lock
	NodeTimeout time.Duration // how long a peer waits for one master; ours has its own default
	Callers     int           // how many call at once: what pools are made for
	Names       naming        // what the callers lock
	Prefix      string        // of the names
	Wants       []string      // what each caller locks at once, behind the Prefix; nil: see Names
	Writes      bool          // the callers are writers; else those of a subject with readers read
	Cold        bool          // connect, and lock nothing
	WarmUp      time.Duration // how long all lock and unlock before the measurement; 0: once
}

// naming says which names the callers lock.
type naming int

const (
	oneName  naming = iota // all callers the same
	ownNames               // each caller a name of its own
	newNames               // each caller another name each time
)

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

// An awaiter is locks that can wait until they are connected.
type awaiter interface {
	await(ctx context.Context) error
}

// A counter is locks that count what became of their attempts and releases.
type counter interface{ counts() counts }

// counts are what ours counts by itself. One of Acquired took one round; none are counted if Acquired is 0.
type counts struct{ One, Acquired, FailedAttempts, FailedReleases int64 }

// countsOf returns what l has counted so far.
func countsOf(l locks) counts {
	if c, ok := l.(counter); ok {
		return c.counts()
	}
	return counts{}
}

func (c counts) plus(d counts) counts {
	return counts{c.One + d.One, c.Acquired + d.Acquired, c.FailedAttempts + d.FailedAttempts, c.FailedReleases + d.FailedReleases}
}

func (c counts) minus(d counts) counts {
	return c.plus(counts{-d.One, -d.Acquired, -d.FailedAttempts, -d.FailedReleases})
}

// into adds to the figures, if anything was counted.
func (c counts) into(f figures) {
	f[failures] += float64(c.FailedReleases)
	if c.Acquired > 0 {
		f[oneRound] = 100 * float64(c.One) / float64(c.Acquired)
		f[failedAttempts] = float64(c.FailedAttempts)
	}
}

// A holder is a mutex that can tell whether it is still held.
type holder interface{ held() bool }

const oursID = "redlock (ours)"

// Ours with other settings.
const (
	unguardedID = "redlock, guard disabled"
	fencedID    = "redlock, fenced"
	setID       = "redlock, several names"
	readersID   = "redlock, RWLocker"
)

// inProcessID is the standard library's, for readers of one process.
const inProcessID = "sync.RWMutex"

// ofOther ends the id of a subject as another commit has it: see -old.
const ofOther = ", the other commit"

// rueidisID is the only peer that waits for messages instead of polling.
const rueidisID = "rueidislock"

// reference is the subject that ratios refer to, unless the workload has another.
const reference = "redsync on redigo"

// subjects returns all, ours first.
func subjects() []*subject {
	return []*subject{
		{
			id: oursID, short: "redlock (ours)", open: openOurs, contends: true, renews: true, principal: true,
			settings: "defaults (the restart guard on, no fencing), but for a silent Logger and a Trace that counts attempts and releases; `Lock` and `Unlock`",
		}, {
			id: unguardedID, short: "redlock, no guard", open: openUnguarded, ownCost: true,
			settings: "the same with Options.DisableRestartGuard",
		}, {
			id: fencedID, short: "redlock, fenced", open: openFenced, ownCost: true,
			settings: "ours with LockOptions.Fencing, and the guard",
		}, {
			id: setID, short: "redlock, several names", open: openSets, ownCost: true,
			settings: "ours; each Locker has four names, or those that the workload says",
		}, {
			id: readersID, short: "redlock, RWLocker", open: openReaders, ownCost: true,
			settings: "ours; readers and writers lock an RWLocker",
		}, {
			id: inProcessID, short: "sync.RWMutex", open: openInProcess, ownCost: true,
			settings: "what readers of one process cost without a lock between processes",
		}, {
			id: reference, short: "redsync · redigo", open: openRedsyncRedigo, contends: true, principal: true,
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
			id: rueidisID, short: "rueidislock", open: openRueidislock, contends: true, renews: true, principal: true,
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
