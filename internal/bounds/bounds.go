// Package bounds computes for how long a lease may be relied on, and how long commands may take, from the settings of a
// Client. It is arithmetic only.
package bounds

import (
	"cmp"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// Bounds are the settings of a Client that the computations depend on. They are immutable.
type Bounds struct {
	DriftFactor float64       // see redlock.Options
	MaxTTL      time.Duration // the longest TTL
	NodeTimeout time.Duration // the least, if it is Automatic
	Automatic   bool          // how long a master may take to answer follows the network: see quorum.Automatic
}

// driftFloor is the precision of Redis' expiry, and a margin.
const driftFloor = 2 * time.Millisecond

// Drift returns what is subtracted from a TTL to get the validity, because clocks may run at different speeds.
func (b *Bounds) Drift(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*b.DriftFactor) + driftFloor
}

// Validity returns for how long a holder may rely on keys that live for ttl.
func (b *Bounds) Validity(ttl time.Duration) time.Duration { return ttl - b.Drift(ttl) }

// FencedWithin returns how long a fenced acquisition may take. The limit keeps numbers rising when masters
// lose their numbers:
//
//   - A number that was committed before the loss is at most fence.AheadMost above the clock at the end of its
//     acquisition.
//   - The quarantine of those masters lasts MaxTTL + 2 s. A later acquisition that uses their votes proposes
//     a number from the time when it began.
//   - No acquisition takes longer than half of MaxTTL, so the clocks may differ by a second, or by a quarter of a second less if
//     the later one is a reader's. They should differ by half a second at most.
func (b *Bounds) FencedWithin(ttl time.Duration) time.Duration {
	return min(b.Validity(ttl), b.MaxTTL/2)
}

// Limit returns how long a master may take to answer in a round for a lock of this TTL.
func (b *Bounds) Limit(ttl time.Duration) quorum.Limit {
	if b.Automatic {
		return quorum.Automatic(ttl)
	}
	return quorum.Limit{Least: b.NodeTimeout}
}

const (
	// grantPart and grantMost: a grant lasts for a tenth of the TTL, but for grantMost at most. A client that is stopped for a shorter time, as
	// one that is throttled, keeps a lease that it was granted. One that is stopped for longer while it waits keeps others waiting for as long.
	grantPart = 10
	grantMost = time.Second
	// grantTrips is how many round trips a grant lasts at least.
	grantTrips = 8
	// leastTrips is how many round trips the validity of a grant must last for the lock to be granted. A claim can win
	// when half of that is left. The first renewal comes after a quarter of that half at most, and takes a round trip.
	leastTrips = 4
)

// G returns for how long a release may grant the lock to a claim, in docs/protocol.md called g, for a TTL and a round trip of trip. Where a claim could
// not win with a grant of the usual length, since the TTL is short or the masters are far, it lasts for the TTL. The keys of a lease that is not
// renewed are extended before it begins, so it lasts for longer than g: see WinsAt.
func (b *Bounds) G(ttl, trip time.Duration, renewed bool) time.Duration {
	g := cmp.Or(b.Grant(ttl, trip), ttl)
	if !renewed {
		g = min(g, ttl/2)
	}
	return g.Truncate(time.Millisecond)
}

// Grant returns the usual length of a grant, or 0 if a claim could not win with it. The votes of a claim must last until they are counted, and until the keys are extended.
// The mark of a vote is older than the message by up to the time between two pings and a round trip, and to extend the keys
// takes another one.
func (b *Bounds) Grant(ttl, trip time.Duration) time.Duration {
	g := min(max(wire.GrantLeast, min(ttl/grantPart, grantMost), grantTrips*trip), ttl).Truncate(time.Millisecond)
	if b.Validity(g) < max(leastTrips*trip, master.PingEvery(g)+2*trip) {
		return 0
	}
	return g
}

// WinsAt returns how long the votes of a quorum must last for a claim with this g to win: half of the validity of a
// grant. Those of a lease that is not renewed must last for longer than a grant, so its keys are extended first.
func (b *Bounds) WinsAt(g time.Duration, renewed bool) time.Duration {
	if !renewed {
		return g + 1
	}
	return b.Validity(g) / 2
}
