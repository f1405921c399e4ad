package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestALeaseIsRenewedForHours(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		const validity = 10*time.Second - 100*time.Millisecond - 2*time.Millisecond
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: 10 * time.Second, MaxHold: -1}}
		l := connected(t, ms, opts).Locker("a")
		other := connected(t, ms, nil).Locker("a")
		l.Lock()
		s := l.Lease()
		for range 2 * 60 {
			time.Sleep(time.Minute)
			if err := s.Err(); err != nil {
				t.Fatalf("the lease ended: %v", err)
			}
			if other.TryLock() {
				t.Fatal("somebody else got in")
			}
		}
		if got := time.Until(s.Until()); got < validity/2 || got > validity {
			t.Errorf("Until is %v away, want between two thirds and all of the validity", got)
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext after two hours = %v", err)
		}
		wantFree(t, ms, "a")
		if err := s.Err(); err != redlock.ErrReleased {
			t.Errorf("Err after the unlock = %v, want ErrReleased", err)
		}
	})
}

func TestARenewalSucceedsOnABareQuorum(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		l.Lock()
		ms.Master(0).Stop()
		ms.Master(1).Freeze()
		time.Sleep(2 * time.Minute)
		if err := l.Lease().Err(); err != nil {
			t.Errorf("with three of five masters the lease ended: %v", err)
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext = %v", err)
		}
	})
}

func TestASlowQuorumDoesNotLoseTheLease(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		l.Lock()
		for i := range 5 {
			// Nine times NodeTimeout. The next renewal still follows within the validity.
			ms.Master(i).Delay(450 * time.Millisecond)
		}
		time.Sleep(2 * time.Minute)
		if err := l.Lease().Err(); err != nil {
			t.Errorf("the lease ended: %v", err)
		}
	})
}

// The last outages end 138 ms before the lease does. By then the masters are dialled several hundred milliseconds apart, unless
// the lease makes them dial.
func TestARenewalThatFailsIsTriedAgain(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		for _, outage := range append([]time.Duration{100, 300, 500}, slices.Repeat([]time.Duration{550}, 30)...) {
			l.Lock()
			s := l.Lease()
			time.Sleep(300 * time.Millisecond) // before the renewal
			for i := range 3 {
				ms.Master(i).Fail("LOADING Redis is loading the dataset in memory")
			}
			time.Sleep(outage * time.Millisecond)
			for i := range 3 {
				ms.Master(i).Fail("")
			}
			time.Sleep(10 * time.Second)
			if err := s.Err(); err != nil {
				t.Errorf("after an outage of %d ms: %v", outage, err)
			}
			l.Unlock()
		}
	})
}

func TestAKeyThatOneMasterLostIsSetAgain(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		l.Lock()
		s := l.Lease()
		synctest.Wait()
		ms.Master(3).Del("a")
		ms.Master(4).Stop()
		ms.Master(4).Forget()
		ms.Master(4).Adopt() // otherwise its vote would not count
		ms.Master(4).Start()
		time.Sleep(3 * time.Second)
		if want := slices.Repeat([]string{s.Token()}, 5); !slices.Equal(ms.Get("a"), want) {
			t.Errorf("the masters hold %q, want the token everywhere again", ms.Get("a"))
		}
		// The healed keys count: two other masters may stop now.
		ms.Master(0).Stop()
		ms.Master(1).Stop()
		time.Sleep(10 * time.Second)
		if err := s.Err(); err != nil {
			t.Errorf("with the two that were healed and one more: %v", err)
		}
	})
}

func TestADeletedOrStolenLockIsNoticedByTheNextRenewal(t *testing.T) {
	for _, row := range []struct {
		name  string
		steal func(m *redlocktest.Master)
		why   string
	}{
		{"deleted", func(m *redlocktest.Master) { m.Del("a") }, "the key is gone"},
		{"stolen", func(m *redlocktest.Master) { m.Set("a", "theirs", time.Hour) }, "the key is somebody else's"},
	} {
		for masters := 1; masters <= 5; masters++ {
			t.Run(fmt.Sprintf("%s at %d", row.name, masters), func(t *testing.T) {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					l := connected(t, ms, short()).Locker("a")
					l.Lock()
					s := l.Lease()
					synctest.Wait()
					start := time.Now()
					for i := range masters {
						row.steal(ms.Master(i))
					}
					if masters < 3 {
						time.Sleep(10 * time.Second)
						if err := s.Err(); err != nil {
							t.Errorf("lost: %v", err)
						}
						return
					}
					<-s.Done()
					if took := time.Since(start); took > 334*time.Millisecond {
						t.Errorf("noticed after %v, want by the next renewal", took)
					}
					wantLost(t, s, row.why)
					time.Sleep(time.Second)
					token := s.Token()
					if got := ms.Get("a"); slices.Contains(got, token) {
						t.Errorf("the masters hold %q: a lost lease was not released, or was healed", got)
					}
				})
			})
		}
	}
}

// A holder pauses, its keys expire, another client locks and unlocks, and then the
// holder sends its renewal. The renewal must not succeed.
func TestARenewalFailsIfSomebodyElseHeldTheLockMeanwhile(t *testing.T) {
	for _, row := range []struct {
		name    string
		between func(t *testing.T, ms *redlocktest.Masters, other *redlock.Locker)
	}{
		{"the keys are free again", func(t *testing.T, ms *redlocktest.Masters, other *redlock.Locker) {
			locktest.Pass(other)
		}},
		{"free again, and a minority is slow", func(t *testing.T, ms *redlocktest.Masters, other *redlock.Locker) {
			locktest.Pass(other)
			ms.Master(0).Delay(100 * time.Millisecond)
			ms.Master(1).Delay(100 * time.Millisecond)
		}},
		{"free again, and a majority fails at first", func(t *testing.T, ms *redlocktest.Masters, other *redlock.Locker) {
			locktest.Pass(other)
			for i := range 3 {
				ms.Master(i).Fail("BUSY")
				time.AfterFunc(200*time.Millisecond, func() { ms.Master(i).Fail("") })
			}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				// Deleting the keys early simulates a pause of the holder, which is not possible within one
				// process. Until its first renewal the holder does not know of it.
				l := connected(t, ms, short()).Locker("a")
				other := connected(t, ms, nil).Locker("a")
				l.Lock()
				s := l.Lease()
				time.Sleep(100 * time.Millisecond)
				for i := range 5 {
					ms.Master(i).Del("a")
				}
				row.between(t, ms, other)
				<-s.Done()
				wantLost(t, s, "")
				time.Sleep(15 * time.Second)
				wantFree(t, ms, "a")
				for i := range 5 {
					for _, command := range ms.Master(i).Commands() {
						if strings.HasPrefix(command, "SET a "+s.Token()) && strings.Count(strings.Join(ms.Master(i).Commands(), "\n"), command) > 1 {
							t.Errorf("master %d was sent the key again by a renewal that failed", i+1)
						}
					}
				}
			})
		})
	}
}

func TestARenewalOnItsWayDoesNotOutliveTheUnlock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.LockOptions.MaxHold = -1
		c := connected(t, ms, opts)
		for i := range 5 {
			ms.Master(i).Delay(40 * time.Millisecond)
		}
		// Unlock at every moment around a renewal that heals a master.
		for step := range 40 {
			l := c.Locker(fmt.Sprint("a", step))
			l.Lock()
			time.Sleep(50 * time.Millisecond) // the late SETs have been executed
			ms.Master(4).Del(l.Name())
			time.Sleep(200*time.Millisecond + time.Duration(step)*5*time.Millisecond)
			l.Unlock()
			time.Sleep(200 * time.Millisecond)
			wantFree(t, ms, l.Name())
		}
	})
}

func TestRenewalsQueuedAtFrozenMastersRunAfterTheLoss(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := short()
		opts.DialTimeout = time.Minute // the connections outlast the freeze
		l := connected(t, ms, opts).Locker("a")
		other := connected(t, ms, nil).Locker("a")
		l.Lock()
		s := l.Lease()
		for i := range 3 {
			ms.Master(i).Freeze()
		}
		<-s.Done()
		for i := range 3 {
			ms.Master(i).Thaw()
		}
		time.Sleep(time.Second)
		wantLost(t, s, "")
		wantFree(t, ms, "a")
		if err := other.LockContext(t.Context()); err != nil {
			t.Fatal(err)
		}
		l.Unlock()
		time.Sleep(time.Second)
		if err := other.Lease().Err(); err != nil {
			t.Errorf("the successor lost its lease: %v", err)
		}
	})
}

func TestALateAnswerToAnEarlierRenewalCausesNoHeal(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, short()).Locker("a")
		l.Lock()
		synctest.Wait()
		ms.Master(4).Delay(400 * time.Millisecond) // more than RenewEvery
		ms.Master(4).Del("a")
		time.Sleep(5 * time.Second)
		if n := sets(ms.Master(4), "a"); n != 1 {
			t.Errorf("the slow master was sent %d SETs, want the first only", n)
		}
		ms.Master(4).Delay(0)
		time.Sleep(2 * time.Second)
		if n := sets(ms.Master(4), "a"); n != 2 {
			t.Errorf("the master that is quick again was sent %d SETs, want 2", n)
		}
	})
}

func TestTenThousandLeasesAreRenewedInBatches(t *testing.T) {
	if testing.Short() {
		t.Skip("slow under the race detector")
	}
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		const leases = 500
		for i := range leases {
			c.Locker(fmt.Sprint("a", i)).Lock()
		}
		before := ms.Master(0).Count("EVALSHA")
		time.Sleep(10 * time.Second) // three renewals of each
		calls := ms.Master(0).Count("EVALSHA") - before
		if calls > 3*leases/20 {
			t.Errorf("%d script calls for %d renewals, want batches", calls, 3*leases)
		}
		if got := len(ms.Master(0).Keys()); got != leases {
			t.Errorf("%d keys are left, want %d", got, leases)
		}
	})
}
