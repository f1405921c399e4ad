// Package slots explores exhaustively a semaphore of two slots over three masters, each of which is held by a quorum. It complements
// package model and package grant, where a master gives a lock to one token. It consists of tests only, and models the protocol, not
// the code.
//
// # The protocol
//
// A semaphore with a limit of K has the slots 0 to K-1. A token that stands in a slot at a quorum of masters holds it.
//
//   - A claim registers at all masters. Each master gives it a slot that is free, or puts it into the one queue of the semaphore.
//   - Votes count by slot: a claim wins a slot if a quorum of masters has given it this slot. Votes for several slots are never added up.
//   - A slot that becomes free is given to the token that wishes it, else to a claim that stands in the other slot, if that is wished, else to
//     the head of the queue.
//   - A token aims at a slot: it leaves all others, stands in this one if it is free, and else wishes it. An aim never takes a slot
//     from another token. A winner aims at the masters that gave it another slot. A claim whose votes are split, and which has
//     the most keys of one of its slots, aims at that slot. One that is beaten in all of them is released and registers anew.
//   - A claim aims once. Before the aim is sent, it drops its votes for other slots, and such votes never count again.
//
// # What is modelled
//
// Three masters, one of which may be down, two slots, and up to three clients. Commands travel in the order of the connection;
// answers and messages come in any order, or never. In the worlds with faults, commands get lost, keys expire, and clients give up
// and aim at any moment. In those without, a claim decides when it knows the answers of all masters that live.
//
// Checked in every state: at most two hold, and at most one holds a slot. When nobody wants a permit, and nothing is under way,
// nothing is left at the masters. In the worlds without faults also: no permit is lost. If fewer than two hold, and somebody waits, a
// state can be reached in which one more holds, without a release by a holder. A permit that comes back only when others leave
// would be lost.
//
// TestEachRuleIsNeeded switches off one rule at a time and finds what the rule prevents.
//
// # What it does not cover
//
//   - Claims for several slots at once, and clients with several limits.
//   - Three clients together with faults. The simulation has more clients, more masters and more faults.
//   - Renewals and the restart guard: they treat a slot as package model treats a key.
//   - Progress means that a way exists, not that it is taken.
package slots
