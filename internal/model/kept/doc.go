// Package kept explores exhaustively how the goroutines of a client share a lock without the masters: one that the client keeps while
// nobody else wants it (LockOptions.Keep), and that of readers. Package model explores the acquisition and the renewals of a lock,
// package waiting the queue, and package readers what masters do for readers. Package kept consists of tests only. Its states
// of a tenure, and their steps, are those of package occupancy, which the code uses.
//
// # The protocol
//
// After an unlock the client keeps the lease, and the next goroutine that locks enters it without a command. When another
// client registers for the lock, the master sends a recall, which names the token, to the client that holds it. The head of
// the queue has a recall sent with each poll, too. A lease that was recalled is released as soon as no goroutine holds it.
//
// The state says who decides about the lease: none, idle, held, or taken. Whoever takes it from idle, in one step, either enters
// the lease or decides what becomes of it. While it is held, all others leave a bit: wanted is that of a goroutine at the
// gate, draining that of a recall or of a loss. Unlock keeps a lease by a step from held without bits to idle. The last one that
// leaves a lease with a bit takes it, and decides: a lease that one goroutine may hold is handed to the first that waits at the
// gate, or is kept after all, or released; that of readers is released.
//
// # What is modelled
//
// K is the client that keeps the lock. It has up to three goroutines, a gate for which they queue, and a handover between
// them. In some worlds they are readers: one of them leads and acquires a lease for all that wait. W is another client. There is one
// master, since the counting of votes is that of any lock. The commands of a client form a queue, and so do the answers to it.
// A recall arrives at any later time, or is lost. Time is counted in ticks, which may pass between any two steps. A key may be
// deleted by hand, and the master may lose its memory.
//
// These properties are checked in every state:
//   - At most one goroutine is inside, or readers alone, and no goroutine enters while W has a lease that is valid.
//   - No goroutine enters a lease that is over, whose release was queued, or that was recalled before.
//   - No goroutine sleeps at the gate of a lease that is kept.
//   - No reader waits for a leader that there is not.
//   - No client waits for a lease that is kept, with nothing under way that tells the keeper. Polls are left out.
//   - No key is left behind.
//
// TestEachRuleIsNeeded switches off one rule at a time and finds what the rule prevents.
//
// The flag -large explores larger worlds: go test -v ./internal/model/kept -run Holds -timeout 30m -args -large
//
// # What it does not cover
//
//   - How long a lock that was recalled is not kept, which only saves round trips.
//   - Fences, several masters, and the sets of readers at the masters.
//   - More than a few calls, ticks and misfortunes: see worlds.
package kept
