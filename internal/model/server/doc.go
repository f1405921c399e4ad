// Package server specifies what one master does about locks and semaphores: what a key, its queue and its fence are after each command,
// who stands in which slot of a semaphore, how the command is answered, and which messages are sent. The scripts of internal/wire
// carry this out. The specification is written from docs/protocol.md, as plain Go on plain values, and knows nothing of
// how the scripts save commands.
//
// The simulation has each call that a master executes explained by it. A call that is not explained is a violation: either the
// scripts or the specification are wrong. An explanation is complete: the answer, the messages, and what the key, its queue, its
// fence and its readers are afterwards, or the slots of a semaphore, its tokens, wishes and queue. What is left open:
//
//   - How long a queue is kept. That is taken over.
//   - Which claims are told once more that they are near.
//   - Which readers are asked again to leave.
//   - The limits of what a call looks through.
//   - Which slots the bitmap of a semaphore says are taken. What is given and refused shows whether it is right.
//   - Calls of the scripts that read, or keep the record of the master's memory.
package server
