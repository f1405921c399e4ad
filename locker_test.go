package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// bubble runs f in a synctest bubble with n embedded masters: time is virtual
// there, and a goroutine that is left behind fails the test.
func bubble(t *testing.T, n int, f func(t *testing.T, ms *redlocktest.Masters)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, redlocktest.StartN(t, n)) })
}

// connected returns a Client whose masters are all up.
func connected(t *testing.T, ms *redlocktest.Masters, opts *redlock.Options) *redlock.Client {
	t.Helper()
	c := ms.Open(opts)
	synctest.Wait()
	for _, m := range c.Masters() {
		if m.State != redlock.MasterUp {
			t.Fatalf("%s is %s: %v", m.Name, m.State, m.Err)
		}
	}
	return c
}

// holders returns the masters' values of a key that are not empty.
func holders(ms *redlocktest.Masters, key string) []string {
	return slices.DeleteFunc(ms.Get(key), func(s string) bool { return s == "" })
}

// wantFree fails t if a key is left on any master.
func wantFree(t *testing.T, ms *redlocktest.Masters, key string) {
	t.Helper()
	synctest.Wait()
	if got := holders(ms, key); len(got) != 0 {
		t.Errorf("%d masters keep the key %q, want none", len(got), key)
	}
}

// pass locks and unlocks.
func pass(l sync.Locker) {
	l.Lock()
	//lint:ignore SA2001 it is the locking that is tested
	l.Unlock()
}

// hold sets the key at some masters as another client would.
func hold(ms *redlocktest.Masters, key string, masters ...int) {
	for _, i := range masters {
		ms.Master(i).Set(key, "somebody else's", 0)
	}
}

func TestALockIsOneTokenAtAllMasters(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, &redlock.Options{Prefix: "shop:"}).Locker("stock")
		if l.Name() != "stock" || l.Lease() != nil {
			t.Errorf("Name, Lease = %q, %v before locking, want stock, nil", l.Name(), l.Lease())
		}
		l.Lock()
		synctest.Wait()
		s := l.Lease()
		if want := slices.Repeat([]string{s.Token()}, 5); !slices.Equal(ms.Get("shop:stock"), want) {
			t.Errorf("the masters hold %q, want the token everywhere", ms.Get("shop:stock"))
		}
		if len(s.Token()) < 27 { // 20 bytes in base64
			t.Errorf("the token %q is too short for 20 random bytes", s.Token())
		}
		l.Unlock()
		wantFree(t, ms, "shop:stock")
		if l.Lease() != nil {
			t.Error("Lease is not nil after the unlock")
		}
	})
}

func TestEveryAcquisitionHasItsOwnToken(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		seen := make(map[string]bool)
		for range 100 {
			l.Lock()
			seen[l.Lease().Token()] = true
			l.Unlock()
		}
		if len(seen) != 100 {
			t.Errorf("100 acquisitions had %d tokens", len(seen))
		}
	})
}

func TestLockersOfOneNameExcludeEachOther(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		here, there := connected(t, ms, nil), connected(t, ms, nil)
		first := here.Locker("a")
		first.Lock()
		for _, other := range []*redlock.Locker{first, here.Locker("a"), there.Locker("a")} {
			if other.TryLock() {
				t.Error("TryLock of a held lock succeeded")
			}
			if err := other.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
				t.Errorf("TryLockContext of a held lock = %v, want ErrHeld", err)
			}
		}
		if b := there.Locker("b"); !b.TryLock() {
			t.Error("a lock of another name is not free")
		} else {
			b.Unlock()
		}
		first.Unlock()
		if second := there.Locker("a"); !second.TryLock() {
			t.Error("TryLock of a released lock failed")
		} else {
			second.Unlock()
		}
	})
}

func TestLockWaitsUntilTheLockIsReleased(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		a, b := connected(t, ms, nil).Locker("a"), connected(t, ms, nil).Locker("a")
		a.Lock()
		start := time.Now()
		go func() {
			time.Sleep(3 * time.Second)
			a.Unlock()
		}()
		b.Lock()
		waited := time.Since(start)
		b.Unlock()
		if waited < 3*time.Second || waited > 3*time.Second+500*time.Millisecond {
			t.Errorf("Lock waited for %v, want 3s and one step of the schedule at most", waited)
		}
	})
}

func TestAGoroutineMayUnlockWhatAnotherLocked(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		done := make(chan struct{})
		go func() {
			defer close(done)
			l.Unlock()
		}()
		<-done
		wantFree(t, ms, "a")
	})
}

func TestGoroutinesLockInTheOrderOfTheirComing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		l.Lock()
		var order []int
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				l.Lock()
				defer l.Unlock()
				order = append(order, i)
			})
			synctest.Wait()
		}
		if sets := ms.Master(0).Count("SET"); sets != 1 {
			t.Errorf("%d SETs were sent while goroutines waited at the gate, want the holder's 1", sets)
		}
		l.Unlock()
		wg.Wait()
		if want := []int{0, 1, 2, 3, 4, 5, 6, 7}; !slices.Equal(order, want) {
			t.Errorf("order = %v, want %v", order, want)
		}
	})
}

func TestSilentMastersDoNotDelayADecision(t *testing.T) {
	for _, row := range []struct {
		name   string
		held   []int // masters where somebody else's token stands
		silent []int // frozen
		dead   []int // stopped
		want   string
		after  time.Duration
	}{
		{name: "all free", want: "locked"},
		{name: "a minority is silent", silent: []int{0, 1}, want: "locked"},
		{name: "a minority is dead", dead: []int{3, 4}, want: "locked"},
		{name: "a minority holds", held: []int{1, 2}, want: "locked"},
		{name: "one silent, one holds", held: []int{1}, silent: []int{2}, want: "locked"},
		{name: "a majority holds", held: []int{0, 1, 2}, want: "held"},
		{name: "a majority holds, the rest is silent", held: []int{0, 1, 2}, silent: []int{3, 4}, want: "held"},
		{name: "two hold, one is silent", held: []int{0, 1}, silent: []int{2}, want: "no quorum", after: 50 * time.Millisecond},
		{name: "two hold, one is dead", held: []int{0, 1}, dead: []int{2}, want: "no quorum"},
		{name: "a majority is silent", silent: []int{0, 1, 2}, want: "no quorum", after: 50 * time.Millisecond},
		{name: "a majority is dead", dead: []int{0, 1, 2}, want: "no quorum"},
		{name: "all are dead", dead: []int{0, 1, 2, 3, 4}, want: "no quorum"},
		{name: "dead masters do not hide a holder", held: []int{0, 1, 2}, dead: []int{3, 4}, want: "held"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c := connected(t, ms, nil)
				hold(ms, "a", row.held...)
				for _, i := range row.silent {
					ms.Master(i).Freeze()
				}
				for _, i := range row.dead {
					ms.Master(i).Stop()
				}
				if len(row.dead) > 0 {
					time.Sleep(1500 * time.Millisecond) // the heartbeat finds them dead
				}
				l := c.Locker("a")
				start := time.Now()
				err := l.TryLockContext(t.Context())
				if took := time.Since(start); took != row.after {
					t.Errorf("decided after %v, want %v", took, row.after)
				}
				if got := outcome(err); got != row.want {
					t.Errorf("TryLockContext: %s (%v), want %s", got, err, row.want)
				}
				if err == nil {
					start := time.Now()
					l.Unlock()
					if took := time.Since(start); took != 0 {
						t.Errorf("Unlock took %v, want no wait", took)
					}
				}
			})
		})
	}
}

// outcome names what an attempt's error says.
func outcome(err error) string {
	var quorum *redlock.QuorumError
	switch {
	case err == nil:
		return "locked"
	case errors.Is(err, redlock.ErrHeld):
		return "held"
	case errors.As(err, &quorum):
		return "no quorum"
	}
	return "error"
}

func TestAMajorityIsNeededOfAnyNumberOfMasters(t *testing.T) {
	for n := 1; n <= 6; n++ {
		for dead := range n + 1 {
			t.Run(fmt.Sprintf("%d of %d dead", dead, n), func(t *testing.T) {
				bubble(t, n, func(t *testing.T, ms *redlocktest.Masters) {
					for i := range dead {
						ms.Master(i).Stop()
					}
					want := "no quorum"
					if n-dead >= n/2+1 {
						want = "locked"
					}
					l := ms.Open(nil).Locker("a")
					err := l.TryLockContext(t.Context())
					if got := outcome(err); got != want {
						t.Errorf("TryLockContext: %s (%v), want %s", got, err, want)
					}
					if err == nil {
						l.Unlock()
					}
				})
			})
		}
	}
}

func TestAFailedAttemptLeavesNoKey(t *testing.T) {
	for _, row := range []struct {
		name  string
		fault func(ms *redlocktest.Masters)
		mend  func(ms *redlocktest.Masters)
		want  string
	}{
		{
			name:  "refused by a majority",
			fault: func(ms *redlocktest.Masters) { hold(ms, "a", 0, 1, 2) },
			mend: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Del("a")
				}
			},
			want: "held",
		},
		{
			name: "executed, reply lost",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).LoseReply("SET")
				}
			},
			want: "no quorum",
		},
		{
			name: "never executed",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).DropRequest("SET")
				}
			},
			want: "no quorum",
		},
		{
			name: "frozen, thawed soon",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Freeze()
				}
			},
			mend: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Thaw()
				}
			},
			want: "no quorum",
		},
		{
			name: "frozen, thawed after the connection was given up",
			fault: func(ms *redlocktest.Masters) {
				for i := range 3 {
					ms.Master(i).Freeze()
				}
			},
			mend: func(ms *redlocktest.Masters) {
				time.Sleep(5 * time.Second)
				for i := range 3 {
					ms.Master(i).Thaw()
				}
			},
			want: "no quorum",
		},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				// A key that nobody deletes would stay for an hour.
				opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
				l := connected(t, ms, opts).Locker("a")
				row.fault(ms)
				if err := l.TryLockContext(t.Context()); outcome(err) != row.want {
					t.Errorf("TryLockContext = %v, want %s", err, row.want)
				}
				if row.mend != nil {
					row.mend(ms)
				}
				time.Sleep(15 * time.Second) // reconnected, and the release repeated
				wantFree(t, ms, "a")
			})
		})
	}
}

func TestAReleaseIsOwedUntilItsMasterAnswers(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		synctest.Wait()
		ms.Master(0).Stop() // keeps its memory
		ms.Master(1).Freeze()
		l.Unlock()
		synctest.Wait()
		if got := len(holders(ms, "a")); got != 2 {
			t.Fatalf("%d masters keep the key, want the stopped and the frozen one", got)
		}
		time.Sleep(10 * time.Minute)
		ms.Master(0).Start()
		ms.Master(1).Thaw()
		time.Sleep(15 * time.Second)
		wantFree(t, ms, "a")
	})
}

func TestAReleaseThatWasAnsweredByAnErrorIsOwed(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}}
		l := connected(t, ms, opts).Locker("a")
		l.Lock()
		synctest.Wait()
		for i := range 3 {
			ms.Master(i).Fail("BUSY Redis is busy running a script")
		}
		l.Unlock()
		time.Sleep(time.Minute)
		if got := len(holders(ms, "a")); got != 3 {
			t.Fatalf("%d masters keep the key, want the three that answer errors", got)
		}
		for i := range 3 {
			ms.Master(i).Fail("")
		}
		time.Sleep(1500 * time.Millisecond)
		wantFree(t, ms, "a")
	})
}

func TestScriptsThatWereFlushedAreLoadedAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Hour}})
		l := c.Locker("a")
		l.Lock()
		synctest.Wait()
		for i := range 3 {
			conn := ms.Pools()[i].Get()
			if _, err := conn.Do("SCRIPT", "FLUSH"); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext after SCRIPT FLUSH = %v", err)
		}
		wantFree(t, ms, "a")
	})
}

func TestAPanicInTheUsersFunctionsFreesTheLock(t *testing.T) {
	for _, row := range []struct {
		name string
		opts func() *redlock.Options
		held bool
	}{
		{name: "Acquired", opts: func() *redlock.Options {
			return &redlock.Options{Trace: &redlock.Trace{Acquired: func(context.Context, redlock.AcquiredInfo) { panic("mine") }}}
		}},
		{name: "AttemptDone", opts: func() *redlock.Options {
			return &redlock.Options{Trace: &redlock.Trace{AttemptDone: func(context.Context, redlock.AttemptInfo) { panic("mine") }}}
		}},
		{name: "NewBackOff", held: true, opts: func() *redlock.Options {
			return &redlock.Options{NewBackOff: func() redlock.BackOff { panic("mine") }}
		}},
		{name: "a nil BackOff", held: true, opts: func() *redlock.Options {
			return &redlock.Options{NewBackOff: func() redlock.BackOff { return nil }}
		}},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, row.opts()).Locker("a")
				if row.held {
					hold(ms, "a", 0, 1, 2)
				}
				for _, lock := range []func(){l.Lock, func() { l.TryLock() }} {
					func() {
						defer func() { recover() }()
						lock()
					}()
				}
				for i := range 3 {
					if row.held {
						ms.Master(i).Del("a")
					}
				}
				wantFree(t, ms, "a")
				func() {
					defer func() { recover() }()
					if err := l.TryLockContext(t.Context()); err != nil {
						t.Errorf("TryLockContext after a panic = %v, want the gate to be free", err)
					}
				}()
			})
		})
	}
}

func TestAMasterThatNeverGotTheSetIsOwedNothing(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ms.Master(0).Stop()
		l := ms.Open(nil).Locker("a")
		for range 100 {
			pass(l)
		}
		ms.Master(0).Start()
		time.Sleep(15 * time.Second)
		for _, command := range ms.Master(0).Commands() {
			if strings.HasPrefix(command, "EVALSHA") && strings.Contains(command, "release") {
				t.Errorf("%s was sent, of locks that the master never saw", command)
			}
		}
	})
}

func TestALateUnlockTouchesNoSuccessor(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, RenewEvery: -1}}
		stale, next := connected(t, ms, opts).Locker("a"), connected(t, ms, nil).Locker("a")
		stale.Lock()
		s := stale.Lease()
		ms.Get("a") // a look makes miniredis expire what is due
		time.Sleep(2 * time.Second)
		if s.Valid() {
			t.Error("a lease of 1s is valid after 2s")
		}
		if err := next.LockContext(t.Context()); err != nil {
			t.Fatalf("LockContext after the lease ran out = %v", err)
		}
		if err := stale.UnlockContext(t.Context()); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("the late UnlockContext = %v, want ErrLost", err)
		}
		synctest.Wait()
		if want := slices.Repeat([]string{next.Lease().Token()}, 5); !slices.Equal(ms.Get("a"), want) {
			t.Errorf("the masters hold %q, want the successor's token", ms.Get("a"))
		}
		if !next.Lease().Valid() {
			t.Error("the successor's lease has ended")
		}
		next.Unlock()
	})
}

func TestTheGateStaysTakenUntilTheUnlockAlsoAfterALoss(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Second, RenewEvery: -1}}
		c := connected(t, ms, opts)
		l := c.Locker("a")
		l.Lock()
		time.Sleep(time.Minute)
		other := c.Locker("a")
		if err := other.TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLockContext before the late unlock = %v, want ErrHeld", err)
		}
		l.Unlock()
		if !other.TryLock() {
			t.Error("TryLock after the late unlock failed")
		}
		other.Unlock()
	})
}

func TestAKeyDeletedByAnAdministratorShowsAtTheUnlock(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		l := connected(t, ms, nil).Locker("a")
		for gone, want := range []error{nil, nil, nil, redlock.ErrLost, redlock.ErrLost, redlock.ErrLost} {
			l.Lock()
			synctest.Wait()
			for i := range gone {
				ms.Master(i).Del("a")
			}
			if err := l.UnlockContext(t.Context()); !errors.Is(err, want) {
				t.Errorf("UnlockContext with %d keys gone = %v, want %v", gone, err, want)
			}
		}
	})
}

func TestMisuseDies(t *testing.T) {
	for _, row := range []struct {
		name string
		do   func(c *redlock.Client)
		want string
	}{
		{"unlock of unlocked", func(c *redlock.Client) { c.Locker("a").Unlock() },
			"redlock: unlock of unlocked Locker"},
		{"unlock twice", func(c *redlock.Client) {
			l := c.Locker("a")
			pass(l)
			l.Unlock()
		}, "redlock: unlock of unlocked Locker"},
		{"unlock of another Locker of the name", func(c *redlock.Client) {
			locked, other := c.Locker("a"), c.Locker("a")
			locked.Lock()
			other.Unlock()
		}, "redlock: unlock of unlocked Locker"},
		{"Lock on closed", func(c *redlock.Client) {
			c.Close()
			c.Locker("a").Lock()
		}, `redlock: Lock of "a" on a closed Client`},
		{"no name", func(c *redlock.Client) { c.Locker("") }, "redlock: a lock needs a name"},
		{"a name of ours", func(c *redlock.Client) { c.Locker("redlock:incarnation") },
			`redlock: the key "redlock:incarnation" begins with "redlock:", which is reserved`},
		{"zero Locker", func(c *redlock.Client) { new(redlock.Locker).Lock() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
		{"zero Locker, unlock", func(c *redlock.Client) { new(redlock.Locker).Unlock() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
		{"zero Locker, name", func(c *redlock.Client) { new(redlock.Locker).Name() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
		{"zero Locker, lease", func(c *redlock.Client) { new(redlock.Locker).Lease() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
		{"zero Locker, try", func(c *redlock.Client) { new(redlock.Locker).TryLock() },
			"redlock: use of a zero Locker; Client.Locker makes one that can be used"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				defer func() {
					if got := fmt.Sprint(recover()); got != row.want {
						t.Errorf("panic: %s, want %s", got, row.want)
					}
				}()
				row.do(connected(t, ms, nil))
			})
		})
	}
}

func TestMethodsOfANilLeaseAreSafe(t *testing.T) {
	var s *redlock.Lease
	if s.Token() != "" || !s.Until().IsZero() || s.Valid() {
		t.Errorf("Token, Until, Valid = %q, %v, %v, want none", s.Token(), s.Until(), s.Valid())
	}
}

// TestALockerIsASyncLocker runs what works over a sync.Mutex, out of a bubble:
// many goroutines on one Locker, and a sync.Cond over it.
func TestALockerIsASyncLocker(t *testing.T) {
	l := redlocktest.StartN(t, 3).Open(nil).Locker("a")
	const producers, items = 8, 10
	cond := sync.NewCond(l)
	var queue, inside, consumed int
	critical := func() {
		if inside++; inside != 1 {
			t.Error("two goroutines are inside")
		}
		inside--
	}
	var wg sync.WaitGroup
	for range producers {
		wg.Go(func() {
			for range items {
				l.Lock()
				critical()
				queue++
				l.Unlock()
				cond.Signal()
			}
		})
		wg.Go(func() {
			for range items {
				cond.L.Lock()
				for queue == 0 {
					cond.Wait()
				}
				critical()
				queue--
				consumed++
				cond.L.Unlock()
			}
		})
	}
	wg.Wait()
	if consumed != producers*items || queue != 0 {
		t.Errorf("consumed %d, %d are left, want %d and none", consumed, queue, producers*items)
	}
}

func TestClientsOfManyProcessesLoseNoUpdate(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		counter := 0
		var wg sync.WaitGroup
		for p := range 6 {
			c := ms.Open(nil)
			for range 3 {
				wg.Go(func() {
					l := c.Locker("counter")
					for range 10 {
						l.Lock()
						read := counter
						time.Sleep(time.Duration(p+1) * time.Millisecond)
						counter = read + 1
						l.Unlock()
					}
				})
			}
		}
		wg.Wait()
		if counter != 6*3*10 {
			t.Errorf("counter = %d, want %d", counter, 6*3*10)
		}
		wantFree(t, ms, "counter")
	})
}

func TestOneNameIsOneKeyWhateverItContains(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		for _, name := range []string{"with space", "line\r\nbreak", "\x00\xff", strings.Repeat("long", 4000), "{tag}", "日本"} {
			l := c.Locker(name)
			l.Lock()
			synctest.Wait()
			if got := len(holders(ms, name)); got != 3 {
				t.Errorf("%.20q stands at %d masters, want 3", name, got)
			}
			l.Unlock()
			wantFree(t, ms, name)
		}
	})
}

func TestAKeyOfAnotherTypeIsHeldAndStays(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		for i := range 3 {
			conn, err := ms.Pools()[i].GetContext(context.Background())
			if err != nil {
				t.Fatal(err)
			}
			if _, err := conn.Do("HSET", "a", "f", "v"); err != nil {
				t.Fatal(err)
			}
			conn.Close()
		}
		if err := c.Locker("a").TryLockContext(t.Context()); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("TryLockContext = %v, want ErrHeld", err)
		}
		time.Sleep(time.Minute)
		if got := ms.Master(0).Keys(); !slices.Equal(got, []string{"a"}) {
			t.Errorf("keys = %q, want the hash still there", got)
		}
	})
}

func TestNothingLeaksThroughManyFreezes(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		pools := ms.Pools()
		c, err := redlock.New(pools, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		l := c.Locker("a")
		cycle := func() {
			ms.Master(0).Freeze()
			ms.Master(1).Freeze()
			l.TryLock() // commands, and releases, for the frozen
			time.Sleep(1500 * time.Millisecond)
			ms.Master(0).Thaw()
			ms.Master(1).Thaw()
			time.Sleep(12 * time.Second) // releases are repeated for so long
		}
		for range 3 {
			cycle()
		}
		before := runtime.NumGoroutine()
		for range 10 {
			cycle()
		}
		synctest.Wait()
		if after := runtime.NumGoroutine(); after > before {
			t.Errorf("%d goroutines, then %d", before, after)
		}
		for i, p := range pools {
			if n := p.ActiveCount(); n > 2 {
				t.Errorf("pool %d has %d connections, want 2 at most", i, n)
			}
		}
		pass(l)
		wantFree(t, ms, "a")
	})
}

// Rounds are used again; what one has left behind must not show in the next.
func TestARoundThatIsUsedAgainIsFresh(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		l := c.Locker("a")
		for range 20 {
			for range 5 {
				pass(l)
				synctest.Wait() // the last vote frees the round
			}
			for i := range 3 {
				ms.Master(i).Freeze()
			}
			start := time.Now()
			if err := l.TryLockContext(t.Context()); outcome(err) != "no quorum" {
				t.Errorf("TryLockContext with three frozen = %v", err)
			}
			if took := time.Since(start); took != 50*time.Millisecond {
				t.Errorf("it took %v, want NodeTimeout", took)
			}
			for i := range 3 {
				ms.Master(i).Thaw()
			}
			time.Sleep(time.Second) // late votes come, and free their rounds
			ctx, cancel := context.WithCancel(t.Context())
			for i := range 5 {
				ms.Master(i).Delay(10 * time.Millisecond)
			}
			time.AfterFunc(10*time.Millisecond, cancel) // at the moment of the votes
			if l.LockContext(ctx) == nil {
				l.Unlock()
			}
			for i := range 5 {
				ms.Master(i).Delay(0)
			}
			time.Sleep(time.Second)
		}
		wantFree(t, ms, "a")
	})
}
