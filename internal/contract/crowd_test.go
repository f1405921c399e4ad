package contract_test

import (
	"context"
	"math/rand/v2"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// crowd opens clients that wait for the lock "a", each of which enters it and leaves it again. The masters are a one-way trip away.
func crowd(t *testing.T, ms *redlocktest.Masters, n int, oneWay time.Duration, entered func(i int)) (wait func()) {
	t.Helper()
	done := make(chan struct{})
	for i := range n {
		l := openAt(ms, oneWay, nil).Locker("a")
		go func() {
			defer func() { done <- struct{}{} }()
			l.Lock()
			entered(i)
			l.Unlock()
		}()
		queued(t, ms, "a", i+1)
	}
	return func() {
		for range n {
			<-done
		}
	}
}

// Only those at the front of a queue poll often. A client that waits behind many others costs the masters little.
func TestACrowdThatWaitsSendsFewPolls(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const n, seconds = 30, 10
		holder := connected(t, ms, nil).Locker("a")
		take(holder)
		wait := crowd(t, ms, n, 0, func(int) {})
		time.Sleep(2 * time.Second) // the first polls
		before := polls(ms.Master(0))
		time.Sleep(seconds * time.Second)
		got := polls(ms.Master(0)) - before
		// The head polls ten times a second, and two more near ones every 300 ms. The others poll each of three masters every 300 ms for each client
		// ahead: 10 ln(30/3) / 3 a second.
		const near, far = 10*seconds + 2*10*seconds/3, 8 * seconds
		if got < (near+far)*8/10 || got > (near+far)*12/10 {
			t.Errorf("%d clients sent %d polls in %d s, want about %d", n, got, seconds, near+far)
		}
		holder.Unlock()
		wait()
	})
}

// Clients that come at one moment stand in another order at each master, for as long as they wait. So more than three are among the first somewhere, but
// about three at most masters. All together they send few polls more than a crowd that is in order.
func TestACrowdThatComesAtOnceSendsFewPolls(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const n, seconds = 30, 10
		random := rand.New(rand.NewPCG(1, 2))
		holder := connected(t, ms, nil).Locker("a")
		take(holder)
		var all []*redlock.Client
		for range n {
			delays := make([]time.Duration, ms.Len())
			for i := range delays {
				delays[i] = time.Duration(random.IntN(1000)) * time.Microsecond
			}
			all = append(all, ms.WithDelays(delays...).Open(nil))
		}
		time.Sleep(time.Second)
		done := make(chan struct{})
		for _, c := range all {
			go func() {
				locktest.Pass(c.Locker("a"))
				done <- struct{}{}
			}()
		}
		time.Sleep(3 * time.Second) // the first polls
		fronts := make(map[string]bool)
		for i := range ms.Len() {
			for _, member := range queue(t, ms, i, "a")[:3] {
				fronts[member] = true
			}
		}
		if len(fronts) < 6 {
			t.Fatalf("%d clients are among the first somewhere: the orders hardly differ", len(fronts))
		}
		before := polls(ms.Master(0))
		time.Sleep(seconds * time.Second)
		got := polls(ms.Master(0)) - before
		const near, far = 10*seconds + 2*10*seconds/3, 5 * seconds // 10 ln(20/3) / 5 + 10/10 a second
		t.Logf("%d polls in %d s, %d clients are among the first somewhere", got, seconds, len(fronts))
		if most := (near + far) * 12 / 10; got > most {
			t.Errorf("%d clients sent %d polls in %d s, want %d at most", n, got, seconds, most)
		}
		holder.Unlock()
		for range n {
			<-done
		}
	})
}

// The queues of a crowd that comes at one moment differ for as long as it takes until all have had a turn. Each holder learns the heads of the
// queues, and names the one that is to be next: so few turns are lost to votes that are split.
func TestACrowdThatComesAtOnceTakesTurnsWithoutManySplits(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const n = 40
		random := rand.New(rand.NewPCG(3, 4))
		holder := connected(t, ms, nil).Locker("a")
		take(holder)
		var all []*redlock.Client
		for range n {
			delays := make([]time.Duration, ms.Len())
			for i := range delays {
				delays[i] = time.Duration(100+random.IntN(1000)) * time.Microsecond
			}
			all = append(all, ms.WithDelays(delays...).Open(nil))
		}
		time.Sleep(time.Second)
		done := make(chan struct{})
		for _, c := range all {
			go func() {
				locktest.Pass(c.Locker("a"))
				done <- struct{}{}
			}()
		}
		time.Sleep(3 * time.Second)
		m := ms.Master(0)
		before, registered, began := len(m.Commands()), countCommands(m, `"register `), time.Now()
		holder.Unlock()
		for range n {
			<-done
		}
		took := time.Since(began) / n
		registered, sent := countCommands(m, `"register `)-registered, len(m.Commands())-before
		t.Logf("%v a turn, %d registrations and %d commands in %d turns", took, registered, sent, n)
		if registered > n || sent > 9*n {
			t.Errorf("%d claims were registered anew and %d commands sent in %d turns, want 16 and 250", registered, sent, n)
		}
	})
}

// A holder lacks its key at one master. Those who wait leave the key there to the holder, who sets it when it renews the lease. If each
// of them set it in turn, and gave way to the lease again, that would go on for as long as they wait.
func TestThoseWhoWaitLeaveAKeyThatTheHolderLacks(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const n = 8
		m := ms.Master(4)
		c := ms.Open(&redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Minute}, MaxTTL: time.Minute})
		time.Sleep(time.Second)
		holder := c.Locker("a")
		m.Freeze()
		holder.Lock()
		m.Thaw()
		time.Sleep(10 * time.Millisecond)
		m.Del("a") // the holder's SET was late
		wait := crowd(t, ms, n, 0, func(int) {})
		time.Sleep(time.Second)
		before := make(map[string]bool)
		for _, member := range queue(t, ms, 0, "a") {
			before[member] = true
		}
		time.Sleep(time.Second)
		for _, member := range queue(t, ms, 0, "a") {
			if !before[member] {
				t.Errorf("%s is new in the queue", member)
			}
		}
		if _, held := m.Get("a"); held {
			t.Error("one of those who wait has set the key that the holder lacks")
		}
		time.Sleep(20 * time.Second)
		want, _ := ms.Master(0).Get("a")
		if got, _ := m.Get("a"); got != want {
			t.Errorf("after a renewal the key holds %q, want %q", got, want)
		}
		holder.Unlock()
		wait()
	})
}

// The polls of a client that is far are its heartbeats, and few have probes. The answers say who holds the lock, so nobody asks for that.
func TestACrowdThatWaitsSendsNothingElse(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const n, seconds = 20, 10
		holder := connected(t, ms, &redlock.Options{Owner: "web-1"}).Locker("a")
		take(holder)
		wait := crowd(t, ms, n, 0, func(int) {})
		ctx, cancel := context.WithCancel(t.Context())
		c, last := openAt(ms, 0, nil), make(chan error)
		go func() { last <- c.Locker("a").LockContext(ctx) }()
		queued(t, ms, "a", n+1)
		time.Sleep(3 * time.Second) // the first polls, and the question for lists of masters
		m := ms.Master(0)
		pings, before, asked := m.Count("PING"), len(m.Commands()), polls(m)
		probes, infos := m.Count("PROBE"), m.Count("INFO")
		time.Sleep(seconds * time.Second)
		// Each second the holder and the near clients have a heartbeat, with a probe and two INFOs. All other polls are likely to be
		// refused, and have no probes, but one of each calm client in half a minute.
		most := ((1+3)*seconds + (n+1-3)*seconds/30) * 12 / 10
		if got := m.Count("PROBE") - probes; got > most {
			t.Errorf("%d clients sent %d probes in %d s, want %d at most", n, got, seconds, most)
		}
		if got := m.Count("INFO") - infos; got > 2*most {
			t.Errorf("%d clients sent %d INFOs in %d s, want %d at most", n, got, seconds, 2*most)
		}
		// Each second the holder pings its subscription, and the connection for commands. Each of the three near clients
		// pings its subscription every 240 ms, and the other connection once. The far ones ping only their subscriptions, each 25 seconds.
		ping := (1+1+3*1)*seconds + 3*seconds*1000/240 + (n+1-3)*seconds/25
		sent := m.Count("PING") - pings
		if sent > ping+10 {
			t.Errorf("%d clients sent %d pings in %d s, want %d at most", n, sent, seconds, ping+10)
		}
		if got, want := len(m.Commands())-before, ping+4*3*seconds+2*(polls(m)-asked); got > want {
			t.Errorf("%d clients sent %d commands in %d s, want %d at most", n, got, seconds, want)
		}
		// A client that holds a lock has heartbeats, whatever it waits for.
		other := c.Locker("b")
		other.Lock()
		before = m.Count("PING")
		time.Sleep(seconds * time.Second)
		if got := m.Count("PING") - before; got <= sent+seconds {
			t.Errorf("they sent %d pings in %d s, want more than %d while the last of them holds another lock", got, seconds, sent+seconds)
		}
		other.Unlock()
		cancel()
		if err := <-last; ownerOf(err) != "web-1" {
			t.Errorf("the last of the crowd got %v, want that web-1 holds the lock", err)
		}
		if n := peeks(ms); n != 0 {
			t.Errorf("a master was asked %d times who holds the lock, want never", n)
		}
		holder.Unlock()
		wait()
	})
}

// A turn costs each master one call for the release and the next registration, and the poll with its probe after a release that leaves
// the lock open, which is every second one here. Grants count from the registrations, so nobody pings for them, and no server is silent for long.
func TestACrowdThatTakesTurnsSendsFewCommands(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const n, oneWay = 8, 100 * time.Microsecond
		var locks atomic.Int64
		var stop atomic.Bool
		done := make(chan struct{})
		var lockers []*redlock.Locker
		for range n {
			lockers = append(lockers, openAt(ms, oneWay, nil).Locker("a"))
		}
		for _, l := range lockers {
			go func() {
				for ; !stop.Load(); locks.Add(1) {
					l.Lock()
					time.Sleep(time.Millisecond)
					l.Unlock()
				}
				done <- struct{}{}
			}()
		}
		time.Sleep(100 * time.Millisecond)
		m := ms.Master(0)
		before := len(m.Commands())
		had, commands, pings := locks.Load(), before, m.Count("PING")
		time.Sleep(time.Second)
		had, commands, pings = locks.Load()-had, len(m.Commands())-commands, m.Count("PING")-pings
		stop.Store(true)
		for range n {
			<-done
		}
		if had < 300 || float64(commands)/float64(had) > 2.9 {
			t.Errorf("%d locks took %d commands, want 2.4 each", had, commands)
		}
		// A claim that joins a queue counts as live, so only those of polls tell how long their clients take to poll again.
		told := 0
		for _, c := range m.Commands()[before:] {
			if strings.Contains(c, `"register `) && patience.MatchString(c) {
				told++
			}
		}
		if told > 2*n {
			t.Errorf("%d registrations tell a patience, want few", told)
		}
		if pings > n/2 {
			t.Errorf("%d clients have sent %d pings in a second, want few: messages arrive at each of them", n, pings)
		}
	})
}

// patience matches the end of a call of the script that tells a client's response time and patience.
var patience = regexp.MustCompile(` \d+ \d+ \d+$`)

// Busy masters answer some milliseconds later now and then. Most claims have their other votes by then, so they do not ask who has
// the keys.
func TestVotesThatAreLateAreWaitedFor(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const n = 4
		var locks atomic.Int64
		var stop atomic.Bool
		done := make(chan struct{})
		var lockers []*redlock.Locker
		for range n {
			lockers = append(lockers, openAt(ms, 100*time.Microsecond, nil).Locker("a"))
		}
		random := rand.New(rand.NewPCG(1, 2))
		go func() {
			for !stop.Load() {
				for i := range ms.Len() {
					ms.Master(i).Delay(time.Duration(random.IntN(2)) * 4 * time.Millisecond)
				}
				time.Sleep(2 * time.Millisecond)
			}
			done <- struct{}{}
		}()
		for _, l := range lockers {
			go func() {
				for ; !stop.Load(); locks.Add(1) {
					l.Lock()
					time.Sleep(20 * time.Millisecond)
					l.Unlock()
				}
				done <- struct{}{}
			}()
		}
		time.Sleep(100 * time.Millisecond)
		had, sent := locks.Load(), polls(ms.Master(0))
		time.Sleep(4 * time.Second)
		had, sent = locks.Load()-had, polls(ms.Master(0))-sent
		stop.Store(true)
		for range n + 1 {
			<-done
		}
		// One in twelve releases leaves the lock open, so that the next client polls.
		if had < 100 || float64(sent)/float64(had) > 0.45 {
			t.Errorf("%d locks took %d polls, want 0.3 each at most", had, sent)
		}
	})
}

// A calm client has no heartbeats. It finds all the same that a master is silent, and is told of grants again later.
func TestACalmClientFindsThatAMasterIsSilent(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const n = 12
		opts := &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Minute}, MaxTTL: time.Minute}
		holder := connected(t, ms, opts).Locker("a")
		take(holder)
		wait := crowd(t, ms, n-1, 0, func(int) {})
		c := connected(t, ms, nil)
		done := make(chan struct{})
		go func() {
			c.Locker("a").Lock()
			close(done)
		}()
		queued(t, ms, "a", n)
		time.Sleep(5 * time.Second)
		ms.Master(0).Freeze()
		time.Sleep(15 * time.Second)
		if s := c.Masters()[0]; s.State != redlock.MasterDown {
			t.Errorf("after 15 s, the state of a frozen master is %v, want down", s.State)
		}
		ms.Master(0).Thaw()
		time.Sleep(5 * time.Second)
		if got := len(queue(t, ms, 0, "a")); got < n { // and perhaps the member of those that poll
			t.Errorf("5 s later %d clients are in its queue, want %d", got, n)
		}
		holder.Unlock()
		wait()
		<-done
	})
}

// Clients that were far enter in their turn, one round trip after the other: they are told before that they are near, and so
// their votes count from a recent ping.
func TestACrowdTakesTurnsWithoutAPause(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const n, oneWay = 20, 10 * time.Millisecond
		holder := openAt(ms, oneWay, nil).Locker("a")
		take(holder)
		var order []int
		wait := crowd(t, ms, n, oneWay, func(i int) { order = append(order, i) })
		time.Sleep(5 * time.Second) // longer than g: no vote could count from the registration
		began := time.Now()
		holder.Unlock()
		wait()
		// A turn is a round trip, or two behind a release that leaves the lock open: on average one in twelve does.
		open := time.Duration(countCommands(ms.Master(0), ` open `))
		if took, most := time.Since(began), (n+open)*2*oneWay*21/20; took > most {
			t.Errorf("%d clients took %v, want %v at most, with %d releases that left the lock open", n, took, most, open)
		}
		// A poll that comes while a release has left the lock open passes over clients that have not polled lately. These are told,
		// and poll within five turns.
		for i, c := range order {
			if i-c > 6 || c-i > 6 {
				t.Errorf("they entered in the order %v", order)
				break
			}
		}
	})
}

// No script runs when the key of a dead holder expires. The near ones find out.
func TestACrowdGetsTheLockOfADeadHolderSoonAfterItExpires(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		locktest.Hold(ms, "a", 0, 1, 2)
		var first time.Time
		wait := crowd(t, ms, 20, 0, func(int) {
			if first.IsZero() {
				first = time.Now()
			}
		})
		time.Sleep(5 * time.Second)
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		began := time.Now()
		wait()
		if late := first.Sub(began); late > 160*time.Millisecond {
			t.Errorf("the first client entered after %v, want 150ms at most", late)
		}
	})
}

// Each claim is one of the first three at one of five masters only, so none is near. The lock of a dead holder is had soon all the same: the head of a
// master polls one master or another every 300 ms or more often, and passes on a lock that is free.
func TestACrowdOfWhichNobodyIsNearGetsTheLockOfADeadHolder(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const n, near = 15, 3
		locktest.Hold(ms, "a", 0, 1, 2, 3, 4)
		entered := make(chan time.Time, n)
		wait := crowd(t, ms, n, 0, func(int) { entered <- time.Now() })
		for i := range ms.Len() {
			conn := ms.Pools()[i].Get()
			began := time.Now().Add(-time.Second).UnixMicro()
			for at, member := range queue(t, ms, i, "a") {
				if _, err := conn.Do("ZADD", "redlock:queue:a", "XX", began+int64((at+near*i)%n), member); err != nil {
					t.Fatal(err)
				}
			}
			conn.Close()
		}
		time.Sleep(10 * time.Second) // until all know their new places
		fronts := make(map[string]bool)
		for i := range ms.Len() {
			for _, member := range queue(t, ms, i, "a")[:near] {
				fronts[member] = true
			}
		}
		if len(fronts) != n {
			t.Fatalf("%d clients are among the first somewhere, want %d", len(fronts), n)
		}
		for i := range ms.Len() {
			ms.Master(i).Del("a")
		}
		began := time.Now()
		if late := (<-entered).Sub(began); late > 400*time.Millisecond {
			t.Errorf("the first client entered after %v, want 400ms at most", late)
		}
		wait()
	})
}

// Clients leave the front of the queue. Those behind them learn that they are near, so that the lock of a dead holder is not left free.
func TestACrowdWhoseFrontLeavesHasOthersNear(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		locktest.Hold(ms, "a", 0, 1, 2)
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error)
		const front, back = 20, 1
		for i := range front {
			l := connected(t, ms, nil).Locker("a")
			go func() { left <- l.LockContext(ctx) }()
			queued(t, ms, "a", i+1)
		}
		var first time.Time
		done := make(chan struct{})
		for i := range back {
			l := connected(t, ms, nil).Locker("a")
			go func() {
				locktest.Pass(l)
				if first.IsZero() {
					first = time.Now()
				}
				done <- struct{}{}
			}()
			queued(t, ms, "a", front+i+1)
		}
		time.Sleep(5 * time.Second)
		leave()
		for range front {
			if err := <-left; err == nil {
				t.Error("a client that left has the lock")
			}
		}
		time.Sleep(20 * time.Millisecond) // until the masters have heard of it
		for i := range 3 {
			ms.Master(i).Del("a")
		}
		began := time.Now()
		for range back {
			<-done
		}
		if late := first.Sub(began); late > 160*time.Millisecond {
			t.Errorf("the first client entered after %v, want 150ms at most", late)
		}
	})
}

// A master that restarts has no queue. Far claims register there again.
func TestTheQueueOfAMasterIsWholeASecondAfterItIsUpAgain(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const n = 30
		holder := connected(t, ms, &redlock.Options{LockOptions: redlock.LockOptions{TTL: time.Minute}, MaxTTL: time.Minute}).Locker("a")
		take(holder)
		wait := crowd(t, ms, n, 0, func(int) {})
		time.Sleep(12 * time.Second) // the far ones poll seldom
		ms.Master(0).Stop()
		ms.Master(0).Forget()
		startAdopted(ms, 0)
		time.Sleep(2200 * time.Millisecond) // to connect, and a second
		claims := 0
		for range 1000 { // as queued does
			if claims = len(queue(t, ms, 0, "a")); claims == n {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if claims != n {
			t.Errorf("%d claims are in the queue, want %d: %q", claims, n, queue(t, ms, 0, "a"))
		}
		holder.Unlock()
		wait()
	})
}

// All clients of a crowd but the last one are stopped, and then the lock is released. That grant is wasted. Nobody else runs who could find that, so
// the last one does: it polls one master or another often enough.
func TestTheLastOfACrowdHasTheLockIfAllOthersAreStopped(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		const n = 60
		holder := connected(t, ms, nil).Locker("a")
		take(holder)
		var running locktest.Tap
		for i := range n - 1 {
			go locktest.Stoppable(t, ms, &running).Locker("a").LockContext(t.Context())
			queued(t, ms, "a", i+1)
		}
		l, entered := connected(t, ms, nil).Locker("a"), make(chan struct{})
		go func() {
			l.Lock()
			close(entered)
		}()
		queued(t, ms, "a", n)
		time.Sleep(5 * time.Second) // the first polls
		running.Shut(t)
		time.Sleep(100 * time.Millisecond)
		began, before := time.Now(), polls(ms.Master(0))
		holder.Unlock()
		<-entered
		took := time.Since(began)
		t.Logf("the last of %d clients has the lock after %v, and %d polls of a master", n, took, polls(ms.Master(0))-before)
		if took > 3*time.Second {
			t.Errorf("the last of %d clients has the lock after %v, want 3s at most", n, took)
		}
		l.Unlock()
	})
}
