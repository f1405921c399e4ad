package contract_test

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// These tests are about hostile wake-ups: every user who may publish on a master can send any message to a
// waiting Client.

// waiting makes a Client wait for the lock "a", which another client holds. It returns the Client, the
// channel of its wake-ups, and a channel that reports when it has the lock.
func waiting(t *testing.T, ms *redlocktest.Masters) (c *redlock.Client, channel string, in <-chan time.Time) {
	t.Helper()
	opts := lazy()
	opts.LockOptions.Handover = -1
	c = connected(t, ms, opts)
	for i := range ms.Len() {
		ms.Master(i).Set("a", "held", time.Minute)
	}
	in = locktest.Enter(c.Locker("a"))
	queued(t, ms, "a", 1)
	return c, "redlock:wake:" + clientOf(queueHead(t, ms, "a")), in
}

// publish sends messages on one master, from one connection.
func publish(t *testing.T, ms *redlocktest.Masters, master int, channel string, messages ...string) {
	t.Helper()
	conn := ms.Pools()[master].Get()
	defer conn.Close()
	for _, message := range messages {
		if n, err := conn.Do("PUBLISH", channel, message); err != nil || n.(int64) != 1 {
			t.Fatalf("PUBLISH %.40q on master %d = %v, %v", message, master+1, n, err)
		}
	}
	synctest.Wait()
}

// commands returns how many commands for locks all masters have executed.
func commands(ms *redlocktest.Masters) (n int) {
	for i := range ms.Len() {
		n += ms.Master(i).Count("SET") + ms.Master(i).Count("EVALSHA")
	}
	return n
}

// dropped returns how many wake-ups of a master a Client has ignored.
func dropped(c *redlock.Client, master int) uint64 { return c.Masters()[master].WakesDropped }

func TestIllFormedWakeUpsAreDroppedAndCounted(t *testing.T) {
	long := strings.Repeat("x", 64<<10+1)
	for _, row := range []struct{ name, message string }{
		{"no token", " a"},
		{"no key", "token "},
		{"no space", "token"},
		{"nothing", ""},
		{"a space", " "},
		{"a long token", long + " a"},
		{"a long key", "token " + long},
	} {
		t.Run(row.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				c, channel, in := waiting(t, ms)
				before := commands(ms)
				for range 3 {
					publish(t, ms, 0, channel, row.message, row.message)
				}
				time.Sleep(4 * time.Millisecond)
				synctest.Wait()
				if n := commands(ms) - before; n != 0 {
					t.Errorf("the masters were sent %d commands, want none", n)
				}
				if n, other := dropped(c, 0), dropped(c, 1); n != 6 || other != 0 {
					t.Errorf("%d and %d messages were dropped, want 6 of the first master", n, other)
				}
				for i := range 5 { // the Client still listens
					ms.Master(i).Del("a")
					publish(t, ms, i, channel, "held a")
				}
				<-in
			})
		})
	}
}

// A quorum of wake-ups means messages from a quorum of masters, not a number of messages.
func TestWakeUpsAreCountedByMaster(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		_, channel, in := waiting(t, ms)
		before := commands(ms)
		publish(t, ms, 0, channel, "token a", "token a", "token a", "token a")
		if n := commands(ms) - before; n != 0 {
			t.Errorf("four messages of one master caused %d commands at once, want none", n)
		}
		publish(t, ms, 1, channel, "token a")
		if n := commands(ms) - before; n == 0 {
			t.Error("a message of a second master did not wake the waiter")
		}
		publish(t, ms, 2, channel, "token a")
		before = commands(ms)
		for range 10 {
			publish(t, ms, 2, channel, "token a", "token a")
		}
		if n := commands(ms) - before; n != 0 {
			t.Errorf("when a quorum had told, the same message of one master caused %d commands, want none", n)
		}
		free(ms, "a")
		<-in
	})
}

// If readers leave together, another one of them is the last at each master.
func TestWakeUpsWithSeveralTokensWakeTheWaiterSoon(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		_, channel, in := waiting(t, ms)
		for range 3 {
			publish(t, ms, 0, channel, "early a")
			publish(t, ms, 1, channel, "early a") // wakes it, and it finds the lock held
			before := ms.Master(0).Count("EVALSHA")
			for i := range 5 {
				publish(t, ms, i, channel, fmt.Sprint("other", i, " a"))
			}
			time.Sleep(10 * time.Millisecond)
			synctest.Wait()
			if n := ms.Master(0).Count("EVALSHA") - before; n != 1 {
				t.Errorf("messages with five tokens woke the waiter %d times within 10 ms, want once", n)
			}
			time.Sleep(time.Second)
		}
		free(ms, "a")
		<-in
	})
}

func free(ms *redlocktest.Masters, key string) {
	for i := range ms.Len() {
		ms.Master(i).Del(key)
	}
}

// Many messages of one master must cause only few rounds, and must not keep the messages of other masters
// from being counted.
func TestWakeUpsOfAMasterThatFloodsAWaiterAreLimited(t *testing.T) {
	for _, masters := range []int{3, 5} {
		t.Run(fmt.Sprint(masters), func(t *testing.T) {
			bubble(t, masters, func(t *testing.T, ms *redlocktest.Masters) {
				_, channel, in := waiting(t, ms)
				// One call is part of each question for the owner, as is the only GETRANGE.
				attempts := func() int { return ms.Master(1).Count("EVALSHA") - ms.Master(1).Count("GETRANGE") }
				before := attempts()
				const flood = 500 * time.Millisecond
				for range flood / (500 * time.Microsecond) {
					publish(t, ms, 0, channel, fmt.Sprint("token", time.Now().UnixNano(), " a"))
					time.Sleep(500 * time.Microsecond)
				}
				if n := attempts() - before; n == 0 || n > int(flood/(10*time.Millisecond))+1 {
					t.Errorf("the flood woke the waiter %d times, want now and then: at most each 10 ms", n)
				}
				free(ms, "a")
				released := time.Now()
				for i := 1; i < masters; i++ {
					publish(t, ms, 0, channel, fmt.Sprint("other", i, " a"))
					publish(t, ms, i, channel, "held a")
				}
				if took := (<-in).Sub(released); took != 0 {
					t.Errorf("the waiter entered %v after a quorum of the other masters woke it, want at once", took)
				}
			})
		})
	}
}

// A publisher must not make the Client act on a key of the publisher's choice.
func TestAWakeUpForAKeyThatTheClientNeverQueuedForStartsNothing(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c, channel, in := waiting(t, ms)
		conn := ms.Pools()[0].Get()
		defer conn.Close()
		for _, key := range []string{"victim", "redlock:incarnation", "redlock:queue:victim"} {
			if _, err := conn.Do("ZADD", "redlock:queue:"+key, 1, "somebody"); err != nil {
				t.Fatal(err)
			}
		}
		before := commands(ms)
		for _, key := range []string{"victim", "redlock:incarnation", "redlock:queue:victim", "with a space", "\x1b[2J"} {
			publish(t, ms, 0, channel, "token "+key)
		}
		if n := commands(ms) - before; n != 0 {
			t.Errorf("the masters were sent %d commands, want none", n)
		}
		if n := len(queue(t, ms, 0, "victim")); n != 1 {
			t.Errorf("the queue of another key has %d members, want the 1 that was there", n)
		}
		if n := dropped(c, 0); n != 5 {
			t.Errorf("%d messages were dropped, want 5", n)
		}
		free(ms, "a")
		<-in
	})
}

// After a wait, each master may still send one message, since the key may have been freed while the Client
// left.
func TestAfterAWaitOneWakeUpOfEachMasterIsPassedOn(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c, channel, in := waiting(t, ms)
		free(ms, "a")
		l := c.Locker("a")
		<-in // the waiter holds the lock
		if l.TryLock() {
			t.Fatal("TryLock of a held lock succeeded")
		}
		for i := range 3 {
			publish(t, ms, i, channel, "held a")
		}
		before := ms.Master(0).Count("EVALSHA")
		publish(t, ms, 0, channel, "held a", "other a", "third a")
		if n := ms.Master(0).Count("EVALSHA") - before; n != 0 || dropped(c, 0) != 3 {
			t.Errorf("three more messages caused %d script calls, and %d were dropped, want 0 and 3", n, dropped(c, 0))
		}
	})
}

func TestAKeyIsAtMost64KiB(t *testing.T) {
	name := strings.Repeat("n", 64<<10)
	bubble(t, 1, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		if _, err := c.NewLocker(name, nil); err != nil {
			t.Errorf("NewLocker of 64 KiB = %v", err)
		}
		const want = "Options.Prefix and name, is 65537 bytes long, the limit is 65536"
		if _, err := c.NewLocker(name+"n", nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewLocker of 64 KiB and one byte = %.200v, want %q", err, want)
		}
		prefixed := connected(t, ms, &redlock.Options{Prefix: "p"})
		if _, err := prefixed.NewLocker(name, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewLocker of 64 KiB with a prefix of one byte = %.200v, want %q", err, want)
		}
		if _, err := redlock.New(ms.Pools(), &redlock.Options{Prefix: name}); err == nil || !strings.Contains(err.Error(), "Options.Prefix is 65536 bytes long") {
			t.Errorf("New with a prefix of 64 KiB = %.200v, want an error", err)
		}
	})
}
