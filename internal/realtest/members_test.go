package realtest_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/internal/redisserver"
)

// The procedures of "Changing the list of masters" in docs/operations.md, on real servers, while clients lock.

var changesOfTheList = flag.Int("changes", 1, "how often each test changes the list of masters")

// listTTL is the TTL and the MaxTTL of the clients, and listQuarantine the quarantine that follows from it.
const (
	listTTL        = time.Second
	listQuarantine = listTTL + 2*time.Second
)

// A load is some clients that lock the same name, each for 1 ms at a time. One waits for its turn. The others try again and
// again: clients that try at the same moment divide the masters between them, so two that can both have a quorum will. Each
// has its list in another order, since commands are sent in the order of the list.
type load struct {
	t       *testing.T
	workers []*worker

	holder  atomic.Pointer[redlock.Lease]
	locks   atomic.Int64
	doubles atomic.Int64

	mu      sync.Mutex // guards what follows
	last    time.Time  // when a lock was acquired last
	longest time.Duration
	step    string // of the procedure
	worst   string // the step of the longest time
}

// A worker is a client that locks, unlocks, and begins anew.
type worker struct {
	client *redlock.Client
	list   []*redisserver.Server
	tries  bool
	stop   context.CancelFunc
	done   chan struct{}
}

// startLoad starts so many clients with a list of masters. They end with the test, which fails if two of them held the lock
// at once.
func startLoad(t *testing.T, clients int, list []*redisserver.Server) *load {
	l := &load{t: t, last: time.Now()}
	for i := range clients {
		w := &worker{tries: i > 0}
		l.workers = append(l.workers, w)
		l.start(w, list)
	}
	t.Cleanup(func() {
		for _, w := range l.workers {
			w.end()
		}
		t.Logf("%d locks, %d double holds, longest gap %v (%s)", l.locks.Load(), l.doubles.Load(), l.longest.Round(time.Millisecond), l.worst)
		if n := l.doubles.Load(); n > 0 {
			t.Errorf("two clients held the lock at once: %d times in %d locks", n, l.locks.Load())
		}
	})
	return l
}

// start starts a client with a list.
func (l *load) start(w *worker, list []*redisserver.Server) {
	l.t.Helper()
	opts := dialling(&redlock.Options{MaxTTL: listTTL, LockOptions: redlock.LockOptions{TTL: listTTL}})
	urls := addresses(list)
	rand.Shuffle(len(urls), func(i, j int) { urls[i], urls[j] = urls[j], urls[i] })
	c, err := redlock.Open(urls, opts)
	if err != nil {
		l.t.Fatal(err)
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
				l.hold(lock)
			} else {
				time.Sleep(rand.N(time.Millisecond))
			}
		}
	}()
}

// hold notes that a client holds the lock, and unlocks it after 1 ms.
func (l *load) hold(lock *redlock.Locker) {
	mine := lock.Lease()
	if other := l.holder.Swap(mine); other != nil && other.Valid() && mine.Valid() {
		l.doubles.Add(1) // at the moment of the first Valid, both leases were valid
	}
	l.locks.Add(1)
	l.mu.Lock()
	now := time.Now()
	if took := now.Sub(l.last); took > l.longest {
		l.longest, l.worst = took, l.step
	}
	l.last = now
	l.mu.Unlock()
	time.Sleep(time.Millisecond)
	l.holder.CompareAndSwap(mine, nil)
	lock.Unlock()
}

// during names the next step.
func (l *load) during(step string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.step = step
}

func (w *worker) end() {
	w.stop()
	<-w.done
	w.client.Close()
}

// goOn waits until so many more locks were acquired, however slow the machine is. Only the time for one lock has a limit.
func (l *load) goOn(locks int64) {
	l.t.Helper()
	until := l.locks.Load() + locks
	for last := l.locks.Load(); last < until; last = l.locks.Load() {
		eventually(l.t, "the clients go on", func() bool { return l.locks.Load() > last })
	}
}

// roll restarts the clients with a list, one after the other, in random order. The first two go forth, back, and forth again.
// Then both lists are in use until the masters of these two vote, if they are all started, and for many locks more.
func (l *load) roll(next []*redisserver.Server, started bool) {
	l.t.Helper()
	l.during("two clients are restarted")
	order, old := rand.Perm(len(l.workers)), l.workers[0].list
	restart := func(i int, list []*redisserver.Server) {
		l.workers[i].end()
		l.start(l.workers[i], list)
		l.goOn(10)
	}
	for _, list := range [][]*redisserver.Server{next, old, next} {
		for _, i := range order[:2] {
			restart(i, list)
		}
	}
	l.during("both lists are in use")
	if started {
		l.vote(next)
	}
	l.goOn(300)
	l.during("the other clients are restarted")
	for _, i := range order[2:] {
		restart(i, next)
	}
}

// vote waits until all masters of all clients that have this list vote.
func (l *load) vote(list []*redisserver.Server) {
	l.t.Helper()
	eventually(l.t, "all masters vote", func() bool {
		return !slices.ContainsFunc(l.workers, func(w *worker) bool {
			return slices.Equal(w.list, list) && locktest.States(w.client, redlock.MasterUp) < len(list)
		})
	})
	l.goOn(50)
}

// retire takes the vote of a server.
func retire(t *testing.T, s *redisserver.Server) {
	t.Helper()
	do(t, s, "REPLICAOF", "127.0.0.1", "1")
}

// begin starts a server without data.
func begin(t *testing.T, s *redisserver.Server) {
	t.Helper()
	if err := s.Restart(); err != nil {
		t.Fatal(err)
	}
}

// stopped returns servers that are not started.
func stopped(t *testing.T, n int) []*redisserver.Server {
	t.Helper()
	servers := redisserver.StartTB(t, n)
	for _, s := range servers {
		if err := s.Kill(); err != nil {
			t.Fatal(err)
		}
	}
	return servers
}

func TestAMasterIsReplacedUnderLoad(t *testing.T) {
	t.Parallel()
	old := redisserver.AdoptedTB(t, 3)
	spare := stopped(t, 1)[0]
	l := startLoad(t, 5, old)
	for range *changesOfTheList {
		l.vote(old)
		at := rand.IntN(len(old))
		next := slices.Clone(old)
		next[at] = spare
		l.during("a master is replaced")
		retire(t, old[at])
		begin(t, spare)
		l.roll(next, true)
		l.vote(next)
		if err := old[at].Kill(); err != nil {
			t.Fatal(err)
		}
		old, spare = next, old[at]
	}
}

func TestMastersAreAddedAndRemovedUnderLoad(t *testing.T) {
	t.Parallel()
	three := redisserver.AdoptedTB(t, 3)
	more := stopped(t, 2)
	l := startLoad(t, 5, three)
	for range *changesOfTheList {
		l.vote(three)
		five := slices.Concat(three, more)
		l.roll(five, false)
		l.during("two masters are started")
		for _, s := range more {
			begin(t, s)
		}
		l.vote(five)

		order := rand.Perm(len(five))
		three = []*redisserver.Server{five[order[0]], five[order[1]], five[order[2]]}
		more = []*redisserver.Server{five[order[3]], five[order[4]]}
		l.during("two masters lose their votes")
		for _, s := range more {
			retire(t, s)
		}
		without := time.Now()
		eventually(t, "a quarantine has passed", func() bool { return time.Since(without) > listQuarantine })
		l.roll(three, true)
		for _, s := range more {
			if err := s.Kill(); err != nil {
				t.Fatal(err)
			}
		}
	}
	l.vote(three)
}
