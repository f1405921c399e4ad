package contract_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/incarnation"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// crash restarts masters without their memory.
func crash(ms *redlocktest.Masters, masters ...int) {
	for _, i := range masters {
		ms.Master(i).Stop()
		ms.Master(i).Forget()
		ms.Master(i).Start()
	}
}

// wantStates fails t unless exactly the given number of c's masters are quarantined, and the others are up.
func wantStates(t *testing.T, c *redlock.Client, quarantined int) {
	t.Helper()
	synctest.Wait()
	up, in := locktest.States(c, redlock.MasterUp), locktest.States(c, redlock.MasterQuarantined)
	if in != quarantined || up+in != len(c.Masters()) {
		t.Errorf("%d masters are up and %d quarantined, want %d quarantined: %v", up, in, quarantined, c.Masters())
	}
}

func TestAQuarantineEndsToTheMillisecond(t *testing.T) {
	for _, row := range []struct {
		name string
		opts redlock.Options
		want time.Duration
	}{
		{"by default", redlock.Options{}, 12 * time.Second},
		{"MaxTTL is set", redlock.Options{MaxTTL: time.Minute}, 62 * time.Second},
		{"MaxTTL is short", redlock.Options{MaxTTL: time.Second, LockOptions: redlock.LockOptions{TTL: time.Second}}, 3 * time.Second},
		{"the TTL is long", redlock.Options{LockOptions: redlock.LockOptions{TTL: 5 * time.Minute}}, 302 * time.Second},
		{"there is no guard", redlock.Options{DisableRestartGuard: true}, 0},
	} {
		for _, forgets := range []string{"before", "while connected", "restarting"} {
			t.Run(row.name+", it forgets "+forgets, func(t *testing.T) {
				bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
					m := ms.Master(0)
					if forgets == "before" {
						m.Forget()
					}
					c := ms.Open(&row.opts)
					synctest.Wait()
					l := c.Locker("a")
					switch forgets {
					case "while connected":
						m.Forget()
					case "restarting":
						crash(ms, 0)
					}
					start := time.Now()
					for l.TryLock() == (row.want > 0) && time.Since(start) < time.Second {
						if row.want > 0 {
							t.Fatal("a vote counts that may be the second one")
						}
						time.Sleep(time.Millisecond) // until the master is dialled again
					}
					if row.want == 0 {
						return
					}
					until, slack := c.Masters()[0].Until, time.Duration(0)
					for until.IsZero() { // until the master has been inspected
						time.Sleep(time.Millisecond)
						until, slack = c.Masters()[0].Until, time.Since(start)
					}
					if got := until.Sub(start); got < row.want || got > row.want+slack || slack > 100*time.Millisecond {
						t.Errorf("the quarantine lasts %v, want %v from the end of dialling, after %v", got, row.want, slack)
					}
					time.Sleep(time.Until(until) - time.Millisecond)
					wantStates(t, c, 1)
					if l.TryLock() {
						t.Error("a vote counts a millisecond too early")
					}
					time.Sleep(time.Millisecond)
					wantStates(t, c, 0)
					if err := l.TryLockContext(t.Context()); err != nil {
						t.Errorf("TryLockContext after the quarantine = %v, want the lock", err)
					}
				})
			})
		}
	}
}

func TestAMasterThatForgetsAgainIsInQuarantineAgain(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		ms.Master(0).Forget()
		for range 3 {
			time.Sleep(8 * time.Second)
			wantStates(t, c, 1)
			ms.Master(0).Forget()
		}
		start := time.Now()
		time.Sleep(time.Second) // the heartbeat finds it
		wantStates(t, c, 1)
		if got := c.Masters()[0].Until.Sub(start); got < 12*time.Second || got > 13*time.Second {
			t.Errorf("the quarantine ends %v after the last loss, want 12s after it was found", got)
		}
		time.Sleep(12 * time.Second)
		wantStates(t, c, 0)
	})
}

func TestARestartThatKeepsTheMemoryIsNoticed(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		if err := c.Masters()[0].GuardErr; err != nil {
			t.Errorf("GuardErr = %v, want nil: the master reports its run_id", err)
		}
		ms.Master(0).Stop()
		ms.Master(0).Start()
		start := time.Now()
		time.Sleep(2 * time.Second)
		wantStates(t, c, 1)
		if err := c.Masters()[0].Err; err == nil || !strings.Contains(err.Error(), "it was restarted") {
			t.Errorf("Err = %v, want it to name the restart", err)
		}
		c.Locker("a").Lock()
		if took := time.Since(start); took < 12*time.Second || took > 14*time.Second {
			t.Errorf("the first lock took %v, want the quarantine of 12 s", took)
		}
	})
}

func TestAMasterThatWasAdoptedBeforeItStartedVotesAtOnce(t *testing.T) {
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		ms.Master(0).Stop()
		startAdopted(ms, 0)
		time.Sleep(2 * time.Second)
		wantStates(t, c, 0)
	})
}

func TestALeaseOutlivesTheRestartsOfAMinority(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		c, other := connected(t, ms, nil), connected(t, ms, nil)
		l := c.Locker("a")
		l.Lock()
		for round := range 5 {
			masters := []int{round, (round + 1) % 5}
			crash(ms, masters...)
			time.Sleep(7 * time.Second) // two renewals
			wantStates(t, c, 2)
			wantStates(t, other, 2)
			if got := holders(ms, "a"); len(got) != 5 {
				t.Errorf("%d masters hold the key, want those that have forgotten it to have been told", len(got))
			}
			if other.Locker("a").TryLock() {
				t.Fatal("a second holder")
			}
			time.Sleep(7 * time.Second)
			wantStates(t, c, 0)
		}
		if err := l.UnlockContext(t.Context()); err != nil {
			t.Errorf("UnlockContext = %v, want the lease to have lasted", err)
		}
		wantFree(t, ms, "a")
	})
}

// A master in quarantine has no vote in a renewal either, even if it has the key.
func TestHealedKeysDoNotCountInAQuarantine(t *testing.T) {
	for _, row := range []struct {
		name  string
		after time.Duration // the others crash
		lost  bool
	}{
		{"while it lasts", 8 * time.Second, true},
		{"when it is over", 24 * time.Second, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				l := connected(t, ms, &redlock.Options{MaxTTL: 20 * time.Second}).Locker("a")
				l.Lock()
				s := l.Lease()
				crash(ms, 0, 1)
				time.Sleep(row.after)
				if got := holders(ms, "a"); len(got) != 5 {
					t.Fatalf("%d masters hold the key, want all", len(got))
				}
				ms.Master(2).Stop()
				ms.Master(3).Freeze()
				until := s.Until()
				time.Sleep(time.Until(until) + time.Second)
				if lost := !s.Valid(); lost != row.lost {
					t.Errorf("the lease is lost: %v (%v), want %v", lost, s.Err(), row.lost)
				}
				if err := s.Err(); row.lost && (!errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), "in quarantine until ")) {
					t.Errorf("Err = %v, want a loss that tells of the quarantine", err)
				}
			})
		})
	}
}

func TestALeaseIsLostWhenAMajorityForgets(t *testing.T) {
	for _, row := range []struct {
		name    string
		forgets []int
		why     string
	}{
		{"at once", []int{0, 1, 2}, "its key is gone"},
		{"one after the other", []int{0, -1, 1, -1, 2}, "no quorum of masters renewed it in time"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				opts := &redlock.Options{MaxTTL: 20 * time.Second}
				l, other := connected(t, ms, opts).Locker("a"), connected(t, ms, opts)
				l.Lock()
				s := l.Lease()
				for _, i := range row.forgets {
					if i < 0 {
						time.Sleep(4 * time.Second) // a renewal sets the lost keys again
					} else {
						crash(ms, i)
					}
				}
				lost := time.Now().Add(time.Minute)
				for !time.Now().After(lost) {
					if other.Locker("a").TryLock() {
						t.Fatal("a second holder")
					}
					if !s.Valid() {
						break
					}
					time.Sleep(50 * time.Millisecond)
				}
				if err := s.Err(); !errors.Is(err, redlock.ErrLost) || !strings.Contains(err.Error(), row.why) {
					t.Errorf("Err = %v, want a loss: %s", err, row.why)
				}
				l.Unlock()
				locktest.Pass(other.Locker("a"))
			})
		})
	}
}

func TestNothingIsAcquiredFromAMasterInQuarantine(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		held := c.Locker("held")
		held.Lock()
		crash(ms, 0)
		time.Sleep(1500 * time.Millisecond)
		wantStates(t, c, 1)
		before := len(ms.Master(0).Commands())
		for i := range 10 {
			locktest.Pass(c.Locker(fmt.Sprint("a", i)))
		}
		if err := c.Ping(t.Context()); err != nil {
			t.Errorf("Ping = %v, want the other two to be enough", err)
		}
		time.Sleep(5 * time.Second) // lost keys are set again
		held.Unlock()
		synctest.Wait()
		var got []string
		for _, command := range ms.Master(0).Commands()[before:] {
			name, _, _ := strings.Cut(command, " ")
			if !slices.Contains(got, name) {
				got = append(got, name)
			}
			if name == "SET" && !strings.HasPrefix(command, "SET held ") && !strings.Contains(command, " XX ") || strings.Contains(command, "acquire") {
				t.Errorf("%s is sent to a master in quarantine", command)
			}
		}
		for _, want := range []string{"SET", "EVALSHA", "PROBE"} { // a heal, renewals and releases, and probes
			if !slices.Contains(got, want) {
				t.Errorf("no %s is sent to a master in quarantine, only %q", want, got)
			}
		}
		wantFree(t, ms, "held")
	})
}

// Some clients are stopped, with their clocks, and lose their connections meanwhile, as when virtual machines
// are moved. Other clients must not be affected.
func TestClientsThatWereStoppedQuarantineNobodyElsesMasters(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		other := connected(t, ms, nil)
		var slept atomic.Int64
		var stopped []*redlock.Client
		for range 5 {
			opts := &redlock.Options{}
			locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return 0, time.Duration(slept.Load()) })
			stopped = append(stopped, connected(t, ms, opts))
		}
		time.Sleep(5 * time.Second)
		slept.Store(int64(30 * time.Second)) // their clocks differ from the masters' now
		for i := range 5 {
			ms.Master(i).Cut()
		}
		for range 500 {
			time.Sleep(10 * time.Millisecond)
			if n := locktest.States(other, redlock.MasterQuarantined); n > 0 {
				t.Fatalf("%d masters are in quarantine for somebody else", n)
			}
		}
		for _, c := range stopped {
			if n := locktest.States(c, redlock.MasterQuarantined); n != 5 {
				t.Errorf("%d masters are in quarantine for one that was stopped, want 5", n)
			}
		}
	})
}

// A master that restarted while the client was stopped cannot confirm the client's clock, since the client
// has no earlier time of that master to compare with.
func TestAMasterThatRestartsWhileAClientIsStoppedBlamesNoOther(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var slept atomic.Int64
		opts := &redlock.Options{}
		locktest.SetClocks(opts, func() (wall, asleep time.Duration) { return 0, time.Duration(slept.Load()) })
		stopped := connected(t, ms, opts)
		time.Sleep(5 * time.Second)
		before := ms.Get(incarnation.Key)
		slept.Store(int64(30 * time.Second))
		crash(ms, 4)
		time.Sleep(5 * time.Second)
		if n := locktest.States(stopped, redlock.MasterQuarantined); n != 5 {
			t.Errorf("%d masters are in quarantine for the client that was stopped, want 5", n)
		}
		if after := ms.Get(incarnation.Key); !slices.Equal(after[:4], before[:4]) {
			t.Errorf("the records are %q, want the first four to be as before, %q", after, before)
		}
	})
}

// If a client's own clocks stood still, the clocks of all masters seem to have jumped by the same time.
func TestAJumpOfTheClientsOwnClockCostsOnlyThatClient(t *testing.T) {
	for _, row := range []struct {
		name         string
		wall, asleep time.Duration
		quarantined  bool
	}{
		{"the machine is said to have slept", 0, 30 * time.Second, true},
		{"the wall clock is set", time.Hour, 0, false},
		{"the wall clock is set back", -time.Hour, 0, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				var wall, asleep atomic.Int64
				opts := &redlock.Options{}
				locktest.SetClocks(opts, func() (time.Duration, time.Duration) {
					return time.Duration(wall.Load()), time.Duration(asleep.Load())
				})
				odd, other := connected(t, ms, opts), connected(t, ms, nil)
				records := strings.Join(ms.Get(incarnation.Key), "\n")
				wall.Store(int64(row.wall))
				asleep.Store(int64(row.asleep))
				time.Sleep(1100 * time.Millisecond) // a heartbeat
				want := 0
				if row.quarantined {
					want = 5
				}
				if n := locktest.States(odd, redlock.MasterQuarantined); n != want {
					t.Errorf("for it, %d masters are quarantined, want %d: %v", n, want, odd.Masters())
				}
				if err := odd.Locker("a").TryLockContext(t.Context()); (err == nil) == row.quarantined {
					t.Errorf("TryLockContext = %v, want the lock only without a quarantine", err)
				}
				locktest.Pass(other.Locker("b"))
				time.Sleep(11 * time.Second)
				if got := strings.Join(ms.Get(incarnation.Key), "\n"); got != records {
					t.Errorf("the records are\n%s\nwant them to be what they were:\n%s", got, records)
				}
				if n := locktest.States(other, redlock.MasterUp); n != 5 {
					t.Errorf("for another client %d masters are up, want all", n)
				}
				time.Sleep(time.Second)
				locktest.Pass(odd.Locker("c"))
				synctest.Wait()
			})
		})
	}
}

// If a client with a larger MaxTTL joins, a quarantine that has ended stays ended. A quarantine that lasts
// becomes longer, since the client that joins may hold locks from before.
func TestALargerMaxTTLProlongsOnlyAQuarantineThatLasts(t *testing.T) {
	for _, row := range []struct {
		name  string
		after time.Duration // the client with the larger MaxTTL joins
		want  time.Duration // the end of the other's quarantine
	}{
		{"while it lasts", 2 * time.Second, 62 * time.Second},
		{"when it is over", 6 * time.Second, 5 * time.Second},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				short := connected(t, ms, locktest.Lasting(time.Second))
				crash(ms, 0, 1, 2)
				start := time.Now()
				time.Sleep(row.after)
				ms.Open(locktest.Lasting(time.Minute))
				time.Sleep(2 * time.Second)
				synctest.Wait()
				for _, m := range short.Masters() {
					if m.MaxTTL != time.Minute {
						t.Errorf("%s: MaxTTL = %v, want a minute", m.Name, m.MaxTTL)
					}
				}
				time.Sleep(time.Until(start.Add(row.want - 100*time.Millisecond)))
				if early := short.Locker("a").TryLock(); early != (row.after > row.want) {
					t.Errorf("after %v the lock is acquired: %v", time.Since(start), early)
				}
				time.Sleep(time.Until(start.Add(row.want + 2*time.Second)))
				wantStates(t, short, 0)
			})
		})
	}
}

// A MaxTTL in one master's record applies to all masters, even if the client did not declare it there.
func TestALargerMaxTTLOfOneMasterHoldsForAll(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		short := connected(t, ms, locktest.Lasting(time.Second))
		record, _ := ms.Master(0).Get(incarnation.Key)
		ms.Master(0).Set(incarnation.Key, strings.Replace(record, " 1000 - adopted", " 60000 - adopted", 1), time.Hour)
		time.Sleep(3 * time.Second)
		wantStates(t, short, 0)
		if m := short.Masters()[0]; m.MaxTTL != time.Minute {
			t.Fatalf("MaxTTL = %v, want a minute", m.MaxTTL)
		}
		crash(ms, 1)
		start := time.Now()
		time.Sleep(1500 * time.Millisecond)
		wantStates(t, short, 1)
		if m := short.Masters()[1]; m.MaxTTL != time.Minute || m.Until.Sub(start) < 62*time.Second {
			t.Errorf("MaxTTL = %v, and the quarantine lasts %v, want a minute, and 2s more", m.MaxTTL, m.Until.Sub(start))
		}
	})
}

// besideForgottenLock returns a client with a MaxTTL of 10 s that counts the votes of the third of three masters, and has not reached the
// others: their dials hang. The third has forgotten the lock "a" of a holder with a MaxTTL of a minute. The first has it, the second never had it, and
// both know that MaxTTL.
func besideForgottenLock(t *testing.T, ms *redlocktest.Masters, dialTimeout time.Duration) *redlock.Client {
	t.Helper()
	connected(t, ms, locktest.Lasting(time.Minute)).Close()
	ms.Master(0).Set("a", "token", time.Minute)
	crash(ms, 2)
	for i := range 2 {
		ms.Master(i).HangDials()
	}
	opts := locktest.Lasting(10 * time.Second)
	opts.DialTimeout = dialTimeout
	c := ms.Open(opts)
	time.Sleep(15 * time.Second)
	if m := c.Masters()[2]; m.State != redlock.MasterUp {
		t.Fatalf("%s is %v, want it to be up before a larger MaxTTL is known", m.Name, m.State)
	}
	return c
}

// The second master tells the MaxTTL only after the quarantine of the third has ended.
func TestAQuarantineBeginsAgainIfALargerMaxTTLBecomesKnownLate(t *testing.T) {
	for _, row := range []struct {
		name  string
		dials time.Duration // the limit of a dial: commands wait while a master is dialled for the first time
	}{
		{"and connects again", time.Second},
		{"while commands wait for it", time.Minute},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				start := time.Now()
				short := besideForgottenLock(t, ms, row.dials)
				entered := locktest.Enter(short.Locker("a"))
				synctest.Wait() // the third master has voted
				ms.Master(1).ResumeDials()
				time.Sleep(5 * time.Second)
				if m := short.Masters()[2]; m.State != redlock.MasterQuarantined || m.Until.Sub(start) < time.Minute {
					t.Errorf("%s is %v for %v, want it in quarantine for a minute", m.Name, m.State, m.Until.Sub(start))
				}
				select {
				case <-entered:
					t.Fatalf("the lock is acquired after %v, beside its holder", time.Since(start))
				default:
				}
				if err := short.Locker("b").TryLockContext(t.Context()); err == nil || errors.Is(err, redlock.ErrHeld) {
					t.Errorf("TryLockContext of another name: %v, want that there is no quorum", err)
				}
				if d := (<-entered).Sub(start); d < time.Minute || d > 65*time.Second {
					t.Errorf("the lock is acquired after %v, want little more than a minute", d)
				}
			})
		})
	}
}

// The master that has forgotten the lock stops after its vote, before the larger MaxTTL becomes known.
func TestAVoteOfAMasterThatHasStoppedIsNotUsedIfALargerMaxTTLBecomesKnown(t *testing.T) {
	for _, stops := range []bool{false, true} {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			short := besideForgottenLock(t, ms, time.Minute) // the attempt waits for the first connections
			tried := make(chan error, 1)
			go func() { tried <- short.Locker("a").TryLockContext(t.Context()) }()
			synctest.Wait() // the third master has voted
			if stops {
				ms.Master(2).Stop()
				time.Sleep(time.Second)
			}
			ms.Master(1).ResumeDials()
			if err := <-tried; err == nil || !strings.Contains(err.Error(), "a MaxTTL of 1m0s became known meanwhile") {
				t.Errorf("stops %v: TryLockContext beside the holder = %v, want that votes are not used", stops, err)
			}
		})
	}
}

// The holder declares its MaxTTL at the last master while a claim has the vote of the master that has forgotten the lock. A release grants
// the lock at the last master before the claim polls again. The claim is given the vote of the other master twice a second.
func TestAClaimLosesTheVotesFromBeforeAQuarantineBeganAgain(t *testing.T) {
	for phase := range 10 {
		bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
			opts := &redlock.Options{MaxTTL: time.Second, LockOptions: redlock.LockOptions{TTL: time.Second}}
			connected(t, ms, opts).Close()
			ms.Master(0).HangDials()
			crash(ms, 2)
			c := ms.Open(opts)
			time.Sleep(10 * time.Second)
			one, err := redlock.New(ms.Pools()[1:2], opts)
			if err != nil {
				t.Fatal(err)
			}
			defer one.Close()
			another := one.Locker("a")
			another.Lock()
			entered := locktest.Enter(c.Locker("a"))
			time.Sleep(time.Second + time.Duration(phase)*50*time.Millisecond)
			record, _ := ms.Master(1).Get(incarnation.Key)
			ms.Master(1).Set(incarnation.Key, strings.Replace(record, " 1000 ", " 60000 ", 1), time.Hour)
			for c.Masters()[2].State == redlock.MasterUp {
				time.Sleep(time.Millisecond)
			}
			if m := c.Masters()[2]; m.State != redlock.MasterQuarantined {
				t.Fatalf("%s is %v, want it in quarantine", m.Name, m.State)
			}
			another.Unlock()
			time.Sleep(time.Second)
			select {
			case <-entered:
				t.Fatalf("phase %d: the claim wins with a vote from before the quarantine", phase)
			default:
			}
			if phase == 0 { // a minute of polls
				<-entered
			}
		})
	}
}

// A loggedFirst calls first with each line that says that a Client raises MaxTTL.
type loggedFirst struct {
	slog.Handler
	first func(line slog.Record)
}

func (h loggedFirst) Handle(ctx context.Context, line slog.Record) error {
	if strings.Contains(line.Message, "raises the MaxTTL") {
		h.first(line)
	}
	return nil
}

func TestAClientLogsThatItRaisesMaxTTLBeforeItDoes(t *testing.T) {
	for _, row := range []struct {
		name        string
		before, now time.Duration
		want        string // in the hint; "" for no line
	}{
		{"above another client's", time.Second, 2 * time.Second, "1s"},
		{"below another client's", 2 * time.Second, time.Second, ""},
		{"the default, on new masters", 0, 10 * time.Second, ""},
		{"above the default, on new masters", 0, time.Minute, "10s"},
		{"the default, above another client's", 5 * time.Second, 10 * time.Second, "5s"},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				if row.before > 0 {
					connected(t, ms, locktest.Lasting(row.before)).Close()
				}
				declared := func(i int) time.Duration {
					text, _ := ms.Master(i).Get(incarnation.Key)
					r, _ := incarnation.Parse(text)
					return r.MaxTTL
				}
				lines := 0
				opts := locktest.Lasting(row.now)
				opts.Logger = slog.New(loggedFirst{slog.NewTextHandler(io.Discard, nil), func(line slog.Record) {
					lines++
					line.Attrs(func(a slog.Attr) bool {
						if a.Key == "hint" && !strings.HasSuffix(a.Value.String(), " --adopt --max-ttl "+row.want) {
							t.Errorf("the hint is %q", a.Value)
						}
						return true
					})
					for i := range 3 {
						if got := declared(i); got != row.before {
							t.Errorf("master %d: MaxTTL is %v when it is logged that it will be raised, want %v", i, got, row.before)
						}
					}
				}})
				connected(t, ms, opts)
				if (lines == 1) != (row.want != "") || lines > 1 {
					t.Errorf("it is logged %d times", lines)
				}
				for i := range 3 {
					if got := declared(i); got != max(row.before, row.now) {
						t.Errorf("master %d: MaxTTL = %v afterwards, want %v", i, got, max(row.before, row.now))
					}
				}
			})
		})
	}
}

// A Logger that blocks does not keep a Client from connecting.
func TestABlockedLoggerDelaysRaisingMaxTTLOnlyForAMoment(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		connected(t, ms, locktest.Lasting(time.Second)).Close()
		blocked := make(chan struct{})
		opts := locktest.Lasting(time.Minute)
		opts.Logger = slog.New(loggedFirst{slog.NewTextHandler(io.Discard, nil), func(slog.Record) { <-blocked }})
		c := ms.Open(opts)
		time.Sleep(500 * time.Millisecond)
		for _, m := range c.Masters() {
			if m.State != redlock.MasterUp || m.MaxTTL != time.Minute {
				t.Errorf("%s is %v, with a MaxTTL of %v, want it to be up", m.Name, m.State, m.MaxTTL)
			}
		}
		close(blocked)
	})
}
