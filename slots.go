package redlock

import (
	"cmp"
	"context"
	"maps"
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
	crowd *crowd
	n     int // how many slots it needs
	limit int
	place *gate.Place // in crowd
}

var _ kind = (*permits)(nil)

// A crowd is what the goroutines of a Client that want permits of one name have in common. Those at the front register claims.
type crowd struct {
	gate.Crowd

	mu       sync.Mutex // guards the fields below
	last     error      // of the last attempt that failed
	lastAt   time.Time  // when it did
	released []int      // slots that were released and that no claim prefers yet, the last one last
}

// releasedMost is how many released slots a crowd knows: as many as may be near.
const releasedMost = 16

// crowds are those of a Client, by key.
type crowds struct{ weakmap.Map[crowd] }

func (h *crowds) ofKey(key string) *crowd {
	return h.Of(key, func() *crowd { return new(crowd) })
}

func (o *crowd) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last, o.lastAt = err, time.Now()
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
	return of, slotHolder{}
}

func (p *permits) newClaim(c *Client, registered *master.Claim, began clock.Reading, g time.Duration) *waits.Claim {
	return waits.NewSlotClaim(registered, began, g, len(c.masters), p.n, p.limit)
}

// grantFor: there is no other way to get permits. A master that does not tell its run_id is polled.
func (p *permits) grantFor(l *Locker) time.Duration {
	c := l.client
	return cmp.Or(c.opts.grantFor(l.opts.TTL, c.group.RoundTrip()), l.opts.TTL)
}

// A slotHolder is for a tenure of permits, whose commands name the slots.
type slotHolder struct{ oneHolder }

func (slotHolder) renewing(t *tenure) wire.Request { return wire.RenewSlots(t.slots) }

// healing has the permit stand in its slots at a master, and in no others.
func (slotHolder) healing(t *tenure) wire.Request { return wire.HealSlots(t.slots) }

// releasing: no client of another library wants a permit, so no release leaves it open.
func (slotHolder) releasing(*tenure) wire.Request { return wire.Release }

func (p *permits) lock(w *wait) bool { return p.enter(w) && p.contend(w) }

func (p *permits) try(w *wait) bool { return p.lock(w) }

// enter waits for a place at the front of the crowd, and reports whether it has one. One attempt does not wait.
func (p *permits) enter(w *wait) bool {
	if w.once {
		p.place = p.crowd.TryJoin()
		if p.place == nil {
			w.taken(p.crowd.why())
		}
		return p.place != nil
	}
	p.place = p.crowd.Join(w.locker)
	if isClosed(p.place.Ready()) {
		return true
	}
	w.late = true
	w.warn()
	select {
	case <-p.place.Ready():
		return true
	case <-w.ctx.Done():
	case <-w.locker.client.closing:
	}
	w.taken(p.crowd.why())
	return false
}

func (p *permits) contend(w *wait) bool {
	if !w.enterGate(nil) { // which nobody else wants. It is taken for as long as the permits are held
		return false
	}
	l := w.locker
	l.terms = p.prefer(l.terms)
	q := newContender(w)
	q.place, q.claims.life = p.place, l.opts.TTL
	return q.contend()
}

func (p *permits) hold(w *wait) *Lease {
	p.crowd.Held(1)
	return p.mutex.hold(w)
}

// giveUp leaves the crowd. If permits were handed over that the goroutine has not taken, since its ctx ended at that moment, they are released.
func (p *permits) giveUp(w *wait) {
	if s, ok := p.place.Leave().(*Lease); ok && s.tenure.finish() == nil {
		w.locker.client.group.Tell(s.tenure.release(), s.tenure.claim, (*releasing)(s.tenure))
	}
}

func (p *permits) unlock(ctx context.Context, l *Locker, wait bool) error {
	if s := l.lease.Swap(nil); s != nil {
		return p.leave(ctx, l, s, wait)
	}
	return ErrNotHeld
}

func (p *permits) unlockLease(ctx context.Context, l *Locker, s *Lease) error {
	if !l.lease.CompareAndSwap(s, nil) {
		return s.Err()
	}
	return p.leave(ctx, l, s, true)
}

func (p *permits) leave(ctx context.Context, l *Locker, s *Lease, wait bool) error {
	p.crowd.Held(-1)
	if next := l.handOver(s, p.pass); next != nil {
		l.handedOver(ctx, s, next)
		l.client.gates.Leave(l.key) // the next one has a gate of its own
		return nil
	}
	p.crowd.noteReleased(s.tenure.slots)
	return l.release(ctx, s, wait)
}

// pass passes permits on to the goroutine of the crowd that has waited longest, if it wants as many of the same limit. If it does not, they
// go back to the masters: else calls for several would starve.
func (p *permits) pass(make func(tag any) any) bool {
	return p.crowd.Pass(func(tag any) any {
		if n, limit := tag.(*Locker).kind.permits(); n != p.n || limit != p.limit {
			return nil
		}
		return make(tag)
	})
}

// poll asks who stands in the slots of the claim, or aims.
func (p *permits) poll(q *claiming, now clock.Reading) wire.Request {
	if q.aim != nil {
		q.asks = true
		return wire.AimAt(q.aim)
	}
	keys := q.inbox.Stands(q.claim, now, q.locker.client.opts.drift)
	mine := best(keys, nil, "", 0)
	if n := p.n; q.votesSplit && q.beats == 0 && (len(mine) == n || len(mine) > n && keys[mine[n-1]] > keys[mine[n]]) {
		return q.aimAt(mine[:n]) // the most keys are in these
	}
	slices.Sort(mine)
	q.asks = len(mine) > 0
	return wire.AskAbout(mine[:min(len(mine), wire.SlotsMost)])
}

// aimAt has the claim aim at slots, and returns the poll that does so.
func (q *claiming) aimAt(at []int) wire.Request {
	q.aim, q.asks = slices.Sorted(slices.Values(at)), true
	q.inbox.Aim(q.claim, q.aim)
	return wire.AimAt(q.aim)
}

// judge also decides whether the claim aims.
func (p *permits) judge(q *claiming, now clock.Reading, _ uint64, first time.Time) (more bool) {
	c := q.locker.client
	votes := q.round.Votes()
	answered, granted := 0, false
	for i, v := range votes {
		if v.In && v.Outcome != wire.Failed {
			answered++
		}
		if v.Granted() { // others have these slots elsewhere
			granted = true
			votes[i].Outcome, votes[i].Left = wire.Taken, wire.Unknown
		}
	}
	q.noted(c.quorumError(opAcquire, q.locker.name, votes))
	p.crowd.note(q.last)
	q.warn()
	mine := q.inbox.Stands(q.claim, now, c.opts.drift)
	switch {
	case q.once && (len(mine) == 0 || answered < c.waits.Need):
		return false
	case answered < c.waits.Need || len(mine) == 0 && granted:
		return q.backOff(now)
	case len(mine) == 0 || !q.asks || q.asked.Time().Before(first): // what the answers say may be older than the votes
		return q.schedule(now)
	}
	rivals := q.rivals(votes)
	best := best(mine, rivals, q.claim.Token(), c.waits.Need)
	switch {
	case len(best) < p.n:
		switch q.beats++; {
		case q.once:
			return false
		case q.beats == 2 && unheld(mine, rivals, c.waits.Need) < p.n:
			return q.backOff(now) // these slots have holders: at once, the next claim would be given the same
		case q.beats == 2:
			q.release(wire.Release)
			q.resume = now.Time()
		}
	case q.aim == nil:
		q.ask(q.aimAt(best[:p.n]), q.claim.G)
	case now.Time().Sub(first) > q.claim.G:
		return !q.once && q.backOff(now)
	}
	return true
}

// rivals returns at how many masters other tokens stand in the slots that the current round has asked for.
func (q *claiming) rivals(votes []quorum.Vote) map[int]map[string]int {
	all := make(map[int]map[string]int)
	for i := range votes {
		votes[i].Rivals(q.claim.Token(), func(slot int, token string) {
			if all[slot] == nil {
				all[slot] = make(map[string]int)
			}
			all[slot][token]++
		})
	}
	return all
}

// unheld returns in how many of the slots of a token, mine, no other token has a quorum.
func unheld(mine map[int]int, rivals map[int]map[string]int, need int) (n int) {
	for slot := range mine {
		if !slices.ContainsFunc(slices.Collect(maps.Values(rivals[slot])), func(keys int) bool { return keys >= need }) {
			n++
		}
	}
	return n
}

// best returns the slots in which a token is the best, those with the most keys first. mine are its keys.
func best(mine map[int]int, rivals map[int]map[string]int, own string, need int) (slots []int) {
	for slot, keys := range mine {
		beaten := false
		for token, n := range rivals[slot] {
			beaten = beaten || n >= need || n > keys || n == keys && token < own
		}
		if !beaten {
			slots = append(slots, slot)
		}
	}
	slices.SortFunc(slots, func(a, b int) int { return cmp.Or(mine[b]-mine[a], a-b) })
	return slots
}

// accept has the permit stand in its slots at the masters that gave it others, or may do so later.
func (p *permits) accept(q *claiming, won *waits.Quorum, t *tenure) bool {
	elsewhere, ok := q.inbox.WonSlots(q.claim, won, t.doubt, t.heal)
	for i := range q.locker.client.masters {
		if elsewhere>>i&1 == 1 {
			t.heal(i)
		}
	}
	return ok
}
