// Package grant explores exhaustively a protocol in which a release gives the lock to a client that has waited: of a lock with one
// queue, and of a lock with lanes, which readers and writers share. Package model explores acquisitions by SET. Package grant consists
// of tests only, and it models the protocol, not the code.
//
//	go test -v ./internal/model/grant                                    some million states
//	go test -v ./internal/model/grant -run Holds -timeout 30m -args -large  many more
//
// The search ends at a state that breaks a property. The test then prints the shortest way to that state, one
// step a line. The tests of strikes_test.go switch off one rule at a time and find what the rule prevents.
//
// The two kinds of locks differ only in what a master executes: queue_test.go has the registrations and releases of one queue,
// master_test.go and pass_test.go those of lanes and all that both share. The roles of a world say which kind it has.
//
// # The protocol of a queue
//
// A client that waits has a claim, which is one fresh token. It registers the claim at all masters. If the key
// is free and no client is in the queue, the master sets the key to the token. Otherwise it appends the token
// to the queue of the key. When a release has deleted the key, the same script sets the key for the head of
// the queue, for a short time, and publishes a message. This is a grant. A client has the lock when it has a
// quorum of grants, by messages or by answers. The first lease is short, and is renewed like any other.
//
// There are three scripts:
//
//	register  If the key holds the token, or is free and no other claim is the head: set or extend it.
//	          Otherwise join the queue. A poll is a repeated registration. If it finds the key free,
//	          and another claim is the head, it grants the head.
//	release   Delete the key if it holds the token, and leave the queue. If the key is free then, grant
//	          the head. This also ends a claim that is given up, and a SET without a quorum.
//	commit    The second round for the fence: raise the fence, and extend the key.
//
// # The protocol of lanes
//
// Each client is a reader or a writer. A writer's vote is a key that holds its token. While readers hold a master, its key is a marker
// that belongs to nobody, and a set contains a member for each reader. A member stands until its own expiry. Afterwards it may still be in the
// set: then it has passed. The marker stands as long as one member does.
//
// Clients that wait have a claim in one of two queues, here called lanes: that of writers, and that of readers.
//
//	register  A writer sets a free key, and a reader stands where the key is free or holds the marker, unless others wait that run.
//	          Otherwise both join their lane. The registration of a writer recalls the readers that stand.
//	poll      The same, repeated. If the key is free, it is passed on.
//	asks      A poll of a reader that has votes at other masters: beside readers, it stands although a writer waits.
//	release   Delete the key, or the member, and leave the lane. What leaves the key free passes it on: behind a writer, all readers
//	          that wait are granted it; behind the last reader, the first writer is.
//	commit    The second round for the fence: raise the fence, and extend the key or the member.
//	announce  By a client that stands in no lane: the readers are recalled, and others stay out for a while.
//
// # What is modelled
//
// The steps are: registrations, polls, plain SETs of clients that do not queue, grants, giving up, renewals
// with their heals, and the second round for a fence. The commands of a client to a master form a queue. At
// any time, the oldest command is executed by the master or lost. A release is lost only if its client dies.
// Messages arrive at any later time. Masters may lose their memory, that is keys, queue and fence, while
// connections, commands and messages survive. After that they may have an earlier state of their memory.
// Clients may die.
//
// These properties are checked in every state:
//   - apart: at most one client has a lease that is valid, or readers alone have.
//   - honestLoss: a renewal that began after a client held the lock which the lease excludes does not extend the lease.
//   - fencesInOrder: each committed fence is larger than all fences committed before. That of a reader is not smaller than those of
//     earlier writers, and smaller than those of later ones.
//   - nothingLeft: a client that is idle, and whose commands have all been executed, has no key on any
//     master, no member, and no entry in a queue.
//   - notStuck: if a client waits and no client has the lock, a command or a message is under way, or a
//     waiter has some grants, and so a short timer. Polls do not count.
//   - notLockedOut: from each state in which a client waits, a state can be reached in which that client
//     has the lock, without polls, and without another client that gives up because it wants to.
//
// The last two are checked in worlds without faults only. No script runs that could grant the lock after a
// lost message, the death of a holder, the expiry of a key, a restart, or the deletion of a key by a client of
// another library. Polls cover these cases.
//
// # What is abstracted
//
// Some worlds begin in a state in which one client has the lock and the others wait for it, and have few
// acquisitions left.
//
// Time has no numbers. A key may expire at any moment unless a lease rests on it. When it expires, the vote of
// its client is void. That is sound if the validity of each vote is counted from a moment before the key was
// set. The worlds with ages show this. In these worlds each claim has marks: moments at which the client has
// sent something. A key remembers the last mark before it was set, and does not expire before the time is over
// that is counted from this mark. A vote counts from a mark that the client knows to be early enough:
//   - For the answer to a registration, a poll or a second round: the moment at which that was sent.
//   - For a message: the last PING on the subscription whose PONG came before the message, or else the
//     registration.
//
// A quarantine may end at any moment after every lease has ended that rests on a vote of the lost memory.
// Votes of the lost memory that are not used by then are too old.
//
// A poll extends a key that was granted. In the library it does not, before the claim has a quorum: the answer says
// how long the key lives, and if the votes of a quorum end soon, the claim extends its keys by a round of its own. The
// vote then ends when the key does. Here a key may expire at any moment, and its vote with it, which covers both.
//
// A poll is executed at once, except in worlds with ages and in worlds with holders that sleep. A poll that is
// executed late, and that a release follows, has the effect of a late registration.
//
// Keys and entries have no numbers for their tokens: see type owner. Messages of a claim that was given up are
// kept only if the rule is switched off that they do not count.
//
// Hashes of tokens decide which client gives up after a split vote. They are drawn again for each claim.
//
// # Results
//
// A newcomer that finds the key free and other claims in the queue must not grant the head. Otherwise a
// release that leaves the key open, for clients that do not queue, has no effect: the next registration of the
// same client follows the release directly, and closes the key again.
//
// If no client queues, leaving the key open has no effect either: the client's own registration takes the
// key. Then the client must wait before it registers.
//
// If keys are left open, a release must also grant the head if it finds the key free, because the client that
// was told so may have given up.
//
// A SET without a quorum must be undone by the release script, because clients may have queued behind it. Or
// it is not undone, and the claim is registered with the same token.
//
// A registration that was refused must be released too: it is in the queue, and is set later.
//
// Two clients that reach one master each can prevent for ever that a third client gets a quorum of three, if
// their polls extend the keys that were granted to them. So a claim must be released if fewer than a quorum of
// masters answer.
//
// A master that has just lost its memory may set its key for a waiter. The waiter may extend that key by polls
// until the quarantine is over, and then count the number that was given in the quarantine. So a number that
// is older than a quarantine must not be committed, whichever client proposed it. This also covers a proposal
// in a release that is executed late.
//
// A master may acknowledge the second round for the fence before its message has arrived. So that round must
// extend the key. Otherwise the client would not know how long the key lives.
//
// A poll may be executed when its claim has won, its lease has expired, and another client has held the lock.
// Then it sets the key again, or queues the claim, which is granted later. With that key, a holder that was
// stopped, and whose clocks do not show it, could renew its lease. The answer to the poll arrives before the
// answer to the renewal, and says that the key was gone: the master does not count in this renewal.
//
// A master may take any waiter for silent at any time, in the worlds with silences, and the client then does not poll.
// Only waiters that stopped for good are silent in the worlds with stops.
//
// With three masters that all answer and two clients, no client needs to give up after a split vote: one of
// them has two masters. If one of the three never answers, and each client has one of the others, both are locked
// out in four steps unless one gives up. The rule also matters for an even number of masters, and for more clients.
//
// With all rules, two clients beside a dead master exclude each other and make progress. They need no rule that ends
// a claim after the time that a grant lasts. The library has that rule for keys that nobody releases.
//
// Whether a poll takes a free key for itself or grants the head matters only to fairness.
//
// # Bounds
//
// The worlds of bound_test.go have time in ticks. They say for how long a lock with lanes may be unused although somebody waits, if
// clients are stopped and messages are lost.
//
// # What was tried
//
// In an earlier design, a claim extended the keys that it had with each poll. With one of three masters dead, waiting processes were refused by both
// others for 20 s, although nobody held the lock. The likely cause: claims with one key each, none of which expired. So a key is never extended
// before the claim has a quorum.
//
// A claim that is released in favour of another names its token. Without that, four clients near different masters gave each other keys in
// turns for 2 s.
//
// A client that was told that the lock is free, and no longer waits, passes the lock on by the release of its claim.
//
// # What the model does not cover
//
//   - Three clients, in most worlds.
//   - Progress with three clients and three masters, which has too many states.
//   - More than three clients or masters, and all worlds at once.
//   - Rates and steps of clocks, and durations.
//   - How a client identifies a memory.
//   - Holders that are stopped while no clock shows it, and whose keys expire one by one: see package model.
//   - Clients of other libraries and versions, except that they send SETs.
//   - Handover inside a client, and the sharing of a lease by the goroutines of a process: see package kept.
//   - Who is near: with lanes, any reader may find the message about its grant too old, and polls then.
package grant
