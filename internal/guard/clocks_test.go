package guard

import (
	"math"
	"testing"
	"time"
)

func TestJumpsAreAlikeIfTheyDifferByLittle(t *testing.T) {
	now := time.Now()
	for _, row := range []struct {
		a, b time.Duration
		want bool
	}{
		{time.Second, time.Second, true},
		{time.Second, time.Second + jumpsAlike, true},
		{time.Second, time.Second + jumpsAlike + 2, false},
		{-time.Second, time.Second, false},
		{math.MaxInt64, math.MaxInt64, true},
		{math.MaxInt64, -math.MaxInt64, false}, // the difference overflows
		{math.MinInt64, math.MaxInt64, false},
		{math.MinInt64, 1, false},
		{math.MaxInt64, -1, false},
	} {
		if got := (jump{by: row.a, at: now}).like(jump{by: row.b, at: now}); got != row.want {
			t.Errorf("jumps of %v and %v are alike: %t, want %t", row.a, row.b, got, row.want)
		}
		if got := (jump{by: row.b, at: now}).like(jump{by: row.a, at: now}); got != row.want {
			t.Errorf("jumps of %v and %v are alike: %t, want %t", row.b, row.a, got, row.want)
		}
	}
}
