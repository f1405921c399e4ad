package semaphores_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// A holder stands in its slots at all masters, and nowhere else. Otherwise a master would keep back a slot that nobody has.
func TestAHolderLeavesTheOtherSlotsAndTheQueueOfAMasterThatDidNotGiveItItsSlot(t *testing.T) {
	for _, row := range []struct {
		name   string
		full   bool            // the third master has no free slot: the claim waits there; otherwise it has another one
		delays []time.Duration // of the masters
	}{
		{"another slot, known when the permit is won", false, []time.Duration{time.Millisecond, time.Millisecond, 0}},
		{"another slot, known later", false, []time.Duration{0, 0, time.Millisecond}},
		{"the queue, known when the permit is won", true, []time.Duration{time.Millisecond, time.Millisecond, 0}},
		{"the queue, known later", true, []time.Duration{0, 0, time.Millisecond}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				s := openAt(ms, 0, nil).Semaphore("a", 2)
				for i, d := range row.delays {
					ms.Master(i).Delay(d)
				}
				ms.Master(0).SetSlot("a", 1, "one", time.Hour)
				ms.Master(1).SetSlot("a", 1, "one", time.Hour)
				ms.Master(2).SetSlot("a", 0, "two", time.Hour)
				if row.full {
					ms.Master(2).SetSlot("a", 1, "one", time.Hour)
				}
				p := acquire(t, s, 1)
				defer p.Release()
				if got := p.Slots(); !slices.Equal(got, []int{0}) {
					t.Fatalf("the permit has slots %v, want 0", got)
				}
				time.Sleep(500 * time.Millisecond)
				if got := ms.Master(2).GetSlots("a")[1]; got == p.Token() {
					t.Error("the third master keeps slot 1 for the holder of slot 0")
				}
				if n := permitQueue(t, ms, 2, "a"); n != 0 {
					t.Errorf("%d claims wait at the third master, want none: nobody waits", n)
				}
			})
		})
	}
}

// A call takes no permit while as many are held as its own limit allows. So no permit is passed on to it from a call of a higher limit.
func TestAPermitIsNotPassedOnToACallOfALowerLimit(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Handover: time.Hour}})
		var held []*redlock.Permit
		for range 4 {
			held = append(held, acquire(t, c.Semaphore("a", 4), 1))
		}
		in := entered1(c.Semaphore("a", 2))
		time.Sleep(100 * time.Millisecond)
		for left := 3; left > 1; left-- {
			held[left].Release()
			time.Sleep(time.Second)
			select {
			case p := <-in:
				t.Fatalf("a call of limit 2 has slot %v beside %d others", p.Slots(), left)
			default:
			}
		}
		held[1].Release()
		held[0].Release()
		(<-in).Release()
	})
}

// A permit of two is not passed on to a call for one, whose turn it is not, nor one of two holders' permits to a call for two.
func TestAPermitIsPassedOnToACallForAsManyOnly(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var handed int
		opts := &redlock.Options{LockOptions: redlock.LockOptions{Handover: time.Hour}}
		opts.Trace = &redlock.Trace{HandedOver: func(context.Context, redlock.HandedOverInfo) { handed++ }}
		s := connected(t, ms, opts).Semaphore("a", 2)
		for _, first := range []int{1, 2} {
			var held []*redlock.Permit
			for n := 0; n < 2; n += first {
				held = append(held, acquire(t, s, first))
			}
			in := entered(s, 3-first)
			time.Sleep(100 * time.Millisecond)
			for _, p := range held {
				p.Release()
			}
			next := wantEntered(t, in, time.Second, "the next call")
			if got := len(next.Slots()); got != 3-first || handed > 0 {
				t.Errorf("a call for %d has %d slots, and %d permits were handed over; want none", 3-first, got, handed)
			}
			next.Release()
			time.Sleep(time.Second)
		}
	})
}

// Each permit that the process holds may soon be released, and then another claim takes it in one trip.
func TestAsManyClaimsOfAClientWaitAtTheMastersAsItHoldsPermits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const limit, n = 8, 20
		s := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{Handover: -1}}).Semaphore("a", limit)
		ctx, cancel := context.WithCancel(t.Context())
		var held []*redlock.Permit
		for range limit {
			held = append(held, acquire(t, s, 1))
		}
		for range n {
			go s.Acquire(ctx)
		}
		time.Sleep(time.Second)
		if got := permitQueue(t, ms, 0, "a"); got != limit {
			t.Errorf("%d claims wait at a master while the process holds %d permits, want as many", got, limit)
		}
		cancel()
		for _, p := range held {
			p.Release()
		}
		time.Sleep(time.Second)
		other := acquire(t, connected(t, ms, nil).Semaphore("a", limit), limit)
		ctx, cancel = context.WithCancel(t.Context())
		for range n {
			go s.Acquire(ctx)
		}
		time.Sleep(time.Second)
		if got := permitQueue(t, ms, 0, "a"); got != 4 {
			t.Errorf("%d claims wait at a master while the process holds no permits, want 4", got)
		}
		cancel()
		other.Release()
	})
}

// That the last call has had to wait does not make the next one slower that does not wait.
func TestATryThatFollowsAWaitTakesOneRoundTrip(t *testing.T) {
	const oneWay = 10 * time.Millisecond
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		s := openAt(ms, oneWay, nil).Semaphore("a", 1)
		p := acquire(t, openAt(ms, oneWay, nil).Semaphore("a", 1), 1)
		in := entered(s, 1)
		p.Release()
		(<-in).Release()
		time.Sleep(5 * time.Second)
		began := time.Now()
		q, err := s.TryAcquire(t.Context())
		if took := time.Since(began); err != nil || took > 2*oneWay+oneWay/2 {
			t.Fatalf("TryAcquire took %v, want a round trip: %v", took, err)
		}
		q.Release()
	})
}
