package main

import (
	"strings"
	"testing"
)

func TestARunRepeatsBitForBit(t *testing.T) {
	p, err := load(t.Context(), ".", "build", "./testdata/program")
	if err != nil {
		t.Fatal(err)
	}
	defer p.close()
	first := p.run(t.Context(), 1, "program")
	if first.err != nil || len(first.text) < 500 {
		t.Fatalf("the program failed: %v\n%s", first.err, first.text)
	}
	for range 5 {
		if again := p.run(t.Context(), 1, "program"); again != first {
			t.Errorf("the second run differs:\n%s\n%s", first.text, again.text)
		}
	}
	if other := p.run(t.Context(), 2, "program"); other.digest() == first.digest() {
		t.Error("another schedule gives the same output")
	}
	if failed := p.run(t.Context(), 1, "program", "fail"); failed.err == nil || !strings.HasPrefix(failed.String(), "FAILED (") {
		t.Errorf("a program that exits with 3: %v", failed)
	}
}

func TestBetween(t *testing.T) {
	for s, want := range map[string][2]int64{"7": {7, 7}, "0-99": {0, 99}} {
		if a, b, err := between("seeds", s); err != nil || a != want[0] || b != want[1] {
			t.Errorf("between(%q) = %d, %d, %v", s, a, b, err)
		}
	}
	for _, s := range []string{"", "-1", "9-1", "a", "1-b"} {
		if _, _, err := between("seeds", s); err == nil {
			t.Errorf("between(%q) has no error", s)
		}
	}
}
