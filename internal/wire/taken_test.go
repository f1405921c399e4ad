package wire

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// slotLook returns what NewSlotLook's query says of the semaphore.
func (s *slotScene) slotLook() SlotLook {
	s.Helper()
	var replies []any
	for _, command := range NewSlotLook("k") {
		reply, err := s.conn.Do(command[0].(string), command[1:]...)
		if err != nil {
			reply = redis.Error(err.Error())
		}
		replies = append(replies, reply)
	}
	look, err := DecodeSlotLook(replies)
	if err != nil {
		s.Fatal(err)
	}
	return look
}

func TestALookTellsWhoHasTheSlotsAndWhoWaits(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial, "A", "B", "C")
		s.says("A", "register 60000 20 2 17 400 0", "17,16||1")
		s.says("B", "register 30000 30 1 8 400 0", "8||1|20")
		s.says("C", "register 60000 3 1 0 400 5000", "||1|30")
		s.says("C", "again 400 3 1 0 400 5000", "||0")
		look := s.slotLook()
		var got []string
		for _, slot := range look.Slots {
			if slot.Left <= 29*time.Second || slot.Left > 60*time.Second {
				t.Errorf("slot %d is left for %v", slot.Slot, slot.Left)
			}
			got = append(got, fmt.Sprintf("%d%s%d", slot.Slot, slot.Token, slot.Limit))
		}
		if fmt.Sprint(got) != "[8B30 16A20 17A20]" || look.Taken != 3 {
			t.Errorf("the slots are %v, %d", got, look.Taken)
		}
		if w := look.Waiters; len(w) != 1 || look.Waiting != 1 || w[0].ID != "C" || w[0].Token != "C" || w[0].Permits != 1 || w[0].Limit != 3 || w[0].For < 5*time.Second {
			t.Errorf("those who wait are %+v, %d", w, look.Waiting)
		}
		s.conn.Do("ZADD", "redlock:until:k", 1, "8")
		if look := s.slotLook(); len(look.Slots) != 2 || look.Taken != 2 {
			t.Errorf("with a slot that has expired: %+v", look)
		}
	})
}

func TestALookAtManySlotsTellsHowManyThereAre(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		for i := range 3 {
			s.says(fmt.Sprint("T", i), "register 60000 1000 100 0 400 -", strings.Join(numbers(100*i, 100), ",")+"||1")
		}
		look := s.slotLook()
		if len(look.Slots) != slotsListed || look.Taken != 300 || look.Slots[slotsListed-1].Slot != slotsListed-1 {
			t.Errorf("%d slots are listed of %d", len(look.Slots), look.Taken)
		}
	})
}

// What a record lacks must not hide the rest of it.
func TestALookAtARecordThatIsNotWholeTellsTheRest(t *testing.T) {
	onBoth(t, func(t *testing.T, dial func() redis.Conn) {
		s := newSlotScene(t, dial)
		s.says("A", "register 60000 20 1 16 400 -", "16||1")
		for _, do := range [][]any{
			{"SETBIT", takenKey + "k", 1, 1}, // nobody stands there
			{"SETBIT", takenKey + "k", 2, 1},
			{"HSET", slotsKey + "k", 2, strings.Repeat("t", tokenMost+1)}, // no client's
			{"ZADD", untilKey + "k", 1e15, 2},
			{"SETBIT", takenKey + "k", 3, 1},
			{"HSET", slotsKey + "k", 3, "ended"}, // without an end
			{"SETBIT", takenKey + "k", 4, 1},
			{"HSET", slotsKey + "k", 4, "unknown"}, // nothing else is known of it
			{"ZADD", untilKey + "k", 1e15, 4},
			{"SETBIT", takenKey + "k", 5, 1},
			{"HSET", slotsKey + "k", 5, "odd", "@odd", "odd"},
			{"ZADD", untilKey + "k", 1e15, 5},
		} {
			if _, err := s.conn.Do(do[0].(string), do[1:]...); err != nil {
				t.Fatal(err)
			}
		}
		got := ""
		for _, slot := range s.slotLook().Slots {
			got += fmt.Sprintf(" %d %s %d", slot.Slot, slot.Token, slot.Limit)
		}
		if want := " 4 unknown 0 5 odd 0 16 A 20"; got != want {
			t.Errorf("the slots are%s, want%s", got, want)
		}
	})
}

func TestOnlyAClaimOnSlotsSaysHowManyItWants(t *testing.T) {
	for member, want := range map[string]string{
		"t 400 2 4 0!": "t 2 4", "t 400 128 65536 0": "t 128 65536", "t 400 1 1 0": "t 1 1",
		"t 400 2": "", "": "", "t 400 0 4 0": "", "t 400 129 4 0": "", "t 400 1 0 0": "", "t 400 1 65537 0": "", "t 400 x 4 0": "", "t 400 1 x 0": "",
	} {
		var w Waiter
		w.wants(member)
		if got := strings.TrimSpace(fmt.Sprintln(w.Token, w.Permits, w.Limit)); got != want && (want != "" || w != Waiter{}) {
			t.Errorf("%q wants %q, want %q", member, got, want)
		}
	}
}

// numbers returns n numbers from first on as text.
func numbers(first, n int) (all []string) {
	for i := range n {
		all = append(all, fmt.Sprint(first+i))
	}
	return all
}

func TestALookAtWhatIsNoSemaphoreIsAnError(t *testing.T) {
	clock := []any{[]byte("1"), []byte("0")}
	good := []any{clock, int64(1), []byte("sha"), texts("3", "2000", "token", "4"), int64(0), []byte("sha"), []any{}}
	want := []SlotTaken{{3, Holder{Token: "token", Left: time.Second, Limit: 4}}}
	if look, err := DecodeSlotLook(good); err != nil || !slices.Equal(look.Slots, want) {
		t.Errorf("a good answer: %v, %v", look, err)
	}
	if _, err := DecodeSlotLook(good[1:]); err == nil {
		t.Error("too few replies: no error")
	}
	for _, odd := range []any{redis.Error("ERR"), []any{[]byte("1")}} {
		bad := append([]any{}, good...)
		bad[0] = odd
		if _, err := DecodeSlotLook(bad); err == nil {
			t.Errorf("the clock is %v: no error", odd)
		}
	}
	for i, replies := range []any{
		redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"), int64(1), texts("3", "2000", "token"),
		texts("x", "2000", "token", "4"), texts("-1", "2000", "token", "4"), texts("65536", "2000", "token", "4"),
		texts("3", "nan?", "token", "4"), texts("3", "2000", "", "4"), texts("3", "2000", strings.Repeat("t", tokenMost+1), "4"),
		texts("3", "2000", "token", "-4"), texts("3", "2000", "token", "65537"), texts("3", "2000", "a", "4", "3", "2000", "b", "4"),
	} {
		bad := append([]any{}, good...)
		bad[3] = replies
		if look, err := DecodeSlotLook(bad); err == nil {
			t.Errorf("answer %d, %v: no error, but %v", i, replies, look)
		}
	}
	for _, score := range []string{"inf", "1e300", "nan", "-inf"} {
		odd := append([]any{}, good...)
		odd[3] = texts("3", score, "token", "4")
		if look, err := DecodeSlotLook(odd); err != nil || len(look.Slots) > 1 || len(look.Slots) == 1 && (look.Slots[0].Left <= 0 || look.Slots[0].Left > leftMost) {
			t.Errorf("an expiry of %s: %v, %v", score, look, err)
		}
	}
}
