// Package redlocktest provides embedded Redis masters for tests, with faults
// to switch on: a master can be stopped, emptied, frozen, slowed down or cut
// off, and a single request or reply can be lost on purpose. It is to package
// redlock what net/http/httptest is to net/http.
//
// The masters are [miniredis] servers in the test's own process, reached
// through buffered in-memory connections. No port and no socket is involved,
// so everything here also works inside a [testing/synctest] bubble, where
// nobody waits for an hour to pass:
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
// In a bubble, call [Start] with the bubble's own *testing.T: its Cleanup
// functions run inside the bubble, and whatever they shut down was made there.
//
// # What is real and what is not
//
// Keys expire by the clock that the test sees. Commands of one connection are
// executed in order, those of different connections in any order. A connection
// takes 64 KiB of requests ahead of the master, then writes block, as on
// a socket; replies are buffered without bound, as in Redis.
//
// miniredis has no INFO server section, CONFIG, ROLE, CLIENT ID or CLIENT KILL:
// a client cannot tell one life of such a master from the next by its run_id.
// Scripts run, though a hundred times slower than in Redis. What depends on
// these needs real servers.
//
// # Import cycles
//
// This package imports redlock. Tests of package redlock itself use it from
// package redlock_test only.
//
// [miniredis]: https://github.com/alicebob/miniredis
package redlocktest
