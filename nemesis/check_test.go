package main

import (
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
)

// ms is a moment.
func ms(n int64) int64 { return n * int64(time.Millisecond) }

// stay returns an operation that asked, entered, held and left at these moments.
func stay(id string, asked, entered, held, left int64, fence uint64) operation {
	return operation{id: id, name: "n", asked: ms(asked), entered: ms(entered), held: ms(held), leaving: ms(held), left: ms(left), fence: fence}
}

func TestOverlapsAreFound(t *testing.T) {
	unconfirmed := stay("c.0.0.1", 1, 15, 0, 0, 0)
	for _, test := range []struct {
		name string
		ops  []operation
		want int
		sum  time.Duration
	}{
		{"one after the other", []operation{stay("a", 1, 10, 20, 21, 0), stay("b", 1, 20, 30, 31, 0)}, 0, 0},
		{"both", []operation{stay("a", 1, 10, 20, 21, 0), stay("b", 1, 18, 30, 31, 0)}, 1, 2 * time.Millisecond},
		{"in any order", []operation{stay("b", 1, 18, 30, 31, 0), stay("a", 1, 10, 20, 21, 0)}, 1, 2 * time.Millisecond},
		{"a long one beside two", []operation{stay("a", 1, 10, 100, 101, 0), stay("b", 1, 20, 30, 31, 0), stay("c", 1, 40, 50, 51, 0)}, 1, 20 * time.Millisecond},
		{"one that found its lease lost", []operation{stay("a", 1, 10, 20, 21, 0), unconfirmed}, 0, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, sum := overlaps(test.ops)
			if len(all) != test.want || sum != test.sum {
				t.Errorf("overlaps = %v, %v, want %d, together %v", all, sum, test.want, test.sum)
			}
		})
	}
}

func TestFencesMustRise(t *testing.T) {
	lostAtOnce := stay("b", 40, 45, 0, 0, 5)
	for _, test := range []struct {
		name string
		ops  []operation
		want string // "": nothing
	}{
		{"rising", []operation{stay("a", 1, 10, 20, 21, 5), stay("b", 1, 20, 30, 31, 6)}, ""},
		{"falling", []operation{stay("a", 1, 10, 20, 21, 6), stay("b", 1, 21, 30, 31, 5)}, "held after"},
		{"falling with others between", []operation{stay("a", 1, 10, 20, 21, 6), stay("c", 1, 21, 30, 31, 7), stay("b", 1, 31, 40, 41, 5)}, "held after"},
		{"the same", []operation{stay("a", 1, 10, 20, 21, 6), stay("b", 1, 21, 30, 31, 6)}, "have the same"},
		{"none", []operation{stay("a", 1, 10, 20, 21, 0)}, "no fence"},
		{"lower, and lost at once", []operation{stay("a", 1, 10, 20, 21, 6), lostAtOnce}, "asked after"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := fences(test.ops)
			if test.want == "" && len(all) > 0 || test.want != "" && (len(all) == 0 || !strings.Contains(all[0].text, test.want)) {
				t.Errorf("fences = %v, want %q", all, test.want)
			}
		})
	}
}

func TestLateWritesAreFound(t *testing.T) {
	ops := []operation{stay("a", 1, 10, 20, 21, 5), stay("b", 1, 22, 30, 31, 6)}
	at := func(t int64, op string, accepted bool) entry {
		return entry{write{Op: op, Name: "n"}, ms(t), accepted}
	}
	for _, test := range []struct {
		name string
		log  []entry
		want writing
	}{
		{"in order", []entry{at(15, "a", true), at(22, "a", true), at(25, "b", true)}, writing{accepted: 3}},
		{"late", []entry{at(25, "b", true), at(26, "a", true)}, writing{accepted: 2, late: 1}},
		{"refused", []entry{at(25, "b", true), at(26, "a", false)}, writing{accepted: 1, refused: 1}},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, all := writes("n", ops, test.log)
			if got != test.want || len(all) != test.want.late {
				t.Errorf("writes = %+v and %v, want %+v", got, all, test.want)
			}
		})
	}
}

func TestTheStoreRefusesLowerFences(t *testing.T) {
	s := &store{highest: make(map[string]uint64)}
	for _, fence := range []uint64{5, 5, 4, 6, 5} {
		s.handle(write{Name: "n", Fence: fence})
	}
	s.handle(write{Name: "other", Fence: 1})
	var got []bool
	for _, e := range s.log() {
		got = append(got, e.accepted)
	}
	if want := []bool{true, true, false, true, false, true}; !equal(got, want) {
		t.Errorf("accepted %v, want %v", got, want)
	}
}

func equal(a, b []bool) bool {
	for i := range a {
		if len(a) != len(b) || a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func TestWhatOutlastsItsLimitIsFound(t *testing.T) {
	waited := operation{id: "a", asked: ms(0), refused: ms(5000), limit: ms(1000)}
	unlocked := stay("b", 0, 10, 20, 5000, 0)
	none := func(int, span) int64 { return 0 }
	all := func(int, span) int64 { return ms(4500) }
	for _, o := range []operation{waited, unlocked} {
		if v := outlasted([]operation{o}, none); len(v) != 1 {
			t.Errorf("outlasted(%s) = %v, want it", o.id, v)
		}
		if v := outlasted([]operation{o}, all); len(v) != 0 {
			t.Errorf("outlasted(%s) of a client that was stopped = %v, want nothing", o.id, v)
		}
	}
}

func TestPorcupineKnowsTheLock(t *testing.T) {
	died := stay("a", 1, 10, 20, 0, 5)
	for _, test := range []struct {
		name string
		ops  []operation
		want porcupine.CheckResult
	}{
		{"one after the other", []operation{stay("a", 1, 10, 20, 21, 5), stay("b", 1, 22, 30, 31, 6)}, porcupine.Ok},
		{"without fences", []operation{stay("a", 1, 10, 20, 21, 0), stay("b", 1, 22, 30, 31, 0)}, porcupine.Ok},
		{"two at once", []operation{stay("a", 1, 10, 20, 21, 5), stay("b", 1, 15, 30, 31, 6)}, porcupine.Illegal},
		{"a falling fence", []operation{stay("a", 1, 10, 20, 21, 6), stay("b", 1, 22, 30, 31, 5)}, porcupine.Illegal},
		{"a lease that may have ended in time", []operation{stay("a", 1, 10, 20, 40, 5), stay("b", 1, 25, 30, 31, 6)}, porcupine.Ok},
		{"a holder that died, and a successor within its TTL", []operation{died, stay("b", 1, 100, 130, 131, 6)}, porcupine.Ok},
		{"the same, while it was known to hold", []operation{died, stay("b", 1, 15, 18, 19, 6)}, porcupine.Illegal},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := steps(test.ops, func(o operation) int64 { return o.held + ms(1000) })
			if got := linear(all); got != test.want {
				t.Errorf("porcupine says %s, want %s", got, test.want)
			}
			if err := picture(all, t.TempDir()+"/picture.html"); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestAHistoryIsWhatItsRecordsSay(t *testing.T) {
	h := newHistory()
	for _, r := range []record{
		{Kind: asked, Op: "3.1.20.7", At: 10, Name: "n", How: byTry, Limit: 5},
		{Kind: entered, Op: "3.1.20.7", At: 11, Token: "t", Fence: 9},
		{Kind: held, Op: "3.1.20.7", At: 12},
		{Kind: held, Op: "3.1.20.7", At: 13},
		{Kind: lost, Op: "3.1.20.7", At: 14},
		{Kind: leaving, Op: "3.1.20.7", At: 15},
		{Kind: left, Op: "3.1.20.7", At: 16, Err: "lost"},
		{Kind: asked, Op: "0.0.0.1", At: 1, Name: "n"},
		{Kind: refused, Op: "0.0.0.1", At: 2, Err: "held"},
	} {
		h.add(r)
	}
	ops := perName(h.snapshot())["n"]
	want := operation{
		id: "3.1.20.7", name: "n", how: byTry, limit: 5, token: "t", fence: 9, err: "lost", client: 3, life: 1,
		asked: 10, entered: 11, held: 13, lost: 14, leaving: 15, left: 16,
	}
	if len(ops) != 2 || ops[1] != want || !ops[1].confirmed() || ops[0].refused != 2 || ops[0].confirmed() {
		t.Errorf("the history is %+v, want the refused one and %+v", ops, want)
	}
}
