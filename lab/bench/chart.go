package main

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// The chart's measures, in pixels.
const (
	panelWidth  = 460
	panelGap    = 28
	labelWidth  = 150
	valueWidth  = 112
	barHeight   = 15
	barPitch    = 21
	headHeight  = 44
	chartMargin = 16
)

// panel is one workload's bars.
type panel struct {
	workload, title, note string
	metric                metric
	scale                 float64 // what the metric is divided by
	unit                  string
}

func panels() []panel {
	return []panel{
		{idTripNames(5), "Lock + Unlock, round trip 5 ms", "in round trips, shorter is better", trips, 1, ""},
		{idOne, "Lock + Unlock on loopback, one caller", "median µs, shorter is better", middle, 1, " µs"},
		{idHandover5, "Leaving to the waiter's entering, 5 ms", "two processes, in round trips, shorter is better", handoverTrips, 1, ""},
		{id512, "512 callers, 512 names", "locks per second, longer is better", perSecond, 1, "/s"},
		{idFrozen1, "One of five masters frozen", "lock + unlock, median ms, shorter is better", middle, 1000, " ms"},
		{idKilled2, "Two of five masters dead", "lock + unlock, median ms, shorter is better", middle, 1000, " ms"},
		{idGoroutine, "64 goroutines, one name", "locks per second, longer is better", perSecond, 1, "/s"},
		{idFree(10), "A free lock, three contenders", "each near to other masters, median ms, shorter is better", firstEntry, 1, " ms"},
		{id16, "16 processes, one name: fairness", "Jain's index, 1 is best", fairness, 1, ""},
		{id16, "16 processes, one name: longest wait", "ms, shorter is better", longestWait, 1, " ms"},
	}
}

// bar is one subject's.
type bar struct {
	label string
	value float64
	note  string // beside the value
	hung  bool   // in all repetitions: there is no value
	ours  bool
}

// chart returns results.svg. Its colours suit white and dark pages: where
// a viewer does not tell which one it has, the greys between are used.
func chart(r *results) string {
	var body strings.Builder
	columnY := [2]int{chartMargin, chartMargin}
	drawn := 0
	for _, p := range panels() {
		bars := r.bars(p)
		if len(bars) == 0 {
			continue
		}
		column := drawn % 2
		if column == 0 { // a row begins below the longer of the last two
			y := max(columnY[0], columnY[1])
			columnY = [2]int{y, y}
		}
		x := chartMargin + column*(panelWidth+panelGap)
		p.draw(&body, bars, x, columnY[column], r.plan.bound.String())
		columnY[column] += headHeight + len(bars)*barPitch + panelGap
		drawn++
	}
	width := 2*panelWidth + panelGap + 2*chartMargin
	height := max(columnY[0], columnY[1])
	caption := fmt.Sprintf("Five masters and all clients on %d cores, medians of interleaved repetitions: lab/bench/RESULTS.md", r.machine.cores)
	return fmt.Sprintf(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" role="img" aria-label="Benchmark results">
%s%s<text class="n" x="%d" y="%d">%s</text>
</svg>
`, width, height+10, width, height+10, style, body.String(), chartMargin, height-6, html.EscapeString(caption))
}

const style = `<style>
text { font: 12px system-ui, -apple-system, "Segoe UI", "DejaVu Sans", sans-serif; fill: #7a828c }
.t { font-weight: 600; font-size: 14px }
.n { font-size: 11px }
.o { font-weight: 600 }
.bar { fill: #9aa4b0 }
.our { fill: #e0533d }
.hung { fill: none; stroke: #9aa4b0; stroke-dasharray: 4 3 }
@media (prefers-color-scheme: light) { text { fill: #3f4750 } }
@media (prefers-color-scheme: dark) { text { fill: #c3cad2 } .bar { fill: #6b7683 } .hung { stroke: #8b96a3 } }
</style>
`

// bars returns a panel's bars, those of rows that have a figure. bsm/redislock
// has one master only, and does not stand beside the others.
func (r *results) bars(p panel) []bar {
	var bars []bar
	for _, s := range r.subjects {
		if s.single {
			continue
		}
		hangs, of := r.hangs(p.workload, s.id)
		v, ok := r.value(p.workload, s.id, p.metric)
		if !ok && hangs == 0 {
			continue
		}
		b := bar{label: s.short, ours: s.id == oursID, value: v / p.scale, hung: !ok}
		if hangs > 0 && ok {
			b.note = fmt.Sprintf(", hung %d of %d", hangs, of)
		}
		bars = append(bars, b)
	}
	return bars
}

func (p panel) draw(out *strings.Builder, bars []bar, x, y int, bound string) {
	fmt.Fprintf(out, "<text class=\"t\" x=\"%d\" y=\"%d\">%s</text>\n", x, y+14, html.EscapeString(p.title))
	fmt.Fprintf(out, "<text class=\"n\" x=\"%d\" y=\"%d\">%s</text>\n", x, y+31, html.EscapeString(p.note))
	longest := 0.0
	for _, b := range bars {
		if !b.hung {
			longest = math.Max(longest, b.value)
		}
	}
	const room = panelWidth - labelWidth - valueWidth
	for i, b := range bars {
		top := y + headHeight + i*barPitch
		class, weight, text := "bar", "", number(b.value)+p.unit+b.note
		if b.ours {
			class, weight = "our", " class=\"o\""
		}
		length := float64(room)
		switch {
		case b.hung:
			class, text = "hung", "never within "+bound
		case longest > 0:
			length = math.Max(1.5, b.value/longest*room)
		}
		baseline := top + barHeight - 3
		fmt.Fprintf(out, "<text%s x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", weight, x+labelWidth-8, baseline, html.EscapeString(b.label))
		fmt.Fprintf(out, "<rect class=\"%s\" x=\"%d\" y=\"%d\" width=\"%.1f\" height=\"%d\" rx=\"2\"/>", class, x+labelWidth, top, length, barHeight)
		fmt.Fprintf(out, "<text%s x=\"%.1f\" y=\"%d\">%s</text>\n", weight, float64(x+labelWidth)+length+6, baseline, html.EscapeString(text))
	}
}
