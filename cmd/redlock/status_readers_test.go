package main

import (
	"testing"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/wire"
)

func TestStatusNamesSomeReaders(t *testing.T) {
	const id = "Q7wq2Jm0cX9_-aZbYcXdWeVfUgT"
	for _, row := range []struct {
		readers []string
		want    string
	}{
		{nil, "0 reading"}, // a turn
		{[]string{id + "@a"}, "1 reading: a"},
		{[]string{id + "@a", "?", id + "@c"}, "3 reading: a, unknown, c"},
		{[]string{id + "@a", id + "@b", id + "@c", id + "@d"}, "4 reading: a, b, c, …"},
	} {
		l := lockOfNames{Holding: holding.Holding{Token: wire.ReadersMarker, Readers: row.readers}}
		if got := l.owner(); got != row.want {
			t.Errorf("owner() of %q = %q, want %q", row.readers, got, row.want)
		}
	}
}
