// Package crowd explores exhaustively how long a lock stays free while many clients wait for it, of which only those near the
// head of the queue poll often. Package grant explores the rest of the protocol, and leaves polls out of its progress. Package
// crowd consists of tests only, and it models the protocol, not the code.
//
// # The protocol
//
// The first clients of a queue are near, all others are far. The answer to a registration or a poll says how many clients are
// ahead. Whatever takes a client out of the first ones tells the one that becomes near. A near client polls in each tick, a far
// one the less often the more clients are ahead of it.
//
// A client is live if it has polled lately, unheard if it is far and need not have, silent if it is overdue, and gone if its
// subscription is. A release grants the lock to the first client that is live or unheard. Behind one that is silent, and for
// a poll that finds the key free, it must be live. Clients that are passed over are told, and set behind all others until
// they poll.
//
// In some worlds, turns are fast: then a grant does not tell a client that has joined the queue in the same tick or the one before, and
// all clients poll for the first time sooner.
//
// # What is modelled
//
// There are four clients, of which two are near, and one master. Time is counted in ticks. Polls and registrations are
// executed at once. Their answers and the messages arrive before the next tick, in any order. Messages may be lost. Clients may
// be stopped for good, with their subscriptions, and may die, with them. The master may lose its queue.
//
// The lock may be a semaphore of two permits, for which there are five clients. A newcomer takes a free permit only if nobody queues, or the head
// was set aside. A release passes on all that is free.
//
// One property is checked: a lock that nobody has, or that was granted to a client that cannot use it, is had by a live
// client within a bound, and likewise each permit. Each world has its own bound, which is exact. Until the key of a dead holder expires, the time does
// not count. TestEachRuleIsNeeded switches off one rule at a time, and finds a lock that is free for longer.
//
// Beside that there are two smaller models, of three masters whose queues have different orders:
// TestTheHeadOfAMasterPollsOftenWhateverTheOrders and TestAReleaseIsNotSplitIfItNamesAClaim. In the second one clients release the lock, queue again,
// and give up claims. Each grant names the next head, which the holder hears or not, and the release names the claim that most masters have named.
//
// # What it does not cover
//
//   - Several masters, but for the two smaller models, and how a split vote is resolved.
//   - Safety: a place in the queue is no vote, and changes none.
//   - How the time between two polls is drawn at random.
//   - Claims for several permits, and those that pass others which have waited for longer: see package contract,
//     TestPermitsAreGivenInTheOrderOfTheCallsAlsoToCallsForSeveral and TestAClaimIsNotPassedForLong.
//   - More than a few misfortunes at once: see the worlds.
package crowd
