package redlock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/gate"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/weakmap"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Semaphore limits how many holders there are at a time, among all processes: never more than its limit, whichever minority of
// the masters is dead. Without a majority nobody gets a permit. Permits are given in the order of the calls, also to calls for
// several. A call for one permit may pass others that came a little earlier, but none that has waited for twice as long. Any number
// of goroutines share a Semaphore. It must not be copied. Client.Semaphore returns Semaphores.
//
//	calls := client.Semaphore("api", 10)
//	err := calls.Do(ctx, func(ctx context.Context) error { // at most ten are in here, on all machines
//		return call(ctx) // ctx ends if the permit is lost
//	})
//
// # What to choose
//
//   - Limit: all clients should use the same one. Otherwise the largest one counts. To raise it, start clients with the new limit,
//     which counts at once. To lower it, replace all clients: one with the lower limit gets no permit until fewer than that are held, and
//     while it is at the head of the queue, others wait behind it.
//   - A margin: a holder that was stopped for longer than its lease may still work when others have its permit. End the work with the
//     context of Do or of the Permit. A cap that must hold whatever happens should be a little lower than what the resource can bear.
//   - LockOptions.TTL: the permits of a process that has crashed come back when it has passed. A shorter one brings them back earlier, and
//     costs more renewals.
//   - LockOptions.Handover: goroutines of one process pass permits on to each other without a command, for this long after the masters
//     have given them, between calls for as many permits of the same limit. If permits are held for about a round trip, that doubles what
//     the process gets done. A shorter one gives other processes their turns earlier.
//   - Errors: ErrHeld says that the semaphore is full. Any other *QuorumError says which masters failed. A program that would rather go
//     on without a permit decides by that.
//
// # What it costs
//
// A free permit takes one round trip, whatever the limit and however many are held. A permit that is passed on takes one more. Of all
// that wait, the first few poll each master ten times a second, and the others less often the more are ahead. Per name, as many calls of a
// Client wait at the masters as it holds permits, at least 4 and at most 64, and the others behind them in the process. If many clients
// begin at one moment, and hold permits for less time than the distances of the masters differ, the first of them may need two or three round
// trips more.
//
// # What it is not
//
// It is no rate limiter: it limits holders, not calls in a minute. A semaphore and a lock of the same name have nothing to do with each
// other. It has no fence without LockOptions.Fencing: see [Permit].
type Semaphore struct {
	client *Client
	name   string
	key    string
	limit  int
	opts   LockOptions
	crowd  *crowd
}

// Semaphore returns a Semaphore for name that has limit permits, with Options.LockOptions. It is cheap and sends nothing. Semaphore
// panics where NewSemaphore returns an error.
func (c *Client) Semaphore(name string, limit int) *Semaphore {
	s, err := c.NewSemaphore(name, limit, nil)
	if err != nil {
		panic(err.Error())
	}
	return s
}

// NewSemaphore returns a Semaphore for name that has limit permits, with opts, which replace Options.LockOptions; nil means
// Options.LockOptions. Keep does not matter: permits stay with no Client. With Fencing, each acquisition takes a round trip more, or
// two, and its permits have a fence: see Permit. NewSemaphore returns an error if the name or the options are invalid, if limit is below 1
// or above 65536, without renewals, with Options.DisableWakeups, and for a TTL below 400 ms.
func (c *Client) NewSemaphore(name string, limit int, opts *LockOptions) (*Semaphore, error) {
	key, err := c.opts.key(name)
	if err != nil {
		return nil, err
	}
	o, err := c.opts.lockOptions(opts)
	switch {
	case err != nil:
		return nil, err
	case limit < 1 || limit > wire.LimitMost:
		return nil, fmt.Errorf("redlock: a Semaphore has a limit of %d; it must be from 1 to %d", limit, wire.LimitMost)
	case c.opts.DisableWakeups || o.RenewEvery < 0 || o.TTL < wire.GrantLeast:
		return nil, fmt.Errorf("redlock: a Semaphore needs wake-ups, renewals, and a TTL of %v or more", wire.GrantLeast)
	}
	o.Keep = 0
	return &Semaphore{client: c, name: name, key: key, limit: limit, opts: o, crowd: c.crowds.ofKey(key)}, nil
}

// Name returns the name that was given to Client.Semaphore.
func (s *Semaphore) Name() string { return s.name }

// Limit returns the limit that was given to Client.Semaphore.
func (s *Semaphore) Limit() int { return s.limit }

// Do calls f while it holds a permit. It waits for the permit like Acquire. If that fails, Do returns the error without calling
// f. The context of f ends with ctx or with the permit: see Locker.Do. f does not learn the slot. If it needs the slot, use
// Acquire, and call f with Permit.Context and Permit.Slots.
func (s *Semaphore) Do(ctx context.Context, f func(ctx context.Context) error) error {
	return s.DoN(ctx, 1, f)
}

// DoN is Do with n permits, all or none. For their slots, use AcquireN.
func (s *Semaphore) DoN(ctx context.Context, n int, f func(ctx context.Context) error) error {
	l, err := s.locker(n)
	if err != nil {
		return err
	}
	return l.Do(ctx, f)
}

// Acquire waits for a permit. If ctx ends, the error matches ctx.Err and wraps that of the last attempt: it matches ErrHeld if the
// semaphore was full; otherwise a *QuorumError says which masters failed, and why. On a closed Client it is ErrClosed.
func (s *Semaphore) Acquire(ctx context.Context) (*Permit, error) { return s.AcquireN(ctx, 1) }

// AcquireN waits for n permits, all or none. While it waits it holds none, and later calls wait behind it, so it is not starved by
// calls for fewer. The error is that of Acquire, or says that n is below 1, or above the limit or 128.
func (s *Semaphore) AcquireN(ctx context.Context, n int) (*Permit, error) {
	l, err := s.locker(n)
	if err != nil {
		return nil, err
	}
	if _, err = l.lock(ctx); err != nil {
		return nil, err
	}
	return newPermit(l), nil
}

// TryAcquire acquires a permit if one is free and nobody waits. The error is that of Locker.TryLockContext: it matches ErrHeld if
// the semaphore is full. If 64 goroutines of the Client try at the same time, a further one makes no attempt.
func (s *Semaphore) TryAcquire(ctx context.Context) (*Permit, error) {
	l, err := s.locker(1)
	if err != nil {
		return nil, err
	}
	if err = l.TryLockContext(ctx); err != nil {
		return nil, err
	}
	return newPermit(l), nil
}

// locker returns a Locker for one acquisition of n permits: see permits.
func (s *Semaphore) locker(n int) (*Locker, error) {
	mustBeMade(s.client, "Semaphore")
	if n < 1 || n > s.limit || n > wire.SlotsMost {
		return nil, fmt.Errorf("redlock: %d permits of %s were asked for; from 1 to %d can be had", n, quote(s.name), min(s.limit, wire.SlotsMost))
	}
	l := &Locker{client: s.client, name: s.name, opts: s.opts, terms: wire.NewSlotTerms(s.key, s.limit, n, s.opts.TTL)}
	l.key = fmt.Sprintf("redlock:permit:%d:%s", s.client.permits.Add(1), s.key)
	p := &permits{crowd: s.crowd, n: n, limit: s.limit, ttl: s.opts.TTL}
	l.kind, l.on = p, p
	return l, nil
}

// A Permit is one acquisition of a Semaphore: the lease of one permit or several. It is renewed until it is released or lost.
//
// With LockOptions.Fencing, its Fence is greater than that of every earlier holder of any of its slots, among the holders with
// Fencing. Holders of different slots may have equal fences, and a later one may have a lower fence. So a resource that belongs to a
// slot, such as a GPU, stores the highest fence that it has seen, and refuses lower ones. Without Fencing, Fence returns 0, which such a
// resource must refuse.
type Permit struct {
	*Lease
	locker *Locker
}

func newPermit(l *Locker) *Permit { return &Permit{Lease: l.Lease(), locker: l} }

// Release returns the permits. It does not wait for the masters: see Locker.Unlock. A second call does nothing.
func (p *Permit) Release() { p.locker.kind.unlock(context.Background(), p.locker, false) }

// ReleaseContext returns the permits, and waits for the outcome: see Locker.UnlockContext. A second call returns ErrReleased.
func (p *Permit) ReleaseContext(ctx context.Context) error {
	if err := p.locker.UnlockContext(ctx); !errors.Is(err, ErrNotHeld) {
		return err
	}
	return ErrReleased
}

// Slots returns the numbers of the permits, from 0 to the limit less 1, in ascending order. No other holder has them while the permit
// lasts. So they can choose a port, a GPU or a connection.
func (p *Permit) Slots() []int { return slices.Clone(p.tenure.slots) }

// permits are the kind of a Locker for one acquisition of a Semaphore. Each acquisition has a Locker of its own, whose key
// stands for it in the gates and the waits of the Client, and is no key on the masters. So any number of goroutines hold permits of
// a name. Such a Locker always registers a claim, since no plain SET gives a slot.
//
// Each claim prefers a slot that its Client has released. So a slot goes from client to client as if it were a lock of its own. Several
// slots may become free in another order at each master: most of the masters give each of them to the same claim nevertheless.
//
// A claim on n slots wins if a quorum of masters has its token in each of n slots: see package waits. The masters choose the slots. Masters
// that have executed the same commands choose the same ones. If they have not, a claim may have votes, but no quorum for any
// slot. Then it asks who stands in its slots. In a slot, the token with the most keys is the best, and of several the least.
//
//   - If the claim is the best in n slots, it aims at these: it leaves all others, and wishes these where others stand in them.
//   - If it is not, it is found beaten, and asks again a round trip later. A claim that was found beaten twice is released, and
//     registered anew with a fresh token and the time that it has waited; after a pause if others have a quorum in its slots.
//
// If no slot can have a quorum by the votes of the masters that have not voted yet, it does so at once, and if it has more keys of n slots than
// of all others, it aims at those without a question.
//
// A claim aims once. The best of all claims always aims, and all others leave its slots, so some claim wins.
type permits struct {
	mutex
	crowd   *crowd
	n       int // how many slots it needs
	limit   int
	ttl     time.Duration
	place   *gate.Place // in crowd
	waiting bool        // crowd.beginWaiting was called
}

var (
	_ kind    = (*permits)(nil)
	_ subject = (*permits)(nil)
)

// A crowd is what the goroutines of a Client that want permits of one name have in common. Those at the front register claims.
type crowd struct {
	gate.Crowd

	mu       sync.Mutex // guards the fields below
	last     error      // of the last attempt that failed
	lastAt   time.Time  // when it did
	waited   bool       // the last goroutine that has got permits had to wait for them
	released []int      // slots that were released and that no claim prefers yet, the last one last
	waiting  int        // goroutines that have found no permits free
	watching []*tenure  // permits whose holders have called Lease.Wanted, and were not told since
}

// releasedMost is how many released slots a crowd knows: as many as may be near.
const releasedMost = 16

// crowds are those of a Client, by key.
type crowds struct{ weakmap.Map[crowd] }

func (h *crowds) ofKey(key string) *crowd {
	return h.Of(key, func() *crowd { return new(crowd) })
}

func (o *crowd) noteFailure(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.lastAt = err, time.Now()
}

// beginWaiting notes that a goroutine waits, since no permits are free, and tells the holders of permits.
func (o *crowd) beginWaiting() {
	o.mu.Lock()
	o.waiting++
	watching := o.watching
	o.watching = nil
	o.mu.Unlock()
	for _, t := range watching {
		t.tellWanted()
	}
}

func (o *crowd) endWaiting() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting--
}

// watch has the holder of t told when a goroutine waits, or now if one does.
func (o *crowd) watch(t *tenure) {
	o.mu.Lock()
	waits := o.waiting > 0
	if !waits {
		o.watching = append(slices.DeleteFunc(o.watching, (*tenure).isOver), t)
	}
	o.mu.Unlock()
	if waits {
		t.tellWanted()
	}
}

// noteFull notes whether a goroutine has had to wait for the permits that it has. full returns that: the next one is likely to wait, too.
func (o *crowd) noteFull(is bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waited = is
}

func (o *crowd) full() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waited
}

// noteReleased notes that a goroutine has released slots.
func (o *crowd) noteReleased(slots []int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.released = append(o.released, slots...)
	o.released = slices.Delete(o.released, 0, max(len(o.released)-releasedMost, 0))
}

// takeReleased returns the slot below a limit that was released last, and forgets it. Slots from the limit on are forgotten, too.
func (o *crowd) takeReleased(limit int) (slot int, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n := len(o.released); n > 0 && !ok; n-- {
		slot = o.released[n-1]
		o.released, ok = o.released[:n-1], slot < limit
	}
	return slot, ok
}

// prefer returns the terms of claims that prefer the slot which this Client has released last. If other claims prefer all slots that it
// has released, they only ask for a slot first.
func (p *permits) prefer(terms wire.Terms) wire.Terms {
	if slot, ok := p.crowd.takeReleased(p.limit); ok {
		return terms.Prefer(slot, true)
	}
	return terms.Prefer(rand.N(p.limit), false)
}

// whyFor is for how long the reason why an attempt failed is told to others: somewhat longer than the longest pause between polls.
const whyFor = 15 * time.Second

// why returns why the last attempt of a goroutine of the crowd failed, or nil if there was none lately.
func (o *crowd) why() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if time.Since(o.lastAt) > whyFor {
		return nil
	}
	return o.last
}

func (p *permits) permits() (n, limit int) { return p.n, p.limit }

func (p *permits) claimOf(w *wait, waited time.Duration) (wire.ClaimOf, holders) {
	of, _ := p.mutex.claimOf(w, waited)
	return of, slotHolder{crowd: p.crowd}
}

func (p *permits) newClaim(c *Client, registered *master.SentClaim, began clock.Reading, g time.Duration) *waits.Ballot {
	return waits.NewSlotBallot(registered, began, g, len(c.masters), p.n, p.limit)
}

// A slotHolder is for a tenure of permits.
type slotHolder struct {
	oneHolder
	crowd *crowd
}

func (h slotHolder) watch(t *tenure, _ bool) { h.crowd.watch(t) }

func (p *permits) lock(w *wait) bool { return p.enter(w) && p.contend(w) }

func (p *permits) try(w *wait) bool { return p.lock(w) }

// enter waits for a place at the front of the crowd, and reports whether it has one. One attempt does not wait.
func (p *permits) enter(w *wait) bool {
	if w.once {
		p.place = p.crowd.TryJoin()
		if p.place == nil {
			w.blocked(p.crowd.why())
		}
		return p.place != nil
	}
	p.place = p.crowd.Join(w.locker)
	if isClosed(p.place.Ready()) {
		return true
	}
	w.late = true
	select {
	case <-p.place.Ready():
		return true
	case <-w.ctx.Done():
	case <-w.locker.client.closing:
	}
	w.blocked(p.crowd.why())
	return false
}

// noteWaiting notes that the goroutine waits, since no permits are free.
func (p *permits) noteWaiting() {
	if !p.waiting {
		p.waiting = true
		p.crowd.beginWaiting()
	}
}

func (p *permits) contend(w *wait) bool {
	if !w.enterGate(nil) { // which nobody else wants. It is taken for as long as the permits are held
		return false
	}
	l := w.locker
	l.terms = p.prefer(l.terms)
	q := &contender{wait: w, place: p.place, life: l.opts.TTL, contended: p.crowd.full() && !w.once}
	return q.contend()
}

func (p *permits) hold(w *wait) *Lease {
	p.crowd.Held(1)
	p.crowd.noteFull(w.lease.tenure.contended)
	return p.mutex.hold(w)
}

// giveUp leaves the crowd. If permits were handed over that the goroutine has not taken, since its ctx ended at that moment, they are released.
func (p *permits) giveUp(w *wait) {
	if p.waiting {
		p.waiting = false
		p.crowd.endWaiting()
	}
	if s, ok := p.place.Leave().(*Lease); ok {
		(*releasing)(s.tenure).queue()
	}
}

func (p *permits) unlocked(ctx context.Context, l *Locker, s *Lease, block bool) error {
	p.crowd.Held(-1)
	if next := s.handOver(p); next != nil {
		l.client.gates.Leave(l.key) // the next one has a gate of its own
		s.handedOver(ctx, next)
		return nil
	}
	p.crowd.noteReleased(s.tenure.slots)
	return l.releaseLease(ctx, s, block)
}

// pass passes permits on to the goroutine of the crowd that has waited longest, if it wants as many of the same limit. If it does not, they
// go back to the masters: else calls for several would starve.
func (p *permits) pass(make func(tag any) any) bool {
	return p.crowd.Pass(func(tag any) any {
		if n, limit := tag.(*Locker).on.permits(); n != p.n || limit != p.limit {
			return nil
		}
		return make(tag)
	})
}

// poll asks who stands in the slots of the claim, or aims.
func (p *permits) poll(q *contender, now clock.Reading) wire.Request {
	if q.aim != nil {
		q.asks = true
		return wire.AimAt(q.aim)
	}
	keys := q.inbox.Stands(q.claim, now, q.wait.locker.client.opts.bounds.Drift)
	mine := waits.BestSlots(keys, nil, "", 0)
	if n := p.n; q.pace.VotesSplit() && q.beats == 0 && (len(mine) == n || len(mine) > n && keys[mine[n-1]] > keys[mine[n]]) {
		return q.aimAt(mine[:n]) // the most keys are in these
	}
	slices.Sort(mine)
	q.asks = len(mine) > 0
	return wire.AskAbout(mine[:min(len(mine), wire.SlotsMost)])
}

// aimAt has the claim aim at slots, and returns the poll that does so.
func (q *contender) aimAt(at []int) wire.Request {
	q.aim, q.asks = slices.Sorted(slices.Values(at)), true
	q.inbox.Aim(q.claim, q.aim)
	return wire.AimAt(q.aim)
}

// judge has the claim do what waits.SlotFinding.Verdict decides.
func (p *permits) judge(q *contender, now clock.Reading, _ uint64, firstVote time.Time) (more bool) {
	c := q.wait.locker.client
	votes := q.wait.try.round.Votes()
	tally := quorum.Count(votes)
	for i, v := range votes {
		if v.Granted() { // others have these slots elsewhere
			votes[i].Outcome, votes[i].Left = wire.Taken, wire.Unknown
		}
	}
	q.wait.noteOutcome(c.names.quorumError(opAcquire, q.wait.locker.name, votes))
	q.wait.warn()
	p.crowd.noteFailure(q.wait.last)
	if !q.wait.once && errors.Is(q.wait.last, ErrHeld) {
		p.noteWaiting()
	}
	found := waits.SlotFinding{
		Answered: tally.Answered(), Granted: tally.Granted, Keys: q.inbox.Stands(q.claim, now, c.opts.bounds.Drift), Rivals: waits.SlotRivals(votes, q.claim.Token()),
		Asked: q.asks && !q.wait.try.sentAt.Time().Before(firstVote), Aimed: q.aim != nil, Overdue: now.Time().Sub(firstVote) > q.claim.G, Beaten: q.beats > 0, Once: q.wait.once,
	}
	verdict, best := found.Verdict(q.claim.Token(), p.n, c.waits.Need)
	switch verdict {
	case waits.GivesUp:
		return false
	case waits.BacksOff:
		return q.backOff(now)
	case waits.Polls:
		return q.schedule(now)
	case waits.Yields:
		q.dropClaim(wire.Release)
		q.resume = now.Time()
	case waits.Aims:
		q.ask(q.aimAt(best), q.claim.G)
	case waits.Beaten:
		q.beats++
	}
	return true
}

// accept has the permit stand in its slots at the masters that gave it others, or may do so later.
func (p *permits) accept(q *contender, won *waits.Quorum, t *tenure) bool {
	elsewhere, queued, ok := q.inbox.WonSlots(q.claim, won, t.doubt, func(i int) { t.heal(1 << i) })
	t.heal(elsewhere)
	if queued != 0 {
		time.AfterFunc(lateTrips*q.wait.locker.client.group.Distance()+waits.SplitAfter, func() { t.heal(queued) })
	}
	return ok
}

// A winner waits for lateTrips round trips and waits.SplitAfter for the grants of the masters that have its claim in their queues. Most come
// with the next message. If permits are held for a shorter time, nothing need be healed.
const lateTrips = 2
