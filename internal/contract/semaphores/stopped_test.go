package semaphores_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// A permit that was granted to a client that is stopped would stand still for g, and a claim for several of them would keep all others waiting
// while it is the head. So clients that have not polled for too long are passed over.
func TestClientsThatAreStoppedDoNotDelayPermits(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const limit, stopped, oneWay = 4, 12, time.Millisecond
		first, second := connected(t, ms, nil), openAt(ms, oneWay, nil)
		holder := acquire(t, first.Semaphore("a", limit), limit-1)
		other := acquire(t, first.Semaphore("a", limit), 1)
		var running locktest.Tap
		for i := range stopped {
			s := locktest.Stoppable(t, ms, &running).Semaphore("a", limit)
			go s.AcquireN(t.Context(), 1+3*(i%2))
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(time.Second) // they have polled
		running.Shut(t)
		time.Sleep(time.Minute) // also those that are far have not polled for too long
		in := entered1(second.Semaphore("a", limit))
		time.Sleep(10 * oneWay)
		other.Release()
		wantEntered(t, in, 4*oneWay, "a client that runs, behind those that are stopped").Release()
		holder.Release()
		time.Sleep(100 * time.Millisecond)
		began := time.Now()
		for range 10 { // nobody else runs
			acquire(t, second.Semaphore("a", limit), limit).Release()
		}
		if took := time.Since(began); took > 10*4*oneWay {
			t.Errorf("ten acquisitions have taken %v, want %v at most", took, 10*4*oneWay)
		}
	})
}

// Claims that are far may be granted permits, too, if many become free. Their last marks may be so old that the votes end soon. Then a poll asks for how long the
// slots live: a new claim would pass the permits on, and begin at the end.
func TestAGrantToAClaimThatIsFarIsKept(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const limit, oneWay = 24, time.Millisecond // 16 are near
		holder := acquire(t, openAt(ms, oneWay, nil).Semaphore("a", limit), limit)
		var in []<-chan *redlock.Permit
		var sems []*redlock.Semaphore
		for range limit {
			sems = append(sems, openAt(ms, oneWay, nil).Semaphore("a", limit))
		}
		for _, s := range sems {
			in = append(in, entered1(s))
			time.Sleep(time.Microsecond)
		}
		time.Sleep(700 * time.Millisecond) // more than half of g, and less than g
		before := countCommands(ms.Master(0), `"register `)
		holder.Release()
		for _, in := range in {
			wantEntered(t, in, 6*oneWay, "a client of the crowd").Release()
		}
		if got := countCommands(ms.Master(0), `"register `) - before; got != 0 {
			t.Errorf("there were %d further registrations, want none", got)
		}
	})
}

// A client that was passed over although it runs is told, and polls soon, also if it is near and polls twice a second only.
func TestAClientThatWasPassedOverPollsSoon(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const limit, ahead = 8, 5
		acquire(t, connected(t, ms, nil).Semaphore("a", limit), limit)
		var in []<-chan *redlock.Permit
		for range ahead + 1 {
			in = append(in, entered(connected(t, ms, nil).Semaphore("a", limit), 1))
		}
		last, _, _ := strings.Cut(queueOf(t, ms, 0, "redlock:permits:a")[ahead], " ")
		ofLast := func() int { return countCommands(ms.Master(0), last+` "again `) }
		for n, end := ofLast(), time.Now().Add(time.Second); ofLast() == n; time.Sleep(time.Millisecond) { // the next one comes after 375 ms
			if time.Now().After(end) {
				t.Fatal("it does not poll")
			}
		}
		time.Sleep(time.Millisecond) // it has polled all masters
		for i := range ms.Len() {
			ms.Master(i).Set("redlock:waiter:"+last, fmt.Sprintf("%d 20 60000", time.Now().UnixMilli()-1), time.Hour)
			conn := ms.Pools()[i].Get()
			defer conn.Close()
			for slot := range ahead + 1 {
				if _, err := conn.Do("ZADD", "redlock:until:a", 1, slot); err != nil {
					t.Fatal(err)
				}
			}
		}
		wantEntered(t, in[ahead], 260*time.Millisecond, "the client that was passed over") // a poll of those that poll often, and its own
		for _, in := range in[:ahead] {
			wantEntered(t, in, time.Second, "a client ahead of it")
		}
	})
}

// A master that was restarted may have lost the end of what it has executed, and so have a claim in its queue again that was released. Its client is told
// when it is passed over, and releases it again.
func TestAClaimThatAMasterHasAgainIsReleasedThere(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const queue = "redlock:permits:a"
		other := connected(t, ms, nil).Semaphore("a", 1)
		holder := acquire(t, other, 1)
		in := entered(connected(t, ms, nil).Semaphore("a", 1), 1)
		member := queueOf(t, ms, 0, queue)[0]
		id, _, _ := strings.Cut(member, " ")
		holder.Release()
		wantEntered(t, in, time.Second, "a client").Release()
		holder = acquire(t, other, 1)
		conn := ms.Pools()[0].Get()
		defer conn.Close()
		if _, err := conn.Do("ZADD", queue, 1, member); err != nil {
			t.Fatal(err)
		}
		ms.Master(0).Set("redlock:waiter:"+id, "1 20 0", time.Hour) // it waits for nothing
		holder.Release()
		time.Sleep(100 * time.Millisecond)
		if left := queueOf(t, ms, 0, queue); len(left) > 0 {
			t.Errorf("the queue has %q", left)
		}
		acquire(t, other, 1).Release()
	})
}

// Each turn costs a master one call: for the release and the next registration. Nothing is sent behind a registration that is likely to be refused, and
// a winner does not tell a master its slot that is about to give it that slot.
func TestClientsThatTakeTurnsAtASemaphoreSendFewCommands(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		var sems []*redlock.Semaphore
		for _, c := range at1ms(ms, 32) {
			sems = append(sems, c.Semaphore("a", 4))
		}
		count := func() (n int) {
			for _, command := range ms.Master(0).Commands() {
				if !strings.Contains(command, " XX ") { // those ask once a second whether writes are accepted
					n++
				}
			}
			return n
		}
		before := 0
		time.AfterFunc(200*time.Millisecond, func() { before = count() })
		n := 0
		for _, turns := range rotate(t, sems, time.Millisecond, 200*time.Millisecond, 100*time.Millisecond) {
			n += turns
		}
		commands := count() - before
		t.Logf("%d turns took %d commands", n, commands)
		if n < 180 || float64(commands) > 1.5*float64(n) {
			t.Errorf("%d turns took %d commands, want 200 turns, and 1.2 commands each, 1.5 at most", n, commands)
		}
	})
}
