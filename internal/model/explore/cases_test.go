package explore

import (
	"slices"
	"strings"
	"testing"
)

func TestAResultSaysWhatIsFoundAndInHowManySteps(t *testing.T) {
	m := filled(func(s *pots) string {
		if s[0] == 2 {
			return "both have two"
		}
		return ""
	})
	r := m.Explore().Result()
	if r.Broken != "both have two" || len(r.Trace) != 4 || r.States == 0 {
		t.Errorf("%v", r)
	}
	if text := r.String(); !strings.Contains(text, ": both have two in 4 steps\n\tpot ") {
		t.Errorf("text: %q", text)
	}
	if r := filled(never).Explore().Result(); r.String() != "10 states, 15 steps, 6 deep: all properties hold" {
		t.Errorf("%v", r)
	}
}

func TestABoundIsKeptAndReached(t *testing.T) {
	coins := func(s *pots) uint8 { return uint8(s[0] + s[1]) }
	for _, c := range []struct {
		bound          uint8
		broken, missed string
	}{{5, "too many", ""}, {6, "", ""}, {7, "", "the bound"}} {
		if r := filled(nil).Within(c.bound, coins, "too many"); r.Broken != c.broken || r.Missed != c.missed {
			t.Errorf("within %d: %v, missed: %q", c.bound, r, r.Missed)
		}
	}
}

func TestAQueueKeepsItsOrder(t *testing.T) {
	var q [3]uint8
	for i := range uint8(4) {
		if got, want := Push(q[:], 'a'+i), i < 3; got != want {
			t.Errorf("push %d: %v, want %v", i, got, want)
		}
	}
	if Last(q[:]) != 'c' {
		t.Errorf("last: %c, want c", Last(q[:]))
	}
	if got := Drop(q[:], 1); got != 'b' || q != [3]uint8{'a', 'c'} || Len(q[:]) != 2 {
		t.Errorf("dropped %c of %v", got, q)
	}
	if !Remove(q[:], 'a') || Remove(q[:], 'b') || q != [3]uint8{'c'} {
		t.Errorf("left: %v", q)
	}
}

func TestAResultMissesWhatDoesNotOccur(t *testing.T) {
	m := Model[pots, Verb]{Check: never, Successors: func(s *pots, next func(Verb, pots)) { next("%[1]s fills master %[2]d", pots{1}) }}
	m.Must = map[string]func(*pots) bool{"one is filled": func(s *pots) bool { return s[0] > 0 }}
	r := m.Reach(func(v Verb) Verb { return v }, map[Verb]bool{"%[1]s fills master %[2]d": true, "spills": true, "breaks": false})
	if want := "\"spills\"; "; r.Missed != want || r.States != 2 {
		t.Errorf("missed: %s, want %s", r.Missed, want)
	}
	m.Must["both are filled"] = func(s *pots) bool { return s[1] > 0 }
	if r := m.Explore().Result(); r.Missed != "both are filled; " {
		t.Errorf("missed: %s", r.Missed)
	}
	if got := Verb("%[1]s fills master %[2]d").Say("A", 0, nil, "more"); got != "A fills master 1" {
		t.Errorf("said: %q", got)
	}
}

func TestALineKeepsTheOrderOfThoseThatWait(t *testing.T) {
	type client struct {
		name         string
		waits, aside bool
	}
	waits, code := func(c client) bool { return c.waits }, func(c client) uint64 { return uint64(c.name[0]) }
	names := func(line []client) (all string) {
		for _, c := range line {
			all += c.name
		}
		return all
	}
	line := []client{{name: "d"}, {"z", true, true}, {name: "c"}, {name: "y", waits: true}, {name: "b"}}
	SortLine(line, waits, code)
	if got := names(line); got != "zybcd" {
		t.Fatalf("sorted: %s, want zybcd", got)
	}
	if at := Join(line, 3, waits); at != 2 || names(line) != "zycbd" {
		t.Errorf("c has joined at %d: %s, want zycbd", at, names(line))
	}
	line[2], line[4].waits = client{name: "c"}, true
	if at := Join(line, 2, waits); at != 4 || names(line) != "zybdc" {
		t.Errorf("c has joined at %d: %s, want zybdc", at, names(line))
	}
	if got := Order(line, waits, func(c client) bool { return c.aside }); !slices.Equal(got, []int{1, 3, 0}) {
		t.Errorf("order: %v", got)
	}
}
