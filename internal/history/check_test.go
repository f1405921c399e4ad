package history

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// ms is a moment.
func ms(n int64) int64 { return n * int64(time.Millisecond) }

// stay returns an operation that asked, entered, held and left at these moments.
func stay(id string, asked, entered, held, left int64, fence uint64) Operation {
	return Operation{ID: id, Name: "n", Asked: ms(asked), Entered: ms(entered), Held: ms(held), Leaving: ms(held), Left: ms(left), Fence: fence}
}

// read returns stay of a reader.
func read(id string, asked, entered, held, left int64, fence uint64) Operation {
	o := stay(id, asked, entered, held, left, fence)
	o.Side = AsReader
	return o
}

func TestOverlapsAreFound(t *testing.T) {
	unconfirmed := stay("c.0.0.1", 1, 15, 0, 0, 0)
	for _, test := range []struct {
		name string
		ops  []Operation
		want int
		sum  time.Duration
	}{
		{"one after the other", []Operation{stay("a", 1, 10, 20, 21, 0), stay("b", 1, 20, 30, 31, 0)}, 0, 0},
		{"both", []Operation{stay("a", 1, 10, 20, 21, 0), stay("b", 1, 18, 30, 31, 0)}, 1, 2 * time.Millisecond},
		{"in any order", []Operation{stay("b", 1, 18, 30, 31, 0), stay("a", 1, 10, 20, 21, 0)}, 1, 2 * time.Millisecond},
		{"a long one beside two", []Operation{stay("a", 1, 10, 100, 101, 0), stay("b", 1, 20, 30, 31, 0), stay("c", 1, 40, 50, 51, 0)}, 1, 20 * time.Millisecond},
		{"one that found its lease lost", []Operation{stay("a", 1, 10, 20, 21, 0), unconfirmed}, 0, 0},
		{"readers", []Operation{read("a", 1, 10, 20, 21, 0), read("b", 1, 12, 30, 31, 0)}, 0, 0},
		{"a writer beside a reader", []Operation{read("a", 1, 10, 20, 21, 0), stay("b", 1, 18, 30, 31, 0)}, 1, 2 * time.Millisecond},
		{"a reader beside a writer", []Operation{stay("a", 1, 10, 20, 21, 0), read("b", 1, 18, 30, 31, 0)}, 1, 2 * time.Millisecond},
		{"a writer beside the longest of many readers", []Operation{read("a", 1, 10, 50, 51, 0), read("b", 1, 12, 20, 21, 0), read("c", 1, 30, 32, 33, 0), stay("d", 1, 40, 60, 61, 0)}, 1, 10 * time.Millisecond},
		{"a reader beside a writer, with readers before", []Operation{read("a", 1, 5, 9, 9, 0), stay("b", 1, 10, 20, 21, 0), read("c", 1, 19, 22, 23, 0)}, 1, time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			all, sum := Overlaps(test.ops)
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
		ops  []Operation
		want string // "": nothing
	}{
		{"rising", []Operation{stay("a", 1, 10, 20, 21, 5), stay("b", 1, 20, 30, 31, 6)}, ""},
		{"falling", []Operation{stay("a", 1, 10, 20, 21, 6), stay("b", 1, 21, 30, 31, 5)}, "held after"},
		{"falling with others between", []Operation{stay("a", 1, 10, 20, 21, 6), stay("c", 1, 21, 30, 31, 7), stay("b", 1, 31, 40, 41, 5)}, "held after"},
		{"the same", []Operation{stay("a", 1, 10, 20, 21, 6), stay("b", 1, 21, 30, 31, 6)}, "have the same"},
		{"none", []Operation{stay("a", 1, 10, 20, 21, 0)}, "no fence"},
		{"lower, and lost at once", []Operation{stay("a", 1, 10, 20, 21, 6), lostAtOnce}, "asked after"},
		{"a reader after a writer", []Operation{stay("a", 1, 10, 20, 21, 6), read("b", 1, 21, 30, 31, 6)}, ""},
		{"readers in any order", []Operation{read("a", 1, 10, 20, 21, 6), read("b", 22, 23, 30, 31, 5), read("c", 1, 32, 40, 41, 6)}, ""},
		{"a reader below the writer before it", []Operation{stay("a", 1, 10, 20, 21, 6), read("b", 1, 21, 30, 31, 5)}, "held after"},
		{"a writer like the reader before it", []Operation{read("a", 1, 10, 20, 21, 6), stay("b", 1, 21, 30, 31, 6)}, "held after"},
		{"a writer below the reader before it", []Operation{stay("a", 1, 10, 20, 21, 5), read("b", 1, 21, 30, 31, 7), stay("c", 1, 31, 40, 41, 6)}, "held after"},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := Fences(test.ops)
			if test.want == "" && len(all) > 0 || test.want != "" && (len(all) == 0 || !strings.Contains(all[0].Text, test.want)) {
				t.Errorf("fences = %v, want %q", all, test.want)
			}
		})
	}
}

func TestAHistoryIsWhatItsRecordsSay(t *testing.T) {
	h := New()
	for _, r := range []Record{
		{Kind: Asked, Op: "3.1.20.7", At: 10, Name: "n", How: "try", Limit: 5},
		{Kind: Entered, Op: "3.1.20.7", At: 11, Token: "t", Fence: 9},
		{Kind: Held, Op: "3.1.20.7", At: 12},
		{Kind: Held, Op: "3.1.20.7", At: 13},
		{Kind: Lost, Op: "3.1.20.7", At: 14},
		{Kind: Leaving, Op: "3.1.20.7", At: 15},
		{Kind: Left, Op: "3.1.20.7", At: 16, Err: "lost"},
		{Kind: Asked, Op: "0.0.0.1", At: 1, Name: "n"},
		{Kind: Refused, Op: "0.0.0.1", At: 2, Err: "held"},
	} {
		h.Add(r)
	}
	ops := PerName(h.Snapshot())["n"]
	want := Operation{
		ID: "3.1.20.7", Name: "n", How: "try", Limit: 5, Token: "t", Fence: 9, Err: "lost", Client: 3, Life: 1,
		Asked: 10, Entered: 11, Held: 13, Lost: 14, Leaving: 15, Left: 16,
	}
	if len(ops) != 2 || ops[1] != want || !ops[1].Confirmed() || ops[0].Refused != 2 || ops[0].Confirmed() {
		t.Errorf("the history is %+v, want the refused one and %+v", ops, want)
	}
}

func TestAnOperationOnSeveralNamesCountsForEach(t *testing.T) {
	set := stay("0.0.0.1", 1, 10, 20, 21, 5)
	set.Name = "a b"
	other := stay("1.0.0.1", 1, 15, 30, 31, 6)
	other.Name = "b"
	byName := PerName([]Operation{set, other})
	for name, want := range map[string]int{"a": 0, "b": 1} {
		if all, _ := Overlaps(byName[name]); len(all) != want {
			t.Errorf("overlaps of %q = %v, want %d", name, all, want)
		}
	}
}

func TestSpansThatOverlapCountOnce(t *testing.T) {
	spans := []Span{{30, 40}, {5, 15}, {12, 20}, {38, 0}}
	if got := Covered(Span{From: 10, To: 50}, spans); got != 30 {
		t.Errorf("covered = %d, want 30", got)
	}
	if got := Covered(Span{From: 20, To: 30}, spans); got != 0 {
		t.Errorf("covered between the spans = %d, want 0", got)
	}
}

func TestALossThatUnlockDoesNotTellIsFound(t *testing.T) {
	told := stay("a", 1, 10, 20, 30, 0)
	told.Lost, told.Err = ms(25), "lost"
	untold := stay("b", 1, 40, 50, 60, 0)
	untold.Lost = ms(55)
	killed := stay("c", 1, 70, 80, 0, 0)
	killed.Lost = ms(85)
	n, all := Losses([]Operation{stay("d", 1, 90, 95, 96, 0), told, untold, killed})
	if n != 3 || len(all) != 1 || !strings.Contains(all[0].Text, "b found its lease") {
		t.Errorf("Losses = %d, %v, want 3 and that of b", n, all)
	}
}

func TestRecordsThatContradictEachOtherAreFound(t *testing.T) {
	both := stay("a", 1, 10, 20, 30, 0)
	both.Refused = ms(5)
	early := stay("b", 10, 5, 20, 30, 0)
	nameless := stay("c", 1, 10, 20, 30, 0)
	nameless.Name = ""
	outside := Operation{ID: "d", Name: "n", Asked: ms(1), Held: ms(10)}
	for _, o := range []Operation{both, early, nameless, outside} {
		if all := Contradictions([]Operation{stay("z", 1, 10, 20, 30, 0), o}); len(all) != 1 {
			t.Errorf("Contradictions of %+v = %v, want one", o, all)
		}
	}
}

func TestAHistoryKnowsWhenClientsWereStopped(t *testing.T) {
	h := New()
	for _, r := range []Record{
		{Kind: Continued, Op: "2", At: ms(5)}, {Kind: Stopped, Op: "2", At: ms(10)}, {Kind: Continued, Op: "2", At: ms(30)},
		{Kind: Fault, Op: "2", At: ms(10), Name: "pause"}, {Kind: Fault, Op: "3", At: ms(11), Name: "slow"}, {Kind: Mended, Op: "2", At: ms(31), Name: "pause"},
		{Kind: Ready, At: 1}, {Kind: Done, At: ms(90)},
	} {
		h.Add(r)
	}
	want := []FaultSpan{{"pause", 2, Span{ms(10), ms(31)}}, {"slow", 3, Span{From: ms(11)}}}
	if got := h.Stopped(2); len(got) != 1 || got[0] != (Span{From: ms(10), To: ms(30)}) || len(h.Snapshot()) != 0 || !slices.Equal(h.Faults(), want) {
		t.Errorf("the history has stops %v, operations %v, faults %v", got, h.Snapshot(), h.Faults())
	}
}

func TestTheFirstLineThatIsNoRecordIsTold(t *testing.T) {
	var out strings.Builder
	NewRecorder(&out).Write(Record{Kind: Asked, Op: "1.1.1.1", At: 5, Name: "n"})
	good := out.String()
	for _, tt := range []struct {
		name, text string
		records    int
		want       string
	}{
		{"good", good + good, 2, "<nil>"},
		{"without the last line feed", good + strings.TrimSpace(good), 2, "<nil>"},
		{"empty", "", 0, "<nil>"},
		{"cut off", good + good[:20], 1, "line 2 is cut off"},
		{"another kind", good + `{"k":"moved","op":"1.1.1.1","t":7}` + "\n" + good, 2, `line 2 is of a later version: this version does not know all of "{`},
		{"another field", `{"k":"held","op":"1.1.1.1","t":7,"v":2}` + "\n", 0, "line 1 is of a later version"},
		{"another file", "# Redlock\n\n" + good, 1, `line 1 is no record of a history: "# Redlock"`},
		{"other JSON", `[1]` + "\n", 0, "line 1 is no record of a history"},
		{"two on a line", strings.TrimSpace(good) + good, 0, "line 1 is no record of a history"},
		{"an operation without numbers", `{"k":"held","op":"x","t":7}` + "\n", 0, "line 1 is no record of a history"},
		{"a client without a number", `{"k":"fault","op":"x","t":7}` + "\n", 0, "line 1 is no record of a history"},
		{"a long line", good + strings.Repeat("x", lineMost+1) + "\n", 1, "line 2 is no record: it is longer than"},
	} {
		records := 0
		err := Read(strings.NewReader(tt.text), func(Record) { records++ })
		if records != tt.records || !strings.HasPrefix(fmt.Sprint(err), tt.want) {
			t.Errorf("%s: %d records and %v, want %d and %s", tt.name, records, err, tt.records, tt.want)
		}
	}
}
