package redlock

import (
	"cmp"
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waits"
	"github.com/redlock-go/redlock/internal/wire"
)

// permits are the kind of a Locker for one acquisition of a Semaphore. Each acquisition has a Locker of its own, whose key
// stands for it in the gates and the waits of the Client, and is no key on the masters. So any number of goroutines hold permits of
// a name. Such a Locker always registers a claim, since no plain SET gives a slot.
//
// A claim on n slots wins if a quorum of masters has its token in each of n slots: see package waits. The masters choose the slots. Masters
// that have executed the same commands choose the same ones. If they have not, a claim may have votes, but no quorum for any
// slot. Then it asks who stands in its slots. In a slot, the token with the most keys is the best, and of several the least.
//
//   - If the claim is the best in n slots, it aims at these: it leaves all others, and wishes these where others stand in them.
//   - If it is not, it is found beaten. A claim that was found beaten twice is released, and registered anew with a fresh token
//     and the time that it has waited.
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
	in    bool // it is counted in crowd
}

var _ kind = (*permits)(nil)

// waitersMost is how many goroutines of a Client wait at the masters for permits of one name. Others wait behind them.
const waitersMost = 16

// A crowd is what the goroutines of a Client that want permits of one name have in common.
type crowd struct {
	places   chan struct{} // one is taken by each goroutine that waits at the masters; first come, first served
	released atomic.Int64  // the slot that was released last, plus 1; 0: none

	mu   sync.Mutex // guards last
	last error      // of the last attempt
}

// crowds are those of a Client, by key.
type crowds struct{ inUse[crowd] }

func (h *crowds) ofKey(key string) *crowd {
	return h.of(key, func() *crowd { return &crowd{places: make(chan struct{}, waitersMost)} })
}

func (o *crowd) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.last = err
}

// first returns the slot that a claim asks for first: as a rule the one that this Client has released last, else any.
func (p *permits) first() int {
	if slot := int(p.crowd.released.Swap(0)) - 1; slot >= 0 && slot < p.limit {
		return slot
	}
	return rand.N(p.limit)
}

// why returns why the last attempt of a goroutine of the crowd failed.
func (o *crowd) why() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.last
}

func (p *permits) lock(w *wait) bool { return p.enter(w) && p.contend(w) }

func (p *permits) try(w *wait) bool { return p.lock(w) }

// enter waits for a place at the masters, and reports whether it has one. One attempt does not wait.
func (p *permits) enter(w *wait) bool {
	select {
	case p.crowd.places <- struct{}{}:
		p.in = true
		return true
	default:
	}
	if !w.once {
		w.late = true
		w.warn()
		select {
		case p.crowd.places <- struct{}{}:
			p.in = true
			return true
		case <-w.ctx.Done():
		case <-w.locker.client.closing:
		}
	}
	w.taken(p.crowd.why())
	return false
}

func (p *permits) contend(w *wait) bool {
	if !w.enterGate(nil) { // which nobody else wants. It is taken for as long as the permits are held
		return false
	}
	q := &contender{wait: w, delays: retrier{start: w.locker.client.opts.NewBackOff, forever: w.forever}}
	q.life = w.locker.opts.TTL
	return q.contend()
}

func (p *permits) giveUp(*wait) {
	if p.in {
		p.in = false
		<-p.crowd.places
	}
}

func (p *permits) unlock(ctx context.Context, l *Locker, wait bool) error {
	if s := l.lease.Load(); s != nil {
		p.crowd.released.Store(int64(s.tenure.slots[0]) + 1)
	}
	return p.mutex.unlock(ctx, l, wait)
}

// again returns the next poll of the claim.
func (q *contender) again(now clock.Reading) wire.Request {
	switch {
	case !q.claim.OfSlots():
		return wire.Again
	case q.aim != nil:
		q.asks = true
		return wire.AimAt(q.aim)
	}
	keys := q.inbox.Stands(q.claim, now, q.locker.client.opts.drift)
	mine := best(keys, nil, "", 0)
	if n := q.locker.kind.(*permits).n; q.votesSplit && q.beats == 0 && (len(mine) == n || len(mine) > n && keys[mine[n-1]] > keys[mine[n]]) {
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

// judgeSlots is judge for a claim on slots.
func (q *contender) judgeSlots(now clock.Reading, first time.Time) (more bool) {
	c, p := q.locker.client, q.locker.kind.(*permits)
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
	best := best(mine, q.rivals(votes), q.claim.Token(), c.waits.Need)
	switch {
	case len(best) < p.n:
		if q.beats++; q.once {
			return false
		} else if q.beats == 2 {
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
func (q *contender) rivals(votes []quorum.Vote) map[int]map[string]int {
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

// accept makes a quorum of votes that of a tenure, and reports false if one of the votes has become void.
func (q *contender) accept(won *waits.Quorum, t *tenure) bool {
	if won.Slots == nil {
		return q.inbox.Won(q.claim, won, t.doubt)
	}
	elsewhere, ok := q.inbox.WonSlots(q.claim, won, t.doubt, t.heal)
	for i := range q.locker.client.masters {
		if elsewhere>>i&1 == 1 {
			t.heal(i)
		}
	}
	return ok
}
