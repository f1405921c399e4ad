package main

import (
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestStatusSaysThatALockMayBeKept(t *testing.T) {
	const random = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT"
	for _, row := range []struct {
		token     string
		masters   int
		cell, has string
	}{
		{random + "@web", 3, "web", "is held by web,"},
		{wire.KeptBy(random, random+"@web"), 3, "web (may keep it)", "is held, or kept while nobody holds it, by web,"},
		{wire.KeptBy(random, random+"@web"), 1, "web (no majority)", "is not held;"},
	} {
		l := lockOfNames{name: "stock", Holding: holding.Holding{Holder: wire.Holder{Token: row.token}, Masters: row.masters, Need: 2}}
		if got := l.cells(3)[1]; got != row.cell {
			t.Errorf("the owner of %s is shown as %q, want %q", row.token, got, row.cell)
		}
		if got := l.sentence(3); !strings.Contains(got, row.has) {
			t.Errorf("the sentence about %s is %q, want %q in it", row.token, got, row.has)
		}
	}
}

func TestStatusNamesSomeReaders(t *testing.T) {
	for _, row := range []struct {
		readers []string
		want    string
	}{
		{nil, "0 reading"}, // a turn
		{[]string{"a"}, "1 reading: a"},
		{[]string{"a", "", "c"}, "3 reading: a, unknown, c"},
		{[]string{"a", "b", "c", "d"}, "4 reading: a, b, c, …"},
	} {
		l := lockOfNames{Holding: holding.Holding{Holder: wire.Holder{Token: wire.ReadersMarker}, Readers: row.readers}}
		if got := l.owner(); got != row.want {
			t.Errorf("owner() of %q = %q, want %q", row.readers, got, row.want)
		}
	}
}
