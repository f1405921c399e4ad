package main

import (
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"

	dto "github.com/prometheus/client_model/go"
)

// A sample has the values of all series at one moment, each under its metric and its labels.
type sample map[series]float64

// A series is a metric and the values of the labels that the dashboard groups by.
type series struct {
	metric, le, state, outcome string
}

// flatten returns what a scrape would have.
func flatten(families []*dto.MetricFamily) sample {
	all := make(sample)
	for _, f := range families {
		for _, m := range f.Metric {
			s := series{metric: f.GetName()}
			for _, l := range m.Label {
				switch l.GetName() {
				case "state":
					s.state = l.GetValue()
				case "outcome":
					s.outcome = l.GetValue()
				}
			}
			switch {
			case m.Histogram != nil:
				count := s
				count.metric += "_count"
				all[count] += float64(m.Histogram.GetSampleCount())
				s.metric += "_bucket"
				for _, b := range m.Histogram.Bucket {
					s.le = strconv.FormatFloat(b.GetUpperBound(), 'g', -1, 64)
					all[s] += float64(b.GetCumulativeCount())
				}
				s.le = "+Inf"
				all[s] += float64(m.Histogram.GetSampleCount())
			case m.Counter != nil:
				all[s] += m.Counter.GetValue()
			case m.Gauge != nil:
				all[s] += m.Gauge.GetValue()
			}
		}
	}
	return all
}

// rateWindow is $__rate_interval in samples, one a second.
const rateWindow = 5

// expression matches the expressions of the dashboard: a sum, maybe of rates, maybe by a label, and maybe a quantile of it.
var expression = regexp.MustCompile(`^(?:histogram_quantile\(([0-9.]+), )?sum(?: by \((\w+)\))? ?\((rate\()?(\w+)(?:\[\$__rate_interval\]\))?\)\)?$`)

// evaluate returns the values of an expression at each sample, by the label that it is grouped by.
func evaluate(expr string, samples []sample) (map[string][]float64, error) {
	m := expression.FindStringSubmatch(expr)
	if m == nil {
		return nil, fmt.Errorf("this program does not know the expression %s", expr)
	}
	quantile, by, isRate, metric := m[1], m[2], m[3] != "", m[4]
	lines := make(map[string][]float64)
	for i, now := range samples {
		sums := make(map[string]float64)
		for s, value := range now {
			if s.metric != metric {
				continue
			}
			if isRate {
				from := max(0, i-rateWindow)
				value = (value - samples[from][s]) / float64(max(1, i-from))
			}
			sums[map[string]string{"": "", "le": s.le, "state": s.state, "outcome": s.outcome}[by]] += value
		}
		if quantile != "" {
			q, err := strconv.ParseFloat(quantile, 64)
			if err != nil {
				return nil, err
			}
			sums = map[string]float64{"": quantileOf(q, sums)}
		}
		for label, value := range sums {
			if lines[label] == nil {
				lines[label] = slices.Repeat([]float64{math.NaN()}, len(samples))
			}
			lines[label][i] = value
		}
	}
	return lines, nil
}

// quantileOf is histogram_quantile: it interpolates within a bucket.
func quantileOf(q float64, buckets map[string]float64) float64 {
	type bucket struct{ le, count float64 }
	var all []bucket
	for le, count := range buckets {
		bound, err := strconv.ParseFloat(strings.Replace(le, "+Inf", "Inf", 1), 64)
		if err == nil {
			all = append(all, bucket{bound, count})
		}
	}
	sort.Slice(all, func(i, j int) bool { return all[i].le < all[j].le })
	if len(all) < 2 || all[len(all)-1].count == 0 {
		return math.NaN()
	}
	rank := q * all[len(all)-1].count
	lower := bucket{}
	for _, b := range all {
		if b.count >= rank {
			if math.IsInf(b.le, 1) || b.count == lower.count {
				return lower.le
			}
			return lower.le + (b.le-lower.le)*(rank-lower.count)/(b.count-lower.count)
		}
		lower = b
	}
	return lower.le
}
