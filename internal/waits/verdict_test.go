package waits

import (
	"fmt"
	"maps"
	"math/bits"
	"reflect"
	"slices"
	"testing"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/wire"
)

// For each way in which masters can have the keys of three clients: all who have keys ask all masters.
func TestOfClaimsWithSplitVotesOneStays(t *testing.T) {
	const clients = 3
	for masters := 3; masters <= 5; masters++ {
		need, worlds := quorum.Majority(masters), 1
		for range masters {
			worlds *= clients + 1
		}
		for world := range worlds {
			var keys [clients]uint64 // by client: the masters, as bits
			votes := make([]quorum.Vote, masters)
			for i, rest := 0, world; i < masters; i, rest = i+1, rest/(clients+1) {
				votes[i] = quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Taken}}
				if c := rest % (clients + 1); c < clients { // otherwise nobody has the key
					keys[c] |= 1 << i
					votes[i].Standing = token(c)
				}
			}
			stay, lease := 0, false
			for _, k := range keys {
				lease = lease || bits.OnesCount64(k) >= need
			}
			for c, mine := range keys {
				f := Finding{Answered: true, Asked: true}
				rival, theirs := Rival(votes, mine, false)
				f.OnLock(bits.OnesCount64(mine), rival, theirs)
				if v, _ := f.Verdict(token(c), 1, need); v == Stays {
					stay++
				} else if want := map[bool]Verdict{true: Excluded, false: Yields}[lease]; mine != 0 && v != want {
					t.Errorf("%d masters, keys %b: client %d has verdict %d, want %d", masters, keys, c, v, want)
				}
			}
			if some := world != worlds-1; some && stay != 1 {
				t.Errorf("%d masters, keys %b: %d claims stay, want one", masters, keys, stay)
			}
		}
	}
}

func token(client int) string { return fmt.Sprint("token ", client) }

func TestAClaimThatCannotWinBacksOff(t *testing.T) {
	for _, row := range []struct {
		name string
		Finding
		mine, theirs int
		want         Verdict
		split        bool
	}{
		{"too few answers", Finding{Asked: true}, 1, 0, BacksOff, false},
		{"a grant that is over", Finding{Answered: true, Granted: 1, Asked: true}, 0, 0, BacksOff, false},
		{"the best for longer than g", Finding{Answered: true, Asked: true, Overdue: true}, 1, 0, BacksOff, true},
		{"the best", Finding{Answered: true, Granted: 1, Asked: true}, 1, 0, Stays, true},
		{"no keys", Finding{Answered: true, Asked: true}, 0, 2, Polls, false},
		{"answers that may be older than the votes", Finding{Answered: true, Overdue: true}, 1, 2, Polls, false},
		{"as many keys, a smaller token", Finding{Answered: true, Asked: true, Overdue: true}, 1, 1, Yields, true},
		{"a rival with a lease", Finding{Answered: true, Asked: true, Overdue: true}, 1, 2, Excluded, true},
	} {
		row.OnLock(row.mine, "a", row.theirs)
		got, _ := row.Verdict("own", 1, 2)
		if split := row.Split(); got != row.want || split != row.split {
			t.Errorf("%s: verdict %d, split %v, want %d, %v", row.name, got, split, row.want, row.split)
		}
	}
}

func TestTheRivalIsTheTokenThatMostMastersName(t *testing.T) {
	for _, row := range []struct {
		name    string
		votes   []quorum.Vote
		mine    uint64
		rival   string
		keys    int
		without uint64 // masters where another token than A is in the way
		reads   bool
	}{
		{"nobody", []quorum.Vote{granted(), {}, refused(0, "")}, 0, "", 0, 0b100, false},
		{"the token at most masters", []quorum.Vote{refused(0, "B"), refused(0, "A"), refused(0, "A")}, 0, "A", 2, 0b001, false},
		{"the smallest of two", []quorum.Vote{refused(0, "B"), refused(0, "A"), {}}, 0, "A", 1, 0b001, false},
		{"masters that have voted for the claim since", []quorum.Vote{refused(0, "B"), refused(0, "B"), refused(0, "C")}, 0b011, "C", 1, 0b111, false},
		{"a master that has not refused", []quorum.Vote{failed(0, "B"), refused(0, "A"), {Answer: refused(0, "B").Answer}}, 0, "A", 1, 0, false},
		{"readers, beside a claim of a writer", []quorum.Vote{refused(0, wire.ReadersMarker), refused(0, wire.ReadersMarker), refused(0, "A")}, 0, wire.ReadersMarker, 2, 0b011, false},
		{"readers, beside that of a reader", []quorum.Vote{refused(0, wire.ReadersMarker), refused(0, wire.ReadersMarker), refused(0, "A")}, 0, "A", 1, 0b011, true},
	} {
		if rival, keys := Rival(row.votes, row.mine, row.reads); rival != row.rival || keys != row.keys {
			t.Errorf("%s: Rival = %q, %d, want %q, %d", row.name, rival, keys, row.rival, row.keys)
		}
		if got := Without(row.votes, "A"); got != row.without {
			t.Errorf("%s: Without = %b, want %b", row.name, got, row.without)
		}
	}
}

// For each way in which the tokens of three clients can stand in two slots of three masters: in each slot that is nobody's, one claim is the
// best, and it aims.
func TestOfClaimsOnSlotsWithSplitVotesOneAims(t *testing.T) {
	const clients, slots, masters = 3, 2, 3
	need, worlds := quorum.Majority(masters), 1
	for range slots * masters {
		worlds *= clients + 1
	}
	for world := range worlds {
		var keys [slots]map[string]int
		rest := world
		for slot := range slots {
			keys[slot] = make(map[string]int)
			for range masters {
				if c := rest % (clients + 1); c < clients {
					keys[slot][token(c)]++
				}
				rest /= clients + 1
			}
		}
		var best [slots]int
		for c := range clients {
			f := Finding{Answered: true, Asked: true, Keys: make(map[int]int), Rivals: make(map[int]map[string]int)}
			for slot := range slots {
				if n := keys[slot][token(c)]; n > 0 && n < need {
					f.Keys[slot] = n
				}
				f.Rivals[slot] = maps.Clone(keys[slot])
				delete(f.Rivals[slot], token(c))
			}
			verdict, aim := f.Verdict(token(c), 1, need)
			good := BestSlots(f.Keys, f.Rivals, token(c), need)
			for _, slot := range good {
				best[slot]++
			}
			switch want := map[bool]Verdict{true: Aims, false: Beaten}[len(good) > 0]; {
			case len(f.Keys) == 0 && verdict != Polls, len(f.Keys) > 0 && verdict != want:
				t.Fatalf("slots %v: client %d has verdict %d, want %d", keys, c, verdict, want)
			case verdict == Aims && !slices.Equal(aim, good[:1]):
				t.Fatalf("slots %v: client %d aims at %v, want %v", keys, c, aim, good[:1])
			}
		}
		for slot, n := range best {
			taken := false
			for _, n := range keys[slot] {
				taken = taken || n >= need
			}
			if want := map[bool]int{true: 1, false: 0}[len(keys[slot]) > 0 && !taken]; n != want {
				t.Fatalf("slots %v: %d claims are the best in slot %d, want %d", keys, n, slot, want)
			}
		}
	}
}

func TestAClaimOnSlotsThatCannotWinLeavesThem(t *testing.T) {
	mine := map[int]int{3: 1, 5: 2}
	better := map[int]map[string]int{3: {"other": 2}, 5: {"other": 2}}
	held := map[int]map[string]int{3: {"other": 3}, 5: {"other": 3}}
	for _, row := range []struct {
		name string
		Finding
		n    int
		want Verdict
		aim  []int
	}{
		{"too few answers", Finding{Keys: mine}, 1, BacksOff, nil},
		{"a grant that is over", Finding{Answered: true, Granted: 1}, 1, BacksOff, nil},
		{"no slots", Finding{Answered: true}, 1, Polls, nil},
		{"not asked", Finding{Answered: true, Keys: mine}, 1, Polls, nil},
		{"the best", Finding{Answered: true, Keys: mine, Asked: true}, 1, Aims, []int{5}},
		{"the best in both", Finding{Answered: true, Keys: mine, Asked: true}, 2, Aims, []int{5, 3}},
		{"too few slots", Finding{Answered: true, Keys: mine, Asked: true}, 3, Beaten, nil},
		{"the best, and has aimed", Finding{Answered: true, Keys: mine, Asked: true, Aimed: true}, 1, Stays, nil},
		{"the best for longer than g", Finding{Answered: true, Keys: mine, Asked: true, Aimed: true, Overdue: true}, 1, BacksOff, nil},
		{"beaten", Finding{Answered: true, Keys: mine, Asked: true, Rivals: better}, 2, Beaten, nil},
		{"as many keys, a smaller token", Finding{Answered: true, Keys: mine, Asked: true, Rivals: map[int]map[string]int{5: {"a": 2}}}, 1, Aims, []int{3}},
		{"as many keys, a larger token", Finding{Answered: true, Keys: mine, Asked: true, Rivals: map[int]map[string]int{5: {"z": 2}}}, 1, Aims, []int{5}},
		{"fewer keys, a smaller token", Finding{Answered: true, Keys: mine, Asked: true, Rivals: map[int]map[string]int{5: {"a": 1}}}, 1, Aims, []int{5}},
		{"more keys, a larger token", Finding{Answered: true, Keys: mine, Asked: true, Rivals: map[int]map[string]int{3: {"z": 2}}}, 2, Beaten, nil},
		{"more votes than a holder has keys", Finding{Answered: true, Keys: map[int]int{5: 4}, Asked: true, Rivals: map[int]map[string]int{5: {"z": 3}}}, 1, Beaten, nil},
		{"the best, a grant in this round", Finding{Answered: true, Granted: 1, Keys: mine, Asked: true}, 1, Aims, []int{5}},
		{"does not wait, has aimed", Finding{Answered: true, Keys: mine, Asked: true, Aimed: true, Once: true}, 1, Stays, nil},
		{"does not wait, overdue before it aims", Finding{Answered: true, Keys: mine, Asked: true, Overdue: true, Once: true}, 1, Aims, []int{5}},
		{"one slot has a holder", Finding{Answered: true, Keys: mine, Asked: true, Sure: true, Rivals: map[int]map[string]int{3: {"a": 3}, 5: {"a": 2}}}, 1, Yields, nil},
		{"has aimed, beaten", Finding{Answered: true, Keys: mine, Asked: true, Aimed: true, Overdue: true, Rivals: better}, 2, Beaten, nil},
		{"beaten twice", Finding{Answered: true, Keys: mine, Asked: true, Rivals: better, Sure: true}, 2, Yields, nil},
		{"beaten twice, by holders", Finding{Answered: true, Keys: mine, Asked: true, Rivals: held, Sure: true}, 2, Excluded, nil},
		{"does not wait, no slots", Finding{Answered: true, Once: true}, 1, GivesUp, nil},
		{"does not wait, a grant that is over", Finding{Answered: true, Once: true, Granted: 1}, 1, GivesUp, nil},
		{"does not wait, too few answers", Finding{Keys: mine, Once: true}, 1, GivesUp, nil},
		{"does not wait, not asked", Finding{Answered: true, Keys: mine, Once: true}, 1, Polls, nil},
		{"does not wait, the best", Finding{Answered: true, Keys: mine, Asked: true, Once: true}, 1, Aims, []int{5}},
		{"does not wait, beaten", Finding{Answered: true, Keys: mine, Asked: true, Rivals: better, Once: true}, 2, GivesUp, nil},
		{"does not wait, the best for longer than g", Finding{Answered: true, Keys: mine, Asked: true, Aimed: true, Overdue: true, Once: true}, 1, GivesUp, nil},
	} {
		got, aim := row.Verdict("own", row.n, 3)
		if got != row.want || !slices.Equal(aim, row.aim) {
			t.Errorf("%s: verdict %d, aims at %v, want %d, %v", row.name, got, aim, row.want, row.aim)
		}
	}
}

func TestTheRivalsOfAClaimOnSlotsAreCountedBySlot(t *testing.T) {
	stands := func(text string) quorum.Vote {
		return quorum.Vote{In: true, Answer: wire.Answer{Outcome: wire.Taken, Standing: text}}
	}
	got := SlotRivals([]quorum.Vote{stands("3=a 5=own"), stands("3=a 5=b"), {}, stands("3=b")}, "own")
	if want := map[int]map[string]int{3: {"a": 2, "b": 1}, 5: {"b": 1}}; !reflect.DeepEqual(got, want) {
		t.Errorf("rivals %v, want %v", got, want)
	}
}
