package explore

import (
	"strings"
	"testing"
)

func TestAResultSaysWhatIsFoundAndInHowManySteps(t *testing.T) {
	m := filled(never)
	m.Broken = nil
	m.Check = func(s *pots) string {
		if s[0] == 2 {
			return "both have two"
		}
		return ""
	}
	r := m.Explore().Result()
	if r.Broken != "both have two" || len(r.Trace) != 4 || r.States == 0 {
		t.Errorf("%v", r)
	}
	if text := r.String(); !strings.Contains(text, ": both have two in 4 steps\n\tpot ") {
		t.Errorf("text: %q", text)
	}
	m.Check = func(*pots) string { return "" }
	m.Goals = []Goal[pots]{{"one in each", func(s *pots) bool { return s[0]+s[1] < 6 }, func(s *pots) bool { return s[0] == 1 && s[1] == 1 }}}
	if r := m.Explore().Result(); r.Broken != "one in each" || len(r.Trace) != 2 || r.States != 10 || r.Steps != 15 {
		t.Errorf("a goal that cannot be reached: %v", r)
	}
}

func TestAQueueKeepsItsOrder(t *testing.T) {
	var q [3]uint8
	for i := range uint8(4) {
		if got, want := Push(q[:], 'a'+i), i < 3; got != want {
			t.Errorf("push %d: %v, want %v", i, got, want)
		}
	}
	if got := Drop(q[:], 1); got != 'b' || q != [3]uint8{'a', 'c'} || Len(q[:]) != 2 {
		t.Errorf("dropped %c of %v", got, q)
	}
	if !Remove(q[:], 'a') || Remove(q[:], 'b') || q != [3]uint8{'c'} {
		t.Errorf("left: %v", q)
	}
}
