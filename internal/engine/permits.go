package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// permits are the kind of a Locker for one acquisition of a Semaphore. Each acquisition has a Locker of its own, whose key
// stands for it in the gates and the waits of the Client, and is no key on the masters. So any number of goroutines hold permits of
// a name. Such a Locker always registers a claim, since no plain SET gives a slot.
//
// The masters choose the slots, and a claim on n slots wins if a quorum of them has its token in each of n. docs/design.md#a-semaphore says
// why claims prefer slots, ask who stands in them, and aim.
type permits struct {
	mutex
	semaphore *Semaphore  // immutable
	place     *gate.Place // in its crowd
	waiting   bool        // semaphore.beginWaiting was called

	aim  []int // its claim has aimed at these slots; nil: it has not
	asks bool  // the current round asks who stands in its slots
}

var (
	_ kind    = (*permits)(nil)
	_ subject = (*permits)(nil)
)

// Permits returns a Locker for one acquisition of n of limit permits. key is the one that of was made with: see Core.Semaphore.
func (c *Core) Permits(name, key string, opts Options, of *Semaphore, n, limit int) *Locker {
	l := &Locker{core: c, name: name, opts: opts, terms: wire.NewSlotTerms(key, limit, n, opts.TTL)}
	l.key = fmt.Sprintf("redlock:permit:%d:%s", c.permits.Add(1), key)
	l.permits, l.limit = n, limit
	l.kind, l.shares = &permits{semaphore: of}, sharing{semaphore: of}
	return l
}

func (p *permits) lock(w *wait) bool { return p.enter(w) && p.contend(w) }

// enter waits for a place at the front of the crowd, and reports whether it has one. One attempt does not wait.
func (p *permits) enter(w *wait) bool {
	if w.once {
		p.place = p.semaphore.crowd.TryJoin()
		if p.place == nil {
			w.last = w.locker.blockedBy(p.semaphore.why())
		}
		return p.place != nil
	}
	p.place = p.semaphore.crowd.Join(w.locker)
	if isClosed(p.place.Ready()) {
		return true
	}
	w.late = true
	select {
	case <-p.place.Ready():
		return true
	case <-w.ctx.Done():
	case <-w.locker.core.closing:
	}
	w.last = w.locker.blockedBy(p.semaphore.why())
	return false
}

func (p *permits) contend(w *wait) bool {
	if !w.enterGate(nil) { // which nobody else wants. It is taken for as long as the permits are held
		return false
	}
	l := w.locker
	p.prefer(l)
	q := &contender{wait: w, on: p, place: p.place, next: registration{life: l.opts.TTL, contended: p.semaphore.full.Load() && !w.once}}
	return q.contend()
}

// prefer has the claims of l prefer the slot which this Client has released last. If other claims prefer all slots that it
// has released, they only ask for a slot first.
func (p *permits) prefer(l *Locker) {
	slot, ok := p.semaphore.takeReleased(l.limit)
	if !ok {
		slot = rand.N(l.limit)
	}
	l.terms = l.terms.Prefer(slot, ok)
}

func (p *permits) registered() { p.aim, p.asks = nil, false }

// expire: one attempt ends. Any other claim backs off, unless a poll is under way, or comes next, which tells for how long the slots live.
func (*permits) expire(q *contender, now clock.Reading) (done, more bool) {
	switch {
	case q.wait.once:
		q.noteRound()
		return true, false
	case q.asked, q.pending:
		return false, true
	}
	return true, q.backOff(now)
}

// poll asks who stands in the slots of the claim, or aims.
func (p *permits) poll(q *contender, now clock.Reading, _ uint64) wire.Request {
	if p.aim != nil {
		p.asks = true
		return wire.AimAt(p.aim)
	}
	keys := q.claim.Stands(now)
	mine := waits.BestSlots(keys, nil, "", 0)
	if n := q.wait.locker.permits; q.pace.Split && !q.pace.Again && (len(mine) == n || len(mine) > n && keys[mine[n-1]] > keys[mine[n]]) {
		return p.aimAt(q, mine[:n]) // the most keys are in these
	}
	slices.Sort(mine)
	p.asks = len(mine) > 0
	return wire.AskAbout(mine[:min(len(mine), wire.SlotsMost)])
}

// aimAt has the claim aim at slots, and returns the poll that does so.
func (p *permits) aimAt(q *contender, at []int) wire.Request {
	p.aim, p.asks = slices.Sorted(slices.Values(at)), true
	q.claim.Aim(p.aim)
	return wire.AimAt(p.aim)
}

// judge has the claim do what waits.Finding.Verdict decides.
func (p *permits) judge(q *contender, now clock.Reading) (more bool) {
	c := q.wait.locker.core
	votes := q.wait.try.round.Votes()
	tally := quorum.Count(votes)
	for i, v := range votes {
		if v.Granted() { // others have these slots elsewhere
			votes[i].Outcome, votes[i].Left = wire.Taken, wire.Unknown
		}
	}
	q.wait.noteFailure(failed(OpAcquire, q.wait.locker.name, votes))
	q.wait.warn()
	p.semaphore.noteFailure(q.wait.last)
	if !q.wait.once && q.wait.last.taken() && !p.waiting {
		p.waiting = true
		p.semaphore.beginWaiting()
	}
	found := waits.Finding{
		Answered: tally.Answered(), Granted: tally.Granted, Keys: q.claim.Stands(now), Rivals: waits.SlotRivals(votes, q.claim.Token()),
		Asked: p.asks && !q.wait.try.sentAt.Time().Before(q.votes.First), Aimed: p.aim != nil, Overdue: now.Time().Sub(q.votes.First) > q.claim.G, Sure: q.pace.Again, Once: q.wait.once,
	}
	verdict, best := found.Verdict(q.claim.Token(), q.wait.locker.permits, c.group.Need())
	switch verdict {
	case waits.GivesUp:
		return false
	case waits.BacksOff, waits.Excluded: // at once, the next claim would be given the same slots
		return q.backOff(now)
	case waits.Polls:
		return q.schedule(now)
	case waits.Yields:
		q.dropClaim(wire.Release)
		q.resume = now.Time()
	case waits.Aims:
		q.ask(p.aimAt(q, best), q.claim.G)
	case waits.Beaten:
		q.pace.Again = true
	}
	return true
}

// ended leaves the crowd. If permits were handed over that the goroutine has not taken, since its ctx ended at that moment, they are released.
func (p *permits) ended(w *wait) {
	if s := w.locker.lease.Load(); s != nil {
		p.semaphore.crowd.Held(1)
		p.semaphore.full.Store(s.tenure.contended)
	}
	if p.waiting {
		p.waiting = false
		p.semaphore.endWaiting()
	}
	if s, ok := p.place.Leave().(*Lease); ok {
		(*releasing)(s.tenure).queue()
	}
}

func (p *permits) unlocked(ctx context.Context, l *Locker, s *Lease, block bool) error {
	p.semaphore.crowd.Held(-1)
	if next := s.handOver(s.tenure.opts.Handover); next != nil {
		l.core.gates.Leave(l.key) // the next one has a gate of its own
		s.traceHandover(ctx, next)
		return nil
	}
	p.semaphore.noteReleased(s.tenure.slots)
	return l.releaseLease(ctx, s, block)
}

// Slots returns the numbers of the permits of s, in ascending order. It must not be changed.
func (s *Lease) Slots() []int { return s.tenure.slots }

// A Semaphore is what the goroutines of a Client that want permits of one name have in common. Those at the front of the crowd register claims.
type Semaphore struct {
	crowd gate.Crowd
	full  atomic.Bool // the last goroutine that has got permits had to wait for them: the next one is likely to wait, too

	mu       sync.Mutex // guards the fields below
	last     *Failure   // of the last attempt that failed
	lastAt   time.Time  // when it did
	released waits.Released
	waiting  int       // goroutines that have found no permits free
	watching []*tenure // permits whose holders have called Lease.Wanted, and were not told since
}

// Semaphore returns the Semaphore with this key.
func (c *Core) Semaphore(key string) *Semaphore {
	return c.semaphores.Of(key, func() *Semaphore { return new(Semaphore) })
}

func (o *Semaphore) noteFailure(f *Failure) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.lastAt = f, time.Now()
}

// whyFor is for how long the reason why an attempt failed is told to others: somewhat longer than the longest pause between polls.
const whyFor = 15 * time.Second

// why returns why the last attempt of a goroutine of the crowd failed, if there was one lately.
func (o *Semaphore) why() (inside gate.Inside) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.last != nil && time.Since(o.lastAt) <= whyFor {
		inside.Why = o.last
	}
	return inside
}

// beginWaiting notes that a goroutine waits, since no permits are free, and tells the holders of permits.
func (o *Semaphore) beginWaiting() {
	o.mu.Lock()
	o.waiting++
	watching := o.watching
	o.watching = nil
	o.mu.Unlock()
	for _, t := range watching {
		t.tellWanted()
	}
}

func (o *Semaphore) endWaiting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
}

// watch has the holder of t told when a goroutine waits, or now if one does.
func (o *Semaphore) watch(t *tenure) {
	o.mu.Lock()
	now := o.waiting > 0
	if !now {
		o.watching = append(slices.DeleteFunc(o.watching, (*tenure).isOver), t)
	}
	o.mu.Unlock()
	if now {
		t.tellWanted()
	}
}

// noteReleased notes that a goroutine has released slots.
func (o *Semaphore) noteReleased(slots []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.released.Note(slots)
}

// takeReleased returns a slot that a claim is to prefer: see waits.Released.Take.
func (o *Semaphore) takeReleased(limit int) (slot int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.released.Take(limit)
}
