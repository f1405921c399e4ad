package clock

import (
	"testing"
	"time"
)

func TestSinceReturnsTheLongestTimeOfAllClocks(t *testing.T) {
	now := time.Now()
	second := now.Add(time.Second)
	start := At(now, now, time.Minute)
	for _, row := range []struct {
		name  string
		later Reading
		want  time.Duration
	}{
		{"all agree", At(second, second, time.Minute), time.Second},
		{"the wall clock was set forward", At(second, now.Add(time.Hour), time.Minute), time.Hour},
		{"the wall clock was set back", At(second, now.Add(-time.Hour), time.Minute), time.Second},
		{"the machine slept", At(second, second, time.Hour), time.Hour - time.Minute + time.Second},
		{"the boot clock was read a millisecond late", At(second, second, time.Minute+time.Millisecond), time.Second},
	} {
		if got := row.later.Since(start); got != row.want {
			t.Errorf("%s: Since = %v, want %v", row.name, got, row.want)
		}
	}
}

func TestPreemptionIsNotTakenForSleep(t *testing.T) {
	first := asleep()
	for range 10_000 {
		if got := asleep(); got-first >= jitter {
			t.Fatalf("asleep() = %v, then %v", first, got)
		}
	}
}
