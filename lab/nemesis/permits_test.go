package main

import (
	"strings"
	"testing"

	"github.com/anishathalye/porcupine"

	"github.com/redlock-go/redlock/internal/history"
)

// permit returns an operation for one permit, or two, that entered, held and left at these moments.
func permit(id, slots string, entered, held, left int64) history.Operation {
	o := stay(id, 1, entered, held, left, 0)
	o.Slots = slots
	return o
}

func TestTooManyHoldersAreFound(t *testing.T) {
	count := func(o history.Operation) int { return max(1, len(strings.Fields(o.Slots))) }
	unseen := permit("d", "1", 15, 0, 0)
	done := permit("d", "", 15, 16, 17)
	three := []history.Operation{permit("a", "0", 10, 20, 21), permit("b", "1 2", 12, 30, 31)}
	for _, test := range []struct {
		name string
		also history.Operation
		most int
		over int
	}{
		{"three", permit("d", "0", 20, 25, 26), 3, 0},
		{"a fourth", permit("d", "0", 15, 25, 26), 4, 1},
		{"a fourth at the last moment", permit("d", "0", 19, 19, 26), 4, 1},
		{"two more", permit("d", "0 1", 25, 26, 27), 4, 1},
		{"one that was not seen to be valid", unseen, 3, 0},
		{"a fourth by Do", done, 4, 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			most, all := overLimit(lockName{Name: "n", Limit: 3}, append([]history.Operation{test.also}, three...), count)
			if most != test.most || len(all) != test.over {
				t.Errorf("%d permits at most, violations %v; want %d, and %d of them", most, all, test.most, test.over)
			}
		})
	}
}

func TestASlotOfTwoHoldersIsFound(t *testing.T) {
	c := config{subject: ours, workload: semaphores}
	ops := []history.Operation{permit("0.0.0.1", "0", 10, 20, 21), permit("1.0.10.1", "1 2", 12, 30, 31), permit("2.0.0.1", "0", 22, 30, 31)}
	again := append([]history.Operation{permit("3.0.0.1", "1", 13, 14, 15)}, ops...)
	twoOf := func(ops []history.Operation) (found []string) {
		for i := range ops {
			ops[i].Name = "permits"
		}
		byName := history.PerName(c.bySlot(ops))
		for _, n := range c.checked() {
			all, _ := history.Overlaps(byName[n.Name])
			if len(all) > 0 && linear(steps(byName[n.Name], nil)) == porcupine.Illegal {
				found = append(found, n.Name)
			}
		}
		return found
	}
	if found := twoOf(ops); len(found) != 0 {
		t.Errorf("two holders of %v, want none", found)
	}
	if found := twoOf(again); len(found) != 1 || found[0] != "permits#1" {
		t.Errorf("two holders of %v, want of permits#1", found)
	}
}

func TestWrongSlotsAndUntoldLossesAreFound(t *testing.T) {
	c := config{subject: ours, workload: semaphores}
	lost := permit("0.0.0.1", "0", 10, 20, 25)
	lost.Lost = ms(22)
	unknown := permit("0.0.0.1", "", 10, 20, 21)
	unknown.How = byDo
	for _, test := range []struct {
		name string
		op   history.Operation
		want string // "": nothing
	}{
		{"one", permit("0.0.0.1", "2", 10, 20, 21), ""},
		{"two", permit("0.0.10.1", "0 2", 10, 20, 21), ""},
		{"one of two", permit("0.0.10.1", "2", 10, 20, 21), wrongSlots},
		{"one twice", permit("0.0.10.1", "2 2", 10, 20, 21), wrongSlots},
		{"two for one", permit("0.0.0.1", "0 1", 10, 20, 21), wrongSlots},
		{"not below the limit", permit("0.0.0.1", "3", 10, 20, 21), wrongSlots},
		{"none", permit("0.0.0.1", "", 10, 20, 21), wrongSlots},
		{"not known, of Do", unknown, ""},
		{"a loss that is not told", lost, history.Untold},
	} {
		t.Run(test.name, func(t *testing.T) {
			test.op.Name = "permits"
			all := c.judgePermits([]history.Operation{test.op})
			if test.want == "" && len(all) > 0 || test.want != "" && (len(all) != 1 || all[0].Kind != test.want) {
				t.Errorf("violations %v, want %q", all, test.want)
			}
		})
	}
}

func TestFencesOfPermitsThatDoNotRiseBySlotAreFound(t *testing.T) {
	c := config{subject: ours, workload: semaphores} // in "permits", client 1 has fences for one permit, and client 2 for two
	one := func(id, slots string, entered, held int64, fence uint64) history.Operation {
		o := permit("1.0.0."+id, slots, entered, held, held+1)
		o.Client, o.Fence = 1, fence
		return o
	}
	two := func(id, slots string, entered, held int64, fence uint64) history.Operation {
		o := permit("2.0.10."+id, slots, entered, held, held+1)
		o.Client, o.Fence = 2, fence
		return o
	}
	plain := permit("2.0.0.9", "0", 30, 40, 41)
	plain.Client = 2
	given := plain
	given.Fence = 9
	by := one("8", "", 50, 60, 0)
	by.How = byDo
	for _, test := range []struct {
		name string
		ops  []history.Operation
		want string // where: a slot, or the semaphore; "": nothing
	}{
		{"rising", []history.Operation{one("1", "0", 10, 20, 5), one("2", "0", 22, 30, 6)}, ""},
		{"falling", []history.Operation{one("1", "0", 10, 20, 6), one("2", "0", 22, 30, 5)}, "permits#0"},
		{"the same", []history.Operation{one("1", "0", 10, 20, 6), one("2", "0", 22, 30, 6)}, "permits#0"},
		{"falling after another", []history.Operation{one("1", "0", 10, 20, 6), plain, one("2", "0", 42, 50, 5)}, "permits#0"},
		{"the same for different slots", []history.Operation{one("1", "0", 10, 20, 6), one("2", "1", 15, 30, 6)}, ""},
		{"falling from slot to slot", []history.Operation{one("1", "0", 10, 20, 6), one("2", "1", 22, 30, 5)}, ""},
		{"two after one", []history.Operation{one("1", "1", 10, 20, 5), two("2", "0 1", 22, 30, 6)}, ""},
		{"two after one, falling", []history.Operation{one("1", "1", 10, 20, 6), two("2", "0 1", 22, 30, 5)}, "permits#1"},
		{"one after two, falling", []history.Operation{two("1", "1 2", 10, 20, 6), one("2", "2", 22, 30, 5)}, "permits#2"},
		{"none among fences", []history.Operation{one("1", "0", 10, 20, 5), plain, one("2", "0", 42, 50, 6)}, ""},
		{"none where there must be one", []history.Operation{one("1", "2", 10, 20, 0)}, "permits#2"},
		{"one where there must be none", []history.Operation{given}, "permits"},
		{"not known, of Do", []history.Operation{one("1", "0", 10, 20, 5), by}, ""},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i := range test.ops {
				test.ops[i].Name = "permits"
			}
			all := c.judgePermits(test.ops)
			byName := history.PerName(c.bySlot(test.ops))
			for _, n := range c.checked() {
				all = append(all, c.fencesWrong(n, byName[n.Name])...)
			}
			if test.want == "" && len(all) > 0 || test.want != "" && (len(all) == 0 || all[0].Name != test.want) {
				t.Errorf("violations %v, want those of %q", all, test.want)
			}
		})
	}
}

// Of one semaphore all permits have fences. Of the other, each client has some permits with fences and some without.
func TestSomePermitsHaveFences(t *testing.T) {
	for seed, whole := range []string{"permits-long", "permits"} {
		c := testConfig(ours, uint64(seed), 0)
		c.workload = semaphores
		for client := range c.clients {
			fenced, all := make(map[string]int), make(map[string]int)
			for _, u := range c.usesOf(client) {
				all[u.Names[0]]++
				if u.Fenced {
					fenced[u.Names[0]]++
				}
			}
			for name, n := range all {
				if want := map[bool]int{true: n, false: 1}[name == whole]; fenced[name] != want {
					t.Errorf("seed %d, client %d: %d of %d uses of %s have fences, want %d", seed, client, fenced[name], n, name, want)
				}
			}
		}
	}
}

func TestAnEarlierProgramMayHaveNoFencesForPermits(t *testing.T) {
	c := config{subject: ours, workload: semaphores, beside: "earlier"} // client 1 is the earlier program
	o := permit("1.0.0.1", "0", 10, 20, 21)
	o.Client = 1
	if c.fenced(o) {
		t.Error("a permit of the earlier program must have a fence")
	}
	if o.Fence = 5; !c.fenced(o) {
		t.Error("the fence of an earlier program is not checked")
	}
}
