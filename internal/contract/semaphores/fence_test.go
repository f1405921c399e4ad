package semaphores_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/wire"
	"github.com/redlock-go/redlock/redlocktest"
)

// slotFence is the key of the fence of the semaphore a.
const slotFence = "redlock:fence:redlock:slots:a"

func TestTheFencesOfPermitsRiseBySlot(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		open := func() *redlock.Semaphore {
			return openAt(ms, time.Millisecond, locktest.Fenced(&rounds)).Semaphore("a", 3)
		}
		clients := []*redlock.Semaphore{open(), open(), open()}
		time.Sleep(time.Second)
		last := make(map[int]uint64)
		for i := range 60 {
			p := acquire(t, clients[i%3], 1+i%2)
			for _, slot := range p.Slots() {
				if p.Fence() <= last[slot] || p.Fence() >= 1<<53 {
					t.Errorf("acquisition %d: slot %d has fence %d after %d, want more, and below 2⁵³", i, slot, p.Fence(), last[slot])
				}
				last[slot] = p.Fence()
			}
			if left := time.Until(p.Until()); left < 9*time.Second {
				t.Errorf("acquisition %d is valid for %v, want nearly the TTL of 10 s, which the last round gives", i, left)
			}
			if err := p.ReleaseContext(t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if two, _ := rounds.Load(2); two == nil || two.(int) < 50 {
			t.Errorf("%v of 60 acquisitions took two rounds, want nearly all", two)
		}
		synctest.Wait()
		if ttl := ms.Master(0).TTL(slotFence); ttl < 23*time.Hour || ttl > 24*time.Hour {
			t.Errorf("a fence is kept for %v, want a day", ttl)
		}
	})
}

// A master that was told of no earlier fence has a number below those of the others. The fence is above all of a quorum, and a quorum has it.
func TestTheFenceOfAPermitIsThatOfAQuorum(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var rounds sync.Map
		s := openAt(ms, time.Millisecond, locktest.Fenced(&rounds)).Semaphore("a", 2)
		time.Sleep(time.Second)
		for n, first := range []int{0, 2} { // the masters from first on answer first
			now := locktest.Ticks(time.Now().Add(500 * time.Millisecond))
			for i := range 5 {
				ms.Master(i).Set(slotFence, fmt.Sprint(now+int64(10*i)), time.Hour)
				ms.Master(i).Delay(time.Duration((i-first+5)%5) * time.Millisecond)
			}
			p := acquire(t, s, 2)
			fence, _ := number(p.Fence())
			synctest.Wait()
			kept := 0
			for i := range 5 {
				text, _ := ms.Master(i).Get(slotFence)
				var at int64
				fmt.Sscan(text, &at)
				if at >= fence {
					kept++
				}
			}
			if want := now + int64(10*(first+2)) + 1; fence < want || kept < 3 {
				t.Errorf("%d: the fence is %d, and %d masters have it; want %d or more, and a quorum", n, fence, kept, want)
			}
			p.Release()
			time.Sleep(100 * time.Millisecond)
		}
		if three, _ := rounds.Load(3); three != 2 {
			t.Errorf("%v acquisitions took three rounds, want 2", three)
		}
	})
}

// A permit whose fence no quorum acknowledges is not held, although it was won.
func TestAPermitIsNotHeldBeforeAQuorumHasItsFence(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		s := openAt(ms, time.Millisecond, locktest.Fenced(nil)).Semaphore("a", 2)
		time.Sleep(time.Second)
		for i := range 2 {
			ms.Master(i).Set(slotFence, "x", time.Hour) // by hand
		}
		p, err := s.TryAcquire(t.Context())
		var e *redlock.QuorumError
		if !errors.As(err, &e) || errors.Is(err, redlock.ErrHeld) {
			p.Release()
			t.Fatalf("TryAcquire = %v, %v, want an error about the fence", p.Fence(), err)
		}
		t.Log(err)
		for i := range 2 {
			ms.Master(i).Set(slotFence, fmt.Sprint(locktest.Ticks(time.Now().Add(time.Hour))), time.Hour)
		}
		if p, err := s.TryAcquire(t.Context()); err == nil {
			p.Release()
			t.Fatalf("TryAcquire = %v with a number that is an hour ahead", p.Fence())
		}
		time.Sleep(time.Second)
		for i := range 3 {
			if slots := ms.Master(i).GetSlots("a"); len(slots) > 0 {
				t.Errorf("master %d has %v in its slots", i, slots)
			}
			ms.Master(i).Del(slotFence)
		}
		acquire(t, s, 2).Release()
	})
}

// The first quorum of answers may not suffice: the nearest master's number is far ahead of the clock, or it stands in other slots. The acquisition
// succeeds at once, since the others' answers do.
func TestTheFenceOfAPermitDoesNotNeedTheNearestMaster(t *testing.T) {
	for _, row := range []struct {
		name    string
		n       int
		prepare func(ms *redlocktest.Masters)
	}{
		{"far ahead", 1, func(ms *redlocktest.Masters) {
			ms.Master(0).Set(slotFence, fmt.Sprint(locktest.Ticks(time.Now().Add(time.Hour))), time.Hour)
		}},
		{"other slots", 2, func(ms *redlocktest.Masters) { // it gives slots 1 and 2, and the others give 0 and 1
			ms.Master(0).SetSlot("a", 0, "another", time.Hour)
			ms.Master(1).SetSlot("a", 2, "another", time.Hour)
			ms.Master(2).SetSlot("a", 2, "another", time.Hour)
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				c := ms.WithDelays(time.Millisecond, 3*time.Millisecond, 5*time.Millisecond).Open(locktest.Fenced(nil))
				time.Sleep(time.Second)
				row.prepare(ms)
				began := time.Now()
				p := acquire(t, c.Semaphore("a", 3), row.n)
				defer p.Release()
				if took := time.Since(began); took > 40*time.Millisecond || p.Fence() == 0 || p.Fence() > uint64(locktest.Ticks(time.Now().Add(time.Second)))<<wire.FenceBits {
					t.Errorf("slots %v with fence %d after %v", p.Slots(), p.Fence(), took)
				}
			})
		})
	}
}

// When the second round ends, the slots of the first one's quorum must not have expired: another client can have held them since. The numbers are
// ahead of the clock, and the client waits for nearly the validity before it commits them.
func TestAPermitIsNotHeldWhenTheFirstRoundOfItsFenceHasExpired(t *testing.T) {
	for _, v := range []struct {
		oneWay time.Duration
		held   bool
	}{{20 * time.Millisecond, true}, {60 * time.Millisecond, false}} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			opts := locktest.Fenced(nil)
			opts.MaxTTL = 30 * time.Second
			far := v.oneWay + 5*time.Millisecond // its number comes too late for the first round
			s := ms.WithDelays(v.oneWay, v.oneWay, far).Open(opts).Semaphore("a", 1)
			time.Sleep(40 * time.Second)
			round := 2 * v.oneWay
			ahead := time.Now().Add(round + 10800*time.Millisecond) // the first round begins after the one that wins
			for i := range 3 {
				ms.Master(i).Set(slotFence, fmt.Sprint(locktest.Ticks(ahead)+int64(i)), time.Hour)
			}
			began := time.Now()
			p, err := s.TryAcquire(t.Context())
			took := time.Since(began) - round
			if took < 9800*time.Millisecond || took > 9810*time.Millisecond+round {
				t.Fatalf("the rounds took %v (%v)", took, err)
			}
			if (err == nil) != v.held {
				t.Fatalf("after %v, TryAcquire = %v; held %v, want %v", took, err, err == nil, v.held)
			}
			if err == nil {
				p.Release()
			} else if !strings.Contains(err.Error(), "the votes of the first round have expired") {
				t.Error(err)
			}
			time.Sleep(time.Second)
			for i := range 3 {
				if slots := ms.Master(i).GetSlots("a"); len(slots) > 0 {
					t.Errorf("master %d has %v in its slots", i, slots)
				}
			}
		})
	}
}

func TestAHandoverOfAPermitRaisesItsFence(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := locktest.Fenced(nil)
		opts.LockOptions.Handover = time.Second
		s := openAt(ms, time.Millisecond, opts).Semaphore("a", 1)
		p := acquire(t, s, 1)
		in := entered(s, 1)
		time.Sleep(100 * time.Millisecond)
		p.Release()
		next := wantEntered(t, in, time.Second, "the next goroutine")
		defer next.Release()
		if next.Token() != p.Token() || next.Fence() != p.Fence()+1 {
			t.Errorf("the fence %d follows %d, handed over %v; want one more", next.Fence(), p.Fence(), next.Token() == p.Token())
		}
	})
}

// Clients with and without Fencing share the permits. Those without have no fence, and those with it have fences that rise by slot.
func TestFencedPermitsBesideOthers(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		fenced, plain := openAt(ms, time.Millisecond, locktest.Fenced(nil)).Semaphore("a", 2), openAt(ms, time.Millisecond, nil).Semaphore("a", 2)
		var mu sync.Mutex
		last, inside := make(map[int]uint64), make(map[int]bool)
		var all sync.WaitGroup
		for i := range 6 {
			s, is := fenced, i%2 == 0
			if !is {
				s = plain
			}
			all.Go(func() {
				for range 20 {
					p := acquire(t, s, 1)
					slot := p.Slots()[0]
					mu.Lock()
					if inside[slot] {
						t.Errorf("two have slot %d", slot)
					}
					inside[slot] = true
					if (p.Fence() > last[slot]) != is {
						t.Errorf("slot %d has fence %d after %d, fenced %v", slot, p.Fence(), last[slot], is)
					}
					last[slot] = max(last[slot], p.Fence())
					mu.Unlock()
					time.Sleep(5 * time.Millisecond)
					mu.Lock()
					inside[slot] = false
					mu.Unlock()
					p.Release()
				}
			})
		}
		all.Wait()
	})
}

// Without Fencing nothing is sent for it, and with it one command more.
func TestAFenceCostsAPermitOneCommand(t *testing.T) {
	for _, v := range []struct {
		opts *redlock.Options
		want int
	}{{nil, 2}, {locktest.Fenced(nil), 3}} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			s := openAt(ms, time.Millisecond, v.opts).Semaphore("a", 2)
			acquire(t, s, 1).Release() // which loads the script
			time.Sleep(time.Second)
			ms.Master(0).Commands()
			before, all := ms.Master(0).Count("EVALSHA"), len(ms.Master(0).Commands())
			p := acquire(t, s, 1)
			p.Release()
			time.Sleep(100 * time.Millisecond)
			if n := ms.Master(0).Count("EVALSHA") - before; n != v.want {
				t.Errorf("%d calls of scripts, want %d: %q", n, v.want, ms.Master(0).Commands()[all:])
			}
			if _, is := ms.Master(0).Get(slotFence); is != (v.opts != nil) {
				t.Errorf("with a fence %v, there is a key %v", v.opts != nil, is)
			}
			if (p.Fence() != 0) != (v.opts != nil) {
				t.Errorf("the fence is %d", p.Fence())
			}
		})
	}
}
