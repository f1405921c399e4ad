package contract_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/locktest"
	"github.com/redlock-go/redlock/redlocktest"
)

// writersWait has readers of two processes that never stop, so that a writer must ask them to leave.
func writersWait(t *testing.T, ms *redlocktest.Masters, writer sync.Locker, readers ...*redlock.RWLocker) {
	t.Helper()
	var stop atomic.Bool
	var all sync.WaitGroup
	var reading atomic.Int64
	for _, l := range readers {
		for i := range 3 {
			all.Go(func() {
				time.Sleep(time.Duration(i) * 333 * time.Microsecond)
				for !stop.Load() {
					l.RLock()
					reading.Add(1)
					time.Sleep(time.Millisecond)
					reading.Add(-1)
					l.RUnlock()
				}
			})
		}
	}
	for range 6 {
		time.Sleep(10 * time.Millisecond)
		start := time.Now()
		writer.Lock()
		if took := time.Since(start); took > time.Second {
			t.Errorf("a writer waited for %v", took)
		}
		if n := reading.Load(); n != 0 {
			t.Errorf("%d readers beside a writer", n)
		}
		time.Sleep(time.Millisecond)
		writer.Unlock()
	}
	stop.Store(true)
	all.Wait()
}

func TestAWriterIsNotKeptOutByReadersThatNeverStop(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		a, b, c := connected(t, ms, nil).RWLocker("stock"), connected(t, ms, nil).RWLocker("stock"), connected(t, ms, nil).RWLocker("stock")
		writersWait(t, ms, c, a, b)
	})
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) { // readers of the same Client
		a, b := connected(t, ms, nil).RWLocker("stock"), connected(t, ms, nil).RWLocker("stock")
		writersWait(t, ms, a, a, b)
	})
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) { // readers of the same Client, and a plain Locker
		c := connected(t, ms, nil)
		writersWait(t, ms, c.Locker("stock"), c.RWLocker("stock"))
	})
}

// Writers enter in the order of their calls, and readers in each of their turns. Without turns that end early, and
// wake-ups that are not lost, some of them wait several times as long as others.
func TestWritersAndReadersAtADistanceWaitForOneTurnEach(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		const writers, hold = 8, time.Millisecond
		at := func(oneWay ...time.Duration) *redlock.RWLocker {
			return ms.WithDelays(oneWay...).Open(nil).RWLocker("stock")
		}
		var stop atomic.Bool
		var all sync.WaitGroup
		var mu sync.Mutex
		longest := make(map[string]time.Duration)
		use := func(side string, l sync.Locker) {
			all.Go(func() {
				for began := time.Now(); !stop.Load(); {
					start := time.Now()
					l.Lock()
					if took := time.Since(start); start.Sub(began) > 200*time.Millisecond { // all have come
						mu.Lock()
						longest[side] = max(longest[side], took)
						mu.Unlock()
					}
					time.Sleep(hold)
					l.Unlock()
				}
			})
		}
		for range 3 {
			l := at(hold/2, hold/2, hold/2)
			for range 2 {
				use("reader", l.RLocker())
			}
		}
		for i := range writers {
			far := []time.Duration{2 * hold, 2 * hold, 2 * hold}
			far[i%3] = hold / 4
			use("writer", at(far...).Locker())
		}
		time.Sleep(700 * time.Millisecond)
		stop.Store(true)
		all.Wait()
		// A cycle of a writer and a turn takes about 12 ms.
		for side, most := range map[string]time.Duration{"writer": 200 * time.Millisecond, "reader": 50 * time.Millisecond} {
			if took := longest[side]; took > most || took == 0 {
				t.Errorf("a %s waited for %v, want %v at most", side, took, most)
			}
		}
	})
}

// Readers whose Client has no wake-ups, or whose message is lost, learn of a writer by the answer to their next renewal.
func TestReadersLearnOfAWriterFromTheirRenewal(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		deaf := connected(t, ms, &redlock.Options{DisableWakeups: true, LockOptions: redlock.LockOptions{TTL: time.Second}}).RWLocker("stock")
		var stop atomic.Bool
		var all sync.WaitGroup
		for i := range 2 { // one of them is always inside
			all.Go(func() {
				time.Sleep(time.Duration(i) * 50 * time.Millisecond)
				for !stop.Load() {
					deaf.RLock()
					time.Sleep(90 * time.Millisecond)
					deaf.RUnlock()
					time.Sleep(10 * time.Millisecond)
				}
			})
		}
		time.Sleep(200 * time.Millisecond)
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		writer := connected(t, ms, nil).RWLocker("stock").Locker()
		if err := writer.LockContext(ctx); err != nil {
			t.Error(err)
		} else {
			writer.Unlock()
		}
		stop.Store(true)
		all.Wait()
	})
}

// Readers that have waited for longer than a writer are let in beside others, and are told that a writer waits.
func TestReadersThatAreLetInWhileAWriterWaitsKeepFurtherOnesOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		first := connected(t, ms, nil).RWLocker("stock")
		first.Lock()
		var stop atomic.Bool
		var all sync.WaitGroup
		deaf := connected(t, ms, &redlock.Options{DisableWakeups: true}).RWLocker("stock") // no message asks it to leave
		for _, hold := range []time.Duration{89, 97, 103} {                                // one of them is always inside
			all.Go(func() {
				for !stop.Load() {
					deaf.RLock()
					time.Sleep(hold * time.Millisecond)
					deaf.RUnlock()
					time.Sleep(time.Millisecond)
				}
			})
		}
		all.Go(func() { // it has a turn, in which the deaf ones come
			reader := connected(t, ms, nil).RWLocker("stock")
			reader.RLock()
			time.Sleep(time.Second)
			reader.RUnlock()
		})
		time.Sleep(500 * time.Millisecond)
		all.Go(func() {
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
			defer cancel()
			writer := connected(t, ms, nil).RWLocker("stock").Locker()
			if err := writer.LockContext(ctx); err != nil {
				t.Error(err)
			} else {
				writer.Unlock()
			}
			stop.Store(true)
		})
		time.Sleep(500 * time.Millisecond)
		first.Unlock()
		all.Wait()
	})
}

// Goroutines whose Client has a key that was left free enter without the masters, unless the answer has said that a writer waits.
func TestAReaderThatTakesAFreeKeyWhileAWriterWaitsKeepsFurtherOnesOut(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		c := connected(t, ms, nil)
		one, two := c.RWLocker("stock").RLocker(), c.RWLocker("stock").RLocker()
		hold(ms, "stock", 0, 1, 2)
		writes := locktest.Enter(connected(t, ms, nil).RWLocker("stock").Locker())
		time.Sleep(time.Second)
		for i := range ms.Len() {
			ms.Master(i).Del("stock")
		}
		if !one.TryLock() {
			t.Fatal("a reader that does not wait has not got the free lock: nothing is tested")
		}
		if two.TryLock() {
			t.Error("another goroutine has joined the reader, although a writer waits")
		}
		one.Unlock()
		<-writes
	})
}

// A writer that does not wait asks the readers to leave, and keeps others out for a while. That ends when it has the lock, by whichever call.
func TestATryLockEndsWhatAnEarlierOneHasAnnounced(t *testing.T) {
	bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
		reader := connected(t, ms, nil).RWLocker("stock").RLocker()
		l := connected(t, ms, nil).RWLocker("stock").Locker()
		other := connected(t, ms, nil).RWLocker("stock").RLocker()
		reader.Lock()
		synctest.Wait() // until it stands at all masters
		if l.TryLock() {
			t.Fatal("a writer has the lock beside a reader")
		}
		synctest.Wait() // until the writer has announced itself at all masters: it does so where a reader stands only
		reader.Unlock()
		time.Sleep(10 * time.Millisecond)
		if other.TryLock() {
			t.Fatal("the writer has announced nothing: nothing is tested")
		}
		if !l.TryLock() {
			t.Fatal("the lock is not free")
		}
		l.Unlock()
		synctest.Wait()
		if !other.TryLock() {
			t.Error("a reader is kept out although the writer has had the lock")
		} else {
			other.Unlock()
		}
	})
}

// Lockers that are no writers of an RWLocker wait beside readers of other processes.
var besideReaders = []struct {
	name  string
	opts  *redlock.Options
	names []string
	busy  bool // other clients hold a name of the set most of the time, so that it acquires its names one by one
}{
	{name: "plain", names: []string{"m"}},
	{name: "without renewal", opts: &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}, names: []string{"m"}},
	{name: "without wake-ups", opts: &redlock.Options{DisableWakeups: true}, names: []string{"m"}},
	{name: "set", names: []string{"a", "m"}},
	{name: "set without renewal", opts: &redlock.Options{LockOptions: redlock.LockOptions{RenewEvery: -1}}, names: []string{"a", "m"}},
	{name: "set whose names are acquired one by one", names: []string{"a", "m"}, busy: true},
}

// An idle reader keeps its lease, and is in nobody's way. A busy one must leave: a Locker that waits asks it to.
func TestLockersDoNotStarveBesideReaders(t *testing.T) {
	for _, readers := range []struct {
		name       string
		goroutines int
		hold, wait time.Duration
	}{
		{"idle readers", 1, 0, 200 * time.Millisecond},
		{"busy readers", 3, 3 * time.Millisecond, 0},
	} {
		for _, test := range besideReaders {
			t.Run(readers.name+"/"+test.name, func(t *testing.T) {
				bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
					var stop atomic.Bool
					var all sync.WaitGroup
					var reads atomic.Int64
					for range 2 {
						l := connected(t, ms, nil).RWLocker("m")
						for i := range readers.goroutines {
							all.Go(func() {
								time.Sleep(time.Duration(i) * time.Millisecond)
								for !stop.Load() {
									l.RLock()
									reads.Add(1)
									time.Sleep(readers.hold)
									l.RUnlock()
									time.Sleep(readers.wait)
								}
							})
						}
					}
					if test.busy {
						for range 2 {
							l := connected(t, ms, nil).Locker("a")
							all.Go(func() {
								for !stop.Load() {
									l.Lock()
									time.Sleep(20 * time.Millisecond)
									l.Unlock()
								}
							})
						}
					}
					l := connected(t, ms, test.opts).Locker(test.names[0], test.names[1:]...)
					time.Sleep(50 * time.Millisecond)
					for range 2 {
						start := time.Now()
						ctx, cancel := context.WithTimeout(t.Context(), time.Second)
						err := l.LockContext(ctx)
						cancel()
						if err != nil {
							t.Errorf("after %v: %v", time.Since(start), err)
							break
						}
						time.Sleep(time.Millisecond)
						l.Unlock()
						before := reads.Load()
						time.Sleep(30*time.Millisecond + readers.wait)
						if reads.Load() == before {
							t.Error("nobody reads, although no Locker waits")
						}
					}
					stop.Store(true)
					all.Wait()
				})
			})
		}
	}
}

func TestReadersAreNotKeptOutByLockersThatNeverStop(t *testing.T) {
	for _, test := range besideReaders {
		if test.busy {
			continue
		}
		t.Run(test.name, func(t *testing.T) {
			bubble(t, 3, func(t *testing.T, ms *redlocktest.Masters) {
				var stop atomic.Bool
				var all sync.WaitGroup
				for range 3 {
					l := connected(t, ms, test.opts).Locker(test.names[0], test.names[1:]...)
					for range 2 {
						all.Go(func() {
							for !stop.Load() {
								l.Lock()
								time.Sleep(5 * time.Millisecond)
								l.Unlock()
							}
						})
					}
				}
				l := connected(t, ms, nil).RWLocker("m")
				for range 8 {
					time.Sleep(3 * time.Millisecond)
					start := time.Now()
					l.RLock()
					if took := time.Since(start); took > 200*time.Millisecond {
						t.Errorf("a reader waited for %v", took)
					}
					time.Sleep(time.Millisecond)
					l.RUnlock()
				}
				stop.Store(true)
				all.Wait()
			})
		})
	}
}

// TestReadersAndWritersThatNeverStopWaitForAFewRoundTrips measures waits in virtual time, in which computing takes none.
// Everybody holds for 1 ms and locks again at once. All begin at the same moment, and split the votes: the first waits are longer. bench has
// the same workload on real servers.
func TestReadersAndWritersThatNeverStopWaitForAFewRoundTrips(t *testing.T) {
	equal := func(int) time.Duration { return 500 * time.Microsecond }
	unequal := func(i int) time.Duration { return time.Duration(1+i) * 100 * time.Microsecond }
	for _, test := range []struct {
		name                  string
		reading, each, writes int // processes of readers, goroutines in each, and processes of writers
		far                   func(process int) time.Duration
		first, reader, writer time.Duration // the longest waits
	}{
		{"one writer", 4, 3, 1, equal, 15 * time.Millisecond, 10 * time.Millisecond, 6 * time.Millisecond},
		{"eight writers at unequal distances", 2, 1, 8, unequal, 40 * time.Millisecond, 10 * time.Millisecond, 40 * time.Millisecond},
	} {
		t.Run(test.name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				var loops []func(end time.Time)
				var mu sync.Mutex
				var reads, writes []time.Duration // waits
				var first []time.Duration         // of either side
				loop := func(l *redlock.Locker, later *[]time.Duration) {
					loops = append(loops, func(end time.Time) {
						for waits := &first; time.Now().Before(end); waits = later {
							began := time.Now()
							l.Lock()
							waited := time.Since(began)
							mu.Lock()
							*waits = append(*waits, waited)
							mu.Unlock()
							time.Sleep(time.Millisecond)
							l.Unlock()
						}
					})
				}
				for i := range test.reading {
					l := openAt(ms, test.far(i), nil).RWLocker("stock")
					for range test.each {
						loop(l.RLocker(), &reads)
					}
				}
				for i := range test.writes {
					loop(openAt(ms, test.far(i), nil).RWLocker("stock").Locker(), &writes)
				}
				var all sync.WaitGroup
				end := time.Now().Add(100 * time.Millisecond)
				for _, loop := range loops {
					all.Go(func() { loop(end) })
				}
				all.Wait()
				t.Logf("first waits %v at most; %d reads, longest wait %v; %d writes, longest wait %v", slices.Max(first), len(reads), slices.Max(reads), len(writes), slices.Max(writes))
				if slices.Max(first) > test.first || slices.Max(reads) > test.reader || slices.Max(writes) > test.writer {
					t.Errorf("longest waits = %v at first, then %v of a reader and %v of a writer, want %v, %v and %v at most", slices.Max(first), slices.Max(reads), slices.Max(writes), test.first, test.reader, test.writer)
				}
			})
		})
	}
}

// A master may lack the key of idle readers, and grant it to a claim; two others may be so far away that the claim has given way before they
// answer. Its attempts then fail for want of a quorum, not because the lock is held. It asks the readers to leave all the same.
func TestALockerAsksReadersToLeaveThoughFarMastersAreNotHeard(t *testing.T) {
	const near, far = time.Millisecond, 15 * time.Millisecond
	for name, fenced := range map[string]bool{"without fences": false, "with fences": true} {
		t.Run(name, func(t *testing.T) {
			bubble(t, 5, func(t *testing.T, ms *redlocktest.Masters) {
				opts := &redlock.Options{LockOptions: redlock.LockOptions{Fencing: fenced}}
				reader := connected(t, ms, opts).RWLocker("a").RLocker()
				c := ms.WithDelays(near, far, near, near, far).Open(opts)
				time.Sleep(time.Second)
				locktest.Pass(reader)
				synctest.Wait()
				conn := ms.Pools()[2].Get()
				conn.Do("DEL", "a", "redlock:readers:a") // the nearest master lacks it
				conn.Close()
				ctx, cancel := context.WithTimeout(t.Context(), time.Second)
				defer cancel()
				l := c.Locker("a")
				if err := l.LockContext(ctx); err != nil {
					t.Fatalf("LockContext beside a reader that has left = %v", err)
				}
				l.Unlock()
			})
		})
	}
}
