package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/internal/history"
)

// ms is a moment.
func ms(n int64) int64 { return n * int64(time.Millisecond) }

// stay returns an operation that asked, entered, held and left at these moments.
func stay(id string, asked, entered, held, left int64, fence uint64) history.Operation {
	return history.Operation{ID: id, Name: "n", Asked: ms(asked), Entered: ms(entered), Held: ms(held), Leaving: ms(held), Left: ms(left), Fence: fence}
}

// read returns stay of a reader.
func read(id string, asked, entered, held, left int64, fence uint64) history.Operation {
	o := stay(id, asked, entered, held, left, fence)
	o.Side = asReader
	return o
}

func TestLateWritesAreFound(t *testing.T) {
	ops := []history.Operation{stay("a", 1, 10, 20, 21, 5), stay("b", 1, 22, 30, 31, 6)}
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
	waited := history.Operation{ID: "a", Asked: ms(0), Refused: ms(5000), Limit: ms(1000)}
	unlocked := stay("b", 0, 10, 20, 5000, 0)
	none := func(int, history.Span) int64 { return 0 }
	all := func(int, history.Span) int64 { return ms(4500) }
	for _, o := range []history.Operation{waited, unlocked} {
		if v := outlasted([]history.Operation{o}, none); len(v) != 1 {
			t.Errorf("outlasted(%s) = %v, want it", o.ID, v)
		}
		if v := outlasted([]history.Operation{o}, all); len(v) != 0 {
			t.Errorf("outlasted(%s) of a client that was stopped = %v, want nothing", o.ID, v)
		}
	}
}

func TestPorcupineKnowsTheLock(t *testing.T) {
	died := stay("a", 1, 10, 20, 0, 5)
	lostReader := read("b", 15, 30, 0, 35, 5)
	for _, test := range []struct {
		name string
		ops  []history.Operation
		want porcupine.CheckResult
	}{
		{"one after the other", []history.Operation{stay("a", 1, 10, 20, 21, 5), stay("b", 1, 22, 30, 31, 6)}, porcupine.Ok},
		{"without fences", []history.Operation{stay("a", 1, 10, 20, 21, 0), stay("b", 1, 22, 30, 31, 0)}, porcupine.Ok},
		{"two at once", []history.Operation{stay("a", 1, 10, 20, 21, 5), stay("b", 1, 15, 30, 31, 6)}, porcupine.Illegal},
		{"a falling fence", []history.Operation{stay("a", 1, 10, 20, 21, 6), stay("b", 1, 22, 30, 31, 5)}, porcupine.Illegal},
		{"a lease that may have ended in time", []history.Operation{stay("a", 1, 10, 20, 40, 5), stay("b", 1, 25, 30, 31, 6)}, porcupine.Ok},
		{"a holder that died, and a successor within its TTL", []history.Operation{died, stay("b", 1, 100, 130, 131, 6)}, porcupine.Ok},
		{"the same, while it was known to hold", []history.Operation{died, stay("b", 1, 15, 18, 19, 6)}, porcupine.Illegal},
		{"readers at once", []history.Operation{read("a", 1, 10, 20, 21, 5), read("b", 1, 12, 30, 31, 5), stay("c", 1, 31, 40, 41, 6)}, porcupine.Ok},
		{"a writer beside a reader", []history.Operation{read("a", 1, 10, 20, 21, 5), stay("b", 1, 15, 30, 31, 6)}, porcupine.Illegal},
		{"a reader beside a writer", []history.Operation{stay("a", 1, 10, 20, 21, 5), read("b", 1, 15, 30, 31, 6)}, porcupine.Illegal},
		{"a reader with the fence of the writer before it", []history.Operation{stay("a", 1, 10, 20, 21, 5), read("b", 1, 22, 30, 31, 5)}, porcupine.Ok},
		{"a reader with a lower one", []history.Operation{stay("a", 1, 10, 20, 21, 5), read("b", 1, 22, 30, 31, 4)}, porcupine.Illegal},
		{"a writer with the fence of the reader before it", []history.Operation{read("a", 1, 10, 20, 21, 5), stay("b", 1, 22, 30, 31, 5)}, porcupine.Illegal},
		{"a reader that found its lease lost, with a gap for it", []history.Operation{stay("a", 1, 10, 20, 21, 5), lostReader, stay("c", 1, 24, 40, 41, 6)}, porcupine.Ok},
		{"the same without a gap", []history.Operation{stay("a", 1, 10, 40, 41, 5), lostReader}, porcupine.Illegal},
	} {
		t.Run(test.name, func(t *testing.T) {
			all := steps(test.ops, func(o history.Operation) int64 { return o.Held + ms(1000) })
			if got := linear(all); got != test.want {
				t.Errorf("porcupine says %s, want %s", got, test.want)
			}
			if err := picture(all, t.TempDir()+"/picture.html"); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestPorcupineEndsWithManyReaders: readers that wait for long, while others come and go, have very many orders.
func TestPorcupineEndsWithManyReaders(t *testing.T) {
	var ops []history.Operation
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

func TestReadersTogetherAreCounted(t *testing.T) {
	ops := []history.Operation{
		read("0.0.0.1", 1, 10, 20, 21, 0), read("0.0.1.1", 1, 12, 20, 21, 0), // of one client
		read("1.0.0.1", 1, 15, 16, 17, 0), read("1.0.0.2", 18, 25, 30, 31, 0),
	}
	for i := range ops {
		ops[i].Client = int(ops[i].ID[0] - '0')
	}
	if n := readTogether(ops); n != 1 {
		t.Errorf("readTogether = %d, want 1", n)
	}
}
