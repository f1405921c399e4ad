package quorum

import (
	"fmt"
	"time"
)

// A Limit bounds how long a master may take to answer in a round. Where Most and MostFar are not above Least, it is Least;
// otherwise it depends on the network: see For and Distances.
type Limit struct {
	Least   time.Duration // above 0
	Most    time.Duration // where the network is slow
	MostFar time.Duration // where a round trip takes longer than half of Most
	// Hurry: once a quorum of masters has answered, the others have less time: see Distances.Late. So a slow master
	// delays nobody. It is for rounds that are repeated if they fail.
	Hurry bool
}

const (
	// LeastTimeout is the least of an automatic Limit: masters nearby are often late by some
	// milliseconds because they, or the client, are busy.
	LeastTimeout = 50 * time.Millisecond

	// ttlPart is the part of a TTL, one ttlPart-th, that an automatic Limit allows: masters that do not answer must not use up
	// the lease. slowPart is the part that it allows where a round trip takes so long.
	ttlPart  = 20
	slowPart = 5
)

// Automatic returns the limit for locks with a TTL that follows the network.
func Automatic(ttl time.Duration) Limit {
	return Limit{Least: LeastTimeout, Most: ttl / ttlPart, MostFar: ttl / slowPart}
}

// roundTrips is how many round trips a master has to answer, where a Limit depends on the
// network. One is what the answer takes as a rule, the others are for a network that is busy.
const roundTrips = 4

// leastTrips is how many round trips a master has where so many take longer than Limit.Most. Less than one would mean that no lock
// can be acquired.
const leastTrips = 2

// For returns the time-out if a round trip to the farthest master that a quorum needs takes so long: four round trips, but no
// less than l.Least and no more than l.Most; or, if that is longer, two round trips, but no more than l.MostFar.
func (l Limit) For(farthest time.Duration) time.Duration {
	// Whole milliseconds, for those who read it in errors.
	trips := func(n time.Duration) time.Duration { return (n * farthest).Truncate(time.Millisecond) }
	return max(l.Least, min(trips(roundTrips), l.Most), min(trips(leastTrips), l.MostFar))
}

// exact is how exact the times in errors are.
const exact = 100 * time.Microsecond

// A LateError says that a master did not answer in time.
type LateError struct {
	Timeout time.Duration // how long it had
	RTT     time.Duration // how long its last answer took; 0: there was none
}

func (e *LateError) Error() string {
	if e.RTT == 0 {
		return fmt.Sprintf("no answer within %v", e.Timeout)
	}
	rtt := e.RTT
	if rtt > time.Millisecond {
		rtt = rtt.Round(exact)
	}
	return fmt.Sprintf("no answer within %v (last round trip %v)", e.Timeout, rtt)
}
