// Package simulation runs many clients of package redlock against five embedded masters, with faults, and
// checks that the properties below hold. It consists of tests only; no package imports it.
//
//	go test ./internal/simulation                                            100 seeds, 40 with -race
//	go test ./internal/simulation -v -timeout 0 -args -seeds 20000           many more, and a table of figures
//	go test ./internal/simulation -run 'TestSeed$' -v -args -seed 17         the plan and the history of one seed
//
// A seed determines a plan: a few processes, their distances from the masters, what their goroutines do, and
// which faults happen when. The clients use the public API. They run in a testing/synctest bubble, where an
// hour takes a second. Seed n has profile n modulo the number of profiles (type profile). Further profiles (turnsProfiles) run
// with -profile only. In these, clients differ in kind, settings, rights and distance, up to half a second there and back.
//
// # Faults
//
// Masters:
//   - crash, and start again with or without their memory
//   - lose their memory while they run
//   - freeze
//   - answer with errors
//   - lose single requests and replies
//
// Processes:
//   - are cut off from some masters, in both directions or one
//   - have slow messages
//   - lose connections, and what was on its way arrives late, after what the next connection sends
//   - have subscriptions that stay at a server when its address leads elsewhere
//   - are stopped for longer than a TTL, or run for 30 ms at a time
//   - are killed
//   - lose their machine (their connections stay open at the masters)
//   - close their Client
//   - start again
//   - have their wall clocks set
//
// Keys are also deleted by hand.
//
// # Properties
//
//   - one holder: when a call returns with the lock, no other lease of the name is valid, or only those of readers
//     beside a reader.
//   - fences: each fence is larger than those of all earlier holders. A reader's may be equal to them. If keys
//     were deleted by hand, two may hold the lock at once. Then each fence is larger than those given before
//     its acquisition began, and no two are equal.
//   - free lock: no waiter waits longer than 1.6 s and twelve round trips of the farthest process, nor than profile.free, while the
//     lock is free and a quorum of masters answers the waiter.
//   - waits: without faults, no call for several names, or for an RWLocker, takes longer than profile.waits.
//   - order: without faults, at most profile.overtakes later comers of other processes enter before a
//     waiter.
//   - turns: in the profiles of clients that must get their turns (turnsProfiles), each client enters once in so many entries
//     of the others (run.demand), while a quorum of masters answers it. This depends on the kind of the client and on its
//     distance: a client that queues with the defaults, one whose leases are not renewed, and one that polls.
//   - values: SingleFlight returns no value of a function that began before the call (profile flights).
//   - throughput: with one master slow or hung, there are at least four fifths as many entries as without that.
//   - trace: each call of a script and each SET that a master executes is explained by the specification of one master
//     (internal/model/server): its answer, its messages, and what the key or the slots, the queue, the fence and the readers are
//     afterwards. Each lease, and each renewal of it, is explained by votes of a quorum of masters: they were
//     executed after it was sent, the client has heard of them, they last for longer than the lease, and no master may have
//     forgotten another lease then. Its token was not released before. A lease that is lost before its time is not held by a quorum
//     of masters. On one connection, nothing of an acquisition follows its release.
//   - liveness: after the faults every waiter acquires the lock.
//   - lost keys: a holder whose keys were deleted notices it by its next renewal.
//   - lost for nothing: without faults, no lease that is renewed is lost.
//   - done: Lease.Done closes when the validity ends, and before another process has the lock.
//   - clocks: a lease ends at once when its validity is over by the wall clock of its process.
//   - keys left: when no process holds the lock any more, its key disappears from all masters; after a day
//     no key is left.
//   - goroutines left: none after the Clients are closed. Close returns within one and a half times
//     DialTimeout.
//   - bounds and errors: calls return no later than their contexts end, Unlock returns within NodeTimeout,
//     and the errors are those that the documentation promises.
//
// A lock whose key is left because of a fault does not count as free. For example, a release that could not
// be sent, or was lost with its connection, is executed only when the connection stands again. Such keys are
// excused for a few seconds after the fault (afterTrouble), and keys of a dead process for a TTL. A request that was delayed on a
// lost connection may be executed after the release of its token, and leave a key for a TTL, since embedded masters know no CLIENT KILL.
//
// # Repeating a run
//
// The seed determines the plan exactly, but not the run: goroutines that become ready at the same instant run
// in any order, select chooses at random, and tokens are random. Delays between attempts repeat where they
// come from math/rand. Times are drawn to the nanosecond, so that few events coincide. TestRunsRepeat with
// -repeat 100 reports how many runs are identical. As a program for WebAssembly, each run repeats: see lab/replay.
//
// A run that never ends, such as one in which a goroutine waits for ever for a mutex, ends the process within seconds, and
// shows its goroutines: see package stall.
//
// If a run fails, the simulation repeats it with single faults, processes and calls removed, to find a small
// plan that fails. It tries each plan three times.
//
// # What is not simulated
//
//   - Memory that comes back older than it was.
//   - Replicas.
//   - Steps of a master's clock.
//   - Pauses that no clock of the process shows. Only a fence protects against them. A process that is
//     stopped here does not act on its leases and neither sends nor receives, but timers inside its Client
//     fire.
package simulation
