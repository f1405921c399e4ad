package main

import (
	"testing"

	"github.com/redlock-go/redlock/internal/holding"
	"github.com/redlock-go/redlock/internal/wire"
)

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
		l := lockOfNames{Holding: holding.Holding{Token: wire.ReadersMarker, Readers: row.readers}}
		if got := l.owner(); got != row.want {
			t.Errorf("owner() of %q = %q, want %q", row.readers, got, row.want)
		}
	}
}
