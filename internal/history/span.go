package history

import (
	"cmp"
	"slices"
)

// A Span is a time between two moments. One that has not ended has To = 0.
type Span struct {
	From int64 // as of Now
	To   int64 // as of Now
}

// Covered returns how much of a time the spans cover together.
func Covered(within Span, spans []Span) (sum int64) {
	slices.SortFunc(spans, func(a, b Span) int { return cmp.Compare(a.From, b.From) })
	at := within.From
	for _, s := range spans {
		to := s.To
		if to == 0 {
			to = within.To
		}
		to = min(to, within.To)
		if from := max(s.From, at); from < to {
			sum += to - from
			at = to
		}
	}
	return sum
}
