// Package contract tests what package redlock promises to its callers: through the public API, on embedded masters, and
// where time matters in virtual time. Each file is a theme:
//
//	client        connections, one round over all masters, how long a lease is valid
//	distance      masters that are far away or slow
//	wait          calls that wait: contexts, schedules, what an error says
//	vain          waits that cannot end: a missing right, a key that is not a lock
//	turns         who is next: no client starves beside others
//	grant         locks that a release grants to a client that waits
//	messages      the queue, and the messages about grants and places
//	crowd         many clients that wait for one lock
//	notes         what masters store of clients that wait, and how it ends
//	lease         how long a lease is held, and how its end shows
//	wanted        Lease.Wanted
//	renewal       renewals, and keys that masters have lost
//	handover      from one goroutine of a Client to the next; handover_trips: what each pair of holders costs
//	kept          LockOptions.Keep; kept_entry: to enter a kept lock; kept_recall: recalls; kept_rights: users with few rights
//	release       Unlock, UnlockContext, releases that are owed
//	do            Do
//	flight        SingleFlight
//	fence         fencing numbers
//	guard         restarts, quarantines, clocks
//	set           Lockers of several names
//	readers       RWLockers; readers_turns: turns of readers and writers; readers_share: those of one Client; readers_waiting: without messages
//	owner         who holds a lock: owners, Inspect
//	lists, roll   clients with other lists of masters; to change the list
//	log, trace    the Logger, Options.Trace
//	errors        errors, misuse, panics
//	options       bounds and defaults
//	shutdown      Shutdown and Close
//	hostile       masters and users that lie
//	wire          the wire document, and other clients of the algorithm
//
// Package semaphores, below this one, does the same for Semaphores. Tests of users' calls that need what is not exported are in
// internal/engine. Tests on real servers are in internal/realtest.
package contract
