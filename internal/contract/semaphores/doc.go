// Package semaphores tests what Semaphores promise to their callers, in the way in which package contract tests locks. Each file is a
// theme:
//
//	semaphore     permits, limits, several permits at once, errors
//	crowd         many clients that wait for permits
//	figures       how much of the limit is used, and what a permit costs
//	stopped       clients that are stopped while they wait
//	report        what is logged, traced and inspected
//	pitfalls      defects that semaphores on one Redis server have had
//	fence         fences of permits
package semaphores
