package contract_test

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// logged is a Logger's output.
type logged struct{ locktest.Log }

// seldom returns options of a Client that tries again every second, so that a test of a long wait takes few
// steps.
func (l *logged) seldom() *redlock.Options {
	o := l.Options()
	o.DisableWakeups = true
	o.NewBackOff = func() redlock.BackOff { return locktest.BackOffFunc(func() time.Duration { return time.Second }) }
	return o
}

const five = `masters="master 1, master 2, master 3, master 4, master 5"`

func TestAQuarantineIsLoggedAtOnceInOneLine(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 5 {
			ms.Master(i).Forget() // as servers that were just created
		}
		var log logged
		c := ms.Open(log.Options())
		l := c.Locker("a")
		start := time.Now()
		go func() {
			time.Sleep(100 * time.Millisecond)
			if n := len(log.Lines()); n != 1 {
				t.Errorf("%d lines, want 1:\n%s", n, log.String())
			}
			log.Want(t, 1, `level=WARN msg="redlock: masters are in quarantine, and do not vote: locks have to wait"`, five, ` for=12s `,
				" until="+start.Add(12*time.Second).Format(time.RFC3339)+" ",
				`why="it has no memory of redlock: it is new, or has lost it"`,
				`hint="wait; or, if these masters are new and nobody holds a lock on them: redlock doctor --adopt"`)
		}()
		l.Lock()
		if took := time.Since(start); took < 12*time.Second || took > 13*time.Second {
			t.Errorf("the first Lock took %v, want MaxTTL and 2 s", took)
		}
		l.Unlock()
		time.Sleep(2 * time.Second)
		log.Want(t, 1, `level=INFO msg="redlock: masters vote again: their quarantine is over" `+five)
	})
}

// TestTheLogAdvisesAdoptingOnlyWhereItIsSafe: the log advises adopting only if no master has ever voted and
// locks have to wait.
func TestTheLogAdvisesAdoptingOnlyWhereItIsSafe(t *testing.T) {
	for _, row := range []struct {
		name   string
		forget []int // masters that lose their memory while the client runs
		before []int // masters that lost it before the client connects
		other  bool  // another client has connected since then
		wait   bool
		adopt  bool
	}{
		{name: "new masters", before: []int{0, 1, 2, 3, 4}, wait: true, adopt: true},
		{name: "new masters, or not, that another client has found", before: []int{0, 1, 2, 3, 4}, other: true, wait: true, adopt: false},
		{name: "a majority is new", before: []int{0, 1, 2}, wait: true, adopt: false}, // the others vote
		{name: "a minority is new", before: []int{0, 1}, wait: false, adopt: false},
		{name: "all have forgotten", forget: []int{0, 1, 2, 3, 4}, wait: true, adopt: false},
		{name: "a majority has forgotten", forget: []int{0, 1, 2}, wait: true, adopt: false},
		{name: "one has forgotten", forget: []int{3}, wait: false, adopt: false},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				var log logged
				for _, i := range row.before {
					ms.Master(i).Forget()
				}
				if row.other {
					ms.Open(nil)
					time.Sleep(3 * time.Second)
				}
				ms.Open(log.Options())
				time.Sleep(3 * time.Second)
				for _, i := range row.forget {
					ms.Master(i).Forget()
				}
				time.Sleep(5 * time.Second) // a heartbeat finds it within 1 s, and the line follows 2 s later
				log.Want(t, 1, "are in quarantine", "until=")
				for words, want := range map[string]bool{"locks have to wait": row.wait, "adopt": row.adopt, "hint=": row.adopt} {
					n := 0
					if want {
						n = 1
					}
					log.Want(t, n, words)
				}
			})
		})
	}
}

// TestLocksWaitUntilAQuorumIsOutOfQuarantine: one of five masters votes, and the quarantines of the others
// end one after the other. When the second of these ends, a quorum votes and the wait ends.
func TestLocksWaitUntilAQuorumIsOutOfQuarantine(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		first := ms.Open(nil) // it writes the records
		start := time.Now()
		for i := range 4 {
			ms.Master(i).Forget()
			time.Sleep(2 * time.Second)
		}
		first.Close()
		var log logged
		ms.Open(log.Options())
		time.Sleep(100 * time.Millisecond)
		var until []time.Time
		for _, m := range first.Masters() {
			until = append(until, m.Until)
		}
		lines := log.Lines("locks have to wait", `masters="master 1, master 2, master 3, master 4"`)
		want := " until=" + until[1].Format(time.RFC3339)
		if len(lines) != 1 || !strings.Contains(lines[0], want) {
			t.Errorf("the log says %q, want one line with%s (the test began at %v)", lines, want, start)
		}
	})
}

// The master is back before a line says that it is down. Lines about quarantines are 10 s apart.
func TestARestartInQuarantineIsLoggedWithTheNewEnd(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.Options())
		for i := range 3 {
			ms.Master(i).Forget()
		}
		time.Sleep(5 * time.Second)
		for range 2 {
			ms.Master(0).Cut() // which is no restart
			time.Sleep(100 * time.Millisecond)
		}
		for i := range 3 {
			ms.Master(i).Stop()
			ms.Master(i).Start()
		}
		time.Sleep(9 * time.Second) // the first quarantine would be over now
		lines := log.Lines("locks have to wait")
		if len(lines) != 2 {
			t.Fatalf("the log says %q, want two lines: the quarantine has begun twice", lines)
		}
		m := c.Masters()[0]
		if want := " until=" + m.Until.Format(time.RFC3339) + " "; m.State != redlock.MasterQuarantined || !strings.Contains(lines[1], want) {
			t.Errorf("the last line is %q, want%s: %s is %s", lines[1], want, m.Name, m.State)
		}
		if got := log.Lines("level="); len(got) != 2 {
			t.Errorf("the log has further lines:\n%s", log.String())
		}
	})
}

func TestMastersThatGoDownAndComeBackAreLoggedInOneLineEach(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		connected(t, ms, log.Options())
		time.Sleep(5 * time.Second)
		if got := log.Lines(); len(got) != 0 {
			t.Errorf("a healthy start logs %q", got)
		}
		for i := range 5 {
			ms.Master(i).Stop()
		}
		time.Sleep(20 * time.Second)
		startAdopted(ms, 0, 1, 2, 3, 4)
		time.Sleep(20 * time.Second)
		want := []string{
			`level=WARN msg="redlock: masters are down" ` + five + ` why="connection refused (no server listens at this address)"`,
			`level=INFO msg="redlock: masters are up again" ` + five,
		}
		if got := log.Lines(); !slices.Equal(got, want) {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	})
}

// The connections of the masters were not logged yet, or are never logged.
func TestMastersThatGoDownSoonAfterTheyCameAreLoggedInOneLine(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.Options())
		time.Sleep(1500 * time.Millisecond)
		for i := range 5 {
			ms.Master(i).Stop()
			c.Locker(fmt.Sprint(i)).TryLock() // detects the failure before the heartbeat does
			time.Sleep(50 * time.Millisecond)
		}
		time.Sleep(10 * time.Second)
		log.Want(t, 1, "masters are down")
		log.Want(t, 1, "masters are down", five)
	})
}

func TestMastersThatAreDownAreLoggedInOneLineForEachReason(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		connected(t, ms, log.Options())
		for i := range 5 {
			if i%2 == 0 {
				ms.Master(i).Stop()
			} else {
				ms.Master(i).Fail("LOADING Redis is loading the dataset in memory")
				ms.Master(i).Cut()
			}
		}
		time.Sleep(10 * time.Second)
		log.Want(t, 1, "masters are down", `masters="master 1, master 3, master 5" why="connection refused (no server listens at this address)"`)
		log.Want(t, 1, "masters are down", `masters="master 2, master 4" why="LOADING`)
	})
}

// TestAMasterThatFlapsIsLoggedOnceInAWhile also checks that the last line of the log states the master's last
// state.
func TestAMasterThatFlapsIsLoggedOnceInAWhile(t *testing.T) {
	for _, down := range []bool{true, false} {
		t.Run(fmt.Sprintf("down in the end: %v", down), func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var log logged
				connected(t, ms, log.Options())
				m := ms.Master(1)
				for range 12 { // for a minute
					m.Stop()
					time.Sleep(2*time.Second + rand.N(time.Second)) // in no step with the heartbeats and the limit on lines
					m.Start()
					time.Sleep(2*time.Second + rand.N(time.Second))
				}
				if down {
					m.Stop()
				}
				time.Sleep(30 * time.Second)
				got := log.Lines()
				if n := len(got); n < 3 || n > 15 {
					t.Errorf("%d lines in a minute and a half, want a few:\n%s", n, log.String())
				}
				if len(got) > 0 && strings.Contains(got[len(got)-1], "are down") != down {
					t.Errorf("the last line of %q says something else", got)
				}
			})
		})
	}
}

// TestAMasterThatGoesDownAgainIsLoggedLater: the line is logged as soon as the limit on such lines permits.
func TestAMasterThatGoesDownAgainIsLoggedLater(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.Options())
		stop := func() {
			ms.Master(1).Stop()
			c.Locker("a").TryLock() // detects the failure
		}
		stop()
		time.Sleep(2 * time.Second)
		startAdopted(ms, 1)
		time.Sleep(4 * time.Second)
		log.Want(t, 1, "are down")
		log.Want(t, 1, "are up again")
		stop()
		time.Sleep(3 * time.Second)
		log.Want(t, 1, "are down")
		time.Sleep(3 * time.Second)
		log.Want(t, 2, "are down")
		log.Want(t, 1, "are up again")
	})
}

func TestAMasterThatWasDownForAMomentIsLoggedInOneLine(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.Options())
		ms.Master(1).Cut()
		c.Locker("a").TryLock() // detects the failure
		time.Sleep(10 * time.Second)
		if got := log.Lines(); len(got) != 1 || !strings.Contains(got[0], `msg="redlock: masters were down for a moment" masters="master 2" why="connection lost: `) {
			t.Errorf("the log says %q, want one line about master 2", got)
		}
	})
}

func TestDurationsInTheLogAreText(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		for i := range 3 {
			ms.Master(i).Forget()
		}
		var log locktest.Buffer
		c := ms.Open(&redlock.Options{Logger: slog.New(slog.NewJSONHandler(&log, nil))})
		locktest.Pass(c.Locker("a"))
		want := map[string]any{"for": "12s", "waited": "1s"}
		for line := range strings.Lines(log.String()) {
			var fields map[string]any
			if err := json.Unmarshal([]byte(line), &fields); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
			for name, value := range fields {
				if _, isText := value.(string); !isText {
					t.Errorf("%s is %v, want text", name, value)
				}
				if w, ok := want[name]; ok && w == value {
					delete(want, name)
				}
			}
		}
		if len(want) > 0 {
			t.Errorf("no line with %v:\n%s", want, log.String())
		}
	})
}

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

// TestALockThatWaitsAgainIsLoggedLikeTheFirstTime: the second wait begins half a minute after the first has ended.
func TestALockThatWaitsAgainIsLoggedLikeTheFirstTime(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		l := connected(t, ms, log.seldom()).Locker("a")
		for n := range 2 {
			hold(ms, "a", 0, 1, 2)
			var wait sync.WaitGroup
			wait.Go(l.Lock)
			time.Sleep(12 * time.Second)
			log.Want(t, 2*(n+1), "still waiting for locks") // after 1 and 10 s
			for i := range 3 {
				ms.Master(i).Del("a")
			}
			wait.Wait()
			l.Unlock()
			time.Sleep(30 * time.Second)
		}
		log.Want(t, 2, "still waiting for locks", "waited=1s ")
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
			"waited=1s ", ", 2 needed (master 1", "master 2: connection ") // the two connections may have ended with different errors
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
		log.Want(t, 1, `names="free, free too"`, ", 2 needed (master 1") // granted by 0 or 1, as the last attempt was; after a second, a connection may be retired
		ms.Master(0).Thaw()
		ms.Master(1).Thaw()
		held.Unlock()
		all.Wait()
	})
}

// TestLocksThatAreHeldAreLoggedInOneLine: a goroutine of the Client holds one lock, another client the other.
func TestLocksThatAreHeldAreLoggedInOneLine(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		hold(ms, "theirs", 0, 1, 2)
		var log logged
		c := connected(t, ms, log.seldom())
		own := c.Locker("own")
		own.Lock()
		var all sync.WaitGroup
		all.Go(func() { locktest.Pass(c.Locker("own")) })
		all.Go(func() { locktest.Pass(c.Locker("theirs")) })
		time.Sleep(5 * time.Second)
		log.Want(t, 1, "still waiting")
		log.Want(t, 1, `names="own, theirs"`)
		own.Unlock()
		for i := range 3 {
			ms.Master(i).Del("theirs")
		}
		all.Wait()
	})
}

// TestMastersThatRefuseAreNoCauseOfAWait: both locks wait for masters that are down. For one, a master also refuses.
func TestMastersThatRefuseAreNoCauseOfAWait(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		hold(ms, "a", 0)
		var log logged
		opts := log.seldom()
		opts.NewBackOff = func() redlock.BackOff { return locktest.BackOffFunc(func() time.Duration { return time.Minute }) }
		c := connected(t, ms, opts)
		for i := 2; i < 5; i++ {
			ms.Master(i).Freeze() // so that the refusal comes first
		}
		var all sync.WaitGroup
		all.Go(func() { locktest.Pass(c.Locker("a")) })
		all.Go(func() { locktest.Pass(c.Locker("b")) })
		time.Sleep(5 * time.Second)
		log.Want(t, 1, "still waiting")
		log.Want(t, 1, `names="a, b"`)
		for i := 2; i < 5; i++ {
			ms.Master(i).Thaw()
		}
		ms.Master(0).Del("a")
		all.Wait()
	})
}

// TestLeasesLostForTwoReasonsAreLoggedInTwoLines: first masters are down, and then in quarantine.
func TestLeasesLostForTwoReasonsAreLoggedInTwoLines(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		var log logged
		c := connected(t, ms, log.Options())
		for name, ttl := range map[string]time.Duration{"a": 2 * time.Second, "b": 8 * time.Second} {
			l, err := c.NewLocker(name, &redlock.LockOptions{TTL: ttl})
			if err != nil {
				t.Fatal(err)
			}
			l.Lock()
		}
		for i := range 3 {
			ms.Master(i).Stop()
		}
		time.Sleep(3 * time.Second)
		log.Want(t, 1, "leases were lost", "names=a", "connection refused")
		for i := range 3 {
			ms.Master(i).Start()
		}
		time.Sleep(6 * time.Second)
		log.Want(t, 1, "leases were lost", "names=b", "in quarantine")
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
