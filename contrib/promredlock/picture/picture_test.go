package main

import (
	"math"
	"strings"
	"testing"
)

func TestTheDashboardsExpressionsAreEvaluated(t *testing.T) {
	bucket := func(le string) series { return series{metric: "m_bucket", le: le} }
	samples := []sample{
		{{metric: "n", state: "up"}: 2, {metric: "n", state: "down"}: 1, bucket("1"): 0, bucket("2"): 0, bucket("+Inf"): 0},
		{{metric: "n", state: "up"}: 4, {metric: "n", state: "down"}: 1, bucket("1"): 5, bucket("2"): 10, bucket("+Inf"): 10},
	}
	for _, tt := range []struct {
		expr, label string
		want        float64 // at the second sample
	}{
		{"sum(n)", "", 5},
		{"sum by (state) (n)", "up", 4},
		{"sum by (state) (rate(n[$__rate_interval]))", "up", 2},
		{"sum(rate(n[$__rate_interval]))", "", 2},
		{"histogram_quantile(0.5, sum by (le) (rate(m_bucket[$__rate_interval])))", "", 1},
		{"histogram_quantile(0.99, sum by (le) (rate(m_bucket[$__rate_interval])))", "", 1.98},
	} {
		lines, err := evaluate(tt.expr, samples)
		if err != nil || len(lines[tt.label]) != 2 || math.Abs(lines[tt.label][1]-tt.want) > 1e-9 {
			t.Errorf("%s = %v, %v, want %g at last", tt.expr, lines, err, tt.want)
		}
	}
	if _, err := evaluate("avg(n)", samples); err == nil {
		t.Error("an unknown expression was evaluated")
	}
}

func TestEveryPanelOfTheDashboardIsDrawn(t *testing.T) {
	d, err := readDashboard("../dashboard.json")
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	if err := draw(&b, d, []sample{{}, {}}); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(b.String(), `font-weight="bold"`); n != len(d.Panels) || n == 0 {
		t.Errorf("%d panels, want %d", n, len(d.Panels))
	}
}
