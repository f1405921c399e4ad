package quorum

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/master"
)

const ms = time.Millisecond

func TestALimitFollowsTheDistance(t *testing.T) {
	for _, row := range []struct {
		name     string
		limit    Limit
		farthest time.Duration
		want     time.Duration
	}{
		{"chosen", Limit{Least: 30 * ms}, 90 * ms, 30 * ms},
		{"near", Automatic(10 * time.Second), ms, 50 * ms},
		{"four round trips", Automatic(10 * time.Second), 20 * ms, 80 * ms},
		{"in whole milliseconds", Automatic(10 * time.Second), 20*ms + 300*time.Microsecond, 81 * ms},
		{"a twentieth of the TTL", Automatic(10 * time.Second), 200 * ms, 500 * ms},
		{"two round trips", Automatic(10 * time.Second), 600 * ms, 1200 * ms},
		{"a fifth of the TTL", Automatic(10 * time.Second), 3 * time.Second, 2 * time.Second},
		{"a short TTL", Automatic(500 * ms), 45 * ms, 90 * ms},
		{"a short TTL, and farther", Automatic(500 * ms), 300 * ms, 100 * ms},
		{"a TTL that is too short for that", Automatic(200 * ms), 300 * ms, 50 * ms},
		{"no distance is known", Automatic(10 * time.Second), 0, 50 * ms},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := row.limit.For(row.farthest); got != row.want {
				t.Errorf("%v away: %v, want %v", row.farthest, got, row.want)
			}
		})
	}
}

func TestALateErrorSaysHowLongTheLastAnswerTook(t *testing.T) {
	for _, row := range []struct {
		err  LateError
		want string
	}{
		{LateError{Timeout: 50 * ms}, "no answer within 50ms"},
		{LateError{50 * ms, 82*ms + 44*time.Microsecond}, "no answer within 50ms (last round trip 82ms)"},
		{LateError{50 * ms, 441 * time.Microsecond}, "no answer within 50ms (last round trip 441µs)"},
	} {
		if got := row.err.Error(); got != row.want {
			t.Errorf("%q, want %q", got, row.want)
		}
	}
}

func TestTheFarthestMasterIsTheLastThatAQuorumNeeds(t *testing.T) {
	for _, row := range []struct {
		away     []time.Duration
		farthest time.Duration
		up       int
	}{
		{[]time.Duration{5, 1, 0, 3, 9}, 5, 4},
		{[]time.Duration{0, 7, 0, 2, 0}, 7, 2}, // fewer than a quorum: the farthest of all
		{[]time.Duration{4, 4, 4}, 4, 3},
		{[]time.Duration{0, 0, 0}, 0, 0},
	} {
		g := Distances{make([]*master.Master, len(row.away))}
		next := 0
		got, up := g.farthest(func(*master.Master) time.Duration {
			next++
			return row.away[next-1]
		})
		if got != row.farthest || up != row.up {
			t.Errorf("%v away: the farthest is %v, of %d; want %v, of %d", row.away, got, up, row.farthest, row.up)
		}
	}
}
