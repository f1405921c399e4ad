// Package quorum sends a command to all masters at once and counts their votes. It knows nothing of locks.
package quorum

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// A Group is a set of masters that vote together. It is safe for concurrent use.
type Group struct {
	Distances // immutable
	// Rounds to be used again, which cost a dozen allocations each. There is a pool for each Group, because
	// rounds hold channels and timers, and those of a synctest bubble must not be used in the next.
	idle sync.Pool
}

// NewGroup returns a Group of masters.
func NewGroup(masters []*master.Master) *Group { return &Group{Distances: Distances{masters}} }

// A Round is one command sent to all masters, with their votes. Votes may arrive at any time, also after the round has ended. The method of Group
// that begins a round decides how it goes on:
//
//	begun by  answers that do not come    the outcome                            ended by
//	Ask       fail by Wait                is what Wait returns                   End
//	Ask       end with their connections  goes to the Observer of Leave          Leave, or the vote that settles it
//	AskEach   fail by Expire              each answer goes to the Listener       End
//	Tell      end with their connections  goes to the Observer                   the vote that settles it
//	Query     fail                        is what it returns, with all answers   Query
//	Send      there is no Round: nobody learns of the answers
//
// A round that has ended, and whose last vote has come, is used again.
type Round struct {
	group   *Group // immutable
	limit   Limit  // immutable while the round is in use
	expiry  *time.Timer
	reached chan struct{} // cap 1: the goal is reached

	mu       sync.Mutex // guards what follows
	ballot   Ballot
	began    time.Time
	timeout  time.Duration // the time that expiry was set to
	hurries  bool          // a quorum has answered, and timeout is that of a Limit.Hurry
	grace    uint64        // a bit for each master whose first connection was under way when last checked
	goal     func(Tally) bool
	each     Listener // is told of each answer; nil for most rounds
	observer Observer // is called once the round is settled; nil while a goroutine waits, and afterwards
	missing  int      // answers that will still come
	ended    bool     // End was called
}

// Ask sends one command to all masters. The caller must call End on the round. An acquisition is timed to
// arrive at a quorum of masters at the same moment: see Distance.
//
// A master that has not answered within the limit's Timeout has failed. While the first connection of a master
// is under way, its time has not begun. This does not hold for a release: nobody should wait for that, and it
// reaches the master all the same.
func (g *Group) Ask(request wire.Request, claim *master.SentClaim, limit Limit) *Round {
	return g.AskEach(request, claim, limit, nil)
}

// A Listener is told of each answer to a round, even if the round has ended. The goroutine that read the answer calls the
// methods, so they must not block.
type Listener interface {
	// Heard is called before the answer of master i is counted. So a goroutine that finds all answers counted, and then
	// looks at what Heard has noted, misses none. It reports whether that goroutine is to look at it at once.
	Heard(i int, a wire.Answer) (news bool)
	// Counted is called when an answer with news was counted, and when Expire is to be called again, since the answer was the last one, or has made
	// the time of the others shorter.
	Counted()
}

// AskEach is Ask, and tells each of the answers. Wait need not be called.
func (g *Group) AskEach(request wire.Request, claim *master.SentClaim, limit Limit, each Listener) *Round {
	r := g.round(limit)
	r.mu.Lock()
	r.each = each
	r.missing = len(g.masters) // so that no answer is the last before all masters are asked
	if request.Kind() != wire.Release {
		for i, m := range g.masters {
			if m.Connecting() {
				r.grace |= 1 << i
			}
		}
	}
	r.mu.Unlock()
	var distance time.Duration // 0: no command is delayed
	if kind := request.Kind(); kind.Acquires() && (kind != wire.Register || claim.Grantable()) {
		distance = g.Distance()
	}
	for i := range g.masters {
		r.askMaster(i, request, claim, distance)
	}
	return r
}

// An Observer is called with the outcome of a round for which no goroutine waits.
type Observer interface {
	// Settled is called once, when the votes are Settled or all have come, by the goroutine that
	// brought the last of them. It must not block, and must not use the round afterwards.
	Settled(r *Round, t Tally)
}

// Tell sends one command to all masters and returns. The outcome is reported to o. There is no
// time-out: each master answers, or its connection is given up, which is an answer, too.
func (g *Group) Tell(request wire.Request, claim *master.SentClaim, o Observer) {
	r := g.round(Limit{Least: time.Hour}) // Least must be above 0; the timer is stopped
	r.expiry.Stop()
	r.mu.Lock()
	r.missing = len(g.masters)
	r.observer = o
	r.mu.Unlock()
	for i := range g.masters {
		r.askMaster(i, request, claim, 0)
	}
}

// Query sends a query to all masters, and waits until the answers are enough, all masters have answered, limit has passed, or ctx or
// closing ends. It returns each one's answer.
func (g *Group) Query(ctx context.Context, closing <-chan struct{}, q wire.Query, limit Limit, enough func(Tally) bool) []Vote {
	round := g.Ask(q, nil, limit)
	defer round.End()
	round.Wait(ctx, closing, enough)
	return round.Votes()
}

// All is for Query: no answers are enough but those of all masters.
func All(Tally) bool { return false }

// Send sends one command to all masters. Nobody learns of the answers.
func (g *Group) Send(request wire.Request, claim *master.SentClaim) {
	for _, m := range g.masters {
		m.Ask(request, claim, nil)
	}
}

// Need returns how many masters are a quorum.
func (g *Group) Need() int { return Majority(len(g.masters)) }

// Listening reports whether a quorum of masters can tell this Client of grants.
func (g *Group) Listening() bool { return g.most((*master.Master).Listening) }

// Up reports whether the votes of a quorum of masters count.
func (g *Group) Up() bool { return g.most((*master.Master).Up) }

// most reports whether is reports true for a quorum of masters.
func (g *Group) most(is func(*master.Master) bool) bool {
	n := 0
	for _, m := range g.masters {
		if is(m) {
			n++
		}
	}
	return n >= g.Need()
}

// round returns a round without votes, whose time has begun.
func (g *Group) round(limit Limit) *Round {
	n, timeout := len(g.masters), g.Timeout(limit)
	r, _ := g.idle.Get().(*Round)
	if r == nil {
		return &Round{
			group:   g,
			limit:   limit,
			began:   time.Now(),
			timeout: timeout,
			expiry:  time.NewTimer(timeout),
			reached: make(chan struct{}, 1),
			ballot:  NewBallot(n),
		}
	}
	r.ballot.Clear()
	r.each = nil
	r.grace, r.ended, r.hurries = 0, false, false
	r.limit, r.timeout, r.began = limit, timeout, time.Now()
	r.expiry.Reset(timeout)
	return r
}

// Answered implements master.Asker. A vote that comes after its master has failed does not count.
func (r *Round) Answered(i int, a wire.Answer) {
	each := r.each // it does not change before the last answer was counted
	news := each != nil && each.Heard(i, a)
	r.mu.Lock()
	hurried := r.hurries
	r.voteLocked(i, a)
	r.missing--
	news = news || r.hurries != hurried || r.ballot.Tally().pending() == 0
	o, t := r.observer, r.ballot.Tally()
	if o != nil && r.overLocked(Tally.Settled) {
		r.observer = nil
	} else {
		o = nil
	}
	done := r.ended && r.missing == 0
	r.mu.Unlock()
	if each != nil && news {
		each.Counted()
	}
	switch {
	case o != nil: // nobody else calls End
		o.Settled(r, t)
		r.End()
	case done:
		r.group.idle.Put(r)
	}
}

// Leave ends the waiting for a round, as End does, and reports the outcome to o, as Tell does: when more votes have settled it, or all
// have come. Nothing limits that time but the connections. The caller must not use the round any more.
func (r *Round) Leave(o Observer) {
	r.expiry.Stop()
	r.mu.Lock()
	t, over := r.ballot.Tally(), r.overLocked(Tally.Settled)
	if !over {
		r.observer = o
	}
	r.mu.Unlock()
	if over {
		o.Settled(r, t)
		r.End()
	}
}

// End ends the round. The caller must not use it any more. The last vote that comes makes the round available
// to another Ask.
func (r *Round) End() {
	r.expiry.Stop()
	r.mu.Lock()
	r.ended = true
	done := r.missing == 0
	r.mu.Unlock()
	if done {
		r.group.idle.Put(r)
	}
}

func (r *Round) voteLocked(i int, a wire.Answer) {
	if !r.ballot.Cast(i, a) {
		return
	}
	if r.goal != nil && r.overLocked(r.goal) {
		r.goal = nil
		r.reached <- struct{}{}
	}
	if !r.limit.Hurry || r.hurries {
		return
	}
	// Nobody waits for the others if the round is won. Only the votes for a claim may end before they are counted.
	if t := r.ballot.Tally(); t.Answered() && (!t.Won() || r.each != nil) {
		r.hurryLocked()
	}
}

// hurryLocked shortens the time of the masters that have not answered. Those that are too far away for it fail at once.
func (r *Round) hurryLocked() {
	r.hurries = true
	r.timeout = min(r.timeout, r.group.Late().Round(exact))
	if !r.ended {
		r.expiry.Reset(time.Until(r.began.Add(r.timeout)))
	}
	for i, m := range r.group.masters {
		if far := m.RoundTrip(); far > r.timeout && !r.ballot.Vote(i).In {
			r.voteLocked(i, wire.Answer{Err: &LateError{time.Since(r.began).Round(exact), far}})
		}
	}
}

// overLocked reports whether the goal is reached, or all masters have voted.
func (r *Round) overLocked(goal func(Tally) bool) bool {
	t := r.ballot.Tally()
	return goal(t) || t.pending() == 0
}

// Wait waits until goal reports true, and returns the tally. It returns earlier, perhaps without the goal, if
// all masters have voted or failed, if ctx ends, or if stop is closed.
func (r *Round) Wait(ctx context.Context, stop <-chan struct{}, goal func(Tally) bool) Tally {
	r.mu.Lock()
	if r.overLocked(goal) {
		defer r.mu.Unlock()
		return r.ballot.Tally()
	}
	r.goal = goal
	r.mu.Unlock()
	for {
		select {
		case <-r.reached:
		case <-r.expiry.C:
			r.timeOut()
			continue // if all have voted now, reached is signalled
		case <-ctx.Done():
		case <-stop:
		}
		return r.stopWaiting()
	}
}

// stopWaiting stops waiting. It removes the signal of a goal that has just been reached, so that the next Wait
// does not receive it.
func (r *Round) stopWaiting() Tally {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.goal = nil
	select {
	case <-r.reached:
	default:
	}
	return r.ballot.Tally()
}

// timeOut fails the masters whose time is over, and sets the timer for the others. The mutex is held meanwhile, since a vote may
// shorten the time: see hurryLocked.
func (r *Round) timeOut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if next := r.failLateLocked(); next > 0 {
		r.expiry.Reset(next)
	}
}

// failLateLocked fails the masters whose time is over. It returns how long to wait next, or 0. There is a next time
// if the time-out has become longer, because a quorum now needs a master that is farther away, or if a first
// connection is under way.
func (r *Round) failLateLocked() (next time.Duration) {
	timeout := r.group.Timeout(r.limit)
	if more := timeout - r.timeout; more > 0 && !r.hurries {
		r.timeout = timeout
		return more
	}
	for i := range r.group.masters {
		if r.ballot.Vote(i).In {
			continue
		}
		if bit := uint64(1) << i; r.grace&bit != 0 && !r.hurries {
			if !r.group.masters[i].Connecting() {
				r.grace &^= bit // it has connected: its time begins now
			}
			next = timeout
			continue
		}
		r.voteLocked(i, wire.Answer{Err: &LateError{r.timeout, r.group.masters[i].Status().RTT}})
	}
	if next > 0 {
		r.timeout = next
	}
	return next
}

// Expire fails the masters that have not answered, if their time is over. elapsed is the time since the round began.
// Expire returns after how long it is to be called again, or 0 if all masters have answered or failed. It is for a
// round on which Wait is not called.
func (r *Round) Expire(elapsed time.Duration) (next time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ballot.Tally().pending() == 0 {
		return 0
	} else if left := r.timeout - elapsed; left > 0 {
		return left
	}
	return r.failLateLocked()
}

// Votes returns each master's vote so far, in the order of the masters.
func (r *Round) Votes() []Vote {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ballot.Votes()
}

// Any reports whether is reports true for any vote so far.
func (r *Round) Any(is func(Vote) bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, v := range r.ballot.votes {
		if v.In && is(v) {
			return true
		}
	}
	return false
}
