package notices_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/notices"
)

// A scene is the Notices of a Client of three masters that are up, and what was logged.
type scene struct {
	*notices.Notices

	mu     sync.Mutex // guards what follows
	log    bytes.Buffer
	status [3]master.Status
}

// Write implements io.Writer.
func (s *scene) Write(line []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.log.Write(line)
}

func bubble(t *testing.T, f func(t *testing.T, s *scene)) {
	bubbletest.Test(t, func(t *testing.T) {
		s := &scene{}
		s.Notices = notices.New(slog.New(slog.NewTextHandler(s, nil)), []string{"m1", "m2", "m3"}, 10*time.Second, 10*time.Second)
		go s.Run(func(i int) master.Status {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.status[i]
		})
		for i := range s.status {
			s.change(i, master.Status{State: master.Up})
		}
		f(t, s)
		<-s.Stop()
	})
}

// change changes the status of a master.
func (s *scene) change(i int, now master.Status) {
	s.mu.Lock()
	s.status[i] = now
	s.mu.Unlock()
	s.MasterChanged(i, now)
}

// want checks how many lines with a text there are.
func (s *scene) want(t *testing.T, n int, text string) {
	t.Helper()
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if got := strings.Count(s.log.String(), text); got != n {
		t.Errorf("%d lines with %q, want %d:\n%s", got, text, n, s.log.String())
	}
}

func TestADefectIsLoggedOnceWhileItLasts(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		const minute = time.Minute // longer than any limit
		full, wakes := errors.New("OOM"), errors.New("NOPERM")
		s.change(0, master.Status{State: master.Up, WriteErr: full})
		time.Sleep(minute)
		s.want(t, 1, `msg="redlock: masters grant no locks: they refuse writes" masters=m1 why=OOM`)
		s.change(0, master.Status{State: master.Up, WriteErr: full, WakeErr: wakes})
		time.Sleep(minute)
		s.want(t, 1, "they refuse writes")
		s.want(t, 1, `msg="redlock: masters do not wake waiters" masters=m1 why=NOPERM`)
		s.change(0, master.Status{State: master.Up, WakeErr: wakes})
		time.Sleep(minute)
		s.want(t, 1, `level=INFO msg="redlock: masters accept writes again" masters=m1`)
		s.change(0, master.Status{State: master.Up, WriteErr: full, WakeErr: wakes})
		time.Sleep(minute)
		s.want(t, 2, "they refuse writes")
		s.want(t, 1, "do not wake waiters")
		s.want(t, 1, "accept writes again")
		s.want(t, 0, "up again")
	})
}

// TestOneMessageAboutMastersComesOnceInAWhile changes the state of masters again and again: each message follows the last one
// with the same cause after 10 s at the earliest, and names all masters. Another message does not wait for that.
func TestOneMessageAboutMastersComesOnceInAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		down := func(i int, text string) { s.change(i, master.Status{State: master.Down, Err: errors.New(text)}) }
		up := func(i int) { s.change(i, master.Status{State: master.Up}) }
		time.Sleep(time.Minute)
		down(0, "gone")
		up(0)
		time.Sleep(5 * time.Second)
		s.want(t, 1, "masters were down for a moment")
		down(0, "NOAUTH")
		time.Sleep(2 * time.Second)
		s.want(t, 1, `msg="redlock: masters require a password" masters=m1 why=NOAUTH`)
		up(0)
		time.Sleep(3 * time.Second)
		s.want(t, 1, "masters are up again")
		down(0, "NOAUTH")
		time.Sleep(3 * time.Second)
		s.want(t, 1, "masters require a password")
		down(1, "NOAUTH")
		time.Sleep(2 * time.Second)
		s.want(t, 1, "masters require a password")
		time.Sleep(3 * time.Second)
		s.want(t, 1, `masters="m1, m2" why=NOAUTH`)
		s.want(t, 2, "masters require a password")
	})
}

// A master that comes up again before the line says that it is down has news all the same.
func TestAMasterThatIsUpWhenItsLineIsDueWasDownForAMoment(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		time.Sleep(time.Minute)
		s.change(0, master.Status{State: master.Refused, Err: errors.New("replica")})
		time.Sleep(time.Second)
		s.change(0, master.Status{State: master.Up})
		time.Sleep(time.Minute)
		s.want(t, 1, "level=")
		s.want(t, 1, `msg="redlock: masters were down for a moment" masters=m1 why=replica`)
		s.change(0, master.Status{State: master.Refused, Err: errors.New("replica")})
		time.Sleep(2 * time.Second)
		s.want(t, 1, `msg="redlock: masters must not vote" masters=m1 why=replica`)
		s.change(0, master.Status{State: master.Up})
		time.Sleep(time.Second)
		s.change(0, master.Status{State: master.Refused, Err: errors.New("replica")}) // nothing is new
		time.Sleep(time.Minute)
		s.want(t, 2, "level=")
	})
}

// Masters do not report another reason while they are down: it is found within 10 s.
func TestAnotherReasonOfAMasterThatStaysDownIsLogged(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		s.change(0, master.Status{State: master.Down, Err: errors.New("gone")})
		time.Sleep(time.Minute)
		s.mu.Lock()
		s.status[0].Err = errors.New("WRONGPASS")
		s.mu.Unlock()
		time.Sleep(12 * time.Second)
		s.want(t, 1, "masters are down")
		s.want(t, 1, "masters reject the user or the password")
	})
}

func TestThatRestartsMayGoUnnoticedIsLoggedOnceHoweverOftenAMasterIsDown(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		blind := errors.New("no run_id")
		for range 3 {
			s.change(1, master.Status{State: master.Up, GuardErr: blind})
			time.Sleep(time.Minute)
			s.change(1, master.Status{State: master.Down, Err: errors.New("gone"), GuardErr: blind})
			time.Sleep(time.Minute)
		}
		s.want(t, 1, `msg="redlock: restarts of masters may go unnoticed" masters=m2 why="no run_id"`)
	})
}

// One outage shows itself by different errors. The line tells them all.
func TestMastersThatAreDownWithDifferentErrorsOfTheNetworkAreOneLine(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		s.change(0, master.Status{State: master.Down, Err: io.EOF})
		s.change(1, master.Status{State: master.Down, Err: &net.OpError{Op: "dial", Net: "tcp", Err: errors.New("connection refused")}})
		time.Sleep(1100 * time.Millisecond) // after a heartbeat of all
		s.want(t, 1, `msg="redlock: masters are down" masters="m1, m2" why="m1: EOF; m2: dial tcp: connection refused"`)
		time.Sleep(time.Minute)
		s.want(t, 1, "level=")
	})
}

func TestLossesOfOneKindAreOneLineInAWhile(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		for i := range 12 {
			s.Lost(fmt.Sprintf("a%02d", i), notices.Cause{Kind: "down", Text: fmt.Sprintf("down for %d s", i)})
		}
		s.Lost("b", notices.Cause{Kind: "deleted", Text: "deleted"})
		s.Unreleased("c", notices.Cause{Kind: "down", Text: "no answer"})
		time.Sleep(time.Second)
		s.want(t, 1, `msg="redlock: leases were lost" names="a00, a01, a02, a03, a04, a05, a06, a07, a08, a09 and 2 more" why="down for 0 s"`)
		s.want(t, 1, `msg="redlock: leases were lost" names=b why=deleted`)
		s.want(t, 1, `msg="redlock: releases were not answered by a quorum of masters: locks stay taken until they are, or for their TTL" names=c`)
		s.Lost("d", notices.Cause{Kind: "down", Text: "down again"})
		time.Sleep(8 * time.Second)
		s.want(t, 0, "names=d")
		time.Sleep(2 * time.Second)
		s.want(t, 1, `names=d why="down again"`)
	})
}

// A master is up for a moment, while its line says that it is down. That does not hurry the next line.
func TestALineThatSaysThatMastersAreUpAgainWaitsForFurtherMasters(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		down, up := master.Status{State: master.Down, Err: errors.New("gone")}, master.Status{State: master.Up}
		s.change(0, down)
		s.change(1, down)
		time.Sleep(20 * time.Second)
		s.change(0, up)
		time.Sleep(time.Second)
		s.change(0, down)
		time.Sleep(20 * time.Second)
		s.change(0, up)
		time.Sleep(time.Second)
		s.change(1, up)
		time.Sleep(20 * time.Second)
		s.want(t, 1, `msg="redlock: masters are up again" masters="m1, m2"`)
		s.want(t, 2, "level=")
	})
}

// A waiter waits for what it returns.
type waiter func() notices.Cause

func (w waiter) WaitsFor() notices.Cause { return w() }

// A new connection to the same memory computes the end of its quarantine anew.
func TestAQuarantineIsLoggedAgainOnlyIfItsEndIsLater(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		quarantined := func(until time.Time) {
			s.change(0, master.Status{State: master.Quarantined, Until: until, Err: &guard.QuarantineError{Until: until, Why: "new"}})
			time.Sleep(20 * time.Second)
		}
		until := time.Now().Add(time.Hour)
		quarantined(until)
		quarantined(until.Add(500 * time.Millisecond))
		quarantined(until.Add(900 * time.Millisecond))
		s.want(t, 1, "masters=m1 why=new until=")
		quarantined(until.Add(1400 * time.Millisecond)) // than the one that was written
		s.want(t, 2, "masters=m1 why=new until=")
		quarantined(until.Add(3 * time.Second))
		s.want(t, 3, "masters=m1 why=new until=")
	})
}

// That a quorum is lost is another message, so the line about the first master does not delay it.
func TestThatLocksHaveToWaitIsLoggedSoonAfterALineAboutAMinority(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		for i := range 2 {
			until := time.Now().Add(time.Hour)
			s.change(i, master.Status{State: master.Quarantined, Until: until, Err: &guard.QuarantineError{Until: until, Why: "new"}})
			time.Sleep(3 * time.Second)
		}
		s.want(t, 1, `msg="redlock: masters are in quarantine, and do not vote" masters=m1 why=new until=`)
		s.want(t, 1, `msg="redlock: masters are in quarantine, and do not vote: locks have to wait" masters="m1, m2" why=new until=`)
	})
}

func TestALargerMaxTTLIsLoggedOnceForEachValue(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		declared := func(i int, ttl time.Duration) {
			s.change(i, master.Status{State: master.Up, MaxTTL: ttl})
			time.Sleep(time.Minute)
		}
		declared(0, 10*time.Second)
		s.want(t, 0, "level=")
		declared(0, 20*time.Second)
		declared(1, 20*time.Second)
		s.want(t, 1, "another client has declared a larger MaxTTL")
		s.want(t, 1, `before=10s now=20s hint="to lower it, stop all clients, and then: redlock doctor --adopt --max-ttl 10s"`)
		declared(0, 10*time.Second)
		declared(2, time.Minute)
		s.want(t, 2, "another client has declared a larger MaxTTL")
		s.want(t, 1, "before=20s now=1m0s")
	})
}

// A process that was stopped writes its lines late.
func TestAQuarantineThatIsOverWhenItIsLoggedLastsForNoTime(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		until := time.Now().Add(-time.Second)
		s.change(0, master.Status{State: master.Quarantined, Until: until, Err: &guard.QuarantineError{Until: until, Why: "new"}})
		time.Sleep(20 * time.Second)
		s.want(t, 1, "masters=m1 why=new until=")
		s.want(t, 1, " for=0s\n")
	})
}

// A program that runs for a moment does not tell of defects, but of masters that are down.
func TestStopWritesThatMastersAreDownAndNotTheirDefects(t *testing.T) {
	var s *scene
	bubble(t, func(t *testing.T, running *scene) {
		s = running
		s.change(0, master.Status{State: master.Up, GuardErr: errors.New("no run_id")})
		s.change(1, master.Status{State: master.Down, Err: errors.New("gone")})
		s.want(t, 0, "level=")
	})
	if log := s.log.String(); !strings.Contains(log, `msg="redlock: masters are down" masters=m2 why=gone`) || strings.Count(log, "\n") != 1 {
		t.Errorf("logged, want one line about m2:\n%s", log)
	}
}

// watch watches a wait for the lock of a name, which begins now.
func (s *scene) watch(name string, why *notices.Cause) *notices.Wait {
	w := &notices.Wait{Began: time.Now(), Name: name, NoError: true, On: waiter(func() notices.Cause { return *why })}
	s.Watch(w)
	return w
}

// TestWaitsInVainAreALineOfTheirOwn has two locks wait for the same reason. One of them waits in vain.
func TestWaitsInVainAreALineOfTheirOwn(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		defer s.Unwatch(s.watch("a", &notices.Cause{Kind: "NOPERM; down", Text: "two masters are down"}))
		time.Sleep(100 * time.Millisecond)
		defer s.Unwatch(s.watch("b", &notices.Cause{Kind: "NOPERM; down", Text: "two masters deny it", InVain: true}))
		time.Sleep(2 * time.Second)
		s.want(t, 1, `level=WARN msg="redlock: still waiting for locks" names=a waited=1s`)
		s.want(t, 1, `level=ERROR msg="redlock: waiting for locks in vain: waiting cannot help until the cause is mended" names=b waited=1s`)
	})
}

// For each lock, one of the calls that wait returns no error, so the line is a warning at least.
func TestALineAboutWaitsHasTheHighestLevelOfThem(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		for name, cause := range map[string]notices.Cause{"a": {Kind: "held", Held: true}, "b": {Kind: "denied", InVain: true}} {
			for _, noError := range []bool{false, true} {
				w := &notices.Wait{Began: time.Now(), Name: name, NoError: noError, Endless: true, On: waiter(func() notices.Cause { return cause })}
				s.Watch(w)
				defer s.Unwatch(w)
			}
		}
		time.Sleep(2 * time.Second)
		s.want(t, 1, `level=WARN msg="redlock: still waiting for locks" names=a waited=1s`)
		s.want(t, 1, `names=b waited=1s waits_without_deadline=2`)
	})
}

// TestAWaitIsWrittenASecondAfterItsCallBegan watches a wait half a second late.
func TestAWaitIsWrittenASecondAfterItsCallBegan(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		held := &notices.Cause{Kind: "held", Text: "held", Held: true}
		late := &notices.Wait{Began: time.Now(), Name: "late", On: waiter(func() notices.Cause { return *held })}
		time.Sleep(500 * time.Millisecond)
		s.Watch(late)
		defer s.Unwatch(late)
		time.Sleep(500 * time.Millisecond)
		s.want(t, 1, `level=INFO msg="redlock: still waiting for locks" names=late waited=1s`)
	})
}

// TestALineAboutWaitsComesOnTheScheduleOfItsCause has goroutines wait for a lock one after the other, with a line about it on the way: the
// line comes on the schedule of the first wait, and ten seconds after the last one for another lock.
func TestALineAboutWaitsComesOnTheScheduleOfItsCause(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		held := &notices.Cause{Kind: "held", Text: "held", Held: true}
		first := s.watch("a", held)
		time.Sleep(12 * time.Second)
		s.want(t, 2, "still waiting") // after 1 and 10 s
		s.want(t, 1, "names=a waited=10s")
		second := s.watch("a", held)
		s.Unwatch(first)
		time.Sleep(10 * time.Second)
		s.want(t, 2, "still waiting")
		third := s.watch("b", held)
		time.Sleep(2 * time.Second) // 24 s: the last line was written more than 10 s ago
		s.want(t, 3, "still waiting")
		s.want(t, 1, `names="a, b" waited=11s`)
		s.Unwatch(third)
		time.Sleep(37 * time.Second)
		s.want(t, 4, "still waiting") // after a minute
		s.Unwatch(second)
		time.Sleep(30 * time.Second)
		last := s.watch("a", held)
		time.Sleep(2 * time.Second)
		s.want(t, 5, "still waiting") // the cause was forgotten
		s.Unwatch(last)
	})
}

// The second lock begins to wait 5 s after the first, between two waits for that.
func TestLocksThatWaitForOneCauseAreDueTogether(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		down := &notices.Cause{Kind: "down", Text: "down", Holder: "web-1"}
		defer s.Unwatch(s.watch("b", down))
		time.Sleep(5 * time.Second)
		defer s.Unwatch(s.watch("a", down))
		defer s.Unwatch(s.watch("b", down))
		time.Sleep(54 * time.Second)
		s.want(t, 1, `names=b waited=1s why=down holders=web-1`)
		s.want(t, 1, `names="a, b" waited=10s why=down holders=web-1`)
		s.want(t, 2, "still waiting")
		time.Sleep(2 * time.Second)
		s.want(t, 1, `names="a, b" waited=1m0s`)
		time.Sleep(58 * time.Second)
		s.want(t, 3, "still waiting")
	})
}

// TestTheCauseOfALongWaitIsDeterminedEvery10S changes the cause of a wait, while other waits come and go.
func TestTheCauseOfALongWaitIsDeterminedEvery10S(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		var asked atomic.Int32
		var down atomic.Bool
		w := &notices.Wait{Began: time.Now(), Name: "a", On: waiter(func() notices.Cause {
			asked.Add(1)
			if down.Load() {
				return notices.Cause{Kind: "down", Text: "down"}
			}
			return notices.Cause{Kind: "held", Text: "held"}
		})}
		s.Watch(w)
		defer s.Unwatch(w)
		for range 250 {
			short := s.watch("b", &notices.Cause{})
			time.Sleep(100 * time.Millisecond)
			s.Unwatch(short)
		}
		synctest.Wait()
		if n := asked.Load(); n != 3 {
			t.Errorf("the cause of the wait was determined %d times in 25 s, want after 1, 10 and 20 s", n)
		}
		down.Store(true)
		time.Sleep(6 * time.Second)
		s.want(t, 1, "names=a waited=30s why=down")
	})
}

func TestWatchAllocatesNothing(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		on := waiter(func() notices.Cause { return notices.Cause{} })
		w := notices.Wait{}
		if n := testing.AllocsPerRun(100, func() {
			w = notices.Wait{Began: time.Now(), Name: "a", On: on}
			s.Watch(&w)
			s.Unwatch(&w)
		}); n > 0 {
			t.Errorf("a wait that is watched allocates %v times", n)
		}
	})
}

// TestStopWritesWhatIsPendingExceptWaits stops when a loss waits for others, and a wait for the next tick.
func TestStopWritesWhatIsPendingExceptWaits(t *testing.T) {
	var s *scene
	bubble(t, func(t *testing.T, running *scene) {
		s = running
		s.watch("b", &notices.Cause{Kind: "held", Text: "held"})
		time.Sleep(990 * time.Millisecond)
		s.Lost("a", notices.Cause{Kind: "down", Text: "down"})
		time.Sleep(30 * time.Millisecond)
		s.want(t, 0, "level=")
	})
	if log := s.log.String(); !strings.Contains(log, "names=a why=down") || strings.Count(log, "\n") != 1 {
		t.Errorf("logged, want one line about a:\n%s", log)
	}
}

func TestAnotherLimitIsLoggedOncePerSemaphore(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		for range 3 {
			s.OtherLimit("a", 4, 8)
			s.OtherLimit("a", 4, 9)
		}
		s.want(t, 1, "different limits")
		s.want(t, 1, `names=a limit=4 other=8`)
		s.OtherLimit("b", 4, 8)
		time.Sleep(9 * time.Second)
		s.want(t, 0, "names=b")
		time.Sleep(2 * time.Second)
		s.want(t, 1, `names=b limit=4 other=8`)
		s.OtherLimit("a", 5, 8) // this Client has changed its limit
		s.want(t, 1, `names=a limit=5 other=8`)
		s.want(t, 3, "different limits")
	})
}
