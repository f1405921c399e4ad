// Package redlock provides a sync.Locker that works across processes and machines. It implements the [Redlock
// algorithm] over N independent Redis masters, usually five.
//
//	client, err := redlock.Open([]string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}, nil)
//	…
//	mu := client.Locker("stock")
//	mu.Lock()
//	defer mu.Unlock()
//
// A [Locker] is used like a sync.Mutex: any number of goroutines share it, and lock and unlock it in pairs.
// [Locker.LockContext] waits no longer than its context lasts. [Locker.TryLock] does not wait. Prefer
// [Locker.Do]: it passes the function a context that ends if the lock is lost, and it reports the loss.
//
// Client.Locker("a", "b") locks both names or none, in one round trip. Such Lockers do not deadlock with each
// other. If one is refused for long, it takes its names one by one, and may hold some while it waits for the
// next. Package redlocktest has embedded masters for tests in virtual time, with faults to switch on.
//
// # Guarantees
//
//   - Mutual exclusion: at any moment at most one [Lease] of a name is valid. A lease is granted by a
//     majority of the configured masters, and any two majorities share a master.
//   - Freedom from deadlock: the lock of a holder that crashed becomes free when its TTL has passed.
//   - Fault tolerance: while a majority of masters answers, locks are acquired and released at the speed of
//     the masters that answer. A master that does not answer is left out until it does.
//
// # Conditions
//
//   - The masters are independent servers. A replica, a cluster member, a server that may evict keys and a
//     second address of the same server never vote. [Client.Masters] gives the reason.
//   - All clients of a name use the same list of masters.
//   - Clocks of clients and masters run at the same rate, to within Options.DriftFactor × TTL + 2 ms.
//   - The restart guard is on, or the masters never lose data.
//
// docs/guarantees.md lists what is not covered, and what each fault means for holders and waiters.
//
// # Holding a lock
//
// While [Lease.Valid] reports true, nobody else holds the lock. The lease is renewed every
// LockOptions.RenewEvery while the lock is held, up to LockOptions.MaxHold. If it cannot be renewed, it ends
// before the keys expire at the masters: [Lease.Done] is closed, contexts of the lease end with a cause that
// matches [ErrLost], and [Lease.Err] gives the reason. Unlock after a loss sends nothing.
// [Locker.UnlockContext] and Do return the error.
//
// A process that is stopped cannot notice anything. Valid and Err read the clocks when they are called, so
// they are right at once when the process goes on. A pause between the check and a write can only be caught
// by the resource that is written to: see Fencing.
//
// A long holder can yield when somebody else waits: see [Lease.Wanted].
//
// # Unlocking
//
// Unlock does not wait for the masters: it queues the release and returns. A later Lock or TryLock of the same
// name by this Client does not wait for the answer either. Other processes see the lock free when the
// release has reached the masters. UnlockContext and Do wait for a majority's answers and return the outcome.
// After Unlock, the Logger and Trace.Released report it. [Client.Close] sends the queued releases and waits for
// the answers. A program that exits without Close, or without UnlockContext, may leave keys that stay for their TTL.
//
// # Fencing
//
// With LockOptions.Fencing each lease has a number, [Lease.Fence], that is greater than the number of every
// earlier lease of the name. Send it with each write. The resource stores the greatest number it has seen and
// refuses lower ones, in the same atomic step as the write. Then a holder that was paused beyond its lease
// cannot overwrite what its successor wrote. examples/fencing shows both sides. Fencing needs the restart
// guard, and clocks that show the same time to within half a second. Every client of the name must use it. The
// fences of a [Semaphore] rise for each slot separately: see [Permit].
//
// # One value for all who wait
//
// [Client.SingleFlight] calls a function while it holds a lock, and gives the value to all processes that wait, for example to
// refresh a token or fill a cache once. No caller gets the value of a function that began before its call.
//
// # Restarts
//
// A master that loses its data could grant a lock that somebody holds. The restart guard prevents this: votes
// of a master that may have lost data do not count until every lease that it may have forgotten has ended.
// This quarantine begins when the first client connects to the master after the loss. It lasts MaxTTL + 2 s,
// where MaxTTL is the largest Options.MaxTTL that any client of the master has declared. Errors that a
// quarantine causes match [ErrQuarantined]. A quarantined minority costs nothing. If a majority loses its
// data within one quarantine, leases end and no lock is acquired until the quarantine is over. Masters that
// redlock has never used are quarantined as well, since a new server looks like one that has lost its data. If
// nobody holds a lock there, skip the wait with redlock doctor --adopt.
//
// # Concurrency and contention
//
// A [Client] and its Lockers may be used by any number of goroutines. Goroutines of one Client that wait for
// the same name queue in the process, first come first served, and only the first of them uses the network.
// The lock stays taken for the other goroutines until Unlock, even if the lease has been lost, so that a late
// Unlock never releases a successor's lock.
//
// Unlock passes a valid lease to the next waiting goroutine of the Client without asking the masters, for up to
// LockOptions.Handover after the acquisition. Otherwise the lock is released, and the release grants it to the
// process that has waited longest, in one round trip. Until its first renewal, after 100 ms at most, such a lease lasts
// for a tenth of its TTL, from 400 ms to 1 s: see Lease.Until. Lock does not fail because of the network: without a majority it waits, and logs why. It
// panics on a closed Client. Services should use LockContext or Do.
//
// # Readers and writers
//
// An [RWLocker] is used like a sync.RWMutex: any number of readers or one writer hold it. The readers of a
// Client share one lease, which is kept after they have left, so they use the network only after a writer. Readers
// and writers of all processes take turns. A Locker of the same name is a writer, too.
//
// # Semaphores, leaders, kept locks
//
// The limit of a [Semaphore] is how many permits all processes together can hold at a time. Package election makes one of several
// processes the leader: that process holds a lock for as long as it runs. With LockOptions.Keep, a lock stays with the process after Unlock
// until another process wants it; until then Lock and Unlock need no network. Keep is for locks that one process uses again and again.
//
// # Errors
//
// errors.Is(err, [ErrHeld]) is true only if somebody holds the lock. errors.Is(err, [ErrQuarantined]) is true only if waiting will help. Any other
// [QuorumError] lists what is wrong with each master. After a wait, QuorumError.Owner says who holds the lock. An error that matches
// [ErrLost] says that a lease ended early.
//
// # The end of a program
//
// [Client.Close] sends the releases that are queued. Services call [Client.Shutdown] instead: it refuses new locks, waits for
// the holders, and then closes. [Client.Ping] and [Client.Masters] say whether a majority may vote, and what is wrong with each master.
//
// # Time
//
// An attempt sends one command to all masters at once and waits for each up to Options.NodeTimeout. It ends
// as soon as the votes decide it. A failed attempt is undone on all masters, whatever they answered.
// Masters that do not answer are asked again later. Validity counts from before the first byte was sent: the TTL, less
// the time taken, less the drift. The time taken is read from the monotonic clock, the wall clock and, on Linux, the
// clock that also counts sleep. The largest of the three counts.
//
// # Keys and tokens
//
// The key of a lock is Options.Prefix + name, and its value is the holder's token. Redlock clients in other
// languages use the same key, so locks exclude each other. Keys that begin with "redlock:" are reserved.
// docs/protocol.md describes all keys, values and channels. A token names its owner, Options.Owner: the host and
// the process id by default. Errors and log lines of a long wait name it. [Client.Inspect] and redlock
// status show the owner, the time left, and who waits. redlock break ends the lease of a holder that hangs.
//
// [Redlock algorithm]: https://redis.io/docs/latest/develop/use/patterns/distributed-locks/
package redlock
