package main

import (
	"math"
	"testing"
	"time"

	"github.com/redlock-go/redlock/lab/internal/measure"
)

func TestMedian(t *testing.T) {
	for _, row := range []struct {
		name   string
		values []float64
		want   float64
	}{
		{"of none is 0", nil, 0},
		{"of one is it", []float64{7}, 7},
		{"of three is the middle one, whatever their order", []float64{9, 1, 2}, 2},
		{"of four is the mean of the middle two", []float64{4, 1, 3, 100}, 3.5},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := median(row.values); got != row.want {
				t.Errorf("median(%v) = %v, want %v", row.values, got, row.want)
			}
		})
	}
	values := []float64{3, 1, 2}
	median(values)
	if values[0] != 3 {
		t.Error("median sorts its argument")
	}
}

func TestQuantile(t *testing.T) {
	var hundred []time.Duration
	for i := range 100 {
		hundred = append(hundred, time.Duration(i+1))
	}
	for _, row := range []struct {
		name   string
		sorted []time.Duration
		q      float64
		want   time.Duration
	}{
		{"of none is 0", nil, 0.5, 0},
		{"of one is it", hundred[:1], 0.99, 1},
		{"99 % of a hundred is the 99th", hundred, 0.99, 99},
		{"half of a hundred is the 50th", hundred, 0.5, 50},
		{"half of three is the second", hundred[:3], 0.5, 2},
		{"all is the last", hundred, 1, 100},
		{"99 % of ten is the last", hundred[:10], 0.99, 10},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := quantile(row.sorted, row.q); got != row.want {
				t.Errorf("quantile(%v) = %v, want %v", row.q, got, row.want)
			}
		})
	}
}

func TestJain(t *testing.T) {
	for _, row := range []struct {
		name   string
		shares []float64
		want   float64
	}{
		{"equal shares are fair", []float64{5, 5, 5, 5}, 1},
		{"one of four having all is a quarter", []float64{0, 8, 0, 0}, 0.25},
		{"a few", []float64{1, 2, 3}, 36.0 / 42},
		{"nobody having anything is 0", []float64{0, 0}, 0},
		{"nobody is 0", nil, 0},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := jain(row.shares); math.Abs(got-row.want) > 1e-12 {
				t.Errorf("jain(%v) = %v, want %v", row.shares, got, row.want)
			}
		})
	}
}

func TestViolations(t *testing.T) {
	for _, row := range []struct {
		name  string
		stays []interval
		want  int
	}{
		{"none without stays", nil, 0},
		{"none where each enters after the last has left", []interval{{20, 30}, {0, 10}, {11, 19}}, 0},
		{"none where one enters in the moment of leaving", []interval{{0, 10}, {10, 20}}, 0},
		{"one where two overlap", []interval{{0, 10}, {9, 20}}, 1},
		{"one for each who enters during a long stay", []interval{{0, 100}, {10, 20}, {30, 40}, {100, 110}}, 2},
		{"a short stay does not hide the long one before it", []interval{{0, 100}, {1, 2}, {50, 60}}, 2},
		{"one where two enter at once", []interval{{5, 6}, {5, 7}}, 1},
		{"an empty stay inside another is one", []interval{{0, 10}, {5, 5}}, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got := violations(row.stays); got != row.want {
				t.Errorf("violations(%v) = %d, want %d", row.stays, got, row.want)
			}
		})
	}
}

func TestIdleIsWhenNobodyHoldsThoughSomebodyWaits(t *testing.T) {
	for _, row := range []struct {
		name  string
		turns []turn
		want  time.Duration
		most  time.Duration
	}{
		{"not without anybody", nil, 0, 0},
		{"from asking to entering", []turn{{10, interval{15, 20}}}, 5, 5},
		{"not while another holds", []turn{{1, interval{1, 50}}, {10, interval{55, 60}}}, 5, 5},
		{"once, however many wait", []turn{{10, interval{20, 30}}, {10, interval{32, 40}}}, 12, 10},
		{"not while nobody waits", []turn{{10, interval{10, 20}}, {50, interval{50, 60}}}, 0, 0},
		{"up to the end, if the wait has none", []turn{{Asked: 90}}, 10, 10},
		{"not after the end", []turn{{95, interval{105, 110}}}, 5, 5},
		{"the longest does not end when another one asks", []turn{{10, interval{30, 40}}, {20, interval{43, 50}}}, 23, 20},
	} {
		t.Run(row.name, func(t *testing.T) {
			if got, most := idleTime(row.turns, 0, 100); got != row.want || most != row.most {
				t.Errorf("idleTime = %d, %d, want %d, %d", got, most, row.want, row.most)
			}
		})
	}
}

func TestQuorumthIsWhenAMajorityHasForgotten(t *testing.T) {
	if got := quorumth([]time.Duration{500, 0, 300, 0, 400}); got != 300 {
		t.Errorf("quorumth = %d, want 300", got)
	}
}

func TestNowIsTheMachinesClock(t *testing.T) {
	for range 1000 {
		before, got, after := measure.Clock(), now(), measure.Clock()
		if slack := int64(10 * time.Microsecond); got < before-slack || got > after+slack {
			t.Fatalf("now = %d, want between %d and %d", got, before, after)
		}
	}
}
