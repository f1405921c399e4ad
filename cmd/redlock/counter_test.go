package main

import (
	"os"
	"testing"
	"time"
)

func TestCounterCounts(t *testing.T) {
	c, err := newCounter(t.TempDir(), "n")
	if err != nil {
		t.Fatal(err)
	}
	for range 12 {
		if err := c.increment(0); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := c.read(); got != 12 || err != nil {
		t.Errorf("read = %d, %v, want 12", got, err)
	}
}

func TestCounterLosesWhatIsOverwritten(t *testing.T) {
	c, err := newCounter(t.TempDir(), "n")
	if err != nil {
		t.Fatal(err)
	}
	stale, _ := c.read()
	if err := c.increment(0); err != nil {
		t.Fatal(err)
	}
	if err := c.write(stale + 1); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.read(); got != 1 {
		t.Errorf("after two increments of the same 0 the counter shows %d, want 1", got)
	}
}

func TestCounterSaysWhatIsNoNumber(t *testing.T) {
	c := counter{t.TempDir() + "/n"}
	if err := os.WriteFile(c.path, []byte("x\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := c.read(); err == nil {
		t.Error("read of \"x\" returned no error")
	}
}

func TestDemoCountArithmetic(t *testing.T) {
	for _, tt := range []struct {
		name     string
		c        demoCount
		lost     int
		perSec   float64
		wantFail bool // as the outcome of the locked run
	}{
		{"all there", demoCount{tally{took: 2 * time.Second}, 1000, 1000}, 0, 500, false},
		{"some lost", demoCount{tally{took: time.Second}, 1000, 263}, 737, 1000, true},
		{"too many", demoCount{tally{took: time.Second}, 10, 11}, -1, 10, true},
		{"no time", demoCount{tally{}, 0, 0}, 0, 0, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.c.lost(); got != tt.lost {
				t.Errorf("lost() = %d, want %d", got, tt.lost)
			}
			if got := tt.c.perSecond(); got != tt.perSec {
				t.Errorf("perSecond() = %v, want %v", got, tt.perSec)
			}
			if err := verdict(demoResult{with: tt.c}); (err != nil) != tt.wantFail {
				t.Errorf("verdict = %v, want an error: %v", err, tt.wantFail)
			}
		})
	}
	if got := defaultDemo.expected(); got != 1000 {
		t.Errorf("the demo counts to %d, want 1000", got)
	}
}
