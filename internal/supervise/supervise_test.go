package supervise

import (
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Go initialises what this package imports before it.
func TestASupervisorImportsLittle(t *testing.T) {
	files, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".go") || strings.HasSuffix(f.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), f.Name(), nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range parsed.Imports {
			if path, _ := strconv.Unquote(spec.Path.Value); !slices.Contains([]string{"io", "os", "os/signal", "strconv", "syscall"}, path) {
				t.Errorf("%s imports %s, which delays the start of a supervisor", f.Name(), path)
			}
		}
	}
}

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
