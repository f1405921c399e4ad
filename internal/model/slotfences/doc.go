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
