package turns

import (
	"testing"
	"time"
)

func TestReleasesAreLeftOpenAsOftenAsTheGapIsShort(t *testing.T) {
	const draws = 80_000
	for _, row := range []struct {
		name     string
		crowded  bool
		held     time.Duration
		distance time.Duration
		oneIn    int
	}{
		{"a short hold near the masters", false, openHold, openTrip, openOneInShort},
		{"a long hold", false, openHold + 1, openTrip, openOneIn},
		{"far from the masters", false, openHold, openTrip + 1, openOneIn},
		{"a crowd", true, openHold, openTrip, openOneInCrowd},
	} {
		open, asked := 0, 0
		for range draws {
			if DrawOpen(row.crowded, row.held, func() time.Duration { asked++; return row.distance }) {
				open++
			}
		}
		if want := draws / row.oneIn; open < want*9/10 || open > want*11/10 {
			t.Errorf("%s: %d of %d are left open, want about %d", row.name, open, draws, want)
		}
		if row.crowded && asked > 0 {
			t.Errorf("%s: the distance is computed %d times", row.name, asked)
		}
	}
}
