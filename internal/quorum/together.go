package quorum

import (
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/wire"
)

// Clients that want a free lock at the same moment should not split the votes. If each client is near some of
// the masters, it wins the votes of those, its commands reach the other masters too late, and nobody has a
// quorum. Random retries then take several round trips until one client succeeds.
//
// So an acquisition is sent to the closer masters a little later than to the far ones, so that it arrives at all
// masters of the nearest quorum at the same moment. Of two clients, the one whose commands arrive first is then
// first at all masters that it needs. No time is lost, since the quorum needs the vote of its farthest master
// anyway. Example, with round trips of 0, 0, 20, 20 and 20 ms: a quorum needs one of the far masters, so the
// command is sent to the closer ones after 10 ms.
//
// If an estimated distance is wrong, the result is no worse than without the delay.
//
// A Register of a claim that cannot be granted the lock, or need not, follows a release by this Client on the same connections. It is not
// delayed: they share a call, and nobody can be first in between. The estimates may be wrong by milliseconds where many callers
// share each write.

// worthWaiting is the least difference of two one-way distances that is evened out. Within a data
// centre there is nothing to gain.
const worthWaiting = time.Millisecond

// askMaster sends the round's command to one master. If the master is nearer than distance, that of the quorum's
// farthest master, the command is delayed, so that both arrive at the same time. If the caller has released the
// claim by then, the command is not sent: see master.Ask.
func (r *Round) askMaster(i int, request wire.Request, claim *master.SentClaim, distance time.Duration) {
	m := r.group.masters[i]
	if own := m.Distance(); own > 0 {
		if wait := (distance - own) / 2; wait >= worthWaiting {
			r.askLater(wait, i, request, claim)
			return
		}
	}
	if err := m.Ask(request, claim, r); err != nil {
		r.Answered(i, wire.Answer{Err: err})
	}
}

// askLater is a function of its own so that askMaster does not allocate.
func (r *Round) askLater(wait time.Duration, i int, request wire.Request, claim *master.SentClaim) {
	time.AfterFunc(wait, func() { r.askMaster(i, request, claim, 0) })
}
