// Package redlock provides a sync.Locker that works across processes and
// machines. It runs the Redlock algorithm over N independent Redis masters,
// five as a rule.
//
//	client, err := redlock.Open([]string{"10.0.0.1:6379", "10.0.0.2:6379", "10.0.0.3:6379"}, nil)
//	…
//	mu := client.Locker("stock")
//	mu.Lock()
//	defer mu.Unlock()
//
// A [Locker] is used like a sync.Mutex: shared by goroutines, locked and
// unlocked in pairs. [Locker.LockContext] waits no longer than a context lasts,
// [Locker.TryLock] does not wait. [Locker.Do] is to be preferred: it gives the
// work a context that ends if the lock is lost, and reports the loss.
//
// # What it promises
//
// Mutual exclusion: at most one holder has a valid [Lease] of a name at any
// moment. A lease is granted by a majority of the configured masters, not of
// those that can be reached, and any two majorities share a master.
//
// Freedom from deadlock: the lock of a holder that crashed, or was cut off, is
// free again when its TTL has run out at the masters.
//
// Fault tolerance: while a majority of masters answers, locks are taken and
// released, at the speed of those that answer. A master that is frozen, dead or
// unreachable is found out, left out, and dialled again in the background.
//
// # What it needs
//
// The masters are independent: no replication between them, never the same
// server twice. Replicas, members of a cluster, servers whose maxmemory-policy may
// evict locks, and the second address of the same server are found on connecting,
// do not vote, and [Client.Masters] says why; as far as they answer INFO. Their
// clocks and the clients' run at nearly the same speed: within the drift of
// Options.DriftFactor × TTL + 2 ms; they need not show the same time.
//
// No client of these masters uses a TTL above Options.MaxTTL of any other. All
// clients of a name are of this kind: a Redlock of another language excludes them
// and is excluded, but counts the votes of masters that have just forgotten.
//
// # Restarts
//
// A master that restarts without its memory, or with an old copy of it, would grant
// again what somebody holds. The algorithm asks operators to keep it away for the
// longest TTL. Here that is enforced: a vote, for an acquisition or a renewal,
// counts only if the master's memory is known to be older than Options.MaxTTL and
// 2 s. Each master keeps the record that tells, under the key "redlock:incarnation";
// the check travels behind the votes, in the same packet. Restarts, replicas that
// were promoted behind the same address, FLUSHALL, FLUSHDB, SWAPDB, a lost end of the
// append-only file, and a wall clock that was set begin another life of the memory.
// Until it is old enough the master is in quarantine: [Client.Masters], [Client.Ping],
// the Logger, Trace.MasterChanged and the errors of rounds that fail for it say so and
// until when. Releases are sent there, and leases set their keys there again, so that
// it knows what is held when its votes count.
//
// So mutual exclusion survives masters that forget, however many at once. A
// minority that does costs nothing else; if a majority does within one quarantine,
// leases end, and no lock is had until it is over.
//
// Masters that redlock has never used are in quarantine, too: nobody can tell new
// from forgetful. The first lock then takes MaxTTL and 2 s. Whoever knows that nobody
// holds a lock there may adopt them instead: redlock doctor --adopt. A new client of
// masters that are in use waits for nothing.
//
// Not covered are a step of a master's clock before the next look at it, of which
// there is one a second at least, of a client that was connected across it, and steps
// of less than 20 ms and a round trip; the same step of all masters that a client
// reaches, which it takes for its own clock's, and quarantines them for itself alone; a
// failover and back between two looks, or before the first look of those who have seen
// it; a replica that was promoted while some clients still reach its old master; a
// machine that goes back to a snapshot of itself; and restarts of a server that keeps its run_id from us (INFO forbidden,
// MasterStatus.GuardErr) and still has its record.
// Options.DisableRestartGuard turns all of it off.
//
// # What a holder may rely on
//
// While [Lease.Valid] reports true nobody else gets in, as far as the above
// holds. The lease is renewed every LockOptions.RenewEvery for as long as the
// lock is held, the process lives and a majority of masters answers, up to
// LockOptions.MaxHold.
//
// When that ends, the lease is lost, and the holder learns of it before anybody
// else can get in: at the end of validity, which comes before the keys run out at
// the masters, [Lease.Done] closes, contexts from [Lease.Context] and Do end with
// a cause that matches [ErrLost], and [Lease.Err] says why. If the masters say
// that the keys are gone, it is lost at once. Unlock then only ends the holding;
// [Locker.UnlockContext] and Do return the error.
//
// A holder that cannot run cannot learn anything. Stopped by SIGSTOP, a debugger,
// a suspended machine, it finds the truth at its first question: Valid and Err
// compute their answer from the clocks, and so does the Err of a lease's context,
// though not of those derived from it; Done and timers may come a moment later.
// What no clock can tell is a pause between the question and the deed: a frozen
// virtual machine whose clocks were frozen too, a write that is already on its
// way through a slow network. Whatever must not be written by a late holder needs
// a fence.
//
// # Fencing
//
// With LockOptions.Fencing each lease has a number, [Lease.Fence], above those of all
// leases of the name before it, also of those that were handed over within the
// process. The holder sends it along with what it writes; the resource remembers
// the highest it has seen, and refuses less, and 0. Then a holder that was stopped
// for longer than its lease cannot overwrite what its successor wrote. The resource
// must compare and write in one step of its own; examples/fencing is one.
//
// The masters agree on the number, so it needs no other service. That it rises holds
// also where two hold at once because keys have vanished: then no two have the same
// number, and each is above all that were agreed on before its acquisition began. It
// needs that clients' and masters' clocks show the same time to half a second, since
// a master that has forgotten its numbers relies on the clock having passed them; that
// the restart guard is on; that masters are adopted only when nobody has held a lock
// there for 2 s; and that all who lock the name use Fencing. Masters keep a name's
// number for a day.
//
// What is said here of restarts and fences is explored, in every order of events, by
// the model in internal/model, for three masters and two clients; it says what it
// leaves out.
//
// # Concurrency
//
// A [Client] and its Lockers may be used by any number of goroutines. Of one
// Client and one name, at most one goroutine is on the wire: the others queue in
// the process, first come first served, and cost the masters nothing. The lock
// stays taken from Lock to Unlock for the other goroutines of the Client, even
// if the lease has been lost in between, so that a late Unlock never frees a
// successor.
//
// Lock never fails because of the network: without a majority it waits. It
// panics only when its Client is closed.
//
// # Contention
//
// Among goroutines of a Client a lock that is released while others wait is
// handed over: the next one in line becomes the holder of the same token, with a
// Lease of its own, and the masters are not asked. This goes on for
// LockOptions.Handover after the masters granted the lock; then it is released,
// so that other processes wait for no more than that and one critical section.
//
// Among processes a Client that is refused joins the name's queue on the masters,
// and a release wakes the client that has waited longest: one, whatever the number
// waiting, so that they enter in the order of their coming, each within a round
// trip or two of the release. The queue is a hint; who gets the lock is decided
// by the masters' votes alone. A wake-up that is lost costs the waiter one step of
// Options.NewBackOff, which it follows as well, though not in steps of less than
// 100 ms while it stands in the queues of a majority. It also tries when the
// holder's key would expire. Servers may forbid what wake-ups need; Client.Masters
// tells, and Options.DisableWakeups turns them off.
//
// # Time
//
// An attempt sends one SET to every master at once; each has
// Options.NodeTimeout to answer. It is decided as soon as the answers that have
// come decide it. An attempt that fails is undone at once on all masters,
// whatever they have answered, and undone again on those that did not answer,
// when they do: no key is left behind, unless the Client is closed before; then
// it runs out. Then the next attempt follows after a
// random delay, Options.NewBackOff. Validity counts from before the first byte
// was sent, is shortened by the drift, and is judged by the monotonic and the
// wall clock, and on Linux by the one that counts sleep, whichever says that more
// time has passed.
//
// A renewal is counted like an acquisition, by a majority within the validity
// that is left; masters that fail are asked again. It never makes a key: only
// when it has succeeded are masters that lost the key sent it again.
//
// # Keys
//
// The lock is the string Options.Prefix + name, which holds the token of its
// holder: what Redlocks of other languages use too, so that locks exclude each
// other across languages. Keys that begin with "redlock:" are reserved:
// "redlock:queue:" + key is the sorted set of the ids of waiting clients, by
// ticket, which is kept for ten minutes after the last has joined. A client
// listens on the channel "redlock:wake:" + its id, where the freed token and key
// are published. "redlock:fence:" + key is the highest fence, kept for a day.
// "redlock:incarnation" is the record of the master's life, one for each database:
// the run_id of its process, since when in µs, the database, and whether it was
// adopted; it is to expire in the year 2100, at a moment that tells it from others.
//
// # Testing
//
// Package redlocktest has embedded masters with faults to switch on, which run
// in a testing/synctest bubble.
//
// The algorithm is that of https://redis.io/docs/latest/develop/use/patterns/distributed-locks/.
package redlock
