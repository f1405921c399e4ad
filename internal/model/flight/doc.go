// Package flight explores exhaustively how a holder shares the result of its function with clients that wait for the lock:
// Client.SingleFlight. The other models explore the lock itself. Package flight consists of tests only, and it models the
// protocol, not the code.
//
// # The protocol
//
// A client that has the lock calls its function. Before it releases the lock, it has a script publish the result at masters
// that it is sure of: if the key there holds its token, the script sends the result to each claim in the queue. A client that
// waits takes the result from a quorum of masters, of each if the answer to its registration there has said that the key did not hold that
// token. So the token was set there after the call of that client, and before the function began.
//
// A holder is sure of a master if the token can have been set there only before the holder had the lock: the master had
// voted by then; and until the result is published, all registrations and polls were answered, no poll has found the claim
// missing from the queue, no heal was sent, and connection and subscription have lasted since the registration.
//
// # What is modelled
//
// R runs the function, B waits for the result in up to two calls, and S stands for all other clients. There is one master,
// since a result is taken from one. R may have the lock at any time, since others decide about that, too. Commands of a
// connection are executed in order. If a connection is lost, what was on its way may be executed at any later time. Messages
// arrive at any later time. The key may be deleted, as by its expiry or by hand. The master may restart without its
// memory, or with an earlier one.
//
// One property is checked: B takes no result of a function that began before its call. TestEachRuleIsNeeded switches off one
// rule at a time, and finds such a result.
//
// # What it does not cover
//
//   - Whether a result arrives. If it does not, B gets the lock in its turn, and calls its own function.
//   - More than a few polls and misfortunes: see worlds.
package flight
