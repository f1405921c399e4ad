package bounds

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestForHowLongALockMayBeGranted(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		ttl, trip time.Duration
		drift     float64
		want      time.Duration
	}{
		{10 * time.Second, 0, .01, time.Second}, // the default
		{time.Hour, 0, .01, time.Second},
		{7005 * ms, 0, .01, 700 * ms},
		{4 * time.Second, 0, .01, 400 * ms},
		{time.Second, 0, .01, 400 * ms},
		{300 * ms, 0, .01, 300 * ms}, // Clients do not ask for less than wire.GrantLeast
		// far away
		{time.Second, 60 * ms, .01, 480 * ms},
		{time.Second, 200 * ms, .01, time.Second},
		{10 * time.Second, 50 * ms, .01, time.Second},
		{10 * time.Second, 300 * ms, .01, 2400 * ms},
		// no claim could win
		{time.Second, 400 * ms, .01, 0}, // the validity is less than four round trips
		{time.Second, 0, .8, 0},         // the validity is 78 ms, less than the time between two pings
		{400 * ms, 0, .75, 0},
		{400 * ms, 0, .7, 400 * ms}, // 118 ms of validity, which is more
	} {
		b := &Bounds{DriftFactor: row.drift, MaxTTL: time.Hour}
		if got := b.Grant(row.ttl, row.trip); got != row.want {
			t.Errorf("a TTL of %v, a round trip of %v, a drift of %v: granted for %v, want %v", row.ttl, row.trip, row.drift, got, row.want)
		}
	}
}

// Where no claim could win with the usual grant, and where nothing prolongs the lease, a grant is a part of the lease.
func TestAGrantOfAClaimIsNeverNone(t *testing.T) {
	b := &Bounds{DriftFactor: .01, MaxTTL: time.Hour}
	for _, row := range []struct {
		ttl, trip time.Duration
		renewed   bool
		want      time.Duration
	}{
		{10 * time.Second, 0, true, time.Second},
		{10 * time.Second, 0, false, time.Second},
		{time.Second, 400 * time.Millisecond, true, time.Second},
		{time.Second, 400 * time.Millisecond, false, 500 * time.Millisecond},
		{500 * time.Millisecond, 0, false, 250 * time.Millisecond},
	} {
		g := b.G(row.ttl, row.trip, row.renewed)
		if g != row.want {
			t.Errorf("a TTL of %v, a round trip of %v, renewed: %v: granted for %v, want %v", row.ttl, row.trip, row.renewed, g, row.want)
		}
		if wins := b.WinsAt(g, row.renewed); row.renewed == (wins > g) {
			t.Errorf("renewed: %v: a claim with a g of %v wins if its votes last for %v", row.renewed, g, wins)
		}
	}
}

func TestHowLongAMasterMayTake(t *testing.T) {
	b := Bounds{NodeTimeout: 70 * time.Millisecond}
	if got, want := b.Limit(time.Second), (quorum.Limit{Least: 70 * time.Millisecond}); got != want {
		t.Errorf("with a NodeTimeout: %+v, want %+v", got, want)
	}
	b.Automatic = true
	if got, want := b.Limit(time.Second), quorum.Automatic(time.Second); got != want {
		t.Errorf("without one: %+v, want %+v", got, want)
	}
}

// A process that stops for half a second right after the lock was granted to it keeps the lease, with the default TTL. The mark of the grant may be as old
// as a young one can be.
func TestAGrantOutlastsAStopOfHalfASecond(t *testing.T) {
	b := &Bounds{DriftFactor: .01, MaxTTL: time.Hour}
	g := b.Grant(10*time.Second, 0)
	if got := b.Validity(g) - wire.YoungFor(g); got < 500*time.Millisecond {
		t.Errorf("a claim whose registration is a young mark has a lease for %v at least, want 500ms", got)
	}
	if got := b.Validity(g) - master.PingEvery(g); got < 500*time.Millisecond {
		t.Errorf("a claim that pings has a lease for %v at least, want 500ms", got)
	}
	if g := wire.GrantLeast; b.Validity(g)-wire.YoungFor(g) < 240*time.Millisecond {
		t.Errorf("with the shortest grant it is %v, want 240ms", b.Validity(g)-wire.YoungFor(g))
	}
}
