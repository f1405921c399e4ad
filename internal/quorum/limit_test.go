package quorum

import (
	"testing"
	"time"
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
