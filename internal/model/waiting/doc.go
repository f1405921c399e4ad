// Package waiting explores exhaustively how clients wait for a lock: the queue at each master, the wake-ups,
// and the handover inside a client. It complements package model, which explores safety and leaves waiting
// out. It consists of tests only, and models the protocol, not the code.
//
// # What is modelled
//
// Clients acquire a lock and release it, in the steps of Locker.LockContext and Locker.TryLock: a SET to
// every master; if that is refused, an acquisition that joins the queue; sleep; a SET after a wake-up. A
// client does not wait for the answers to its release. It may lock again at once. Its next attempt then
// travels right behind the release, in the form that does not overtake clients in the queue. A client may
// leave at any time. The commands of a client to a master form a queue, and the master executes the oldest at
// any time. Messages arrive in any order, at any time. A client has a second goroutine, to which it may hand
// the lock over.
//
// Three properties are checked:
//   - stuck: a client sleeps although a quorum of masters is free, no client holds or requests the lock,
//     and nothing is under way. Without polls the client would sleep for ever.
//   - locked out: from this state on, a client that waits can never acquire the lock, whatever happens.
//     Polls alone do not exclude that.
//   - robbed: a client that locks again takes a master's key although its own release has woken another
//     client there, whose SET is under way. This is checked in the worlds with turns.
//
// # What is abstracted
//
// Time has no numbers. A poll may happen at any moment while a client sleeps. A client acts on the first
// message. That covers the quorum of messages, and the timer that the first message starts. Entries of a
// queue stay in the order of joining, since in the system they are sorted by the time waited. Keys expire
// only after their client has died: package model covers leases that end early.
//
// # What it does not cover
//
//   - More than a few calls of Lock and TryLock in total: see world.calls.
//   - The length of a wait, which the simulation measures.
//   - Fairness between clients that release and ask again.
//   - More than three clients, or more than two clients with three masters.
package waiting
