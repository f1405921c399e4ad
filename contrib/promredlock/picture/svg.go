package main

import (
	"fmt"
	"html"
	"io"
	"maps"
	"math"
	"slices"
	"strings"
	"time"
)

// The size of a unit of the dashboard's grid, in pixels, and the margins of a panel.
const (
	unitX, unitY              = 42, 26
	left, right, top, bottom  = 52, 12, 46, 22
	header                    = 40
	colors                    = "#3274d9 #e0752d #3f9e4d #c4162a #8f3bb8 #6e6e6e"
	gridColor, textColor      = "#dddddd", "#333333"
	rowsOfGrid, columnsOfGrid = 24, 24
)

// draw writes the panels.
func draw(out io.Writer, d dashboard, samples []sample) error {
	width, height := columnsOfGrid*unitX, rowsOfGrid*unitY+header
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="11" fill="%s">`+"\n", width, height, textColor)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#ffffff"/>`+"\n", width, height)
	fmt.Fprintf(&b, `<text x="10" y="16">The panels of dashboard.json, drawn by picture/main.go and not by Grafana, from the metrics of a run: 3 clients, 5 masters.</text>`+"\n")
	fmt.Fprintf(&b, `<text x="10" y="31">%.0f to %.0f s: one master is frozen. %.0f s: three are killed; at %.0f s they come back without data, and vote 12 s later.</text>`+"\n",
		freezeTime.Seconds(), thawTime.Seconds(), killTime.Seconds(), backTime.Seconds())
	for _, p := range d.Panels {
		lines := make(map[string][]float64)
		for _, t := range p.Targets {
			values, err := evaluate(t.Expr, samples)
			if err != nil {
				return err
			}
			for label, line := range values {
				name := t.LegendFormat
				if label != "" {
					name = label
				}
				lines[name] = line
			}
		}
		fmt.Fprintf(&b, `<g transform="translate(%d %d)">`+"\n", p.GridPos.X*unitX, p.GridPos.Y*unitY+header)
		panel(&b, p.Title, float64(p.GridPos.W*unitX), float64(p.GridPos.H*unitY), lines, len(samples))
		b.WriteString("</g>\n")
	}
	b.WriteString("</svg>\n")
	_, err := io.WriteString(out, b.String())
	return err
}

// panel draws one panel of this size.
func panel(b *strings.Builder, title string, width, height float64, lines map[string][]float64, n int) {
	most := 0.0
	for _, line := range lines {
		for _, v := range line {
			if !math.IsNaN(v) {
				most = max(most, v)
			}
		}
	}
	step := tick(most)
	most = max(step, math.Ceil(most/step)*step)
	x := func(i int) float64 { return left + (width-left-right)*float64(i)/float64(max(1, n-1)) }
	y := func(v float64) float64 { return top + (height-top-bottom)*(1-v/most) }
	fmt.Fprintf(b, `<text x="%d" y="16" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(title))
	for v := 0.0; v <= most*1.001; v += step {
		fmt.Fprintf(b, `<path d="M%d %.1fH%.0f" stroke="%s"/><text x="%d" y="%.1f" text-anchor="end">%.4g</text>`+"\n", left, y(v), width-right, gridColor, left-5, y(v)+4, v)
	}
	for i := 0; i < n; i += 30 {
		fmt.Fprintf(b, `<text x="%.1f" y="%.0f" text-anchor="middle">%s</text>`+"\n", x(i), height-6, time.Duration(i)*time.Second)
	}
	at, palette := float64(left), strings.Fields(colors)
	for c, name := range slices.Sorted(maps.Keys(lines)) {
		color := palette[c%len(palette)]
		fmt.Fprintf(b, `<text x="%.0f" y="32" fill="%s">%s</text>`+"\n", at, color, html.EscapeString(name))
		at += float64(7*len(name)) + 12
		path, move := "", "M"
		for i, v := range lines[name] {
			if math.IsNaN(v) {
				move = "M"
				continue
			}
			path += fmt.Sprintf("%s%.1f %.1f", move, x(i), y(v))
			move = "L"
		}
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.5"/>`+"\n", path, color)
	}
}

// tick returns a round step such that about four of them reach most.
func tick(most float64) float64 {
	if most <= 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most/4)))
	for _, f := range []float64{1, 2, 5, 10} {
		if f*step*5 >= most {
			return f * step
		}
	}
	return 10 * step
}
