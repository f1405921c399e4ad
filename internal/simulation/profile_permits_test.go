package simulation

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
)

// makePermits: processes want one permit or several of one semaphore. In every third run their limits differ. Three of four runs have
// faults.
func makePermits(m *maker) {
	m.options(time.Second, 2*time.Second, 10*time.Second)
	m.wakeups, m.lock.RenewEvery = true, 0
	limit, differ := 1+m.IntN(6), m.one(3)
	faults, long, window := !m.one(4), 0, 10*time.Millisecond
	if faults {
		long, window = 10, 100*time.Millisecond
	}
	for range 3 + m.IntN(4) {
		p := processPlan{routes: m.routes()}
		mine := limit
		if differ {
			mine = 1 + m.IntN(limit)
		}
		for range 1 + m.IntN(2) {
			calls := make([]call, 4+m.IntN(5))
			for j := range calls {
				c := m.call(load{names: 1, think: window, hold: 20 * time.Millisecond, long: long, patient: m.one(2)})
				c.limit, c.slots = mine, 1
				switch {
				case c.kind == callDo:
					c.kind = callLockContext
				case c.kind != callTryLock && m.one(3):
					c.slots = 1 + m.IntN(mine)
				}
				calls[j] = c
			}
			p.workers = append(p.workers, calls)
		}
		m.processes = append(m.processes, p)
	}
	if faults {
		m.faultsOfAllKinds(2+m.IntN(7), 2*time.Second)
	} else {
		m.lossless = true
	}
}

// TestPermits runs a few seeds of the profile of permits. More:
//
//	go test ./internal/simulation -run 'TestSeeds$' -v -args -profile permits -seeds 100
func TestPermits(t *testing.T) {
	for _, p := range turnsProfiles {
		for seed := range uint64(permitsSeeds) {
			if p.name != "permits" {
				break
			}
			if o := simulate(t, makePlanOf(seed, p)); o.failed() {
				t.Errorf("%v\n%s -profile %s", o.violations[0], command(o.plan, nil), p.name)
			}
		}
	}
}

// permitsSeeds is how many seeds take a few seconds.
const permitsSeeds = 6

// A locker is what a turn locks.
type locker interface {
	Lock()
	LockContext(ctx context.Context) error
	TryLockContext(ctx context.Context) error
	Do(ctx context.Context, f func(ctx context.Context) error) error
	Lease() *redlock.Lease
	Unlock()
	UnlockContext(ctx context.Context) error
}

// A permitLocker is a locker that acquires n permits.
type permitLocker struct {
	*redlock.Semaphore
	n      int
	permit *redlock.Permit
}

func newPermitLocker(l *life, c call) *permitLocker {
	s, err := l.client.NewSemaphore(c.name, c.limit, nil)
	if err != nil {
		panic(err)
	}
	return &permitLocker{s, c.slots, nil}
}

func (l *permitLocker) Lock() {
	if l.LockContext(context.Background()) != nil {
		panic("closed")
	}
}

func (l *permitLocker) LockContext(ctx context.Context) (err error) {
	l.permit, err = l.AcquireN(ctx, l.n)
	return err
}

func (l *permitLocker) TryLockContext(ctx context.Context) (err error) {
	l.permit, err = l.TryAcquire(ctx)
	return err
}

func (l *permitLocker) Lease() *redlock.Lease                   { return l.permit.Lease }
func (l *permitLocker) Unlock()                                 { l.permit.Release() }
func (l *permitLocker) UnlockContext(ctx context.Context) error { return l.permit.ReleaseContext(ctx) }

// slotsOf returns the slots of a turn that has permits.
func (t *turn) slotsOf() []int {
	if l, ok := t.locker.(*permitLocker); ok {
		return l.permit.Slots()
	}
	return nil
}

// limitOf returns the largest limit of a semaphore that a process has.
func (p *plan) limitOf(name string) (most int) {
	for _, proc := range p.processes {
		for _, calls := range proc.workers {
			for _, c := range calls {
				if c.name == name {
					most = max(most, c.limit)
				}
			}
		}
	}
	return most
}

// checkPermitsLocked checks that no more permits are valid than the largest limit allows, and no slot twice.
func (j *judge) checkPermitsLocked(k *lock) {
	valid := make(map[int]string)
	for _, h := range k.holders {
		if len(h.slots) == 0 || h.turn.process.present() != h.turn.life || !h.lease.Valid() {
			continue
		}
		for _, slot := range h.slots {
			if other, taken := valid[slot]; taken {
				j.failLocked("permits", fmt.Sprintf("%s and %s have slot %d of %q at once", other, h.turn.name, slot, k.name))
			}
			valid[slot] = h.turn.name
		}
	}
	if most := j.run.plan.limitOf(k.name); most > 0 && len(valid) > most {
		j.failLocked("permits", fmt.Sprintf("%d permits of %q are valid, the limit is %d", len(valid), k.name, most))
	}
}

// checkPermitsFreeLocked checks that somebody enters if there are as many free permits as any waiter wants.
func (j *judge) checkPermitsFreeLocked(k *lock, now time.Time) {
	held := 0
	for _, h := range k.tokens {
		if !h.over || h.dead && h.lease.Until().After(now) {
			held += len(h.slots)
		}
	}
	open := make([]bool, len(j.run.states))
	for i, state := range j.run.states {
		open[i] = state.out == 0 && state.trouble == 0 && now.After(state.until)
	}
	for _, w := range k.waiters {
		if held+w.turn.call.slots > w.turn.call.limit || !w.canEnter(open) {
			k.free = time.Time{}
			return
		}
	}
	if k.free.IsZero() {
		k.free = now
	}
	free := now.Sub(k.free)
	j.figures.longestFree = max(j.figures.longestFree, free)
	if free > j.run.plan.profile.free {
		j.failLocked("free permits", fmt.Sprintf("%d wait for %q, of which %d permits are held, for %v", len(k.waiters), k.name, held, free))
	}
}

// checkPermits checks that every permit comes back: one client acquires all of them at once.
func (r *run) checkPermits() {
	for _, k := range r.judge.locks {
		limit := r.plan.limitOf(k.name)
		if limit == 0 || r.stopped() {
			continue
		}
		c := r.masters.Open(&redlock.Options{LockOptions: redlock.LockOptions{TTL: r.plan.lock.TTL}, MaxTTL: r.plan.lock.TTL})
		ctx, cancel := context.WithTimeout(context.Background(), 2*r.plan.lock.TTL+30*time.Second)
		s := c.Semaphore(k.name, limit)
		if p, err := s.AcquireN(ctx, limit); err != nil {
			r.judge.fail("permits", fmt.Sprintf("nobody wants %q, and not all of its %d permits can be had: %v", k.name, limit, err))
		} else if err := p.ReleaseContext(ctx); err != nil {
			r.judge.fail("permits", fmt.Sprintf("all permits of %q: %v", k.name, err))
		}
		cancel()
		c.Close()
	}
}
