package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// noHandover returns options with which each goroutine acquires the lock from the masters.
func noHandover() *redlock.Options {
	return &redlock.Options{LockOptions: redlock.LockOptions{Handover: -1}}
}

func TestUnlockDoesNotWaitForTheMasters(t *testing.T) {
	for _, frozen := range []int{0, 2, 5} {
		t.Run(fmt.Sprint(frozen, " frozen"), func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := openAt(ms, 20*time.Millisecond, nil)
				l := c.Locker("a")
				l.Lock()
				for i := range frozen {
					ms.Master(i).Freeze()
				}
				began := time.Now()
				l.Unlock()
				if took := time.Since(began); took != 0 {
					t.Errorf("Unlock took %v, want no time", took)
				}
				time.Sleep(20 * time.Millisecond)
				synctest.Wait()
				if n := len(holders(ms, "a")); n != frozen {
					t.Errorf("one way later %d masters keep the key, want the %d that are frozen", n, frozen)
				}
				for i := range frozen {
					ms.Master(i).Thaw()
				}
				time.Sleep(20 * time.Millisecond)
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestALockAndUnlockTakesOneRoundTrip(t *testing.T) {
	const oneWay, passes = 20 * time.Millisecond, 10
	for name, nameOf := range map[string]func(i int) string{
		"the same name":  func(int) string { return "a" },
		"changing names": func(i int) string { return fmt.Sprint("a", i) },
	} {
		for _, fencing := range []bool{false, true} {
			t.Run(fmt.Sprint(name, ", fencing ", fencing), func(t *testing.T) {
				bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
					c := openAt(ms, oneWay, &redlock.Options{LockOptions: redlock.LockOptions{Fencing: fencing}})
					began := time.Now()
					for i := range passes {
						locktest.Pass(c.Locker(nameOf(i)))
					}
					if took, want := time.Since(began), passes*2*oneWay; took != want {
						t.Errorf("%d passes took %v, want %v", passes, took, want)
					}
				})
			})
		}
	}
}

// A Client that locks one name all the time leaves a gap of one round trip now and then: see
// TestALoopOfLocksLeavesGaps.
func TestAThousandLocksTakeHardlyMoreThanOneRoundTripEach(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const oneWay, passes = time.Millisecond, 1000
		l := openAt(ms, oneWay, nil).Locker("a")
		began := time.Now()
		for range passes {
			locktest.Pass(l)
		}
		if took, most := time.Since(began), passes*2*oneWay*107/100; took > most {
			t.Errorf("%d passes took %v, want %v at most", passes, took, most)
		}
	})
}

func TestTryLockAfterUnlockSucceeds(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := ms.WithDelays(1e6, 1e6, 20e6, 40e6, 5e6).Open(nil)
		time.Sleep(time.Second)
		l, other := c.Locker("a"), c.Locker("a")
		for i := range 100 {
			if err := l.TryLockContext(t.Context()); err != nil {
				t.Fatalf("TryLock %d after Unlock: %v", i, err)
			}
			l.Unlock()
			if !other.TryLock() {
				t.Fatalf("TryLock %d of another Locker of the name failed after Unlock", i)
			}
			other.Unlock()
		}
		time.Sleep(time.Second)
		wantFree(t, ms, "a")
	})
}

func TestUnlockReportsTheReleaseLater(t *testing.T) {
	for _, row := range []struct {
		name string
		harm func(ms *redlocktest.Masters)
		want func(err error) bool
		log  string
	}{
		{"it succeeds", func(*redlocktest.Masters) {}, func(err error) bool { return err == nil }, ""},
		{"the key is gone", func(ms *redlocktest.Masters) {
			for i := range 3 {
				ms.Master(i).Del("a")
			}
		}, func(err error) bool { return errors.Is(err, redlock.ErrLost) }, "leases were lost"},
		{"a majority is frozen", func(ms *redlocktest.Masters) {
			for i := range 3 {
				ms.Master(i).Freeze()
			}
		}, func(err error) bool {
			votes := (*redlock.QuorumError)(nil)
			return errors.As(err, &votes) && votes.Granted == 2
		}, "releases were not answered"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				var log logged
				opts := log.Options()
				released := make(chan redlock.ReleasedInfo, 10)
				opts.Trace = &redlock.Trace{Released: func(_ context.Context, info redlock.ReleasedInfo) { released <- info }}
				c := openAt(ms, time.Millisecond, opts)
				l := c.Locker("a")
				l.Lock()
				time.Sleep(time.Second)
				row.harm(ms)
				l.Unlock()
				if len(released) != 0 {
					t.Error("Released was called before a master could answer")
				}
				info := <-released
				if !row.want(info.Err) {
					t.Errorf("Released says %v", info.Err)
				}
				if want := time.Second + 2*time.Millisecond; info.Held != want {
					t.Errorf("Released says that the lock was held for %v, want %v", info.Held, want)
				}
				for i := range 5 {
					ms.Master(i).Thaw()
				}
				time.Sleep(5 * time.Second)
				wantFree(t, ms, "a")
				if len(released) != 0 {
					t.Error("Released was called twice")
				}
				if n := len(log.Lines("level=WARN", "names=a")); (n == 1) != (row.log != "") || row.log != "" && len(log.Lines(row.log)) != 1 {
					t.Errorf("the log has %d lines about the lock, want %q in one or none; the log:\n%s", n, row.log, log.String())
				}
			})
		})
	}
}

// The connections end while the release is under way, before or after the next SET. The release is then owed,
// and goes first on the next connection.
func TestConnectionsThatEndBehindAnUnlockLeaveNoKey(t *testing.T) {
	for _, row := range []struct {
		name string
		harm func(m *redlocktest.Master)
	}{
		{"a lost release", func(m *redlocktest.Master) { m.DropRequest("EVALSHA") }},
		{"a lost reply", func(m *redlocktest.Master) { m.LoseReply("EVALSHA") }},
		{"a cut", (*redlocktest.Master).Cut},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := openAt(ms, 5*time.Millisecond, nil)
				l := c.Locker("a")
				for range 10 {
					l.Lock()
					for i := range 5 {
						row.harm(ms.Master(i))
					}
					l.Unlock()
					began := time.Now()
					l.Lock()
					if took := time.Since(began); took > time.Second {
						t.Errorf("Lock took %v after the connections had ended", took)
					}
					l.Unlock()
					time.Sleep(10 * time.Second)
					wantFree(t, ms, "a")
				}
			})
		})
	}
}

func TestUnlockAfterALossIsNoMisuse(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := loseLease(c, ms, "a")
		<-l.Lease().Done()
		l.Unlock()
		if !l.TryLock() {
			t.Error("TryLock after the unlock of a lost lease failed")
		}
		l.Unlock()
		defer func() {
			if p := recover(); p != "redlock: unlock of unlocked Locker" {
				t.Errorf("a second Unlock panics with %v", p)
			}
		}()
		l.Unlock()
	})
}
