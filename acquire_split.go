package redlock

import (
	"context"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
)

// splitDelay returns how long after a vote to ask who has the other keys.
func (q *queueing) splitDelay(now clock.Reading) time.Duration {
	if now.Time().Sub(q.divided) > dividesFor {
		q.divides = 0
	}
	distance := q.locker.client.group.Distance()
	d := splitAfter + distance + rand.N(distance/2+1)
	for n := dividesMost; n < q.divides && d < queueStep; n++ {
		d *= 2
	}
	return d
}

// judge decides what to do after a round that did not win. The claim has the votes of mine, since first. It reports
// false if the schedule has stopped.
func (q *queueing) judge(ctx context.Context, now clock.Reading, mine uint64, first time.Time) (more bool) {
	c := q.locker.client
	votes := q.votes(now)
	q.noted(ctx, c.quorumError(opAcquire, q.locker.name, votes))
	q.warn()
	q.askOwner()
	answered, rivals := 0, make(map[string]int)
	for i, v := range votes {
		if v.In && v.Outcome != master.Failed {
			answered++
		}
		if v.Outcome == master.Taken && v.Standing != "" && mine&(1<<i) == 0 {
			rivals[v.Standing]++
		}
	}
	if answered < c.sleepers.need {
		return q.backOff(now)
	} else if mine == 0 || !first.Before(q.asked.Time()) { // what the answers say may be older than the votes
		return q.schedule(now)
	}
	q.divides, q.divided = q.divides+1, now.Time()
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
	case n >= c.sleepers.need: // a lease, which may be healed where our key is
		// Only where it was our key: the lease may end now, and its release grant the claim the lock elsewhere.
		q.claim.LeaveFree(mine)
		q.release(master.ToHead)
		q.register(q.grant, mine)
	case n > keys || n == keys && rival < own:
		if strings.ContainsFunc(rival, func(r rune) bool { return r <= ' ' || r > '~' }) || len(rival) <= len(master.Open) {
			rival = master.ToHead
		}
		q.release(rival)
		q.register(q.grant, 0)
	case now.Time().Sub(first) > q.grant:
		return q.backOff(now)
	}
	return true
}

// votes returns the votes of the current round. One with a fence that cannot be used is a failure.
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
