// Package contract tests what package redlock promises to its callers: through the public API, on embedded masters, and
// where time matters in virtual time. Each file is a theme:
//
//	client        connections, one round over all masters, how long a lease is valid
//	distance      masters that are far away or slow
//	wait          calls that wait: contexts, schedules, what an error says
//	turns         who is next: no client starves beside others
//	grant         locks that a release grants to a client that waits
//	wakeup        the queue, and messages that wake clients
//	lease         how long a lease is held, and how its end shows
//	renewal       renewals, and keys that masters have lost
//	handover      from one goroutine of a Client to the next
//	release       Unlock, UnlockContext, releases that are owed
//	do            Do
//	fence         fencing numbers
//	guard         restarts, quarantines, clocks
//	set           Lockers of several names
//	readers       RWLockers; readers_turns: turns of readers and writers
//	owner         who holds a lock: owners, Inspect
//	log, trace    the Logger, Options.Trace
//	errors        errors, misuse, panics
//	options       bounds and defaults
//	shutdown      Shutdown and Close
//	hostile       masters and users that lie
//	wire          the wire document, and other clients of the algorithm
//
// Package semaphores, below this one, does the same for Semaphores. Tests that need what is not exported are beside the code of
// package redlock. Tests on real servers are in internal/realtest.
package contract
