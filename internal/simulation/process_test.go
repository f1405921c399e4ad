package simulation

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/clock"
)

// A process is one of the run's processes, over all its lives.
type process struct {
	run    *run
	index  int
	plan   processPlan
	offset atomic.Int64 // of its wall clock

	mu      sync.Mutex // guards what follows
	life    *life      // nil while it is dead
	lives   int
	pauses  int           // how many faults stop it at present
	changed chan struct{} // closed when life or pauses change
}

// A life is a process from its start to its end.
type life struct {
	process *process
	client  *redlock.Client
	links   []*link // by master
	pools   []*redis.Pool
	ended   chan struct{} // closed when the process crashes or closes its Client
	crashed bool          // set before ended is closed
}

func (p *process) String() string { return fmt.Sprintf("process %d", p.index) }

// start begins a life.
func (p *process) start() {
	r := p.run
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &life{process: p, ended: make(chan struct{})}
	opts := &redlock.Options{
		LockOptions:    r.plan.lock,
		MaxTTL:         p.ttl(),
		DisableWakeups: !r.plan.wakeups,
		Names:          r.masters.Names()[:r.plan.masters],
		Logger:         slog.New(r.history.logger(p)),
	}
	opts.LockOptions.TTL = p.ttl()
	if s := p.plan.settings; s.kind != usual {
		opts.LockOptions.RenewEvery, opts.DriftFactor, opts.DisableWakeups = s.renew, s.drift, s.noWakeups
		opts.DialTimeout = max(time.Second, 12*(p.plan.farthest()+r.plan.slow.late)) // as its documentation advises
	}
	if !r.plan.automatic {
		opts.NodeTimeout = nodeTimeout
	}
	if r.plan.automatic {
		opts.NodeTimeout = r.plan.timeouts
	}
	clock.Attach(opts, p.clock)
	for i := range r.plan.masters {
		route := p.plan.routes[i]
		if slow := r.plan.slow; slow.master == i {
			route.delay[toMaster] += slow.late / 2
			route.delay[toClient] += slow.late / 2
		}
		seed := uint64(p.index*1000 + p.lives*10 + i)
		link := newLink(r.masters.Master(i), route, rand.New(rand.NewPCG(r.plan.seed, seed)))
		if p.pauses > 0 {
			link.block(toMaster)
			link.block(toClient)
		}
		link.denied = p.plan.settings.denied
		l.links = append(l.links, link)
		l.pools = append(l.pools, &redis.Pool{MaxIdle: 2, DialContext: func(ctx context.Context) (redis.Conn, error) {
			c, err := link.dial(ctx)
			if err != nil {
				return nil, err
			}
			return redis.NewConn(c, 0, 0), nil
		}})
	}
	r.own(l)
	c, err := redlock.New(l.pools, opts)
	if err != nil {
		panic(err)
	}
	l.client = c
	p.lives++
	p.life = l
	p.changedLocked()
}

// ttl returns the TTL of the process's leases, which is its MaxTTL, too.
func (p *process) ttl() time.Duration {
	if p.plan.ttl > 0 {
		return p.plan.ttl
	}
	return p.run.plan.lock.TTL
}

func (p *process) changedLocked() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// clock is the process's clock.
func (p *process) clock() clock.Reading {
	now := time.Now()
	return clock.At(now, now.Add(time.Duration(p.offset.Load())), 0)
}

// running waits until the process is alive and not stopped. It returns nil at the end of the run.
func (p *process) running() *life {
	for {
		p.mu.Lock()
		l, paused, changed := p.life, p.pauses > 0, p.changed
		p.mu.Unlock()
		if p.run.stopped() {
			return nil
		}
		if l != nil && !paused {
			return l
		}
		await(changed, p.run.stop, time.Time{})
	}
}

// awake waits while the process is stopped, and reports whether l still lives.
func (p *process) awake(l *life) bool { return p.running() == l }

func (p *process) isStopped() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.pauses > 0
}

// present returns the process's life if it is alive and not stopped, or nil.
func (p *process) present() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauses > 0 {
		return nil
	}
	return p.life
}

// current returns the process's life if it is alive, or nil.
func (p *process) current() *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.life
}

// pause stops the process: nothing reaches it and nothing leaves it. Its goroutines do not look at
// anything before resume. Timers inside its Client do fire; what they send leaves at resume.
func (p *process) pause() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauses++; p.pauses == 1 && p.life != nil {
		for _, l := range p.life.links {
			l.block(toMaster)
			l.block(toClient)
		}
	}
	p.changedLocked()
}

func (p *process) resume() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pauses--; p.pauses == 0 && p.life != nil {
		for _, l := range p.life.links {
			l.unblock(toMaster)
			l.unblock(toClient)
		}
	}
	p.changedLocked()
}

// end ends the current life, and returns it. It returns nil if the process is dead already.
func (p *process) end(crashed bool) *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.life
	if l == nil {
		return nil
	}
	p.life = nil
	l.crashed = crashed
	close(l.ended)
	p.changedLocked()
	return l
}

// crash ends the process without notice.
func (p *process) crash(silent bool) {
	l := p.end(true)
	if l == nil {
		return
	}
	for _, link := range l.links {
		link.crash(silent)
	}
	p.run.judge.died(l)
	p.run.close(l) // only ends its goroutines: nothing leaves it
}

// shut closes the Client.
func (p *process) shut() {
	if l := p.end(false); l != nil {
		p.run.judge.died(l)
		p.run.close(l)
	}
}

// startAgain begins another life, unless the process lives.
func (p *process) startAgain() {
	if p.current() == nil && !p.plan.absent {
		p.start()
	}
}

// gone reports whether the life has ended.
func (l *life) gone() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// reaches reports whether the process can have the vote of a master in time.
func (l *life) reaches(i int) bool {
	limit := nodeTimeout
	if l.process.run.plan.automatic {
		limit = max(50*time.Millisecond, 4*l.quorumAway())
	}
	return l.links[i].passable(limit)
}

// farthest is a round trip to the farthest master.
func (p processPlan) farthest() (d time.Duration) {
	for _, r := range p.routes {
		d = max(d, r.delay[toMaster]+r.delay[toClient])
	}
	return d
}

// quorumAway is a round trip to the farthest master that a quorum needs, without jitter.
func (l *life) quorumAway() time.Duration {
	var trips []time.Duration
	for _, link := range l.links {
		link.mu.Lock()
		trips = append(trips, link.route.delay[toMaster]+link.route.delay[toClient]+2*link.slow)
		link.mu.Unlock()
	}
	slices.Sort(trips)
	return trips[len(trips)/2]
}
