package gocronlock_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/contrib/gocronlock"
	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/redlocktest"
)

// seconds is a BackOff with constant delays: embedded masters are slow, and these tests wait for minutes.
type seconds int

func (s seconds) NextBackOff() time.Duration { return time.Duration(s) * time.Second }

// A journal records which scheduler has run the job in which minute.
type journal struct {
	mu   sync.Mutex
	runs map[string][]string // by minute
}

func (j *journal) run(who string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	minute := time.Now().Format("15:04")
	j.runs[minute] = append(j.runs[minute], who)
}

// schedule starts a scheduler that runs a job of this length every minute, with a delay after the full minute.
func schedule(t *testing.T, j *journal, who string, late, length time.Duration, option gocron.SchedulerOption) gocron.Scheduler {
	t.Helper()
	s, err := gocron.NewScheduler(option)
	if err != nil {
		t.Fatal(err)
	}
	first := time.Now().Truncate(time.Minute).Add(time.Minute + late)
	_, err = s.NewJob(gocron.DurationJob(time.Minute), gocron.NewTask(func() { j.run(who); time.Sleep(length) }),
		gocron.WithName("report"), gocron.WithStartAt(gocron.WithStartDateTime(first)))
	if err != nil {
		t.Fatal(err)
	}
	s.Start()
	t.Cleanup(func() { s.Shutdown() })
	return s
}

// Three machines whose clocks differ by up to 600 ms start the same job every minute.
func TestEachRunIsDoneByOneScheduler(t *testing.T) {
	for _, tt := range []struct {
		name    string
		length  time.Duration
		atLeast time.Duration
		each    int
	}{
		{"a short job", 50 * time.Millisecond, 0, 1},
		{"a long job", 10 * time.Second, -1, 1},
		{"a short job, released when it ends", 50 * time.Millisecond, -1, 3},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				masters, j := redlocktest.StartN(t, 3), &journal{runs: make(map[string][]string)}
				for i := range 3 {
					locker, err := gocronlock.NewLocker(masters.Open(nil), &gocronlock.Options{AtLeast: tt.atLeast})
					if err != nil {
						t.Fatal(err)
					}
					schedule(t, j, fmt.Sprint(i), time.Duration(i)*300*time.Millisecond, tt.length, gocron.WithDistributedLocker(locker))
				}
				time.Sleep(5*time.Minute + 30*time.Second)
				j.mu.Lock()
				defer j.mu.Unlock()
				if len(j.runs) != 5 {
					t.Errorf("runs in %d minutes, want 5: %v", len(j.runs), j.runs)
				}
				for minute, who := range j.runs {
					if len(who) != tt.each {
						t.Errorf("%s: run by %v, want %d", minute, who, tt.each)
					}
				}
			})
		})
	}
}

// Options.AtLeast says what to do about this.
func TestADurationJobOfSchedulersThatWereStartedAtDifferentMomentsNeedsALongAtLeastOrAnElector(t *testing.T) {
	for _, tt := range []struct {
		name    string
		atLeast time.Duration
		elector bool
		each    int
	}{
		{"defaults", 0, false, 3},
		{"the interval less a few seconds", 55 * time.Second, false, 1},
		{"an elector", 0, true, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			bubbletest.Test(t, func(t *testing.T) {
				masters, j := redlocktest.StartN(t, 3), &journal{runs: make(map[string][]string)}
				for i := range 3 {
					client := masters.Open(&redlock.Options{NewBackOff: func() redlock.BackOff { return seconds(5) }})
					locker, err := gocronlock.NewLocker(client, &gocronlock.Options{AtLeast: tt.atLeast})
					if err != nil {
						t.Fatal(err)
					}
					option := gocron.WithDistributedLocker(locker)
					if tt.elector {
						e, err := gocronlock.NewElector(client, "leader", nil)
						if err != nil {
							t.Fatal(err)
						}
						t.Cleanup(e.Close)
						option = gocron.WithDistributedElector(e)
					}
					schedule(t, j, fmt.Sprint(i), time.Duration(i)*15*time.Second, 50*time.Millisecond, option)
				}
				time.Sleep(5*time.Minute + 50*time.Second)
				j.mu.Lock()
				defer j.mu.Unlock()
				for minute, who := range j.runs {
					if len(who) != tt.each {
						t.Errorf("%s: run by %v, want %d", minute, who, tt.each)
					}
				}
			})
		})
	}
}

func TestAnAtLeastWithoutAUnitIsAnError(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		client := redlocktest.StartN(t, 1).Open(nil)
		for _, opts := range []gocronlock.Options{{AtLeast: 30}, {LockOptions: &redlock.LockOptions{TTL: 30}}} {
			if _, err := gocronlock.NewLocker(client, &opts); err == nil || !strings.Contains(err.Error(), " is 30ns: is the unit missing?") {
				t.Errorf("NewLocker of %+v = %v, want it to ask for the unit", opts, err)
			}
		}
	})
}

func TestALockSaysWhyItWasNotAcquiredAndThatItWasLost(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.StartN(t, 3)
		a, err := gocronlock.NewLocker(masters.Open(nil), nil)
		if err != nil {
			t.Fatal(err)
		}
		b, _ := gocronlock.NewLocker(masters.Open(nil), nil)
		ctx := t.Context()
		lock, err := a.Lock(ctx, "report")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Lock(ctx, "report"); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("Lock of another scheduler = %v, want ErrHeld", err)
		}
		if err := lock.Unlock(ctx); err != nil {
			t.Errorf("Unlock = %v", err)
		}
		if _, err := b.Lock(ctx, "report"); !errors.Is(err, redlock.ErrHeld) {
			t.Errorf("Lock directly after the unlock = %v, want ErrHeld: it is kept for a second", err)
		}
		time.Sleep(1100 * time.Millisecond)
		lock, err = b.Lock(ctx, "report")
		if err != nil {
			t.Fatalf("Lock a second later = %v", err)
		}
		for i := range 3 {
			masters.Master(i).Forget()
		}
		time.Sleep(20 * time.Second)
		if err := lock.Unlock(ctx); !errors.Is(err, redlock.ErrLost) {
			t.Errorf("Unlock after a loss = %v, want ErrLost", err)
		}
		for i := range 3 {
			masters.Master(i).Stop()
		}
		if _, err := a.Lock(ctx, "other"); err == nil || errors.Is(err, redlock.ErrHeld) {
			t.Errorf("Lock without masters = %v, want an error that is not ErrHeld", err)
		}
	})
}

func TestBadOptionsAreErrors(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		client := redlocktest.StartN(t, 1).Open(nil)
		bad := &redlock.LockOptions{TTL: time.Hour} // above MaxTTL
		if _, err := gocronlock.NewLocker(client, &gocronlock.Options{LockOptions: bad}); err == nil {
			t.Error("NewLocker with a TTL above MaxTTL = nil")
		}
		if _, err := gocronlock.NewElector(client, "leader", bad); err == nil {
			t.Error("NewElector with a TTL above MaxTTL = nil")
		}
	})
}

func TestTheLeaderRunsEveryJobUntilItEnds(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters, j := redlocktest.StartN(t, 3), &journal{runs: make(map[string][]string)}
		var electors []*gocronlock.Elector
		for i := range 3 {
			client := masters.Open(&redlock.Options{NewBackOff: func() redlock.BackOff { return seconds(5) }})
			e, err := gocronlock.NewElector(client, "leader", nil)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(e.Close)
			electors = append(electors, e)
			leading := e.IsLeader(t.Context())
			if i == 0 && leading != nil || i > 0 && !errors.Is(leading, gocronlock.ErrNotLeader) {
				t.Errorf("elector %d: IsLeader = %v", i, leading)
			}
			schedule(t, j, fmt.Sprint(i), time.Duration(i)*300*time.Millisecond, 50*time.Millisecond, gocron.WithDistributedElector(e))
		}
		time.Sleep(5*time.Minute + 30*time.Second)
		electors[0].Close()
		time.Sleep(3 * time.Minute)
		j.mu.Lock()
		defer j.mu.Unlock()
		if n := len(j.runs); n != 8 {
			t.Errorf("runs in %d minutes, want 8", n)
		}
		leaders := make(map[string]int)
		for minute, who := range j.runs {
			if len(who) != 1 {
				t.Errorf("%s: run by %v, want one", minute, who)
			}
			leaders[who[0]]++
		}
		if len(leaders) != 2 || leaders["0"] != 5 {
			t.Errorf("runs by scheduler: %v, want 5 by the first, and the others by one", leaders)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := electors[0].IsLeader(ctx); err == nil {
			t.Error("a closed elector is the leader")
		}
	})
}

func TestAnElectorThatHasLostItsLeaseIsNoLeader(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.StartN(t, 3)
		e, err := gocronlock.NewElector(masters.Open(nil), "leader", nil)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(e.Close)
		if err := e.IsLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		for i := range 3 {
			masters.Master(i).Stop()
		}
		time.Sleep(time.Minute)
		if err := e.IsLeader(t.Context()); !errors.Is(err, gocronlock.ErrNotLeader) {
			t.Errorf("without masters IsLeader = %v, want ErrNotLeader", err)
		}
		for i := range 3 {
			masters.Master(i).Start()
		}
		time.Sleep(time.Minute)
		if err := e.IsLeader(t.Context()); err != nil {
			t.Errorf("when the masters are back IsLeader = %v", err)
		}
	})
}

func TestAnElectorThatWasClosedKeepsNothing(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		masters := redlocktest.StartN(t, 3)
		client := masters.Open(nil)
		e, err := gocronlock.NewElector(client, "leader", &redlock.LockOptions{Keep: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		if err := e.IsLeader(t.Context()); err != nil {
			t.Fatal(err)
		}
		e.Close()
		time.Sleep(time.Second)
		if h, err := client.Inspect(t.Context(), "leader"); h.Masters > 0 || err != nil {
			t.Errorf("after Close the lock is on %d masters, %v", h.Masters, err)
		}
	})
}

// stops is a BackOff that ends a wait soon, as one with a MaxElapsedTime does.
type stops struct{}

func (stops) NextBackOff() time.Duration { return -1 }

func TestAnElectorCampaignsWhenTheScheduleOfAWaitHasStopped(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		ms := redlocktest.StartN(t, 3)
		first, err := gocronlock.NewElector(ms.Open(nil), "leader", nil)
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		second, err := gocronlock.NewElector(ms.Open(&redlock.Options{NewBackOff: func() redlock.BackOff { return stops{} }}), "leader", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer second.Close()
		time.Sleep(time.Hour)
		if first.IsLeader(t.Context()) != nil || second.IsLeader(t.Context()) == nil {
			t.Error("want the first to lead")
		}
		first.Close()
		time.Sleep(5 * time.Second)
		if err := second.IsLeader(t.Context()); err != nil {
			t.Errorf("IsLeader = %v, want that the second leads when the first has ended", err)
		}
	})
}
