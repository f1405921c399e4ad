package redlocktest

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
)

// acquire acquires n permits.
func acquire(t *testing.T, s *redlock.Semaphore, n int) *redlock.Permit {
	t.Helper()
	p, err := s.AcquireN(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestThePermitsOfAClientStandInTheSlots(t *testing.T) {
	everywhere(t, func(t *testing.T, settle func()) {
		ms := StartN(t, 1)
		s := ms.Open(nil).Semaphore("gpus", 4)
		p, q := acquire(t, s, 2), acquire(t, s, 1)
		want := map[int]string{p.Slots()[0]: p.Token(), p.Slots()[1]: p.Token(), q.Slots()[0]: q.Token()}
		if got := ms.Master(0).GetSlots("gpus"); !maps.Equal(got, want) {
			t.Errorf("the slots are %v, want %v", got, want)
		}
		if err := errors.Join(p.ReleaseContext(t.Context()), q.ReleaseContext(t.Context())); err != nil {
			t.Error(err)
		}
		keys := slices.DeleteFunc(ms.Master(0).Keys(), func(key string) bool {
			return strings.HasPrefix(key, "redlock:waiter:") // notes about clients stay for some seconds
		})
		if got := ms.Master(0).GetSlots("gpus"); len(got) > 0 || len(keys) > 0 {
			t.Errorf("the slots are %v and the keys %q after the release", got, keys)
		}
	})
}

func TestASlotThatIsSetIsTakenUntilItExpires(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ms := Start(t)
		c := ms.Open(nil)
		s := c.Semaphore("gpus", 10)
		acquire(t, s, 1).Release() // it is connected
		time.Sleep(time.Second)
		for i := range 3 {
			for slot := range 10 {
				ms.Master(i).SetSlot("gpus", slot, "killed", 5*time.Second)
			}
		}
		if _, err := s.TryAcquire(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryAcquire = %v, want ErrHeld", err)
		}
		h, err := c.InspectSemaphore(t.Context(), "gpus")
		if err != nil || len(h.Slots) != 10 || !h.Slots[9].Held || h.Slots[9].Token != "killed" || len(h.Limits) > 0 {
			t.Errorf("InspectSemaphore = %+v, %v", h, err)
		}
		began := time.Now()
		p := acquire(t, s, 10)
		if waited := time.Since(began); waited < 4*time.Second || waited > 6*time.Second {
			t.Errorf("the permits came after %v, want 5s", waited)
		}
		p.Release()
	})
}

func TestASlotThatIsSetOrDeletedIsLost(t *testing.T) {
	for name, lose := range map[string]func(m *Master, p *redlock.Permit){
		"deleted": func(m *Master, _ *redlock.Permit) {
			if !m.DelSlots("gpus") || m.DelSlots("gpus") {
				t.Errorf("DelSlots does not say whether there were any")
			}
		},
		"set": func(m *Master, p *redlock.Permit) { m.SetSlot("gpus", p.Slots()[1], "other", time.Minute) },
	} {
		t.Run(name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				ms := Start(t)
				s := ms.Open(nil).Semaphore("gpus", 4)
				p := acquire(t, s, 3)
				time.Sleep(time.Second)
				for i := range 2 { // a minority
					lose(ms.Master(i), p)
				}
				time.Sleep(time.Hour)
				if err := p.Err(); err != nil {
					t.Fatalf("after the loss at a minority: %v", err)
				}
				for i := range 3 {
					lose(ms.Master(i), p)
				}
				<-p.Done()
				if err := p.Err(); !errors.Is(err, redlock.ErrLost) {
					t.Errorf("Err = %v, want ErrLost", err)
				}
				p.Release()
				time.Sleep(2 * time.Minute)
				acquire(t, s, 4).Release() // all came back
			})
		})
	}
}

// A token that is replaced in a slot keeps its others, and only these: its holder is answered by what the record has about the token.
func TestSetSlotTakesTheSlotFromTheTokenThatHadIt(t *testing.T) {
	m := StartN(t, 1).Master(0)
	for _, row := range []struct {
		slot           int
		token          string
		ofOne, ofOther string // what the record has
	}{
		{0, "one", " 400 0 - 0", ""},
		{3, "one", " 400 0 - 0,3", ""},
		{3, "one", " 400 0 - 0,3", ""},
		{3, "other", " 400 0 - 0", " 400 0 - 3"},
		{0, "other", "", " 400 0 - 3,0"},
	} {
		m.SetSlot("a", row.slot, row.token, time.Minute)
		if one, other := m.mini.HGet(slotsKey+"a", "@one"), m.mini.HGet(slotsKey+"a", "@other"); one != row.ofOne || other != row.ofOther {
			t.Errorf("slot %d is set to %s: the record has %q and %q, want %q and %q", row.slot, row.token, one, other, row.ofOne, row.ofOther)
		}
	}
	if keys, _ := m.mini.HKeys(slotsKey + "a"); len(keys) != 3 {
		t.Errorf("the record has %q, want two slots and a token", keys)
	}
}

func TestSetSlotRefusesWhatNoClientWrites(t *testing.T) {
	m := StartN(t, 1).Master(0)
	for _, set := range []func(){
		func() { m.SetSlot("a", -1, "t", time.Second) },
		func() { m.SetSlot("a", 1<<16, "t", time.Second) },
		func() { m.SetSlot("a", 0, "", time.Second) },
		func() { m.SetSlot("a", 0, "t t", time.Second) },
		func() { m.SetSlot("a", 0, "t", 0) },
	} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("SetSlot did not panic")
				}
			}()
			set()
		}()
	}
}
