// Package kept explores exhaustively how a client keeps a lock that nobody else wants: LockOptions.Keep. Package model explores
// the acquisition and the renewals of a lock, and package waiting the queue. Package kept consists of tests only, and it models
// the protocol, not the code.
//
// # The protocol
//
// After an unlock the client keeps the lease, and the next goroutine that locks enters it without a command. When another
// client registers for the lock, the master sends a recall, which names the token, to the client that holds it. The head of
// the queue has a recall sent with each poll, too. A lease that was recalled is released as soon as no goroutine holds it.
//
// A state says who decides about the lease: none, idle, held, or ending. Whoever takes it from idle to held, in one step,
// either enters the lease or gives it up. While it is held, all others leave a bit: wanted is that of a goroutine at the
// gate, asked that of a recall or of a loss. Unlock keeps a lease by a step from held without bits to idle.
//
// # What is modelled
//
// K is the client that keeps the lock. It has up to three goroutines, a gate for which they queue, and a handover between
// them. W is another client. There is one master, since the counting of votes is that of any lock. The commands of a client
// form a queue, and so do the answers to it. A recall arrives at any later time, or is lost. Time is counted in ticks, which
// may pass between any two steps. A key may be deleted by hand, and the master may lose its memory.
//
// These properties are checked in every state:
//   - At most one goroutine is inside, and no goroutine enters while W has a lease that is valid.
//   - No goroutine enters a lease that is over, whose release was queued, or that was recalled before.
//   - No goroutine sleeps at the gate of a lease that is kept.
//   - No client waits for a lease that is kept, with nothing under way that tells the keeper. Polls are left out.
//   - No key is left behind.
//
// TestEachRuleIsNeeded switches off one rule at a time and finds what the rule prevents.
//
// # What it does not cover
//
//   - How long a lock that was recalled is not kept, which only saves round trips.
//   - Fences, several masters, and readers.
//   - More than a few calls, ticks and misfortunes: see worlds.
package kept
