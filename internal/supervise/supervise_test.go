package supervise

import (
	"slices"
	"strings"
	"testing"
)

func TestASupervisorKillsWhatWasAddedUnlessTheFirstProcessEndsInOrder(t *testing.T) {
	for _, row := range []struct {
		name   string
		orders []string
		killed []int
		left   string
	}{
		{"nothing was added", nil, nil, ""},
		{"a group", []string{Add(-7)}, []int{-7}, ""},
		{"two processes, one of which has ended", []string{Add(7), Add(8), Drop(7)}, []int{8}, ""},
		{"a process that was added again", []string{Add(7), Drop(7), Add(7)}, []int{7}, ""},
		{"the end in order", []string{Add(7), Leave("keys"), End}, nil, ""},
		{"something is left to do", []string{Leave(`{"a": "b c"}`), Add(7)}, []int{7}, `{"a": "b c"}`},
		{"a long text", []string{Leave(strings.Repeat("x", 1<<20)), Add(7)}, []int{7}, strings.Repeat("x", 1<<20)},
		{"an order that was cut off", []string{Add(7), "d7"}, []int{7}, ""},
		{"a strange order", []string{"\n", "stop\n", Add(7)}, []int{7}, ""},
	} {
		var killed []int
		left := obey(strings.Join(row.orders, ""), func(id int) { killed = append(killed, id) })
		if !slices.Equal(killed, row.killed) || left != row.left {
			t.Errorf("%s: %v are killed, %.20q is left, want %v, %.20q", row.name, killed, left, row.killed, row.left)
		}
	}
}
