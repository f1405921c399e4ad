package redlocktest_test

import (
	"context"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// The example of the package comment, with each fault of one master.
func TestOneValueIsSharedWhateverTheFaultOfOneMaster(t *testing.T) {
	total := 0
	for _, row := range []struct {
		name  string
		fault func(m *redlocktest.Master)
	}{
		{"none", func(*redlocktest.Master) {}},
		{"a dead master", (*redlocktest.Master).Stop},
		{"a frozen master", (*redlocktest.Master).Freeze},
		{"a slow master", func(m *redlocktest.Master) { m.Delay(time.Second) }},
		{"a failing master", func(m *redlocktest.Master) { m.Fail("LOADING") }},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				masters := redlocktest.StartN(t, 3)
				one, other := masters.Open(nil), masters.Open(nil)
				mu := masters.Open(nil).Locker("page")
				mu.Lock()
				rendered := 0
				render := func(context.Context) ([]byte, error) {
					rendered++
					time.Sleep(100 * time.Millisecond)
					return []byte("page"), nil
				}
				done := make(chan bool)
				for _, c := range []*redlock.Client{one, other} {
					go func() {
						page, shared, err := c.SingleFlight(t.Context(), "page", render)
						if err != nil || string(page) != "page" {
							t.Errorf("SingleFlight = %q, %v", page, err)
						}
						done <- shared
					}()
				}
				time.Sleep(time.Second) // both wait
				row.fault(masters.Master(2))
				mu.Unlock()
				// A release leaves the lock open now and then. Then the two may get in each other's way.
				first, second := <-done, <-done
				if shared := first != second; shared != (rendered == 1) || rendered > 2 {
					t.Errorf("rendered %d times, one value shared: %v", rendered, shared)
				}
				total += rendered
			})
		})
	}
	if total > 8 {
		t.Errorf("5 values were rendered %d times", total)
	}
}
