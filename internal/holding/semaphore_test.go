package holding

import (
	"fmt"
	"strings"
	"testing"

	"github.com/redlock-go/redlock/internal/wire"
)

// takes returns the look of a master whose slots have these tokens, "-" for none, each with the limit 4.
func takes(tokens string) (look wire.SlotLook) {
	for i, token := range strings.Fields(tokens) {
		if token != "-" {
			look.Slots = append(look.Slots, wire.SlotTaken{Slot: i, Holder: wire.Holder{Token: token, Left: 9 * s, Limit: 4}})
		}
	}
	look.Taken = len(look.Slots)
	return look
}

// ofMany returns the look of a master that lists only some of the slots that are taken.
func ofMany(tokens string, taken int) wire.SlotLook {
	look := takes(tokens)
	look.Taken = taken
	return look
}

func TestTheTokenThatIsInASlotOnTheMostMastersCounts(t *testing.T) {
	for _, row := range []struct {
		name  string
		n     int
		looks []wire.SlotLook
		want  string // of each slot: its number, the token, on how many masters; with a star if it is held
	}{
		{"free", 3, []wire.SlotLook{{}, {}, {}}, "0:"},
		{"nobody answers", 3, nil, "0:"},
		{"two hold", 3, []wire.SlotLook{takes("a b"), takes("a b"), takes("a -")}, "2: 0=a3* 1=b2*"},
		{"in different orders", 3, []wire.SlotLook{takes("a b"), takes("b a"), takes("a b")}, "2: 0=a2* 1=b2*"},
		{"split", 3, []wire.SlotLook{takes("- b"), takes("- a"), takes("- -")}, "1: 1=a1"},
		{"two list only some", 3, []wire.SlotLook{ofMany("a b", 400), ofMany("a b", 300), takes("a")}, "400: 0=a3* 1=b2*"},
		{"more than any of them lists", 3, []wire.SlotLook{takes("a b"), takes("- - c"), {}}, "3: 0=a1 1=b1 2=c1"},
		{"one does not answer", 3, []wire.SlotLook{takes("a b"), takes("a b")}, "2: 0=a2* 1=b2*"},
	} {
		t.Run(row.name, func(t *testing.T) {
			sem := OfSemaphore(row.looks, row.n)
			got := fmt.Sprintf("%d:", sem.Taken)
			for _, slot := range sem.Slots {
				got += fmt.Sprintf(" %d=%s%d", slot.Number, slot.Token, slot.Masters)
				if slot.Held() {
					got += "*"
				}
			}
			if got != row.want {
				t.Errorf("OfSemaphore = %q, want %q", got, row.want)
			}
		})
	}
}

// A client may have several claims in the queue of a semaphore, and each of them waits.
func TestEachClaimOnSlotsWaits(t *testing.T) {
	look := takes("a")
	look.Waiters = []wire.Waiter{{ID: "c", For: 2 * s, Token: "x", Permits: 2, Limit: 8}, {ID: "c", For: s, Token: "y", Permits: 1, Limit: 2}}
	look.Waiting = 2
	sem := OfSemaphore([]wire.SlotLook{look, look, {}}, 3)
	if len(sem.Waiters) != 2 || sem.Waiting != 2 || sem.Waiters[0].Permits != 2 || sem.Waiters[1].Permits != 1 {
		t.Errorf("those who wait are %+v, %d", sem.Waiters, sem.Waiting)
	}
	if got := fmt.Sprint(sem.Limits()); got != "[2 4 8]" {
		t.Errorf("the limits in use are %s, want those of holders and waiters", got)
	}
	if got := fmt.Sprint(sem.IDs()); got != "[c]" {
		t.Errorf("the clients that wait are %s", got)
	}
	sem.Drop([]map[string]bool{{}})
	if len(sem.Waiters) != 0 || sem.Waiting != 0 {
		t.Errorf("after the client has ended, %+v wait, %d", sem.Waiters, sem.Waiting)
	}
}
