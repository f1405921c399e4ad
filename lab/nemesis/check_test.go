package main

import (
	"fmt"
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

// read returns stay of a reader.
func read(id string, asked, entered, held, left int64, fence uint64) operation {
	o := stay(id, asked, entered, held, left, fence)
	o.side = asReader
	return o
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
		{"readers", []operation{read("a", 1, 10, 20, 21, 0), read("b", 1, 12, 30, 31, 0)}, 0, 0},
		{"a writer beside a reader", []operation{read("a", 1, 10, 20, 21, 0), stay("b", 1, 18, 30, 31, 0)}, 1, 2 * time.Millisecond},
		{"a reader beside a writer", []operation{stay("a", 1, 10, 20, 21, 0), read("b", 1, 18, 30, 31, 0)}, 1, 2 * time.Millisecond},
		{"a writer beside the longest of many readers", []operation{read("a", 1, 10, 50, 51, 0), read("b", 1, 12, 20, 21, 0), read("c", 1, 30, 32, 33, 0), stay("d", 1, 40, 60, 61, 0)}, 1, 10 * time.Millisecond},
		{"a reader beside a writer, with readers before", []operation{read("a", 1, 5, 9, 9, 0), stay("b", 1, 10, 20, 21, 0), read("c", 1, 19, 22, 23, 0)}, 1, time.Millisecond},
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
		{"a reader after a writer", []operation{stay("a", 1, 10, 20, 21, 6), read("b", 1, 21, 30, 31, 6)}, ""},
		{"readers in any order", []operation{read("a", 1, 10, 20, 21, 6), read("b", 22, 23, 30, 31, 5), read("c", 1, 32, 40, 41, 6)}, ""},
		{"a reader below the writer before it", []operation{stay("a", 1, 10, 20, 21, 6), read("b", 1, 21, 30, 31, 5)}, "held after"},
		{"a writer like the reader before it", []operation{read("a", 1, 10, 20, 21, 6), stay("b", 1, 21, 30, 31, 6)}, "held after"},
		{"a writer below the reader before it", []operation{stay("a", 1, 10, 20, 21, 5), read("b", 1, 21, 30, 31, 7), stay("c", 1, 31, 40, 41, 6)}, "held after"},
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
	lostReader := read("b", 15, 30, 0, 35, 5)
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
		{"readers at once", []operation{read("a", 1, 10, 20, 21, 5), read("b", 1, 12, 30, 31, 5), stay("c", 1, 31, 40, 41, 6)}, porcupine.Ok},
		{"a writer beside a reader", []operation{read("a", 1, 10, 20, 21, 5), stay("b", 1, 15, 30, 31, 6)}, porcupine.Illegal},
		{"a reader beside a writer", []operation{stay("a", 1, 10, 20, 21, 5), read("b", 1, 15, 30, 31, 6)}, porcupine.Illegal},
		{"a reader with the fence of the writer before it", []operation{stay("a", 1, 10, 20, 21, 5), read("b", 1, 22, 30, 31, 5)}, porcupine.Ok},
		{"a reader with a lower one", []operation{stay("a", 1, 10, 20, 21, 5), read("b", 1, 22, 30, 31, 4)}, porcupine.Illegal},
		{"a writer with the fence of the reader before it", []operation{read("a", 1, 10, 20, 21, 5), stay("b", 1, 22, 30, 31, 5)}, porcupine.Illegal},
		{"a reader that found its lease lost, with a gap for it", []operation{stay("a", 1, 10, 20, 21, 5), lostReader, stay("c", 1, 24, 40, 41, 6)}, porcupine.Ok},
		{"the same without a gap", []operation{stay("a", 1, 10, 40, 41, 5), lostReader}, porcupine.Illegal},
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

// TestPorcupineEndsWithManyReaders: readers that wait for long, while others come and go, have very many orders.
func TestPorcupineEndsWithManyReaders(t *testing.T) {
	var ops []operation
	at, fence := int64(100), uint64(1)
	for range 200 {
		fence++
		ops = append(ops, stay(fmt.Sprint("w", fence), max(1, at-500), at, at+2, at+3, fence))
		for i := range int64(10) {
			ops = append(ops, read(fmt.Sprint("r", fence, ".", i), max(1, at-100*i), at+3+i, at+20+i, at+35, fence))
		}
		at += 40
	}
	for i := range int64(5) {
		ops = append(ops, read(fmt.Sprint("last", i), 1, at, at+5, at+6, fence))
	}
	if got := linear(steps(ops, nil)); got != porcupine.Ok {
		t.Errorf("porcupine says %s, want %s", got, porcupine.Ok)
	}
	ops = append(ops, stay("late", 1, at+4, at+10, at+11, fence+1))
	if got := linear(steps(ops, nil)); got != porcupine.Illegal {
		t.Errorf("with a writer beside the last readers porcupine says %s, want %s", got, porcupine.Illegal)
	}
}

func TestAnOperationOnSeveralNamesCountsForEach(t *testing.T) {
	set := stay("0.0.0.1", 1, 10, 20, 21, 5)
	set.name = "a b"
	other := stay("1.0.0.1", 1, 15, 30, 31, 6)
	other.name = "b"
	byName := perName([]operation{set, other})
	for name, want := range map[string]int{"a": 0, "b": 1} {
		if all, _ := overlaps(byName[name]); len(all) != want {
			t.Errorf("overlaps of %q = %v, want %d", name, all, want)
		}
	}
}

func TestReadersTogetherAreCounted(t *testing.T) {
	ops := []operation{
		read("0.0.0.1", 1, 10, 20, 21, 0), read("0.0.1.1", 1, 12, 20, 21, 0), // of one client
		read("1.0.0.1", 1, 15, 16, 17, 0), read("1.0.0.2", 18, 25, 30, 31, 0),
	}
	for i := range ops {
		ops[i].client = int(ops[i].id[0] - '0')
	}
	if n := readTogether(ops); n != 1 {
		t.Errorf("readTogether = %d, want 1", n)
	}
}

func TestSpansThatOverlapCountOnce(t *testing.T) {
	spans := []span{{30, 40}, {5, 15}, {12, 20}, {38, 0}}
	if got := covered(span{10, 50}, spans); got != 30 {
		t.Errorf("covered = %d, want 30", got)
	}
	if got := covered(span{20, 30}, spans); got != 0 {
		t.Errorf("covered between the spans = %d, want 0", got)
	}
}
