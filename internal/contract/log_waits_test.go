package contract_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// TestALongWaitIsLoggedAgainAndAgain checks the times of the log lines for one lock that another client
// holds.
func TestALongWaitIsLoggedAgainAndAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		hold(ms, "a", 0, 1, 2)
		var log logged
		c := connected(t, ms, log.seldom())
		l := c.Locker("a")
		start := time.Now()
		locked := make(chan struct{})
		go func() {
			l.Lock()
			close(locked)
		}()
		var told []time.Duration
		for n := len(log.Lines()); time.Since(start) < 4*time.Minute+30*time.Second; time.Sleep(100 * time.Millisecond) {
			synctest.Wait()
			if now := len(log.Lines()); now > n {
				n = now
				told = append(told, time.Since(start).Round(time.Second))
			}
		}
		want := []time.Duration{time.Second, 10 * time.Second, time.Minute, 2 * time.Minute, 3 * time.Minute, 4 * time.Minute}
		if !slices.Equal(told, want) {
			t.Errorf("told after %v, want %v\n%s", told, want, log.String())
		}
		log.Want(t, 1, `level=WARN msg="redlock: still waiting for locks" names=a waited=1m0s why="acquire: granted by 0, 2 needed (master `,
			": held by another")
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		<-locked
		time.Sleep(5 * time.Minute)
		log.Want(t, len(want), "still waiting")
	})
}

// TestWaitsWithOneCauseAreLoggedInOneLine has a thousand locks wait for masters that are down, and later
// another lock.
func TestWaitsWithOneCauseAreLoggedInOneLine(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.seldom())
		ms.Master(0).Stop()
		ms.Master(1).Stop()
		const locks = 30
		for i := range locks {
			go locktest.Pass(c.Locker(fmt.Sprintf("lock %03d", i)))
			go locktest.Pass(c.Locker(fmt.Sprintf("lock %03d", i)))
		}
		time.Sleep(30 * time.Second)
		log.Want(t, 2, "still waiting for locks") // after 1 and 10 s
		log.Want(t, 1, `names="lock 000, lock 001, lock 002, lock 003, lock 004, lock 005, lock 006, lock 007, lock 008, lock 009 and 20 more"`,
			"waited=1s ", "(master 1, master 2: connection ")
		log.Want(t, 1, "and 20 more", "waited=10s")
		for i := range 9 {
			go locktest.Pass(c.Locker(fmt.Sprintf("a late lock %d", i)))
			time.Sleep(time.Second)
		}
		time.Sleep(5 * time.Second)
		log.Want(t, 4, "still waiting for locks")
		log.Want(t, 1, `names="a late lock 0, lock 000, `, "and 21 more", "waited=31s")
		log.Want(t, 1, "a late lock 0, a late lock 1, a late lock 2,", "and 29 more", "waited=41s")
		startAdopted(ms, 0)
		time.Sleep(2 * time.Minute)
		log.Want(t, 4, "still waiting for locks")
	})
}

// TestWaitsWithTwoCausesAreLoggedInTwoLines: one lock is held, others have no quorum.
func TestWaitsWithTwoCausesAreLoggedInTwoLines(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.seldom())
		held := c.Locker("held")
		held.Lock()
		var all sync.WaitGroup
		all.Go(func() { locktest.Pass(c.Locker("held")) })
		ms.Master(0).Freeze()
		ms.Master(1).Freeze()
		all.Go(func() { locktest.Pass(c.Locker("free")) })
		all.Go(func() { locktest.Pass(c.Locker("free too")) })
		time.Sleep(1500 * time.Millisecond)
		log.Want(t, 2, "still waiting")
		log.Want(t, 1, "names=held ", `why="lock is held"`)
		log.Want(t, 1, `names="free, free too"`, "granted by 0, 2 needed (master 1, master 2: ")
		ms.Master(0).Thaw()
		ms.Master(1).Thaw()
		held.Unlock()
		all.Wait()
	})
}

func TestLeasesLostTogetherAreLoggedInOneLine(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		opts := log.Options()
		opts.LockOptions = short().LockOptions
		c := connected(t, ms, opts)
		const leases = 100
		for i := range leases {
			c.Locker(fmt.Sprintf("a%02d", i)).Lock()
		}
		for i := range 3 {
			ms.Master(i).Stop()
		}
		time.Sleep(10 * time.Second)
		log.Want(t, 1, "leases were lost")
		log.Want(t, 1, "leases were lost", " and 90 more", "no quorum of masters renewed it in time", "connection refused")
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

func TestAcquisitionsFromBeforeAQuarantineAreNotSent(t *testing.T) {
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
		if locktest.Outcome(err) != "no quorum" || !strings.Contains(err.Error(), "in quarantine until") {
			t.Errorf("TryLockContext = %v, want it to tell of the quarantine", err)
		}
		synctest.Wait()
		for i := range 3 {
			if n := sets(ms.Master(i), "a"); n != 0 {
				t.Errorf("master %d was sent %d SETs of acquisitions that cannot count", i+1, n)
			}
		}
	})
}
