// Package redlocktest provides embedded Redis masters for tests. A test can stop, empty, freeze or slow down
// a master, cut its connections, and lose a single request or reply on purpose. The package is to redlock
// what net/http/httptest is to net/http.
//
// The masters are [miniredis] servers in the process of the test. Clients reach them through buffered
// in-memory connections, without a port or a socket. So the package also works inside a [testing/synctest]
// bubble, where an hour of virtual time passes at once:
//
//	package shop_test // an external test package, see below
//
//	func TestAStockKeeperSurvivesADeadMaster(t *testing.T) {
//		synctest.Test(t, func(t *testing.T) {
//			masters := redlocktest.Start(t)
//			client := masters.Open(nil)
//			masters.Master(0).Stop()
//
//			stock := client.Locker("stock")
//			stock.Lock()
//			time.Sleep(time.Hour) // renewed all the while
//			stock.Unlock()
//
//			synctest.Wait()
//			if held := strings.Join(masters.Get("stock"), ""); held != "" {
//				t.Errorf("the key is left behind: %s", held)
//			}
//		})
//	}
//
// In a bubble, call [Start] with the bubble's own *testing.T. Its Cleanup functions run inside the bubble, as
// they must, since they shut down what was created there. If a test uses masters in a bubble that were
// started outside of it, it fails at once.
//
// With -race, run tests in bubbles with -cpu 1. Up to Go 1.26 at least, the runtime of the race detector may
// crash in a bubble on more than one thread (golang/go#78156).
//
// A program that calls redlock.Open itself gets the addresses of the masters from [Masters.URLs]. That works
// outside of bubbles only. In a bubble, let the program take a Client, or the pools of [Masters.Pools].
//
// # Restarts
//
// As with real servers, a master that was restarted does not vote for Options.MaxTTL plus 2 s, even if it has
// kept its keys: see "Restarts" in the documentation of package redlock. [Master.Adopt], called between Stop and
// Start, lets it vote at once.
//
// # Readers and writers
//
// All faults work for an RWLocker, too. The commands of readers are scripts, so faults name them EVALSHA. While
// readers hold a name, or a Client keeps their lease, Get returns "redlock:readers". A read lease ends when a
// majority of the masters has lost it:
//
//	catalogue := masters.Open(nil).RWLocker("catalogue")
//	err := catalogue.RLocker().Do(t.Context(), func(ctx context.Context) error {
//		for i := range 3 {
//			masters.Master(i).Forget()
//		}
//		<-ctx.Done() // at the next renewal
//		return context.Cause(ctx)
//	})
//	if !errors.Is(err, redlock.ErrLost) {
//		t.Errorf("Do = %v, want ErrLost", err)
//	}
//
// # Kept locks
//
// With LockOptions.Keep, Get returns the token after Unlock, too. So a test that a lock is free locks it by another Client,
// which recalls it, or closes the Client first. A process that was killed while it kept a lock has left a key that nobody
// releases, as [Master.Set] sets one. In a bubble the lock is kept for Keep of virtual time, or until it was not used for a
// third of the TTL:
//
//	masters := redlocktest.Start(t)
//	owner, other := masters.Open(opts).Locker("shard"), masters.Open(opts).Locker("shard") // two processes with Keep
//	for range 1000 {
//		owner.Lock() // the masters see one acquisition
//		owner.Unlock()
//	}
//	synctest.Wait()
//	if len(masters.Get("shard")) == 0 {
//		t.Error("the lock is not kept")
//	}
//	other.Lock() // at once
//
// # One value for all who wait
//
// Client.SingleFlight works between Clients of the same Masters, which stand for processes. The values are those of functions that
// began after the call. So a test of a shared value holds the lock until all wait, or has the first call be over:
//
//	masters := redlocktest.Start(t)
//	one, other := masters.Open(nil), masters.Open(nil)
//	mu := masters.Open(nil).Locker("page")
//	mu.Lock()
//	for _, c := range []*redlock.Client{one, other} {
//		go func() { // render is called once, unless the release has left the lock open
//			page, _, err := c.SingleFlight(t.Context(), "page", render)
//			…
//		}()
//	}
//	time.Sleep(time.Second) // both wait
//	mu.Unlock()
//
// # Semaphores
//
// All faults work for a Semaphore, too. Its commands are scripts, so faults name them EVALSHA. [Master.GetSlots] says which token
// stands in which slot. [Master.SetSlot] stands for the permit of a process that was killed, and [Master.DelSlots] makes holders lose
// theirs:
//
//	gpus := masters.Open(nil).Semaphore("gpus", 2)
//	for i := range 3 { // a majority
//		masters.Master(i).SetSlot("gpus", 0, "killed", time.Minute)
//	}
//	p, err := gpus.AcquireN(t.Context(), 2) // in a bubble: a minute later
//	…
//	for i := range 3 {
//		masters.Master(i).DelSlots("gpus")
//	}
//	<-p.Done() // at the next renewal
//	if !errors.Is(p.Err(), redlock.ErrLost) {
//		t.Errorf("Err = %v, want ErrLost", p.Err())
//	}
//
// # Differences from Redis
//
// Keys expire by the clock that the test sees. Commands of one connection are executed in order. Commands of
// different connections are executed in any order. A connection buffers 64 KiB of requests, after which
// writes block, as on a socket. Replies are buffered without a limit, as in Redis.
//
// INFO server reports a run_id, which changes with each restart, and nothing else. miniredis does not implement
// CONFIG, ROLE, CLIENT ID, CLIENT KILL and most sections of INFO. Scripts run about a hundred times slower than
// in Redis. Tests that depend on any of this need real servers.
//
// # Import cycles
//
// This package imports redlock. Tests of package redlock itself can import it only from package redlock_test.
//
// [miniredis]: https://github.com/alicebob/miniredis
package redlocktest
