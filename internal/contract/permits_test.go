package contract_test

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAClientLogsOnceThatAnotherLimitIsInUse(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const line = "clients use different limits for semaphores"
		var before, after locktest.Log
		old := openAt(ms, time.Millisecond, before.Options()).Semaphore("a", 2)
		p := acquire(t, old, 1)
		c := openAt(ms, time.Millisecond, after.Options())
		for range 3 {
			acquire(t, c.Semaphore("a", 3), 1).Release()
		}
		time.Sleep(time.Second)
		after.Want(t, 1, line, "names=a limit=3 other=2")
		after.Want(t, 1, line)
		before.Want(t, 0, line)
		acquire(t, old, 1).Release()
		p.Release()
		time.Sleep(time.Second)
		before.Want(t, 1, line, "names=a limit=2 other=3")
		acquire(t, old, 1).Release()
		time.Sleep(time.Second)
		before.Want(t, 1, line)
	})
}

func TestInspectSemaphoreTellsWhoHoldsAndWhoWaits(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		open := func(owner string) *redlock.Client {
			return openAt(ms, time.Millisecond, &redlock.Options{Owner: owner})
		}
		one, two := open("one"), open("two")
		p, q := acquire(t, one.Semaphore("gpus", 4), 2), acquire(t, two.Semaphore("gpus", 4), 1)
		began := time.Now()
		later := entered(two.Semaphore("gpus", 3), 2)
		time.Sleep(time.Second)
		h, err := one.InspectSemaphore(t.Context(), "gpus")
		if err != nil {
			t.Fatal(err)
		}
		owners := make(map[int]string)
		for _, s := range h.Slots {
			owners[s.Slot] = s.Owner
			if !s.Held || s.Masters != 5 || s.Limit != 4 || s.Left <= 5*time.Second || s.Left > 10*time.Second {
				t.Errorf("slot %+v", s)
			}
			if slices.Contains(p.Slots(), s.Slot) != (s.Token == p.Token()) {
				t.Errorf("slot %d has the token %s, and the slots of %s are %v", s.Slot, s.Token, p.Token(), p.Slots())
			}
		}
		if len(h.Slots) != 3 || h.Taken != 3 || owners[p.Slots()[0]] != "one" || owners[p.Slots()[1]] != "one" || owners[q.Slots()[0]] != "two" {
			t.Errorf("the slots are %+v, %d", h.Slots, h.Taken)
		}
		if !slices.Equal(h.Limits, []int{3, 4}) {
			t.Errorf("the limits in use are %v, want 3 and 4", h.Limits)
		}
		if len(h.Waiters) != 1 || h.Waiting != 1 {
			t.Fatalf("those who wait are %+v, %d", h.Waiters, h.Waiting)
		}
		if w := h.Waiters[0]; w.Owner != "two" || w.Permits != 2 || w.Limit != 3 || w.Since.Before(began) || w.Since.After(began.Add(100*time.Millisecond)) {
			t.Errorf("%+v waits", w)
		}
		if l, err := one.Inspect(t.Context(), "gpus"); err != nil || l.Token != "" || l.Waiting != 0 {
			t.Errorf("the lock of the same name: %+v, %v", l, err)
		}
		p.Release()
		q.Release()
		wantEntered(t, later, time.Second, "the call for two").Release()
		time.Sleep(time.Second)
		if h, err := one.InspectSemaphore(t.Context(), "gpus"); err != nil || len(h.Slots)+h.Taken+h.Waiting+len(h.Limits) != 0 {
			t.Errorf("when all is free: %+v, %v", h, err)
		}
	})
}

func TestInspectSemaphoreSaysWhatItCannotKnow(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := openAt(ms, time.Millisecond, nil)
		p := acquire(t, c.Semaphore("a", 4), 1)
		defer p.Release()
		ms.Master(0).Stop()
		h, err := c.InspectSemaphore(t.Context(), "a")
		if err != nil || len(h.Errs) != 1 || len(h.Slots) != 1 || !h.Slots[0].Held {
			t.Errorf("without one master: %+v, %v", h, err)
		}
		ms.Master(1).Set("redlock:slots:a", "a string", 0)
		h, err = c.InspectSemaphore(t.Context(), "a")
		var e *redlock.QuorumError
		if !errors.As(err, &e) || len(h.Errs) != 2 || len(h.Slots) != 1 || h.Slots[0].Held {
			t.Errorf("with a record that is none: %+v, %v", h, err)
		}
		ms.Master(1).Del("redlock:slots:a")
		if _, err := c.InspectSemaphore(t.Context(), ""); err == nil {
			t.Error("without a name: no error")
		}
		c.Close()
		if _, err := c.InspectSemaphore(t.Context(), "a"); !errors.Is(err, redlock.ErrClosed) {
			t.Errorf("of a closed Client: %v", err)
		}
	})
}
