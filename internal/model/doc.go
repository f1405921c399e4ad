// Package model explores the protocol of package redlock exhaustively, for three
// masters and two clients: every order in which its steps can happen. It is all
// tests; nothing imports it, and it knows the protocol, not the code.
//
//	go test -v ./internal/model                                     a million states
//	go test -v ./internal/model -run Holds -timeout 30m -args -large  twelve million more
//
// A state that breaks a property ends the search, and the test tells the shortest
// way there, one step a line. Strike a rule out (the fields of rules, each of
// which quotes its sentence) and read what it prevents.
//
// # What is modelled
//
// Two clients take the lock over and over: a SET to every master, a decision by
// quorum, a second round for the fence, renewals with their repetitions, heals,
// releases. Each client's commands to a master form a queue. The master executes
// the oldest whenever it likes, much later than it was sent if it likes, or it is
// lost; a release alone is never lost but by the death of its client. Masters
// lose their memory at any moment, their connections, queues and counted votes
// surviving; they may wake with what they knew earlier. The incarnation probe may
// be executed long after its vote. Clients die with their releases unsent.
//
// Four properties are looked at in every state:
//   - oneHolder: at most one client has a lease whose validity lasts.
//   - risingFences: each committed fence is above all that were committed before.
//     In worlds where keys vanish, and two may therefore hold at once: no number
//     is committed twice, and each is above all that were committed before its
//     acquisition began.
//   - honestLoss: no renewal that was begun after another client held the lock
//     prolongs the lease.
//   - nothingLeft: a client at rest whose commands have all been executed has no
//     key on any master. Hence everything becomes free: end all leases, let the
//     queues run empty, and only keys of the dead are left, which expire.
//
// # What is abstracted, and why that is sound
//
// The model may do everything that the system can; where it may do more, what it
// finds to hold holds all the more.
//
// Time has no numbers. A lease may end at any step. What ties keys to time is one
// promise: validity is counted from before a round's first command and is shorter
// than the TTL by the drift, so that a key stays at its master until the round
// that set or extended it last has ended, or been superseded by a later round of
// the same lease. After that it may go at any moment (type cover). The ends of
// different clients' rounds come in any order, as with any mixture of TTLs. This
// rests on clocks that run at the same rate up to the drift.
//
// A reply arrives at once, but the client uses it when it likes and may act as if
// it had not come; that covers replies that travel, or are lost. Refusals and
// failures are not kept: they only make a client give up, which it may do anyway.
// Therefore a heal goes to every master that has not granted, not only where the
// key is known to be missing, and where it is not missing does nothing. An
// extension executed after its round does nothing but prolong a key's stay, which
// is up to the model anyway, and is left out.
//
// A quarantine ends at any moment after every round that was open at the restart,
// undecided or held, has ended or been superseded: MaxTTL covers every client's TTL.
// New SETs may be sent to quarantined masters or be lost on the way, so that it
// does not matter to safety whether the client knew.
//
// Fences are small numbers. A proposal is any of a few successive ones, drawn anew
// at each master, which covers differing clocks and the bound that the master's
// own clock puts on it. When a quarantine ends, clocks have passed every fence
// that was committed by a round open at the restart, or before it. In numbers: a
// fence is committed at most 1 s ahead of a clock, a proposal may be as old as its
// acquisition, so that MaxTTL + 2 s must exceed 1 s, the time that the one
// acquisition took from the restart to its commit, the time that the other has
// taken since its proposal, and the difference of their clocks. With
// acquisitions of a few NodeTimeouts it does; slowAcquisition shows what
// happens if not.
//
// Tokens have no numbers either: see type owner. States that differ only in which
// master or client is which are explored once; TestPermutationsLoseNothing checks
// that this loses none.
//
// # What the model taught
//
// That heals must not count in the renewal that made them, nor be made by one that
// failed, matters only to a holder that was stopped without its clocks noticing
// (the worlds that sleep); one that knows its validity to be over has no renewal
// to count them in. For such a sleeper the rule is good as long as all its keys are
// gone when it wakes. If they go one by one, a late SET or heal can make up the
// quorum with the last of them (TestWhatNoClockTells). Only the fence tells then.
//
// The exact acknowledgement matters only where keys vanish before their time, and
// raising the fence by a heal only where clocks do not propose
// (TestRulesThatOtherRulesCover).
//
// A renewal's votes and its validity must begin with the same command: a retry
// that keeps the votes of the attempt before must keep its beginning too.
//
// A release is owed until its SET cannot arrive any more. A restart alone does not
// see to that: FLUSHALL, or a proxy, leaves the SET under way.
//
// # What the model does not cover
//
// More clients, more masters (the number is a constant: four and five hold with
// one restart, two with most of this), and all worlds at once: each has some of
// the misfortunes, and bounds on the commands under way. Rates of clocks, steps of
// clocks, the margins above. Handover and the count of local holders in the fence.
// The queue and its wake-ups, on which nothing depends. How a client knows
// an incarnation: the record, its fingerprint, adoption. Fences that expire after 24 h.
// Whether anybody ever gets the lock.
package model
