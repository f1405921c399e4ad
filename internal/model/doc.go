// Package model explores the protocol of package redlock exhaustively, for three masters and two clients. It
// covers every order in which the steps of the protocol can happen. It consists of tests only. No package
// imports it, and it models the protocol, not the code.
//
//	go test -v ./internal/model                                     a million states
//	go test -v ./internal/model -run Holds -timeout 30m -args -large  twelve million more
//
// The search ends at a state that breaks a property. The test then prints the shortest way to that state, one
// step a line. To see what a rule prevents, switch it off: each field of the type rules switches off one
// rule, and quotes it.
//
// # What is modelled
//
// Two clients acquire the lock over and over. The steps are: a SET to every master, a decision by quorum, a
// second round for the fence, renewals with their repetitions, heals, and releases. The commands of a client
// to a master form a queue. At any time, even long after it was sent, the oldest command is executed by the
// master or lost. A release is lost only if its client dies. Masters may lose their memory at any moment,
// while their connections, queues and counted votes survive. After that they may have an earlier state of
// their memory. The probe may be executed long after its vote. Clients may die before they send their
// releases.
//
// Four properties are checked in every state:
//   - oneHolder: at most one client has a lease that is valid.
//   - risingFences: each committed fence is larger than all fences committed before. In worlds where keys
//     vanish, two clients may hold the lock at once. There the property is: no fence is committed twice,
//     and each fence is larger than all that were committed before its acquisition began.
//   - honestLoss: a renewal that began after another client held the lock does not extend the lease.
//   - nothingLeft: a client that is idle, and whose commands have all been executed, has no key on any
//     master. It follows that every lock becomes free: when all leases have ended and the queues are
//     empty, only keys of dead clients are left, and these expire.
//
// A client does not wait for the answers to its releases. It may begin its next acquisition while the
// releases of the last one, and its late SETs, are still under way, also across a restart.
//
// # What is abstracted, and why that is sound
//
// The model may do everything that the system can do, and in some places more. A property that holds in the
// model therefore holds in the system.
//
// Time has no numbers. A lease may end at any step. One rule connects keys with time. Validity is counted
// from before the first command of a round, and is shorter than the TTL by the drift. So a key stays at its
// master until the round that set or extended it last has ended, or a later round of the same lease has
// replaced that round. After that the key may disappear at any moment (type rounds.Cover). The rounds of different
// clients end in any order, as with any mixture of TTLs. This assumes clocks that run at the same rate up to
// the drift.
//
// A reply arrives at once, but the client may use it at any later time, or act as if it had not come. That
// covers replies that are under way or lost. Refusals and failures are not stored: their only effect is that
// a client gives up, which it may do at any time. Therefore a heal goes to every master that has not granted,
// not only to those known to miss the key. Where the key is present, a heal does nothing. An extension that
// is executed after its round would only make a key stay longer. Keys may stay for any time in the model, so
// such extensions are left out.
//
// A quarantine may end at any moment after all rounds that were open at the restart have ended or have been
// replaced. Open rounds are those that were undecided and those of a lease. The reason is that MaxTTL covers
// every client's TTL. New SETs may be sent to quarantined masters or be lost on the way. So it does not
// matter to safety whether the client had noticed the quarantine.
//
// Fences are small numbers. A proposal is one of a few successive numbers, drawn again at each master. That
// covers clocks that differ, and the bound that the master's own clock puts on a proposal. When a quarantine
// ends, clocks have passed every fence that was committed before the restart, or by a round that was open at
// the restart. In the system, a fence is committed at most 1 s ahead of a clock, and a proposal may be as old
// as its acquisition. So MaxTTL + 2 s must exceed the sum of:
//   - 1 s
//   - the time that the one acquisition took from the restart to its commit
//   - the time that the other acquisition has taken since its proposal
//   - the difference of their clocks
//
// This is the case if acquisitions take a few NodeTimeouts. The rule slowAcquisition shows what happens
// otherwise.
//
// Tokens have no numbers either: see type rounds.Owner. States that differ only by a permutation of masters or
// clients are explored once. TestPermutationsLoseNothing checks that no state is missed.
//
// # Results
//
// Heals must not count in the renewal that made them, and a renewal that failed must not make heals. This
// matters only to a holder that was stopped while its clocks did not notice (the worlds that sleep). A holder
// that notices the end of its validity has no renewal in which heals could count. For a holder that was
// stopped, the rule is enough if all its keys are gone when it continues. If the keys disappear one by one, a
// late SET or heal can complete a quorum with the last of them (TestALeaseIsProlongedWronglyAfterAPauseThatNoClockShows). Then only the fence
// shows that the lease was lost.
//
// The exact acknowledgement matters only where keys vanish before their time. Raising the fence by a heal
// matters only where clocks do not propose (TestRulesThatOtherRulesCover).
//
// The votes and the validity of a renewal must begin with the same command. A retry that keeps the votes of
// the attempt before must also keep its beginning.
//
// A release is owed until its SET cannot arrive any more. A restart alone does not guarantee that: after a
// FLUSHALL, or through a proxy, the SET may still be under way.
//
// # What the model does not cover
//
//   - More clients or masters. The number of masters is a constant. Four and five masters hold with one restart,
//     and two masters with most of this.
//   - All worlds at once. Each world has some of the faults, and bounds on the commands under way.
//   - Rates of clocks, steps of clocks, and the margins above.
//   - Handover, and the count of local holders in the fence.
//   - The queue and its messages, on which no property depends.
//   - How a client identifies an incarnation: the record, its fingerprint, adoption.
//   - Fences that expire after 24 h.
//   - Whether a client ever acquires the lock.
package model
