package simulation

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
)

// watchEvery is how often the judge checks the waiters.
const watchEvery = 10 * time.Millisecond

// watch checks until the end of the run that nobody waits for a lock that is free.
func (j *judge) watch() {
	for j.run.sleep(watchEvery) {
		j.checkTraces()
		j.mu.Lock()
		now := time.Now()
		for _, k := range j.locks {
			j.checkEndsLocked(k, now)
			j.checkHoldersLocked(k)
			for _, h := range k.holders {
				j.explainLocked(h)
			}
			j.checkPermitsLocked(k)
			switch {
			case len(k.waiters) == 0:
				k.free = time.Time{}
			case k.waiters[0].turn.call.slots > 0:
				j.checkPermitsFreeLocked(k, now)
			default:
				j.checkFreeLocked(k, now)
			}
		}
		j.mu.Unlock()
	}
}

// checkEndsLocked checks that Done is closed when validity has ended.
func (j *judge) checkEndsLocked(k *lock, now time.Time) {
	for _, h := range k.holders {
		if now.Sub(h.lease.Until()) > watchEvery && !h.isDone() {
			j.failLocked("done", fmt.Sprintf("the lease of %s on %q ended at %v, and Done is open", h.turn.name, k.name, h.lease.Until().Sub(j.run.begun)))
		}
	}
}

// checkHoldersLocked checks that at most one lease is valid, or those of readers alone. That follows from the
// checks on entering, as long as leases end once and for all.
func (j *judge) checkHoldersLocked(k *lock) {
	var valid []string
	exclusive := false
	for _, h := range k.holders {
		if h.turn.process.present() == h.turn.life && !h.started.Before(k.erased) && h.lease.Valid() {
			valid = append(valid, h.turn.name+h.turn.call.side.String())
			exclusive = exclusive || h.turn.call.side != reader && h.slots == nil
		}
	}
	if len(valid) > 1 && exclusive {
		j.failLocked("one holder", fmt.Sprintf("the leases of %v on %q are valid at once", valid, k.name))
	}
}

// checkFreeLocked checks that no waiter waits for long while the lock is free for it.
func (j *judge) checkFreeLocked(k *lock, now time.Time) {
	var open [reader + 1][]bool
	for s := range open {
		open[s] = j.openLocked(k, side(s), now)
	}
	for _, w := range k.waiters {
		if k.locked(w.turn.life) || k.behind(w) || !w.canEnter(open[w.turn.call.side]) {
			w.free = time.Time{}
			continue
		}
		if w.free.IsZero() {
			w.free = now
		}
		for_ := now.Sub(w.free)
		j.figures.longestFree = max(j.figures.longestFree, for_)
		if most := j.run.freeFor(); for_ > most {
			j.failLocked("free lock", fmt.Sprintf("%s waits for %q, which has been free for it for %v, want %v at most", w.turn.name, k.name, for_, most))
		}
	}
}

// freeFor is for how long a lock may be free for a waiter: it depends on the distance of the farthest process, which the lock may be granted
// to, up to the profile's bound. The part that does not is for the case that the process to which the lock was granted and the three that are
// near are stopped at one moment. Then the next one polls 1.25 s after its registration at the latest. Its release may pass the lock on to
// another process that is stopped and not silent yet, which has it for 1 s.
//
// In the profile split without wake-ups, a client joins no queue for a second, and chance ends a split of the votes: seen 1.51 s.
func (r *run) freeFor() time.Duration {
	var far time.Duration
	for _, p := range r.procs {
		if l := p.present(); l != nil {
			far = max(far, l.quorumAway())
		}
	}
	most := r.plan.profile.free
	if r.plan.profile.name == "split" && !r.plan.wakeups {
		most *= 3
	}
	return min(most, 2250*time.Millisecond+12*far)
}

// openLocked reports at which masters a new claim of a side on the lock could be granted: those that
// answer, and keep no key of a holder, nor one that a fault excuses.
func (j *judge) openLocked(k *lock, s side, now time.Time) []bool {
	open := make([]bool, len(j.run.states))
	for _, h := range k.holders {
		if h.lease.Until().After(now) {
			return open
		}
	}
	for i, state := range j.run.states {
		if state.out > 0 {
			continue
		}
		token, exists := j.run.masters.Master(i).Get(k.name)
		switch h := k.tokens[token]; {
		case !exists:
			open[i] = true
		case token == marker && s != reader && (!j.run.plan.wakeups || k.readersHold()):
		case h != nil && (h.dead || !h.over):
		case h == nil && len(k.sets) > 0: // a call that waits for further names may hold it
		default:
			open[i] = state.trouble == 0 && now.After(state.until)
		}
	}
	return open
}

// locked reports whether a goroutine of the process has locked and not yet unlocked. The others wait
// for that, also if the lease has been lost.
func (k *lock) locked(l *life) bool {
	return slices.ContainsFunc(k.holders, func(h *holding) bool { return h.turn.life == l })
}

// canEnter reports whether a quorum of the open masters answers this waiter.
func (w *waiter) canEnter(open []bool) bool {
	l := w.turn.process.present()
	if l == nil || l != w.turn.life {
		return false
	}
	n := 0
	for i, s := range l.client.Masters() {
		if open[i] && s.State == redlock.MasterUp && l.reaches(i) {
			n++
		}
	}
	return n > len(open)/2
}

// clockSet checks that leases are over at once if a process's clock says so.
func (j *judge) clockSet(p *process, by time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range j.locks {
		for _, h := range k.holders {
			if h.turn.process == p && by > p.ttl() && h.lease.Valid() {
				j.failLocked("clocks", fmt.Sprintf("the lease of %s on %q is valid after its clock was set by %v", h.turn.name, k.name, by))
			}
		}
	}
}

// trouble notes that a fault touches masters, or links to them, until the returned function is
// called. Keys of past owners are excused until then, and for some time after: releases are sent
// again when a connection stands again.
func (j *judge) trouble(masters []int, out bool) (over func()) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, i := range masters {
		j.run.states[i].trouble++
		if out {
			j.run.states[i].out++
		}
	}
	return func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		for _, i := range masters {
			j.run.states[i].trouble--
			if out {
				j.run.states[i].out--
			}
			j.excuseLocked(i, afterTrouble)
		}
	}
}

// afterTrouble is how long keys of past owners are excused after a fault: dialling again may take
// 1.5 s, and a release whose connection broke is repeated after 1 and 3 s.
const afterTrouble = 4 * time.Second

// excuseLocked excuses keys of past owners at a master for d.
func (j *judge) excuseLocked(i int, d time.Duration) {
	if until := time.Now().Add(d); until.After(j.run.states[i].until) {
		j.run.states[i].until = until
	}
}

// erase deletes a lock's key by hand. It returns a check that holders whose quorum was deleted have
// found out, and how long after that is due; or nil.
func (j *judge) erase(name string, masters []int) (check func(), after time.Duration) {
	j.mu.Lock()
	defer j.mu.Unlock()
	k := j.lockOf(name)
	k.erased = time.Now().Add(1)
	gone := map[string]int{}
	for _, i := range masters {
		m := j.run.masters.Master(i)
		token, _ := m.Get(name)
		if m.Del(name) {
			gone[token]++
		}
	}
	for _, h := range k.holders {
		every := j.run.plan.lock.RenewEvery
		if every < 0 || len(masters) < len(j.run.states) || gone[h.token] <= len(masters)/2 {
			continue
		}
		if every == 0 {
			every = j.run.plan.lock.TTL / 3
		}
		return func() {
			j.mu.Lock()
			defer j.mu.Unlock()
			if !h.over && h.lease.Valid() {
				j.failLocked("lost keys", fmt.Sprintf("the lease of %s on %q is valid %v after its keys were deleted", h.turn.name, name, every+2*j.run.plan.timeout()))
			}
		}, every + 2*j.run.plan.timeout()
	}
	return nil, 0
}
