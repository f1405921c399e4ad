package notices_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/bubbletest"
	"github.com/redlock-go/redlock/internal/guard"
	"github.com/redlock-go/redlock/internal/master"
	"github.com/redlock-go/redlock/internal/notices"
)

// A scene is the Notices of a Client of two masters that are up, and what was logged.
type scene struct {
	*notices.Notices

	mu     sync.Mutex // guards what follows
	log    bytes.Buffer
	status [2]master.Status
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
		s.Notices = notices.New(slog.New(slog.NewTextHandler(s, nil)), []string{"m1", "m2"}, 10*time.Second, 10*time.Second)
		go s.Run(func(i int) master.Status {
			s.mu.Lock()
			defer s.mu.Unlock()
			return s.status[i]
		})
		s.change(0, master.Status{State: master.Up})
		s.change(1, master.Status{State: master.Up})
		f(t, s)
		<-s.Stop()
	})
}

// change changes the status of a master.
func (s *scene) change(i int, now master.Status) {
	s.mu.Lock()
	before := s.status[i].State
	s.status[i] = now
	s.mu.Unlock()
	s.MasterChanged(i, before, now)
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

// TestLinesOnOneTopicAreApart changes the state of a master again and again: a line that says that it is down, or that it
// is up, follows the last one of its kind after 10 s, whatever the message is.
func TestLinesOnOneTopicAreApart(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		down := func(text string) { s.change(0, master.Status{State: master.Down, Err: errors.New(text)}) }
		up := func() { s.change(0, master.Status{State: master.Up}) }
		time.Sleep(time.Minute)
		down("gone")
		up()
		time.Sleep(5 * time.Second)
		s.want(t, 1, "masters were down for a moment")
		down("NOAUTH")
		time.Sleep(4 * time.Second)
		s.want(t, 1, "level=WARN")
		time.Sleep(4 * time.Second)
		s.want(t, 1, "masters require a password")
		time.Sleep(time.Minute)

		up()
		time.Sleep(3 * time.Second)
		s.want(t, 1, "masters are up again")
		s.change(0, master.Status{State: master.Quarantined, Err: &guard.QuarantineError{Why: "new"}})
		time.Sleep(3 * time.Second)
		s.want(t, 1, "masters are in quarantine")
		up()
		time.Sleep(3 * time.Second)
		s.want(t, 1, "level=INFO")
		time.Sleep(4 * time.Second)
		s.want(t, 1, "masters vote again")
	})
}

func TestThatRestartsMayGoUnnoticedIsLoggedOnce(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		for range 3 {
			s.change(1, master.Status{State: master.Up, GuardErr: errors.New("no run_id")})
			time.Sleep(time.Minute)
			s.change(1, master.Status{State: master.Up})
			time.Sleep(time.Minute)
		}
		s.want(t, 1, `msg="redlock: restarts of masters may go unnoticed" masters=m2 why="no run_id"`)
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
		s.want(t, 1, `msg="redlock: leases were lost" names="a00, a01, a02, a03, a04, a05, a06, a07, a08, a09 and 2 more" why="down for 11 s"`)
		s.want(t, 1, `msg="redlock: leases were lost" names=b why=deleted`)
		s.want(t, 1, `msg="redlock: releases were not answered by a quorum of masters: locks stay taken until they are, or for their TTL" names=c`)
		s.Lost("d", notices.Cause{Kind: "down", Text: "down again"})
		time.Sleep(8 * time.Second)
		s.want(t, 0, "names=d")
		time.Sleep(2 * time.Second)
		s.want(t, 1, `names=d why="down again"`)
	})
}

// A waiter waits for what it returns.
type waiter func() notices.Cause

func (w waiter) WaitsFor() notices.Cause { return w() }

// TestStopWritesWhatIsPendingExceptWaits stops when a loss waits for others, and a wait for the next tick.
func TestStopWritesWhatIsPendingExceptWaits(t *testing.T) {
	var s *scene
	bubble(t, func(t *testing.T, running *scene) {
		s = running
		s.Watch(&notices.Wait{}, "b", notices.Waiting{NoError: true}, waiter(func() notices.Cause { return notices.Cause{Kind: "held", Text: "held"} }))
		time.Sleep(990 * time.Millisecond)
		s.Lost("a", notices.Cause{Kind: "down", Text: "down"})
		time.Sleep(30 * time.Millisecond)
		s.want(t, 0, "level=")
	})
	if log := s.log.String(); !strings.Contains(log, "names=a why=down") || strings.Count(log, "\n") != 1 {
		t.Errorf("logged, want one line about a:\n%s", log)
	}
}

func TestEventsAreDeliveredInOrderAndBounded(t *testing.T) {
	bubbletest.Test(t, func(t *testing.T) {
		const most = 1 << 14
		var e notices.Events
		<-e.Done()
		resume := make(chan struct{})
		e.Post(func() { <-resume })
		synctest.Wait()
		var got []int
		for i := range most + 10 {
			e.Post(func() { got = append(got, i) })
		}
		select {
		case <-e.Done():
			t.Error("the events are done while a function has not returned")
		default:
		}
		close(resume)
		<-e.Done()
		if len(got) != most {
			t.Fatalf("%d events were delivered, want %d", len(got), most)
		}
		for i, n := range got {
			if n != i {
				t.Fatalf("event %d was delivered as number %d", n, i)
			}
		}
	})
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
		s.want(t, 1, `names=b limit=4 other=8`)
		s.OtherLimit("a", 5, 8) // this Client has changed its limit
		s.want(t, 1, `names=a limit=5 other=8`)
		s.want(t, 3, "different limits")
	})
}
