package semaphores_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
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

func TestTheTraceTellsHowManyPermits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var mu sync.Mutex
		var events []string
		event := func(format string, args ...any) {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, fmt.Sprintf(format, args...))
		}
		trace := &redlock.Trace{
			LockStart: func(_ context.Context, i redlock.LockStartInfo) {
				event("start %s %d of %d", i.Name, i.Permits, i.Limit)
			},
			LockDone:   func(_ context.Context, i redlock.LockDoneInfo) { event("done %s %d", i.Name, i.Permits) },
			Acquired:   func(_ context.Context, i redlock.AcquiredInfo) { event("acquired %s %d", i.Name, i.Permits) },
			HandedOver: func(_ context.Context, i redlock.HandedOverInfo) { event("handed over %s %d", i.Name, i.Permits) },
			Released:   func(_ context.Context, i redlock.ReleasedInfo) { event("released %s %d", i.Name, i.Permits) },
			Lost:       func(_ context.Context, i redlock.LostInfo) { event("lost %s %d", i.Name, i.Permits) },
		}
		c := openAt(ms, time.Millisecond, &redlock.Options{Trace: trace, LockOptions: redlock.LockOptions{TTL: time.Second}, MaxTTL: time.Second})
		s := c.Semaphore("a", 3)
		p := acquire(t, s, 2)
		var in []<-chan *redlock.Permit
		for range 8 { // some of them get theirs within the process
			in = append(in, entered(s, 2))
		}
		for range in {
			p.Release()
			p = anyOf(in)
		}
		if err := p.ReleaseContext(t.Context()); err != nil {
			t.Error(err)
		}
		p = acquire(t, s, 3)
		for i := range 3 {
			ms.Master(i).Forget()
		}
		<-p.Done()
		l := c.Locker("a")
		if l.TryLock() {
			t.Error("a lock at masters in quarantine")
		}
		time.Sleep(time.Second)
		mu.Lock()
		defer mu.Unlock()
		count := make(map[string]int)
		for _, e := range events {
			count[e]++
		}
		handed := count["handed over a 2"]
		want := map[string]int{"start a 2 of 3": 9, "done a 2": 9, "handed over a 2": handed, "acquired a 2": 9 - handed, "released a 2": 9 - handed,
			"start a 3 of 3": 1, "acquired a 3": 1, "done a 3": 1, "lost a 3": 1, "start a 0 of 0": 1, "done a 0": 1}
		if handed == 0 || !maps.Equal(count, want) {
			t.Errorf("the events are\n%v, want\n%v", count, want)
		}
	})
}

// anyOf returns what comes first from one of several channels.
func anyOf(in []<-chan *redlock.Permit) *redlock.Permit {
	var cases []reflect.SelectCase
	for _, c := range in {
		cases = append(cases, reflect.SelectCase{Dir: reflect.SelectRecv, Chan: reflect.ValueOf(c)})
	}
	_, v, _ := reflect.Select(cases)
	return v.Interface().(*redlock.Permit)
}

// The masters outside the quorum of a holder give its slots to those who wait. These must not ask for them again and again.
func TestAClientThatWaitsBesideAHolderWithABareQuorumSendsFewCommands(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		s := openAt(ms, time.Millisecond, nil).Semaphore("a", 2)
		acquire(t, s, 2).Release()
		time.Sleep(time.Second)
		for i := range 3 {
			for slot := range 2 {
				ms.Master(i).SetSlot("a", slot, "killed", 6*time.Second)
			}
		}
		before := ms.Master(0).Count("EVALSHA")
		in := entered(s, 1)
		time.Sleep(5*time.Second - 200*time.Millisecond)
		if n := ms.Master(0).Count("EVALSHA") - before; n > 5*40 {
			t.Errorf("%d calls of scripts in 5 s", n)
		}
		wantEntered(t, in, 1500*time.Millisecond, "the client that waits").Release()
	})
}

// A holder whose clients do not all use Fencing for the semaphore can lock a name for its slot instead.
func TestALockForEachSlotGivesFencesThatRiseBySlot(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		last := make(map[int]uint64)
		for range 3 {
			c := openAt(ms, time.Millisecond, &redlock.Options{LockOptions: redlock.LockOptions{Fencing: true}})
			p := acquire(t, c.Semaphore("gpus", 2), 2)
			for _, slot := range p.Slots() {
				l := c.Locker(fmt.Sprint("gpus/slot-", slot))
				l.Lock()
				if f := l.Lease().Fence(); f <= last[slot] {
					t.Errorf("the fence %d of slot %d follows %d", f, slot, last[slot])
				} else {
					last[slot] = f
				}
				l.Unlock()
			}
			p.Release()
		}
	})
}

// The lock and the semaphore of one name have nothing in common.
func TestAWaitForPermitsDoesNotNameTheHolderOfTheLock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		open := func(owner string) *redlock.Client {
			return openAt(ms, time.Millisecond, &redlock.Options{Owner: owner})
		}
		lock, waiter := open("lock").Locker("a"), open("waiter")
		lock.Lock()
		defer lock.Unlock()
		defer acquire(t, open("permits").Semaphore("a", 1), 1).Release()
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		if err := waiter.Locker("a").LockContext(ctx); !strings.Contains(fmt.Sprint(err), "the holder is lock") {
			t.Errorf("LockContext: %v, want the holder", err) // the client knows it from now on
		}
		try := func(what string, acquire func(context.Context) (*redlock.Permit, error), ctx context.Context) {
			_, err := acquire(ctx)
			var q *redlock.QuorumError
			if !errors.Is(err, redlock.ErrHeld) || !errors.As(err, &q) || q.Owner != "" {
				t.Errorf("%s of a full semaphore: %v, want ErrHeld without the holder of the lock", what, err)
			}
		}
		try("TryAcquire", waiter.Semaphore("a", 1).TryAcquire, t.Context())
		ctx, cancel = context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		try("Acquire", waiter.Semaphore("a", 1).Acquire, ctx)
	})
}
