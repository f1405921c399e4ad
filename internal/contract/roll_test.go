package contract_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// The procedures of "Changing the list of masters" in docs/operations.md, in virtual time: for how long nobody gets a lock while a
// quorum of each list is live. Package realtest has them on real servers, for the sake of exclusion.

// rollTTL is the TTL and the MaxTTL of the clients.
const rollTTL = time.Second

// A rolling is some clients of the same name, each with a list of masters that is changed. One waits for its turn. The others try
// again and again.
type rolling struct {
	t       *testing.T
	ms      *redlocktest.Masters
	workers []*roller

	mu      sync.Mutex // guards what follows
	holder  *redlock.Lease
	locks   int
	last    time.Time // when a lock was acquired last
	longest time.Duration
	step    string // of the procedure
	worst   string // the step of the longest gap
}

// A roller is a client that locks, unlocks, and begins anew.
type roller struct {
	client *redlock.Client
	list   []int
	tries  bool
	stop   context.CancelFunc
	done   chan struct{}
}

func startRolling(t *testing.T, ms *redlocktest.Masters, list []int) *rolling {
	r := &rolling{t: t, ms: ms, last: time.Now()}
	for i := range 5 {
		w := &roller{tries: i > 0}
		r.workers = append(r.workers, w)
		r.start(w, list)
	}
	return r
}

// start starts a client with a list, in any order, at any distance of up to 1 ms.
func (r *rolling) start(w *roller, list []int) {
	lags := make([]time.Duration, r.ms.Len())
	for i := range lags {
		lags[i] = time.Duration(1 + rand.IntN(2_000_000))
	}
	all := r.ms.WithDelays(lags...).Pools()
	var pools []*redis.Pool
	for _, i := range rand.Perm(len(list)) {
		pools = append(pools, all[list[i]])
	}
	c, err := redlock.New(pools, &redlock.Options{MaxTTL: rollTTL, LockOptions: redlock.LockOptions{TTL: rollTTL}})
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	w.client, w.list, w.stop, w.done = c, list, stop, make(chan struct{})
	go func() {
		defer close(w.done)
		lock := c.Locker("stock")
		acquire := lock.LockContext
		if w.tries {
			acquire = lock.TryLockContext
		}
		for ctx.Err() == nil {
			if acquire(ctx) == nil {
				r.hold(lock)
			} else {
				time.Sleep(rand.N(100 * time.Millisecond))
			}
		}
	}()
}

// hold holds the lock for 1 ms.
func (r *rolling) hold(lock *redlock.Locker) {
	mine := lock.Lease()
	r.mu.Lock()
	if r.holder.Valid() && mine.Valid() {
		r.t.Errorf("%s: two clients hold the lock", r.step)
	}
	r.holder = mine
	r.locks++
	now := time.Now()
	if gap := now.Sub(r.last); gap > r.longest {
		r.longest, r.worst = gap, r.step
	}
	r.last = now
	r.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	lock.Unlock()
}

func (w *roller) end() {
	w.stop()
	<-w.done
	w.client.Close()
}

// during names the next step.
func (r *rolling) during(step string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.step = step
}

// await waits until ok returns true, for a minute at most.
func (r *rolling) await(what string, ok func() bool) {
	r.t.Helper()
	for range 60_000 {
		if ok() {
			return
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatalf("%s: it never came about that %s", r.step, what)
}

// goOn waits until so many more locks were acquired.
func (r *rolling) goOn(locks int) {
	r.t.Helper()
	count := func() int {
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.locks
	}
	until := count() + locks
	r.await("the clients go on", func() bool { return count() >= until })
}

// vote waits until all masters of all clients that have this list vote.
func (r *rolling) vote(list []int) {
	r.t.Helper()
	r.await("all masters vote", func() bool {
		return !slices.ContainsFunc(r.workers, func(w *roller) bool {
			return slices.Equal(w.list, list) && locktest.States(w.client, redlock.MasterUp) < len(list)
		})
	})
}

// roll restarts the clients with a list, one after the other. The first two go forth, back, and forth again.
func (r *rolling) roll(next []int, started bool) {
	r.t.Helper()
	order, old := rand.Perm(len(r.workers)), r.workers[0].list
	restart := func(i int, list []int) {
		r.workers[i].end()
		r.start(r.workers[i], list)
		r.goOn(10)
	}
	for _, list := range [][]int{next, old, next} {
		for _, i := range order[:2] {
			restart(i, list)
		}
	}
	if started {
		r.vote(next)
	}
	r.goOn(50)
	for _, i := range order[2:] {
		restart(i, next)
	}
}

// retire takes the vote of a master: it is a replica from now on, which refuses every command, or it is stopped.
func (r *rolling) retire(i int) {
	if rand.N(2) == 0 {
		r.ms.Master(i).Fail("READONLY You can't write against a read only replica.")
	} else {
		r.ms.Master(i).Stop()
	}
}

// begin starts a master without data.
func (r *rolling) begin(i int) {
	r.ms.Master(i).Stop()
	r.ms.Master(i).Fail("")
	r.ms.Master(i).Forget()
	r.ms.Master(i).Start()
}

// replace replaces a master of a list of three, and returns the next list.
func (r *rolling) replace(old []int, spare int) (next []int) {
	at := rand.IntN(len(old))
	next = slices.Clone(old)
	next[at] = spare
	r.vote(old)
	r.during("replace: the old master loses its vote")
	r.retire(old[at])
	r.goOn(20)
	r.during("replace: the new master is started")
	r.begin(spare)
	r.during("replace: clients are restarted")
	r.roll(next, true)
	return next
}

// grow adds masters to a list.
func (r *rolling) grow(old, more []int) (next []int) {
	next = slices.Concat(old, more)
	r.vote(old)
	r.during("grow: clients are restarted")
	r.roll(next, false)
	r.during("grow: the new masters are started")
	for _, i := range more {
		r.begin(i)
	}
	r.vote(next)
	r.goOn(20)
	return next
}

// shrink removes two masters from a list of five.
func (r *rolling) shrink(old []int) (next []int) {
	order := rand.Perm(len(old))
	for _, i := range order[:3] {
		next = append(next, old[i])
	}
	r.during("shrink: two masters lose their votes")
	for _, i := range order[3:] {
		r.retire(old[i])
	}
	time.Sleep(rollTTL + 2*time.Second)
	r.during("shrink: clients are restarted")
	r.roll(next, true)
	return next
}

// Here no step takes longer because the machine is busy. Each lock is held for 10 ms, and a round trip takes up to 4 ms.
func TestLocksGoOnWhileTheListIsChanged(t *testing.T) {
	bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
		ms.Master(3).Stop()
		ms.Master(4).Stop()
		list := []int{0, 1, 2}
		r := startRolling(t, ms, list)
		list = r.replace(list, 3)
		left := slices.DeleteFunc([]int{0, 1, 2, 4}, func(i int) bool { return slices.Contains(list, i) })
		list = r.grow(list, left)
		r.shrink(list)
		for _, w := range r.workers {
			w.end()
		}
		t.Logf("%d locks, longest gap %v (%s)", r.locks, r.longest, r.worst)
		if r.longest > 200*time.Millisecond {
			t.Errorf("%s: nobody got the lock for %v, though a quorum of each list was live", r.worst, r.longest)
		}
	})
}
