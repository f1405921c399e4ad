package waits

import (
	"testing"
	"time"
)

// A claim that has joined its queue in the last 50 ms is not told that it becomes near. So it must expect that.
func TestAClaimThatIsNotToldThatItIsNearExpectsIt(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		turn  time.Duration
		ahead int
		want  bool
	}{
		{0, 25, true}, {0, 26, false}, // no turn is known
		{40 * ms, 15, true}, {40 * ms, 1000, true},
		{60 * ms, 4, true},      // it becomes near after 24 ms
		{60 * ms, 1000, true},   // after 60 ms, of turns that differ
		{120 * ms, 3, true},     // after 30 ms
		{120 * ms, 1000, false}, // after 120 ms
		{600 * ms, 3, false},    // after 150 ms
		{7 * 24 * time.Hour, 1 << 20, false},
	} {
		if got := nearSoon(row.turn, row.ahead); got != row.want {
			t.Errorf("nearSoon(%v, %d) = %v, want %v", row.turn, row.ahead, got, row.want)
		}
	}
}
