// Package slotfences explores exhaustively how permits of a semaphore get fences that rise by slot. Package slots explores how they are
// given. It consists of tests only, and models the protocol, not the code.
//
// # The protocol
//
// Each master has one number for the semaphore. A claim that has a quorum for a slot asks all masters for a fence. A master where its
// token stands in the slot raises its number above the last one, acknowledges that, and lets the slot live for longer. The claim's
// fence is not lower than the numbers of a quorum. The permit is held when a quorum has acknowledged a number as high. If too few have,
// a second round commits the fence: a master where the token stands in the slot raises its number to it, if it is lower.
//
// A vote cannot tell a number, as that for a lock does: votes name several slots, and different ones at different masters, and a token also comes to
// stand in a slot by a wish, a heal or an exchange, which no answer tells. So the fence is taken after the claim has won, by a round of its own. If
// all masters answer, one round is enough. The acknowledgement need not be exact, as that for a lock must be: others raise the number for their
// slots meanwhile.
//
// # Why it holds
//
// Let A and then B hold slot s. Some master has acknowledged A's fence for s, and has given B a number for s in its first round. There, a slot
// has one token at a time. If B had been given the number first, its slot would have had to expire there before A's token came to stand in it,
// and B's permit is not held then: its first round must not be over. So A's commit came first, and B's number is above A's fence. A master that
// has lost its number begins again at its clock, as for locks, and for the same reasons. A heal need not raise the number.
//
// A proposal with each release, as for locks, would save the round trip only where the votes told numbers, and holders of other slots raise these
// meanwhile.
//
// # What is modelled
//
// Three masters, two slots at most, and two clients with a claim each. A claim comes to stand in any free slot of any master at any
// time, since package slots explores when it does. Commands and answers get lost; a claim may propose a low number or a high one; an
// acknowledgement ends when its slot does; slots expire; clients give up or release at any time. A master may lose its memory: it does
// not vote until all claims of that time have ended, and then its clock has passed their fences.
//
// Checked in every state: at most one holds a slot, and each holder of a slot has a greater fence than all before it.
//
// TestEachRuleIsNeeded switches off one rule at a time and finds fences that do not rise.
//
// # What it does not cover
//
//   - Claims on several slots. Each slot has a quorum of its own, so the argument holds for each.
//   - Clocks that differ by more than the fences of locks allow: see package fence.
package slotfences
