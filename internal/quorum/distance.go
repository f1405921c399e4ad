package quorum

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

// Distances says how far away the masters of a Client are, in round trips. These are all the measures of distance, and what
// uses them:
//
//	master.Status.RTT  the last answer                   users: MasterStatus, LateError
//	Master.RoundTrip   a mean of the answers             RoundTrip; who cannot answer in time
//	Master.Distance    the shortest of the last answers  Distance; which commands are delayed: see askMaster
//	RoundTrip          of Master.RoundTrip               what has to last long enough: g of a grant, a patience
//	Distance           of Master.Distance                pauses, their random parts, split votes
//	Timeout            2 or 4 RoundTrip, and a Limit     rounds, renewals
//	Late               2 RoundTrip, and 2 ms             rounds with a Limit.Hurry, split votes
//
// RoundTrip follows a server or a client that has become busy, so what waits for answers uses it. Distance does not, so that nobody pauses for
// longer since somebody was busy. Of several masters, the farthest that a quorum needs counts.
//
// How long a turn took (turns.Releases.Turnaround) and when a claim is sent again (waits.Waits.Patience) are times of clients.
type Distances struct {
	masters []*master.Master // immutable
}

// Distance is 0 while less than a quorum of masters is up, and if it is below a microsecond, which not even two processes of one machine achieve.
func (d Distances) Distance() time.Duration {
	if far, up := d.farthest((*master.Master).Distance); up >= Majority(len(d.masters)) && far >= time.Microsecond {
		return far
	}
	return 0
}

// RoundTrip is that of the farthest master that is up if these are less than a quorum; 0 if none is. Masters that are not up do not count, since
// their votes do not.
func (d Distances) RoundTrip() time.Duration {
	far, _ := d.farthest((*master.Master).RoundTrip)
	return far
}

// Timeout returns how long a master may take to answer a command that is sent now: see Limit.For.
func (d Distances) Timeout(limit Limit) time.Duration {
	if limit.MostFar <= limit.Least {
		return limit.Least // without asking the masters
	}
	return limit.For(d.RoundTrip())
}

// lateLeast is added to the round trips of Late: masters nearby are often late by a millisecond.
const lateLeast = 2 * time.Millisecond

// Late returns how long a master may take to answer where a quorum of others has answered: two round trips, so that a slow master delays nobody.
func (d Distances) Late() time.Duration { return 2*d.RoundTrip() + lateLeast }

// farthest returns how many masters are up, and how far away the farthest one is that a quorum
// needs, or the farthest of all if fewer are up. distance returns how far away a master is, and 0
// unless it is up.
func (d Distances) farthest(distance func(*master.Master) time.Duration) (far time.Duration, up int) {
	var array [master.MaxMasters]time.Duration
	known := array[:0]
	for _, m := range d.masters {
		if far := distance(m); far > 0 {
			known = append(known, far)
		}
	}
	if len(known) == 0 {
		return 0, 0
	}
	slices.Sort(known)
	return known[min(Majority(len(d.masters)), len(known))-1], len(known)
}
