package simulation

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
)

// A judge sees every process and every master at once, and checks the run's properties.
type judge struct {
	run *run // immutable

	mu         sync.Mutex // guards what follows; never held while waiting
	locks      []*lock
	violations []violation
	figures    figures
}

// figures are what a run measures.
type figures struct {
	profile        string
	faults         int
	took           time.Duration // virtual
	calls, entries int
	busy           int           // entries before plan.busyUntil, but for those of processes that are stopped
	longestFree    time.Duration // that a lock was free while somebody waited for it
	overtakes      int           // most later comers that entered before one waiter
	lost           int           // leases that ended before their holders unlocked
	longestWait    time.Duration // that a call waited for several names, or for an RWLocker
	grants         int           // entries with a lease that began short, since releases had granted it
	explained      int           // calls that masters have executed, and that were explained: see trace
	unspecified    int           // those that the specification is not about
}

// A lock is what the judge knows about one name.
type lock struct {
	name    string
	holders []*holding
	waiters []*waiter
	sets    []*waiter           // who wait for this name and others
	tokens  map[string]*holding // the last holding by each token
	entered []*holding          // in the order of entering
	erased  time.Time           // when keys were last deleted by hand
	free    time.Time           // since when there have been free permits for all who wait; zero: there are not
}

// A waiter is a call that waits for the lock.
type waiter struct {
	turn     *turn
	since    time.Time
	free     time.Time // since when the lock has been free for it; zero: it is not
	overtook int       // later comers of other processes that have entered
	turns    int       // how often others have entered while it could have
	ready    time.Time // when it first could have
}

// A holding is a critical section.
type holding struct {
	turn    *turn
	lease   *redlock.Lease
	token   string
	fence   uint64
	slots   []int     // of permits
	started time.Time // before the first byte of the acquisition
	entered time.Time
	over    bool // unlocked, or its process is dead
	dead    bool // its process is dead: nobody will unlock

	explained time.Time // the lease was explained until then: see trace
}

// A masterState is what the faults have done to a master.
type masterState struct {
	out     int       // how many faults keep it from answering
	trouble int       // how many faults are in force that touch the master or its links
	until   time.Time // until when keys of past owners are excused
}

func newJudge(r *run) *judge { return &judge{run: r} }

func (j *judge) lockOf(name string) *lock {
	for _, k := range j.locks {
		if k.name == name {
			return k
		}
	}
	k := &lock{name: name, tokens: map[string]*holding{}}
	j.locks = append(j.locks, k)
	return k
}

// without removes x from a list.
func without[T comparable](list []T, x T) []T {
	return slices.DeleteFunc(list, func(y T) bool { return x == y })
}

// fail records a violation and ends the run.
func (j *judge) fail(kind, text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.failLocked(kind, text)
}

func (j *judge) failLocked(kind, text string) {
	v := violation{time.Since(j.run.begun), kind, text}
	j.violations = append(j.violations, v)
	j.run.history.note("VIOLATED: %s: %s", kind, text)
	j.run.halt()
}

// comes notes that a call waits.
func (j *judge) comes(t *turn) *waiter {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.figures.calls++
	w := &waiter{turn: t, since: time.Now()}
	for _, name := range t.call.names() {
		if k := j.lockOf(name); t.call.more == nil {
			k.waiters = append(k.waiters, w)
		} else {
			k.sets = append(k.sets, w)
		}
	}
	j.run.history.note("%s waits for %q in %v%v", t.name, t.call.names(), t.call.kind, t.call.side)
	return w
}

// leaves notes that a call has not got the lock.
func (j *judge) leaves(t *turn, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.waitedLocked(t)
	j.run.history.note("%s: %v%v of %q: %v", t.name, t.call.kind, t.call.side, t.call.names(), err)
}

// waitedLocked notes that a call does not wait any more.
func (j *judge) waitedLocked(t *turn) {
	for _, name := range t.call.names() {
		k := j.lockOf(name)
		k.waiters, k.sets = without(k.waiters, t.waiting), without(k.sets, t.waiting)
	}
}

// enters notes that a call has got the lock, and checks that it may have. It returns nil if the
// process has died meanwhile.
func (j *judge) enters(t *turn, lease *redlock.Lease) *holding {
	h := &holding{turn: t, lease: lease, token: lease.Token(), fence: lease.Fence(), slots: t.slotsOf(), entered: time.Now()}
	j.mu.Lock()
	defer j.mu.Unlock()
	granted := j.startedLocked(h)
	j.waitedLocked(t)
	if t.life.gone() {
		for _, name := range t.call.names() {
			j.lockOf(name).tokens[h.token] = h
		}
		h.over, h.dead = true, true
		return nil
	}
	j.figures.entries++
	if time.Since(j.run.begun) < j.run.plan.busyUntil && t.process.plan.settings.kind != throttled {
		j.figures.busy++
	}
	if granted {
		j.figures.grants++
	}
	j.run.history.note("%s enters %q%v, fence %d, granted %v", t.name, t.call.names(), t.call.side, h.fence, granted)
	if t.call.more != nil || t.call.side != alone {
		j.checkWaitLocked(t, h.entered.Sub(t.began))
	}
	for _, name := range t.call.names() {
		j.entersLocked(j.lockOf(name), h, h.entered)
	}
	j.explainLocked(h)
	return h
}

// startedLocked sets when a holding's acquisition was started, at the earliest, and reports whether releases granted
// it. A lease that was granted is short at first: its votes last for g. If it is fenced in a
// second round, it has its full length, and is not recognized.
func (j *judge) startedLocked(h *holding) (granted bool) {
	ttl := h.turn.process.ttl()
	validity := ttl - drift(ttl)
	h.started = h.lease.Until().Add(-validity)
	lower := h.turn.began
	if first := j.lockOf(h.turn.call.name).tokens[h.token]; first != nil { // it was handed over
		lower = first.started
	} else if h.turn.call.side == alone && h.turn.call.more == nil {
		granted = h.lease.Until().Sub(h.entered) < validity*3/4
	}
	if lower.After(h.started) {
		h.started = lower
	}
	return granted
}

// checkWaitLocked checks that a call has not waited too long for several names, or for an RWLocker.
func (j *judge) checkWaitLocked(t *turn, waited time.Duration) {
	if len(j.run.plan.faults) > 0 || t.call.side != alone && !j.run.plan.wakeups {
		return
	}
	j.figures.longestWait = max(j.figures.longestWait, waited)
	if most := j.run.plan.profile.waits; most > 0 && waited > most {
		j.failLocked("waits", fmt.Sprintf("%s has waited for %q for %v, want %v at most", t.name, t.call.names(), waited, most))
	}
}

// entersLocked is enters for one of the names.
func (j *judge) entersLocked(k *lock, h *holding, now time.Time) {
	t := h.turn
	if first := k.tokens[h.token]; first != nil && t.call.side == reader {
		h.started = first.started // the lease is shared
	}
	for _, other := range k.holders {
		if h.entered.After(other.lease.Until()) && !other.isDone() {
			j.failLocked("done", fmt.Sprintf("%s enters %q, and Done of %s, whose lease has ended, is open", t.name, k.name, other.turn.name))
		}
		robbed := other.started.Before(k.erased) || h.started.Before(k.erased)
		if !robbed && excludes(h, other) && other.lease.Valid() {
			j.failLocked("one holder", fmt.Sprintf("%s enters %q while the lease of %s is valid", t.name, k.name, other.turn.name))
		}
	}
	j.checkFenceLocked(k, h)
	for _, w := range k.waiters {
		j.overtakenLocked(w, h, now)
		j.turnLocked(w, h, now)
	}
	for _, w := range k.sets {
		j.turnLocked(w, h, now)
	}
	k.free = time.Time{}
	k.tokens[h.token] = h
	k.holders = append(k.holders, h)
	k.entered = append(k.entered, h)
}

// isDone reports whether the lease's Done is closed.
func (h *holding) isDone() bool {
	select {
	case <-h.lease.Done():
		return true
	default:
		return false
	}
}

// overtakenLocked notes that h has entered while w waits.
func (j *judge) overtakenLocked(w *waiter, h *holding, now time.Time) {
	w.free = time.Time{}
	came := h.entered
	if h.turn.waiting != nil {
		came = h.turn.waiting.since
	}
	if h.turn.life == w.turn.life || !came.After(w.since.Add(sameTime)) {
		return
	}
	if !j.run.plan.wakeups || h.turn.call.side == reader || w.turn.call.side == reader {
		return // the order does not matter then
	}
	w.overtook++
	j.figures.overtakes = max(j.figures.overtakes, w.overtook)
	if most := j.run.plan.profile.overtakes; most > 0 && w.overtook > most {
		j.failLocked("order", fmt.Sprintf("%s has waited for %q since %v, and %d who came later have entered",
			w.turn.name, w.turn.call.name, ms(w.since.Sub(j.run.begun)), w.overtook))
	}
}

// sameTime is how much later a call must come to count as later, since requests to join the queues may overtake
// each other under way.
const sameTime = 100 * time.Millisecond

// checkFenceLocked checks that the fence of a new holding is above all earlier ones. If keys were
// deleted by hand, two may acquire the lock at once: then it must be above those that were given
// before the acquisition began, and differ from all.
func (j *judge) checkFenceLocked(k *lock, h *holding) {
	if !j.run.plan.lock.Fencing {
		return
	}
	if h.fence == 0 {
		j.failLocked("fences", h.turn.name+" has no fence")
	}
	for _, e := range k.entered {
		if len(h.slots) > 0 && !slices.ContainsFunc(e.slots, func(slot int) bool { return slices.Contains(h.slots, slot) }) {
			continue // fences of permits rise by slot
		}
		if h.turn.call.side == reader && (e.turn.call.side == reader || e.fence == h.fence || !e.entered.Before(h.started)) {
			continue // it has the fence of the last writer; among readers there is no order
		}
		if e.fence == h.fence || e.fence > h.fence && (k.erased.IsZero() || e.entered.Before(h.started)) {
			j.failLocked("fences", fmt.Sprintf("%s has fence %d, and %s had %d before", h.turn.name, h.fence, e.turn.name, e.fence))
		}
	}
}

// exits notes that a holder is about to unlock, and reports whether its lease is valid.
func (j *judge) exits(h *holding) bool {
	valid := h.lease.Valid()
	j.mu.Lock()
	defer j.mu.Unlock()
	h.over = true
	for _, name := range h.turn.call.names() {
		k := j.lockOf(name)
		k.holders = without(k.holders, h)
	}
	j.explainLocked(h)
	if !valid {
		j.figures.lost++
		j.explainLossLocked(h)
		if j.run.plan.lossless {
			j.failLocked("lost for nothing", fmt.Sprintf("%s has lost its lease on %q: %v", h.turn.name, h.turn.call.names(), h.lease.Err()))
		}
	}
	j.run.history.note("%s leaves %q: %v", h.turn.name, h.turn.call.names(), h.lease.Err())
	return valid
}

// died notes that a process has crashed or closed its Client. Its keys stay until they expire.
func (j *judge) died(l *life) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, k := range j.locks {
		k.holders = slices.DeleteFunc(k.holders, func(h *holding) bool {
			if h.turn.life == l {
				h.over, h.dead = true, true
			}
			return h.turn.life == l
		})
		k.waiters = slices.DeleteFunc(k.waiters, func(w *waiter) bool { return w.turn.life == l })
		k.sets = slices.DeleteFunc(k.sets, func(w *waiter) bool { return w.turn.life == l })
	}
	for i := range j.run.states {
		j.excuseLocked(i, j.run.plan.lock.TTL+time.Second)
	}
}

// drift is by how much a lease's validity is shorter than its TTL, with the default options.
func drift(ttl time.Duration) time.Duration { return ttl/100 + 2*time.Millisecond }
