package redlock

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// splitDelay returns how long after a vote to ask who has the other keys. It forgets rounds that found the votes
// split if the last of them was long ago.
func (q *queueing) splitDelay(now clock.Reading) time.Duration {
	if now.Time().Sub(q.lastSplit) > splitRoundsFor {
		q.splitRounds = 0
	}
	distance := q.locker.client.group.Distance()
	d := splitAfter + distance + rand.N(distance/2+1)
	for n := splitRoundsMost; n < q.splitRounds && d < queueStep; n++ {
		d *= 2
	}
	return d
}

// judge decides what becomes of the claim after a round that did not win, and does it: the claim stays, gives way to
// another one, or backs off. mine and first are those of roundOver. It reports false if the schedule has stopped.
func (q *queueing) judge(ctx context.Context, now clock.Reading, mine uint64, first time.Time) (more bool) {
	c := q.locker.client
	votes := q.votes(now)
	q.noted(ctx, c.quorumError(opAcquire, q.locker.name, votes))
	q.warn()
	q.askOwner()
	answered, granted, rivals := 0, false, make(map[string]int)
	for i, v := range votes {
		granted = granted || v.Granted()
		if v.In && v.Outcome != master.Failed {
			answered++
		}
		if v.Outcome == master.Taken && v.Standing != "" && mine&(1<<i) == 0 {
			rivals[v.Standing]++
		}
	}
	if answered < c.sleepers.need {
		return q.backOff(now)
	}
	if mine == 0 && granted { // its votes do not last until they are counted
		return q.backOff(now)
	} else if mine == 0 || !first.Before(q.asked.Time()) { // what the answers say may be older than the votes
		return q.schedule(now)
	}
	q.splitRounds, q.lastSplit = q.splitRounds+1, now.Time()
	own, keys, rival := q.claim.Token(), 0, ""
	for i := range votes {
		keys += int(mine >> i & 1)
	}
	for token, n := range rivals {
		if n > rivals[rival] || n == rivals[rival] && token < rival {
			rival = token
		}
	}
	switch n := rivals[rival]; {
	case n >= c.sleepers.need:
		// The rival has a lease. Its holder may heal the key where it is ours. So our release leaves the key free
		// there, and the next claim does not set it. Elsewhere the release passes the lock on as usual: the lease
		// may have ended, and its release may have granted the lock to our claim.
		q.claim.LeaveFree(mine)
		q.release(master.ToHead)
		q.spared, q.resume = mine, now.Time()
	case n > keys || n == keys && rival < own:
		q.release(master.ToToken(rival))
		q.resume = now.Time()
	case now.Time().Sub(first) > q.claim.g:
		return q.backOff(now)
	}
	return true
}

// votes returns the votes of the current round. A grant with a fence that cannot be used is a failure.
func (q *queueing) votes(now clock.Reading) []quorum.Vote {
	votes := q.round.Votes()
	if most := q.highest(now); most > 0 {
		for i, v := range votes {
			if v.Granted() && v.Fence > most {
				votes[i].Answer = master.Answer{Err: master.Ahead(v.Fence, numberAt(now.Wall()))}
			}
		}
	}
	return votes
}
