package incarnation

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redlock-go/redlock/internal/clock"
)

// A world has a client and a master with clocks of their own.
type world struct {
	start  time.Time     // with a monotonic part
	now    time.Duration // true time
	rate   float64       // of the client's monotonic clock
	offset time.Duration // of the master's wall clock
	skew   float64       // of the rate of the master's clock
	wall   time.Duration // how far the client's wall clock is off
	asleep time.Duration
}

// client reads the client's clocks.
func (w *world) client() clock.Reading {
	mono := w.start.Add(time.Duration(float64(w.now)*(1+w.rate)) - w.asleep)
	return clock.At(mono, mono.Add(w.wall), w.asleep)
}

// master reads the master's clock.
func (w *world) master() time.Time {
	return time.UnixMilli(1_700_000_000_000).Add(w.offset + time.Duration(float64(w.now)*(1+w.skew)))
}

// look compares the clocks once. The request takes the time there, and the reply the time back.
func (w *world) look(d *Drift, there, back time.Duration) (jump time.Duration) {
	before := w.client()
	w.now += there
	now := w.master().Truncate(time.Millisecond)
	w.now += back
	return d.Compare(now, before, w.client())
}

func TestDriftDistinguishesJumpsFromDifferentRates(t *testing.T) {
	const ms = time.Millisecond
	for _, row := range []struct {
		name        string
		first, last time.Duration // that the request and the reply each take
		idle        time.Duration // between the comparisons
		rate, skew  float64
		change      func(w *world)
		least, most time.Duration // of the jump
	}{
		{name: "nothing happens", first: ms, last: ms, idle: time.Second},
		{name: "a step forward", first: ms, last: ms, idle: time.Second, change: func(w *world) { w.offset += 2 * time.Second }, least: 1990 * ms, most: 2000 * ms},
		{name: "a step back", first: ms, last: ms, idle: time.Second, change: func(w *world) { w.offset -= 2 * time.Second }, least: -2000 * ms, most: -1990 * ms},
		{name: "a step of two minutes", first: ms, last: ms, idle: time.Second, change: func(w *world) { w.offset += 2 * time.Minute }, least: 119 * time.Second, most: 120 * time.Second},
		{name: "a correction", first: ms, last: ms, idle: time.Second, change: func(w *world) { w.offset += 15 * ms }},
		{name: "a correction back", first: ms, last: ms, idle: time.Second, change: func(w *world) { w.offset -= 15 * ms }},
		{name: "just more than a correction", change: func(w *world) { w.offset += 23 * ms }, least: 20 * ms, most: 23 * ms},
		{name: "just more than a correction back", change: func(w *world) { w.offset -= 23 * ms }, least: -23 * ms, most: -20 * ms},
		{name: "a step smaller than the way is long", first: 300 * ms, last: 300 * ms, idle: time.Second, change: func(w *world) { w.offset += 250 * ms }},
		{name: "a step larger than the way is long", first: 300 * ms, last: 300 * ms, idle: time.Second, change: func(w *world) { w.offset += 700 * ms }, least: 50 * ms, most: 700 * ms},
		{name: "a long way first", first: 2 * time.Second, last: ms, idle: time.Second},
		{name: "a long way last", first: ms, last: 20 * time.Second, idle: time.Second},
		{name: "rates differ for an hour", first: ms, last: ms, idle: time.Hour, skew: 450e-6},
		{name: "rates differ for an hour, the other way", first: ms, last: ms, idle: time.Hour, rate: 450e-6},
		{name: "rates differ by more", first: ms, last: ms, idle: time.Hour, skew: 550e-6, least: 100 * ms, most: 181 * ms},
		{name: "a step in an hour", first: ms, last: ms, idle: time.Hour, change: func(w *world) { w.offset += 4 * time.Second }, least: 2 * time.Second, most: 4 * time.Second},
		{name: "the client's wall clock is set", first: ms, last: ms, idle: time.Second, change: func(w *world) { w.wall += time.Hour }},
		{name: "the machine has slept, and knows", first: ms, last: ms, idle: time.Second, change: func(w *world) { w.now += time.Hour; w.asleep += time.Hour }},
		{name: "the machine stood still, and does not know", first: ms, last: ms, idle: time.Second, change: func(w *world) { w.offset += time.Hour }, least: 3599 * time.Second, most: 3601 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			w := &world{start: time.Now(), rate: row.rate, skew: row.skew}
			var d Drift
			if jump := w.look(&d, row.first, row.first); jump != 0 {
				t.Errorf("the first look says %v, want 0", jump)
			}
			w.now += row.idle
			if row.change != nil {
				row.change(w)
			}
			jump := w.look(&d, row.last, row.last)
			if jump < row.least || jump > row.most {
				t.Errorf("Look = %v, want %v to %v", jump, row.least, row.most)
			}
			// Later comparisons show only later jumps.
			for range 3 {
				w.now += time.Second
				if jump := w.look(&d, ms, ms); jump != 0 {
					t.Errorf("Look afterwards = %v, want 0", jump)
				}
			}
		})
	}
}

// Many comparisons narrow down what one slow comparison leaves open.
func TestDriftIsNarrowedByQuickAnswers(t *testing.T) {
	w := &world{start: time.Now()}
	var d Drift
	for _, way := range []time.Duration{time.Second, time.Millisecond, time.Second} {
		if jump := w.look(&d, way, way); jump != 0 {
			t.Errorf("Look = %v, want 0", jump)
		}
	}
	w.offset += 300 * time.Millisecond
	if jump := w.look(&d, time.Millisecond, time.Millisecond); jump < 270*time.Millisecond {
		t.Errorf("Look after a step of 300ms = %v, want it to be seen", jump)
	}
}

// For any delays and rates, no jump is found where there is none. A jump that is long enough is found, and its size
// is known to within the delays.
func TestDriftIsRightForAnyNetworkDelays(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		way := func() time.Duration { return time.Duration(r.ExpFloat64() * float64(20*time.Millisecond)) }
		w := &world{start: time.Now(), rate: (r.Float64() - 0.5) * 400e-6, skew: (r.Float64() - 0.5) * 400e-6}
		w.offset = time.Duration(r.Int64N(int64(time.Hour)))
		var d Drift
		var trips []time.Duration // of the comparisons since the last jump
		for step := range 300 {
			w.now += time.Duration(r.ExpFloat64() * float64(time.Second))
			var by time.Duration
			if r.IntN(30) == 0 && len(trips) > 0 {
				by = time.Duration(r.Int64N(int64(20*time.Second))) - 10*time.Second
				w.offset += by
			}
			if r.IntN(50) == 0 {
				w.wall += time.Duration(r.Int64N(int64(time.Hour)))
			}
			there, back := way(), way()
			jump := w.look(&d, there, back)
			const blur = 30 * time.Millisecond // for corrections and for rounding
			least, now := there+back, there+back
			if len(trips) > 0 {
				least = trips[0]
				for _, trip := range trips {
					least = min(least, trip)
				}
			}
			sure := least + now + blur
			switch {
			case by == 0 && jump != 0:
				t.Fatalf("seed %d, step %d: Look = %v, want 0", seed, step, jump)
			case by.Abs() > sure && (jump == 0 || (jump-by).Abs() > sure):
				t.Fatalf("seed %d, step %d: Look = %v, want a jump of %v, give or take %v", seed, step, jump, by, sure)
			}
			if jump != 0 {
				trips = nil
			} else if by != 0 {
				return // from now on the estimate may be off by a little
			}
			trips = append(trips, there+back)
		}
	}
}
