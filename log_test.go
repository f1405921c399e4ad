package redlock_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAQuarantineIsToldAtOnceInOneLine(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 5 {
			ms.Master(i).Forget() // as servers that were just created
		}
		var log lockedBuffer
		c := ms.Open(&redlock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		l := c.Locker("a")
		start := time.Now()
		go func() {
			time.Sleep(100 * time.Millisecond)
			text := strings.TrimSpace(log.String())
			for _, want := range []string{
				`level=WARN msg="redlock: masters are in quarantine, and do not vote: locks have to wait"`,
				`masters="master 1, master 2, master 3, master 4, master 5"`, `for=12s`,
				`why="it has no memory of redlock: it is new, or has lost it"`, `redlock doctor --adopt`,
			} {
				if !strings.Contains(text, want) || strings.Contains(text, "\n") {
					t.Errorf("the log says %q, want one line with %s", text, want)
				}
			}
		}()
		l.Lock()
		if took := time.Since(start); took < 12*time.Second || took > 13*time.Second {
			t.Errorf("the first Lock took %v, want MaxTTL and 2 s", took)
		}
		l.Unlock()
		before := len(log.String())
		ms.Master(0).Stop()
		ms.Master(0).Forget()
		ms.Master(0).Start()
		time.Sleep(5 * time.Second)
		if text := log.String()[before:]; !strings.Contains(text, `and do not vote" masters="master 1" `) {
			t.Errorf("the log says %q, want no more than that one master is in quarantine", text)
		}
	})
}

func TestMastersThatAreAdoptedWhileALockWaitsVoteAtOnce(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 3 {
			ms.Master(i).Forget()
		}
		l := ms.Open(nil).Locker("a")
		start := time.Now()
		time.AfterFunc(3*time.Second, func() {
			for i := range 3 {
				ms.Master(i).Adopt()
			}
		})
		l.Lock()
		if took := time.Since(start); took < 3*time.Second || took > 5*time.Second {
			t.Errorf("Lock took %v, want 3 s, until the masters were adopted, and a heartbeat", took)
		}
		l.Unlock()
	})
}

func TestWhatWasAskedBeforeAQuarantineWasKnownIsNotSent(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 3 {
			ms.Master(i).Forget()
			ms.Master(i).HangDials()
		}
		l := ms.Open(nil).Locker("a")
		time.AfterFunc(100*time.Millisecond, func() {
			for i := range 3 {
				ms.Master(i).ResumeDials()
			}
		})
		err := l.TryLockContext(t.Context())
		if outcome(err) != "no quorum" || !strings.Contains(err.Error(), "in quarantine until") {
			t.Errorf("TryLockContext = %v, want it to tell of the quarantine", err)
		}
		synctest.Wait()
		for i := range 3 {
			if n := ms.Master(i).Count("SET"); n != 0 {
				t.Errorf("master %d was sent %d SETs of acquisitions that cannot count", i+1, n)
			}
		}
	})
}
