package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cenkalti/backoff/v4"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// Whatever the TTL, the drift and the round trip are, a client that waits enters soon after the release.
func TestAWaitingClientEntersWhateverTTLDriftAndDistanceAre(t *testing.T) {
	for _, row := range []struct {
		ttl    time.Duration
		factor float64
		trip   time.Duration
	}{
		{400 * time.Millisecond, 0.5, 2 * time.Millisecond},
		{450 * time.Millisecond, 0.01, 60 * time.Millisecond},
		{10 * time.Second, 0.99, 0},
		{10 * time.Second, 0.5, 24 * time.Millisecond},
		{10 * time.Second, 0.01, 110 * time.Millisecond},
		{time.Minute, 0.9, 24 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("TTL %v, drift %v, round trip %v", row.ttl, row.factor, row.trip), func(t *testing.T) {
			opts := &redlock.Options{DriftFactor: row.factor, NodeTimeout: 2*row.trip + time.Millisecond, LockOptions: redlock.LockOptions{TTL: row.ttl}}
			drift := time.Duration(row.factor*float64(row.ttl)) + 2*time.Millisecond
			opts.LockOptions.RenewEvery = (row.ttl - drift) / 3
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				way := row.trip / 2
				far := ms.WithDelays(way, way, way)
				holder, waiter := far.Open(opts).Locker("a"), far.Open(opts).Locker("a")
				time.Sleep(2 * time.Second)
				for range 2 {
					take(holder)
					in := locktest.Enter(waiter)
					time.Sleep(time.Second)
					released := time.Now()
					holder.Unlock()
					entersWithin(t, in, released, 500*time.Millisecond+6*row.trip)
					waiter.Unlock()
				}
			})
		})
	}
}

// entersWithin fails t unless a client enters soon after a release.
func entersWithin(t *testing.T, in <-chan time.Time, released time.Time, most time.Duration) {
	t.Helper()
	select {
	case entered := <-in:
		if took := entered.Sub(released); took > most {
			t.Errorf("the client entered %v after the release, want %v at most", took, most)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the client has not entered 20 s after the release")
	}
}

// A network that becomes slow during a wait makes the grants of that wait longer.
func TestAWaitDuringWhichTheNetworkBecomesSlowEnds(t *testing.T) {
	for _, way := range []time.Duration{300 * time.Millisecond, 450 * time.Millisecond, 900 * time.Millisecond} {
		t.Run(way.String(), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				opts := &redlock.Options{NodeTimeout: 2 * time.Second, DialTimeout: 4 * time.Second, LockOptions: redlock.LockOptions{TTL: 20 * time.Second}}
				holder, waiter := connected(t, ms, opts).Locker("a"), connected(t, ms, opts).Locker("a")
				take(holder)
				in := locktest.Enter(waiter)
				queued(t, ms, "a", 1)
				for i := range 3 {
					ms.Master(i).Delay(way)
				}
				time.Sleep(time.Second)
				released := time.Now()
				holder.Unlock()
				entersWithin(t, in, released, 4*way)
				waiter.Unlock()
			})
		})
	}
}

// A claim waits for a message, and polls since messages get lost. Options.NewBackOff spaces attempts, and says when a wait
// stops.
func TestAClaimPollsAtItsOwnPace(t *testing.T) {
	for _, row := range []struct {
		name     string
		schedule func() redlock.BackOff
		stops    time.Duration // after how long LockContext returns; 0: it does not
	}{
		{"default", nil, 0},
		{"seldom", func() redlock.BackOff { return backoff.NewConstantBackOff(5 * time.Second) }, 0},
		{"often", func() redlock.BackOff { return backoff.NewConstantBackOff(time.Millisecond) }, 0},
		{"ten seconds", func() redlock.BackOff { return backoff.WithMaxRetries(backoff.NewConstantBackOff(time.Second), 10) }, 10 * time.Second},
		{"never", func() redlock.BackOff { return &backoff.StopBackOff{} }, time.Nanosecond},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				take(connected(t, ms, nil).Locker("a"))
				c := connected(t, ms, &redlock.Options{NewBackOff: row.schedule})
				ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
				defer cancel()
				began, before := time.Now(), polls(ms.Master(0))
				err := c.Locker("a").LockContext(ctx)
				took := time.Since(began)
				switch {
				case !errors.Is(err, redlock.ErrHeld):
					t.Errorf("LockContext = %v, want it to be held", err)
				case row.stops == 0 && took != 15*time.Second, row.stops > 0 && (took < row.stops-1 || took > row.stops+150*time.Millisecond):
					t.Errorf("LockContext returned after %v, want %v (0: with its context)", took, row.stops)
				}
				want := int(took / (100 * time.Millisecond))
				if n := polls(ms.Master(0)) - before; n < want*9/10 || n > want*11/10 {
					t.Errorf("%d polls in %v, want about %d", n, took, want)
				}
			})
		})
	}
}
