package redlock_test

import (
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/locktest"
)

func TestMain(m *testing.M) { locktest.Main(m) }

// The default of package backoff stops after 15 minutes.
func TestTheDefaultScheduleNeverStops(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		start, delays := time.Now(), redlock.NewBackOff()
		for time.Since(start) < 16*time.Minute {
			d := delays.NextBackOff()
			if d <= 0 {
				t.Fatalf("the schedule stops after %v", time.Since(start))
			}
			time.Sleep(d)
		}
	})
}
